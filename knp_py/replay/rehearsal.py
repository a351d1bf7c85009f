"""A scenario acted out in theory: no pods, no packets, the engine's word for everything.

One engine and one cache of names live through all steps, so what a pod learned in one step
is still known in the next until its time is over.
"""

from collections.abc import Iterable, Sequence

import msgspec

from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.explain import Explanation, explain
from knp_py.engine.names import DomainCache, Scope
from knp_py.engine.resolvers import Trust
from knp_py.engine.snapshot import Snapshot
from knp_py.engine.snoop import DnsSnooper
from knp_py.manifests.document import Document
from knp_py.model.changes import Change, Verb
from knp_py.model.objects import Pod
from knp_py.replay.directory import Directory
from knp_py.replay.judged import JudgedNetwork
from knp_py.replay.performance import Documents, Performance, Result
from knp_py.replay.scenario import Scenario
from knp_py.replay.shell import Outcome
from knp_py.replay.timeline import Timeline
from knp_py.replay.wording import considered


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
    directory = Directory(scenario.resolve, scenario.node_resolvers)
    stage = Theory(scenario, directory, trust, scope)
    return Performance(scenario, documents, stage, directory).run(beside)


class Theory:
    """The stage that needs nothing but memory; time passes there at once."""

    def __init__(
        self, scenario: Scenario, directory: Directory, trust: Trust, scope: Scope
    ) -> None:
        self._names = DomainCache(scope=scenario.scope or scope)
        trust = msgspec.structs.replace(
            scenario.trust or trust, node_resolvers=frozenset(scenario.node_resolvers)
        )
        self._engine = PolicyEngine(self._names)
        self.network = JudgedNetwork(self._engine, DnsSnooper(self._names, trust=trust), directory)

    def complete(self, document: Document) -> Document:
        """The object as it is: nothing here needs more."""
        return document

    def change(
        self,
        changes: Sequence[Change],
        timeline: Timeline,  # noqa: ARG002  objects are all that matters here
        snapshot: Snapshot,
    ) -> None:
        """Judge by these objects from now on."""
        for change in changes:
            if change.verb is Verb.DELETED and isinstance(change.obj, Pod):
                # Manifests rarely have UIDs: a pod that returns under its name is another one.
                self._names.forget(change.obj.uid)
        self.network.load(snapshot)

    def wait(self, seconds: float) -> None:
        """Let what was learned grow older."""
        self.network.now += seconds

    def why(self, outcome: Outcome) -> Iterable[str]:
        """Every policy that was considered."""
        explanation = self.explain(outcome)
        return () if explanation is None else considered(explanation)

    def explain(self, outcome: Outcome) -> Explanation | None:
        """How the engine judges the packet that decided; None when no packet did."""
        attempt = outcome.trial.attempt
        if attempt is None:
            return None
        return explain(self._engine, attempt.packet, now=self.network.now)
