from helpers import builders as b

from knp_py.audit.cells import Ports, tables
from knp_py.audit.reach import Reach, shut
from knp_py.audit.view import View
from knp_py.model.changes import ClusterObject
from knp_py.model.policy import Direction, Tier

ALL = b.networks("0.0.0.0/0", "::/0")
OUTSIDE = b.address("192.0.2.1")
WEB = b.pods(b.select({"app": "web"}))


def is_shut(*objects: ClusterObject, port: int = 80) -> bool:
    table = tables(View(objects))[Tier.ADMIN, Direction.EGRESS]
    return shut(table, WEB, OUTSIDE, Ports(6, port, port))


def reaches(*objects: ClusterObject, port: int = 53) -> bool:
    view = View(objects)
    return Reach(view, tables(view), 17, port).may(WEB)


def test_shut_for_certain() -> None:
    assert is_shut(b.cnp("c", egress=[b.deny(ALL)]))
    assert is_shut(b.cnp("c", subject=WEB, egress=[b.pass_on(b.pods()), b.deny(ALL)]))
    assert is_shut(b.cnp("c", egress=[b.accept(b.domains("example.com")), b.deny(ALL)]))


def test_perhaps_open() -> None:
    assert not is_shut()
    assert not is_shut(b.cnp("c", egress=[b.deny(b.networks("10.0.0.0/8"))]))
    assert not is_shut(b.cnp("c", egress=[b.deny(ALL, ports=[b.tcp(443)])]))
    assert not is_shut(b.cnp("c", egress=[b.accept(ALL), b.deny(ALL)]))
    some = b.cnp("a", subject=b.namespaces(b.select({"x": "y"})), egress=[b.pass_on(ALL)])
    assert not is_shut(some, b.cnp("c", priority=1, egress=[b.deny(ALL)]))
    assert not is_shut(b.cnp("c", subject=b.in_namespace("a"), egress=[b.deny(ALL)]))


def test_may_reach() -> None:
    deny = b.cnp("deny", priority=9, egress=[b.deny(ALL)])
    assert reaches()
    assert not reaches(deny)
    assert reaches(b.cnp("c", egress=[b.accept(b.pods())]), deny)
    assert reaches(b.cnp("c", egress=[b.accept(b.nodes(), ports=[b.udp(53)])]), deny)
    assert not reaches(b.cnp("c", egress=[b.accept(b.pods(), ports=[b.tcp(53)])]), deny)
    assert not reaches(b.cnp("c", egress=[b.accept(b.domains("example.com"))]), deny)


def test_may_reach_through_the_later_tiers() -> None:
    floor = b.cnp("floor", Tier.BASELINE, egress=[b.deny(ALL)])
    assert not reaches(floor)
    everyone = b.netpol("a/p", egress=[b.allow(ports=[b.named("dns", "UDP")])])
    assert reaches(floor, everyone)
    assert not reaches(floor, b.netpol("a/p", egress=[b.allow(ports=[b.udp(54)])]))
    passing = b.cnp("pass", Tier.BASELINE, egress=[b.pass_on(b.pods()), b.deny(ALL)])
    assert reaches(passing)
