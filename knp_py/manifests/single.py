"""One object at a time, as an API server sends it: what it says, and what is wrong with it.

The server has filled in defaults and pod addresses, so nothing is made up and nothing follows
from anything else here: a pod without an address is one that has none yet.
"""

from typing import NamedTuple

import msgspec

from knp_py.manifests.entries import Entry
from knp_py.manifests.problems import Problem
from knp_py.manifests.reading import PartReader
from knp_py.model.changes import ClusterObject, Key
from knp_py.model.objects import Namespace, Node, Origin, Pod, Service
from knp_py.model.policy import ClusterNetworkPolicy, NetworkPolicy

_SHARED = 20_000  # objects after which what they have in common is collected anew
_OBJECTS = (Pod, Namespace, Node, Service, ClusterNetworkPolicy, NetworkPolicy)


class Head(msgspec.Struct, rename="camel", gc=False):
    """Who an object is, and which version of it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0


class _Object(msgspec.Struct, gc=False):
    metadata: Head = msgspec.field(default_factory=Head)


class Single(NamedTuple):
    """What one says: ``found`` is None where ``problems`` say why not.

    ``version`` and ``generation`` are ``metadata``'s.
    """

    key: Key
    uid: str
    version: str
    generation: int
    found: ClusterObject | None
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


_HEAD = msgspec.json.Decoder(_Object)


def head_of(raw: bytes | msgspec.Raw) -> Head:
    """Name, namespace, uid and version. Raises ``msgspec.MsgspecError``."""
    return _HEAD.decode(raw).metadata


class SingleReader:
    """Reads objects of one kind; ``source`` is what messages call where they come from."""

    def __init__(self, api_version: str, kind: str, source: str) -> None:
        self.kind = kind
        self._version = api_version
        self._origin = Origin(source)
        self._parts = PartReader()
        self._read = 0

    def read(self, raw: bytes | msgspec.Raw, head: Head | None = None) -> Single:
        """What an object says; ``head`` is its own, for whoever has it already.

        Raises ``msgspec.MsgspecError`` for one that says not even who it is.
        """
        meta = head_of(raw) if head is None else head
        self._read += 1
        if self._read >= _SHARED:
            # It would keep the labels of every pod there ever was.
            self._parts, self._read = PartReader(), 0
        key = (self.kind, meta.namespace, meta.name)
        entry = Entry(
            *(self._origin, "", self._version, self.kind, meta.name, meta.namespace), *(raw, None)
        )
        try:
            part = self._parts.read_one(entry)
        except Exception as error:  # noqa: BLE001 - one object must not keep all others out
            what = f"internal error, please report it: {type(error).__name__}: {error}"
            problem = Problem(self._origin, entry.label, "", what)
            who = (key, meta.uid, meta.resource_version, meta.generation)
            return Single(*who, None, (problem,), ())
        found: ClusterObject | None = None
        for thing in part.things.values():
            if isinstance(thing.found, _OBJECTS):
                found = thing.found
        if isinstance(found, Pod) and found.made_up:
            found = msgspec.structs.replace(found, made_up=False)
        return Single(
            *(key, meta.uid, meta.resource_version, meta.generation, found),
            *(tuple(part.problems), tuple(part.warnings)),
        )
