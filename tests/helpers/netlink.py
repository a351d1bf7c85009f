"""Netlink by hand, from the kernel's side: messages it sends, and a socket that answers.

Layout: linux/netlink.h, linux/netfilter/nfnetlink.h.
"""

import errno
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Self

ERROR, DONE = 2, 3
Attribute = tuple[int, bytes]


def attributes(*pairs: Attribute) -> bytes:
    """Each padded to four bytes, as all but the last one's padding is said to be there."""
    made = b""
    for kind, payload in pairs:
        made += struct.pack("=HH", 4 + len(payload), kind) + payload + bytes(-len(payload) % 4)
    return made


def message(kind: int, body: bytes, *, family: int = 0, resource: int = 0) -> bytes:
    """A netfilter message around attributes; its length says where it ends."""
    header = struct.pack(">BBH", family, 0, resource)
    length = 16 + len(header) + len(body)
    return struct.pack("=IHHII", length, kind, 0, 0, 0) + header + body


def error(number: int) -> bytes:
    """The kernel's answer to a request: 0 is an acknowledgement."""
    return struct.pack("=IHHII", 36, ERROR, 0, 0, 0) + struct.pack("=i", -number) + bytes(16)


def done() -> bytes:
    return struct.pack("=IHHIIi", 20, DONE, 0, 0, 0, 0)


def messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Kind, flags and what follows the header, of each message in one buffer."""
    at = 0
    while at < len(data):
        length, kind, flags, _, _ = struct.unpack_from("=IHHII", data, at)
        yield kind, flags, data[at + 16 : at + length]
        at += length + -length % 4


def read_attributes(data: bytes) -> dict[int, bytes]:
    """Attributes by kind."""
    found, at = {}, 0
    while at < len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        found[kind & 0x3FFF] = data[at + 4 : at + length]
        at += length + -length % 4
    return found


class FakeNetlink:
    """A netlink socket: ``waiting`` is what it will hand out, exceptions included."""

    def __init__(
        self, respond: Callable[[bytes], Sequence[bytes | OSError]] | None = None
    ) -> None:
        self.sent: list[bytes] = []
        self.waiting: deque[bytes | OSError] = deque()
        self.closed = False
        self.happened: list[str] = []
        self._respond = respond

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def fileno(self) -> int:
        return 77

    def setsockopt(self, *_: object) -> None:
        pass

    def sendto(self, data: bytes, address: tuple[int, int]) -> int:
        assert address == (0, 0)
        self.sent.append(data)
        self.happened.append("sent")
        if self._respond is not None:
            self.waiting += self._respond(data)
        return len(data)

    def recv(self, size: int, flags: int = 0) -> bytes:
        if not self.waiting:
            assert flags & socket.MSG_DONTWAIT, "would wait for ever"
            raise BlockingIOError(errno.EAGAIN, "nothing")
        found = self.waiting.popleft()
        if isinstance(found, OSError):
            raise found
        return found[:size]

    def close(self) -> None:
        self.closed = True
