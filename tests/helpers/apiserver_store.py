"""What the API server of the tests knows: objects, their history, and who watches.

One counter gives every change its resourceVersion, as etcd's revision does. A collection keeps
its last changes, so that a watch can begin in the past and a list can go on with what was there
when its first page was made; what is older has been compacted.
"""

import itertools
import os
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from helpers.apiserver_select import Matches
from helpers.apiserver_types import Doc, Resource, not_found, too_old

Key = tuple[str, str]  # namespace ("" for what has none) and name

encode = msgspec.json.encode


def decode(raw: bytes) -> Doc:
    """An object from its JSON."""
    found: Doc = msgspec.json.decode(raw)
    return found


@dataclass(slots=True, frozen=True)
class Stored:
    """An object as it is sent. ``body``: all of its JSON after its kind and version."""

    resource: Resource
    namespace: str
    name: str
    version: int
    labels: Mapping[str, str]
    body: bytes
    node: str = ""
    phase: str = ""
    address: str = ""

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    @property
    def order(self) -> str:
        """Lists are in the order of etcd's keys."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def fields(self) -> Mapping[str, str]:
        return {
            "metadata.name": self.name,
            "metadata.namespace": self.namespace,
            "spec.nodeName": self.node,
            "status.phase": self.phase,
            "status.podIP": self.address,
        }

    @property
    def whole(self) -> bytes:
        """As it is alone, and in an event."""
        kind, version = self.resource.kind, self.resource.api_version
        if self.resource.custom:
            return f'{{"apiVersion":"{version}","kind":"{kind}",'.encode() + self.body
        return f'{{"kind":"{kind}","apiVersion":"{version}",'.encode() + self.body

    @property
    def item(self) -> bytes:
        """As it is in a list: built-in types leave out there what the list says."""
        return self.whole if self.resource.custom else b"{" + self.body

    def doc(self) -> Doc:
        """A copy to change."""
        return decode(self.whole)

    def at(self, version: int) -> "Stored":
        """As it is said to have been last when it goes."""
        doc = self.doc()
        doc["metadata"]["resourceVersion"] = str(version)
        return stored(self.resource, doc, version)


def stored(resource: Resource, doc: Mapping[str, Any], version: int) -> Stored:
    """A complete object to keep; its metadata says everything already."""
    metadata = doc["metadata"]
    rest = {k: v for k, v in doc.items() if k not in {"apiVersion", "kind", "metadata"}}
    status = doc.get("status") or {}
    return Stored(
        resource,
        metadata.get("namespace", ""),
        metadata["name"],
        version,
        metadata.get("labels") or {},
        encode({"metadata": metadata} | rest)[1:],
        (doc.get("spec") or {}).get("nodeName", ""),
        status.get("phase", ""),
        status.get("podIP", ""),
    )


def line(kind: str, raw: bytes) -> bytes:
    """One event of a watch."""
    return b'{"type":"' + kind.encode() + b'","object":' + raw + b"}\n"


class Change(NamedTuple):
    """What happened to one object. ``last``: of what was deleted, as its event says it."""

    version: int
    before: Stored | None
    after: Stored | None
    last: Stored | None

    def event(self, matches: Matches | None) -> tuple[str, Stored] | None:
        """Its type and object to who watches only what ``matches``."""
        was = self.before is not None and (matches is None or matches(self.before))
        if self.after is not None and (matches is None or matches(self.after)):
            return ("MODIFIED" if was else "ADDED"), self.after
        if not was or self.before is None:
            return None
        return "DELETED", self.last or self.before.at(self.version)


class Watch:
    """An open watch: lines to be written; ``ended`` says why it is to be closed.

    ``wake`` is a descriptor that is readable when there is something to look at. All else is
    under the store's lock.
    """

    def __init__(self, resource: Resource, namespace: str, matches: Matches | None) -> None:
        self.resource = resource
        self.namespace = namespace
        self.matches = matches
        self.after = 0  # what is not newer is not sent
        self.bookmarks = False
        self.lines: deque[bytes] = deque()
        self.ended = ""
        self.wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def __repr__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"Watch({self.resource.plural}{where} after {self.after})"

    def send(self, change: Change, times: int = 1) -> None:
        """Tell it, if it wants to hear of this."""
        about = change.after or change.before
        if change.version <= self.after or (
            self.namespace and about and about.namespace != self.namespace
        ):
            return
        if found := change.event(self.matches):
            self.say(line(found[0], found[1].whole) * times)

    def say(self, text: bytes) -> None:
        """Tell it something else."""
        self.lines.append(text)
        self.look()

    def end(self, why: str) -> None:
        """Have it closed: ``close`` as the server does, ``cut`` inside a line, ``drop``."""
        self.ended = self.ended or why
        self.look()

    def look(self) -> None:
        """Have its connection look at it."""
        if self.wake >= 0:
            os.eventfd_write(self.wake, 1)

    def close(self) -> None:
        """Its connection is done with it."""
        if self.wake >= 0:
            os.close(self.wake)
            self.wake = -1


@dataclass
class Collection:
    """The objects of one resource."""

    objects: dict[Key, Stored] = field(default_factory=dict)
    changes: deque[Change] = field(default_factory=deque)
    compacted: int = 0  # watches from before this are too old
    watches: list[Watch] = field(default_factory=list)


class Store:
    """All collections. ``history``: how many changes each remembers."""

    def __init__(self, history: int = 5000) -> None:
        self.lock = threading.RLock()
        self.revision = 1000
        self.history = history
        self.duplicates = 0  # events still to be sent twice
        self.collections: dict[Resource, Collection] = {}
        self._uids = itertools.count(1)
        self._lists: dict[tuple[Resource, int], list[Stored]] = {}  # by version, the last few

    def collection(self, resource: Resource) -> Collection:
        """Created when first asked for: then nothing has happened to it yet."""
        return self.collections.setdefault(resource, Collection(compacted=self.revision))

    def uid(self) -> str:
        """The next one: they look random and are not."""
        number = next(self._uids) * 0x9E3779B97F4A7C15 & (1 << 64) - 1
        return f"{number >> 32:08x}-{number >> 16 & 0xFFFF:04x}-4000-8000-{number & 0xFFFF:012x}"

    def get(self, resource: Resource, key: Key) -> Stored:
        """The object; NotFound when it is not there."""
        found = self.collection(resource).objects.get(key)
        if found is None:
            raise not_found(resource, key[1])
        return found

    def put(self, resource: Resource, doc: Doc) -> Stored:
        """Create or replace; the object with the version it got.

        What would change nothing does not: nobody hears of it, as with the real one.
        """
        with self.lock:
            collection = self.collection(resource)
            metadata = doc["metadata"]
            key = metadata.get("namespace", ""), metadata["name"]
            before = collection.objects.get(key)
            if before is not None:
                metadata["resourceVersion"] = str(before.version)
                same = stored(resource, doc, before.version)
                if same.body == before.body:
                    return before
            metadata["resourceVersion"] = str(self.revision + 1)
            return self.keep(stored(resource, doc, self.revision + 1))

    def keep(self, after: Stored) -> Stored:
        """Take an object that has the next version already."""
        with self.lock:
            collection = self.collection(after.resource)
            self.revision = after.version
            before = collection.objects.get(after.key)
            collection.objects[after.key] = after
            self._publish(collection, Change(self.revision, before, after, None))
            return after

    def remove(self, resource: Resource, key: Key) -> Stored:
        """Delete; the object as its DELETED event says it."""
        with self.lock:
            before = self.get(resource, key)
            self.revision += 1
            collection = self.collection(resource)
            del collection.objects[key]
            last = before.at(self.revision)
            self._publish(collection, Change(self.revision, before, None, last))
            return last

    def _publish(self, collection: Collection, change: Change) -> None:
        collection.changes.append(change)
        while len(collection.changes) > self.history:
            collection.compacted = collection.changes.popleft().version
        twice = self.duplicates > 0
        self.duplicates -= twice
        for watch in collection.watches:
            watch.send(change, 2 if twice else 1)

    def sorted_at(self, resource: Resource, version: int | None = None) -> list[Stored] | None:
        """All objects as they were at ``version`` (now), in order; None: it was compacted."""
        with self.lock:
            collection = self.collection(resource)
            if version is not None and version < collection.compacted:
                return None
            newest = collection.changes[-1].version if collection.changes else collection.compacted
            version = newest if version is None else min(version, newest)
            found = self._lists.get((resource, version))
            if found is None:
                objects = dict(collection.objects)
                for change in reversed(collection.changes):
                    if change.version <= version:
                        break
                    if change.before is not None:
                        objects[change.before.key] = change.before
                    elif change.after is not None:
                        del objects[change.after.key]
                found = sorted(objects.values(), key=lambda item: item.order)
                self._lists[resource, version] = found
                while len(self._lists) > 8:
                    del self._lists[next(iter(self._lists))]
            return found

    def watch(
        self,
        resource: Resource,
        namespace: str,
        matches: Matches | None,
        version: int | None,
        *,
        bookmarks: bool = False,
        initial: bool = False,
    ) -> Watch:
        """Watch from ``version``; None: from now, after ADDED events of all there is.

        ``initial``: the end of those is marked by a BOOKMARK. Too old: ApiError 410.
        """
        with self.lock:
            collection = self.collection(resource)
            watch = Watch(resource, namespace, matches)
            watch.bookmarks = bookmarks
            if version is None or initial:
                watch.after = self.revision
                for item in self.sorted_at(resource) or ():
                    if (not namespace or item.namespace == namespace) and (
                        matches is None or matches(item)
                    ):
                        watch.lines.append(line("ADDED", item.whole))
                if initial:
                    watch.lines.append(self.bookmark(resource, initial=True))
            elif version < collection.compacted:
                raise too_old(version, collection.compacted)
            else:
                watch.after = version
                changes = list(collection.changes)
                start = bisect_right(changes, version, key=lambda change: change.version)
                for change in changes[start:]:
                    watch.send(change)
            collection.watches.append(watch)
            watch.look()
            return watch

    def bookmark(
        self, resource: Resource, version: int | None = None, *, initial: bool = False
    ) -> bytes:
        """The line of a BOOKMARK; without a version one that says what is current."""
        number = self.revision if version is None else version
        marks = '"creationTimestamp":null' if not resource.custom else ""
        if initial:
            marks += ',"annotations":{"k8s.io/initial-events-end":"true"}'
        metadata = ",".join(filter(None, (f'"resourceVersion":"{number}"', marks.strip(","))))
        rest = f",{resource.empty}" if resource.empty else ""
        kind = f'"kind":"{resource.kind}","apiVersion":"{resource.api_version}"'
        return line("BOOKMARK", f'{{{kind},"metadata":{{{metadata}}}{rest}}}'.encode())

    def compact(self) -> None:
        """Forget what happened so far; watches that are open are not troubled."""
        for resource in list(self.collections):
            self.compact_one(resource)

    def compact_one(self, resource: Resource) -> None:
        """The same, for one resource."""
        with self.lock:
            collection = self.collection(resource)
            collection.changes.clear()
            collection.compacted = self.revision
            self._lists.clear()

    def open_watches(self, resources: Iterable[Resource] = ()) -> list[Watch]:
        """Those of these resources (all)."""
        wanted = set(resources)
        with self.lock:
            return [
                watch
                for resource, collection in self.collections.items()
                for watch in collection.watches
                if not wanted or resource in wanted
            ]

    def left(self, watch: Watch) -> None:
        """A watch's connection is done."""
        with self.lock:
            watch.close()
            watches = self.collection(watch.resource).watches
            if watch in watches:
                watches.remove(watch)

    def saved(self) -> tuple[int, dict[Resource, dict[Key, Stored]]]:
        """A backup, as of etcd: for ``restore``."""
        with self.lock:
            return self.revision, {
                resource: dict(collection.objects)
                for resource, collection in self.collections.items()
            }

    def restore(self, backup: tuple[int, dict[Resource, dict[Key, Stored]]]) -> None:
        """Everything is as it was then, the counter too: versions will be given again."""
        with self.lock:
            self.revision, kept = backup
            for resource, collection in self.collections.items():
                collection.objects = dict(kept.get(resource, {}))
            self.compact()
