"""Why: every policy that was considered for a packet, and why it did or did not decide.

Reads the very chains that ``evaluate`` reads; there is no second evaluator. Costs
nothing unless asked for.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from knp_py.engine.chains import Chain
from knp_py.engine.evaluate import NO_END, OWN_ADDRESS, OWN_NODE, PolicyEngine
from knp_py.engine.snapshot import NO_PORTS, Endpoint, Profile, Snapshot
from knp_py.model.decision import Decision, Ruling
from knp_py.model.packet import Packet
from knp_py.model.policy import (
    ClusterNetworkPolicy,
    Direction,
    NetworkPolicy,
    Policy,
    Tier,
)


class Outcome(Enum):
    """What became of one rule."""

    DECIDED = "decided"
    PASSED = "passed on to the next tier"
    PEER = "no peer matches"
    PORT = "protocol or port does not match"
    PEER_AND_PORT = "neither peer nor port matches"
    NAME = "no such name is learned for it"
    CLOSED = "unknown field: fails closed"
    LATER = "matches, but an earlier rule decided"
    NOT_REACHED = "not reached"


class RuleStep(NamedTuple):
    """One rule of a considered policy; ``action`` is the API's word."""

    rule: int
    name: str | None
    action: str
    outcome: Outcome


class PolicyStep(NamedTuple):
    """A policy that selects the pod in this direction. ``note`` is set when it has no rules."""

    tier: Tier
    policy: str
    priority: int | None
    rules: tuple[RuleStep, ...]
    note: str | None = None


class DirectionSteps(NamedTuple):
    """One direction: the pod judged, every policy considered, and the ruling."""

    direction: Direction
    pod: str
    policies: tuple[PolicyStep, ...]
    ruling: Ruling


class Explanation(NamedTuple):
    """``decision`` is what ``evaluate`` says; ``directions`` the way there."""

    decision: Decision
    directions: tuple[DirectionSteps, ...]


def explain(engine: PolicyEngine, packet: Packet, *, now: float) -> Explanation:
    """The decision and how it came about."""
    decision = engine.evaluate(packet, now=now)
    snapshot = engine.snapshot
    if decision.decided_by is NO_END or decision.decided_by is OWN_ADDRESS:
        return Explanation(decision, ())
    source = snapshot.endpoints.get(packet.src)
    target = snapshot.endpoints.get(packet.dst)
    steps: list[DirectionSteps] = []
    if source is not None and decision.egress is not None:
        steps.append(
            _direction(engine, packet, now, Direction.EGRESS, source, target, decision.egress)
        )
    if target is not None and decision.ingress is not None:
        steps.append(
            _direction(engine, packet, now, Direction.INGRESS, target, source, decision.ingress)
        )
    return Explanation(decision, tuple(steps))


def _direction(
    engine: PolicyEngine,
    packet: Packet,
    now: float,
    direction: Direction,
    subject: Endpoint,
    other: Endpoint | None,
    ruling: Ruling,
) -> DirectionSteps:
    snapshot = engine.snapshot
    profile = snapshot.profiles[subject.identity]
    steps: list[PolicyStep] = []
    reached = True
    for tier, chain in profile.chains(direction):
        peer, port, named = _bits(engine, packet, now, direction, subject, other, chain)
        own_node = ruling is OWN_NODE and tier is Tier.NETWORK_POLICY
        decisive = peer & port
        low = 0 if own_node else decisive & -decisive
        steps += _policies(
            tier,
            chain,
            direction,
            peer=peer,
            port=port,
            low=low,
            named=named,
            reached=reached and not own_node,
        )
        decided = bool(low) and not low & chain.pass_bits
        isolated = not low and chain.end is not None
        reached = reached and not (own_node or decided or isolated)
    return DirectionSteps(direction, subject.pod.key, tuple(steps), ruling)


def _bits(
    engine: PolicyEngine,
    packet: Packet,
    now: float,
    direction: Direction,
    subject: Endpoint,
    other: Endpoint | None,
    chain: Chain,
) -> tuple[int, int, int]:
    """Rules whose peer matches, whose port matches, and that could match by a name."""
    snapshot = engine.snapshot
    group, selectors = _group(snapshot, other)
    egress = direction is Direction.EGRESS
    address = packet.dst if egress else packet.src
    bits = chain.peer_bits(address, group, selectors)
    named = 0
    if egress:
        bits |= chain.node_bits(snapshot.node_addresses.get(address, ()))
        if chain.name_masks:
            bits |= chain.name_bits(engine.names.lookup(subject.pod, address, now))
            for mask in chain.name_masks.values():
                named |= mask
    target = other if egress else subject
    ports: Mapping[tuple[int, int], tuple[str, ...]] = NO_PORTS if target is None else target.ports
    return bits, chain.port_bits(packet.protocol, packet.dport, ports), named


def _group(snapshot: Snapshot, other: Endpoint | None) -> tuple[int, tuple[int, ...]]:
    if other is None:
        return 0, ()
    profile: Profile = snapshot.profiles[other.identity]
    return profile.group, profile.selectors


def _policies(
    tier: Tier,
    chain: Chain,
    direction: Direction,
    *,
    peer: int,
    port: int,
    low: int,
    named: int,
    reached: bool,
) -> list[PolicyStep]:
    steps: list[PolicyStep] = []
    bit = 1
    for policy in chain.policies:
        rules: list[RuleStep] = []
        for index in range(len(policy.rules[direction] or ())):
            ruling = chain.rulings[bit.bit_length() - 1]
            outcome = _outcome(
                bit, chain, peer=peer, port=port, low=low, named=named, reached=reached
            )
            rules.append(RuleStep(index, ruling.rule_name, ruling.action or "", outcome))
            bit <<= 1
        steps.append(
            PolicyStep(tier, _name(policy), _priority(policy), tuple(rules), _note(policy, rules))
        )
    return steps


def _outcome(
    bit: int, chain: Chain, *, peer: int, port: int, low: int, named: int, reached: bool
) -> Outcome:
    if not reached:
        return Outcome.NOT_REACHED
    if chain.skipped & bit:
        return Outcome.CLOSED
    if bit == low:
        return Outcome.PASSED if low & chain.pass_bits else Outcome.DECIDED
    if peer & port & bit:
        return Outcome.NOT_REACHED if low & chain.pass_bits else Outcome.LATER
    if low and bit > low and not isinstance(chain.policies[0], NetworkPolicy):
        return Outcome.NOT_REACHED
    if not peer & bit:
        if named & bit and port & bit:
            return Outcome.NAME
        return Outcome.PEER if port & bit else Outcome.PEER_AND_PORT
    return Outcome.PORT


def _name(policy: Policy) -> str:
    return policy.name if isinstance(policy, ClusterNetworkPolicy) else policy.key


def _priority(policy: Policy) -> int | None:
    return policy.priority if isinstance(policy, ClusterNetworkPolicy) else None


def _note(policy: Policy, rules: list[RuleStep]) -> str | None:
    if rules or isinstance(policy, ClusterNetworkPolicy):
        return None
    return "isolates the pod and allows nothing"
