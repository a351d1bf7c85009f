"""Addresses and networks as plain integers; text only at the edges.

Every address is one 128-bit integer. IPv4 lives where RFC 4291 §2.5.5.2 maps it,
``::ffff:0:0/96``, so an IPv4-mapped IPv6 address *is* the IPv4 address (semantics §1)
without anybody having to remember it, and one sorted list serves both families.
"""

import ipaddress
from typing import NamedTuple

V4_BASE = 0xFFFF_0000_0000
V4_LAST = 0xFFFF_FFFF_FFFF
V6_LAST = (1 << 128) - 1


class Cidr(NamedTuple):
    """A network: its text as written and the inclusive ranges of addresses in it.

    ``::/0`` and other IPv6 networks wider than the mapped block do not contain IPv4,
    so they are two ranges.
    """

    text: str
    ranges: tuple[tuple[int, int], ...]

    def __contains__(self, address: object) -> bool:
        """Whether the address integer is in the network."""
        return isinstance(address, int) and any(lo <= address <= hi for lo, hi in self.ranges)


def parse_address(text: str) -> int:
    """Text to address integer. Raises ``ValueError`` for anything but a plain IP address."""
    ip = ipaddress.ip_address(text)
    if isinstance(ip, ipaddress.IPv4Address):
        return V4_BASE | int(ip)
    if ip.scope_id is not None:
        raise ValueError(f"{text!r} has a zone, which is not part of an address here")
    return int(ip)


def format_address(address: int) -> str:
    """Address integer to its canonical text (RFC 5952 for IPv6)."""
    if V4_BASE <= address <= V4_LAST:
        # Four times as fast as ipaddress, and every record has two.
        return f"{address >> 24 & 255}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"
    return str(ipaddress.IPv6Address(address))


def address_bytes(address: int) -> bytes:
    """Address integer to the bytes on the wire, four or sixteen."""
    v4 = is_v4(address)
    return (address & 0xFFFF_FFFF if v4 else address).to_bytes(4 if v4 else 16, "big")


def is_v4(address: int) -> bool:
    """Whether the address integer is an IPv4 address."""
    return V4_BASE <= address <= V4_LAST


def parse_cidr(text: str) -> Cidr:
    """CIDR text to a network; host bits are allowed and ignored, as the API server does.

    Raises ``ValueError`` for anything else, a bare address included.
    """
    if "/" not in text:
        raise ValueError(f"{text!r} has no prefix length")
    net = ipaddress.ip_network(text, strict=False)
    first = int(net.network_address)
    last = int(net.broadcast_address)
    if isinstance(net, ipaddress.IPv4Network):
        return Cidr(text, ((V4_BASE | first, V4_BASE | last),))
    if first < V4_BASE and last > V4_LAST:
        return Cidr(text, ((first, V4_BASE - 1), (V4_LAST + 1, last)))
    if (first, last) == (V4_BASE, V4_LAST) or first < V4_BASE <= last:
        # ::ffff:0:0/96 and ::/80 only just reach the mapped block; it is IPv4's.
        return Cidr(text, ((first, V4_BASE - 1),) if first < V4_BASE else ((first, last),))
    return Cidr(text, ((first, last),))


def subtract(ranges: list[tuple[int, int]], holes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The sorted union of ``ranges`` without ``holes``; all inclusive."""
    merged: list[tuple[int, int]] = []
    for lo, hi in sorted(ranges):
        if merged and lo <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(hi, merged[-1][1]))
        else:
            merged.append((lo, hi))
    for hole_lo, hole_hi in holes:
        left: list[tuple[int, int]] = []
        for lo, hi in merged:
            if hole_hi < lo or hole_lo > hi:
                left.append((lo, hi))
                continue
            if lo < hole_lo:
                left.append((lo, hole_lo - 1))
            if hi > hole_hi:
                left.append((hole_hi + 1, hi))
        merged = left
    return merged
