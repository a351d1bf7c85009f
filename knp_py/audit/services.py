"""Services in policies: rules see the pod behind a Service and its port, never the Service."""

from collections.abc import Iterator

from knp_py.audit.cells import Rule
from knp_py.audit.findings import Collector, peer_path, port_path
from knp_py.audit.rules import numbered_rules
from knp_py.audit.view import View
from knp_py.engine.surroundings import DNS_SERVICE
from knp_py.model.objects import Pod, Service
from knp_py.model.packet import protocol_name
from knp_py.model.policy import Direction, NetworkPeer, PodPeer, Policy, PortRange


class _Behind:
    """Which pods are behind which Service, and which ports pods are known to have."""

    def __init__(self, view: View) -> None:
        homes: dict[str, list[Pod]] = {}
        for pod in view.pods:
            homes.setdefault(pod.namespace, []).append(pod)
        self.pods: dict[str, dict[str, Pod]] = {}  # Service → its pods by uid
        self.own: dict[str, set[tuple[int, int]]] = {
            pod.uid: {(port.protocol, port.port) for port in pod.ports} for pod in view.pods
        }
        # Ports of Services that lead to another port of the pod.
        self.translated: dict[tuple[int, int], list[Service]] = {}
        for service in view.services:
            wanted = service.selector.items()
            pods = {
                pod.uid: pod
                for pod in homes.get(service.namespace, ())
                if wanted and wanted <= pod.labels.items()
            }
            self.pods[service.key] = pods
            for port in service.ports:
                if port.target != port.port:
                    self.translated.setdefault((port.protocol, port.port), []).append(service)
                if isinstance(port.target, int):
                    for uid in pods:
                        self.own[uid].add((port.protocol, port.target))


def check(view: View, found: Collector) -> None:
    """Every egress rule against the input's Services."""
    if not view.services:
        return
    addresses = {
        address: service
        for service in view.services
        if service.key != DNS_SERVICE  # NodeLocal DNSCache answers on that address itself
        for address in (*service.cluster_ips, *service.external_ips)
    }
    behind = _Behind(view)
    for policy in view.policies:
        for direction, number, rule in numbered_rules(policy):
            if direction is Direction.EGRESS:
                _check_addresses(addresses, policy, number, rule, found)
                _check_ports(view, behind, policy, number, rule, found)


def _check_addresses(
    addresses: dict[int, Service], policy: Policy, number: int, rule: Rule, found: Collector
) -> None:
    for index, peer in enumerate(rule.peers or ()):
        if not isinstance(peer, NetworkPeer):
            continue
        for cidr in peer.cidrs:
            first, last = cidr.ranges[0][0], cidr.ranges[-1][1]
            service = addresses.get(first) if first == last else None
            if service is not None:
                found.about(
                    "service-address",
                    policy,
                    peer_path(Direction.EGRESS, number, index),
                    f"{cidr.text} is the address of Service {service.key}: policy is judged "
                    "after that is translated to a pod's, so this never matches",
                    "select the pods behind the Service",
                )


def _check_ports(
    view: View, behind: _Behind, policy: Policy, number: int, rule: Rule, found: Collector
) -> None:
    if rule.peers is None or not all(isinstance(peer, PodPeer) for peer in rule.peers):
        return
    ports = rule.ports or ()
    for index, port in enumerate(ports):
        if not isinstance(port, PortRange) or port.first != port.last:
            continue
        wanted = (port.protocol, port.first)
        if wanted not in behind.translated:
            continue
        uids = {p.uid for peer in rule.peers if isinstance(peer, PodPeer) for p in view.live(peer)}
        if any(wanted in behind.own[uid] for uid in uids):
            continue
        for service in behind.translated[wanted]:
            pods = [pod for uid, pod in behind.pods[service.key].items() if uid in uids]
            targets = sorted(set(_targets(service, pods, wanted)))
            if not targets or any(_matches(other, port.protocol, targets) for other in ports):
                continue
            shown = " or ".join(str(target) for target in targets)
            found.about(
                "service-port",
                policy,
                port_path(policy, Direction.EGRESS, number, index),
                f"{protocol_name(port.protocol)} {port.first} is the port of Service "
                f"{service.key}, whose pods listen on {shown}: policy sees the pods' port, so "
                "this never matches",
                f"write {shown}",
            )
            break


def _targets(service: Service, pods: list[Pod], wanted: tuple[int, int]) -> Iterator[int]:
    """The ports of the pods that the Service's port leads to."""
    for port in service.ports:
        if (port.protocol, port.port) != wanted or not pods:
            continue
        if isinstance(port.target, int):
            yield port.target
            continue
        for pod in pods:
            for own in pod.ports:
                if (own.name, own.protocol) == (port.target, port.protocol):
                    yield own.port


def _matches(port: object, protocol: int, targets: list[int]) -> bool:
    return (
        isinstance(port, PortRange)
        and port.protocol == protocol
        and any(port.first <= target <= port.last for target in targets)
    )
