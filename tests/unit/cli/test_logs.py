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
CONNECTION = "team-a/agent:37368 → 172.66.147.243:443 TCP (api.github.com)"
OF_AN_AGENT = json.dumps(
    json.loads(RECORD)
    | {
        "id": 304,
        "enforced": False,
        "again": True,
        "shadow": {
            "verdict": "allow",
            "decided_by": {"direction": "egress", "tier": "Admin", "policy": "next", "rule": 0},
        },
    }
)
OMISSION = (
    '{"ts":"2026-11-29T20:38:01.000000Z","omitted":{"allow":123,"deny":4},"seconds":1.01,'
    '"reason":"limit"}'
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
        (["--pod", "team-?/ag*"], [1, 2, 303]),
        (["--pod", "*/[xy]"], [3]),
        (["--to", "*/*"], [2]),
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
    indent = " " * 32
    assert out.splitlines() == [
        "    #  time            verdict  connection",
        "    1  07-12 09:53:52  deny     team-a/agent:37368 → 172.66.147.243:443 TCP",
        f"{indent}egress: Admin",
        "    2  07-12 09:53:52  allow    10.9.9.9:5 → team-a/agent:8080 TCP",
        f"{indent}not said in the log",
        "    3  07-12 09:36:40  allow    x/y:55 → [fd00::2]:53 UDP",
        f"{indent}not said in the log",
        f"  303  11-29 20:38:00  deny     {CONNECTION}",
        f'{indent}egress: Admin default-deny, rule 0 "deny-everything-else"',
    ]


def long_record(identity: object) -> str:
    pod = f"{'n' * 60}/{'p' * 250}"
    record = json.loads(RECORD)
    record["id"] = identity
    record["src"]["pod"] = record["dst"]["pod"] = pod
    record["dst"]["names"] = ["a" * 200 + ".example.com"]
    record["unidentified"] = ["u" * 250, "\x1b[31m"]  # a log may say anything
    record["decided_by"] |= {"policy": "q" * 250, "rule_name": "name with \x1b[31m words " * 9}
    return json.dumps(record)


@pytest.mark.parametrize("identity", [1, 123_456_789_012, 10**18, "x" * 80, [1, {}], None])
def test_nothing_is_wider_than_100_columns(identity: object) -> None:
    data = f"{long_record(identity)}\n".encode()
    for options in ([], ["--summary"]):
        code, out, err = knp("logs", *options, stdin=data)
        assert (code, err) == (0, "")
        assert max(map(len, out.splitlines())) <= 100
        assert "\x1b" not in out
        joined = re.sub(r"\s", "", out)
        assert "q" * 250 in joined
        assert f"{'n' * 60}/{'p' * 250}" in joined
    assert knp("logs", "-o", "compact", stdin=data).out.count("\n") == 1


def test_compact_is_one_line_for_grep(log: str) -> None:
    lines = knp("logs", log, "-o", "compact").out.splitlines()
    assert lines[3] == (
        "2026-11-29T20:38:00.123456Z deny egress team-a/agent:37368 -> 172.66.147.243:443 TCP"
        ' (api.github.com) by Admin default-deny, rule 0 "deny-everything-else"'
    )
    assert lines[1].endswith(" allow - 10.9.9.9:5 -> team-a/agent:8080 TCP by not said in the log")


def test_jsonl_is_another_word_for_json(log: str) -> None:
    assert knp("logs", log, "-o", "jsonl") == knp("logs", log, "-o", "json")
    lines = knp("logs", log, "-o", "jsonl", "--summary").out.splitlines()
    assert len(lines) == 1
    assert json.loads(lines[0]) == json.loads(knp("logs", log, "-o", "json", "--summary").out)


def test_colours_are_for_terminals(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b" not in knp("logs", log).out
    assert "\x1b[31mdeny\x1b[0m" in knp("logs", log, terminal=True).out


def test_summary(log: str) -> None:
    code, out, _ = knp("logs", "--summary", log)
    assert code == 0
    assert re.fullmatch(r"4 entries in \d+ lines: 2 allow, 2 deny", out.splitlines()[0])
    assert out.splitlines()[1:] == [
        "",
        "verdict  count  decided by",
        "allow        2  not said in the log",
        "deny         1  egress: Admin",
        'deny         1  egress: Admin default-deny, rule 0 "deny-everything-else"',
        "",
        "count  denied connections",
        "    1  team-a/agent → 172.66.147.243 TCP 443",
        "    1  team-a/agent → 172.66.147.243 (api.github.com) TCP 443",
    ]


def test_the_default_has_no_direction_in_a_summary() -> None:
    record = json.loads(RECORD) | {"verdict": "allow"}
    lines = []
    for direction in ("egress", "ingress", "egress"):
        record["decided_by"] = {"direction": direction, "tier": "Default", "action": "Accept"}
        lines.append(json.dumps(record) + "\n")
    out = knp("logs", "--summary", stdin="".join(lines).encode()).out
    assert "allow        3  default: no policy decided\n" in out


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


def test_the_summary_of_one(log: str) -> None:
    records = knp("logs", log, "-o", "jsonl").out.splitlines()
    out = knp("logs", "--summary", stdin=f"{records[0]}\n".encode()).out
    assert out.startswith("1 entry in 1 line: 1 ")


@pytest.mark.parametrize("argv", [["-"], [], ["-", "--follow"]])
def test_standard_input_plain_and_gzip(argv: list[str]) -> None:
    data = f"{RECORD}\n".encode()
    for stdin in (data, gzip.compress(data)):
        code, out, err = knp("logs", *argv, "-o", "json", stdin=stdin)
        assert (code, out, err) == (0, f"{RECORD}\n", "")


@pytest.mark.parametrize("output", ["table", "compact", "json"])
def test_that_nothing_matches_is_said(log: str, output: str) -> None:
    ended = knp("logs", log, "--pod", "team-b/*", "-o", output)
    assert ended == (0, "", "knp: 4 records read, none matches\n")
    data = f"{RECORD}\n".encode()
    assert knp("logs", "--to", "1.1.1.1", stdin=data).err == "knp: 1 record read, none matches\n"


@pytest.mark.parametrize("options", [[], ["--summary"], ["-o", "json"], ["--verdict", "deny"]])
def test_an_input_of_which_nothing_can_be_read_is_no_log(
    tmp_path: Path, options: list[str]
) -> None:
    path = tmp_path / "passwd"
    path.write_text("\nroot:x:0:0\nbin:x:1:1\n")
    reason = "neither a verdict record nor a line of klog: root:x:0:0"
    line = f"no line can be read; the first is line 2: {reason}\n"
    assert knp("logs", str(path), *options) == (2, "", f"knp: {path}: {line}")
    ended = knp("logs", *options, stdin=path.read_bytes())
    assert ended == (2, "", f"knp: standard input: {line}")


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
        (["/nowhere"], "knp: /nowhere: no such file or directory\n"),
        (["/"], "knp: /: is a directory\n"),
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


AGENTS_LOG = f"{RECORD}\n{OF_AN_AGENT}\n{OMISSION}\n".encode()
REMARKS = "dry run: not dropped; judged again; shadow: allow by egress: Admin next, rule 0"
LEFT_OUT = "123 allow, 4 deny left out in 1.01 s: more lines a second than the log may have"


def test_what_the_agent_says_besides() -> None:
    out = knp("logs", stdin=AGENTS_LOG).out
    assert REMARKS in " ".join(out.split())
    assert LEFT_OUT in " ".join(out.split())
    compact = knp("logs", "-o", "compact", stdin=AGENTS_LOG).out.splitlines()
    assert compact[1].endswith(f' rule 0 "deny-everything-else" ({REMARKS})')
    assert compact[2] == f"2026-11-29T20:38:01.000000Z omitted - {LEFT_OUT}"
    again = knp("logs", "-o", "json", stdin=AGENTS_LOG).out
    assert knp("logs", stdin=again.encode()).out == out
    assert again.splitlines()[2] == OMISSION


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--verdict", "deny"], True),
        (["--verdict", "unknown"], False),
        (["--since", "1m"], False),
        (["--pod", "x/y"], True),  # it may be among them
    ],
)
def test_what_was_left_out_is_told_where_it_may_matter(options: list[str], told: bool) -> None:
    out = knp("logs", *options, "-o", "compact", stdin=AGENTS_LOG).out
    assert (" omitted - " in out) is told


