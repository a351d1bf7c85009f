"""A ruling in words, the same wherever knp says who decided."""

from knp_py.model.decision import Decision, Ruling
from knp_py.model.policy import Tier


def ruling_text(ruling: Ruling) -> str:
    """``egress: Admin default-deny, rule 0 "deny-everything-else"``."""
    direction = ruling.direction.text
    if ruling.tier is Tier.DEFAULT:
        return f"default: {ruling.reason or 'no policy decided'}"
    if ruling.policy is None:
        return f"{direction}: {ruling.tier.text}: {ruling.reason}"
    if ruling.rule is None:
        policies = ", ".join(ruling.isolated_by) or ruling.policy
        return f"{direction}: {ruling.tier.text} {policies}: isolates, no rule matches"
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
