"""Parts put together: objects that stand twice, and what follows from all of them.

All that is wrong is said, nothing is skipped silently. ``load`` is for an input that is read
once, ``Assembly`` for one that changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby
from typing import NamedTuple

import msgspec

from knp_py.manifests.document import Document
from knp_py.manifests.kinds import Unread
from knp_py.manifests.madeup import MadeUp
from knp_py.manifests.problems import Problem
from knp_py.manifests.reading import Part, PartReader, Thing
from knp_py.manifests.sandboxes import SandboxTemplate
from knp_py.manifests.standins import Source, add_stand_ins
from knp_py.manifests.workloads import RealPods
from knp_py.model.changes import ClusterObject, Key, same
from knp_py.model.objects import Pod
from knp_py.model.policy import NetworkPolicy


class LoadResult(msgspec.Struct, frozen=True):
    """``problems`` are errors: the objects they are about are missing from ``by_key``.

    ``warnings`` should reach the user; ``notes`` are for whoever asks for more.
    ``controllers`` names what owns a NetworkPolicy (its key → ``Kind name`` in its
    namespace): with that object it is garbage-collected.
    """

    by_key: dict[Key, ClusterObject]
    problems: list[Problem]
    warnings: list[Problem]
    notes: list[Problem]
    controllers: dict[str, str] = {}

    @property
    def objects(self) -> list[ClusterObject]:
        """Those of documents in their order, then what follows from them."""
        return list(self.by_key.values())


def load(documents: Iterable[Document]) -> LoadResult:
    """Every object the documents hold or stand for. Never raises for what they contain."""
    reader = PartReader()
    files = groupby(documents, key=lambda document: document.origin.source)
    return Assembly().assemble([reader.read(of_one_file) for _, of_one_file in files])


class Repeat(NamedTuple):
    """Something that stands twice; ``first`` and ``again`` are the indexes of the parts.

    When both say the same, that is worth a warning and the first one counts.
    """

    first: int
    again: int
    earlier: Thing
    later: Thing
    differs: bool

    @property
    def line(self) -> Problem:
        """What to say of the later one."""
        origin, place = self.earlier.found.origin, self.earlier.place
        where = f"{origin} {place}" if place else str(origin)
        how = "differs" if self.differs else "is the same"
        message = f"stands twice and {how}; first in {where}"
        return Problem(self.later.found.origin, self.later.label, self.later.place, message)

    @property
    def turned(self) -> "Repeat":
        """As seen from the other one."""
        return Repeat(self.again, self.first, self.later, self.earlier, self.differs)


def merge(parts: Sequence[Part]) -> tuple[dict[Key, Thing], list[Repeat]]:
    """What all parts hold, the first of each key, and every further one."""
    things: dict[Key, Thing] = {}
    total = 0
    for part in parts:
        things.update(part.things)
        total += len(part.things) + len(part.repeated)
    if len(things) == total:
        return things, []
    things.clear()
    where: dict[Key, int] = {}
    repeats: list[Repeat] = []
    for index, part in enumerate(parts):
        for thing in chain(part.things.values(), part.repeated):
            first = things.setdefault(thing.key, thing)
            if first is thing:
                where[thing.key] = index
            else:
                differs = not same(first.found, thing.found)
                repeats.append(Repeat(where[thing.key], index, first, thing, differs))
    return things, repeats


class _Follows(NamedTuple):
    """What follows from all parts together: objects, and what gives way to them.

    ``gone`` has every source as well, ``templates`` says whether SandboxTemplates are among
    them.
    """

    added: Mapping[Key, Pod | NetworkPolicy]
    gone: frozenset[Key]
    templates: bool
    warnings: list[Problem]
    notes: list[Problem]


_NOTHING = _Follows({}, frozenset(), templates=False, warnings=[], notes=[])
# What follows depends on everything but these; on NetworkPolicies where a SandboxTemplate has
# one of its own.
_APART = frozenset(
    ("Namespace", "ClusterNetworkPolicy", "AdminNetworkPolicy", "BaselineAdminNetworkPolicy")
)
_APART_WITHOUT_TEMPLATES = _APART | {"NetworkPolicy"}


class Assembly:
    """Puts parts together, again whenever some of them are others.

    What follows from them is worked out anew only when something it depends on is not the
    same as the last time, so that a policy among thousands of pods costs next to nothing.
    """

    def __init__(self) -> None:
        self._things: dict[Key, Thing] = {}
        self._follows = _NOTHING

    def assemble(self, parts: Sequence[Part]) -> LoadResult:
        """What the parts say, in their order. A part that comes again must be as it was."""
        things, repeats = merge(parts)
        odd = {index: part for index, part in enumerate(parts) if not part.plain}
        controllers: dict[str, str] = {}
        unread = Unread()
        for part in odd.values():
            unread.merge(part.unread)
            for name, controller in part.controllers.items():
                controllers.setdefault(name, controller)
        if not any(part.unsettled for part in odd.values()):
            self._follows = _NOTHING
        elif not self._still_follows(things):
            self._follows = _follow(things, controllers)
        self._things = things
        gone = self._follows.gone
        by_key: dict[Key, ClusterObject] = {
            key: thing.found  # type: ignore[misc]  # sources are gone
            for key, thing in things.items()
            if key not in gone
        }
        by_key.update(self._follows.added)
        problems, warnings = _remarks(odd, repeats)
        warnings += self._follows.warnings
        warnings += unread.warnings()
        return LoadResult(by_key, problems, warnings, list(self._follows.notes), controllers)

    def _still_follows(self, things: Mapping[Key, Thing]) -> bool:
        before, follows = self._things, self._follows
        if follows is _NOTHING:
            return False
        apart = _APART if follows.templates else _APART_WITHOUT_TEMPLATES
        changed = [key for key, thing in things.items() if before.get(key) is not thing]
        changed += before.keys() - things.keys()
        return all(key[0] in apart for key in changed)


def _remarks(
    parts: Mapping[int, Part], repeats: Iterable[Repeat]
) -> tuple[list[Problem], list[Problem]]:
    """Problems and warnings: each part's own, then what stands in it again."""
    problems: list[Problem] = []
    warnings: list[Problem] = []
    again: dict[int, list[Repeat]] = {}
    for repeat in repeats:
        again.setdefault(repeat.again, []).append(repeat)
    for index in sorted(parts.keys() | again.keys()):
        if index in parts:
            problems += parts[index].problems
            warnings += parts[index].warnings
        for repeat in again.get(index, ()):
            (problems if repeat.differs else warnings).append(repeat.line)
    return problems, warnings


def _follow(things: Mapping[Key, Thing], controllers: Mapping[str, str]) -> _Follows:
    held: dict[Key, ClusterObject] = {}
    sources: dict[Key, Source] = {}
    real = RealPods()
    for key, thing in things.items():
        found = thing.found
        if type(found) is Pod:
            held[key] = found
            real.add(found, thing.controller)
        elif isinstance(found, Source):
            sources[key] = found
        else:
            held[key] = found
    objects = list(held.values())
    warnings: list[Problem] = []
    notes: list[Problem] = []
    made_up = MadeUp(objects, set(real.keys), warnings, notes)
    add_stand_ins(made_up, real, controllers, sources.values())
    before, now = set(map(id, held.values())), set(map(id, objects))
    added = {
        (type(obj).__name__, obj.namespace, obj.name): obj
        for obj in objects
        if id(obj) not in before and isinstance(obj, (Pod, NetworkPolicy))
    }
    return _Follows(
        added,
        frozenset(sources).union(key for key, obj in held.items() if id(obj) not in now),
        any(isinstance(source, SandboxTemplate) for source in sources.values()),
        warnings,
        notes,
    )
