"""What a lab consists of, given a cluster: which pods, with which addresses, on which node."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from knp_py.engine.snapshot import Snapshot
from knp_py.model.net import format_address, is_v4, parse_address

Addresses = tuple[int, ...]


class PodPlan(NamedTuple):
    """A pod's namespace. ``key`` is ``namespace/name``.

    ``node`` are the addresses of the node it runs on, which that node's own traffic to it
    comes from (semantics §3, *Node traffic*); none when nobody says which node it is.
    """

    key: str
    addresses: Addresses
    node: Addresses = ()

    def address(self, *, v4: bool) -> int | None:
        """Its address of a family."""
        return address_of(self.addresses, v4=v4)


class Plan(NamedTuple):
    """``nodes`` are the addresses of all nodes: one namespace stands for all of them."""

    nodes: Addresses = ()
    pods: tuple[PodPlan, ...] = ()


def address_of(addresses: Addresses, *, v4: bool) -> int | None:
    """The first address of a family."""
    return next((address for address in addresses if is_v4(address) is v4), None)


class WrittenPlan(msgspec.Struct, frozen=True):
    """A plan as text: no JSON number has room for an IPv6 address.

    ``pods``: each pod's addresses and its node's.
    """

    nodes: tuple[str, ...] = ()
    pods: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}


def write_plan(plan: Plan) -> WrittenPlan:
    """A plan to its text."""
    pods = {pod.key: (_texts(pod.addresses), _texts(pod.node)) for pod in plan.pods}
    return WrittenPlan(_texts(plan.nodes), pods)


def read_plan(written: WrittenPlan) -> Plan:
    """The plan that was written."""
    pods = (PodPlan(k, _parsed(own), _parsed(node)) for k, (own, node) in written.pods.items())
    return Plan(_parsed(written.nodes), tuple(sorted(pods)))


def _texts(addresses: Addresses) -> tuple[str, ...]:
    return tuple(map(format_address, addresses))


def _parsed(texts: tuple[str, ...]) -> Addresses:
    return tuple(map(parse_address, texts))


def plan_of(snapshot: Snapshot) -> Plan:
    """The lab of a cluster. A pod without an address of its own has no namespace."""
    pods: list[PodPlan] = []
    nodes: set[int] = set()
    for node in snapshot.nodes.values():
        nodes.update(node.all_ips)
    for pod in snapshot.pods.values():
        nodes.update(pod.host_ips, pod.ips if pod.host_network else ())
        own = tuple(a for a in pod.ips if (at := snapshot.pod_at(a)) and at.uid == pod.uid)
        if own:
            host = snapshot.nodes.get(pod.node)
            pods.append(PodPlan(pod.key, own, pod.host_ips or (host.ips if host else ())))
    taken = {address for pod in pods for address in pod.addresses}
    return Plan(tuple(sorted(nodes - taken)), tuple(sorted(pods)))
