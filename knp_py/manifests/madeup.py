"""Pods that no document holds, and the addresses they get.

What is real wins: a name that a document's pod has is never given to a made-up one, and
an address of the input never either.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from knp_py.manifests.addresses import Addresses
from knp_py.manifests.pods import PodSpec
from knp_py.manifests.problems import Problem
from knp_py.model.changes import ClusterObject
from knp_py.model.objects import Node, Origin, Pod, Service

INPUT = Origin("input")  # of notes that are about no one document


class Owner(NamedTuple):
    """Who a made-up pod comes from: what its address is derived from."""

    kind: str
    namespace: str
    name: str
    ordinal: int = 0


class MadeUp:
    """Adds made-up pods to ``objects``; ``names`` holds every pod's key, real or not."""

    def __init__(
        self,
        objects: list[ClusterObject],
        names: set[str],
        warnings: list[Problem],
        notes: list[Problem],
    ) -> None:
        self.objects = objects
        self.names = names
        self.nodes = {obj.name: obj for obj in objects if isinstance(obj, Node)}
        self._warnings = warnings
        self._notes = notes
        # By key, not by place: objects give way to others meanwhile.
        self._pending: dict[str, Owner] = {
            obj.key: Owner("Pod", obj.namespace, obj.name)
            for obj in objects
            if isinstance(obj, Pod) and (obj.made_up or (obj.host_network and not obj.ips))
        }

    def add(
        self,
        owner: Owner,
        name: str,
        labels: Mapping[str, str],
        spec: PodSpec,
        origin: Origin,
        *,
        ips: tuple[int, ...] = (),
        node: str = "",
    ) -> None:
        """Add a pod unless there is one of the name."""
        key = f"{owner.namespace}/{name}"
        if key in self.names:
            return
        self.names.add(key)
        if not ips:
            self._pending[key] = owner
        self.objects.append(
            Pod(
                uid=key,
                namespace=owner.namespace,
                name=name,
                labels=labels,
                ips=ips,
                node=spec.node or node,
                host_network=spec.host_network,
                ports=spec.ports,
                dns_policy=spec.dns_policy or "ClusterFirst",
                nameservers=spec.nameservers,
                made_up=not ips and not spec.host_network,
                origin=derived(origin, owner.kind, owner.namespace, owner.name),
            )
        )

    def give_addresses(self) -> None:
        """Addresses for all pods that need one, in an order the input has no say in."""
        if not self._pending:
            return
        addresses = Addresses(_taken(self.objects))
        waiting = [
            (self._pending[obj.key], index, obj)
            for index, obj in enumerate(self.objects)
            if isinstance(obj, Pod) and obj.key in self._pending
        ]
        for owner, index, pod in sorted(waiting, key=lambda each: each[0]):
            node = self.nodes.get(pod.node)
            hosts = pod.host_ips or (node.ips if node else ())
            # A host-network pod's address is its node's.
            ips = hosts[:1] if pod.host_network else (addresses.give(*owner),)
            self.objects[index] = msgspec.structs.replace(pod, ips=ips, host_ips=hosts)

    def warn(self, origin: Origin, label: str, message: str) -> None:
        """Say something about an object of the input."""
        self._warnings.append(Problem(origin, label, "", message))

    def note(self, label: str, message: str) -> None:
        """Say something to whoever asks for more."""
        self._notes.append(Problem(INPUT, label, "", message))

    def note_cap(self, owner: Owner, count: int, most: int) -> None:
        """Say that fewer pods were made than an owner asks for, if so."""
        if count > most:
            label = f"{owner.kind} {owner.namespace}/{owner.name}"
            self.note(label, f"{most} pods stand for its {count}")


def derived(origin: Origin, kind: str, namespace: str, name: str) -> Origin:
    """The origin of what no document holds itself."""
    return Origin(origin.source, origin.document, f"{kind} {namespace}/{name}")


def _taken(objects: Iterable[ClusterObject]) -> Iterable[int]:
    """Addresses of the documents."""
    for obj in objects:
        match obj:
            case Pod():
                yield from obj.ips
            case Node():
                yield from obj.all_ips
            case Service():
                yield from obj.cluster_ips
                yield from obj.external_ips
            case _:
                pass
