import pytest
from helpers.builders import (
    accept,
    address,
    allow,
    cnp,
    ip_block,
    netpol,
    networks,
    node,
    pod,
    service,
)
from helpers.builders import namespace as ns
from helpers.judging import snapshot_of

from knp_py.engine.snapshot import Snapshot
from knp_py.errors import ProbeError
from knp_py.model.net import format_address, is_v4
from knp_py.verdicts.ends import Place, find, pairs, split_port, stand_in


@pytest.fixture(scope="module")
def cluster() -> Snapshot:
    return snapshot_of(
        [
            ns("shop"),
            ns("empty"),
            node("n1", "192.168.0.1", "fd01::1"),
            pod("shop/web", "10.0.0.1", "fd00::1", node="n1"),
            pod("shop/db", "10.0.0.2", node="n1"),
            pod("shop/six", "fd00::6", node="n1"),
            pod("shop/new", node="n1"),
            pod("shop/job", "10.0.0.9", phase="Succeeded"),
            pod("shop/older", "10.0.0.7", created="2026-01-01T00:00:00Z"),
            pod("shop/newer", "10.0.0.7", created="2026-02-01T00:00:00Z"),
            pod("shop/proxy", "192.168.0.1", host_network=True, node="n1"),
            pod("shop/agent", host_network=True, node="n1"),
            pod("shop/lost", host_network=True, node="gone"),
            service("shop/front", "10.96.0.10"),
        ]
    )


@pytest.mark.parametrize(
    ("text", "ips", "pod_key"),
    [
        ("shop/web", ["10.0.0.1", "fd00::1"], "shop/web"),
        ("10.0.0.2", ["10.0.0.2"], "shop/db"),
        ("::ffff:10.0.0.2", ["10.0.0.2"], "shop/db"),
        ("[fd00::6]", ["fd00::6"], "shop/six"),
        ("10.0.0.9", ["10.0.0.9"], None),  # a finished pod's address is free
        ("203.0.113.9", ["203.0.113.9"], None),
        (" shop/db ", ["10.0.0.2"], "shop/db"),
    ],
)
@pytest.mark.parametrize("side", ["from", "to"])
def test_pods_and_addresses(
    cluster: Snapshot, text: str, ips: list[str], pod_key: str | None, side: str
) -> None:
    place = find(cluster, text, side)
    assert list(map(format_address, place.addresses)) == ips
    assert (place.pod.key if place.pod else None) == pod_key


@pytest.mark.parametrize("key", ["shop/proxy", "shop/agent"])
def test_a_host_network_pod_is_its_node(cluster: Snapshot, key: str) -> None:
    place = find(cluster, key, "from")
    assert format_address(place.addresses[0]) == "192.168.0.1"
    assert place.node is not None
    assert place.node.name == "n1"


def test_a_node_and_a_services_address(cluster: Snapshot) -> None:
    at_node, at_service = find(cluster, "192.168.0.1", "to"), find(cluster, "10.96.0.10", "to")
    assert at_node.node is not None
    assert at_node.pod is None
    assert at_service.service is not None
    assert at_service.service.key == "shop/front"


@pytest.mark.parametrize(
    ("text", "name", "ips"),
    [
        ("GitHub.com.", "github.com", []),
        ("github.com=140.82.112.3", "github.com", ["140.82.112.3"]),
        ("x.example=[2001:db8::1]", "x.example", ["2001:db8::1"]),
        ("router=10.1.2.3", "router", ["10.1.2.3"]),
    ],
)
def test_names(cluster: Snapshot, text: str, name: str, ips: list[str]) -> None:
    place = find(cluster, text, "to")
    assert place.name == name
    assert list(map(format_address, place.addresses)) == ips


@pytest.mark.parametrize("text", ["shop/front", "front.shop.svc", "front.shop.svc.cluster.local"])
def test_services_have_no_address_of_their_own_here(cluster: Snapshot, text: str) -> None:
    place = find(cluster, text, "to")
    assert place.addresses == ()
    assert place.service is not None


