"""Addresses that no name makes reachable (semantics §6; rules R40 to R43).

A stranger chooses what their name resolves to. Without this, a policy that lets a pod reach
``*.example.com`` would let whoever runs that zone open the metadata server to it.
"""

from knp_py.engine.snapshot import Snapshot
from knp_py.model.net import V4_BASE, Cidr, is_v4, parse_address, parse_cidr

MAPPED = "mapped-address"
SPECIAL = "special-address"
NODE = "node-address"
SERVICE = "service-address"
POD = "pod-address"

# What allowing the address would change. A mapped one stays refused, and a Service's is
# never the destination that policy sees: its backend is (semantics §1).
ALLOWABLE = frozenset({SPECIAL, NODE, POD})

# Loopback, "this network" with the unspecified address, link-local, multicast, and what is
# reserved: for protocols, for discarding, for no use at all, the broadcast address in it
# (RFC 6890), and the site-local addresses of old (RFC 3879).
_SPECIAL = (
    "0.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "192.0.0.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/128",
    "::1/128",
    "100::/64",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
)
_SPECIAL_RANGES = tuple(r for text in _SPECIAL for r in parse_cidr(text).ranges)
_NAT64 = parse_address("64:ff9b::")  # RFC 6052 §2.1, the well-known /96
# What else holds an IPv4 address in its last 32 bits: IPv4-compatible (RFC 4291 §2.5.5.1) and
# IPv4-translated (RFC 2765 §2.1) addresses, each by its upper 96 bits.
_EMBEDDING = frozenset({_NAT64 >> 32, 0, 0xFFFF_0000})
_LOCAL_NAT64 = parse_address("64:ff9b:1::") >> 80  # RFC 8215, a /48 of such prefixes
_6TO4 = parse_address("2002::")  # RFC 3056 §2: the IPv4 address is in bits 16 to 47


class Guard:
    """Refuses addresses; ``allowed`` are networks whose addresses pass all the same.

    Cluster DNS itself answers with pods' addresses, for headless Services, so those pass
    for names under ``cluster_domain``.
    """

    def __init__(
        self, allowed: tuple[Cidr, ...] = (), *, cluster_domain: str = "cluster.local"
    ) -> None:
        self._allowed = tuple(r for cidr in allowed for r in cidr.ranges)
        self._domain = cluster_domain
        self._suffix = f".{cluster_domain}"

    def refusal(
        self, name: str, address: int, snapshot: Snapshot | None, *, v6: bool = False
    ) -> str | None:
        """Why ``name`` must not open ``address``, None if it may.

        ``v6`` as in ``Credit``: an IPv4-mapped address is refused, because a client would
        reach the IPv4 address by it, which nobody named.
        """
        if is_v4(address):
            if v6:
                return MAPPED
            behind = address
        elif (address >> 32 in _EMBEDDING or address >> 80 == _LOCAL_NAT64) and address > 1:
            behind = V4_BASE | (address & 0xFFFFFFFF)
        elif address >> 112 == _6TO4 >> 112:
            behind = V4_BASE | (address >> 80 & 0xFFFFFFFF)
        else:
            behind = address
        reason = self._reason(name, behind, snapshot)
        if reason is not None:
            for first, last in self._allowed:
                if first <= address <= last or first <= behind <= last:
                    return None
        return reason

    def _reason(self, name: str, address: int, snapshot: Snapshot | None) -> str | None:
        for first, last in _SPECIAL_RANGES:
            if first <= address <= last:
                return SPECIAL
        if snapshot is None:
            return None
        if snapshot.service_at(address) is not None:
            return SERVICE
        if address in snapshot.every_node_address and snapshot.pod_at(address) is None:
            return NODE
        if snapshot.pod_at(address) is None and not snapshot.in_pod_network(address):
            return None
        return None if name == self._domain or name.endswith(self._suffix) else POD
