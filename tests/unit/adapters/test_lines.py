import gzip
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest

from knp_py.adapters.lines import LONGEST, follow_lines, read_lines
from knp_py.errors import InputError


def test_lines_keep_their_newline(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"one\n\xff\xfe\r\n\nlast")
    assert list(read_lines(str(file))) == [b"one\n", b"\xff\xfe\r\n", b"\n", b"last"]


@pytest.mark.parametrize("level", [0, 9])
def test_gzip_is_known_by_its_bytes(tmp_path: Path, level: int) -> None:
    file = tmp_path / "log"
    file.write_bytes(gzip.compress(b"one\ntwo\n", level) + gzip.compress(b"three\n"))
    assert list(read_lines(str(file))) == [b"one\n", b"two\n", b"three\n"]


@pytest.mark.parametrize("damage", [slice(0, 300), slice(0, 12)])
def test_a_damaged_gzip_file_gives_what_it_has_and_then_an_error(
    tmp_path: Path, damage: slice
) -> None:
    file = tmp_path / "log.gz"
    file.write_bytes(gzip.compress(os.urandom(400).hex().encode() * 3)[damage])
    with pytest.raises(InputError, match=r"log.gz: damaged gzip"):
        list(read_lines(str(file)))


def test_an_overlong_line_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"x" * (3 * LONGEST + 5) + b"\nnext\n" + b"y" * LONGEST + b"\nlast\n")
    lines = list(read_lines(str(file)))
    assert [len(line) for line in lines] == [LONGEST, 5, LONGEST, 5]
    assert lines[1] == b"next\n"


@pytest.mark.parametrize("read", [read_lines, follow_lines])
def test_what_cannot_be_opened_is_named(tmp_path: Path, read: object) -> None:
    assert callable(read)
    with pytest.raises(InputError, match="nowhere: no such file or directory"):
        next(read(str(tmp_path / "nowhere")))
    with pytest.raises(InputError, match=r"[Ii]s a directory"):
        next(read(str(tmp_path)))


def test_a_gzip_file_cannot_be_followed(tmp_path: Path) -> None:
    file = tmp_path / "log.gz"
    file.write_bytes(gzip.compress(b"x\n"))
    with pytest.raises(InputError, match="without --follow"):
        next(follow_lines(str(file)))


class Follower:
    """Follows a file in a thread and hands lines over."""

    def __init__(self, path: Path) -> None:
        self.lines: Queue[bytes] = Queue()
        self._source = follow_lines(str(path), poll=0.005)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for line in self._source:
            if line == b"stop\n":
                return
            self.lines.put(line)

    def next(self) -> bytes:
        return self.lines.get(timeout=60)

    def stop(self, path: Path) -> None:
        with path.open("ab") as file:
            file.write(b"\nstop\n")
        self._thread.join(timeout=60)
        assert not self._thread.is_alive()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.write_bytes(b"first\n")
    return path


@pytest.fixture
def follower(log: Path) -> Iterator[Follower]:
    follower = Follower(log)
    assert follower.next() == b"first\n"
    yield follower
    follower.stop(log)


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_following_gives_lines_when_they_are_complete(log: Path, follower: Follower) -> None:
    append(log, b"se")
    append(log, b"cond\nthi")
    assert follower.next() == b"second\n"
    append(log, b"rd\n")
    assert follower.next() == b"third\n"


def test_following_goes_on_in_the_file_that_takes_its_place(log: Path, follower: Follower) -> None:
    old = log.with_suffix(".1")
    log.rename(old)
    append(old, b"late\nunfinished")
    assert follower.next() == b"late\n"
    time.sleep(0.05)  # there is no file of the name for a while
    log.write_bytes(b"new\n")
    assert follower.next() == b"unfinished"
    assert follower.next() == b"new\n"


def test_following_begins_again_when_the_file_gets_shorter(log: Path, follower: Follower) -> None:
    append(log, b"a long second line\n")
    assert follower.next() == b"a long second line\n"
    os.truncate(log, 0)
    append(log, b"again\n")
    assert follower.next() == b"again\n"
