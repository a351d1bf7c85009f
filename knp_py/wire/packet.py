"""IP packets to ``model.packet.Packet``: IPv4, IPv6, TCP, UDP, SCTP, ICMP.

The one invariant (semantics §5): whatever the bytes, the answer is a ``Packet`` or
``PacketError``, and the error only when there is no readable IP header. A transport
header that is cut short, malformed or of another protocol makes a packet of protocol
unknown, without ports, that says its ``problem``: it is judged on its addresses.

Lengths are those the IP header declares. Bytes behind them (Ethernet padding) are not
part of the packet; bytes missing before them (snaplen) do no harm unless the transport
header is among them.
"""

from struct import Struct
from typing import NamedTuple

from knp_py.errors import PacketError
from knp_py.model.net import V4_BASE
from knp_py.model.packet import Packet, Proto
from knp_py.wire.extensions import AUTHENTICATION, HOP_BY_HOP, LATER_FRAGMENT, NO_NEXT, walk

ICMP, TCP, UDP, ICMPV6, SCTP, UNKNOWN = (
    int(proto)
    for proto in (Proto.ICMP, Proto.TCP, Proto.UDP, Proto.ICMPV6, Proto.SCTP, Proto.UNKNOWN)
)

# An IPv4 header without options and the transport header behind it, in one go:
# total length, fragment field, addresses; then ports, and what else decides.
_V4_TCP = Struct(">2xH2xH4xIIHHI4xBB6x").unpack_from
_V4_UDP = Struct(">2xH2xH4xIIHHH2x").unpack_from
_V4 = Struct(">2xHHHxB2xII").unpack_from
_V6 = Struct(">4xHB1x16s16s").unpack_from
_TCP = Struct(">HHI4xBB").unpack_from
_UDP = Struct(">HHH").unpack_from
_PORTS = Struct(">HH").unpack_from

_NAMES = {
    0: "HOPOPT", 2: "IGMP", 4: "IPv4 in IP", 41: "IPv6 in IP", 46: "RSVP", 47: "GRE", 50: "ESP",
    88: "EIGRP", 89: "OSPF", 103: "PIM", 112: "VRRP", 136: "UDP-Lite",
}  # fmt: skip
_NOT_NAMED = tuple(
    f"protocol {number} ({_NAMES[number]})" if number in _NAMES else f"protocol {number}"
    for number in range(256)
)


class _Icmp(NamedTuple):
    """What differs between the two ICMPs (RFC 792, RFC 4443)."""

    number: int
    with_identifier: frozenset[int]  # messages whose request and reply share one
    errors: frozenset[int]  # messages that quote the packet they are about
    cut_short: str


_V4_ICMP = _Icmp(
    ICMP,
    frozenset({0, 8, 13, 14, 15, 16, 17, 18}),
    frozenset({3, 4, 5, 11, 12}),
    "ICMP header cut short",
)
_V6_ICMP = _Icmp(ICMPV6, frozenset({128, 129}), frozenset({1, 2, 3, 4}), "ICMPv6 header cut short")

# Protocol, sport, dport, flags, icmp_type, seq, problem, inner of a Packet; then where
# its payload begins and ends.
_Transport = tuple[int, int, int, int, int, int, str | None, Packet | None, int, int]

_TRANSPORTS = frozenset({TCP, UDP, SCTP, ICMPV6})

_new = tuple.__new__  # what Packet(...) does after matching names: a third of its time


def parse_ip(data: bytes, offset: int = 0, want_payload: bool = False) -> Packet:
    """The packet whose IP header begins at ``offset`` (not negative).

    Raises ``PacketError`` if there is no readable IP header: it is cut short, of another
    version, or its lengths contradict each other. The first half is the road of nearly
    every packet: IPv4 without options, not a fragment, a sound TCP or UDP header.
    """
    have = len(data) - offset
    if have >= 28 and data[offset] == 0x45:
        number = data[offset + 9]
        if number == 6 and have >= 40:
            total, frag, src, dst, sport, dport, seq, size, flags = _V4_TCP(data, offset)
            size = 20 + (size >> 2 & 0x3C)
            if 40 <= size <= total and not frag & 0x3FFF:
                payload = data[offset + size : offset + total] if want_payload else b""
                return _new(Packet, (
                    V4_BASE | src, V4_BASE | dst, 6, sport, dport, flags, -1, total,
                    payload, seq, None, None, 6, 0, 0,
                ))  # fmt: skip
        elif number == 17:
            total, frag, src, dst, sport, dport, size = _V4_UDP(data, offset)
            if 28 <= 20 + size <= total and not frag & 0x3FFF:
                payload = data[offset + 28 : offset + 20 + size] if want_payload else b""
                return _new(Packet, (
                    V4_BASE | src, V4_BASE | dst, 17, sport, dport, 0, -1, total,
                    payload, 0, None, None, 17, 0, 0,
                ))  # fmt: skip
    if have < 1:
        raise PacketError("no bytes where the IP header should be")
    version = data[offset] >> 4
    if version == 4:
        return _parse_v4(data, offset, want_payload)
    if version == 6:
        return _parse_v6(data, offset, want_payload)
    raise PacketError(f"IP version {version}")


