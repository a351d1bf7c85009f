"""Candidate policies that are judged by beside those in force (``--shadow-manifests``)."""

from collections.abc import Callable, Iterable

from knp_py.agent.shadow import Shadow
from knp_py.agent.source import Batch
from knp_py.cli.nodecrew import Crew
from knp_py.cli.nodemanifests import Followed
from knp_py.cli.nodeparts import Settings
from knp_py.engine.state import ClusterState
from knp_py.model.changes import Change
from knp_py.model.policy import ClusterNetworkPolicy, NetworkPolicy


class Candidates:
    """Follows them. With ``--manifests`` they come with pods of their own.

    With an API server the cluster has the pods, and of the candidates only policies count.
    Raises ``ManifestError``.
    """

    def __init__(self, settings: Settings) -> None:
        self.state = ClusterState()
        self.post: Callable[[Callable[[], object]], object] | None = None
        self._mixed = not settings.manifests
        self._followed = Followed(settings.shadow, "shadow: ", "--shadow-manifests")
        self._first = self._followed.scan()

    def fileno(self) -> int:
        """Readable when they may have changed."""
        return self._followed.fileno()

    def begin(self, shadow: Shadow | None, crew: Crew) -> None:
        """Judge by them from now on; workers begin with what is known then."""
        self._shadow, self._crew = shadow, crew
        self.state.apply_all(self._chosen(self._first.changes, ours=True))
        self._load()

    def look(self) -> None:
        """Take in what has changed."""
        batch = self._followed.look()
        if batch is not None:
            self._take(self._chosen(batch.changes, ours=True))

    def follow(self, batch: Batch) -> None:
        """What has changed in the cluster: whom the candidates are about."""
        if self._mixed:
            self._take(self._chosen(batch.changes, ours=False))

    def _chosen(self, changes: Iterable[Change], *, ours: bool) -> list[Change]:
        """Policies where they are the candidates', everything else where it is the cluster's."""
        if not self._mixed:
            return list(changes)
        return [
            change
            for change in changes
            if isinstance(change.obj, ClusterNetworkPolicy | NetworkPolicy) is ours
        ]

    def _take(self, changes: list[Change]) -> None:
        if changes:
            self.state.apply_all(changes)
            self._load()
            self._crew.candidates(changes)

    def _load(self) -> None:
        shadow, snapshot = self._shadow, self.state.snapshot()
        if shadow is None:
            return
        if self.post is None:
            shadow.load(snapshot)  # nobody judges yet
        else:
            self.post(lambda: shadow.load(snapshot))
