"""The stage that is a machine: changes are made there, and pods connect for real.

The engine comes along (``foresight``), for what two witnesses of a connection do not tell:
the other end's ruling of an allowed one, and how a ruling came about.
"""

import time
from collections.abc import Callable, Iterable, Sequence

import msgspec

from knp_py.engine.names import Scope
from knp_py.engine.resolvers import Trust
from knp_py.engine.snapshot import Snapshot
from knp_py.errors import ScenarioError
from knp_py.lab.clusterips import ClusterIps
from knp_py.lab.laboratory import VERDICTS, Laboratory
from knp_py.lab.livenetwork import LiveNetwork
from knp_py.lab.nameserver import names_of
from knp_py.lab.namespaces import space_of
from knp_py.lab.resolvconf import resolv_confs
from knp_py.lab.verdictfeed import VerdictFeed
from knp_py.manifests.document import Document
from knp_py.model.changes import Change
from knp_py.replay.directory import Directory
from knp_py.replay.performance import Check, Documents, Performance, Result
from knp_py.replay.rehearsal import Theory
from knp_py.replay.scenario import Scenario, Step
from knp_py.replay.shell import Outcome
from knp_py.replay.timeline import Timeline
from knp_py.replay.wording import considered

_WORTH_MOVING = 2.0  # seconds; less is waited for


def perform(
    lab: Laboratory,
    scenario: Scenario,
    documents: Documents,
    *,
    trust: Trust,
    scope: Scope,
    beside: Sequence[Document] = (),
    real_time: bool = False,
    told: Callable[[Step, Check], object] | None = None,
) -> tuple[Result, float]:
    """Act a scenario out in a lab that is built, with a fresh agent.

    Arguments are those of ``replay.rehearsal.rehearse``. The second result is how many
    seconds of scenario time were not waited for; with ``real_time`` all are. Raises
    ``LabError`` and ``NotPermittedError``.
    """
    lab.stop_agent()
    lab.remember_source(scenario.origin.source)
    if lab.state.agent is None:
        scenario = _without_deciders(scenario)
    directory = Directory(scenario.resolve, scenario.node_resolvers)
    stage = LiveStage(lab, scenario, directory, trust=trust, scope=scope, real_time=real_time)
    try:
        result = Performance(scenario, documents, stage, directory, told=told).run(beside)
        if lab.enforcer is not None:
            lab.enforcer.check()
    finally:
        stage.close()
    return result, stage.moved


class LiveStage:
    """One scenario's stage in a lab that is built and has no agent running yet.

    ``moved`` is how many seconds the agent's clock was put forward instead of waiting;
    ``real_time`` has everything waited for.
    """

    def __init__(
        self,
        lab: Laboratory,
        scenario: Scenario,
        directory: Directory,
        *,
        trust: Trust,
        scope: Scope,
        real_time: bool = False,
    ) -> None:
        self.moved = 0.0
        self._lab = lab
        self._scenario = scenario
        self._directory = directory
        self._real_time = real_time
        self._foresight = Theory(scenario, directory, trust, scope)
        self._options = _options(scenario.trust or trust, scenario.scope or scope)
        self._cluster_ips = ClusterIps()
        self._generation: int | None = None
        self._begun = False
        self.network = LiveNetwork(
            lambda place: space_of(lab.name, place), self._foresight.network, directory
        )

    def close(self) -> None:
        """Listen to the agent no more."""
        if self.network.feed is not None:
            self.network.feed.close()

    def complete(self, document: Document) -> Document:
        """A Service with an address."""
        return self._cluster_ips.complete(document)

    def change(self, changes: Sequence[Change], timeline: Timeline, snapshot: Snapshot) -> None:
        """Change pods, Services, names and files; back when the agent enforces it."""
        for kind, namespace, name in sorted(timeline.suppressed):
            raise ScenarioError(
                f"{kind} {namespace}/{name} cannot be deleted by itself in a lab: it follows from"
                " objects that are still applied"
            )
        self._foresight.change(changes, timeline, snapshot)
        self._directory.load(snapshot)
        self.network.load(snapshot)
        scenario, lab = self._scenario, self._lab
        names = names_of(scenario.resolve, self._directory, snapshot.cluster_resolvers)
        lab.change(
            snapshot, names, resolv_confs(snapshot, self._directory, scenario.node_resolvers)
        )
        written = lab.put(timeline.documents)
        if not self._begun:
            self._begun = True
            lab.start_agent(self._options)
            if lab.enforcer is not None:
                self.network.feed = VerdictFeed(lab.folder.file(VERDICTS))
                self._generation = lab.enforcer.status().get("generation")
        elif written is not None and lab.enforcer is not None:
            generation = lab.enforcer.wait_for(written)
            if generation != self._generation and self.network.feed is not None:
                self.network.feed.forget()
            self._generation = generation

    def wait(self, seconds: float) -> None:
        """Let time pass, or move the agent's clock; nothing else in a lab grows older."""
        self._foresight.wait(seconds)
        enforcer = self._lab.enforcer
        if self._real_time or seconds < _WORTH_MOVING:
            time.sleep(seconds)
        elif enforcer is not None:
            self.moved += seconds
            enforcer.set_clock(self.moved)

    def why(self, outcome: Outcome) -> Iterable[str]:
        """What the engine makes of it, by the same objects and the answers it knows of."""
        explanation = self._foresight.explain(outcome)
        if explanation is None:
            return
        if explanation.decision.verdict is not outcome.verdict:
            yield f"in theory (knp test): {explanation.decision.verdict.value}"
        yield from considered(explanation)


def _options(trust: Trust, scope: Scope) -> list[str]:
    """The agent's options that say the same."""
    said = ",".join(cidr.text for cidr in trust.cidrs) if trust.mode == "listed" else trust.mode
    return ["--trusted-resolvers", said, "--fqdn-scope", scope]


def _without_deciders(scenario: Scenario) -> Scenario:
    """The scenario without a word about who decides: nobody does."""
    replace = msgspec.structs.replace
    return replace(
        scenario,
        steps=tuple(
            replace(step, expect=tuple(replace(e, policy="", tier=None) for e in step.expect))
            for step in scenario.steps
        ),
    )
