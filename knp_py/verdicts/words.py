"""A ruling in words, the same wherever knp says who decided."""

from knp_py.engine.chains import ISOLATED
from knp_py.model.decision import Decision, Ruling
from knp_py.model.policy import Tier
from knp_py.verdicts.record import BLOCKED, LIMIT, Candidate, End, Omission, Record

_DEFAULT = "no policy decided"
_ISOLATES = "isolates, no rule matches"
_OMITTED = {
    LIMIT: "more lines a second than the log may have",
    BLOCKED: "whatever reads the log was too slow",
}


def ruling_text(ruling: Ruling) -> str:
    """``egress: Admin default-deny, rule 0 "deny-everything-else"``."""
    direction = ruling.direction.text
    if ruling.tier is Tier.DEFAULT:
        return f"default: {ruling.reason or _DEFAULT}"
    if ruling.policy is None:
        return f"{direction}: {ruling.tier.text}: {ruling.reason}"
    if ruling.rule is None:
        policies = ", ".join(ruling.isolated_by) or ruling.policy
        return f"{direction}: {ruling.tier.text} {policies}: {_ISOLATES}"
    text = f"{direction}: {ruling.tier.text} {ruling.policy}, rule {ruling.rule}"
    if ruling.rule_name:
        text += f' "{ruling.rule_name}"'
    return f"{text}: {ruling.reason}" if ruling.reason else text


def decision_text(decision: Decision) -> str:
    """Who decided, or why nobody could; names that opened the way included."""
    if decision.decided_by is None:
        return decision.reason or "unknown"
    text = ruling_text(decision.decided_by)
    names = sorted({f"{g.name} matches {g.pattern}" for g in decision.grants})
    return f"{text} ({'; '.join(names)})" if names else text


def decider_text(record: Record | Candidate) -> str:
    """What of a record decided, without direction; without reason where it is an object.

    ``Admin default-deny, rule 0 "deny-everything-else"``.
    """
    decided = record.decided_by
    if decided is None:
        return "undecided" if record.verdict == "unknown" else "not said in the log"
    if decided.tier == Tier.DEFAULT.text:
        why = record.reason if isinstance(record, Record) else None
        return f"default: {why or _DEFAULT}"
    policy = ", ".join(record.isolated_by or ()) or decided.policy or ""
    text = f"{decided.tier or '?'} {policy}".rstrip()
    if decided.rule is not None:
        text += f", rule {decided.rule}"
    elif policy:
        text += f": {_ISOLATES}"
    return f'{text} "{decided.rule_name}"' if decided.rule_name else text


def record_text(record: Record, *, direction: bool = True) -> str:
    """Who decided, and what there is to say besides, as ``ruling_text`` has it.

    ``direction`` False leaves it out.
    """
    why = "; ".join(filter(None, (record.reason or "").replace(ISOLATED, "").split("; ")))
    decided = record.decided_by
    if decided is None:
        return why or decider_text(record)
    if decided.tier == Tier.DEFAULT.text:
        return f"default: {why or _DEFAULT}"
    text = decider_text(record)
    if direction and (side := decided.direction or record.direction):
        text = f"{side}: {text}"
    return f"{text}: {why}" if why else text


def remarks_text(record: Record) -> str:
    """What there is to say besides the verdict: unknown ends, and what the agent did.

    Empty where there is nothing.
    ``dry run: not dropped; shadow: deny by egress: Admin next, rule 0``.
    """
    remarks = []
    if record.unidentified:
        addresses = ", ".join(record.unidentified)
        remarks.append(f"unidentified: {addresses} (in a pod network, no known pod's)")
    if record.enforced is False and record.verdict != "allow":
        remarks.append("dry run: not dropped")
    if record.again is True:
        remarks.append("judged again")
    if record.shadow:
        remarks.append(f"shadow: {record.shadow.verdict} by {candidate_text(record.shadow)}")
    return "; ".join(remarks)


def candidate_text(candidate: Candidate) -> str:
    """Who among the candidate policies decided: ``egress: Admin next, rule 0``."""
    decided = candidate.decided_by
    text = decider_text(candidate)
    if decided is None or not decided.direction or decided.tier == Tier.DEFAULT.text:
        return text
    return f"{decided.direction}: {text}"


def omission_text(omission: Omission) -> str:
    """``123 allow, 4 deny left out in 1 s: more lines a second than the log may have``."""
    counts = ", ".join(f"{n} {word}" for word, n in sorted(omission.omitted.items()))
    why = _OMITTED.get(omission.reason, omission.reason)
    return f"{counts} left out in {omission.seconds:g} s: {why}"


def end_text(end: End) -> str:
    """A pod's or node's name or an address, with the port: ``shop/web:1``, ``[fd00::1]:53``."""
    text = end.pod or (f"node {end.node}" if end.node else "")
    address = end.ip or "?"
    if not isinstance(end.port, int):
        return text or address
    return f"{text or (f'[{address}]' if ':' in address else address)}:{end.port}"


def connection_text(record: Record, arrow: str = "→") -> str:
    """``shop/web:40312 → 140.82.121.4:443 TCP (github.com)``."""
    target = end_text(record.dst)
    if record.dst.service:
        target = f"Service {record.dst.service} ({target})"
    names = f" ({', '.join(record.dst.names)})" if record.dst.names else ""
    return f"{end_text(record.src)} {arrow} {target} {record.protocol}{names}"