def _parse_v4(data: bytes, offset: int, want_payload: bool) -> Packet:
    """RFC 791 §3.1. A total length of 0 is what segmentation offload leaves: all there is."""
    have = len(data) - offset
    if have < 20:
        raise PacketError("IPv4 header cut short")
    total, ident, field, number, src, dst = _V4(data, offset)
    header = (data[offset] & 0x0F) * 4
    if header < 20:
        raise PacketError("IPv4 header length below 5")
    if total and total < header:
        raise PacketError("IPv4 total length below the header's")
    total = total or have
    start, end = offset + header, offset + total
    number, start, fragment, problem = _after_v4(data, start, end, number, field)
    found = (
        _refuse(problem) if problem else _transport(data, start, end, number, fragment, _V4_ICMP)
    )
    return _packet(
        V4_BASE | src, V4_BASE | dst, total, number, fragment, ident if fragment else 0,
        found, data, want_payload,
    )  # fmt: skip


def _after_v4(
    data: bytes, start: int, end: int, number: int, field: int
) -> tuple[int, int, int, str | None]:
    """What follows an IPv4 header: number, where, Packet.fragment, problem."""
    fragment = (2 if field & 0x1FFF else 1) if field & 0x3FFF else 0
    if start > len(data):
        return number, start, fragment, "IPv4 options cut short"
    if fragment == 2:
        return number, start, fragment, LATER_FRAGMENT
    problem = None
    if number == AUTHENTICATION:
        number, start, _, _, problem = walk(data, start, min(end, len(data)), number, v6=False)
    return number, start, fragment, problem


def _parse_v6(data: bytes, offset: int, want_payload: bool) -> Packet:
    """RFC 8200 §3. A payload length of 0 is a jumbogram's, or what offload leaves."""
    have = len(data) - offset
    if have < 40:
        raise PacketError("IPv6 header cut short")
    length, number, src, dst = _V6(data, offset)
    start = offset + 40
    if not length and number != NO_NEXT:
        length = (_jumbo(data, start) if number == HOP_BY_HOP else 0) or have - 40
    end = start + length
    fragment = ident = 0
    problem = None
    if number not in _TRANSPORTS:
        number, start, fragment, ident, problem = walk(data, start, min(end, len(data)), number)
    found = (
        _refuse(problem) if problem else _transport(data, start, end, number, fragment, _V6_ICMP)
    )
    return _packet(
        int.from_bytes(src, "big"), int.from_bytes(dst, "big"), 40 + length, number, fragment,
        ident, found, data, want_payload,
    )  # fmt: skip


def _jumbo(data: bytes, pos: int) -> int:
    """The jumbo payload option's length (RFC 2675 §2) in the hop-by-hop header at ``pos``."""
    end = min(len(data), pos + 8 + (data[pos + 1] * 8 if len(data) > pos + 1 else 0))
    pos += 2
    while pos + 6 <= end:
        kind, size = data[pos], data[pos + 1]
        if kind == 0xC2 and size == 4:
            length = int.from_bytes(data[pos + 2 : pos + 6], "big")
            return length if length > 0xFFFF else 0
        pos += 2 + size if kind else 1  # kind 0 is one byte of padding
    return 0


def _packet(
    src: int, dst: int, wire_len: int, number: int, fragment: int, ident: int,
    found: _Transport, data: bytes, want_payload: bool,
) -> Packet:  # fmt: skip
    protocol, sport, dport, flags, icmp_type, seq, problem, inner, begin, stop = found
    payload = data[begin:stop] if want_payload else b""
    return _new(Packet, (
        src, dst, protocol, sport, dport, flags, icmp_type, wire_len,
        payload, seq, problem, inner, number, fragment, ident,
    ))  # fmt: skip


