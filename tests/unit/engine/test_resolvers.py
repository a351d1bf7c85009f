"""Whose answers count."""

import pytest
from helpers.builders import pod
from helpers.dns import KUBE_DNS, NODE_LOCAL, P, Q, R, cluster_dns
from helpers.judging import snapshot_of

from knp_py.engine.resolvers import Trust, parse_networks, parse_trust, single
from knp_py.engine.snapshot import Snapshot
from knp_py.errors import InputError
from knp_py.model.net import parse_address
from knp_py.model.objects import Pod

EIGHTS = "8.8.8.8"


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return snapshot_of([P, Q, *cluster_dns()])


def trusted(trust: Trust, client: Pod, server: str, snapshot: Snapshot | None) -> bool:
    return trust.trusted(client, parse_address(server), snapshot)


def spec(policy: str, *nameservers: str) -> Pod:
    return pod("x/s", "10.1.0.7", dns_policy=policy, nameservers=nameservers)


@pytest.mark.parametrize(
    ("client", "yes", "no"),
    [
        (spec("ClusterFirst"), [R, KUBE_DNS, NODE_LOCAL], [EIGHTS, "10.1.0.6", "10.1.0.7"]),
        (spec("ClusterFirst", EIGHTS), [R, EIGHTS], ["1.1.1.1"]),
        (spec("ClusterFirstWithHostNet"), [R, KUBE_DNS], [EIGHTS]),
        (spec("None", EIGHTS), [EIGHTS], [R, KUBE_DNS, NODE_LOCAL, "1.1.1.1"]),
        (spec("Default"), ["192.168.0.53"], [R, KUBE_DNS, NODE_LOCAL, EIGHTS]),
        (spec("Default", EIGHTS), ["192.168.0.53", EIGHTS], [R]),
        (spec("Tomorrow"), [], [R, "192.168.0.53", EIGHTS]),
    ],
)
def test_auto(client: Pod, yes: list[str], no: list[str], snapshot: Snapshot) -> None:
    trust = Trust(node_resolvers=frozenset({parse_address("192.168.0.53")}))
    assert [server for server in yes + no if trusted(trust, client, server, snapshot)] == yes


def test_auto_without_a_snapshot() -> None:
    assert not trusted(Trust(), P, R, None)
    assert trusted(Trust(), spec("ClusterFirst", EIGHTS), EIGHTS, None)


def test_default_policy_without_known_node_resolvers(snapshot: Snapshot) -> None:
    assert not trusted(Trust(), spec("Default"), "192.168.0.53", snapshot)


def test_any(snapshot: Snapshot) -> None:
    assert trusted(Trust("any"), P, EIGHTS, snapshot)
    assert trusted(Trust("any"), P, "10.1.0.6", snapshot)


def test_listed(snapshot: Snapshot) -> None:
    trust = parse_trust("8.8.0.0/16, 2001:db8::53")
    assert trusted(trust, P, EIGHTS, snapshot)
    assert trusted(trust, P, "2001:db8::53", snapshot)
    assert not trusted(trust, P, R, snapshot)
    assert not trusted(Trust("listed"), P, R, snapshot)


@pytest.mark.parametrize("trust", [Trust("any"), parse_trust("10.0.0.0/8"), Trust()])
def test_nobody_is_a_resolver_for_themselves(trust: Trust, snapshot: Snapshot) -> None:
    own = pod("x/o", "10.1.0.9", "2001:db8::9", nameservers=["10.1.0.9", "2001:db8::9"])
    assert not trusted(trust, own, "10.1.0.9", snapshot)
    assert not trusted(trust, own, "2001:db8::9", snapshot)


def test_parse_trust() -> None:
    assert parse_trust("auto") == Trust()
    assert parse_trust(" any ") == Trust("any")
    assert parse_trust("auto", node_resolvers=[5]).node_resolvers == {5}
    listed = parse_trust("10.96.0.10,fd00::/8")
    assert (listed.mode, [c.text for c in listed.cidrs]) == (
        "listed",
        ["10.96.0.10/32", "fd00::/8"],
    )


@pytest.mark.parametrize(
    "text", ["", "all", "AUTO", "8.8.8.8,", "8.8.8.8/33", "auto,8.8.8.8", "kube-dns"]
)
def test_parse_trust_refuses(text: str) -> None:
    with pytest.raises(InputError) as error:
        parse_trust(text)
    assert repr(text) in str(error.value)
    assert "\n" not in str(error.value)


def test_parse_networks() -> None:
    parsed = parse_networks(" 8.8.8.8, 10.0.0.0/8 ,,2001:db8::1", "--some-option")
    assert [cidr.text for cidr in parsed] == ["8.8.8.8/32", "10.0.0.0/8", "2001:db8::1/128"]
    assert parse_networks("", "--some-option") == ()
    with pytest.raises(InputError, match=r"--some-option: .*kube-dns"):
        parse_networks("10.0.0.0/8,kube-dns", "--some-option")


def test_single() -> None:
    assert single(parse_address(EIGHTS)) == "8.8.8.8/32"
    assert single(parse_address("2001:db8::1")) == "2001:db8::1/128"
