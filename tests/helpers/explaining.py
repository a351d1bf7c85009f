"""An explanation held against the oracle, rule by rule."""

from helpers.oracle import Flow, Oracle

from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.explain import DirectionSteps, Outcome, PolicyStep, RuleStep, explain
from knp_py.model.decision import Decision
from knp_py.model.packet import Packet
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


def explained(engine: PolicyEngine, oracle: Oracle, packet: Packet) -> None:
    """Whether decision, policies considered and outcomes are those of the oracle, at 0.0."""
    explanation = explain(engine, packet, now=0.0)
    decision = explanation.decision
    assert decision == engine.evaluate(packet, now=0.0)
    source, target = oracle.pod_at(packet.src), oracle.pod_at(packet.dst)
    itself = source is not None and source == target
    judged = [
        direction
        for direction, ruling in (
            (Direction.EGRESS, decision.egress),
            (Direction.INGRESS, decision.ingress),
        )
        if ruling is not None and not itself
    ]
    assert [steps.direction for steps in explanation.directions] == judged
    for steps in explanation.directions:
        ends = (source, target) if steps.direction is Direction.EGRESS else (target, source)
        subject, other = ends
        assert subject is not None
        assert steps.pod == subject.key
        ends_with_the_ruling(steps, decision)
        flow = Flow(steps.direction, subject, other, packet, 0.0)
        considers_what_selects(steps, oracle, flow)
        for policy in steps.policies:
            for rule in policy.rules:
                says_what_matches(policy, rule, oracle, flow)
        reaches_what_comes_before(steps)


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
    assert [(step.tier, step.priority or 0, step.policy) for step in steps.policies] == sorted(
        selecting
    )


def reaches_what_comes_before(steps: DirectionSteps) -> None:
    """Rules up to the one that decided say something; tiers after it are not reached."""
    for tier in (Tier.ADMIN, Tier.NETWORK_POLICY, Tier.BASELINE):
        outcomes = [
            rule.outcome
            for policy in steps.policies
            if policy.tier is tier
            for rule in policy.rules
        ]
        if tier > steps.ruling.tier:
            assert set(outcomes) <= {Outcome.NOT_REACHED}
        elif tier is not Tier.NETWORK_POLICY:
            last = [
                place
                for place, outcome in enumerate(outcomes)
                if outcome in {Outcome.DECIDED, Outcome.PASSED}
            ]
            assert Outcome.NOT_REACHED not in outcomes[: last[0] if last else None]
            assert Outcome.LATER not in outcomes[: last[0] if last else None]


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
