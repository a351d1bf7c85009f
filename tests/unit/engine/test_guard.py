"""Addresses that no name opens."""

import pytest
from helpers.builders import node, pod, service
from helpers.judging import snapshot_of

from knp_py.engine.guard import ALLOWABLE, MAPPED, NODE, POD, SERVICE, SPECIAL, Guard
from knp_py.engine.snapshot import Snapshot
from knp_py.model.net import parse_address, parse_cidr

EXT = "a.ex"
INSIDE = "web.x.svc.cluster.local"


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return snapshot_of(
        [
            pod("x/web", "10.1.0.7", "fd00:1::7"),
            node(
                "n1",
                "192.168.0.1",
                other_ips=["192.168.0.99"],
                pod_cidrs=["10.1.0.0/24", "fd00:1::/64"],
            ),
            service("x/web", "10.96.0.7", external_ips=["198.51.100.7"]),
        ]
    )


@pytest.mark.parametrize(
    ("text", "outside", "inside"),
    [
        ("1.1.1.1", None, None),
        ("10.200.0.1", None, None),  # private, and nobody's here
        ("2001:db8::1", None, None),
        ("0.0.0.0", SPECIAL, SPECIAL),
        ("0.1.2.3", SPECIAL, SPECIAL),
        ("127.0.0.1", SPECIAL, SPECIAL),
        ("127.255.255.255", SPECIAL, SPECIAL),
        ("128.0.0.0", None, None),
        ("169.254.169.254", SPECIAL, SPECIAL),
        ("169.255.0.0", None, None),
        ("223.255.255.255", None, None),
        ("224.0.0.1", SPECIAL, SPECIAL),
        ("239.255.255.255", SPECIAL, SPECIAL),
        ("240.0.0.1", SPECIAL, SPECIAL),
        ("255.255.255.255", SPECIAL, SPECIAL),
        ("::", SPECIAL, SPECIAL),
        ("::1", SPECIAL, SPECIAL),
        ("::2", SPECIAL, SPECIAL),  # 0.0.0.2 in an IPv4-compatible address
        ("::a9fe:a9fe", SPECIAL, SPECIAL),
        ("2002:a9fe:a9fe::1", SPECIAL, SPECIAL),
        ("2002:808:808::1", None, None),
        ("192.168.0.99", NODE, NODE),  # of type Hostname: a `nodes` peer matches it too
        ("fe80::1", SPECIAL, SPECIAL),
        ("febf::1", SPECIAL, SPECIAL),
        ("fec0::1", SPECIAL, SPECIAL),
        ("100::1", SPECIAL, SPECIAL),
        ("192.0.0.8", SPECIAL, SPECIAL),
        ("64:ff9b:1::a9fe:a9fe", SPECIAL, SPECIAL),
        ("::ffff:0:a9fe:a9fe", SPECIAL, SPECIAL),
        ("ff02::1", SPECIAL, SPECIAL),
        ("192.168.0.1", NODE, NODE),
        ("10.96.0.7", SERVICE, SERVICE),
        ("198.51.100.7", SERVICE, SERVICE),
        ("10.1.0.7", POD, None),
        ("fd00:1::7", POD, None),
        ("10.1.0.99", POD, None),  # in the pod network, whoever it will be
        ("64:ff9b::101:101", None, None),
        ("64:ff9b::a9fe:a9fe", SPECIAL, SPECIAL),
        ("64:ff9b::7f00:1", SPECIAL, SPECIAL),
        ("64:ff9b::c0a8:1", NODE, NODE),
        ("64:ff9b::a01:7", POD, None),
        ("64:ff9b:1::7f00:1", SPECIAL, SPECIAL),
    ],
)
def test_refusal(text: str, outside: str | None, inside: str | None, snapshot: Snapshot) -> None:
    guard = Guard()
    v6 = ":" in text
    assert guard.refusal(EXT, parse_address(text), snapshot, v6=v6) == outside
    assert guard.refusal(INSIDE, parse_address(text), snapshot, v6=v6) == inside


def test_mapped_addresses_are_refused_in_both_forms() -> None:
    guard = Guard((parse_cidr("0.0.0.0/0"),))
    assert guard.refusal(EXT, parse_address("::ffff:1.1.1.1"), None, v6=True) == MAPPED
    assert MAPPED not in ALLOWABLE


def test_before_any_snapshot() -> None:
    guard = Guard()
    assert guard.refusal(EXT, parse_address("10.96.0.7"), None) is None
    assert guard.refusal(EXT, parse_address("127.0.0.1"), None) == SPECIAL


@pytest.mark.parametrize("text", ["169.254.169.254", "64:ff9b::a9fe:a9fe"])
def test_allowed_explicitly(text: str, snapshot: Snapshot) -> None:
    guard = Guard((parse_cidr("169.254.169.254/32"),))
    assert guard.refusal(EXT, parse_address(text), snapshot, v6=":" in text) is None
    assert guard.refusal(EXT, parse_address("169.254.169.253"), snapshot) == SPECIAL


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("web.x.svc.cluster.local", False),
        ("cluster.local", False),
        ("xcluster.local", True),
        ("cluster.local.evil", True),
        ("web.x.svc.corp", True),
    ],
)
def test_cluster_domain(name: str, refused: bool, snapshot: Snapshot) -> None:
    assert (Guard().refusal(name, parse_address("10.1.0.7"), snapshot) == POD) is refused


def test_another_cluster_domain(snapshot: Snapshot) -> None:
    guard = Guard(cluster_domain="k8s.corp")
    assert guard.refusal("web.x.svc.k8s.corp", parse_address("10.1.0.7"), snapshot) is None
    assert guard.refusal(INSIDE, parse_address("10.1.0.7"), snapshot) == POD
