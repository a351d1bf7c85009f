"""Lines of a file or of standard input: plain or gzip, read once or followed.

A line longer than ``LONGEST`` is cut there, so that no input can fill the memory.
"""

import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from gzip import BadGzipFile, GzipFile
from typing import BinaryIO, Final

from knp_py.errors import InputError, reason_of

LONGEST: Final = 1 << 20
STDIN: Final = "-"
_GZIP = b"\x1f\x8b"


def read_lines(path: str) -> Iterator[bytes]:
    """Each line with its newline, if it has one; ``-`` is standard input.

    Raises ``InputError`` when there is no such file or when a gzip file is damaged.
    """
    if path == STDIN:
        yield from _lines(sys.stdin.buffer, "standard input")
        return
    with _open(path) as file:
        yield from _lines(file, path)


def follow_lines(path: str, *, poll: float = 0.2) -> Iterator[bytes]:
    """Lines of a file that grows, for ever; complete ones only.

    A file of the same name that takes its place (rotation) is read from its start, after
    the old one's end; one that gets shorter is read from its start again. ``poll`` is in
    seconds. Standard input ends when its writer does.
    """
    if path == STDIN:
        yield from read_lines(path)
        return
    file = _open(path)
    if file.read(2) == _GZIP:
        file.close()
        raise InputError(f"{path}: a gzip file does not grow; read it without --follow")
    file.seek(0)
    rest = b""
    replaced = False
    try:
        while True:
            line = file.readline(LONGEST)
            if line:
                if len(rest) < LONGEST:
                    rest += line
                if line.endswith(b"\n"):
                    yield rest
                    rest = b""
                continue
            if replaced:
                if rest:
                    yield rest
                    rest = b""
                file.close()
                file = _open(path)
                replaced = False
                continue
            state = _state(file, path)
            if state == "replaced":
                replaced = True  # what was written between the last read and now comes first
                continue
            if state == "shorter":
                file.seek(0)
                rest = b""
                continue
            time.sleep(poll)
    finally:
        file.close()


def _state(file: BinaryIO, path: str) -> str:
    mine = os.fstat(file.fileno())
    try:
        now = os.stat(path)
    except FileNotFoundError:
        return "same"  # rotated away, and the next one not there yet
    if (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino):
        return "replaced"
    return "shorter" if now.st_size < file.tell() else "same"


def _open(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise InputError(f"{path}: {reason_of(error)}") from error


def _lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    peek: Callable[[int], bytes] = getattr(file, "peek", lambda _: b"")
    try:
        if peek(2)[:2] != _GZIP:
            yield from _bounded(file.readline)
            return
        with GzipFile(fileobj=file) as unpacked:
            yield from _bounded(unpacked.readline)
    except (BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{name}: damaged gzip: {error}") from error
    except IsADirectoryError as error:
        raise InputError(f"{name}: is a directory") from error
    except OSError as error:  # closed, or a disk that fails
        raise InputError(f"{name}: {reason_of(error)}") from error


def _bounded(readline: Callable[[int], bytes]) -> Iterator[bytes]:
    while line := readline(LONGEST):
        yield line
        while not line.endswith(b"\n") and len(line) == LONGEST:
            line = readline(LONGEST)
