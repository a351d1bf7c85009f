import os
from pathlib import Path

import pytest

from knp_py.errors import InputError, LabError
from knp_py.lab import labstate
from knp_py.lab.labstate import (
    LabState,
    folder_of,
    lab_names,
    locked,
    read_state,
    write_state,
)
from knp_py.lab.processes import Process


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "labs"
    monkeypatch.setattr(labstate, "ROOT", str(path))
    return path


def test_what_is_remembered_of_a_lab(root: Path) -> None:
    folder = folder_of("lab")
    assert read_state(folder) is None
    folder.make()
    state = LabState("s.yaml", agent=("--strict-mode",), processes={"agent": Process(1, 2)})
    write_state(folder, state)
    assert read_state(folder) == state
    assert lab_names() == ["lab"]
    (root / "lab" / "state.json").write_text("{half")
    assert read_state(folder) is None
    folder.remove()
    folder.remove()
    assert lab_names() == []


@pytest.mark.parametrize("name", ["", "a.b", "A", "a/b", "-a", "a" * 32, ".."])
def test_names_that_no_lab_can_have(name: str) -> None:
    with pytest.raises(InputError, match="--name"):
        folder_of(name)


def test_one_at_a_time(root: Path) -> None:
    with locked("lab"):
        with (
            pytest.raises(LabError, match=f"process {os.getpid()} is at work on the lab lab"),
            locked("lab"),
        ):
            pytest.fail("got in")
        with locked("other"):
            pass
    with locked("lab"):
        pass
    assert not root.exists()
