"""Hypothesis strategies: small clusters in which everything collides, and packets into them.

Labels, addresses, names and ports come from pools of a few values each, so that
selectors select, addresses clash and policies overlap most of the time. What a pool
holds is one draw, which keeps generation fast and failures short.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from helpers import builders as b
from helpers.oracle import Learned
from hypothesis import strategies as st

from knp_py.model.changes import Change, ClusterObject, Verb
from knp_py.model.objects import Namespace, Node, Pod, Service
from knp_py.model.packet import Packet
from knp_py.model.policy import (
    Action,
    ClusterNetworkPolicy,
    ClusterRule,
    NetworkPolicy,
    NetworkRule,
    Peer,
    PodPeer,
    Port,
    Tier,
)
from knp_py.model.selectors import EVERYTHING

NAMESPACES = ("a", "a", "b", "c")  # more of one, so that its policies have pods
TEXT_LABELS: tuple[dict[str, str], ...] = (
    {},
    {"app": "x"},
    {"app": "y"},
    {"app": "x", "env": "p"},
    {"app": "y", "env": "q"},
    {"env": "p"},
    {"app": ""},
)
SELECTORS = (
    EVERYTHING,
    b.select({"app": "x"}),
    b.select({"app": "y"}),
    b.select({"env": "p"}),
    b.select({"app": "x", "env": "p"}),
    b.select({"app": ""}),
    b.select(None, b.is_in("app", "x", "y")),
    b.select(None, b.not_in("app", "x")),
    b.select(None, b.not_in("env", "p", "q")),
    b.select(None, b.exists("app")),
    b.select(None, b.exists("env")),
    b.select(None, b.absent("env")),
    b.select({"app": "x"}, b.absent("env")),
    b.select(None, b.exists("app"), b.not_in("app", "y")),
    b.select(None, b.is_in("app", "x"), b.is_in("app", "y")),
    b.select({"app": "never"}),
)
NAMESPACE_SELECTORS = (
    *SELECTORS,
    b.select({"kubernetes.io/metadata.name": "a"}),
    b.select({"kubernetes.io/metadata.name": "b"}),
    b.select(None, b.not_in("kubernetes.io/metadata.name", "a")),
    b.select(None, b.is_in("kubernetes.io/metadata.name", "b", "c")),
)

POD_IPS = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.1.1", "fd00::1", "fd00::2", "fd00::a00:1")
IPS_OF_ONE_POD = (
    *((ip,) for ip in POD_IPS),
    ("10.0.0.1", "fd00::1"),
    ("10.0.0.2", "fd00::2"),
    ("10.0.0.2", "10.0.1.1"),
    ("fd00::a00:1", "10.0.0.3"),
    (),
)
POD_ADDRESSES = tuple(b.addresses(texts) for texts in IPS_OF_ONE_POD)
# The last one is a pod's too: then it is the pod (the order of the table in §1).
NODE_IPS = ("192.168.0.1", "192.168.0.2", "192.168.0.3", "fd01::1", "10.0.2.1", "10.0.0.3")
NODE_ADDRESSES = b.addresses(NODE_IPS)
OUTSIDE = ("203.0.113.5", "203.0.113.6", "8.8.8.8", "2001:db8::5", "10.0.0.99", "fd00::99")
ODD = ("0.0.0.0", "255.255.255.255", "::", "::1", "::fffe:ffff:ffff", "ffff::1")
ADDRESSES = tuple(b.address(text) for text in POD_IPS + NODE_IPS[:-1] + OUTSIDE + ODD)

CIDRS = (
    "0.0.0.0/0",
    "::/0",
    "10.0.0.0/8",
    "10.0.0.0/30",
    "10.0.0.2/31",
    "10.0.0.1/32",
    "10.0.0.77/24",  # host bits set
    "192.168.0.0/24",
    "192.168.0.1/32",
    "203.0.113.0/24",
    "203.0.113.5/32",
    "128.0.0.0/1",
    "fd00::/8",
    "fd00::1/128",
    "fd00::/127",
    "2001:db8::/32",
    "::/64",
    "::/80",
    "::ffff:0:0/95",  # host bits set: ::fffe:0:0/95, which only just holds the mapped block
    "::c000:0:0/82",
    "::ffff:0:0/96",
    "::ffff:10.0.0.0/104",
    "::ffff:203.0.113.5/128",
    "8000::/1",
)
DOMAIN_NAMES = (
    ("example.com",),
    ("*.example.com",),
    ("api.example.com", "*.example.org"),
    ("API.Example.com.",),
    ("*.Deep.example.com.",),
    ("com",),
)
LEARNED_NAMES = (
    "example.com",
    "api.example.com",
    "a.deep.example.com",
    "DEEP.example.com.",
    "www.example.org",
    "notexample.com",
    "example.com.evil.test",
)
LEARNED_IPS = ("203.0.113.5", "203.0.113.6", "8.8.8.8", "2001:db8::5", "10.0.0.2")

PORT_NUMBERS = (80, 80, 80, 80, 0, 1, 53, 79, 81, 443, 65534, 65535)
PORTS: tuple[Port, ...] = (
    b.tcp(80),
    b.tcp(),
    b.tcp(80, 443),
    b.tcp(0, 0),
    b.tcp(65535),
    b.tcp(1, 79),
    b.udp(53),
    b.udp(),
    b.udp(81, 65535),
    b.sctp(80),
    b.sctp(),
    b.named("web"),
    b.named("web", "UDP"),
    b.named("web", None),
    b.named("dns", None),
    b.named("dns", "UDP"),
    b.named("nobody", None),
)
UNKNOWN_PORTS: tuple[Port, ...] = (b.unknown_port(), b.unknown_port("futurePort"))
CONTAINER_PORTS = (
    (),
    (b.container_port("web", 80),),
    (b.container_port("web", 81), b.container_port("dns", 53, "UDP")),
    (b.container_port("web", 80), b.container_port("web", 53, "UDP")),
    (b.container_port("web", 80, "SCTP"), b.container_port("dns", 80)),
)
CREATED = ("", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z")


class Cluster(NamedTuple):
    """Objects in the order they were drawn, and what pods have learned."""

    objects: tuple[ClusterObject, ...]
    learned: tuple[Learned, ...] = ()

    @property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(o for o in self.objects if isinstance(o, Pod))


# Objects.


def labels() -> st.SearchStrategy[dict[str, str]]:
    return st.sampled_from(TEXT_LABELS)


def namespaces() -> st.SearchStrategy[list[Namespace]]:
    one = st.builds(
        lambda name, text, ending: b.namespace(name, text, terminating=ending == 0),
        st.sampled_from(NAMESPACES),
        labels(),
        st.integers(0, 5),
    )
    return st.lists(one, max_size=3, unique_by=lambda namespace: namespace.name)


@st.composite
def pod(draw: st.DrawFn, name: str) -> Pod:
    """A pod of one of the namespaces; its uid does not sort as its name does."""
    namespace = draw(st.sampled_from(NAMESPACES))
    state = draw(st.sampled_from(("Running",) * 6 + ("Pending", "Succeeded", "Failed", "host")))
    host_network = state == "host"
    home = draw(st.sampled_from(("", "n1", "n2", "n3")))
    host_ips = draw(st.sampled_from(((), (), NODE_IPS[:1], NODE_IPS[1:4:2], ("10.0.0.2",))))
    ips = draw(st.sampled_from(IPS_OF_ONE_POD))
    return b.pod(
        f"{namespace}/{name}",
        *(NODE_IPS[:1] if host_network else ips),
        labels=draw(labels()),
        uid=f"{draw(st.integers(0, 9))}-{namespace}-{name}",
        node=home,
        host_ips=host_ips,
        host_network=host_network,
        phase="Running" if host_network else state,
        created=draw(st.sampled_from(CREATED)),
        ports=draw(st.sampled_from(CONTAINER_PORTS)),
    )


@st.composite
def pods(draw: st.DrawFn) -> list[Pod]:
    return [draw(pod(f"p{i}")) for i in range(draw(st.sampled_from((2, 3, 4, 5, 6, 1))))]


@st.composite
def node(draw: st.DrawFn, name: str) -> Node:
    ips = draw(st.lists(st.sampled_from(NODE_IPS), max_size=2, unique=True))
    # Other address types may hold anything that is an IP, a pod's or an outside one too.
    other = draw(st.sampled_from(((), (), ("192.168.0.9",), ("203.0.113.6",), ("10.0.0.1",))))
    cidrs = draw(st.sampled_from(((), ("10.0.0.0/24",), ("10.0.1.0/24", "fd00::/64"))))
    return b.node(name, *ips, labels=draw(labels()), other_ips=other, pod_cidrs=cidrs)


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    return [draw(node(f"n{i}")) for i in range(1, 1 + draw(st.sampled_from((1, 2, 3, 0))))]


def services() -> st.SearchStrategy[list[Service]]:
    return st.sampled_from(
        (
            [],
            [b.service("a/web", "8.8.8.8", selector={"app": "x"}, target="web")],
            [b.service("kube-system/kube-dns", "203.0.113.6", port=53, protocol="UDP")],
        )
    )


# Policies.


# Most selectors select everything: two narrow ones seldom agree on a pod.
selectors = st.sampled_from((EVERYTHING,) * 2 * len(SELECTORS) + SELECTORS)
namespace_selectors = st.sampled_from((EVERYTHING,) * 3 * len(SELECTORS) + NAMESPACE_SELECTORS)


def pod_peers() -> st.SearchStrategy[PodPeer]:
    return st.builds(PodPeer, namespaces=namespace_selectors, pods=selectors)


def network_policy_peers() -> st.SearchStrategy[Peer]:
    cidr = st.sampled_from(CIDRS)
    return st.one_of(
        st.builds(b.own_pods, selectors),
        pod_peers(),
        st.builds(b.ip_block, cidr),
        st.builds(b.ip_block, cidr, cidr),
        st.builds(b.ip_block, cidr, cidr, cidr),
        st.just(b.unknown_peer("futurePeer")),
    )


def ports() -> st.SearchStrategy[tuple[Port, ...] | None]:
    known = st.sampled_from(PORTS * 6 + UNKNOWN_PORTS)
    some = st.lists(known, min_size=1, max_size=3).map(tuple)
    return st.one_of(st.none(), st.none(), some)


def network_rules() -> st.SearchStrategy[NetworkRule]:
    peers = st.none() | st.lists(network_policy_peers(), min_size=1, max_size=3).map(tuple)
    return st.builds(NetworkRule, peers, ports())


def network_policies(name: str) -> st.SearchStrategy[NetworkPolicy]:
    # Half of them isolate with rules; an empty list and no list are the other cases.
    directions: st.SearchStrategy[list[NetworkRule] | None] = st.one_of(
        st.lists(network_rules(), min_size=1, max_size=3), st.sampled_from((None, []))
    )
    return st.builds(
        lambda namespace, selector, ingress, egress: b.netpol(
            f"{namespace}/{name}", selector, ingress=ingress, egress=egress
        ),
        st.sampled_from(NAMESPACES),
        selectors,
        directions,
        directions,
    )


def cluster_peers(*, egress: bool, accept: bool) -> st.SearchStrategy[Peer]:
    options: list[st.SearchStrategy[Peer]] = [pod_peers(), pod_peers()]
    if egress:
        options += [
            st.lists(st.sampled_from(CIDRS), min_size=1, max_size=3).map(
                lambda cidrs: b.networks(*cidrs)
            ),
            st.builds(b.nodes, selectors),
        ]
    if egress and accept:
        options.append(st.sampled_from(DOMAIN_NAMES).map(lambda names: b.domains(*names)))
    return st.one_of(*options)


@st.composite
def cluster_rule(draw: st.DrawFn, *, egress: bool) -> ClusterRule:
    action = draw(
        st.sampled_from((Action.ACCEPT, Action.DENY, Action.PASS) * 6 + (Action.UNKNOWN,))
    )
    accept = action is Action.ACCEPT
    peers = draw(st.lists(cluster_peers(egress=egress, accept=accept), min_size=1, max_size=3))
    # Rules that must fail closed are rare, or nothing else would ever be reached.
    spoiled = draw(st.integers(0, 15))
    if spoiled == 15:
        peers.insert(draw(st.integers(0, len(peers))), b.unknown_peer("futurePeer"))
    if spoiled == 14:
        # Names outside Accept; and all of these are fields of egress peers only.
        spoilers: tuple[Peer, ...] = (
            b.domains("*.example.com"),
            b.networks("0.0.0.0/0"),
            b.nodes(),
        )
        peers.append(spoilers[0] if egress else draw(st.sampled_from(spoilers)))
    return ClusterRule(action, tuple(peers), draw(ports()), action_text=action.value)


@st.composite
def cluster_rules(draw: st.DrawFn, *, egress: bool) -> list[ClusterRule]:
    return [draw(cluster_rule(egress=egress)) for _ in range(draw(st.sampled_from((2, 1, 3, 0))))]


def cluster_policies(name: str) -> st.SearchStrategy[ClusterNetworkPolicy]:
    return st.builds(
        lambda tier, priority, subject, egress, ingress: b.cnp(
            name, tier, priority, subject, egress=egress, ingress=ingress
        ),
        st.sampled_from((Tier.ADMIN, Tier.BASELINE)),
        st.sampled_from((0, 0, 1, 1000)),
        pod_peers(),
        cluster_rules(egress=True),
        cluster_rules(egress=False),
    )


@st.composite
def policies(draw: st.DrawFn) -> list[NetworkPolicy | ClusterNetworkPolicy]:
    drawn: list[NetworkPolicy | ClusterNetworkPolicy] = []
    some = draw(st.sampled_from((1, 2, 3, 4, 0)))
    more = draw(st.sampled_from((2, 3, 4, 5, 6, 1, 0)))
    drawn.extend(draw(network_policies(f"np{i}")) for i in range(some))
    drawn.extend(draw(cluster_policies(f"cnp{i}")) for i in range(more))
    return drawn


# Whole clusters, names and packets.


@st.composite
def learned(draw: st.DrawFn, cluster_pods: Sequence[Pod]) -> list[Learned]:
    """Answers heard at time 0 by live pods of the cluster; they last 30 to 300 s."""
    live = [p.uid for p in cluster_pods if p.resolves]
    if not live:
        return []
    one = st.builds(
        Learned,
        st.sampled_from(live),
        st.sampled_from(LEARNED_NAMES),
        st.sampled_from(LEARNED_IPS).map(b.address),
        st.sampled_from((30.0, 60.0, 300.0)),
    )
    return draw(st.lists(one, max_size=6))


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    cluster_pods = draw(pods())
    objects: list[ClusterObject] = [
        *draw(namespaces()),
        *draw(nodes()),
        *draw(services()),
        *cluster_pods,
        *draw(policies()),
    ]
    return Cluster(tuple(objects), tuple(draw(learned(cluster_pods))))


def packets(cluster_pods: Sequence[Pod] = ()) -> st.SearchStrategy[Packet]:
    """Packets between interesting addresses, most of them between pods."""
    pod_addresses = [ip for p in cluster_pods if p.resolves for ip in p.ips]
    anywhere = st.sampled_from(ADDRESSES)
    end = anywhere
    if pod_addresses:
        end = st.sampled_from(pod_addresses * (1 + 2 * len(ADDRESSES) // len(pod_addresses)))
        end = st.one_of(end, end, anywhere)
    return st.builds(
        make_packet,
        end,
        end,
        st.sampled_from(("TCP",) * 8 + ("UDP", "SCTP", "ICMP", "ICMPv6", "unknown")),
        st.sampled_from(PORT_NUMBERS),
        st.sampled_from((0, 53, 80, 40000)),
    )


def variants(packet: Packet) -> list[Packet]:
    """The packet, its mirror image and the same without ports."""
    mirrored = packet._replace(src=packet.dst, dst=packet.src)
    ping = make_packet(packet.src, packet.dst, "ICMP", 0, 0)
    return [packet, mirrored, ping]


def make_packet(src: int, dst: int, protocol: str, dport: int, sport: int) -> Packet:
    """As ``builders.packet``, from address integers."""
    made = b.packet("::", "::", dport, protocol, sport=sport)
    return made._replace(src=src, dst=dst)


def deleted(obj: ClusterObject) -> Change:
    return Change(Verb.DELETED, obj)


def relabelled(obj: ClusterObject, text: dict[str, str]) -> ClusterObject:
    """The same object with other labels; policies and others without any unchanged."""
    match obj:
        case Pod() | Node():
            return msgspec.structs.replace(obj, labels=text)
        case Namespace():
            return b.namespace(obj.name, text, terminating=obj.terminating)
        case _:
            return obj


def packet_table(*, protocols: Sequence[str] = ("TCP", "UDP", "ICMP")) -> list[Packet]:
    """A fixed table for comparing two worlds: every pair of main addresses."""
    ends = [b.address(text) for text in (*POD_IPS, NODE_IPS[0], OUTSIDE[0], OUTSIDE[3])]
    return [
        make_packet(src, dst, protocol, 53 if protocol == "UDP" else 80, 40000)
        for src in ends
        for dst in ends
        for protocol in protocols
    ]
