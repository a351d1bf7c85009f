"""The tables of a compiled chain, and that ``match`` is what its parts say."""

from helpers import clusters
from helpers.builders import (
    accept,
    allow,
    cnp,
    deny,
    domains,
    ip_block,
    named,
    netpol,
    networks,
    pass_on,
    pod,
    pods,
    select,
    tcp,
    unknown_peer,
)
from helpers.judging import snapshot_of
from hypothesis import given
from hypothesis import strategies as st

from knp_py.engine.chains import FAIL_CLOSED, NAMES_CLOSED, Chain, ChainCompiler
from knp_py.engine.snapshot import Snapshot
from knp_py.model.net import parse_address
from knp_py.model.objects import Pod
from knp_py.model.policy import ClusterNetworkPolicy, Direction, NetworkPolicy, Peer, Policy, Tier

TCP, ICMP = 6, 1


def compiled(*policies: Policy, tier: Tier = Tier.ADMIN) -> Chain:
    compiler = ChainCompiler(lambda _: 1, lambda _: 2)
    return compiler.compile(policies, tier, Direction.EGRESS)


def bits(chain: Chain, ip: str, protocol: int = TCP, port: int = 80) -> int:
    return chain.match(parse_address(ip), 0, (), 0, protocol, port, {})


def test_bits_follow_the_rules_in_order() -> None:
    policy = cnp(
        "p",
        egress=[
            accept(networks("10.0.0.0/8"), ports=[tcp(80, 90)]),
            deny(networks("10.1.0.0/16", "10.1.2.0/24")),
            pass_on(networks("0.0.0.0/0")),
        ],
    )
    chain = compiled(policy)
    assert bits(chain, "10.1.2.3") == 0b111
    assert bits(chain, "10.1.2.3", port=91) == 0b110
    assert bits(chain, "10.2.0.0", ICMP, 0) == 0b100
    assert bits(chain, "2001:db8::1") == 0
    assert chain.pass_bits == 0b100


def test_exceptions_and_neighbours_of_a_network() -> None:
    policy = netpol("a/p", egress=[allow(ip_block("10.0.0.0/24", "10.0.0.128/25"))])
    chain = compiled(policy, tier=Tier.NETWORK_POLICY)
    inside = [ip for ip in ("9.255.255.255", "10.0.0.0", "10.0.0.127", "10.0.0.128", "10.0.1.0")
              if bits(chain, ip)]  # fmt: skip
    assert inside == ["10.0.0.0", "10.0.0.127"]
    assert chain.end is not None
    assert chain.end.isolated_by == ("a/p",)


def test_a_named_port_needs_the_destinations_own_name_for_it() -> None:
    policy = cnp("p", egress=[accept(pods(), ports=[named("http", None)])])
    chain = compiled(policy)
    for port, found in (((TCP, 80), 1), ((TCP, 81), 0), ((17, 80), 0)):
        assert chain.port_bits(*port, {(TCP, 80): ("x", "http")}) == found
    assert chain.port_bits(TCP, 80, {}) == 0


def test_what_fails_closed_is_seen_in_the_chain() -> None:
    odd: list[Peer] = [networks("10.0.0.0/8"), unknown_peer("future")]
    chain = compiled(cnp("p", egress=[accept(*odd), deny(*odd), pass_on(domains("a.example"))]))
    assert chain.skipped == 0b001
    assert bits(chain, "192.0.2.1", ICMP, 0) == 0b110
    assert [r.reason for r in chain.rulings[1:]] == [FAIL_CLOSED, NAMES_CLOSED]
    assert chain.pass_bits == 0


def test_a_pattern_that_is_no_name_matches_nothing() -> None:
    assert compiled(cnp("p", egress=[accept(domains("bücher.example"))])).name_masks == {}


@given(st.data())
def test_match_is_peer_and_port(data: st.DataObject) -> None:
    cluster = data.draw(clusters.clusters())
    snapshot: Snapshot = snapshot_of(cluster.objects)
    ends = data.draw(clusters.packets([o for o in cluster.objects if isinstance(o, Pod)]))
    for profile in snapshot.profiles.values():
        for _, chain in (*profile.egress, *profile.ingress):
            for group, selectors in ((0, ()), (profile.group, profile.selectors)):
                peer = chain.peer_bits(ends.dst, group, selectors)
                for extra in (0, 1):
                    port = chain.port_bits(ends.protocol, ends.dport, {})
                    assert (peer | extra) & port == chain.match(
                        ends.dst, group, selectors, extra, ends.protocol, ends.dport, {}
                    )


def test_policies_of_both_kinds_are_told_apart() -> None:
    target = pod("x/a", "10.0.0.1", labels={"app": "a"})
    policies: list[Policy] = [netpol("x/n", select({"app": "a"}), ingress=[]), cnp("c")]
    snapshot = snapshot_of([target, *policies])
    assert [type(p) for p in snapshot.policies()] == [ClusterNetworkPolicy, NetworkPolicy]
    profile = snapshot.profile_of(target)
    assert profile is not None
    assert [tier for tier, _ in profile.chains(Direction.INGRESS)] == [Tier.NETWORK_POLICY]
    assert profile.chains(Direction.EGRESS) == ()
