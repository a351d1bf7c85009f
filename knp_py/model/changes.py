"""What happened to an object: the one currency between sources and the engine's state."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

import msgspec

from knp_py.model.objects import Namespace, Node, Pod, Service
from knp_py.model.policy import ClusterNetworkPolicy, NetworkPolicy

ClusterObject = Pod | Namespace | Node | Service | ClusterNetworkPolicy | NetworkPolicy

Key = tuple[str, str, str]
"""Kind, namespace (empty for cluster-wide kinds) and name: who an object is."""


class Verb(Enum):
    """``APPLIED`` is added or changed: the object replaces the one of the same key."""

    APPLIED = "applied"
    DELETED = "deleted"


class Change(NamedTuple):
    """One object and what happened to it."""

    verb: Verb
    obj: ClusterObject


def changes_between(
    before: Mapping[Key, ClusterObject], after: Mapping[Key, ClusterObject]
) -> list[Change]:
    """What leads from one set of objects to another, what goes first.

    An object that only stands elsewhere now is no change. A pod that comes back as another
    one (semantics §1) goes and comes.
    """
    gone: list[Change] = []
    come: list[Change] = []
    for key, obj in before.items():
        now = after.get(key)
        if now is None or (isinstance(obj, Pod) and isinstance(now, Pod) and obj.uid != now.uid):
            gone.append(Change(Verb.DELETED, obj))
    for key, obj in after.items():
        known = before.get(key)
        if known is not obj and (known is None or not same(known, obj)):
            come.append(Change(Verb.APPLIED, obj))
    return gone + come


def same(a: msgspec.Struct, b: msgspec.Struct) -> bool:
    """Whether two objects of one kind say the same, wherever they were read."""
    origin = a.origin  # type: ignore[attr-defined]  # every object has one
    return bool(msgspec.structs.replace(b, origin=origin) == a)
