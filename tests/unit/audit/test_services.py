import pytest
from helpers import builders as b
from helpers.findings import findings_of, paths

from knp_py.model.policy import NetworkPolicy, Peer, Port

WEB = {"app": "web"}
PODS = [
    b.pod("shop/web", "10.0.0.1", labels=WEB, ports=[b.container_port("http", 8080)]),
    b.pod("shop/client", "10.0.0.2"),
]


def egress(*peers: Peer, ports: list[Port] | None = None) -> NetworkPolicy:
    return b.netpol("shop/p", egress=[b.allow(*peers, ports=ports)])


def test_the_address_of_a_service() -> None:
    service = b.service("shop/web", "10.96.0.7", selector=WEB)
    [finding] = findings_of("service-address", service, egress(b.ip_block("10.96.0.7/32")))
    assert finding.path == "spec.egress[0].to[0]"
    assert "Service shop/web" in finding.message
    assert not paths("service-address", service, egress(b.ip_block("10.96.0.0/16")))
    assert not paths("service-address", service, egress(b.ip_block("10.96.0.8/32")))
    cluster = b.cnp("c", egress=[b.accept(b.networks("192.0.2.1/32", "10.96.0.7/32"))])
    assert paths("service-address", service, cluster) == ["c spec.egress[0].to[0]"]


def test_the_cluster_dns_address_may_be_a_node_local_cache() -> None:
    service = b.service("kube-system/kube-dns", "10.96.0.10", port=53, protocol="UDP")
    assert not paths("service-address", service, egress(b.ip_block("10.96.0.10/32")))


@pytest.mark.parametrize("target", [8080, "http"])
def test_the_port_of_a_service(target: int | str) -> None:
    service = b.service("shop/web", "10.96.0.7", selector=WEB, port=80, target=target)
    web = b.own_pods(b.select(WEB))
    [finding] = findings_of("service-port", *PODS, service, egress(web, ports=[b.tcp(80)]))
    assert finding.path == "spec.egress[0].ports[0]"
    assert "whose pods listen on 8080" in finding.message
    others: list[list[Port] | None] = [
        [b.tcp(8080)],
        [b.tcp(80), b.tcp(8080)],
        [b.udp(80)],
        [b.tcp(81)],
        None,
    ]
    for ports in others:
        assert not paths("service-port", *PODS, service, egress(web, ports=ports))


def test_a_port_that_the_pods_have_themselves() -> None:
    service = b.service("shop/web", "10.96.0.7", selector=WEB, port=80, target=9090)
    same = b.service("shop/plain", "10.96.0.8", selector=WEB, port=80)
    rule = egress(b.own_pods(b.select(WEB)), ports=[b.tcp(80)])
    assert paths("service-port", *PODS, service, rule)
    assert not paths("service-port", *PODS, service, same, rule)


def test_a_service_of_other_pods() -> None:
    service = b.service("shop/api", "10.96.0.7", selector={"app": "api"}, port=80, target=8080)
    rule = egress(b.own_pods(b.select(WEB)), ports=[b.tcp(80)])
    assert not paths("service-port", *PODS, service, rule)
    # A network peer could be anything.
    service = b.service("shop/web", "10.96.0.7", selector=WEB, port=80, target=8080)
    mixed = egress(b.own_pods(b.select(WEB)), b.ip_block("10.0.0.0/8"), ports=[b.tcp(80)])
    assert not paths("service-port", *PODS, service, mixed)
