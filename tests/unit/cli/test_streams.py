"""Standard streams that are closed or full; real processes, since nothing else has them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from knp_py.cli import streams

EVAL = "eval -m {shop} --from shop/web --to shop/db"
CLOSED = "knp: standard output: Bad file descriptor\n"
FULL = "knp: standard output: No space left on device\n"
SHOP = Path(__file__).resolve().parents[3] / "examples" / "quickstart"

needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")


def shell(
    command: str, redirections: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    line = f"exec {sys.executable} -m knp_py {command.format(shop=SHOP)} {redirections}"
    return subprocess.run(
        ["sh", "-c", line],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("command", [EVAL, f"{EVAL} -o json", "eval --help", "--version", ""])
@pytest.mark.parametrize(
    ("redirections", "message"),
    [(">&-", CLOSED), pytest.param(">/dev/full", FULL, marks=needs_full), (">&- 2>&-", "")],
)
def test_output_that_cannot_be_written_is_an_error(
    command: str, redirections: str, message: str
) -> None:
    ended = shell(command, redirections)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", message)


@needs_full
def test_an_output_that_is_written_at_once_is_no_different() -> None:
    for command in (EVAL, "eval --help"):
        ended = shell(command, ">/dev/full", PYTHONUNBUFFERED="1")
        assert (ended.returncode, ended.stderr) == (2, FULL)


@needs_full
def test_the_first_complaint_is_not_lost_with_the_output() -> None:
    ended = shell("eval -m {shop} --from shop/web --to shop/no", ">/dev/full")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "there is no pod shop/no" in ended.stderr


@pytest.mark.parametrize("redirection", ["2>&-", pytest.param("2>/dev/full", marks=needs_full)])
@pytest.mark.parametrize(
    ("command", "code"),
    [(EVAL, 0), (f"{EVAL} --expect allow", 1), ("nonsense", 2), ("logs /nowhere", 2)],
)
def test_messages_that_cannot_be_shown_change_no_exit_code(
    command: str, code: int, redirection: str
) -> None:
    assert shell(command, redirection).returncode == code


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("logs", 2, "knp: standard input: bad file descriptor\n"),
        ("logs --follow -", 2, "knp: standard input: bad file descriptor\n"),
        (
            "eval -m - --from a/b --to c/d",
            2,
            "knp: standard input: cannot be read: bad file descriptor\n",
        ),
        ("eval -m {shop} --probes -", 2, "knp: standard input: bad file descriptor\n"),
        ("replay - -m {shop}", 2, "knp: standard input: bad file descriptor\n"),
        (EVAL, 0, ""),
    ],
)
def test_a_closed_input_matters_where_it_is_needed(command: str, code: int, message: str) -> None:
    ended = shell(command, "<&-")
    assert (ended.returncode, ended.stderr) == (code, message)


def test_the_number_of_a_closed_stream_goes_to_no_other_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("what is no verdict\n")
    assert shell(f"logs {log}", "<&- >&- 2>&-").returncode == 2
    assert log.read_text() == "what is no verdict\n"


@pytest.mark.parametrize("environment", [{}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_the_plainest_locale_will_do(environment: dict[str, str]) -> None:
    record = (
        '{"ts":null,"id":1,"verdict":"deny","direction":null,"src":{"ip":"10.0.0.1","pod":"x/ü"},'
        '"dst":{"ip":"10.0.0.2"},"family":"IPv4","protocol":"TCP","decided_by":null,'
        '"packets":1,"bytes":1,"reason":null}'
    )
    for output in ("table", "compact", "json"):
        command = f"logs -o {output}"
        ended = shell(command, f"<<'E'\n{record}\nE\n", LC_ALL="C", **environment)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "x/ü" in ended.stdout or "x/\\xfc" in ended.stdout


def test_streams_that_are_not_the_real_ones_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "__stdout__", None)
    monkeypatch.setattr(sys, "__stderr__", None)
    before = sys.stdin, sys.stdout, sys.stderr
    streams.open_streams()
    assert (sys.stdin, sys.stdout, sys.stderr) == before
    capsys.readouterr()
