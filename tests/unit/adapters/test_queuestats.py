"""/proc/net/netfilter/nfnetlink_queue, read."""

from pathlib import Path

import pytest

from knp_py.adapters import queuestats
from knp_py.adapters.queuestats import QueueState, read_queues


def given(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "nfnetlink_queue"
    path.write_text(text)
    monkeypatch.setattr(queuestats, "_FILE", path)


def test_every_queue_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given(
        "  100   4711    12 2  2048     3     4     9912  1\n"
        "  101  -4711     0 2 65531     0     0        7  1\n",
        tmp_path,
        monkeypatch,
    )
    assert read_queues() == {
        100: QueueState(100, 4711, 12, 3, 4, 9912),
        101: QueueState(101, -4711, 0, 0, 0, 7),
    }


def test_a_line_that_is_not_understood_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given("a b c\n\n1 2 3\n5 6 7 2 64 0 0 8 1 and more\n5 6 7 2 64 0 0 8\n", tmp_path, monkeypatch)
    assert read_queues() == {5: QueueState(5, 6, 7, 0, 0, 8)}


def test_a_kernel_without_queues_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queuestats, "_FILE", tmp_path / "not there")
    assert read_queues() == {}
