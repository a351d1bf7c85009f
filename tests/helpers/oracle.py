"""A second evaluator, slow and obvious, to compare the engine with.

Written from semantics.md alone, sentence by sentence, over plain lists. It shares the
model's values with the engine and nothing else: selectors, networks and names are
matched here again, so that one mistake cannot hide in both.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from knp_py.model.changes import ClusterObject
from knp_py.model.decision import Verdict
from knp_py.model.net import format_address
from knp_py.model.objects import Namespace, Node, Pod
from knp_py.model.packet import Packet
from knp_py.model.policy import (
    Action,
    ClusterNetworkPolicy,
    ClusterRule,
    Direction,
    DomainPeer,
    NamedPort,
    NetworkPeer,
    NetworkPolicy,
    NetworkRule,
    NodePeer,
    Peer,
    PodPeer,
    Port,
    PortRange,
    Tier,
    UnknownPeer,
    UnknownPort,
)
from knp_py.model.selectors import LabelSelector


class Learned(NamedTuple):
    """A name that a DNS answer taught one pod, valid while ``now < expires``."""

    pod_uid: str
    name: str
    address: int
    expires: float


class Ruled(NamedTuple):
    """What decided one direction.

    ``isolated_by`` holds all policies that isolate, when the NetworkPolicy tier denied.
    ``action`` is None outside the ClusterNetworkPolicy tiers.
    """

    allowed: bool
    tier: Tier
    policy: str | None = None
    rule: int | None = None
    action: str | None = None
    isolated_by: tuple[str, ...] = ()


class Answer(NamedTuple):
    """A direction is None when it was not judged: no pod there, or egress had denied."""

    verdict: Verdict
    egress: Ruled | None
    ingress: Ruled | None
    unidentified: frozenset[int]


class Flow(NamedTuple):
    """One direction's question: what of this packet between ``subject`` and ``other``."""

    direction: Direction
    subject: Pod
    other: Pod | None
    packet: Packet
    now: float


