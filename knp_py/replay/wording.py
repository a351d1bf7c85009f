"""What came of an expectation, in words."""

from collections.abc import Iterator

from knp_py.engine.explain import DirectionSteps, Explanation, PolicyStep
from knp_py.engine.explain import Outcome as RuleOutcome
from knp_py.model.decision import Verdict
from knp_py.model.net import format_address
from knp_py.replay.scenario import Expectation
from knp_py.replay.shell import Outcome
from knp_py.verdicts.words import decision_text, ruling_text

# Rules that say nothing about a packet: neither did they decide nor nearly so.
_SILENT = frozenset({RuleOutcome.PEER, RuleOutcome.PEER_AND_PORT, RuleOutcome.NOT_REACHED})


def outcome_text(expectation: Expectation, outcome: Outcome) -> str:
    """Who decided, or what else happened; for a name also which resolver or address it was."""
    text = decider_text(outcome)
    if outcome.stage == "lookup" and not expectation.lookup:
        text = f"could not look {expectation.target.text} up: {text}"
    where = _where(expectation, outcome)
    return f"{text} [{where}]" if where else text


def decider_text(outcome: Outcome) -> str:
    """Who decided, or what else happened."""
    trial = outcome.trial
    if trial.reason is not None or trial.attempt is None:
        return trial.reason or "nobody decided"
    return decision_text(trial.attempt.decision)


def _where(expectation: Expectation, outcome: Outcome) -> str:
    attempt = outcome.trial.attempt
    if attempt is None or not expectation.target.name:
        return ""
    if outcome.stage == "connect":
        where = format_address(attempt.packet.dst)
    else:
        asked = [each.resolver for each in outcome.lookups if each.trial is outcome.trial]
        where = asked[0] if asked else ""
    if outcome.verdict is not Verdict.ALLOW and outcome.tried > 1:
        return f"{where} and {outcome.tried - 1} more"
    return where


def considered(explanation: Explanation) -> Iterator[str]:
    """Every policy that was considered, one line each, in the order of evaluation."""
    for direction in explanation.directions:
        yield f"considered for {direction.direction.text} of {direction.pod}:"
        yield from _steps(direction)
    decision = explanation.decision
    for address in decision.unidentified:
        yield f"{format_address(address)} lies in the pod network and is no known pod's"
    if decision.verdict is Verdict.ALLOW and not explanation.directions:
        yield decision_text(decision)


def _steps(direction: DirectionSteps) -> Iterator[str]:
    if not direction.policies:
        yield "  no policy selects it"
    for step in direction.policies:
        priority = "" if step.priority is None else f" (priority {step.priority})"
        yield f"  {step.tier.text} {step.policy}{priority}: {_step(step)}"
    yield f"  so {ruling_text(direction.ruling)}"


def _step(step: PolicyStep) -> str:
    said = [
        " ".join(
            filter(None, (f"rule {rule.rule}", f'"{rule.name}"' if rule.name else "", rule.action))
        )
        + f": {rule.outcome.value}"
        for rule in step.rules
        if rule.outcome not in _SILENT
    ]
    if said:
        return "; ".join(said)
    if step.note:
        return step.note
    if step.rules and all(rule.outcome is RuleOutcome.NOT_REACHED for rule in step.rules):
        return "not reached"
    return "no rule matches"
