"""What is around the pods: nodes, Services, the cluster's resolvers."""

from collections.abc import Callable, Iterable

from knp_py.engine.identities import NodeSelectorTable
from knp_py.model.net import parse_address, parse_cidr, subtract
from knp_py.model.objects import Node, Pod, Service

# The address NodeLocal DNSCache listens on (semantics §6, trusted resolvers).
NODE_LOCAL_DNS = parse_address("169.254.20.10")
DNS_NAMESPACE, DNS_LABEL, DNS_NAME = "kube-system", "k8s-app", "kube-dns"
DNS_SERVICE = f"{DNS_NAMESPACE}/kube-dns"


def is_cluster_resolver(pod: Pod) -> bool:
    """Whether a pod is one of those that cluster DNS consists of."""
    return pod.namespace == DNS_NAMESPACE and pod.labels.get(DNS_LABEL) == DNS_NAME


def node_ends(nodes: dict[str, Node]) -> dict[int, Node]:
    """InternalIP and ExternalIP addresses to their nodes; the first name has a shared one."""
    ends: dict[int, Node] = {}
    for name in sorted(nodes):
        for address in nodes[name].ips:
            ends.setdefault(address, nodes[name])
    return ends


def node_addresses(
    nodes: dict[str, Node], selectors: NodeSelectorTable
) -> dict[int, tuple[int, ...]]:
    """Every node address to the numbers of the node selectors that match there."""
    found: dict[int, tuple[int, ...]] = {}
    for node in nodes.values():
        matched = selectors.matching(node.labels)
        for address in node.all_ips if matched else ():
            found[address] = tuple(sorted({*found.get(address, ()), *matched}))
    return found


def network_bounds(nodes: dict[str, Node]) -> tuple[int, ...]:
    """Where the pod CIDRs that nodes state begin and end, for a bisection."""
    cidrs = (parse_cidr(text) for node in nodes.values() for text in node.pod_cidrs)
    ranges = [r for cidr in cidrs for r in cidr.ranges]
    return tuple(edge for lo, hi in subtract(ranges, []) for edge in (lo, hi + 1))


def service_ends(services: dict[str, Service]) -> dict[int, Service]:
    """Addresses of Services, which policy never sees, to the Service.

    Anybody may claim any external address in a Service: a ClusterIP, which the API server
    hands out, comes first.
    """
    found: dict[int, Service] = {}
    for _, service in sorted(services.items()):
        for address in service.external_ips:
            found.setdefault(address, service)
    for service in services.values():
        found.update(dict.fromkeys(service.cluster_ips, service))
    return found


def cluster_resolvers(
    dns_pods: Iterable[Pod], services: dict[str, Service], owner: Callable[[int], Pod | None]
) -> frozenset[int]:
    """Addresses that pods of dnsPolicy ClusterFirst ask (semantics §6).

    ``owner`` is the pod an address resolves to: one that has passed on to another pod is no
    resolver's any more.
    """
    found = {NODE_LOCAL_DNS}
    for pod in dns_pods:
        found.update(address for address in pod.ips if owner(address) is pod)
    service = services.get(DNS_SERVICE)
    if service is not None:
        found.update(service.cluster_ips)
    return frozenset(found)
