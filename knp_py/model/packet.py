"""What the core needs to know of one packet."""

from enum import IntEnum
from typing import NamedTuple


class Proto(IntEnum):
    """IP protocol numbers that policy or conntrack knows by name (IANA)."""

    ICMP = 1
    TCP = 6
    UDP = 17
    ICMPV6 = 58
    SCTP = 132
    UNKNOWN = -1  # truncated, malformed or not one of the above: no ports (semantics §5)


# TCP header flags, RFC 9293 §3.1.
FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10


class Packet(NamedTuple):
    """One parsed packet. Ports are 0 where the protocol has none.

    ``src`` and ``dst`` are address integers of ``model.net``. ``protocol`` is a
    ``Proto`` value (a plain int: comparing an enum member costs more). For ICMP and
    ICMPv6 ``icmp_type`` is the message type and ``sport`` the echo identifier, and
    ``inner`` is the packet an ICMP error quotes. ``payload`` is what follows the
    transport header, empty unless asked for. ``wire_len`` is the IP length in bytes.
    ``problem`` names why the protocol is unknown.

    ``fragment`` is 0 for a whole datagram, 1 for its first fragment (which has the
    ports) and 2 for a later one: that has none, so its protocol is unknown. ``ident``
    is what all fragments of one datagram share, together with the addresses and, in
    IPv4, ``number``.
    """

    src: int
    dst: int
    protocol: int
    sport: int = 0
    dport: int = 0
    flags: int = 0
    icmp_type: int = -1
    wire_len: int = 0
    payload: bytes = b""
    seq: int = 0
    problem: str | None = None
    inner: "Packet | None" = None
    number: int = -1  # the IP protocol number as read, also when it is not one we know
    fragment: int = 0
    ident: int = 0


PROTOCOL_NAMES = {
    Proto.TCP: "TCP",
    Proto.UDP: "UDP",
    Proto.SCTP: "SCTP",
    Proto.ICMP: "ICMP",
    Proto.ICMPV6: "ICMPv6",
    Proto.UNKNOWN: "unknown",
}


def protocol_name(protocol: int) -> str:
    """The protocol's name in records and tables; ``unknown`` when there is none."""
    return PROTOCOL_NAMES.get(protocol, "unknown")  # type: ignore[call-overload, no-any-return]
