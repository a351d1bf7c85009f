"""What needs no root; ``tests/rooted/test_lab.py`` has the rest."""

import os
import subprocess
import sys

import pytest
from helpers.command import knp

from knp_py.cli.lab_status import LabStatus, print_status
from knp_py.cli.options import OutputFormat


def test_every_command_explains_itself() -> None:
    shown = knp("lab", "--help").out
    for command in ("up", "test", "exec", "status", "down"):
        assert f"  {command} " in shown
        ended = knp("lab", command, "--help")
        assert ended.code == 0
        assert "Examples:" in ended.out


def test_the_examples_of_exec_are_of_pods_that_the_examples_have() -> None:
    shown = knp("lab", "exec", "--help").out
    assert " nc " not in shown
    assert "db.shop" not in shown


@pytest.mark.parametrize("command", ["up", "test"])
def test_the_agents_options_come_last(command: str) -> None:
    usage = knp("lab", command, "--help").out.splitlines()[0]
    assert usage.endswith("[-- AGENT OPTIONS]")


@pytest.mark.parametrize("command", ["up", "test", "exec", "status", "down"])
def test_without_root_there_is_one_line(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    argv = ["a/b", "true"] if command == "exec" else []
    ended = knp("lab", command, *argv)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err == "knp: knp lab needs root to make network namespaces: run it by sudo\n"


def test_help_loads_no_more_than_it_shows() -> None:
    program = (
        "import sys\nfrom knp_py.cli.main import run\nrun(['lab', '--help'])\n"
        "heavy = {'asyncio', 'dnslib', 'yaml', 'rich', 'knp_py.engine', 'knp_py.replay'}\n"
        "sys.exit(str(heavy & sys.modules.keys()) if heavy & sys.modules.keys() else 0)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_the_status_of_a_lab_fits_100_columns(capsys: pytest.CaptureFixture[str]) -> None:
    pods: dict[str, tuple[str, ...]] = {"shop/web": ("10.244.1.5", "fd00:10:244:1::5")}
    agent = {"pid": 4194304, "running": True, "mode": "fail-closed", "generation": 12}
    lab = LabStatus("sandboxes", False, "examples/x", pods, agent, "/run/knp/lab/sandboxes")
    print_status([lab], OutputFormat.TABLE)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert " ".join(lines).startswith(
        "sandboxes: not whole: its server does not run, agent 4194304 fail-closed, generation 12;"
        " files in /run/knp/lab/sandboxes POD"
    )
