"""One short round of the agent's bench: programs, namespaces, rules and agents, no rates."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from bench.agent import profile
from bench.agent.__main__ import main, missing
from bench.agent.network import PREFIX
from bench.agent.programs import build
from bench.agent.programs import missing as programs_missing

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=f"needs {missing()}"),
]


def left_behind() -> list[str]:
    spaces = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    return [line for line in spaces.splitlines() if line.startswith(f"{PREFIX}{os.getpid()}-")]


def test_one_short_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = ["none", "tracked", "remember", "c", "netfilterqueue", "many", "log", "wide"]
    code = main(
        ["--rounds", "1", "--seconds", "0.2", "--tries", "1", "--patience", "0",
         "--sides", ",".join(sides), "--output", str(tmp_path / "out.json")]
    )  # fmt: skip
    assert code in {0, 1}  # rates mean nothing in so short a time
    found = json.loads((tmp_path / "out.json").read_text())
    taken = {side: found["sides"][side]["rounds"][0] for side in sides}
    for side, row in taken.items():
        assert row["failed"] == row["dropped"] == 0, side
    # Nothing but the first connections of a pair comes to an agent that remembers.
    assert taken["remember"]["queued"] < 0.1
    assert taken["log"]["recorded"] > 0.98
    assert "FIGURE" in capsys.readouterr().out
    assert left_behind() == []


def test_the_packet_thread_is_profiled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["profile", "off", "0.3"])
    assert profile.main() == 0
    assert "kernelqueue.py" in capsys.readouterr().out
    assert left_behind() == []


@pytest.mark.skipif(programs_missing() is not None, reason=f"needs {programs_missing()}")
def test_the_programs_compile_without_a_warning(tmp_path: Path) -> None:
    assert all(path.stat().st_mode & 0o100 for path in build(tmp_path))
