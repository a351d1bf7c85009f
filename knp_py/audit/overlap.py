"""What label selectors say of each other: whether one implies the other, whether both can match.

A selector is a conjunction, and its parts about different keys are independent; so per
key the set of values that it leaves possible decides both questions exactly. Label values
are taken as endless: excluding some always leaves others.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from knp_py.model.objects import NAMESPACE_NAME_LABEL
from knp_py.model.policy import PodPeer
from knp_py.model.selectors import LabelSelector, Operator


class Values(NamedTuple):
    """What one label may be: the ``listed`` values, or all ``others``; or ``absent``."""

    listed: frozenset[str] = frozenset()
    others: bool = False
    absent: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing is left possible."""
        return not (self.listed or self.others or self.absent)

    def contains(self, value: str | None) -> bool:
        """Whether a label may have this value (None: be absent)."""
        return self.absent if value is None else (value in self.listed) is not self.others

    def within(self, other: "Values") -> bool:
        """Whether whatever this leaves possible, ``other`` does too."""
        if self.absent and not other.absent:
            return False
        if self.others:
            return other.others and other.listed <= self.listed
        if other.others:
            return self.listed.isdisjoint(other.listed)
        return self.listed <= other.listed

    def both(self, other: "Values") -> "Values":
        """What both leave possible."""
        absent = self.absent and other.absent
        if self.others and other.others:
            return Values(self.listed | other.listed, True, absent)
        if self.others:
            return Values(other.listed - self.listed, False, absent)
        if other.others:
            return Values(self.listed - other.listed, False, absent)
        return Values(self.listed & other.listed, False, absent)


ANY = Values(others=True, absent=True)
PRESENT = Values(others=True)

Limits = dict[str, Values]


def limits_of(selector: LabelSelector) -> Limits:
    """Per key, what the selector leaves possible; keys it does not read are absent."""
    limits: Limits = {}
    for key, value in selector.match_labels:
        limits[key] = limits.get(key, ANY).both(Values(frozenset((value,))))
    for part in selector.match_expressions:
        values = frozenset(part.values)
        match part.operator:
            case Operator.IN:
                allowed = Values(values)
            case Operator.NOT_IN:
                allowed = Values(values, others=True, absent=True)
            case Operator.EXISTS:
                allowed = PRESENT
            case Operator.DOES_NOT_EXIST:
                allowed = Values(absent=True)
        limits[part.key] = limits.get(part.key, ANY).both(allowed)
    return limits


def implies(one: Limits, other: Limits) -> bool:
    """Whether labels within the first limits are always within the second."""
    return all(one.get(key, ANY).within(values) for key, values in other.items())


def compatible(one: Limits, other: Limits) -> bool:
    """Whether some labels are within both."""
    return all(
        not values.both(other[key]).empty for key, values in one.items() if key in other
    ) and not any(v.empty for v in (*one.values(), *other.values()))


class _Shape(NamedTuple):
    """A pod peer, worked out. ``home``: all labels of the one namespace it is about."""

    possible: bool
    namespaces: Limits
    pods: Limits
    home: Mapping[str, str] | None


class Overlap:
    """Relations between pod peers; ``namespaces`` are the labels of those known by name.

    Of a namespace that is known, nothing is left open; of any other, everything but its
    name is.
    """

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._namespaces = namespaces
        self._shapes: dict[PodPeer, _Shape] = {}
        self._limits: dict[LabelSelector, Limits] = {}
        self._implies: dict[tuple[PodPeer, PodPeer], bool] = {}
        self._meets: dict[tuple[PodPeer, PodPeer], bool] = {}

    def possible(self, peer: PodPeer) -> bool:
        """Whether there can be a pod that the peer selects."""
        return self._shape(peer).possible

    def implies(self, one: PodPeer, other: PodPeer) -> bool:
        """Whether every pod that ``one`` selects is selected by ``other``."""
        key = (one, other)
        known = self._implies.get(key)
        if known is None:
            known = self._implies[key] = one == other or self._decide_implies(one, other)
        return known

    def meets(self, one: PodPeer, other: PodPeer) -> bool:
        """Whether there can be a pod that both select."""
        key = (one, other)
        known = self._meets.get(key)
        if known is None:
            known = self._meets[key] = self._decide_meets(one, other)
        return known

    def selector_implies(self, one: LabelSelector, other: LabelSelector) -> bool:
        """The same for plain selectors, such as those of nodes."""
        return implies(self._of(one), self._of(other))

    def _decide_implies(self, one: PodPeer, other: PodPeer) -> bool:
        a, b = self._shape(one), self._shape(other)
        if not a.possible:
            return True
        if not b.possible or not implies(a.pods, b.pods):
            return False
        if a.home is not None:
            return _holds(b.namespaces, a.home)
        return implies(a.namespaces, b.namespaces)

    def _decide_meets(self, one: PodPeer, other: PodPeer) -> bool:
        a, b = self._shape(one), self._shape(other)
        if not (a.possible and b.possible and compatible(a.pods, b.pods)):
            return False
        if a.home is not None:
            return _holds(b.namespaces, a.home)
        if b.home is not None:
            return _holds(a.namespaces, b.home)
        return compatible(a.namespaces, b.namespaces)

    def _of(self, selector: LabelSelector) -> Limits:
        known = self._limits.get(selector)
        if known is None:
            known = self._limits[selector] = limits_of(selector)
        return known

    def _shape(self, peer: PodPeer) -> _Shape:
        known = self._shapes.get(peer)
        if known is None:
            known = self._shapes[peer] = self._make(peer)
        return known

    def _make(self, peer: PodPeer) -> _Shape:
        pods = self._of(peer.pods)
        if peer.namespace is not None:
            namespaces = {NAMESPACE_NAME_LABEL: Values(frozenset((peer.namespace,)))}
        else:
            namespaces = dict(self._of(peer.namespaces))
            named = namespaces.get(NAMESPACE_NAME_LABEL, ANY)
            namespaces[NAMESPACE_NAME_LABEL] = named.both(PRESENT)
        possible = not any(v.empty for v in (*pods.values(), *namespaces.values()))
        name = namespaces[NAMESPACE_NAME_LABEL]
        home = None
        if not name.others and len(name.listed) == 1:
            home = self._namespaces.get(next(iter(name.listed)))
        if home is not None:
            possible = possible and _holds(namespaces, home)
            namespaces = {NAMESPACE_NAME_LABEL: name}
        return _Shape(possible, namespaces, pods, home)


def _holds(limits: Limits, labels: Mapping[str, str]) -> bool:
    return all(values.contains(labels.get(key)) for key, values in limits.items())


def names_in(selector: LabelSelector) -> Iterable[str]:
    """Namespaces that the selector asks for by name."""
    limits = limits_of(selector).get(NAMESPACE_NAME_LABEL)
    return () if limits is None or limits.others else sorted(limits.listed)
