"""A cluster's API server as the source of an agent's objects."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from knp_py.adapters.inotify import Timer
from knp_py.adapters.kube.access import Access, by_kubeconfig, in_cluster
from knp_py.adapters.kube.client import Client
from knp_py.adapters.kube.follow import Follower, Progress
from knp_py.adapters.kube.resources import WATCHED
from knp_py.adapters.kube.troubles import Troubles
from knp_py.adapters.kube.writer import Writer
from knp_py.adapters.nodefile import NodeFile
from knp_py.agent.metrics import Metrics
from knp_py.agent.mirror import Mirror, Remark, lines_of, problems_of
from knp_py.agent.source import Batch
from knp_py.cli.nodeparts import Settings
from knp_py.cli.nodestatus import writer_of
from knp_py.cli.nodewords import Announcer, say
from knp_py.manifests.single import SingleReader
from knp_py.model.changes import Change, ClusterObject, Verb
from knp_py.model.objects import Node, Pod
from knp_py.model.policy import NetworkPolicy

_TOGETHER = 0.025  # seconds of events that are put in force at once
# The same for pods of other nodes: each change costs a transaction and all that is remembered,
# and in a large cluster some pod changes all the time. Whoever routes to a pod learns of it later.
_ELSEWHERE = 0.2
_AFTER_DEAF = 1.0  # seconds in which what was missed of namespaces comes, once they are heard
_NEVER = float("inf")
_SAY_FIRST = 2.0  # seconds until it says whom it waits for
_SAY_AGAIN = 30.0  # and between two such lines
_RELEASE = 1.0  # seconds until another node is told that it may write
_NOTHING_HELD = (
    "; fail-closed, but NOTHING IS HELD meanwhile: which addresses this node's pods have is not"
    " known, neither by rules nor by the state directory of an agent before"
)
_STOP = 1.0  # seconds that the followers have to stop


class Cluster:
    """Follows every resource that decides; ``node`` is this node's name, None for no node.

    ``write`` makes who writes what there is to say of policies, from what is known of them by
    their kind and whether that is all there is. What is ``kept`` of the node serves a start at
    which the server does not answer.
    """

    def __init__(
        self,
        client: Client,
        node: str | None,
        kept: NodeFile | None,
        write: Callable[[Mapping[str, Mirror], Callable[[], bool]], Writer | None] | None = None,
    ) -> None:
        self._client = client
        self._node = node
        self._kept = kept
        self._timer = Timer()
        self._ringing = threading.Lock()
        self._announce = Announcer()
        self._due = _NEVER
        self._handed_over = False
        self._early: Node | None = None  # what was said before anything else could be
        self._mirrors = {
            each.kind: Mirror(
                SingleReader(each.api_version, each.kind, "cluster"),
                self._can_wait,
                history=each.kind != "Pod",  # of whose many only what is there counts
            )
            for each in WATCHED
        }
        troubles = Troubles(say)
        self._followers = [
            Follower(
                client,
                each,
                self._mirrors[each.kind],
                tell=self._ring,
                troubles=troubles,
                say=say,
            )
            for each in WATCHED
        ]
        self._namespaces = next(f for f in self._followers if f.resource.kind == "Namespace")
        self._deaf_until = 0.0
        self._held_back: dict[str, Change] = {}  # deletions of NetworkPolicies, by their keys
        self._writer = write and write(self._mirrors, lambda: not self.waits_for())

    def fileno(self) -> int:
        """Readable when something has changed."""
        return self._timer.fileno()

    def check(self) -> Batch:
        """Nothing yet: following begins threads."""
        return self._batch(())

    def begin(self, until: Callable[[float], bool], *, early: bool) -> Batch | None:
        """Everything there is, as soon as all of it was listed; waits as long as that takes."""
        for follower in self._followers:
            follower.start()
        if self._writer is not None:
            self._writer.start()
        said, patience = time.monotonic(), _SAY_FIRST
        while unlisted := self._unlisted():
            now = time.monotonic()
            own = self._early = (self._own_node() or self._kept_node()) if early else None
            if own is not None:
                where = ", ".join(own.pod_cidrs) or "no network"
                say(
                    f"fail-closed: new connections of pods in {where} drop until the API server"
                    " has said everything"
                )
                return self._batch([Change(Verb.APPLIED, own)])
            if now - said > patience:
                said, patience = now, _SAY_AGAIN
                nothing = _NOTHING_HELD if early else ""
                say(f"waiting for {self._client.server}: {unlisted} not listed yet{nothing}")
            if until(0.05):
                return None
        return self.scan()

    def look(self) -> Batch | None:
        """What has changed, if anything did."""
        return self.scan() if self._timer.expired() else None

    def scan(self) -> Batch:
        """What has changed; says what is newly wrong and what is well again."""
        with self._ringing:
            self._due = _NEVER
        if self._unlisted():
            # Half of the objects are another policy than all of them.
            return self._batch(())
        # Policies last: who they select is known by then.
        changes = [change for mirror in self._mirrors.values() for change in mirror.take()]
        changes = self._without_held_back(changes)
        own = self._own_node()
        if own is None and self._early is not None:
            changes.append(Change(Verb.DELETED, self._early))
        elif own is not None and self._kept is not None:
            self._kept.write(own)
        self._early = None
        batch = self._batch(changes)
        self._announce(batch)
        self._handed_over = True
        return batch

    def age(self) -> float:
        """Seconds since the server was last heard about what it was heard longest ago about."""
        return max((each.progress.age() for each in self._followers), default=0.0)

    def waits_for(self) -> str:
        """The resources that were not listed yet; empty once all of them were handed over."""
        return "" if self._handed_over else self._unlisted() or "nothing more, it is taken in"

    def _unlisted(self) -> str:
        return ", ".join(
            each.resource.plural for each in self._followers if not each.progress.synced
        )

    def watch(self, metrics: Metrics) -> None:
        """How following each resource goes, and what is written."""

        def shown(value: Callable[[Progress], float]) -> Callable[[], dict[str, float]]:
            return lambda: {f.resource.plural: value(f.progress) for f in self._followers}

        metrics.watch("knp_api_age_seconds", shown(Progress.age))
        metrics.watch("knp_api_events_total", shown(lambda progress: progress.events))
        metrics.watch("knp_api_lists_total", shown(lambda progress: progress.lists))
        metrics.watch("knp_api_failures_total", shown(lambda progress: progress.failures))
        writer = self._writer
        if writer is not None:
            metrics.watch("knp_status_writer", lambda: writer.elected)
            metrics.watch("knp_api_writes_total", lambda: dict(writer.counts))

    def details(self) -> dict[str, object]:
        """The server, each resource, and who writes the status of policies."""
        return {
            "server": self._client.server,
            "resources": {
                each.resource.plural: {
                    "synced": each.progress.synced,
                    "absent": each.progress.absent,
                    "age_seconds": round(each.progress.age(), 3),
                    "resource_version": each.progress.version,
                    "error": each.progress.error,
                }
                for each in self._followers
            },
            "status": None if self._writer is None else self._writer.overview(),
        }

    def remarks(self) -> list[Remark]:
        """What there is to say of objects."""
        return [remark for mirror in self._mirrors.values() for remark in mirror.remarks()]

    def close(self) -> None:
        """Follow no more."""
        if self._writer is not None:
            self._writer.stop(_RELEASE)
        for follower in self._followers:
            follower.stop()
        self._client.close()
        end = time.monotonic() + _STOP
        for follower in self._followers:
            follower.join(max(0.0, end - time.monotonic()))
        self._timer.close()

    def _ring(self) -> None:
        """By a follower's thread: something has changed. Waits for more to come with it."""
        urgent = any(mirror.urgent for mirror in self._mirrors.values())
        self._ring_in(_TOGETHER if urgent else _ELSEWHERE)

    def _ring_in(self, seconds: float) -> None:
        """If nothing rings before that."""
        due = time.monotonic() + seconds
        with self._ringing:
            if due < self._due:
                self._due = due
                self._timer.set(max(0.001, due - time.monotonic()))

    def _without_held_back(self, changes: list[Change]) -> list[Change]:
        """Deletions of NetworkPolicies wait for a moment at which namespaces are heard.

        Each kind has a watch of its own. A namespace that is terminating keeps its policies
        (semantics §1), and that it is must be known before they are seen to go. Held here and
        not where terminating namespaces are known, in ``ClusterState``: of those there is one in
        the agent, one in every worker and the candidates', and whoever judges would have to be
        told what is heard.
        """
        now = time.monotonic()
        namespaces = self._namespaces.progress
        if namespaces.error or not namespaces.version:  # without one it is being listed anew
            self._deaf_until = now + _AFTER_DEAF
        deaf = now < self._deaf_until
        passing: list[Change] = []
        for change in changes:
            obj = change.obj
            if isinstance(obj, NetworkPolicy):
                self._held_back.pop(obj.key, None)
                if deaf and change.verb is Verb.DELETED:
                    self._held_back[obj.key] = change
                    continue
            passing.append(change)
        if self._held_back and not deaf:
            passing += self._held_back.values()
            self._held_back.clear()
        elif self._held_back:
            self._ring_in(_ELSEWHERE)
        return passing

    def _can_wait(self, obj: ClusterObject) -> bool:
        return isinstance(obj, Pod) and self._node is not None and obj.node != self._node

    def _own_node(self) -> Node | None:
        found = self._mirrors["Node"].find(("Node", "", self._node or ""))
        return found if isinstance(found, Node) else None

    def _kept_node(self) -> Node | None:
        return None if self._kept is None else self._kept.read(self._node or "")

    def _batch(self, changes: Iterable[Change]) -> Batch:
        remarks = self.remarks()
        objects = Counter({kind: len(mirror) for kind, mirror in self._mirrors.items()})
        return Batch(
            list(changes),
            tuple(lines_of(remarks, problems_of)),
            tuple(lines_of(remarks, lambda remark: remark.warnings)),
            time.time_ns() - int(self.age() * 1e9),
            objects,
        )


def cluster_of(settings: Settings, table: str) -> Cluster:
    """The cluster that the command line leads to; raises ``InputError``."""
    enter: Callable[[], Access] = in_cluster
    if settings.kubeconfig:
        enter = partial(by_kubeconfig, settings.kubeconfig, settings.context, say)
    kept = NodeFile(settings.state_dir, f"{table}.node") if settings.state_dir else None
    client = Client(enter)
    return Cluster(client, settings.node, kept, partial(writer_of, settings, client))