def _refuse(problem: str) -> _Transport:
    return UNKNOWN, 0, 0, 0, -1, 0, problem, None, 0, 0


def _transport(
    data: bytes, start: int, end: int, number: int, fragment: int, icmp: _Icmp
) -> _Transport:
    """What the transport header at ``start`` says.

    ``end`` is where the packet ends by its own account, maybe behind the data. Ports
    count only if the whole minimal header is there. A length in the header is that of
    the whole datagram, so a fragment may be shorter.
    """
    room = min(end, len(data)) - start
    if number == TCP:
        if room < 20:
            return _refuse("TCP header cut short")
        sport, dport, seq, size, flags = _TCP(data, start)
        size = size >> 2 & 0x3C
        if size < 20:
            return _refuse("TCP header length below 5")
        if start + size > end and not fragment:
            return _refuse("TCP header longer than its packet")
        return TCP, sport, dport, flags, -1, seq, None, None, start + size, end
    if number == UDP:
        if room < 8:
            return _refuse("UDP header cut short")
        sport, dport, size = _UDP(data, start)
        if size == 0 and end - start > 0xFFFF:
            size = end - start  # a jumbogram (RFC 2675 §4), or offload's
        if size < 8:
            return _refuse("UDP length below 8")
        if start + size > end and not fragment:
            return _refuse("UDP length beyond its packet")
        return UDP, sport, dport, 0, -1, 0, None, None, start + 8, min(end, start + size)
    if number == SCTP:
        if room < 12:
            return _refuse("SCTP header cut short")
        sport, dport = _PORTS(data, start)
        return SCTP, sport, dport, 0, -1, 0, None, None, start + 12, end
    if number != icmp.number:
        return _refuse(_unnamed(number, icmp))
    if room < 8:
        return _refuse(icmp.cut_short)
    kind = data[start]
    identifier = data[start + 4] << 8 | data[start + 5] if kind in icmp.with_identifier else 0
    inner = _quoted(data[start + 8 : start + room]) if kind in icmp.errors else None
    return number, identifier, 0, 0, kind, 0, None, inner, start + 8, end


def _unnamed(number: int, icmp: _Icmp) -> str:
    """Why a protocol number has no meaning here."""
    v6 = icmp is _V6_ICMP
    if number == NO_NEXT and v6:
        return "no next header"
    if number in {ICMP, ICMPV6}:
        return "ICMP in IPv6" if v6 else "ICMPv6 in IPv4"
    return _NOT_NAMED[number]


def _quoted(data: bytes) -> Packet | None:
    """The packet that an ICMP error quotes, None if its addresses cannot be read.

    The quote ends early and its lengths are those of the whole packet.
    """
    have = len(data)
    version = data[0] >> 4 if data else 0
    if version == 4 and have >= 20:
        wire_len, ident, field, number, source, target = _V4(data, 0)
        src, dst = V4_BASE | source, V4_BASE | target
        start = (data[0] & 0x0F) * 4
        if start < 20:
            return None
        number, start, fragment, problem = _after_v4(data, start, have, number, field)
        ident = ident if fragment else 0
        icmp = _V4_ICMP
    elif version == 6 and have >= 40:
        length, number, source, target = _V6(data, 0)
        src, dst = int.from_bytes(source, "big"), int.from_bytes(target, "big")
        wire_len = 40 + length
        number, start, fragment, ident, problem = walk(data, 40, have, number)
        icmp = _V6_ICMP
    else:
        return None
    found = _refuse(problem) if problem else _quoted_transport(data, start, number, icmp)
    return _packet(src, dst, wire_len, number, fragment, ident, found, data, False)


def _quoted_transport(data: bytes, start: int, number: int, icmp: _Icmp) -> _Transport:
    """A quote may hold no more than 8 bytes (RFC 792) of a transport header: ports suffice.

    A quote in a quote is not followed.
    """
    room = len(data) - start
    if number in {TCP, UDP, SCTP}:
        if room < 4:
            return _refuse("quoted ports cut short")
        sport, dport = _PORTS(data, start)
        return number, sport, dport, 0, -1, 0, None, None, 0, 0
    if number != icmp.number:
        return _refuse(_unnamed(number, icmp))
    if room < 8:
        return _refuse(icmp.cut_short)
    kind = data[start]
    identifier = data[start + 4] << 8 | data[start + 5] if kind in icmp.with_identifier else 0
    return number, identifier, 0, 0, kind, 0, None, None, 0, 0
