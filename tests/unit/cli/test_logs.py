import gzip
import json
import re
from pathlib import Path

import pytest
from helpers.command import knp, start_knp
from helpers.knp_logs import Flow, json_lines, text_lines

RECORD = (
    '{"ts":"2026-11-29T20:38:00.123456Z","id":303,"verdict":"deny","direction":"egress",'
    '"src":{"ip":"10.244.1.6","port":37368,"pod":"team-a/agent"},"dst":{"ip":"172.66.147.243",'
    '"port":443,"names":["api.github.com"]},"family":"IPv4","protocol":"TCP","decided_by":'
    '{"direction":"egress","tier":"Admin","policy":"default-deny","rule":0,"rule_name":'
    '"deny-everything-else","action":"Deny"},"packets":3,"bytes":180,"reason":null}'
)
DENIED = Flow(1, tiers=[("Egress", "Admin", "Deny")], denied="Egress")
ALLOWED = Flow(
    2, src="10.9.9.9:5", dst="10.244.1.6:8080", src_pod="external", dst_pod="team-a/agent"
)
JSON = json_lines(Flow(3, dst="fd00::2:53", src="fd00::1:55", protocol="UDP", src_pod="x/y"))


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log"
    path.write_text("\n".join([*text_lines(DENIED), *text_lines(ALLOWED), *JSON, RECORD, ""]))
    return str(path)


def ids(*argv: str) -> list[int]:
    code, out, _ = knp("logs", *argv, "-o", "json")
    assert code == 0
    return [json.loads(line)["id"] for line in out.splitlines()]


def test_everything(log: str) -> None:
    assert ids(log) == [1, 2, 3, 303]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (["--verdict", "deny"], [1, 303]),
        (["--verdict", "deny", "--verdict", "allow"], [1, 2, 3, 303]),
        (["--verdict", "unknown"], []),
        (["--pod", "team-a/agent"], [1, 2, 303]),
        (["--from", "team-a/*"], [1, 303]),
        (["--to", "10.244.0.0/16"], [2]),
        (["--to", "fd00::2"], [3]),
        (["--name", "*.github.com"], [303]),
        (["--policy", "default-deny"], [303]),
        (["--tier", "admin"], [1, 303]),
        (["--tier", "Admin", "--policy", "other"], []),
        (["--since", "1m"], []),
        (["--since", "10000d"], [1, 2, 3, 303]),
    ],
)
def test_filters(log: str, options: list[str], kept: list[int]) -> None:
    assert ids(log, *options) == kept


def test_json_is_a_log_again(log: str, tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.write_text(knp("logs", log, "-o", "json").out)
    assert knp("logs", str(again), "-o", "json") == knp("logs", log, "-o", "json")


def test_table(log: str) -> None:
    code, out, err = knp("logs", log)
    assert (code, err) == (0, "")
    header, *rows = out.splitlines()
    assert header.split() == ["TIME", "VERDICT", "FROM", "TO", "PROTO", "DECIDED", "BY"]
    assert re.fullmatch(
        r"07-12 09:53:52  deny {5}team-a/agent {12}172\.66\.147\.243:443 {8}TCP {4}Admin", rows[0]
    )
    assert "[fd00::2]:53" in rows[2]


def test_compact_is_one_line_for_grep(log: str) -> None:
    lines = knp("logs", log, "-o", "compact").out.splitlines()
    assert lines[3] == (
        "2026-11-29T20:38:00.123456Z deny egress TCP team-a/agent:37368 -> "
        "172.66.147.243 (api.github.com):443 by Admin default-deny[0] deny-everything-else"
    )


def test_colours_are_for_terminals(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b" not in knp("logs", log).out
    assert "\x1b[31mdeny\x1b[0m" in knp("logs", log, terminal=True).out


def test_summary(log: str) -> None:
    code, out, _ = knp("logs", "--summary", log)
    lines = [line.split() for line in out.splitlines()]
    assert code == 0
    assert out.startswith("4 entries in ")
    assert ": 2 allow, 2 deny\n" in out
    assert ["deny", "egress", "Admin", "default-deny[0]", "deny-everything-else", "1"] in lines
    assert ["team-a/agent", "172.66.147.243", "TCP", "443", "1"] in lines


def test_summary_as_json(log: str) -> None:
    document = json.loads(knp("logs", "--summary", "-o", "json", log, "--verdict", "deny").out)
    assert document["entries"] == 2
    assert document["verdicts"] == {"deny": 2}
    assert document["without_entry"] == {}
    assert document["top_denied"][0] == {
        "from": "team-a/agent",
        "to": "172.66.147.243",
        "protocol": "TCP",
        "port": "443",
        "count": 1,
    }


def test_an_empty_log_is_no_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    assert knp("logs", str(empty)) == (0, "", "")
    assert knp("logs", "--summary", str(empty)).out == "0 entries in 0 lines\n"


@pytest.mark.parametrize("argv", [["-"], [], ["-", "--follow"]])
def test_standard_input_plain_and_gzip(argv: list[str]) -> None:
    data = f"{RECORD}\n".encode()
    for stdin in (data, gzip.compress(data)):
        code, out, err = knp("logs", *argv, "-o", "json", stdin=stdin)
        assert (code, out, err) == (0, f"{RECORD}\n", "")


def test_what_could_not_be_used_is_said(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\xffrubbish\x1b[31m\n" + "\n".join(text_lines(DENIED)[-2:]).encode())
    code, out, err = knp("logs", str(path), "--since", "1h")
    assert (code, out) == (0, "")
    assert err == (
        "knp: 1 of 3 lines are verdicts whose packet is not in the log\n"
        "knp: 1 of 3 lines cannot be read; the first is line 1: neither a verdict record nor a"
        " line of klog: \N{REPLACEMENT CHARACTER}rubbish\\x1b[31m\n"
    )


def test_entries_without_a_time_are_shown_and_said(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("\n".join(text_lines(DENIED, header=False)))
    code, out, err = knp("logs", str(path), "--since", "1h", "-o", "compact")
    assert (code, out[:6]) == (0, "- deny")
    assert err == "knp: 1 entries have no time that --since could judge; they are shown\n"


def test_a_filter_that_foreign_logs_cannot_answer_says_so(log: str) -> None:
    assert "name no policies" in knp("logs", log, "--policy", "default-deny").err


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["/nowhere"], "knp: /nowhere: No such file or directory\n"),
        (["/"], "knp: /: Is a directory\n"),
        (
            ["--tier", "x", "/"],
            "knp: --tier: 'x' is not one of Admin, NetworkPolicy, Baseline, Default\n",
        ),
        (
            ["--since", "soon", "/"],
            "knp: --since: 'soon' is no duration like 90s, 15m, 1h30m or 2d\n",
        ),
        (
            ["--from", "x", "/"],
            "knp: --from: 'x' is neither NS/POD nor an address nor a network\n",
        ),
    ],
)
def test_bad_input_is_one_line(argv: list[str], line: str) -> None:
    assert knp("logs", *argv) == (2, "", line)


def test_following_prints_each_entry_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(f"{RECORD}\n")
    process = start_knp("logs", "-f", "--verdict", "deny", "-o", "json", str(path))
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["id"] == 303
        path.rename(tmp_path / "log.1")
        path.write_text("\n".join(text_lines(DENIED)))
        assert json.loads(process.stdout.readline())["id"] == 1
    finally:
        process.kill()
        process.communicate()
