"""The script as text; what the kernel makes of it is in ``rooted/test_lab_topology``."""

from helpers.builders import addresses, container_port, pod, service
from helpers.judging import snapshot_of

from knp_py.lab.services import service_rules
from knp_py.model.changes import ClusterObject
from knp_py.model.objects import Service, ServicePort
from knp_py.model.packet import Proto

WEB_1 = pod(
    "a/web-1", "10.0.0.1", "fd00::1", labels={"app": "web"}, ports=[container_port("http", 8080)]
)
WEB_2 = pod("a/web-2", "10.0.0.2", labels={"app": "web"}, ports=[container_port("http", 8081)])


def lines(*objects: ClusterObject) -> list[str]:
    return [line.strip() for line in service_rules(snapshot_of(objects)).splitlines()]


def test_backends_take_turns_and_named_ports_are_each_pods_own() -> None:
    found = lines(
        WEB_1,
        WEB_2,
        service("a/web", "10.96.0.1", selector={"app": "web"}, port=80, target="http"),
    )
    assert (
        "ip daddr 10.96.0.1 tcp dport 80 dnat ip addr . port to numgen inc mod 2"
        " map { 0 : 10.0.0.1 . 8080, 1 : 10.0.0.2 . 8081 }"
    ) in found
    assert "ip daddr { 10.96.0.1 } reject" in found
    hairpin = "ip saddr . ip daddr { 10.0.0.1 . 10.0.0.1, 10.0.0.2 . 10.0.0.2 } masquerade"
    assert f"ct status dnat {hairpin}" in found


def test_each_family_and_protocol_has_its_own_backends() -> None:
    ports = tuple(
        ServicePort(name, int(protocol), 53, 53)
        for name, protocol in (("u", Proto.UDP), ("t", Proto.TCP), ("s", Proto.SCTP))
    )
    ips = addresses(["10.96.0.9", "fd00:96::9"])
    both = Service("a", "dns", selector={"app": "web"}, cluster_ips=ips, ports=ports)
    found = "\n".join(lines(WEB_1, WEB_2, both))
    for word in ("udp", "tcp", "sctp"):
        assert f"ip daddr 10.96.0.9 {word} dport 53" in found
        assert (
            f"ip6 daddr fd00:96::9 {word} dport 53 dnat ip6 addr . port to numgen inc mod 1"
            in found
        )
    assert "{ fd00:96::9 } reject" in found


def test_a_service_without_pods_is_refused_and_a_pods_address_is_nobody_elses() -> None:
    found = lines(WEB_1, service("a/empty", "10.96.0.2", selector={"app": "none"}, port=80))
    assert not any("dnat" in line for line in found if line.startswith("ip"))
    assert "ip daddr { 10.96.0.2 } reject" in found
    stolen = Service("a", "thief", selector={"app": "web"}, external_ips=WEB_1.ips)
    assert "table inet knplab_services {" not in lines(WEB_1, stolen)


def test_without_services_there_is_nothing_but_the_absence_of_those_before() -> None:
    assert lines(WEB_1) == [
        "add table inet knplab_services",
        "delete table inet knplab_services",
    ]
