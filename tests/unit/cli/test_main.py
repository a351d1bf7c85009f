import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import pytest
import typer
from helpers.command import knp, run_knp, start_knp

import knp_py
from knp_py.cli import main as main_module
from knp_py.cli.main import COMMANDS, Command, new_app
from knp_py.errors import InputError, KnpError, ManifestError, NotPermittedError

WORDS = "table, compact, json, jsonl"
LOGS_HELP = "(see knp logs --help)"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A command of our own making, called ``example``."""
    module = ModuleType("knp_py.cli.example")
    module.__spec__ = __import__("importlib.util", fromlist=["util"]).spec_from_loader(
        module.__name__, loader=None
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(COMMANDS, "example", "For tests")
    module.EXAMPLES = "knp example\ncat x | knp example -\n"  # type: ignore[attr-defined]
    return module


def raising(error: BaseException) -> object:
    def command() -> None:
        """For tests."""
        raise error

    return command


def test_version() -> None:
    assert knp("--version") == (0, f"knp {knp_py.__version__}\n", "")


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]])
def test_help_lists_the_commands_there_are(argv: list[str]) -> None:
    code, out, err = knp(*argv)
    assert (code, err) == (0, "")
    assert "What would happen to this flow, and who decides" in out
    assert "Examples:\n  knp eval --manifests" in out
    assert "enforce" not in out.replace("Enforce policy on this node", "")


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"agent", "lab"}))
def test_every_commands_help_has_examples(name: str) -> None:
    if name not in typer.main.get_command(_root_app()).commands:  # type: ignore[attr-defined]
        pytest.skip(f"knp {name} is not there yet")
    code, out, _ = knp(name, "--help")
    assert code == 0
    assert f"Usage: knp {name} " in out
    examples = out.partition("\nExamples:\n")[2]
    assert re.search(rf"^  (.*\| )?knp {name} ", examples, re.MULTILINE)
    assert len(max(out.splitlines(), key=len)) <= (80 if name in {"eval", "logs"} else 110)


def _root_app() -> typer.Typer:
    app = typer.Typer()
    app.callback(cls=main_module._Root)(lambda: None)
    return app


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["evil"], "knp: No such command 'evil'. Did you mean 'eval'? (see knp --help)"),
        (["--what"], "knp: No such option: --what (see knp --help)"),
        (["logs", "--zzz"], "knp: No such option: --zzz (see knp logs --help)"),
        (
            ["logs", "-o", "x"],
            f"knp: Invalid value for '--output' / '-o': 'x' is not one of {WORDS} {LOGS_HELP}",
        ),
        (["logs", "a", "b"], "knp: Got unexpected extra argument(s) (b) (see knp logs --help)"),
        (["eval", "."], "knp: Got unexpected extra argument(s) (.) (see knp eval --help)"),
        (
            ["eval", "-o", "json", "a", "b"],
            "knp: Got unexpected extra argument(s) (a b) (see knp eval --help)",
        ),
        (["eval", "--zzz", "."], "knp: No such option: --zzz (see knp eval --help)"),
        (["eval"], "knp: Missing option '--manifests' / '-m' (see knp eval --help)"),
        (["logs", "--tier"], "knp: Option '--tier' requires an argument (see knp logs --help)"),
    ],
)
def test_a_usage_error_is_one_line_with_the_next_step(argv: list[str], line: str) -> None:
    assert knp(*argv) == (2, "", line + "\n")


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (InputError("x.yaml: bad"), 2, ["knp: x.yaml: bad"]),
        (KnpError("no"), 2, ["knp: no"]),
        (NotPermittedError("needs root"), 3, ["knp: needs root"]),
        (ManifestError(["one", "two"]), 2, ["knp: one", "knp: two"]),
        (typer.Exit(1), 1, []),
        (typer.Abort(), 130, []),
    ],
)
def test_how_a_command_ends(
    example: ModuleType, error: BaseException, code: int, lines: list[str]
) -> None:
    example.command = raising(error)  # type: ignore[attr-defined]
    ended = knp("example")
    assert (ended.code, ended.err.splitlines()) == (code, lines)


def test_a_bug_keeps_its_traceback(example: ModuleType) -> None:
    example.command = raising(ZeroDivisionError())  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError):
        knp("example")


def test_a_command_may_have_commands(example: ModuleType) -> None:
    app = new_app()

    @app.callback()
    def top() -> None:
        """The top."""

    @app.command("add", cls=Command, epilog="knp example add 1 2\n")
    def add(numbers: Annotated[list[int], typer.Argument()]) -> None:
        """Adds."""
        typer.echo(sum(numbers))

    example.app = app  # type: ignore[attr-defined]
    assert knp("example", "add", "1", "2") == (0, "3\n", "")
    assert "Examples:\n  knp example add 1 2\n" in knp("example", "add", "--help").out
    assert (
        "'x' is not a whole number (see knp example add --help)" in knp("example", "add", "x").err
    )


def test_the_program_is_shown_as_invoked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-knp", "logs", "--what"])
    assert main_module._program(sys.argv[0]) == "kubectl knp"
    assert main_module._program("/x/knp") == "knp"
    assert main_module._program("/x/knp_py/__main__.py") == "knp"
    assert main_module._program("") == "knp"


def test_only_what_the_command_needs_is_imported(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("")
    script = (
        "import sys\n"
        "from knp_py.cli.main import run\n"
        f"run(['logs', {str(log)!r}])\n"
        "print(*sorted(sys.modules))\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    modules = set(out.split())
    assert "knp_py.cli.logs" in modules
    assert not modules & {"knp_py.cli.eval", "knp_py.cli.replay", "knp_py.cli.test"}
    assert not modules & {"pydantic", "rich", "scapy", "dnslib", "yaml", "asyncio"}


@pytest.mark.parametrize(
    ("words", "offered", "not_offered"),
    [
        ("knp ", {"eval", "logs"}, set()),
        ("knp lo", {"logs"}, {"eval"}),
        ("knp logs --fo", {"--follow"}, {"--from"}),
        ("knp logs -o ", {"table", "compact", "json", "jsonl"}, set()),
        ("knp eval --fqdn-scope ", {"pod", "node"}, set()),
    ],
)
def test_completion_knows_commands_options_and_values(
    words: str, offered: set[str], not_offered: set[str]
) -> None:
    environment = {
        "_KNP_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    ended = run_knp(env=environment)
    shown = set(ended.out.split())
    assert offered <= shown
    assert not not_offered & shown


@pytest.mark.parametrize(("program", "name"), [("knp", "knp"), ("kubectl knp", "kubectl-knp")])
def test_the_completion_script_is_for_the_program_as_installed(
    program: str, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    with pytest.raises(SystemExit) as ended:
        main_module.run(["--show-completion", "bash"], program)
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"complete -o default -F _{name.replace('-', '_')}_completion {name}" in out
    assert f"_{name.replace('-', '_').upper()}_COMPLETE=complete_bash" in out


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        '{"ts":null,"id":1,"verdict":"deny","direction":null,"src":{"ip":"10.0.0.1"},'
        '"dst":{"ip":"10.0.0.2"},"family":"IPv4","protocol":"TCP","decided_by":null,'
        '"packets":1,"bytes":1,"reason":null}\n' * 20_000
    )
    process = start_knp("logs", str(log))
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_ctrl_c_ends_without_a_traceback(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("not a verdict\n")
    process = start_knp("logs", "--follow", "-o", "json", str(log))
    assert process.stderr is not None
    try:
        with log.open("a") as file:
            file.write(
                '{"ts":null,"id":1,"verdict":"deny","direction":null,"src":{"ip":"10.0.0.1"},'
                '"dst":{"ip":"10.0.0.2"},"family":"IPv4","protocol":"TCP","decided_by":null,'
                '"packets":1,"bytes":1,"reason":null}\n'
            )
        assert process.stdout is not None
        assert b'"verdict":"deny"' in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert err.startswith(b"knp: 1 of 2 lines cannot be read; the first is line 1: ")
    assert b"Traceback" not in err
    assert out == b""


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (InputError("x"), 2), (typer.Exit(3), 3)]
)
def test_the_entry_point_exits(
    example: ModuleType, error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    example.command = raising(error)  # type: ignore[attr-defined]
    monkeypatch.setattr(sys, "argv", ["knp", "example"])
    for argv in (None, ["example"]):
        with pytest.raises(SystemExit) as ended:
            main_module.main(argv)
        assert ended.value.code == code
