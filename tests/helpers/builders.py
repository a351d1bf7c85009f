"""Objects in few words, with defaults, for tests.

Addresses, networks and protocols are text here; ``"ns/name"`` keys name namespaced
objects. Peers that a NetworkPolicy writes as a bare ``podSelector`` come from
``own_pods``; ``netpol`` fills in its namespace.
"""

from collections.abc import Mapping, Sequence

import msgspec

from knp_py.model.net import parse_address, parse_cidr
from knp_py.model.objects import (
    NAMESPACE_NAME_LABEL,
    ContainerPort,
    Namespace,
    Node,
    Pod,
    Service,
    ServicePort,
)
from knp_py.model.packet import Packet, Proto
from knp_py.model.policy import (
    Action,
    ClusterNetworkPolicy,
    ClusterRule,
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
from knp_py.model.selectors import EVERYTHING, LabelSelector, Operator, Requirement

Labels = Mapping[str, str]
PROTOCOLS = {
    "TCP": Proto.TCP,
    "UDP": Proto.UDP,
    "SCTP": Proto.SCTP,
    "ICMP": Proto.ICMP,
    "ICMPv6": Proto.ICMPV6,
    "unknown": Proto.UNKNOWN,
}
ECHO_REQUEST = {"ICMP": 8, "ICMPv6": 128}
# Where ``own_pods`` waits for the policy that will hold it; no namespace has this name.
_POLICY_NAMESPACE = "(the policy's)"


# Selectors.


def select(labels: Labels | None = None, *expressions: Requirement) -> LabelSelector:
    """A label selector; without arguments the empty one, which matches everything."""
    return LabelSelector(
        tuple(sorted((labels or {}).items())),
        tuple(sorted(set(expressions), key=lambda r: (r.key, r.operator.value, r.values))),
    )


def is_in(key: str, *values: str) -> Requirement:
    return Requirement(key, Operator.IN, tuple(sorted(values)))


def not_in(key: str, *values: str) -> Requirement:
    return Requirement(key, Operator.NOT_IN, tuple(sorted(values)))


def exists(key: str) -> Requirement:
    return Requirement(key, Operator.EXISTS)


def absent(key: str) -> Requirement:
    return Requirement(key, Operator.DOES_NOT_EXIST)


# Objects.


def address(text: str) -> int:
    return parse_address(text)


def addresses(texts: Sequence[str]) -> tuple[int, ...]:
    return tuple(parse_address(text) for text in texts)


def pod(
    key: str,
    *ips: str,
    labels: Labels | None = None,
    uid: str | None = None,
    node: str = "",
    host_ips: Sequence[str] = (),
    host_network: bool = False,
    phase: str = "Running",
    created: str = "2026-01-01T00:00:00Z",
    ports: Sequence[ContainerPort] = (),
    nameservers: Sequence[str] = (),
    dns_policy: str = "ClusterFirst",
) -> Pod:
    namespace_name, _, name = key.partition("/")
    return Pod(
        uid=uid or f"uid-{key}",
        namespace=namespace_name,
        name=name,
        labels=dict(labels or {}),
        ips=addresses(ips),
        node=node,
        host_ips=addresses(host_ips),
        host_network=host_network,
        phase=phase,
        created=created,
        ports=tuple(ports),
        nameservers=addresses(nameservers),
        dns_policy=dns_policy,
    )


def container_port(name: str, port: int, protocol: str = "TCP") -> ContainerPort:
    return ContainerPort(name, PROTOCOLS[protocol], port)


def namespace(name: str, labels: Labels | None = None, *, terminating: bool = False) -> Namespace:
    return Namespace(name, {**(labels or {}), NAMESPACE_NAME_LABEL: name}, terminating)


def node(
    name: str,
    *ips: str,
    labels: Labels | None = None,
    other_ips: Sequence[str] = (),
    pod_cidrs: Sequence[str] = (),
) -> Node:
    """A node; ``other_ips`` are addresses of other types, such as a Hostname that is an IP."""
    own = addresses(ips)
    return Node(name, dict(labels or {}), own, own + addresses(other_ips), tuple(pod_cidrs))


def service(
    key: str,
    *cluster_ips: str,
    selector: Labels | None = None,
    port: int = 80,
    target: int | str | None = None,
    protocol: str = "TCP",
    external_ips: Sequence[str] = (),
) -> Service:
    namespace_name, _, name = key.partition("/")
    entry = ServicePort("", PROTOCOLS[protocol], port, port if target is None else target)
    return Service(
        namespace_name,
        name,
        dict(selector or {}),
        addresses(cluster_ips),
        addresses(external_ips),
        (entry,),
    )


# Peers.


def pods(labels: LabelSelector = EVERYTHING, namespaces: LabelSelector = EVERYTHING) -> PodPeer:
    """Pods in any of the selected namespaces."""
    return PodPeer(namespaces=namespaces, pods=labels)


def own_pods(labels: LabelSelector = EVERYTHING) -> PodPeer:
    """A NetworkPolicy's ``podSelector`` alone: pods of the policy's namespace."""
    return PodPeer(pods=labels, namespace=_POLICY_NAMESPACE)


def namespaces(labels: LabelSelector = EVERYTHING) -> PodPeer:
    return PodPeer(namespaces=labels)


def in_namespace(name: str, labels: LabelSelector = EVERYTHING) -> PodPeer:
    """Pods of the namespace of that name, by the label every namespace carries."""
    return PodPeer(namespaces=select({NAMESPACE_NAME_LABEL: name}), pods=labels)


def networks(*cidrs: str) -> NetworkPeer:
    return NetworkPeer(tuple(parse_cidr(cidr) for cidr in cidrs))


def ip_block(cidr: str, *excepts: str) -> NetworkPeer:
    return NetworkPeer((parse_cidr(cidr),), tuple(parse_cidr(hole) for hole in excepts))


def nodes(labels: LabelSelector = EVERYTHING) -> NodePeer:
    return NodePeer(labels)


def domains(*names: str) -> DomainPeer:
    return DomainPeer(names)


def unknown_peer(*fields: str) -> UnknownPeer:
    return UnknownPeer(fields)


# Ports.


def tcp(first: int = 0, last: int | None = None) -> PortRange:
    return _range("TCP", first, last)


def udp(first: int = 0, last: int | None = None) -> PortRange:
    return _range("UDP", first, last)


def sctp(first: int = 0, last: int | None = None) -> PortRange:
    return _range("SCTP", first, last)


def _range(protocol: str, first: int, last: int | None) -> PortRange:
    # No port at all is every port of the protocol.
    if last is None:
        last = first or 65535
    return PortRange(PROTOCOLS[protocol], first, last)


def named(name: str, protocol: str | None = "TCP") -> NamedPort:
    return NamedPort(name, None if protocol is None else PROTOCOLS[protocol])


def unknown_port(*fields: str) -> UnknownPort:
    return UnknownPort(fields)


# Rules and policies.


def allow(*peers: Peer, ports: Sequence[Port] | None = None) -> NetworkRule:
    """A NetworkPolicy rule; without peers it has no ``from``/``to`` and matches every peer."""
    return NetworkRule(tuple(peers) or None, None if ports is None else tuple(ports))


def accept(*peers: Peer, ports: Sequence[Port] | None = None, name: str = "") -> ClusterRule:
    return _cluster_rule(Action.ACCEPT, peers, ports, name)


def deny(*peers: Peer, ports: Sequence[Port] | None = None, name: str = "") -> ClusterRule:
    return _cluster_rule(Action.DENY, peers, ports, name)


def pass_on(*peers: Peer, ports: Sequence[Port] | None = None, name: str = "") -> ClusterRule:
    return _cluster_rule(Action.PASS, peers, ports, name)


def unknown_action(*peers: Peer, ports: Sequence[Port] | None = None) -> ClusterRule:
    return _cluster_rule(Action.UNKNOWN, peers, ports, "")


def _cluster_rule(
    action: Action, peers: Sequence[Peer], ports: Sequence[Port] | None, name: str
) -> ClusterRule:
    return ClusterRule(
        action,
        tuple(peers),
        None if ports is None else tuple(ports),
        name,
        "Ponder" if action is Action.UNKNOWN else action.value,
    )


def netpol(
    key: str,
    selector: LabelSelector = EVERYTHING,
    *,
    ingress: Sequence[NetworkRule] | None = None,
    egress: Sequence[NetworkRule] | None = None,
) -> NetworkPolicy:
    """A NetworkPolicy; a direction left out is not in its policyTypes, ``[]`` isolates."""
    namespace_name, _, name = key.partition("/")

    def own(rules: Sequence[NetworkRule] | None) -> tuple[NetworkRule, ...] | None:
        return None if rules is None else tuple(_in_namespace(r, namespace_name) for r in rules)

    return NetworkPolicy(namespace_name, name, selector, (own(egress), own(ingress)))


def _in_namespace(rule: NetworkRule, name: str) -> NetworkRule:
    def own(peer: Peer) -> Peer:
        if isinstance(peer, PodPeer) and peer.namespace == _POLICY_NAMESPACE:
            return msgspec.structs.replace(peer, namespace=name)
        return peer

    return NetworkRule(rule.peers and tuple(own(peer) for peer in rule.peers), rule.ports)


def cnp(
    name: str,
    tier: Tier = Tier.ADMIN,
    priority: int = 0,
    subject: PodPeer | None = None,
    *,
    egress: Sequence[ClusterRule] = (),
    ingress: Sequence[ClusterRule] = (),
) -> ClusterNetworkPolicy:
    """A ClusterNetworkPolicy; without a subject it selects every pod."""
    rules = (tuple(egress), tuple(ingress))  # in the order of Direction
    return ClusterNetworkPolicy(name, tier, priority, subject or PodPeer(), rules)


def packet(
    src: str | Pod, dst: str | Pod, dport: int = 80, protocol: str = "TCP", *, sport: int = 40000
) -> Packet:
    """A packet between addresses or pods (their first address); ICMP ones are echo requests."""
    src_ip = src.ips[0] if isinstance(src, Pod) else parse_address(src)
    dst_ip = dst.ips[0] if isinstance(dst, Pod) else parse_address(dst)
    if protocol not in {"TCP", "UDP", "SCTP"}:
        sport = dport = 0
    return Packet(
        src_ip,
        dst_ip,
        int(PROTOCOLS[protocol]),
        sport,
        dport,
        icmp_type=ECHO_REQUEST.get(protocol, -1),
    )
