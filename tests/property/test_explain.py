"""An explanation ends where the decision does, and says of each rule what the oracle says."""

import pytest
from helpers import clusters as c
from helpers.judging import engine_of
from helpers.oracle import Flow, Oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from knp_py.engine.explain import DirectionSteps, Outcome, PolicyStep, RuleStep, explain
from knp_py.model.decision import Decision
from knp_py.model.policy import (
    Action,
    ClusterNetworkPolicy,
    ClusterRule,
    Direction,
    DomainPeer,
    NetworkPolicy,
    NetworkRule,
    Tier,
)

pytestmark = pytest.mark.slow
# What an outcome says about the rule: its peers match, its protocols and ports match.
MATCHING = {
    Outcome.DECIDED: {(True, True)},
    Outcome.PASSED: {(True, True)},
    Outcome.LATER: {(True, True)},
    Outcome.PEER: {(False, True)},
    Outcome.PORT: {(True, False)},
    Outcome.PEER_AND_PORT: {(False, False)},
    Outcome.NAME: {(False, True)},
}


@settings(max_examples=settings().max_examples // 2)
@given(data=st.data())
def test_an_explanation_agrees_with_decision_and_oracle(data: st.DataObject) -> None:
    cluster = data.draw(c.clusters())
    engine = engine_of(cluster.objects, cluster.learned)
    oracle = Oracle(cluster.objects, cluster.learned)
    for packet in data.draw(st.lists(c.packets(cluster.pods), min_size=1, max_size=12)):
        explanation = explain(engine, packet, now=0.0)
        assert explanation.decision == engine.evaluate(packet, now=0.0)
        ends = {
            Direction.EGRESS: (oracle.pod_at(packet.src), oracle.pod_at(packet.dst)),
            Direction.INGRESS: (oracle.pod_at(packet.dst), oracle.pod_at(packet.src)),
        }
        for steps in explanation.directions:
            subject, other = ends[steps.direction]
            assert subject is not None
            assert steps.pod == subject.key
            ends_with_the_ruling(steps, explanation.decision)
            flow = Flow(steps.direction, subject, other, packet, 0.0)
            considers_what_selects(steps, oracle, flow)
            for policy in steps.policies:
                for rule in policy.rules:
                    says_what_matches(policy, rule, oracle, flow)


def ends_with_the_ruling(steps: DirectionSteps, decision: Decision) -> None:
    side = decision.egress if steps.direction is Direction.EGRESS else decision.ingress
    assert steps.ruling == side
    decided = [
        (policy, rule)
        for policy in steps.policies
        for rule in policy.rules
        if rule.outcome is Outcome.DECIDED
    ]
    if steps.ruling.rule is None:
        assert not decided
        return
    ((policy, rule),) = decided
    assert (policy.tier, policy.policy) == (steps.ruling.tier, steps.ruling.policy)
    assert rule.rule == steps.ruling.rule
    assert rule.action == steps.ruling.action
    passed = [
        policy.tier
        for policy in steps.policies
        for rule in policy.rules
        if rule.outcome is Outcome.PASSED
    ]
    assert len(passed) == len(set(passed))
    assert all(tier < steps.ruling.tier for tier in passed)


def considers_what_selects(steps: DirectionSteps, oracle: Oracle, flow: Flow) -> None:
    """Every policy that selects the pod in this direction, in the order they are asked."""
    selecting = [
        (policy.tier, policy.priority, policy.name)
        for policy in oracle.cluster_policies
        if oracle.pod_peer(policy.subject, flow.subject) and policy.rules[flow.direction]
    ]
    selecting += [(Tier.NETWORK_POLICY, 0, policy.key) for policy in oracle.isolating(flow)]
    assert [(step.tier, step.policy) for step in steps.policies] == [
        (tier, name) for tier, _, name in sorted(selecting)
    ]


def says_what_matches(policy: PolicyStep, step: RuleStep, oracle: Oracle, flow: Flow) -> None:
    rule = rule_of(policy, step, oracle, flow.direction)
    if step.outcome is Outcome.NOT_REACHED:
        return
    broken = isinstance(rule, ClusterRule) and oracle.broken(rule, flow.direction)
    closed_port = isinstance(rule, NetworkRule) and oracle.unknown_port(rule)
    if step.outcome is Outcome.CLOSED:
        assert closed_port or (broken and accepts(rule))
        return
    assert not closed_port
    if broken:
        assert not accepts(rule)
        assert step.outcome in {Outcome.DECIDED, Outcome.LATER}
        return
    peers = rule.peers is None or any(oracle.peer(peer, flow) for peer in rule.peers)
    ports = rule.ports is None or any(oracle.port(port, flow) for port in rule.ports)
    assert (peers, ports) in MATCHING[step.outcome]
    if step.outcome is Outcome.NAME:
        assert any(isinstance(peer, DomainPeer) for peer in rule.peers or ())


def accepts(rule: ClusterRule | NetworkRule) -> bool:
    return isinstance(rule, ClusterRule) and rule.action is Action.ACCEPT


def rule_of(
    policy: PolicyStep, step: RuleStep, oracle: Oracle, direction: Direction
) -> ClusterRule | NetworkRule:
    every: list[ClusterNetworkPolicy | NetworkPolicy] = [
        *oracle.cluster_policies,
        *oracle.network_policies,
    ]
    for obj in every:
        name = obj.key if isinstance(obj, NetworkPolicy) else obj.name
        rules = obj.rules[direction]
        if name == policy.policy and rules is not None:
            return rules[step.rule]
    raise AssertionError(policy)
