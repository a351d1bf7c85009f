"""A cluster that is followed in the background, held against what a fresh list would give."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Self

import msgspec
from helpers.apiserver_types import ApiError

from knp_py.adapters.kube.access import Access
from knp_py.adapters.kube.client import Client
from knp_py.adapters.kube.resources import WATCHED
from knp_py.cli.nodeapi import Cluster
from knp_py.manifests.single import SingleReader
from knp_py.model.changes import Change, ClusterObject, Key, Verb
from knp_py.model.policy import ClusterNetworkPolicy


class Server(Protocol):
    """An API server of a test, the fake one or a real one."""

    def state(self, kind: str) -> dict[Any, dict[str, Any]]:
        """Every object of a kind that it has."""
        ...


def key_of(obj: ClusterObject) -> Key:
    """Kind, namespace, name."""
    kind = obj.kind if isinstance(obj, ClusterNetworkPolicy) else type(obj).__name__
    return kind, getattr(obj, "namespace", ""), obj.name


def fresh(api: Server) -> dict[Key, ClusterObject]:
    """What the server has now, read as if it were listed for the first time."""
    found: dict[Key, ClusterObject] = {}
    for resource in WATCHED:
        reader = SingleReader(resource.api_version, resource.kind, "cluster")
        try:
            documents = api.state(resource.kind)
        except ApiError as error:
            if error.code == 404 and resource.optional:
                continue
            raise
        for document in documents.values():
            single = reader.read(msgspec.json.encode(document))
            wanted = (resource.namespace or single.key[1], resource.name or single.key[2])
            if single.found is not None and wanted == single.key[1:]:
                found[single.key] = single.found
    return found


class Following:
    """What an agent's main thread does with a cluster: takes changes, keeps what they lead to."""

    def __init__(self, enter: Callable[[], Access], node: str | None = None) -> None:
        self.cluster = Cluster(Client(enter), node, None)
        self.world: dict[Key, ClusterObject] = {}
        self.batches: list[list[Change]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(10)
        self.cluster.close()

    def _run(self) -> None:
        batch = self.cluster.begin(lambda s: self._over.wait(s / 5), early=False)
        if batch is not None:
            self._take(batch.changes)
        while not self._over.wait(0.005):
            found = self.cluster.look()
            if found is not None:
                self._take(found.changes)

    def _take(self, changes: list[Change]) -> None:
        if changes:
            self.batches.append(changes)
        for verb, obj in changes:
            key = key_of(obj)
            if verb is Verb.DELETED:
                assert self.world.pop(key) == obj
            else:
                self.world[key] = obj

    @property
    def synced(self) -> bool:
        """Whether everything was listed once."""
        return not self.cluster.waits_for()

    def changed(self) -> int:
        """How many changes there were so far."""
        return sum(map(len, self.batches))

    def resource(self, plural: str) -> Any:
        """How following it goes."""
        details: Any = self.cluster.details()
        return details["resources"][plural]

    def agrees(self, api: Server, *, seconds: float = 60.0) -> None:
        """Wait until it has what a fresh list would give."""
        begun = time.monotonic()
        while True:
            looked = time.monotonic()
            if self.synced and self.world == fresh(api):
                return
            assert looked - begun < seconds, f"not within {seconds:g} s: it has what is there"
            time.sleep(max(0.01, time.monotonic() - looked))  # a look at much takes long

    def stays(self, seconds: float = 0.3) -> None:
        """Nothing changes for a while."""
        before = self.changed()
        time.sleep(seconds)
        assert self.changed() == before


@contextmanager
def followed(enter: Callable[[], Access], node: str | None = None) -> Iterator[Following]:
    """For one test."""
    with Following(enter, node) as following:
        yield following