class Oracle:
    """Answers from lists of objects; every question walks everything."""

    def __init__(self, objects: Sequence[ClusterObject], learned: Sequence[Learned] = ()) -> None:
        self.pods = [o for o in objects if isinstance(o, Pod)]
        self.namespaces = [o for o in objects if isinstance(o, Namespace)]
        self.nodes = [o for o in objects if isinstance(o, Node)]
        self.cluster_policies = [o for o in objects if isinstance(o, ClusterNetworkPolicy)]
        self.network_policies = [o for o in objects if isinstance(o, NetworkPolicy)]
        self.learned = list(learned)

    # Section 2: two directions, both must allow.

    def judge(self, packet: Packet, now: float = 0.0) -> Answer:
        source = self.pod_at(packet.src)
        destination = self.pod_at(packet.dst)
        unidentified = frozenset(a for a in (packet.src, packet.dst) if self.unidentified(a))
        if source is not None and destination is not None and source.uid == destination.uid:
            # No tier is asked. The engine reports it as one ruling, the egress one.
            return Answer(Verdict.ALLOW, Ruled(True, Tier.DEFAULT), None, unidentified)
        egress = ingress = None
        if source is not None:
            egress = self.direction(Flow(Direction.EGRESS, source, destination, packet, now))
            if not egress.allowed:
                return Answer(Verdict.DENY, egress, None, unidentified)
        if destination is not None:
            ingress = self.direction(Flow(Direction.INGRESS, destination, source, packet, now))
            if not ingress.allowed:
                return Answer(Verdict.DENY, egress, ingress, unidentified)
        return Answer(Verdict.ALLOW, egress, ingress, unidentified)

    # Section 1: endpoints.

    def pod_at(self, address: int) -> Pod | None:
        owner: Pod | None = None
        for pod in self.pods:
            if address not in pod.ips or pod.host_network:
                continue
            if pod.phase in ("Succeeded", "Failed"):
                continue
            if owner is None or (pod.created, pod.uid) > (owner.created, owner.uid):
                owner = pod
        return owner

    def node_address(self, address: int) -> bool:
        return any(address in node.ips for node in self.nodes)

    def unidentified(self, address: int) -> bool:
        if self.pod_at(address) is not None or self.node_address(address):
            return False
        cidrs = [cidr for node in self.nodes for cidr in node.pod_cidrs]
        return any(network_contains(cidr, address) for cidr in cidrs)

    def namespace_labels(self, name: str) -> dict[str, str]:
        labels: dict[str, str] = {}
        for namespace in self.namespaces:
            if namespace.name == name:
                labels.update(namespace.labels)
        labels["kubernetes.io/metadata.name"] = name
        return labels

    # Section 3: tiers.

    def direction(self, flow: Flow) -> Ruled:
        for tier in (Tier.ADMIN, Tier.NETWORK_POLICY, Tier.BASELINE):
            if tier is Tier.NETWORK_POLICY:
                ruled = self.network_policy_tier(flow)
            else:
                ruled = self.cluster_tier(flow, tier)
            if ruled is not None:
                return ruled
        return Ruled(allowed=True, tier=Tier.DEFAULT)

    def cluster_tier(self, flow: Flow, tier: Tier) -> Ruled | None:
        policies = [
            policy
            for policy in self.cluster_policies
            if policy.tier == tier and self.pod_peer(policy.subject, flow.subject)
        ]
        policies.sort(key=lambda policy: (policy.priority, policy.name))
        for policy in policies:
            for index, rule in enumerate(policy.rules[flow.direction]):
                done = self.cluster_rule(rule, flow)
                if done == "Pass":
                    return None
                if done == "Accept":
                    return Ruled(True, tier, policy.name, index, "Accept")
                if done == "Deny":
                    return Ruled(False, tier, policy.name, index, "Deny")
        return None

    def network_policy_tier(self, flow: Flow) -> Ruled | None:
        isolating = self.isolating(flow)
        if not isolating:
            return None
        tier = Tier.NETWORK_POLICY
        if flow.direction is Direction.INGRESS and self.from_own_node(flow):
            return Ruled(True, tier)
        for policy in isolating:
            for index, rule in enumerate(policy.rules[flow.direction] or ()):
                if self.network_rule(rule, flow):
                    return Ruled(True, tier, policy.key, index)
        return Ruled(False, tier, isolated_by=tuple(policy.key for policy in isolating))

    def isolating(self, flow: Flow) -> list[NetworkPolicy]:
        """NetworkPolicies that select the subject and have this direction, by name."""
        found = []
        for policy in self.network_policies:
            if policy.namespace != flow.subject.namespace:
                continue
            if not selects(policy.pods, flow.subject.labels):
                continue
            if policy.rules[flow.direction] is not None:
                found.append(policy)
        return sorted(found, key=lambda policy: policy.key)

    def from_own_node(self, flow: Flow) -> bool:
        if flow.other is not None:
            return False
        if flow.packet.src in flow.subject.host_ips:
            return True
        return any(
            node.name == flow.subject.node and flow.packet.src in node.ips for node in self.nodes
        )

    # Section 4: rule matching.

    def cluster_rule(self, rule: ClusterRule, flow: Flow) -> str:
        """``Accept``, ``Deny``, ``Pass`` or ``no match``."""
        if self.broken(rule, flow.direction):
            return "no match" if rule.action is Action.ACCEPT else "Deny"
        if not any(self.peer(peer, flow) for peer in rule.peers):
            return "no match"
        if rule.ports is not None and not any(self.port(port, flow) for port in rule.ports):
            return "no match"
        return {
            Action.ACCEPT: "Accept",
            Action.DENY: "Deny",
            Action.PASS: "Pass",
            Action.UNKNOWN: "Deny",
        }[rule.action]

    def broken(self, rule: ClusterRule, direction: Direction) -> bool:
        """Whether the rule must fail closed, the whole of it."""
        for peer in rule.peers:
            if isinstance(peer, UnknownPeer):
                return True
            # "(egress)" in the table: an ingress peer has no such field.
            if direction is Direction.INGRESS and not isinstance(peer, PodPeer):
                return True
            if isinstance(peer, DomainPeer) and rule.action is not Action.ACCEPT:
                return True
        return self.unknown_port(rule)

    def unknown_port(self, rule: ClusterRule | NetworkRule) -> bool:
        return any(isinstance(port, UnknownPort) for port in rule.ports or ())

    def network_rule(self, rule: NetworkRule, flow: Flow) -> bool:
        if rule.peers is not None and not any(self.peer(peer, flow) for peer in rule.peers):
            return False
        if rule.ports is None:
            return True
        if self.unknown_port(rule):
            return False  # "the same fail-closed reading": the whole rule
        return any(self.port(port, flow) for port in rule.ports)

    def peer(self, peer: Peer, flow: Flow) -> bool:
        egress = flow.direction is Direction.EGRESS
        address = flow.packet.dst if egress else flow.packet.src
        match peer:
            case PodPeer():
                return flow.other is not None and self.pod_peer(peer, flow.other)
            case NetworkPeer():
                return any(network_contains(cidr.text, address) for cidr in peer.cidrs) and not (
                    any(network_contains(cidr.text, address) for cidr in peer.excepts)
                )
            case NodePeer():
                return any(
                    selects(peer.nodes, node.labels) and address in node.all_ips
                    for node in self.nodes
                )
            case DomainPeer():
                return any(
                    name_matches(pattern, learned.name)
                    for learned in self.learned
                    for pattern in peer.names
                    if learned.pod_uid == flow.subject.uid
                    and learned.address == address
                    and flow.now < learned.expires
                )
            case UnknownPeer():
                return False

    def pod_peer(self, peer: PodPeer, pod: Pod) -> bool:
        if not selects(peer.pods, pod.labels):
            return False
        if peer.namespace is not None:
            return pod.namespace == peer.namespace
        return selects(peer.namespaces, self.namespace_labels(pod.namespace))

    def port(self, port: Port, flow: Flow) -> bool:
        packet = flow.packet
        if packet.protocol not in (6, 17, 132):  # only TCP, UDP and SCTP have ports to match
            return False
        match port:
            case PortRange():
                if packet.protocol != port.protocol:
                    return False
                return packet.dport in range(port.first, port.last + 1)
            case NamedPort():
                if port.protocol is not None and packet.protocol != port.protocol:
                    return False
                destination = self.pod_at(packet.dst)
                return destination is not None and any(
                    container_port.name == port.name
                    and container_port.protocol == packet.protocol
                    and container_port.port == packet.dport
                    for container_port in destination.ports
                )
            case UnknownPort():
                return False


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """The API's label selector, read aloud."""
    for key, value in selector.match_labels:
        if key not in labels or labels[key] != value:
            return False
    for requirement in selector.match_expressions:
        has = requirement.key in labels
        value_listed = has and labels[requirement.key] in list(requirement.values)
        if not {
            "In": value_listed,
            "NotIn": not value_listed,
            "Exists": has,
            "DoesNotExist": not has,
        }[requirement.operator.value]:
            return False
    return True


def network_contains(text: str, address: int) -> bool:
    """Whether the network holds the address; an IPv4-mapped one is the IPv4 one."""
    network = ipaddress.ip_network(text, strict=False)
    if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= 96:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            network = ipaddress.ip_network((mapped, network.prefixlen - 96))
    ip = ipaddress.ip_address(format_address(address))
    return ip.version == network.version and ip in network


def name_matches(pattern: str, name: str) -> bool:
    """``*.`` stands for one or more whole labels, never for none."""
    wanted = pattern.lower().removesuffix(".").split(".")
    labels = name.lower().removesuffix(".").split(".")
    if wanted[0] != "*":
        return wanted == labels
    return len(labels) >= len(wanted) and labels[-(len(wanted) - 1) :] == wanted[1:]
