"""Connections in the kernel's conntrack table: marks, pods that are gone, what it did not see.

Netlink by hand, because strict mode clears every connection's mark when it starts: pyroute2
takes 0.87 ms an entry for that and knows the tuples of three protocols; echoing the tuple's
bytes takes a thirtieth, whatever the protocol. Message layout: linux/netfilter/nfnetlink.h and
nfnetlink_conntrack.h.
"""

import os
import re
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from knp_py.errors import KernelError
from knp_py.model.net import address_bytes, is_v4

_NETLINK_NETFILTER = 12
_CT_NEW, _CT_GET, _CT_DELETE = 1 << 8, 1 << 8 | 1, 1 << 8 | 2
_REQUEST, _DUMP = 0x1, 0x300
_MAKE = 0x604  # NLM_F_CREATE, NLM_F_EXCL, NLM_F_ACK
_ERROR, _DONE = 2, 3
_TUPLE, _REPLY, _MARK, _ZONE, _MASK = 1, 2, 8, 18, 21  # CTA_*
_PROTOINFO, _TIMEOUT = 4, 7
_NESTED = 0x3FFF  # an attribute's type without its flags
_NEST = 0x8000
_TCP, _ESTABLISHED = 6, 3
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_GONE = 2  # ENOENT: the connection has ended since it was listed
_THERE = 17  # EEXIST
_UNHEARD = 60  # seconds that an adopted connection has until one of its packets comes
_BATCH = 32 * 1024  # bytes of requests at a time
_BUFFER = 1 << 20


def clear_marks(mask: int) -> int:
    """Clear the bits of ``mask`` from every connection's mark; how many had any.

    Raises ``KernelError``.
    """
    with _netlink() as netlink:
        found = [each for each in _dump(netlink) if each.mark & mask]
        values = b"".join(
            _ATTRIBUTE.pack(8, attribute) + struct.pack(">I", value)
            for attribute, value in ((_MARK, 0), (_MASK, mask))
        )
        _send(netlink, [_about(_CT_NEW, each, values) for each in found])
    return len(found)


def forget_connections(addresses: Iterable[int]) -> int:
    """Delete every connection from or to these addresses, as address integers; how many.

    A pod that gets the address of one that is gone must not inherit what was allowed to that,
    and UDP goes on for as long as its sender does. Reads the whole table once, which takes a
    second for some hundred thousand connections. Raises ``KernelError``.
    """
    packed = frozenset(map(address_bytes, addresses))
    with _netlink() as netlink:
        found = [each for each in _dump(netlink, packed) if not packed.isdisjoint(_ends(each))]
        _send(netlink, [_about(_CT_DELETE, each, b"") for each in found])
    return len(found)


def adopt_connection(src: int, sport: int, dst: int, dport: int, *, mark: int) -> None:
    """Have conntrack know an established TCP connection that ``src`` opened, with this mark.

    For one whose beginning it did not see: it would take the next packet for that, whoever sent
    it. Windows are those of the packets to come, as for any connection that it finds in its
    midst. No error if it knows it. Raises ``KernelError``.
    """
    family = socket.AF_INET if is_v4(src) else socket.AF_INET6
    there, back = _tuple(src, sport, dst, dport), _tuple(dst, dport, src, sport)
    state = _nest(
        _PROTOINFO, _nest(1, _plain(1, bytes([_ESTABLISHED])))
    )  # CTA_PROTOINFO_TCP_STATE
    body = struct.pack("=BBH", family, 0, 0)
    body += _nest(_TUPLE, there) + _nest(_REPLY, back) + state
    body += _plain(_TIMEOUT, struct.pack(">I", _UNHEARD)) + _plain(_MARK, struct.pack(">I", mark))
    with _netlink() as netlink:
        netlink.sendto(_message(_CT_NEW, _REQUEST | _MAKE, body), (0, 0))
        for kind, data in _messages(netlink.recv(_BUFFER)):
            if kind == _ERROR:
                _check(data, _THERE)


