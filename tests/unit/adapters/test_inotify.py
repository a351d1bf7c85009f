"""The two descriptors that the standard library lacks."""

import os
import select
from pathlib import Path

import pytest

from knp_py.adapters.inotify import CLOSE_WRITE, CREATE, IGNORED, MOVED_FROM, Inotify, Timer


def test_events_have_their_names_and_cookies(tmp_path: Path) -> None:
    found = Inotify()
    watch = found.add(str(tmp_path), CREATE | CLOSE_WRITE)
    assert found.add(str(tmp_path), MOVED_FROM) == watch, "one inode, one watch"
    assert found.read() == []
    odd = os.fsdecode(b"\xff\n.yaml")
    (tmp_path / odd).write_text("x")
    (tmp_path / odd).rename(tmp_path / "b")
    created, written, moved = found.read()
    assert created == (watch, CREATE, 0, odd)
    assert written == (watch, CLOSE_WRITE, 0, odd)
    assert (moved.watch, moved.mask, moved.name) == (watch, MOVED_FROM, odd)
    assert moved.cookie
    found.remove(watch)
    found.remove(watch)
    assert [event.mask for event in found.read()] == [IGNORED]
    found.close()


def test_what_the_kernel_refuses_is_an_os_error(tmp_path: Path) -> None:
    found = Inotify()
    with pytest.raises(FileNotFoundError):
        found.add(str(tmp_path / "gone"), CREATE)
    found.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        found.add(str(tmp_path), CREATE)


def test_a_timer_rings_once_or_again() -> None:
    timer = Timer()
    poller = select.poll()
    poller.register(timer.fileno(), select.POLLIN)
    assert not timer.expired()
    timer.set(0.01)
    assert poller.poll(5000)
    assert timer.expired()
    assert not timer.expired()
    timer.set(0.01, again=True)
    for _ in range(2):
        assert poller.poll(5000)
        assert timer.expired()
    timer.close()