@pytest.mark.parametrize(
    ("side", "text", "complaint"),
    [
        ("from", "shop/nobody", "there is no pod shop/nobody; namespace shop has "),
        ("to", "shop/ne", "namespace shop has new, newer$"),
        ("from", "empty/x", "namespace empty has no pods"),
        ("from", "mars/x", "namespace mars is not in the manifests"),
        ("from", "shop/front", "there is no pod shop/front"),
        ("from", "10.0.0.0/8", "is a network"),
        ("to", "10.0.0.0/99", "is not NS/POD"),
        ("to", "a/b/c", "is not NS/POD"),
        ("from", "shop/new", "has no address yet"),
        ("to", "shop/job", r"has finished \(Succeeded\)"),
        ("to", "shop/older", "has lost its address 10.0.0.7 to shop/newer"),
        ("from", "shop/lost", "its node gone is not in the manifests"),
        ("from", "github.com", "neither NS/POD nor an address$"),
        ("to", "web", "neither NS/POD nor an address nor a domain name"),
        ("to", "*.github.com", "no domain name"),
        ("to", "github.com=here", "is no IP address"),
        ("to", "db.shop.svc", "is Service shop/db, which is not in the manifests"),
        ("to", "", "neither"),
        ("to", "github.com:443", "'github.com:443' ends in a port; give it apart, as port$"),
        ("to", "shop/db:5432", "ends in a port"),
        ("to", "10.0.0.1:80", "ends in a port"),
        ("to", "[::1]:80", "ends in a port"),
        ("from", "shop/web:4000", "ends in a port; leave it out, it decides nothing"),
    ],
)
def test_what_is_no_end(cluster: Snapshot, side: str, text: str, complaint: str) -> None:
    with pytest.raises(ProbeError, match=complaint) as error:
        find(cluster, text, side)
    assert str(error.value).startswith(f"{side}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("github.com:443", ("github.com", "443")),
        ("shop/db:postgres", ("shop/db", "postgres")),
        ("10.0.0.1:80", ("10.0.0.1", "80")),
        ("[::1]:80", ("[::1]", "80")),
        ("x.example=[::1]:80", ("x.example=[::1]", "80")),
        ("x.example=10.0.0.1:80", ("x.example=10.0.0.1", "80")),
        ("::1", None),
        ("fd00::1:80", None),
        ("[::1]", None),
        ("x.example=::1", None),
        ("https://github.com", None),
        ("https://github.com:443", None),
        ("github.com", None),
        ("github.com:", None),
        (":80", None),
        ("", None),
    ],
)
def test_ports_at_the_end(text: str, parts: tuple[str, str] | None) -> None:
    assert split_port(text) == parts


def test_a_flow_is_of_one_family_and_the_sources_first_address_leads(cluster: Snapshot) -> None:
    web, six, db = (find(cluster, key, "from") for key in ("shop/web", "shop/six", "shop/db"))
    both = ("a", "b")
    assert pairs(web, six, both) == [(address("fd00::1"), address("fd00::6"))]
    assert pairs(web, db, both) == [(address("10.0.0.1"), address("10.0.0.2"))]
    assert pairs(web, web, both) == [
        (address("10.0.0.1"), address("10.0.0.1")),
        (address("fd00::1"), address("fd00::1")),
    ]
    assert pairs(six, web, both) == [(address("fd00::6"), address("fd00::1"))]
    with pytest.raises(ProbeError, match="a has IPv4 only, b IPv6 only"):
        pairs(db, six, both)


def test_some_public_address_is_one_that_nothing_mentions() -> None:
    everywhere = cnp("all", egress=[accept(networks("0.0.0.0/0", "::/0"))])
    first = stand_in(snapshot_of([everywhere]), v4=True)
    assert format_address(first) == "203.0.113.77"
    taken = snapshot_of(
        [
            everywhere,
            netpol("shop/np", egress=[allow(ip_block("0.0.0.0/0", "203.0.113.0/25"))]),
            pod("shop/odd", "203.0.113.128"),
            node("n1", other_ips=["203.0.113.129"]),
            service("shop/s", "203.0.113.130"),
        ]
    )
    assert format_address(stand_in(taken, v4=True)) == "203.0.113.131"
    whole = snapshot_of(
        [cnp("docs", egress=[accept(networks("203.0.113.0/24", "198.51.0.0/16"))])]
    )
    assert format_address(stand_in(whole, v4=True)).startswith("192.0.2.")


def test_when_policies_mention_all_of_it_the_least_mentioned_will_do() -> None:
    blocks = ["203.0.113.0/24", "198.51.100.0/24", "192.0.2.0/24", "203.0.113.0/24"]
    snapshot = snapshot_of([cnp("docs", egress=[accept(networks(*blocks))])])
    assert format_address(stand_in(snapshot, v4=True)) == "198.51.100.77"


def test_some_public_address_of_ipv6() -> None:
    found = stand_in(snapshot_of([]), v4=False)
    assert not is_v4(found)
    assert format_address(found).startswith("2001:db8:")


def test_no_address_left() -> None:
    pods = [
        pod(f"x/p{block}-{number}", f"{block}.{number}")
        for block in ("203.0.113", "198.51.100", "192.0.2")
        for number in range(77, 255)
    ]
    with pytest.raises(ProbeError, match="say NAME=IP"):
        stand_in(snapshot_of(pods), v4=True)


def test_place_is_a_plain_value() -> None:
    assert Place(()) == Place((), None, None, None, None)
