"""Whose answers count."""

import pytest
from helpers.builders import pod, service
from helpers.dns import KUBE_DNS, NODE_LOCAL, P, Q, R, cluster_dns
from helpers.judging import snapshot_of, state_of

from knp_py.engine.resolvers import Trust, parse_networks, parse_trust, single
from knp_py.engine.snapshot import Snapshot
from knp_py.errors import InputError
from knp_py.model.changes import Change, ClusterObject, Verb
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


BEHIND = {"app": "dns"}
OTHERS, CLAIMED, MANUAL = "10.96.0.77", "203.0.113.53", "10.96.0.78"
DNS_SERVICES: list[ClusterObject] = [
    service("dns/named", OTHERS, "fd96::77", selector=BEHIND, external_ips=[CLAIMED, MANUAL]),
    service("dns/manual", MANUAL),  # whose endpoints somebody writes by hand
    pod("dns/one", "10.1.3.1", "fd01::31", labels={"app": "dns", "more": "x"}),
    pod("dns/two", "10.1.3.2", labels=BEHIND),
    pod("dns/ended", "10.1.3.3", labels=BEHIND, phase="Succeeded"),
    pod("dns/another", "10.1.3.4", labels={"app": "web"}),
    pod("x/lookalike", "10.1.3.5", labels=BEHIND),
    pod("dns/on-its-node", "172.18.0.5", labels=BEHIND, host_network=True),
]
ONE, TWO = "10.1.3.1", "10.1.3.2"
NOT_BEHIND = ["10.1.3.3", "10.1.3.4", "10.1.3.5", "172.18.0.5", EIGHTS]


@pytest.mark.parametrize(
    ("nameservers", "yes", "no"),
    [
        ([OTHERS], [OTHERS, ONE, "fd01::31", TWO], [*NOT_BEHIND, "fd96::77", CLAIMED]),
        (["fd96::77"], ["fd96::77", ONE, TWO], [*NOT_BEHIND, OTHERS]),
        ([EIGHTS, OTHERS], [EIGHTS, OTHERS, ONE], NOT_BEHIND[:-1]),
        ([CLAIMED], [CLAIMED], [ONE, TWO, OTHERS, *NOT_BEHIND]),
        ([MANUAL], [MANUAL], [ONE, TWO, OTHERS, *NOT_BEHIND]),
        ([ONE], [ONE], [TWO, OTHERS]),
        ([], [], [ONE, TWO, OTHERS]),
    ],
)
@pytest.mark.parametrize("policy", ["None", "Default", "ClusterFirst"])
def test_a_nameserver_that_is_a_cluster_ip_is_the_pods_behind_it(
    policy: str, nameservers: list[str], yes: list[str], no: list[str]
) -> None:
    client, snapshot = spec(policy, *nameservers), snapshot_of(DNS_SERVICES)
    assert [server for server in yes + no if trusted(Trust(), client, server, snapshot)] == yes


def test_the_pods_behind_are_those_there_are_now() -> None:
    client = spec("None", OTHERS)
    state = state_of(DNS_SERVICES)
    assert trusted(Trust(), client, ONE, state.snapshot())
    one = DNS_SERVICES[2]
    state.apply(Change(Verb.DELETED, one))
    state.apply(Change(Verb.APPLIED, pod("x/later", ONE)))
    assert not trusted(Trust(), client, ONE, state.snapshot())
    assert trusted(Trust(), client, TWO, state.snapshot())
    state.apply(Change(Verb.DELETED, DNS_SERVICES[0]))
    assert not trusted(Trust(), client, TWO, state.snapshot())
    assert not trusted(Trust(), client, TWO, None)


def test_who_is_behind_its_own_nameserver_does_not_teach_itself() -> None:
    own = pod("dns/one", ONE, labels=BEHIND, nameservers=[OTHERS], dns_policy="None")
    snapshot = snapshot_of([*DNS_SERVICES[:2], own, DNS_SERVICES[3]])
    assert not trusted(Trust(), own, ONE, snapshot)
    assert trusted(Trust(), own, TWO, snapshot)


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
