from pathlib import Path

import pytest

from knp_py.errors import LabError
from knp_py.lab import namespaces
from knp_py.lab.namespaces import (
    inside,
    labs_with_spaces,
    prefix_of,
    space_of,
    spaces_of,
    with_resolv_conf,
)


def test_no_two_places_and_no_two_labs_share_a_name() -> None:
    assert space_of("lab", "node") == "knplab-lab.node"
    assert space_of("lab", "shop/web.v2") == "knplab-lab.shop.web.v2"
    assert not space_of("lab-2", "node").startswith(prefix_of("lab"))
    long = [space_of("lab", f"{'n' * 63}/{'p' * 252}{end}") for end in "ab"]
    assert long[0] != long[1]
    assert max(map(len, long)) < 255


def test_labs_are_told_by_their_namespaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaces, "FOLDER", str(tmp_path))
    assert (labs_with_spaces(), spaces_of("a")) == ([], [])
    for name in ("knplab-a.node", "knplab-a.x.p", "knplab-a-b.node", "other"):
        (tmp_path / name).touch()
    assert labs_with_spaces() == ["a", "a-b"]
    assert spaces_of("a") == ["knplab-a.node", "knplab-a.x.p"]
    monkeypatch.setattr(namespaces, "FOLDER", str(tmp_path / "gone"))
    assert (labs_with_spaces(), spaces_of("a")) == ([], [])


def test_a_namespace_that_is_not_there_is_named() -> None:
    with (
        pytest.raises(LabError, match=r"no network namespace knplab-nosuch\.node"),
        inside(space_of("nosuch", "node")),
    ):
        pytest.fail("went somewhere")


def test_the_command_is_what_runs_in_the_end() -> None:
    command = with_resolv_conf(["dig", "-x", "a b"], "/tmp/r")
    assert command[0] == "unshare"
    assert command[-4:] == ["/tmp/r", "dig", "-x", "a b"]
