"""The tables themselves; what follows from them is tested with the checks."""

from helpers import builders as b

from knp_py.audit.cells import End, Ports, TierTable, least, overlap, ports_of, tables
from knp_py.audit.view import EVERYWHERE, View
from knp_py.model.net import V4_BASE, V4_LAST
from knp_py.model.packet import Proto
from knp_py.model.policy import ClusterNetworkPolicy, ClusterRule, Direction, Tier

TCP = int(Proto.TCP)


def table_of(*policies: ClusterNetworkPolicy) -> TierTable:
    return tables(View(policies))[Tier.ADMIN, Direction.EGRESS]


def rules(*egress: ClusterRule) -> TierTable:
    return table_of(b.cnp("c", egress=egress))


def test_must_and_may_of_subjects() -> None:
    web, prod = b.select({"app": "web"}), b.select({"env": "prod"})
    table = table_of(
        b.cnp("all", priority=1, egress=[b.deny(b.pods()), b.accept(b.pods())]),
        b.cnp("none", priority=2),
        b.cnp("web", priority=3, subject=b.pods(web), egress=[b.deny(b.pods())]),
        b.cnp(
            "api", priority=4, subject=b.pods(b.select({"app": "api"})), egress=[b.deny(b.pods())]
        ),
        b.cnp("prod", priority=5, subject=b.namespaces(prod), egress=[b.deny(b.pods())]),
    )
    assert table.must(b.pods(web)) == 0b00111
    assert table.may(b.pods(web)) == 0b10111
    assert table.rule(0b00100).policy.name == "web"


def test_ends() -> None:
    table = rules(
        b.deny(b.pods()),
        b.deny(b.nodes()),
        b.accept(b.domains("*.example.com")),
        b.accept(b.domains("api.example.com")),
        b.deny(b.pods(b.select({"app": "web"}))),
    )
    web = End(EVERYWHERE, pods=b.pods(b.select({"app": "web"})))
    api = End(EVERYWHERE, pods=b.pods(b.select({"app": "api"})))
    assert table.end_must(web) == 0b10001
    assert table.end_must(api) == 0b00001
    assert table.pods_may(b.pods()) == 0b10001
    assert table.end_must(End(EVERYWHERE, nodes=b.select())) == 0b00010
    assert table.end_must(End(EVERYWHERE, pattern="api.example.com")) == 0b01100
    assert table.end_must(End(EVERYWHERE, pattern="*.example.com")) == 0b00100
    assert table.end_may(End(EVERYWHERE), pod=False) == 0b01110
    assert table.end_may(End(EVERYWHERE), pod=True) == 0b11111


def test_addresses() -> None:
    table = rules(b.deny(b.networks("10.0.0.0/8")), b.accept(b.networks("0.0.0.0/0", "::/0")))
    ten = (b.address("10.0.0.0"), b.address("10.255.255.255"))
    assert set(table.address_masks(EVERYWHERE)) == {0b10, 0b11}
    assert table.address_masks((ten,)) == (0b11,)
    assert table.address_masks(((ten[1] + 1, V4_LAST),)) == (0b10,)
    assert table.fewest(EVERYWHERE) == (0b10,)
    assert table.address_mask(ten[0]) == 0b11


def test_spans_know_where_pods_can_be() -> None:
    pod = b.pod("a/p", "10.0.0.1")
    policy = b.cnp("c", egress=[b.deny(b.networks("10.0.0.0/8")), b.pass_on(b.pods())])
    table = tables(View([policy, pod]))[Tier.ADMIN, Direction.EGRESS]
    internet = End(((b.address("192.0.2.0"), b.address("192.0.2.255")),))
    assert set(table.spans(internet)) == {(0b00, 0b00)}
    inside = End(((b.address("10.0.0.0"), b.address("10.0.0.255")),))
    assert set(table.spans(inside)) == {(0b01, 0b00), (0b01, 0b10)}


def test_ports() -> None:
    table = rules(
        b.deny(b.pods(), ports=[b.tcp(80, 90)]),
        b.deny(b.pods()),
        b.deny(b.pods(), ports=[b.named("http", None)]),
    )
    assert list(table.port_masks(Ports(TCP, 80, 85))) == [0b011]
    assert list(table.port_masks(Ports(TCP, 85, 95))) == [0b011, 0b010]
    assert list(table.port_masks(Ports(TCP, 85, 85), may=True)) == [0b111]
    assert set(table.port_masks(Ports(TCP, name="http"))) == {0b110, 0b111}
    assert set(table.port_masks(Ports(None))) == {0b010, 0b011}
    first, second, third = table.rules
    assert table.ports_must(first) == [0b011]
    assert table.ports_must(second) == [0b010]
    assert set(table.ports_must(third)) == {0b110, 0b111}
    assert [ports.protocol for ports in ports_of(third)] == [6, 17, 132]


def test_least() -> None:
    assert least([0b11, 0b01, 0b101]) == (0b01,)
    assert least([0b10, 0b01]) == [0b10, 0b01]
    assert least([]) == []


def test_overlap_of_ranges() -> None:
    assert overlap(((0, 10), (20, 30)), ((5, 25),)) == ((5, 10), (20, 25))
    assert overlap(((5, 25),), ((0, 10), (20, 30))) == ((5, 10), (20, 25))
    assert overlap(((0, 4),), ((5, 9),)) == ()
    assert overlap(EVERYWHERE, ((V4_BASE, V4_LAST),)) == ((V4_BASE, V4_LAST),)
