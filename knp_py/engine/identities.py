"""Who can be told from whom: pods with equal namespace and equal relevant labels.

Selectors are numbered once for the whole cluster and matched once per identity per
change, never per packet. A new identity is held only against selectors that share a
label pair or a namespace with it (and the few that have neither), so adding one pod
costs nearly the same in a large cluster as in a small one.
"""

from collections.abc import Iterable, Mapping

from knp_py.model.policy import PodPeer
from knp_py.model.selectors import LabelSelector

_Key = tuple[str, tuple[tuple[str, str], ...]]


class Selector:
    """A numbered pod selector; ``uses`` counts the rules and subjects that hold it."""

    __slots__ = ("number", "peer", "uses")

    def __init__(self, number: int, peer: PodPeer) -> None:
        self.number = number
        self.peer = peer
        self.uses = 0

    def matches(
        self, namespace: str, ns_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> bool:
        """Whether pods with these labels in this namespace are selected."""
        peer = self.peer
        if peer.namespace is not None:
            if peer.namespace != namespace:
                return False
        elif not peer.namespaces.matches(ns_labels):
            return False
        return peer.pods.matches(labels)


class SelectorTable:
    """All selectors in use, by number, with the index that finds candidates."""

    def __init__(self) -> None:
        self._by_peer: dict[PodPeer, Selector] = {}
        self._by_number: dict[int, Selector] = {}
        self._next = 1
        self._index: dict[tuple[str, str, str], set[int]] = {}
        self.key_uses: dict[str, int] = {}  # pod label key → selectors that read it

    def hold(self, peer: PodPeer) -> tuple[Selector, bool]:
        """The selector for ``peer`` and whether it is new; counts one more use."""
        selector = self._by_peer.get(peer)
        fresh = selector is None
        if selector is None:
            selector = Selector(self._next, peer)
            self._next += 1
            self._by_peer[peer] = selector
            self._by_number[selector.number] = selector
            self._index.setdefault(_index_key(peer), set()).add(selector.number)
            for key in peer.pods.keys:
                self.key_uses[key] = self.key_uses.get(key, 0) + 1
        selector.uses += 1
        return selector, fresh

    def number(self, peer: PodPeer) -> int:
        """The number of a selector that is held. Raises ``KeyError`` when it is not."""
        return self._by_peer[peer].number

    def by_number(self, number: int) -> Selector:
        """The selector with this number."""
        return self._by_number[number]

    def release(self, peer: PodPeer) -> int | None:
        """Count one use less; the selector's number when that was the last."""
        selector = self._by_peer[peer]
        selector.uses -= 1
        if selector.uses:
            return None
        del self._by_peer[peer]
        del self._by_number[selector.number]
        index_key = _index_key(peer)
        members = self._index[index_key]
        members.discard(selector.number)
        if not members:
            del self._index[index_key]
        for key in peer.pods.keys:
            self.key_uses[key] -= 1
            if not self.key_uses[key]:
                del self.key_uses[key]
        return selector.number

    def matching(
        self, namespace: str, ns_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> frozenset[int]:
        """Numbers of every selector that selects such a pod."""
        found: set[int] = set()
        index = self._index
        buckets: list[Iterable[int]] = [
            index.get(("pod", key, value), ()) for key, value in labels.items()
        ]
        buckets += [index.get(("ns", key, value), ()) for key, value in ns_labels.items()]
        buckets.append(index.get(("in", namespace, ""), ()))
        buckets.append(index.get(("any", "", ""), ()))
        for bucket in buckets:
            for number in bucket:
                if self._by_number[number].matches(namespace, ns_labels, labels):
                    found.add(number)
        return frozenset(found)


def _index_key(peer: PodPeer) -> tuple[str, str, str]:
    """The one thing a pod must have to be worth a look; the rarest kind first."""
    if peer.pods.match_labels:
        return ("pod", *peer.pods.match_labels[0])
    if peer.namespace is not None:
        return ("in", peer.namespace, "")
    if peer.namespaces.match_labels:
        return ("ns", *peer.namespaces.match_labels[0])
    return ("any", "", "")


class NodeSelectorTable:
    """Numbered node selectors. Nodes are few: everything is matched anew on a change."""

    def __init__(self) -> None:
        self._numbers: dict[LabelSelector, int] = {}
        self._uses: dict[LabelSelector, int] = {}
        self._next = 1

    def hold(self, selector: LabelSelector) -> bool:
        """Count one more use; whether it is new."""
        fresh = selector not in self._numbers
        if fresh:
            self._numbers[selector] = self._next
            self._next += 1
        self._uses[selector] = self._uses.get(selector, 0) + 1
        return fresh

    def release(self, selector: LabelSelector) -> None:
        """Count one use less."""
        self._uses[selector] -= 1
        if not self._uses[selector]:
            del self._uses[selector], self._numbers[selector]

    def number(self, selector: LabelSelector) -> int:
        """The number of a selector that is held."""
        return self._numbers[selector]

    def matching(self, labels: Mapping[str, str]) -> tuple[int, ...]:
        """Numbers of every selector that selects a node with these labels."""
        return tuple(n for selector, n in self._numbers.items() if selector.matches(labels))


class Identity:
    """Pods that no policy can tell apart. ``matched`` are selector numbers."""

    __slots__ = ("labels", "matched", "namespace", "number", "pods")

    def __init__(
        self, number: int, namespace: str, labels: dict[str, str], matched: frozenset[int]
    ) -> None:
        self.number = number
        self.namespace = namespace
        self.labels = labels
        self.matched = matched
        self.pods = 0


class IdentityTable:
    """Identities in use, interned by namespace and relevant labels."""

    def __init__(self) -> None:
        self._by_key: dict[_Key, Identity] = {}
        self._by_namespace: dict[str, set[int]] = {}
        self.by_number: dict[int, Identity] = {}
        self._next = 1

    def take(
        self,
        namespace: str,
        ns_labels: Mapping[str, str],
        labels: Mapping[str, str],
        selectors: SelectorTable,
    ) -> tuple[Identity, bool]:
        """The identity of such a pod and whether it is new; counts one more pod."""
        uses = selectors.key_uses
        relevant = tuple(sorted(item for item in labels.items() if item[0] in uses))
        key = (namespace, relevant)
        identity = self._by_key.get(key)
        fresh = identity is None
        if identity is None:
            own = dict(relevant)
            matched = selectors.matching(namespace, ns_labels, own)
            identity = Identity(self._next, namespace, own, matched)
            self._next += 1
            self._by_key[key] = identity
            self.by_number[identity.number] = identity
            self._by_namespace.setdefault(namespace, set()).add(identity.number)
        identity.pods += 1
        return identity, fresh

    def drop(self, identity: Identity) -> bool:
        """One pod less; whether it was the last and the identity is gone."""
        identity.pods -= 1
        if identity.pods:
            return False
        del self._by_key[identity.namespace, tuple(sorted(identity.labels.items()))]
        del self.by_number[identity.number]
        members = self._by_namespace[identity.namespace]
        members.discard(identity.number)
        if not members:
            del self._by_namespace[identity.namespace]
        return True

    def matching(self, selector: int) -> list[int]:
        """Numbers of the identities that a selector selects."""
        return [n for n, identity in self.by_number.items() if selector in identity.matched]

    def in_namespace(self, namespace: str) -> list[Identity]:
        """Every identity there, in the order they came."""
        return [self.by_number[n] for n in sorted(self._by_namespace.get(namespace, ()))]