def test_the_summary_of_an_agents_log() -> None:
    lines = knp("logs", "--summary", stdin=AGENTS_LOG).out.splitlines()
    assert lines[:4] == [
        "2 entries in 3 lines: 2 deny",
        "1 of them in a dry run: judged so and not dropped",
        "1 of them for established connections, judged again",
        "besides, left out of the log: 123 allow, 4 deny",
    ]
    assert "    1  deny → allow  egress: Admin next, rule 0" in lines
    document = json.loads(knp("logs", "--summary", "-o", "json", stdin=AGENTS_LOG).out)
    assert (document["dry_run"], document["again"]) == (1, 1)
    assert document["omitted"] == {"allow": 123, "deny": 4}
    assert document["shadows"] == [
        {
            "verdict": "deny",
            "shadow": "allow",
            "decided_by": "egress: Admin next, rule 0",
            "count": 1,
        }
    ]


def strange(*addresses: str) -> str:
    record = json.loads(RECORD) | {"verdict": "allow", "unidentified": list(addresses)}
    record["src"] = {"ip": addresses[0], "port": 37368}
    return json.dumps(record) + "\n"


def test_an_address_in_the_pod_network_that_is_no_known_pods_is_said() -> None:
    log = f"{RECORD}\n{strange('10.244.1.9')}".encode()
    said = "unidentified: 10.244.1.9 (in a pod network, no known pod's)"
    *_, connection, who, remark = knp("logs", stdin=log).out.splitlines()
    assert connection.endswith("10.244.1.9:37368 → 172.66.147.243:443 TCP (api.github.com)")
    assert who.strip().startswith("egress: Admin default-deny")
    assert remark == " " * 32 + said
    compact = knp("logs", "-o", "compact", stdin=log).out.splitlines()
    assert compact[1].endswith(f" ({said})")
    assert "unidentified" not in compact[0]


