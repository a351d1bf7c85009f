"""The file that tells whose addresses were whose, when the agent before this one was there."""

from pathlib import Path

import pytest
from helpers.builders import address

from knp_py.adapters.ownerfile import OwnerFile

OWNERS = {address("10.1.0.5"): "uid-a/x/a", address("fd00:1::5"): "uid-a/x/a"}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    kept = OwnerFile(str(tmp_path / "made"), "knp.owners")
    assert kept.read() == {}
    kept.write(OWNERS)
    assert OwnerFile(str(tmp_path / "made"), "knp.owners").read() == OWNERS
    kept.write({})
    assert kept.read() == {}


@pytest.mark.parametrize(
    "damaged", [b"", b"\0" * 40, b"[]", b'{"10.1.0.5": 7}', b'{"garbage": "u"}', b'{"\xff": "u"}']
)
def test_a_damaged_one_is_none(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / "knp.owners").write_bytes(damaged)
    assert OwnerFile(str(tmp_path), "knp.owners").read() == {}


def test_one_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    OwnerFile(str(tmp_path / "file"), "knp.owners").write(OWNERS)
