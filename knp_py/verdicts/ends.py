"""What people write for the ends of a flow, and the addresses it means in a cluster.

``NS/POD``, an address, and for a destination also a domain name, ``NAME`` or ``NAME=IP``.
Policy knows addresses only, so whatever is written has to become one, or an error that
says what to write instead.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from knp_py.engine.patterns import canonical_name
from knp_py.engine.snapshot import Snapshot
from knp_py.errors import ProbeError
from knp_py.model.net import Cidr, format_address, is_v4, parse_address, parse_cidr
from knp_py.model.objects import Node, Pod, Service
from knp_py.model.policy import NetworkPeer, Policy

CLUSTER_DOMAIN = "cluster.local"

_PORT = re.compile(r"[0-9]+|[a-z0-9-]{1,15}", re.ASCII).fullmatch

# Blocks that nobody on the Internet has (RFC 5737, RFC 3849), for "some public address".
_NOWHERE_V4 = tuple(map(parse_cidr, ("203.0.113.0/24", "198.51.100.0/24", "192.0.2.0/24")))
_NOWHERE_V6 = (parse_cidr("2001:db8:ffff:ffff:ffff:ffff:ffff:ff00/120"),)


class Place(NamedTuple):
    """One end, found. ``addresses`` is empty for a name that may stand anywhere.

    ``pod`` is set for a pod's own address and for a host-network pod, which policy takes
    for its ``node``. ``service`` is set for an address that policy never gets to see.
    """

    addresses: tuple[int, ...]
    pod: Pod | None = None
    node: Node | None = None
    service: Service | None = None
    name: str | None = None


def find(snapshot: Snapshot, text: str, side: str) -> Place:
    """The end that ``text`` means; ``side`` is ``from`` or ``to``, for messages.

    Raises ``ProbeError`` for what is neither, or is no end of a flow at present.
    """
    text = text.strip()
    bare = text.removeprefix("[").removesuffix("]")
    try:
        return _at(snapshot, (parse_address(bare),))
    except ValueError:
        pass
    parts = split_port(text)
    if parts is not None:
        advice = "give it apart, as port" if side == "to" else "leave it out, it decides nothing"
        raise ProbeError(f"{side}: {text!r} ends in a port; {advice}")
    if side == "to" and "=" in text:
        name, _, address = text.partition("=")
        try:
            place = _at(snapshot, (parse_address(address.strip("[]")),))
        except ValueError:
            raise ProbeError(f"to: {address!r} in {text!r} is no IP address") from None
        return place._replace(name=_domain(name, text))
    if "/" in text:
        return _pod(snapshot, text, side)
    if side == "to" and "." in text:
        name = _domain(text, text)
        service = _service_named(snapshot, name)
        if service is not None:
            return Place((), service=service, name=name)
        return Place((), name=name)
    kinds = (
        "NS/POD nor an address" if side == "from" else "NS/POD nor an address nor a domain name"
    )
    raise ProbeError(f"{side}: {text!r} is neither {kinds}")


def split_port(text: str) -> tuple[str, str] | None:
    """``HOST:PORT`` as its two parts; None when there is no port, as in an IPv6 address."""
    head, _, port = text.strip().rpartition(":")
    if not head or not _PORT(port) or (":" in head and not head.endswith("]")):
        return None
    try:
        parse_address(text.strip())
    except ValueError:
        return head, port
    return None


def _at(snapshot: Snapshot, addresses: tuple[int, ...]) -> Place:
    (address,) = addresses
    return Place(
        addresses,
        pod=snapshot.pod_at(address),
        node=snapshot.node_at(address),
        service=None if snapshot.pod_at(address) else snapshot.service_at(address),
    )


def _domain(name: str, text: str) -> str:
    known = canonical_name(name)
    if known is None:
        raise ProbeError(f"to: {name!r} in {text!r} is no domain name")
    if known.rpartition(".")[2].isdigit():  # RFC 3696 §2: no top-level domain is
        raise ProbeError(f"to: {name!r} is neither an IP address nor a domain name")
    return known


def _service_named(snapshot: Snapshot, name: str) -> Service | None:
    """``web.shop.svc`` and longer are names of a Service of the cluster."""
    parts = name.removesuffix(f".{CLUSTER_DOMAIN}").split(".")
    if len(parts) != 3 or parts[2] != "svc":
        return None
    key = f"{parts[1]}/{parts[0]}"
    service = snapshot.services.get(key)
    if service is None:
        raise ProbeError(f"to: {name} is Service {key}, which is not in the manifests")
    return service


def _pod(snapshot: Snapshot, text: str, side: str) -> Place:
    pod = snapshot.pod_by_key(text)
    if pod is None:
        service = snapshot.services.get(text)
        if service is not None and side == "to":
            return Place((), service=service)
        raise ProbeError(f"{side}: {_missing(snapshot, text)}")
    if pod.host_network:
        return _host_network(snapshot, pod, side)
    if not pod.resolves:
        raise ProbeError(
            f"{side}: pod {text} has finished ({pod.phase}); its address is no longer its own"
        )
    if not pod.ips:
        raise ProbeError(f"{side}: pod {text} has no address yet (status.podIPs is empty)")
    own = tuple(a for a in pod.ips if (at := snapshot.pod_at(a)) is not None and at.uid == pod.uid)
    if not own:
        other = snapshot.pod_at(pod.ips[0])
        raise ProbeError(
            f"{side}: pod {text} has lost its address {format_address(pod.ips[0])}"
            + (f" to {other.key}, which is newer" if other else "")
        )
    return Place(own, pod=pod)


def _missing(snapshot: Snapshot, text: str) -> str:
    namespace, _, name = text.partition("/")
    try:
        parse_cidr(text)
    except ValueError:
        pass
    else:
        return f"{text} is a network; name one address of it"
    if not namespace or not name or "/" in name or "." in namespace or ":" in namespace:
        return f"{text!r} is not NS/POD"
    pods = sorted(p.name for p in snapshot.pods.values() if p.namespace == namespace)
    if not pods:
        known = namespace in snapshot.namespaces
        return f"there is no pod {text}; namespace {namespace} " + (
            "has no pods" if known else "is not in the manifests"
        )
    alike = [p for p in pods if p.startswith(name)] or pods
    shown = ", ".join(alike[:5]) + (", ..." if len(alike) > 5 else "")
    return f"there is no pod {text}; namespace {namespace} has {shown}"


def _host_network(snapshot: Snapshot, pod: Pod, side: str) -> Place:
    node = snapshot.nodes.get(pod.node)
    addresses = pod.ips or (node.ips if node is not None else ()) or pod.host_ips
    if not addresses:
        raise ProbeError(
            f"{side}: pod {pod.key} is on the host network and the address of its node"
            f" {pod.node or '(unknown)'} is not in the manifests"
        )
    return Place(addresses, pod=pod, node=node)


def pairs(source: Place, destination: Place, what: tuple[str, str]) -> list[tuple[int, int]]:
    """An address of each end for every family both have; the source's first address leads.

    Raises ``ProbeError`` when the two have no family in common. ``what`` are the texts.
    """
    found: dict[bool, tuple[int, int]] = {}
    for src in source.addresses:
        for dst in destination.addresses:
            if is_v4(src) == is_v4(dst):
                found.setdefault(is_v4(src), (src, dst))
    if found:
        return list(found.values())
    families = ["IPv4" if is_v4(place.addresses[0]) else "IPv6" for place in (source, destination)]
    raise ProbeError(
        f"no flow is possible: {what[0]} has {families[0]} only, {what[1]} {families[1]} only"
    )


def stand_in(snapshot: Snapshot, *, v4: bool) -> int:
    """A public address that stands for any: documentation space that no object mentions.

    Where policies do name parts of that space, the address is in as few of them as can be.
    """
    best: tuple[int, int] | None = None
    nodes = {address for node in snapshot.nodes.values() for address in node.all_ips}
    ranges = [r for cidr in _networks(snapshot.policies()) for r in cidr.ranges]
    for block in _NOWHERE_V4 if v4 else _NOWHERE_V6:
        ((first, last),) = block.ranges
        near = [(lo, hi) for lo, hi in ranges if lo <= last and hi >= first]
        around = sum(1 for lo, hi in near if lo <= first and hi >= last)
        inside = [(lo, hi) for lo, hi in near if not (lo <= first and hi >= last)]
        for address in range(first + 77, last):
            if address in nodes or snapshot.pod_at(address) or snapshot.service_at(address):
                continue
            score = around + sum(1 for lo, hi in inside if lo <= address <= hi)
            if best is None or score < best[0]:
                best = (score, address)
            if score == around:
                break
    if best is None:
        raise ProbeError("no address is left to stand for a name; say NAME=IP")
    return best[1]


def _networks(policies: Iterable[Policy]) -> Iterator[Cidr]:
    for policy in policies:
        for rules in policy.rules:
            for rule in rules or ():
                for peer in rule.peers or ():
                    if isinstance(peer, NetworkPeer):
                        yield from peer.cidrs
                        yield from peer.excepts
