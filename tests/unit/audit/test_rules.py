import msgspec
import pytest
from helpers import builders as b
from helpers.findings import findings_of, ids, paths

from knp_py.model.policy import ClusterNetworkPolicy, ClusterRule, Direction, NetworkPolicy, Peer

POD = b.pod("a/web", "10.0.0.1")


def test_nothing_to_say_of_a_sane_policy() -> None:
    policy = b.netpol("a/p", ingress=[b.allow(b.own_pods(), ports=[b.tcp(80)])])
    assert ids([POD, policy]) == []


@pytest.mark.parametrize(
    ("rule", "effect"),
    [
        (b.accept(b.pods(), b.unknown_peer("futurePeer")), "matches nothing"),
        (b.deny(b.unknown_peer("futurePeer")), "denies everything"),
        (b.pass_on(b.unknown_peer()), "denies everything"),
    ],
)
def test_unknown_peer(rule: ClusterRule, effect: str) -> None:
    [finding] = findings_of("unknown-peer", b.cnp("c", egress=[rule]))
    assert effect in finding.message
    assert finding.path.startswith("spec.egress[0].to[")


def test_unknown_peer_suggests_the_field_that_was_meant() -> None:
    [finding] = findings_of(
        "unknown-peer", b.cnp("c", egress=[b.deny(b.unknown_peer("namespace"))])
    )
    assert "did you mean 'namespaces'" in finding.fix


def test_unknown_peer_of_a_network_policy_matches_nothing() -> None:
    policy = b.netpol(
        "a/p", egress=[b.allow(b.unknown_peer("futurePeer"), b.ip_block("10.0.0.0/8"))]
    )
    [finding] = findings_of("unknown-peer", policy)
    assert "the peer matches nothing" in finding.message


@pytest.mark.parametrize("peer", [b.networks("10.0.0.0/8"), b.unknown_peer("networks")])
def test_only_pods_are_ingress_peers(peer: Peer) -> None:
    [finding] = findings_of("unknown-peer", b.cnp("c", ingress=[b.deny(peer)]))
    assert "networks is no ingress peer" in finding.message


def test_unknown_port() -> None:
    rule = b.accept(b.pods(), ports=[b.tcp(80), b.unknown_port("quic")])
    assert paths("unknown-port", b.cnp("c", egress=[rule])) == ["c spec.egress[0].protocols[1]"]
    policy = b.netpol("a/p", ingress=[b.allow(ports=[b.unknown_port()])])
    assert paths("unknown-port", policy) == ["a/p spec.ingress[0].ports[0]"]


def test_unknown_action() -> None:
    policy = b.cnp("c", ingress=[b.accept(b.pods()), b.unknown_action(b.pods())])
    [finding] = findings_of("unknown-action", policy)
    assert finding.path == "spec.ingress[1].action"
    assert "'Ponder'" in finding.message


def test_names_are_for_accept_rules() -> None:
    names = b.domains("example.com")
    assert paths("names-outside-accept", b.cnp("c", egress=[b.accept(names)])) == []
    for rule in (b.deny(names), b.pass_on(names)):
        assert paths("names-outside-accept", b.cnp("c", egress=[rule])) == [
            "c spec.egress[0].to[0].domainNames"
        ]


def test_a_name_that_no_host_can_have() -> None:
    names = b.domains("example.com", "a^.example.com", "x" * 64 + ".com")
    assert paths("unmatchable-name", b.cnp("c", egress=[b.accept(names)])) == [
        "c spec.egress[0].to[0].domainNames[1]",
        "c spec.egress[0].to[0].domainNames[2]",
    ]


def test_inert_rules() -> None:
    policy = b.netpol("a/p", ingress=[])
    assert paths("inert-rules", policy) == []
    inert: NetworkPolicy = msgspec.structs.replace(policy, inert=(Direction.EGRESS,))
    [finding] = findings_of("inert-rules", inert)
    assert finding.path == "spec.egress"
    assert "Egress" in finding.fix


def test_policy_without_rules() -> None:
    assert paths("no-rules", b.cnp("c")) == ["c spec"]
    assert paths("no-rules", b.cnp("c", egress=[b.deny(b.pods())])) == []


def test_old_api() -> None:
    old: ClusterNetworkPolicy = msgspec.structs.replace(
        b.cnp("c", egress=[b.accept(b.pods(), ports=[b.unknown_port()])]),
        kind="AdminNetworkPolicy",
    )
    assert paths("old-api", old) == ["c kind"]
    assert paths("unknown-port", old) == ["c spec.egress[0].ports[0]"]


def test_duplicate_rule_names() -> None:
    twice = [b.accept(b.pods(), name="n"), b.deny(b.pods()), b.deny(b.namespaces(), name="n")]
    assert paths("duplicate-rule-name", b.cnp("c", egress=twice)) == ["c spec.egress[2].name"]
    assert paths("duplicate-rule-name", b.cnp("c", egress=twice[:2], ingress=twice[2:])) == []


def test_impossible_selector() -> None:
    never = b.select({"app": "x"}, b.not_in("app", "x"))
    policy = b.netpol("a/p", never, ingress=[b.allow(b.own_pods(never), b.own_pods())])
    assert paths("impossible-selector", POD, policy) == [
        "a/p spec.ingress[0].from[0]",
        "a/p spec.podSelector",
    ]
    # Said once: not also that it selects nothing.
    assert "selects-nothing" not in ids([POD, policy])
    assert "peer-matches-nothing" not in ids([POD, policy])
