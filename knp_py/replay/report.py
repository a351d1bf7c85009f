"""A scenario's result as documents: what ``knp test -o json`` prints, key for key."""

import msgspec
from msgspec import UNSET, UnsetType

from knp_py.model.net import format_address
from knp_py.model.packet import Proto, protocol_name
from knp_py.replay.performance import Check, Result, StepResult
from knp_py.replay.scenario import Expectation
from knp_py.replay.wording import outcome_text
from knp_py.verdicts.record import Decider, decider


class LookupDocument(msgspec.Struct, frozen=True):
    """One resolver asked; ``decided_by`` is null when no policy was."""

    resolver: str
    verdict: str
    decided_by: Decider | None
    reason: str | UnsetType = UNSET


class CheckDocument(msgspec.Struct, frozen=True, kw_only=True, rename={"source": "from"}):
    """One expectation. ``verdict`` is null when there is no answer; then ``error`` says why.

    ``connect`` or ``lookup`` is the target as written. ``ip``, ``port`` and ``pod`` are the
    destination that ``decided_by`` is about, after destination NAT. ``at`` is scenario time.
    """

    scenario: str
    file: str
    step: str
    name: str | UnsetType = UNSET
    at: float
    source: str
    connect: str | UnsetType = UNSET
    lookup: str | UnsetType = UNSET
    via: str | UnsetType = UNSET
    protocol: str
    port: int | None
    expected: str
    verdict: str | None
    met: bool
    decided_by: Decider | None = None
    ip: str | UnsetType = UNSET
    pod: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    lookups: tuple[LookupDocument, ...] | UnsetType = UNSET
    faults: tuple[str, ...] | UnsetType = UNSET
    why: tuple[str, ...] | UnsetType = UNSET
    error: str | UnsetType = UNSET


class Counts(msgspec.Struct):
    """Expectations: how many were met, were not, and could not be answered."""

    expectations: int = 0
    met: int = 0
    unmet: int = 0
    errors: int = 0

    def add(self, other: "Counts") -> None:
        """Add another's to one's own."""
        self.expectations += other.expectations
        self.met += other.met
        self.unmet += other.unmet
        self.errors += other.errors


class ScenarioDocument(msgspec.Struct, frozen=True):
    """A whole scenario. ``problems`` are what cut it short."""

    scenario: str
    file: str
    counts: Counts
    checks: tuple[CheckDocument, ...]
    problems: tuple[str, ...] | UnsetType = UNSET


def counts_of(result: Result) -> Counts:
    """The counts of one scenario; what cut it short counts as an error."""
    checks = result.checks
    met = sum(check.met for check in checks)
    errors = sum(check.problem is not None for check in checks)
    unmet = len(checks) - met - errors
    return Counts(len(checks), met, unmet, errors + len(result.problems))


def scenario_document(result: Result) -> ScenarioDocument:
    """The document of one scenario."""
    return ScenarioDocument(
        scenario=result.scenario.name,
        file=str(result.scenario.origin),
        counts=counts_of(result),
        checks=tuple(
            check_document(result, step, check) for step in result.steps for check in step.checks
        ),
        problems=tuple(map(str, result.problems)) or UNSET,
    )


def check_document(result: Result, step: StepResult, check: Check) -> CheckDocument:
    """The document of one expectation."""
    each, outcome = check.expectation, check.outcome
    attempt = None if outcome is None else outcome.trial.attempt
    ruling = None if attempt is None else attempt.decision.decided_by
    return CheckDocument(
        scenario=result.scenario.name,
        file=str(result.scenario.origin),
        step=step.step.name,
        name=each.name or UNSET,
        at=step.at,
        source=each.source.text,
        connect=UNSET if each.lookup else each.target.text,
        lookup=each.target.text if each.lookup else UNSET,
        via=each.via.text if each.via else UNSET,
        protocol=protocol_name(each.protocol),
        port=None if each.protocol == Proto.ICMP else each.port,
        expected=each.verdict.value,
        verdict=None if outcome is None else outcome.verdict.value,
        met=check.met,
        decided_by=None if ruling is None else decider(ruling),
        ip=UNSET if attempt is None else format_address(attempt.packet.dst),
        pod=(attempt.pod if attempt else "") or UNSET,
        reason=UNSET if outcome is None else outcome_text(each, outcome),
        lookups=_lookups(check) or UNSET,
        faults=check.faults or UNSET,
        why=check.why or UNSET,
        error=UNSET if check.problem is None else str(check.problem),
    )


def _lookups(check: Check) -> tuple[LookupDocument, ...]:
    documents = []
    for lookup in check.outcome.lookups if check.outcome else ():
        attempt = lookup.trial.attempt
        ruling = None if attempt is None else attempt.decision.decided_by
        documents.append(
            LookupDocument(
                lookup.resolver,
                lookup.trial.verdict.value,
                None if ruling is None else decider(ruling),
                lookup.trial.reason or UNSET,
            )
        )
    return tuple(documents)


def title(expectation: Expectation) -> str:
    """The expectation in one line; its name comes first if it has one."""
    text = f"{expectation.source.text} -> {expectation.destination}: {expectation.verdict.value}"
    return f"{expectation.name} ({text})" if expectation.name else text
