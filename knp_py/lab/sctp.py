"""As much SCTP as it takes to see whether an association could begin (RFC 9260).

Raw packets, because few kernels have SCTP sockets: an INIT, and the INIT ACK to it.
"""

import os
from struct import pack, unpack_from
from typing import NamedTuple

INIT, INIT_ACK = 1, 2
_COMMON, _CHUNK = 12, 20  # octets of the common header, and of an INIT without parameters
_COOKIE = pack("!HH4s", 7, 8, b"knp!")  # an INIT ACK has to carry a State Cookie


def _table() -> tuple[int, ...]:
    """Of CRC32c, reflected (RFC 9260 appendix A)."""
    table = []
    for value in range(256):
        crc = value
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_CRC = _table()


def checksum(data: bytes) -> int:
    """CRC32c."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


class Start(NamedTuple):
    """The beginning of an association. ``chunk`` is the type of the first chunk."""

    sport: int
    dport: int
    chunk: int
    tag: int


def read_start(packet: bytes) -> Start | None:
    """A packet without its IP header; None when no whole INIT or INIT ACK comes first."""
    if len(packet) < _COMMON + _CHUNK:
        return None
    sport, dport = unpack_from("!HH", packet)
    (tag,) = unpack_from("!I", packet, _COMMON + 4)
    return Start(sport, dport, packet[_COMMON], tag)


def init(sport: int, dport: int) -> bytes:
    """A packet that asks for an association; it has no verification tag yet."""
    return _packet(sport, dport, 0, INIT, b"")


def init_ack(asked: Start) -> bytes:
    """The answer to an INIT."""
    return _packet(asked.dport, asked.sport, asked.tag, INIT_ACK, _COOKIE)


def _packet(sport: int, dport: int, tag: int, chunk: int, parameters: bytes) -> bytes:
    own_tag = int.from_bytes(os.urandom(4), "big") or 1
    body = pack("!BBH", chunk, 0, _CHUNK + len(parameters))
    body += pack("!IIHHI", own_tag, 65536, 1, 1, own_tag) + parameters
    head = pack("!HHI", sport, dport, tag)
    # The checksum is the one field of the protocol that is little-endian.
    return head + pack("<I", checksum(head + bytes(4) + body)) + body
