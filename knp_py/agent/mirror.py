"""One resource of an API server, as it was last told: changes out, nothing half-done.

An object that cannot be understood keeps its last good version, loudly (semantics §4). What
comes in any order, twice, or again after a gap ends where a fresh list would.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from knp_py.manifests.problems import Problem
from knp_py.manifests.single import Head, SingleReader, head_of
from knp_py.model.changes import Change, ClusterObject, Key, Verb, changes_between, same

_MOST_LINES = 100  # that one resource has to say about itself; the rest is counted


class Remark(NamedTuple):
    """What is to be said of one object: why it is not in force, and what else is odd.

    ``kept`` says that an earlier version of it is.
    """

    key: Key
    uid: str
    generation: int
    kept: bool
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


class Standing(NamedTuple):
    """How it is with one object: ``generation`` is the one that was read last.

    ``in_force`` is the generation that decides, None where none does.
    """

    key: Key
    uid: str
    version: str
    generation: int
    in_force: int | None
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


class _Known(NamedTuple):
    """An object as it was last read.

    ``good`` is its last version that was understood, ``generation`` that version's.
    """

    uid: str
    version: str
    good: ClusterObject | None
    generation: int
    remark: Remark | None


class Mirror:
    """Objects of one kind. One thread tells it about them, another one takes the changes.

    ``can_wait`` says of which objects a change need not be in force at once; ``urgent`` whether
    there is any other to take. ``history``: whether it matters how everything has come to be
    that is there when changes are first taken. Without it nothing piles up until then.
    """

    def __init__(
        self,
        reader: SingleReader,
        can_wait: Callable[[ClusterObject], bool] | None = None,
        *,
        history: bool = True,
    ) -> None:
        self.urgent = False
        self._piles_up = history
        self._reader = reader
        self._can_wait = can_wait
        self._known: dict[Key, _Known] = {}
        self._remarks: dict[Key, Remark] = {}
        self._changes: list[Change] = []
        self._lock = threading.Lock()
        self.revision = 0  # grows whenever the objects may say anything else than before

    # -- by whoever follows ---------------------------------------------------------------

    def listed(self, objects: Iterable[msgspec.Raw]) -> bool:
        """These are all there are. What is known already in this version is not read again."""
        before = self._known
        known: dict[Key, _Known] = {}
        for raw in objects:
            meta = head_of(raw)
            key = (self._reader.kind, meta.namespace, meta.name)
            old = before.get(key)
            if old is None or not meta.resource_version or old.version != meta.resource_version:
                known[key] = self._read(raw, meta, old)
            else:
                known[key] = old
        remarks = {key: each.remark for key, each in known.items() if each.remark is not None}
        with self._lock:
            changes = changes_between(_good(before), _good(known))
            changed = bool(changes) or self._remarks != remarks
            self._note(changes)
            self._known, self._remarks = known, remarks
            self.revision += 1
        return changed

    def event(self, verb: str, raw: msgspec.Raw) -> bool:
        """One object was ADDED, MODIFIED or DELETED; whether anything is different now."""
        meta = head_of(raw)
        key = (self._reader.kind, meta.namespace, meta.name)
        old = self._known.get(key)
        if verb == "DELETED":
            if old is None:
                return False
            with self._lock:
                del self._known[key]
                self._remarks.pop(key, None)
                self.revision += 1
                if old.good is not None:
                    self._note([Change(Verb.DELETED, old.good)])
            return True
        if verb not in {"ADDED", "MODIFIED"}:
            return False
        new = self._read(raw, meta, old)
        before = {} if old is None or old.good is None else {key: old.good}
        changes = changes_between(before, {} if new.good is None else {key: new.good})
        with self._lock:
            self._known[key] = new
            self._note(changes)
            self.revision += 1
            if new.remark is None:
                self._remarks.pop(key, None)
            else:
                self._remarks[key] = new.remark
        return bool(changes) or new.remark != (old and old.remark)

    def _note(self, changes: list[Change]) -> None:
        if self._piles_up:
            self._changes += changes
        can_wait = self._can_wait
        if changes and (can_wait is None or not all(can_wait(obj) for _, obj in changes)):
            self.urgent = True

    def _read(self, raw: msgspec.Raw, head: Head, old: _Known | None) -> _Known:
        """What is known of an object from now on; of another one of that name nothing is kept."""
        single = self._reader.read(raw, head)  # looking for it costs a fifth of reading all
        kept = old.good if old is not None and old.uid == single.uid else None
        good, generation = single.found, single.generation
        if good is None and old is not None and kept is not None:
            generation = old.generation
        if good is None or (kept is not None and same(kept, good)):
            good = kept
        remark = None
        if single.problems or single.warnings:
            remark = Remark(
                *(single.key, single.uid, single.generation),
                *(single.found is None and kept is not None, single.problems, single.warnings),
            )
        return _Known(single.uid, single.version, good, generation, remark)

    # -- by whoever puts it in force ------------------------------------------------------

    def take(self) -> list[Change]:
        """What has changed since this was last asked, in order."""
        with self._lock:
            if not self._piles_up:
                self._piles_up = True
                self._changes = changes_between({}, _good(self._known))
            changes, self._changes, self.urgent = self._changes, [], False
        return changes

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: Key) -> ClusterObject | None:
        """What is in force under a key."""
        known = self._known.get(key)
        return None if known is None else known.good

    def remarks(self) -> list[Remark]:
        """What there is to say of objects, by their keys."""
        with self._lock:
            return sorted(self._remarks.values())

    def standings(self) -> list[Standing]:
        """How it is with every object."""
        with self._lock:
            return [_standing(key, known) for key, known in self._known.items()]


def _standing(key: Key, known: _Known) -> Standing:
    remark = known.remark
    return Standing(
        *(key, known.uid, known.version),
        known.generation if remark is None else remark.generation,
        None if known.good is None else known.generation,
        *(((), ()) if remark is None else (remark.problems, remark.warnings)),
    )


def _good(known: Mapping[Key, _Known]) -> dict[Key, ClusterObject]:
    return {key: each.good for key, each in known.items() if each.good is not None}


def problems_of(remark: Remark) -> list[str]:
    """Why an object is not in force as it stands, and what is instead."""
    what = "its last good version stays in force" if remark.kept else "it is not in force"
    return [f"{problem}; {what}" for problem in remark.problems]


def lines_of(remarks: Iterable[Remark], choose: Callable[[Remark], Iterable[object]]) -> list[str]:
    """One line each, a bounded number of them."""
    lines = [str(line) for remark in remarks for line in choose(remark)]
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"and {len(lines) - _MOST_LINES:,} more such lines"]
    return lines
