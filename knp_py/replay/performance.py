"""A scenario acted out on a stage: its changes made there, its expectations checked.

The stage is the engine alone (``replay.rehearsal``) or a real machine; which resolver a pod
asks, what a scenario's step changes and when an expectation is met is the same on both.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from knp_py.engine.snapshot import Snapshot
from knp_py.engine.state import ClusterState
from knp_py.errors import ScenarioError
from knp_py.manifests.document import Document
from knp_py.manifests.problems import Problem, plain
from knp_py.model.changes import Change
from knp_py.model.decision import Ruling, Verdict
from knp_py.replay.directory import Directory, UnanswerableError
from knp_py.replay.scenario import Expectation, Removal, Scenario, Step
from knp_py.replay.shell import Network, Outcome, Shell
from knp_py.replay.timeline import Timeline
from knp_py.replay.wording import decider_text, outcome_text

Documents = Mapping[str, Sequence[Document]]
"""What each path that a scenario names holds."""


class Check(msgspec.Struct, frozen=True):
    """One expectation and what came of it.

    ``faults`` say why it is not met and ``why`` which policies were considered; both empty
    when it is met. ``problem`` is set, and ``outcome`` None, when it could not be told.
    """

    expectation: Expectation
    outcome: Outcome | None = None
    faults: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    problem: Problem | None = None

    @property
    def met(self) -> bool:
        """Whether all is as expected."""
        return self.outcome is not None and not self.faults


class StepResult(msgspec.Struct, frozen=True):
    """One step; ``at`` is scenario time in seconds when its expectations were checked."""

    step: Step
    at: float
    checks: tuple[Check, ...]


class Result(msgspec.Struct, frozen=True):
    """A whole scenario. ``problems`` cut it short; those of a check stand there, not here."""

    scenario: Scenario
    steps: tuple[StepResult, ...]
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def checks(self) -> list[Check]:
        """Every expectation that was come to."""
        return [check for step in self.steps for check in step.checks]


class Stage(Protocol):
    """Where a scenario is acted out."""

    @property
    def network(self) -> Network:
        """What comes of what pods send."""
        ...

    def complete(self, document: Document) -> Document:
        """The object with what it leaves to whoever runs the cluster."""
        ...

    def change(self, changes: Sequence[Change], timeline: Timeline, snapshot: Snapshot) -> None:
        """Have these changes made; ``timeline`` holds the documents now in force.

        Raises ``ScenarioError`` for what cannot be had here.
        """
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        ...

    def why(self, outcome: Outcome) -> Iterable[str]:
        """What a person should read of an outcome that was not expected, line by line."""
        ...


class Performance:
    """One scenario on one stage, once. ``documents`` holds every path of ``scenario.paths()``.

    ``told`` is called with every check when it has been made.
    """

    def __init__(
        self,
        scenario: Scenario,
        documents: Documents,
        stage: Stage,
        directory: Directory,
        *,
        told: Callable[[Step, Check], object] | None = None,
    ) -> None:
        self._scenario = scenario
        self._documents = documents
        self._stage = stage
        self._state = ClusterState()
        self._timeline = Timeline(stage.complete)
        self._shell = Shell(stage.network, directory)
        self._told = told
        self._now = 0.0
        self._problems: list[Problem] = []
        self._warnings: dict[str, None] = {}

    def run(self, beside: Sequence[Document] = ()) -> Result:
        """Act it out; ``beside`` are documents there from the beginning that it does not name."""
        self._timeline.begin([*beside, *self._all(self._scenario.manifests)])
        results: list[StepResult] = []
        self._refresh("manifests")
        for step in self._scenario.steps:
            if not self._problems:
                self._change(step)
            if self._problems:
                break
            if step.wait:
                self._stage.wait(step.wait)
                self._now += step.wait
            results.append(StepResult(step, self._now, tuple(self._checks(step))))
        return Result(self._scenario, tuple(results), tuple(self._problems), tuple(self._warnings))

    def _checks(self, step: Step) -> Iterable[Check]:
        for expectation in step.expect:
            check = self._check(step, expectation)
            if self._told is not None:
                self._told(step, check)
            yield check

    # -- changes -----------------------------------------------------------------------

    def _change(self, step: Step) -> None:
        self._timeline.apply(self._all(step.apply))
        for index, item in enumerate(step.delete):
            if isinstance(item, Removal):
                missing = [] if self._timeline.remove(item) else [item.text]
            else:
                missing = list(self._timeline.delete(self._documents[item]))
            for label in missing:
                self._problem(step, f"{step.path}.delete[{index}]", f"{plain(label)} is not there")
        if step.apply or step.delete:
            self._refresh(step.path, step)

    def _all(self, items: Sequence[str | Document]) -> list[Document]:
        found: list[Document] = []
        for item in items:
            found += self._documents[item] if isinstance(item, str) else (item,)
        return found

    def _refresh(self, path: str, step: Step | None = None) -> None:
        changes, problems, warnings = self._timeline.changes()
        self._problems += problems
        self._warnings.update(dict.fromkeys(map(str, warnings)))
        if problems:
            return
        self._state.apply_all(changes)
        snapshot = self._state.snapshot()
        self._warnings.update(dict.fromkeys(snapshot.warnings))
        try:
            self._stage.change(changes, self._timeline, snapshot)
        except ScenarioError as error:
            self._problem(step, path, str(error))
        self._shell.load(snapshot)

    # -- expectations ------------------------------------------------------------------

    def _check(self, step: Step, expectation: Expectation) -> Check:
        each = expectation
        try:
            if each.lookup:
                outcome = self._shell.lookup(each.source, each.target.name, each.via)
            else:
                outcome = self._shell.connect(each.source, each.target, each.protocol, each.port)
        except UnanswerableError as error:
            field = error.field if error.field != "connect" or not each.lookup else "lookup"
            problem = Problem(
                self._scenario.origin,
                f'step "{plain(step.name)}"',
                f"{each.path}.{field}",
                str(error),
            )
            return Check(each, problem=problem)
        faults = (*_faults(each, outcome), *outcome.faults)
        return Check(each, outcome, faults, self._why(outcome) if faults else ())

    def _why(self, outcome: Outcome) -> tuple[str, ...]:
        lines = [
            f"the answer of {lookup.resolver} opens nothing: {lookup.untaught}"
            for lookup in outcome.lookups
            if lookup.untaught and outcome.stage == "connect"
        ]
        return (*lines, *self._stage.why(outcome))

    def _problem(self, step: Step | None, path: str, message: str) -> None:
        label = "" if step is None else f'step "{plain(step.name)}"'
        self._problems.append(Problem(self._scenario.origin, label, path, message))


def _faults(expectation: Expectation, outcome: Outcome) -> list[str]:
    if outcome.verdict is not expectation.verdict:
        words = f"expected {expectation.verdict.value}, got {outcome.verdict.value}"
        return [f"{words}: {outcome_text(expectation, outcome)}"]
    tier = "" if expectation.tier is None else expectation.tier.text
    wanted = " ".join(filter(None, (tier, expectation.policy)))
    if wanted and not any(_is_wanted(expectation, ruling) for ruling in _rulings(outcome)):
        words = f"{outcome.verdict.value} as expected, but decided by another than {wanted}"
        return [f"{words}: {decider_text(outcome)}"]
    return []


def _rulings(outcome: Outcome) -> list[Ruling]:
    """Who decided: of a denied connection the one that denied, of an allowed one either end."""
    attempt = outcome.trial.attempt
    if attempt is None:
        return []
    decision = attempt.decision
    if outcome.verdict is Verdict.ALLOW:
        both = (decision.egress, decision.ingress)
    else:
        both = (decision.decided_by, None)
    return [ruling for ruling in both if ruling is not None]


def _is_wanted(expectation: Expectation, ruling: Ruling) -> bool:
    if expectation.tier is not None and ruling.tier is not expectation.tier:
        return False
    policy = expectation.policy
    return not policy or ruling.policy == policy or policy in ruling.isolated_by
