"""Where the IP header of a captured frame begins, by link type.

Link types are those of tcpdump.org's list (what a capture file says, not the DLT_ values
of one system). A frame without IP is nothing wrong: it has a reason to be counted by.
"""

from collections.abc import Callable

# A place is (offset of the IP header, VLAN stack) or (negative reason code, VLAN stack).
# The stack is one integer, 12 bits a tag, outermost first; a priority tag (VLAN 0, IEEE
# 802.1Q §6.8) names no VLAN and adds nothing, so untagged frames have 0.
Place = tuple[int, int]

ETHERNET = 1

_MAX_TAGS = 8  # VLAN tags, MPLS labels and SNAP headers before we stop looking

# Reason codes: -(kind << 32 | number).
_TRUNCATED, _TAGS, _LLC, _MPLS, _NFLOG, _PPPOE = range(1, 7)  # kind 0: a fixed sentence
_BY_ETHERTYPE, _BY_PPP, _BY_FAMILY, _BY_HARDWARE, _BY_LINK = range(1, 6)

_SENTENCES = {
    _TRUNCATED: "link header cut short",
    _TAGS: f"more than {_MAX_TAGS} tags before the IP header",
    _LLC: "LLC frame (802.2)",
    _MPLS: "MPLS without IP",
    _NFLOG: "NFLOG message without a packet",
    _PPPOE: "PPPoE control frame",
}
_KINDS = {
    _BY_ETHERTYPE: "EtherType {:#06x}",
    _BY_PPP: "PPP protocol {:#06x}",
    _BY_FAMILY: "address family {}",
    _BY_HARDWARE: "Linux cooked frame of hardware type {}",
    _BY_LINK: "link type {} is not supported",
}
_ETHERTYPES = {
    0x0806: "ARP",
    0x8035: "RARP",
    0x8809: "LACP and other slow protocols",
    0x8863: "PPPoE discovery",
    0x888E: "EAPOL",
    0x88CC: "LLDP",
    0x88E5: "MACsec",
    0x88F7: "PTP",
    0x9000: "Ethernet loopback test",
}
_PPP_PROTOCOLS = {
    0x002D: "PPP with compressed TCP headers",
    0x002F: "PPP with compressed TCP headers",
    0x8021: "PPP IPCP",
    0x8057: "PPP IPV6CP",
    0xC021: "PPP LCP",
    0xC023: "PPP PAP",
    0xC223: "PPP CHAP",
}
_VLAN_TAGS = frozenset({0x8100, 0x88A8, 0x9100, 0x9200})
_IPV4, _IPV6 = 0x0800, 0x86DD
_CUT: Place = (-_TRUNCATED, 0)
_AT_14: Place = (14, 0)


def locate(link: int, data: bytes) -> Place:
    """Where IP begins in a frame of this link type, and the VLANs it was on.

    A negative first number says that there is no IP in it; ``reason`` has the words.
    ``not_supported`` tells whether that is for the link type's sake.
    """
    if link == ETHERNET:
        kind = data[12:14]
        if kind in {b"\x08\x00", b"\x86\xdd"}:
            return _AT_14
        return _ethertype(data, 12)
    find = _LINKS.get(link)
    if find is None:
        return -(_BY_LINK << 32 | link), 0
    return find(data)


def not_supported(place: int) -> bool:
    """Whether the frame was not looked at because nobody here knows its link type."""
    return place < 0 and -place >> 32 == _BY_LINK


def reason(place: int) -> str:
    """Why ``locate`` found no IP header: short, and the same for all frames of a kind."""
    kind, number = divmod(-place, 1 << 32)
    if kind == 0:
        return _SENTENCES[number]
    if kind == _BY_ETHERTYPE and number in _ETHERTYPES:
        return _ETHERTYPES[number]
    if kind == _BY_PPP and number in _PPP_PROTOCOLS:
        return _PPP_PROTOCOLS[number]
    return _KINDS[kind].format(number)


def _ethertype(data: bytes, pos: int) -> Place:
    """From an EtherType field on: VLAN tags, SNAP, PPPoE and MPLS before IP."""
    vlan = 0
    for _ in range(_MAX_TAGS + 1):
        if len(data) < pos + 2:
            return -_TRUNCATED, vlan
        kind = data[pos] << 8 | data[pos + 1]
        pos += 2
        if kind in {_IPV4, _IPV6}:
            return pos, vlan
        if kind in _VLAN_TAGS:
            if len(data) < pos + 2:
                return -_TRUNCATED, vlan
            tag = (data[pos] << 8 | data[pos + 1]) & 0xFFF
            if tag:
                vlan = vlan << 12 | tag
            pos += 2
        elif kind == 0x8864:
            return _pppoe(data, pos), vlan
        elif kind in {0x8847, 0x8848}:
            return _mpls(data, pos), vlan
        elif kind >= 0x600:
            return -(_BY_ETHERTYPE << 32 | kind), vlan
        elif data[pos : pos + 6] == b"\xaa\xaa\x03\x00\x00\x00":
            pos += 6  # SNAP (RFC 1042): an EtherType follows
        else:
            return -_LLC, vlan
    return -_TAGS, vlan


