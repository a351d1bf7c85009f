"""Clusters of a stated size, shared by benchmarks and tests; the same for the same size."""

from collections.abc import Iterator

from knp_py.model.changes import Change, ClusterObject, Verb
from knp_py.model.net import parse_address, parse_cidr
from knp_py.model.objects import NAMESPACE_NAME_LABEL, ContainerPort, Namespace, Node, Pod
from knp_py.model.packet import Proto
from knp_py.model.policy import (
    Action,
    ClusterNetworkPolicy,
    ClusterRule,
    DomainPeer,
    NamedPort,
    NetworkPeer,
    NetworkPolicy,
    NetworkRule,
    PodPeer,
    PortRange,
    Tier,
)
from knp_py.model.selectors import EVERYTHING, LabelSelector

POD_BASE = parse_address("10.64.0.0")
PODS_PER_NODE = 100
PODS_PER_NAMESPACE = 100
APPS = 10
HTTP = (ContainerPort("http", int(Proto.TCP), 8080),)


def labels(**pairs: str) -> LabelSelector:
    """A selector of matchLabels."""
    return LabelSelector(tuple(sorted(pairs.items())))


def tcp(first: int, last: int | None = None) -> PortRange:
    """TCP destination ports."""
    return PortRange(int(Proto.TCP), first, first if last is None else last)


def make_pod(index: int, *, app: int | None = None) -> Pod:
    """Pod number ``index``: ten apps a namespace, one hundred pods a node."""
    namespace = f"team-{index // PODS_PER_NAMESPACE}"
    number = index % APPS if app is None else app
    return Pod(
        uid=f"uid-{index}",
        namespace=namespace,
        name=f"pod-{index}",
        labels={"app": f"app-{number}", "pod-template-hash": f"{number:x}c0ffee", "v": "1"},
        ips=(POD_BASE + index,),
        node=f"node-{index // PODS_PER_NODE}",
        ports=HTTP,
    )


def make_cluster_policy(index: int) -> ClusterNetworkPolicy:
    """Policy number ``index``: selects every pod, three egress rules and two ingress rules."""
    egress = (
        ClusterRule(
            Action.DENY,
            (NetworkPeer((parse_cidr(f"198.{18 + index % 2}.{index}.0/24"),)),),
            (tcp(443),),
        ),
        ClusterRule(
            Action.ACCEPT, (DomainPeer((f"svc-{index}.example.com", f"*.cdn-{index}.example")),)
        ),
        ClusterRule(
            Action.PASS, (PodPeer(labels(tenant=f"t{index}"), labels(app="app-1")),), (tcp(8443),)
        ),
    )
    ingress = (
        ClusterRule(Action.DENY, (PodPeer(labels(tenant=f"t{index}")),), (tcp(index + 1),)),
        ClusterRule(Action.PASS, (PodPeer(EVERYTHING, labels(app=f"app-{index % APPS}")),)),
    )
    tier = Tier.BASELINE if index % 4 == 3 else Tier.ADMIN
    return ClusterNetworkPolicy(
        f"guard-{index}", tier, index, PodPeer(EVERYTHING), (egress, ingress)
    )


def make_network_policy(index: int, namespaces: int, *, one_namespace: bool) -> NetworkPolicy:
    """Policy number ``index``: an app may reach one other app, a CIDR and a named port."""
    app = index % APPS
    namespace = "team-0" if one_namespace else f"team-{index % namespaces}"
    pods = EVERYTHING if one_namespace else labels(app=f"app-{app}")
    friend = PodPeer(pods=labels(app=f"app-{(app + 1) % APPS}"), namespace=namespace)
    outside = NetworkPeer(
        (parse_cidr(f"203.{index % 200}.0.0/16"),), (parse_cidr(f"203.{index % 200}.9.0/24"),)
    )
    egress = (
        NetworkRule((friend,), (tcp(8080), NamedPort("http", int(Proto.TCP)))),
        NetworkRule((outside,), (tcp(1024 + index, 1100 + index),)),
    )
    ingress = (NetworkRule((friend, PodPeer(labels(tenant=f"t{index % 7}"))), (tcp(8080),)),)
    return NetworkPolicy(namespace, f"np-{index}", pods, (egress, ingress))


def cluster(
    *, cluster_policies: int, network_policies: int, pods: int, one_namespace: bool = False
) -> Iterator[ClusterObject]:
    """Every object of a cluster of that size."""
    namespaces = max(1, -(-pods // PODS_PER_NAMESPACE))
    for n in range(namespaces):
        name = f"team-{n}"
        yield Namespace(name, {NAMESPACE_NAME_LABEL: name, "tenant": f"t{n % 7}"})
    for n in range(-(-pods // PODS_PER_NODE)):
        address = parse_address("172.20.0.0") + n
        yield Node(f"node-{n}", {"zone": f"z{n % 3}"}, (address,), (address,))
    for index in range(cluster_policies):
        yield make_cluster_policy(index)
    for index in range(network_policies):
        yield make_network_policy(index, namespaces, one_namespace=one_namespace)
    for index in range(pods):
        yield make_pod(index)


def changes(objects: Iterator[ClusterObject]) -> Iterator[Change]:
    """Objects as changes."""
    return (Change(Verb.APPLIED, obj) for obj in objects)