def test_the_summary_says_how_many_ends_are_unidentified_and_which() -> None:
    addresses = [f"10.244.{n}.9" for n in range(30)]
    log = "".join([f"{RECORD}\n", *map(strange, addresses), strange("10.244.7.9", "fd00::1")])
    lines = knp("logs", "--summary", stdin=log.encode()).out.splitlines()
    assert lines[1] == "31 of them with an address in a pod network that no known pod has"
    table = lines[lines.index("count  unidentified addresses") :]
    assert table[1:3] == ["    2  10.244.7.9", "    1  10.244.0.9"]
    assert table[21] == "and 11 addresses more"
    document = json.loads(knp("logs", "--summary", "-o", "json", stdin=log.encode()).out)
    assert document["unidentified"] == 31
    assert document["unidentified_addresses"][0] == {"address": "10.244.7.9", "count": 2}
    assert len(document["unidentified_addresses"]) == 20


def test_a_summary_says_that_there_were_more_denied_flows_than_it_lists() -> None:
    record = json.loads(RECORD)
    lines = []
    for port in range(1, 24):
        record["dst"]["port"] = port
        lines.append(json.dumps(record) + "\n")
    out = knp("logs", "--summary", stdin="".join(lines).encode()).out
    assert out.endswith("\nand 3 flows more\n")
    assert "flows more" not in knp("logs", "--summary", stdin="".join(lines[:20]).encode()).out
