import msgspec
from helpers import builders as b

from knp_py.audit.view import EVERYWHERE, View
from knp_py.engine.policies import peers_of, subject_of
from knp_py.model.policy import Direction, PodPeer, Tier


def test_policies_by_kind_and_tier() -> None:
    rule = b.deny(b.pods(), b.networks("10.0.0.0/8"))
    admin = b.cnp("z", Tier.ADMIN, 1, egress=[rule])
    first = b.cnp("a", Tier.ADMIN, 0, egress=[rule])
    base = b.cnp("b", Tier.BASELINE, egress=[rule])
    policy = b.netpol("x/p", ingress=[b.allow(b.own_pods())])
    view = View([admin, base, policy, first])
    assert view.cluster == {Tier.ADMIN: [first, admin], Tier.BASELINE: [base]}
    assert view.network == [policy]
    assert subject_of(policy) == PodPeer(namespace="x")
    assert [*peers_of(policy)] == [PodPeer(namespace="x")]
    assert [*peers_of(admin)] == [*rule.peers]


def test_who_is_selected() -> None:
    web = b.pods(b.select({"app": "web"}))
    policy = b.cnp("c", subject=web, egress=[b.deny(b.namespaces(b.select({"env": "x"})))])
    live = b.pod("a/web", "10.0.0.1", labels={"app": "web"})
    host = b.pod("a/host", "192.168.0.1", labels={"app": "web"}, host_network=True)
    other = b.pod("b/api", "10.0.0.2", labels={"app": "api"})
    view = View([policy, b.namespace("b", {"env": "x"}), live, host, other])
    assert [*view.selected(web)] == [live, host]
    assert [*view.live(web)] == [live]
    assert [*view.live(b.namespaces(b.select({"env": "x"})))] == [other]
    assert view.pods == [live, other]
    assert view.could_select(web)
    assert not view.could_select(b.in_namespace("c"))
    assert view.could_select(PodPeer(namespace="a"))
    assert not view.could_select(PodPeer(namespace="c"))


def test_where_pods_can_be() -> None:
    pod = b.pod("a/p", "10.0.0.1", "10.0.0.2")
    one, two = b.address("10.0.0.1"), b.address("10.0.0.2")
    view = View([pod])
    assert view.pod_ranges == ((one, two),)
    assert (view.ipv4, view.ipv6) == (True, False)
    six = View([b.pod("a/p", "fd00::1")])
    assert (six.ipv4, six.ipv6) == (False, True)
    assert View([]).pod_ranges == EVERYWHERE
    assert (View([]).ipv4, View([]).ipv6) == (True, True)
    made_up = msgspec.structs.replace(pod, made_up=True)
    assert View([made_up]).pod_ranges == EVERYWHERE
    node = b.node("n", pod_cidrs=["10.0.0.0/31", "fd00::/64"])
    view = View([pod, node])
    assert view.pod_ranges[0] == (one - 1, two)
    assert view.ipv6


def test_where_nodes_are() -> None:
    node = b.node("n", "192.168.0.1", labels={"os": "linux"}, other_ips=["203.0.113.1"])
    linux, windows = b.select({"os": "linux"}), b.select({"os": "windows"})
    view = View([node, b.cnp("c", egress=[b.deny(b.nodes(linux))])])
    addresses = [b.address("192.168.0.1"), b.address("203.0.113.1")]
    assert view.node_ranges(linux) == tuple((a, a) for a in addresses)
    assert view.node_ranges(windows) == EVERYWHERE
    assert sorted(view.node_points) == addresses


def test_isolation_of_a_subject() -> None:
    everyone, web = b.pods(), PodPeer(namespace="a", pods=b.select({"app": "web"}))
    view = View([b.netpol("a/p", egress=[]), b.netpol("b/p", ingress=[])])
    assert view.isolates(web, Direction.EGRESS)
    assert not view.isolates(web, Direction.INGRESS)
    assert not view.isolates(everyone, Direction.EGRESS)
    assert [p.key for p in view.may_isolate(everyone, Direction.EGRESS)] == ["a/p"]
    assert [p.key for p in view.may_isolate(everyone, Direction.INGRESS)] == ["b/p"]


def test_names_of_ports() -> None:
    pods = [
        b.pod("a/p", "10.0.0.1", ports=[b.container_port("http", 80)]),
        b.pod("a/q", "10.0.0.2", ports=[b.container_port("dns", 53, "UDP")]),
        b.pod("a/host", "192.168.0.1", ports=[b.container_port("x", 1)], host_network=True),
    ]
    view = View(pods)
    [identity] = view.identities()
    assert view.port_names(identity) == {("http", 6), ("dns", 17)}
