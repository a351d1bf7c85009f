"""A scenario acted out: its changes applied to a cluster, its expectations checked.

One cluster state, one engine and one cache of names live through all steps, so what a pod
learned in one step is still known in the next until its time is over.
"""

from collections.abc import Mapping, Sequence

import msgspec

from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.explain import explain
from knp_py.engine.names import DomainCache, Scope
from knp_py.engine.resolvers import Trust
from knp_py.engine.snoop import DnsSnooper
from knp_py.engine.state import ClusterState
from knp_py.manifests.document import Document
from knp_py.manifests.problems import Problem, plain
from knp_py.model.changes import Change, Verb
from knp_py.model.decision import Ruling, Verdict
from knp_py.model.objects import Pod
from knp_py.replay.directory import Directory, UnanswerableError
from knp_py.replay.scenario import Expectation, Removal, Scenario, Step
from knp_py.replay.shell import Outcome, Shell
from knp_py.replay.timeline import Timeline
from knp_py.replay.wording import considered, decider_text, outcome_text

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


def rehearse(
    scenario: Scenario,
    documents: Documents,
    *,
    trust: Trust,
    scope: Scope,
    beside: Sequence[Document] = (),
) -> Result:
    """Act the scenario out. ``documents`` holds every path of ``scenario.paths()``.

    ``trust`` and ``scope`` count unless the scenario has its own; ``beside`` are documents
    that are there from the beginning besides those it names.
    """
    return _Rehearsal(scenario, documents, trust, scope).run(beside)


class _Rehearsal:
    def __init__(
        self, scenario: Scenario, documents: Documents, trust: Trust, scope: Scope
    ) -> None:
        self._scenario = scenario
        self._documents = documents
        self._state = ClusterState()
        self._timeline = Timeline()
        self._names = DomainCache(scope=scenario.scope or scope)
        trust = msgspec.structs.replace(
            scenario.trust or trust, node_resolvers=frozenset(scenario.node_resolvers)
        )
        self._engine = PolicyEngine(self._names)
        self._shell = Shell(
            self._engine,
            DnsSnooper(self._names, trust=trust),
            Directory(scenario.resolve, scenario.node_resolvers),
        )
        self._problems: list[Problem] = []
        self._warnings: dict[str, None] = {}

    def run(self, beside: Sequence[Document]) -> Result:
        self._timeline.begin([*beside, *self._all(self._scenario.manifests)])
        results: list[StepResult] = []
        self._refresh()
        for step in self._scenario.steps:
            if not self._problems:
                self._change(step)
            if self._problems:
                break
            self._shell.now += step.wait
            checks = tuple(self._check(step, each) for each in step.expect)
            results.append(StepResult(step, self._shell.now, checks))
        return Result(self._scenario, tuple(results), tuple(self._problems), tuple(self._warnings))

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
            self._refresh()

    def _all(self, items: Sequence[str | Document]) -> list[Document]:
        found: list[Document] = []
        for item in items:
            found += self._documents[item] if isinstance(item, str) else (item,)
        return found

    def _refresh(self) -> None:
        changes, problems, warnings = self._timeline.changes()
        self._problems += problems
        self._warnings.update(dict.fromkeys(map(str, warnings)))
        if problems:
            return
        for change in changes:
            self._apply(change)
        snapshot = self._state.snapshot()
        self._warnings.update(dict.fromkeys(snapshot.warnings))
        self._shell.load(snapshot)

    def _apply(self, change: Change) -> None:
        self._state.apply(change)
        if change.verb is Verb.DELETED and isinstance(change.obj, Pod):
            # Manifests rarely have UIDs: a pod that returns under its name is another one.
            self._names.forget(change.obj.uid)

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
        faults = tuple(_faults(each, outcome))
        return Check(each, outcome, faults, self._why(outcome) if faults else ())

    def _why(self, outcome: Outcome) -> tuple[str, ...]:
        lines = [
            f"the answer of {lookup.resolver} opens nothing: {lookup.untaught}"
            for lookup in outcome.lookups
            if lookup.untaught and outcome.stage == "connect"
        ]
        attempt = outcome.trial.attempt
        if attempt is not None:
            lines += considered(explain(self._engine, attempt.packet, now=self._shell.now))
        return tuple(lines)

    def _problem(self, step: Step, path: str, message: str) -> None:
        self._problems.append(
            Problem(self._scenario.origin, f'step "{plain(step.name)}"', path, message)
        )


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
