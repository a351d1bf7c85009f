"""By which interfaces pods are reached, and which addresses are the node's own.

Message layout: linux/rtnetlink.h.
"""

import re
import socket
import struct
import sys
from collections.abc import Iterable, Iterator

from knp_py.model.net import V4_BASE, address_bytes, is_v4

_GET_ADDRESS = 22
_GET_ROUTE = 26
_REQUEST = 1
_DUMP = 0x300
_ERROR, _DONE = 2, 3
_DESTINATION, _INTERFACE, _GATEWAY, _VIA = 1, 4, 5, 18  # RTA_*
_ADDRESS, _LOCAL = 1, 2  # IFA_*; where both are there the second is ours
_ROUTE = struct.Struct("=BBBBBBBBI")
_INTERFACE_ADDRESS = struct.Struct("=BBBBI")
_ATTRIBUTE = struct.Struct("=HH")
_PLAIN = re.compile(r"[A-Za-z0-9._@-]{1,15}")


def links_of(addresses: Iterable[int]) -> frozenset[str]:
    """Names of the interfaces behind which these addresses are, without a gateway between.

    Addresses without a route, and those that are elsewhere, have none. Never raises.
    """
    found: set[int] = set()
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
            for address in addresses:
                netlink.sendto(_question(address), (0, 0))
                index = _interface(netlink.recv(8192))
                if index:
                    found.add(index)
    except OSError:
        return frozenset()
    return frozenset(filter(None, map(_name, found)))


def own_addresses() -> frozenset[int]:
    """Every address that an interface here has. Never raises."""
    found: set[int] = set()
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
            body = _INTERFACE_ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
            head = struct.pack("=IHHII", 16 + len(body), _GET_ADDRESS, _REQUEST | _DUMP, 0, 0)
            netlink.sendto(head + body, (0, 0))
            while _take_addresses(netlink.recv(1 << 16), found):
                pass
    except OSError:
        return frozenset()
    return frozenset(found)


def _take_addresses(data: bytes, found: set[int]) -> bool:
    """Take them out of some messages of an answer; whether there are more to come."""
    at = 0
    while at + 16 <= len(data):
        length, kind = struct.unpack_from("=IH", data, at)
        if kind in {_ERROR, _DONE} or length < 16:
            return False
        said = dict(_attributes(data[at + 16 + _INTERFACE_ADDRESS.size : at + length]))
        address = said.get(_LOCAL, said.get(_ADDRESS))
        if address:
            number = int.from_bytes(address, "big")
            found.add(number | V4_BASE if len(address) == 4 else number)
        at += length + 3 & ~3
    return True


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < 4:
            return
        yield kind, data[at + 4 : at + length]
        at += length + 3 & ~3


def _question(address: int) -> bytes:
    packed = address_bytes(address)
    family = socket.AF_INET if is_v4(address) else socket.AF_INET6
    body = _ROUTE.pack(family, len(packed) * 8, 0, 0, 0, 0, 0, 0, 0)
    body += _ATTRIBUTE.pack(4 + len(packed), _DESTINATION) + packed
    return struct.pack("=IHHII", 16 + len(body), _GET_ROUTE, _REQUEST, 0, 0) + body


def _interface(data: bytes) -> int:
    """The interface's index in the answer, 0 when there is none that will do."""
    if struct.unpack_from("=H", data, 4)[0] == _ERROR:
        return 0
    said = dict(_attributes(data[16 + _ROUTE.size :]))
    if _GATEWAY in said or _VIA in said:
        return 0
    return int.from_bytes(said.get(_INTERFACE, b""), sys.byteorder)


def _name(index: int) -> str:
    try:
        name = socket.if_indextoname(index)
    except OSError:
        return ""  # it is gone again
    # The loopback is no way to a pod; a name that needs quoting has no place in a ruleset.
    return name if name != "lo" and _PLAIN.fullmatch(name) else ""
