"""Ways to arrive at a cluster: what happened before, in any order an API server may tell it.

Events of one object keep their order; those of different objects do not. A pod that
returns under its name is another pod, with another UID, and only after the old one's
end was told.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from helpers import clusters as c
from hypothesis import strategies as st

from knp_py.model.changes import Change, ClusterObject, Verb
from knp_py.model.objects import Namespace, Node, Pod
from knp_py.model.policy import ClusterNetworkPolicy, NetworkPolicy

Key = tuple[str, str]


class History(NamedTuple):
    """``changes`` in order, and the objects there are after the last."""

    changes: tuple[Change, ...]
    objects: tuple[ClusterObject, ...]


def key_of(obj: ClusterObject) -> Key:
    """Kind and ``namespace/name``."""
    name = f"{getattr(obj, 'namespace', '')}/{obj.name}"
    return type(obj).__name__, name


def replayed(changes: Iterable[Change]) -> tuple[ClusterObject, ...]:
    """The objects that exist after these changes."""
    objects: dict[Key, ClusterObject] = {}
    for change in changes:
        if change.verb is Verb.APPLIED:
            objects[key_of(change.obj)] = change.obj
        else:
            objects.pop(key_of(change.obj), None)
    return tuple(objects.values())


def living(objects: Iterable[ClusterObject]) -> list[ClusterObject]:
    """The same without the end of any namespace, during which history matters (semantics §1)."""
    return [
        msgspec.structs.replace(obj, terminating=False) if isinstance(obj, Namespace) else obj
        for obj in objects
    ]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """A past cluster turns into a final one, object by object, interleaved."""
    past = {key_of(obj): obj for obj in living(draw(c.clusters()).objects)}
    final = {key_of(obj): obj for obj in living(draw(c.clusters()).objects)}
    pending: dict[Key, list[Change]] = {}
    for key in (*past, *(key for key in final if key not in past)):
        pending[key] = draw(_object_history(past.get(key), final.get(key)))
    tokens = [key for key, events in pending.items() for _ in events]
    order = draw(st.permutations(tokens))
    changes = tuple(pending[key].pop(0) for key in order)
    return History(changes, replayed(changes))


@st.composite
def _object_history(
    draw: st.DrawFn, past: ClusterObject | None, final: ClusterObject | None
) -> list[Change]:
    events: list[Change] = []
    if past is not None:
        events.append(Change(Verb.APPLIED, past))
        if draw(st.booleans()):
            past = draw(edited(past))
            events.append(Change(Verb.APPLIED, past))
        another_pod = isinstance(past, Pod) and isinstance(final, Pod) and past.uid != final.uid
        if final is None or another_pod or draw(st.booleans()):
            events.append(Change(Verb.DELETED, past))
            if isinstance(final, Pod):
                final = msgspec.structs.replace(final, uid=f"{final.uid}-again")
    if final is not None:
        events.append(Change(Verb.APPLIED, final))
        if draw(st.integers(0, 3)) == 0:
            events.append(Change(Verb.APPLIED, final))  # a resync tells it once more
    return events


@st.composite
def edited(draw: st.DrawFn, obj: ClusterObject) -> ClusterObject:
    """The same object after somebody changed a part of it."""
    match obj:
        case Pod():
            changes = {
                "labels": c.labels(),
                "ips": st.sampled_from(c.POD_ADDRESSES),
                "phase": st.sampled_from(("Running", "Succeeded")),
                "created": st.sampled_from(c.CREATED),
                "ports": st.sampled_from(c.CONTAINER_PORTS),
                "node": st.sampled_from(("", "n1", "n2")),
                "host_ips": st.sampled_from(((), c.NODE_ADDRESSES[:1])),
                "host_network": st.booleans(),
            }
            what = draw(st.sampled_from(sorted(changes)))
            return msgspec.structs.replace(obj, **{what: draw(changes[what])})
        case Node():
            other_node = draw(c.node(obj.name))
            what = draw(st.sampled_from(("labels", "addresses", "pod_cidrs")))
            names = ("ips", "all_ips") if what == "addresses" else (what,)
            return msgspec.structs.replace(obj, **{n: getattr(other_node, n) for n in names})
        case NetworkPolicy():
            name = obj.name
            other = draw(c.network_policies(name))
            if draw(st.booleans()):
                return msgspec.structs.replace(obj, pods=other.pods)
            # Its rules may name the other policy's own namespace: the same object in effect.
            return msgspec.structs.replace(other, namespace=obj.namespace)
        case ClusterNetworkPolicy():
            other_policy = draw(c.cluster_policies(obj.name))
            what = draw(st.sampled_from(("tier", "priority", "subject", "rules")))
            return msgspec.structs.replace(obj, **{what: getattr(other_policy, what)})
        case _:
            return c.relabelled(obj, draw(c.labels()))
