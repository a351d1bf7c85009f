"""IP packets as bytes, for what goes through the datapath. Checksums are zero."""

import struct

from knp_py.model.net import parse_address


def _ipv4(src: str, dst: str, protocol: int, body: bytes, flags: int = 0, ident: int = 1) -> bytes:
    ends = b"".join((parse_address(a) & 0xFFFFFFFF).to_bytes(4, "big") for a in (src, dst))
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), ident, flags, 64, protocol, 0)
    return header + ends + body


def ip(src: str, dst: str, protocol: int, body: bytes) -> bytes:
    """A packet of either family, by its addresses; without options or extension headers."""
    if ":" not in src:
        return _ipv4(src, dst, protocol, body)
    ends = b"".join(parse_address(a).to_bytes(16, "big") for a in (src, dst))
    return struct.pack("!IHBB", 6 << 28, len(body), protocol, 64) + ends + body


def udp(src: str, sport: int, dst: str, dport: int, payload: bytes) -> bytes:
    header = struct.pack("!HHHH", sport, dport, 8 + len(payload), 0)
    return ip(src, dst, 17, header + payload)


def tcp(
    src: str,
    sport: int,
    dst: str,
    dport: int,
    payload: bytes = b"",
    *,
    seq: int = 0,
    flags: int = 2,
) -> bytes:
    header = struct.pack("!HHIIBBHHH", sport, dport, seq, 0, 5 << 4, flags, 65535, 0, 0)
    return ip(src, dst, 6, header + payload)


def sctp(src: str, sport: int, dst: str, dport: int) -> bytes:
    """An INIT (RFC 9260 §3.3.2)."""
    init = struct.pack("!BBHIIHHI", 1, 0, 20, 7, 65536, 1, 1, 1)
    return ip(src, dst, 132, struct.pack("!HHII", sport, dport, 0, 0) + init)


def ping(src: str, dst: str, *, ident: int = 1, kind: int | None = None) -> bytes:
    """An ICMP message of either family, an echo request by default."""
    v6 = ":" in src
    if kind is None:
        kind = 128 if v6 else 8
    message = struct.pack("!BBHHH", kind, 0, 0, ident, 1)
    return ip(src, dst, 58 if v6 else 1, message + b"are you there")


def fragments(packet: bytes, size: int, ident: int = 77) -> list[bytes]:
    """The packet cut into pieces of ``size`` bytes, a multiple of 8."""
    body = packet[20:]
    addresses = packet[12:20]
    made = []
    for at in range(0, len(body), size):
        part = body[at : at + size]
        more = 0x2000 if at + size < len(body) else 0
        made.append(
            struct.pack(
                "!BBHHHBBH", 0x45, 0, 20 + len(part), ident, more | at // 8, 64, packet[9], 0
            )
            + addresses
            + part
        )
    return made