class _Entry(NamedTuple):
    """A connection: the attributes that say which it is, the tuple of its replies, its mark."""

    family: int
    which: bytes
    reply: bytes
    mark: int


@contextmanager
def _netlink() -> Iterator[socket.socket]:
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER) as netlink:
            netlink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            yield netlink
    except OSError as error:
        raise KernelError(f"conntrack: {error}") from error


def _ends(entry: _Entry) -> Iterator[bytes]:
    """The addresses of a connection, of either direction's tuple, as they are on the wire."""
    for tuple_ in (entry.which, entry.reply):
        for kind, content in _attributes(tuple_):
            if kind not in {_TUPLE, _REPLY}:
                continue
            for part, addresses in _attributes(content[4:]):
                if part == 1:  # CTA_TUPLE_IP
                    yield from (each[4:] for _, each in _attributes(addresses[4:]))


def _dump(netlink: socket.socket, about: Iterable[bytes] = ()) -> list[_Entry]:
    """Every connection there is, of either family; where bytes are given, those that have any.

    Taking one apart costs ten times as much as seeing that it has none of them, and as long as
    that takes nobody judges.
    """
    wanted = re.compile(b"|".join(map(re.escape, about)), re.DOTALL)
    body = struct.pack("=BBH", socket.AF_UNSPEC, 0, 0)
    netlink.sendto(_message(_CT_GET, _REQUEST | _DUMP, body), (0, 0))
    found: list[_Entry] = []
    while True:
        received = netlink.recv(_BUFFER)
        there = wanted.search(received)
        for kind, data in _messages(received):
            if kind == _DONE:
                return found
            if kind == _ERROR:
                _check(data)
                continue
            if there is None or wanted.search(data) is None:
                continue
            mark, which, reply = 0, b"", b""
            for attribute, raw in _attributes(data[4:]):
                if attribute in {_TUPLE, _ZONE}:
                    which += raw + bytes(-len(raw) % 4)
                elif attribute == _REPLY:
                    reply = raw
                elif attribute == _MARK:
                    mark = int.from_bytes(raw[4:8], "big")
            found.append(_Entry(data[0], which, reply, mark))


def _about(kind: int, entry: _Entry, values: bytes) -> bytes:
    """A request about one connection."""
    body = struct.pack("=BBH", entry.family, 0, 0) + entry.which + values
    return _message(kind, _REQUEST, body)


def _send(netlink: socket.socket, requests: list[bytes]) -> None:
    """Many at a time; answered only when they fail, at once and in the same call."""
    batch: list[bytes] = []
    size = 0
    for request in requests:
        batch.append(request)
        size += len(request)
        if size >= _BATCH:
            _send_batch(netlink, batch)
            batch, size = [], 0
    _send_batch(netlink, batch)


def _send_batch(netlink: socket.socket, batch: list[bytes]) -> None:
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


def _tuple(src: int, sport: int, dst: int, dport: int) -> bytes:
    """CTA_TUPLE_IP and CTA_TUPLE_PROTO of one direction."""
    first = 1 if is_v4(src) else 3
    ends = _plain(first, address_bytes(src)) + _plain(first + 1, address_bytes(dst))
    ports = _plain(2, sport.to_bytes(2, "big")) + _plain(3, dport.to_bytes(2, "big"))
    return _nest(1, ends) + _nest(2, _plain(1, bytes([_TCP])) + ports)


def _plain(kind: int, payload: bytes) -> bytes:
    return _ATTRIBUTE.pack(4 + len(payload), kind) + payload + bytes(-len(payload) % 4)


def _nest(kind: int, payload: bytes) -> bytes:
    return _plain(kind | _NEST, payload)


def _check(data: bytes, fine: int = _GONE) -> None:
    number = -struct.unpack_from("=i", data)[0]
    if number not in {0, fine}:
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
