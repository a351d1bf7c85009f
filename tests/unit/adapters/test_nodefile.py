"""The file that tells a node's networks at a start at which nobody can be asked."""

from pathlib import Path

import pytest

from knp_py.adapters.nodefile import NodeFile
from knp_py.model.objects import Node


def test_what_is_written_is_read(tmp_path: Path) -> None:
    NodeFile(str(tmp_path), "knp.node").write(Node("n1", pod_cidrs=("10.0.1.0/24", "fd00::/64")))
    kept = NodeFile(str(tmp_path), "knp.node")
    assert kept.read("n1") == Node("n1", pod_cidrs=("10.0.1.0/24", "fd00::/64"))
    assert kept.read("n2") is None


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\0" * 40,
        b"[]",
        b'{"name": "n1", "pod_cidrs": "10.0.1.0/24"}',
        b'{"name": "n1", "pod_cidrs": ["garbage"]}',
        b'{"name": "n1", "pod_cidrs": ["10.0.1.0/240"]}',
        b'{"name": "n1", "pod_cidrs": ["\xff/8"]}',
    ],
)
def test_a_damaged_one_is_none(tmp_path: Path, damaged: bytes) -> None:
    """An agent must not stay away for it: there may be no rules yet."""
    (tmp_path / "knp.node").write_bytes(damaged)
    assert NodeFile(str(tmp_path), "knp.node").read("n1") is None
