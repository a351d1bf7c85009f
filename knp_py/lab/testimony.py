"""What two witnesses say of one connection, put together: the socket and the agent's log.

The verdict is what the socket saw; who decided is what the log says. Where they contradict
each other the trial has a fault, whatever anybody expected. Pure.
"""

from knp_py.lab.attempts import Seen
from knp_py.lab.verdictfeed import Found
from knp_py.model.decision import Decision, Ruling, Verdict
from knp_py.model.packet import Packet
from knp_py.model.policy import Direction, Tier
from knp_py.replay.shell import Attempt, Trial
from knp_py.verdicts.record import Record, decider
from knp_py.verdicts.words import record_text

_DIRECTIONS = {direction.text: direction for direction in Direction}
_TIERS = {tier.text: tier for tier in Tier}
_SAID = {Verdict.ALLOW: "was answered", Verdict.DENY: "was not answered"}


def trial_of(
    seen: Seen | None, found: Found | None, packet: Packet, pod: str, foreseen: Decision
) -> Trial:
    """What came of a connection that an agent had a say in.

    ``packet`` is its first one after destination NAT, to the pod called ``pod``, if it is
    one; ``foreseen`` what the engine says of it.
    """
    if seen is not None and seen.refused:
        return Trial(Verdict.UNKNOWN, reason=f"no verdict, but: {seen.refused}")
    verdict = Verdict.DENY if seen is None else Verdict.ALLOW
    if found is None:
        attempt = Attempt(packet, foreseen, pod)
        if verdict is Verdict.ALLOW and is_nobodys(foreseen):
            return Trial(verdict, attempt)
        fault = f"it {_SAID[verdict]}, and the agent's log has no verdict on it"
        return Trial(verdict, reason="not in the agent's log", fault=fault)
    record = found.record
    attempt = Attempt(packet, decision_of(record, foreseen), pod)
    logged = Verdict.ALLOW if record.enforced is False else Verdict(record.verdict)
    fault = ""
    if logged is not verdict:
        said = f"{record.verdict}: {record_text(record)}"
        fault = f"it {_SAID[verdict]}, but the agent's log says {said}"
    return Trial(verdict, attempt, fault=fault)


def unwatched_trial(seen: Seen | None) -> Trial:
    """What came of a connection where no agent is."""
    if seen is not None and seen.refused:
        return Trial(Verdict.UNKNOWN, reason=f"no verdict, but: {seen.refused}")
    if seen is None:
        return Trial(Verdict.DENY, reason="not answered, though no agent runs")
    return Trial(Verdict.ALLOW, reason="answered; no agent runs that could object")


def is_nobodys(foreseen: Decision) -> bool:
    """Whether no policy has a say, so that the agent need not be asked at all.

    Policies select pods by direction; traffic of a pod's own node, and of a pod to itself,
    passes without them.
    """
    rulings = (foreseen.egress, foreseen.ingress)
    return all(r is None or (r.allowed and r.rule is None) for r in rulings)


def denies(found: Found) -> bool:
    """Whether the log says that the connection's packets are dropped."""
    return found.record.verdict == Verdict.DENY.value and found.record.enforced is not False


def decision_of(record: Record, foreseen: Decision) -> Decision:
    """The decision in a record.

    A record names one ruling. When it is the one that the engine gives, so are the others.
    """
    ruling = foreseen.decided_by
    if (
        record.verdict == foreseen.verdict.value
        and ruling is not None
        and record.decided_by == decider(ruling)
    ):
        return foreseen
    found = _ruling(record)
    if found is None:
        return Decision(Verdict(record.verdict), None, None, None, record.reason)
    egress = found.direction is Direction.EGRESS
    return Decision(
        Verdict(record.verdict),
        egress=found if egress else None,
        ingress=None if egress else found,
        decided_by=found,
    )


def _ruling(record: Record) -> Ruling | None:
    decided = record.decided_by
    if decided is None or decided.tier not in _TIERS or decided.direction not in _DIRECTIONS:
        return None
    return Ruling(
        allowed=record.verdict == Verdict.ALLOW.value,
        direction=_DIRECTIONS[decided.direction],
        tier=_TIERS[decided.tier],
        policy=decided.policy,
        rule=decided.rule,
        rule_name=decided.rule_name,
        action=decided.action,
        reason=record.reason,
        isolated_by=record.isolated_by or (),
    )
