"""By which interfaces pods are reached, from the kernel's routes.

Message layout: linux/rtnetlink.h.
"""

import re
import socket
import struct
from collections.abc import Iterable

from knp_py.model.net import address_bytes, is_v4

_GET_ROUTE = 26
_REQUEST = 1
_ERROR = 2
_DESTINATION, _INTERFACE, _GATEWAY, _VIA = 1, 4, 5, 18  # RTA_*
_ROUTE = struct.Struct("=BBBBBBBBI")
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
    at, index = 16 + _ROUTE.size, 0
    while at + 4 <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < 4:
            break
        if kind in {_GATEWAY, _VIA}:
            return 0
        if kind == _INTERFACE:
            index = struct.unpack_from("=I", data, at + 4)[0]
        at += length + 3 & ~3
    return index


def _name(index: int) -> str:
    try:
        name = socket.if_indextoname(index)
    except OSError:
        return ""  # it is gone again
    # The loopback is no way to a pod; a name that needs quoting has no place in a ruleset.
    return name if name != "lo" and _PLAIN.fullmatch(name) else ""
