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
    by_port: dict[tuple[int, int], list[Service]] = {}
    for service in view.services:
        for port in service.ports:
            if service.selector and port.target != port.port:
                by_port.setdefault((port.protocol, port.port), []).append(service)
    for policy in view.policies:
        for direction, number, rule in numbered_rules(policy):
            if direction is Direction.EGRESS:
                _check_addresses(addresses, policy, number, rule, found)
                _check_ports(view, by_port, policy, number, rule, found)


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
    view: View,
    by_port: dict[tuple[int, int], list[Service]],
    policy: Policy,
    number: int,
    rule: Rule,
    found: Collector,
) -> None:
    ports = rule.ports or ()
    if rule.peers is None or not all(isinstance(peer, PodPeer) for peer in rule.peers):
        return
    for index, port in enumerate(ports):
        if not isinstance(port, PortRange) or port.first != port.last:
            continue
        services = by_port.get((port.protocol, port.first))
        if not services:
            continue
        pods = [p for peer in rule.peers if isinstance(peer, PodPeer) for p in view.live(peer)]
        behind = [s for s in services if any(_is_behind(pod, s) for pod in pods)]
        if not behind or any(_listens(view, pod, port.protocol, port.first) for pod in pods):
            continue
        service = behind[0]
        targets = sorted(set(_targets(service, pods, port.protocol, port.first)))
        if not targets or any(_matches(other, port.protocol, targets) for other in ports):
            continue
        shown = " or ".join(str(target) for target in targets)
        found.about(
            "service-port",
            policy,
            port_path(policy, Direction.EGRESS, number, index),
            f"{protocol_name(port.protocol)} {port.first} is the port of Service {service.key}, "
            f"whose pods listen on {shown}: policy sees the pods' port, so this never matches",
            f"write {shown}",
        )


def _is_behind(pod: Pod, service: Service) -> bool:
    return pod.namespace == service.namespace and all(
        pod.labels.get(key) == value for key, value in service.selector.items()
    )


def _listens(view: View, pod: Pod, protocol: int, number: int) -> bool:
    """Whether a named port or a Service says that the pod has this port itself."""
    if any(port.protocol == protocol and port.port == number for port in pod.ports):
        return True
    return any(
        port.protocol == protocol and port.target == number and _is_behind(pod, service)
        for service in view.services
        for port in service.ports
    )


def _targets(service: Service, pods: list[Pod], protocol: int, number: int) -> Iterator[int]:
    """The pods' ports that the Service's port leads to."""
    for port in service.ports:
        if (port.protocol, port.port) != (protocol, number):
            continue
        if isinstance(port.target, int):
            yield port.target
            continue
        for pod in pods:
            if _is_behind(pod, service):
                for own in pod.ports:
                    if (own.name, own.protocol) == (port.target, protocol):
                        yield own.port


def _matches(port: object, protocol: int, targets: list[int]) -> bool:
    return (
        isinstance(port, PortRange)
        and port.protocol == protocol
        and any(port.first <= target <= port.last for target in targets)
    )
