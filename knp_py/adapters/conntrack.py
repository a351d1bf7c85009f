"""Connections' marks, in the kernel's conntrack table.

Netlink by hand, because strict mode clears every connection's mark when it starts: pyroute2
takes 0.87 ms an entry for that and knows the tuples of three protocols; echoing the tuple's
bytes takes a thirtieth, whatever the protocol. Message layout: linux/netfilter/nfnetlink.h and
nfnetlink_conntrack.h.
"""

import os
import socket
import struct
from collections.abc import Iterator

from knp_py.errors import KernelError

_NETLINK_NETFILTER = 12
_CT_NEW, _CT_GET = 1 << 8, 1 << 8 | 1
_REQUEST, _DUMP = 0x1, 0x300
_ERROR, _DONE = 2, 3
_TUPLE, _MARK, _ZONE, _MASK = 1, 8, 18, 21  # CTA_*
_NESTED = 0x3FFF  # an attribute's type without its flags
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_GONE = 2  # ENOENT: the connection has ended since it was listed
_BATCH = 32 * 1024  # bytes of requests at a time
_BUFFER = 1 << 20


def clear_marks(mask: int) -> int:
    """Clear the bits of ``mask`` from every connection's mark; how many had any.

    Raises ``KernelError``.
    """
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER) as netlink:
            netlink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            requests = [_request(family, which, mask) for family, which in _marked(netlink, mask)]
            batch: list[bytes] = []
            size = 0
            for request in requests:
                batch.append(request)
                size += len(request)
                if size >= _BATCH:
                    _send(netlink, batch)
                    batch, size = [], 0
            _send(netlink, batch)
    except OSError as error:
        raise KernelError(f"conntrack: {error}") from error
    return len(requests)


def _marked(netlink: socket.socket, mask: int) -> list[tuple[int, bytes]]:
    """Family and identifying attributes of every connection with a bit of ``mask`` in its mark."""
    body = struct.pack("=BBH", socket.AF_UNSPEC, 0, 0)
    netlink.sendto(_message(_CT_GET, _REQUEST | _DUMP, body), (0, 0))
    found: list[tuple[int, bytes]] = []
    while True:
        for kind, data in _messages(netlink.recv(_BUFFER)):
            if kind == _DONE:
                return found
            if kind == _ERROR:
                _check(data)
                continue
            mark, which = 0, b""
            for attribute, raw in _attributes(data[4:]):
                if attribute in {_TUPLE, _ZONE}:
                    which += raw + bytes(-len(raw) % 4)
                elif attribute == _MARK:
                    mark = int.from_bytes(raw[4:8], "big")
            if mark & mask:
                found.append((data[0], which))


def _request(family: int, which: bytes, mask: int) -> bytes:
    body = struct.pack("=BBH", family, 0, 0) + which
    for attribute, value in ((_MARK, 0), (_MASK, mask)):
        body += _ATTRIBUTE.pack(8, attribute) + struct.pack(">I", value)
    return _message(_CT_NEW, _REQUEST, body)


def _send(netlink: socket.socket, batch: list[bytes]) -> None:
    """Requests are answered only when they fail, at once and in the same call."""
    if not batch:
        return
    netlink.sendto(b"".join(batch), (0, 0))
    try:
        while True:
            for kind, data in _messages(netlink.recv(_BUFFER, socket.MSG_DONTWAIT)):
                if kind == _ERROR:
                    _check(data)
    except BlockingIOError:
        return


def _check(data: bytes) -> None:
    number = -struct.unpack_from("=i", data)[0]
    if number not in {0, _GONE}:
        raise OSError(number, os.strerror(number))


def _message(kind: int, flags: int, body: bytes) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), kind, flags, 0, 0) + body


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, _, _, _ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size:
            return
        yield kind, data[at + _HEADER.size : at + length]
        at += length + -length % 4


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Each attribute's type and its bytes, its own header included."""
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            return
        yield kind & _NESTED, data[at : at + length]
        at += length + -length % 4