def _mpls(data: bytes, pos: int) -> int:
    """Behind the bottom label; what is there is told by its first four bits (RFC 4928)."""
    for _ in range(_MAX_TAGS):
        if len(data) < pos + 5:
            return -_TRUNCATED
        bottom = data[pos + 2] & 1
        pos += 4
        if bottom:
            return pos if data[pos] >> 4 in {4, 6} else -_MPLS
    return -_TAGS


def _pppoe(data: bytes, pos: int) -> int:
    """From a PPPoE session header on (RFC 2516 §4)."""
    if len(data) < pos + 6:
        return -_TRUNCATED
    if data[pos + 1]:
        return -_PPPOE
    return _ppp(data, pos + 6)


def _ppp(data: bytes, pos: int) -> int:
    """From a PPP protocol field on, which may be compressed to a byte (RFC 1661 §6.5)."""
    if len(data) < pos + 1:
        return -_TRUNCATED
    protocol = data[pos]
    pos += 1
    if not protocol & 1:
        if len(data) < pos + 1:
            return -_TRUNCATED
        protocol = protocol << 8 | data[pos]
        pos += 1
    if protocol in {0x0021, 0x0057}:
        return pos
    if protocol in {0x0281, 0x0283}:
        return _mpls(data, pos)
    return -(_BY_PPP << 32 | protocol)


def _link_ppp(data: bytes) -> Place:
    """PPP, with or without the HDLC address and control bytes; or Cisco HDLC."""
    if data[:1] in {b"\x0f", b"\x8f"}:
        return _ethertype(data, 2)
    return _ppp(data, 2 if data[:2] == b"\xff\x03" else 0), 0


def _link_ppp_with_direction(data: bytes) -> Place:
    place, vlan = _link_ppp(data[1:])
    return (place + 1 if place >= 0 else place), vlan


def _link_raw(data: bytes) -> Place:
    return (0, 0) if data else _CUT


def _link_family(data: bytes) -> Place:
    """BSD loopback: an address family in the byte order of the host that captured.

    Families are small numbers, so the order shows. IPv6 is 10 on Linux, 24 on NetBSD and
    OpenBSD, 28 on FreeBSD, 30 on macOS.
    """
    if len(data) < 4:
        return _CUT
    family = int.from_bytes(data[:4], "little")
    if family > 0xFFFF:
        family = int.from_bytes(data[:4], "big")
    if family in {2, 10, 24, 28, 30}:
        return 4, 0
    return -(_BY_FAMILY << 32 | family), 0


def _link_cooked(data: bytes) -> Place:
    """Linux cooked capture v1: the protocol field is an EtherType for most devices."""
    if len(data) < 16:
        return _CUT
    return _cooked(data, data[2] << 8 | data[3], protocol=14, payload=16)


def _link_cooked2(data: bytes) -> Place:
    """Linux cooked capture v2, which begins with the protocol field."""
    if len(data) < 20:
        return _CUT
    return _cooked(data, data[8] << 8 | data[9], protocol=0, payload=20)


def _cooked(data: bytes, hardware: int, *, protocol: int, payload: int) -> Place:
    if hardware == 824:  # netlink: the field is no EtherType there
        return -(_BY_HARDWARE << 32 | hardware), 0
    kind = data[protocol : protocol + 2]
    if kind in {b"\x08\x00", b"\x86\xdd"}:
        return payload, 0
    if payload == protocol + 2:
        return _ethertype(data, protocol)
    place, vlan = _ethertype(kind + data[payload:], 0)
    return (place - 2 + payload if place >= 0 else place), vlan


def _link_nflog(data: bytes) -> Place:
    """Netfilter log: after 4 bytes, attributes in the capturing host's byte order."""
    if len(data) < 4:
        return _CUT
    for order in ("little", "big"):
        pos = 4
        while len(data) >= pos + 4:
            size = int.from_bytes(data[pos : pos + 2], order)
            kind = int.from_bytes(data[pos + 2 : pos + 4], order)
            if size < 4:
                break
            if kind == 9:  # NFULA_PAYLOAD
                return pos + 4, 0
            pos += size + -size % 4
    return -_NFLOG, 0


_LINKS: dict[int, Callable[[bytes], Place]] = {
    0: _link_family,  # NULL
    9: _link_ppp,
    12: _link_raw,  # DLT_RAW of most systems
    14: _link_raw,  # DLT_RAW of OpenBSD
    50: _link_ppp,  # PPP_HDLC
    51: lambda data: (_pppoe(data, 0), 0),
    101: _link_raw,
    104: lambda data: _ethertype(data, 2),  # Cisco HDLC
    108: _link_family,  # LOOP
    113: _link_cooked,
    166: lambda data: (_ppp(data, 2), 0),  # PPP_PPPD
    204: _link_ppp_with_direction,
    228: _link_raw,  # IPV4
    229: _link_raw,  # IPV6
    239: _link_nflog,
    276: _link_cooked2,
}
