"""What happened to an object: the one currency between sources and the engine's state."""

from enum import Enum
from typing import NamedTuple

from knp_py.model.objects import Namespace, Node, Pod, Service
from knp_py.model.policy import ClusterNetworkPolicy, NetworkPolicy

ClusterObject = Pod | Namespace | Node | Service | ClusterNetworkPolicy | NetworkPolicy


class Verb(Enum):
    """``APPLIED`` is added or changed: the object replaces the one of the same key."""

    APPLIED = "applied"
    DELETED = "deleted"


class Change(NamedTuple):
    """One object and what happened to it."""

    verb: Verb
    obj: ClusterObject
