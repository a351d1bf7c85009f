"""Whose DNS answers count for which pod (semantics §6, *Trusted resolvers*)."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from knp_py.engine.snapshot import Snapshot
from knp_py.errors import InputError
from knp_py.model.net import Cidr, format_address, is_v4, parse_address, parse_cidr
from knp_py.model.objects import Pod

_CLUSTER_FIRST = frozenset({"ClusterFirst", "ClusterFirstWithHostNet"})


class Trust(msgspec.Struct, frozen=True):
    """Which servers teach.

    ``mode`` "auto": what the pod's own spec names, which the code inside it cannot change:
    ``dnsConfig.nameservers``, and where one is the cluster IP of a Service the pods behind
    it; for ClusterFirst the cluster's resolvers; for Default the ``node_resolvers``, which no
    manifest states. "any": every server that policy lets the pod query. "listed": those in
    ``cidrs``, so none when that is empty.

    A pod's own address never teaches that pod, whatever the mode: it would be asking itself.
    """

    mode: Literal["auto", "any", "listed"] = "auto"
    cidrs: tuple[Cidr, ...] = ()
    node_resolvers: frozenset[int] = frozenset()

    def trusted(self, pod: Pod, server: int, snapshot: Snapshot | None) -> bool:
        """Whether an answer of ``server`` to ``pod`` counts.

        Without a snapshot nobody knows the cluster's resolvers, or who is behind a Service.
        """
        if server in pod.ips:
            return False
        if self.mode == "any":
            return True
        if self.mode == "listed":
            return any(
                first <= server <= last for cidr in self.cidrs for first, last in cidr.ranges
            )
        if server in pod.nameservers:
            return True
        if snapshot is not None and _is_behind(server, pod.nameservers, snapshot):
            return True
        if pod.dns_policy in _CLUSTER_FIRST:
            return snapshot is not None and server in snapshot.cluster_resolvers
        return pod.dns_policy == "Default" and server in self.node_resolvers


def _is_behind(server: int, nameservers: Iterable[int], snapshot: Snapshot) -> bool:
    """Whether ``server`` is a pod behind a Service that has one of these as its cluster IP.

    On a node the server is that pod: the address that was asked is translated before anybody
    sees the packet. The API server hands cluster IPs out; external ones anybody may claim.
    """
    for address in nameservers:
        service = snapshot.service_at(address)
        if service is None or address not in service.cluster_ips or not service.selector:
            continue
        behind = snapshot.pod_at(server)
        if (
            behind is not None
            and behind.namespace == service.namespace
            and service.selector.items() <= behind.labels.items()
        ):
            return True
    return False


def parse_trust(text: str, *, node_resolvers: Iterable[int] = ()) -> Trust:
    """``auto``, ``any`` or CIDRs and addresses with commas between them, to a ``Trust``.

    Raises ``InputError`` with one line for anything else. Nothing at all is refused rather
    than taken as "nobody": a variable that was never set should not switch names off.
    """
    resolvers = frozenset(node_resolvers)
    word = text.strip()
    if word in {"auto", "any"}:
        return Trust("any" if word == "any" else "auto", node_resolvers=resolvers)
    try:
        cidrs = tuple(_parse_network(part.strip()) for part in word.split(","))
    except ValueError:
        raise InputError(
            f"trusted resolvers: {text!r} is not auto, any or a list of CIDRs like 10.96.0.10/32"
        ) from None
    return Trust("listed", cidrs, resolvers)


def parse_networks(text: str, option: str) -> tuple[Cidr, ...]:
    """CIDRs and addresses with commas between them; none for an empty text.

    Raises ``InputError`` that names ``option``.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    try:
        return tuple(map(_parse_network, parts))
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None


def single(address: int) -> str:
    """The address as a CIDR of its own, as a flag takes it."""
    return f"{format_address(address)}/{32 if is_v4(address) else 128}"


def _parse_network(text: str) -> Cidr:
    return parse_cidr(text if "/" in text else single(parse_address(text)))
