import fcntl
import os
import pty
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from knp_py.adapters.outlet import PIPE_BYTES, Outlet

LINE = b"x" * 4095 + b"\n"


def fill(write: Callable[[bytes], int]) -> int:
    """Writes until it would have to wait; how many bytes were taken."""
    taken = 0
    for _ in range(10_000):
        try:
            taken += write(LINE)
        except BlockingIOError:
            return taken
    raise AssertionError("it takes everything")


@contextmanager
def outlet(descriptor: int) -> Iterator[Callable[[bytes], int]]:
    opened = Outlet(descriptor)
    try:
        yield opened.write
    finally:
        opened.close()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    for each in (read, write):
        try:
            os.close(each)
        except OSError:
            continue


def test_a_pipe_that_is_full_is_not_waited_for(pipe: tuple[int, int]) -> None:
    read, write = pipe
    with outlet(write) as put:
        taken = fill(put)
        assert taken % len(LINE) == 0  # whole or not at all
        assert taken >= PIPE_BYTES // 2
        os.read(read, 3 * len(LINE))
        assert put(LINE) == len(LINE)


def test_the_descriptor_itself_still_waits(pipe: tuple[int, int]) -> None:
    with outlet(pipe[1]):
        assert not fcntl.fcntl(pipe[1], fcntl.F_GETFL) & os.O_NONBLOCK


def test_a_pipe_whose_reader_is_gone(pipe: tuple[int, int]) -> None:
    with outlet(pipe[1]) as before:
        os.close(pipe[0])
        with outlet(pipe[1]) as after:
            for put in (before, after):
                with pytest.raises(BrokenPipeError):
                    put(LINE)


def test_a_file_is_written_where_it_stands(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb", buffering=0) as file:
        file.write(b"before\n")
        with outlet(file.fileno()) as put:
            assert put(b"after\n") == 6
        file.write(b"last\n")
    assert (tmp_path / "log").read_bytes() == b"before\nafter\nlast\n"


def test_a_socket_that_is_full_is_not_waited_for() -> None:
    here, there = socket.socketpair()
    with here, there, outlet(here.fileno()) as put:
        assert fill(put) > 0
        there.recv(1 << 20)
        assert put(LINE) > 0
        there.close()
        with pytest.raises(OSError):
            put(LINE)


def test_a_terminal_that_is_stopped_is_not_waited_for() -> None:
    ours, theirs = pty.openpty()
    try:
        with outlet(theirs) as put:
            assert put(b"line\n") == 5
            assert os.read(ours, 100) == b"line\r\n"
            assert fill(put) > 0
    finally:
        os.close(ours)
        os.close(theirs)


def test_what_cannot_be_opened_again_is_asked_first(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", refuse)
    with outlet(pipe[1]) as put:
        assert fill(put) >= 65_536
        os.read(pipe[0], 3 * len(LINE))
        assert put(LINE) == len(LINE)


def test_dev_null() -> None:
    null = os.open("/dev/null", os.O_WRONLY)
    try:
        with outlet(null) as put:
            assert put(LINE) == len(LINE)
    finally:
        os.close(null)
