"""Capture files and standard input, gzip too, as records."""

import gzip
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing, nullcontext
from typing import BinaryIO, Protocol, cast

from knp_py.errors import CaptureError, reason_of
from knp_py.wire.capture import read_capture
from knp_py.wire.source import CHUNK, CaptureProblem, OnProblem, Read, Record

STANDARD_INPUT = "-"
_GZIP = b"\x1f\x8b"


class ByteStream(Protocol):
    """What is needed of an input: at most so many bytes, as soon as there are any."""

    def read1(self, size: int = ..., /) -> bytes:
        """Up to ``size`` bytes, none at the end."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


def open_capture(
    path: str | os.PathLike[str],
    *,
    on_problem: OnProblem | None = None,
    stdin: ByteStream | None = None,
) -> Iterator[Record]:
    """Records of the capture at ``path``; ``-`` is standard input. gzip is seen through.

    What cannot be opened, is no capture or is damaged gzip is a ``CaptureError``, one line
    that begins with the path: a missing path or a directory at once, the rest when records
    are asked for. ``on_problem`` is as for ``read_capture``; gzip data that ends early is
    such a problem ("gzip cut"), told after all that could be unpacked.
    """
    name = os.fspath(path)
    if name == STANDARD_INPUT:
        return _records(
            "standard input", stdin or cast("ByteStream", sys.stdin.buffer), on_problem
        )
    try:
        mode = os.stat(name).st_mode  # not opened yet: a named pipe can be only once
    except (OSError, ValueError) as error:
        raise CaptureError(f"{name}: {reason_of(error)}") from None
    if stat.S_ISDIR(mode):
        raise CaptureError(f"{name}: is a directory, expected a capture file")
    return _records(name, None, on_problem)


def _records(
    name: str, stream: ByteStream | None, on_problem: OnProblem | None
) -> Iterator[Record]:
    tell = on_problem or _refuse
    try:
        with nullcontext(stream) if stream else closing(open(name, "rb")) as source:
            yield from read_capture(_unpacked(source, tell), on_problem=tell)
    except CaptureError as error:
        raise CaptureError(f"{name}: {error}") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise CaptureError(f"{name}: gzip data is damaged: {error}") from None
    except OSError as error:
        raise CaptureError(f"{name}: {reason_of(error)}") from None


def _refuse(problem: CaptureProblem) -> None:
    raise CaptureError(str(problem))


class _Rewound:
    """A stream whose first bytes have been looked at."""

    def __init__(self, head: bytes, stream: ByteStream) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int = CHUNK, /) -> bytes:
        """Up to ``size`` bytes."""
        if not self._head:
            return self._stream.read1(size)
        part = self._head[:size]
        self._head = self._head[size:]
        return part


def _unpacked(stream: ByteStream, tell: OnProblem) -> Read:
    """The stream's own bytes, or what they unpack to."""
    head = b""
    while len(head) < len(_GZIP):
        part = stream.read1(CHUNK)
        if not part:
            break
        head += part
    rewound = _Rewound(head, stream)
    if not head.startswith(_GZIP):
        return rewound.read
    # Reading forward, gzip wants nothing of its file but read().
    unpacking = gzip.GzipFile(fileobj=cast("BinaryIO", rewound), mode="rb")
    unpacked = 0

    def read(size: int) -> bytes:
        nonlocal unpacked
        try:
            part = unpacking.read1(size)
        except EOFError:
            message = f"gzip data ends early, after {unpacked} unpacked bytes"
            tell(CaptureProblem("gzip cut", unpacked, message))
            return b""
        unpacked += len(part)
        return part

    return read
