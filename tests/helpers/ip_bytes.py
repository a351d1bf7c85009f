"""IPv4 packets as bytes, for what goes through the datapath."""

import struct

from knp_py.model.net import parse_address


def _ipv4(src: str, dst: str, protocol: int, body: bytes, flags: int = 0, ident: int = 1) -> bytes:
    ends = b"".join((parse_address(a) & 0xFFFFFFFF).to_bytes(4, "big") for a in (src, dst))
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), ident, flags, 64, protocol, 0)
    return header + ends + body


def udp(src: str, sport: int, dst: str, dport: int, payload: bytes) -> bytes:
    header = struct.pack("!HHHH", sport, dport, 8 + len(payload), 0)
    return _ipv4(src, dst, 17, header + payload)


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
    return _ipv4(src, dst, 6, header + payload)


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
