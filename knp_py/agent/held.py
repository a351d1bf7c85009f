"""Names that a connection was accepted by, for judging it again after they have ended.

Strict mode judges established connections anew when policy changes, but does not cut one
because the name that opened it has meanwhile expired (semantics §5).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from knp_py.engine.evaluate import Names
from knp_py.engine.patterns import PatternTrie, canonical_pattern
from knp_py.model.decision import NameGrant
from knp_py.model.objects import Pod


class HeldNames:
    """The learned names and, within ``granting``, those of one connection besides."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._trie = PatternTrie()
        self._extra: tuple[NameGrant, ...] = ()

    @property
    def version(self) -> int:
        """The learned names' own."""
        return self._names.version

    @contextmanager
    def granting(self, grants: Sequence[NameGrant]) -> Iterator[None]:
        """These count as well until the block ends."""
        self._extra = tuple(grants)
        try:
            yield
        finally:
            self._extra = ()

    def lookup(self, pod: Pod, address: int, now: float) -> tuple[NameGrant, ...]:
        """As the learned names' ``lookup``, with the connection's own grants behind.

        Those are by name: the rule that wants it may have other words for it by now.
        """
        known = self._names.lookup(pod, address, now)
        found = {grant.pattern: grant for grant in known}
        for grant in self._extra:
            if grant.address == address:
                for pattern in self._trie.satisfied(grant.name):
                    found.setdefault(pattern, grant._replace(pattern=pattern))
        return tuple(found.values())

    def names(self, pod: Pod, address: int, now: float) -> tuple[str, ...]:
        """As the learned names'."""
        return self._names.names(pod, address, now)

    def clear(self) -> None:
        """The learned names are not this object's to forget."""

    def set_patterns(self, patterns: frozenset[str]) -> None:
        """For the grants; the learned names have them from the engine that judges beginnings."""
        self._trie = PatternTrie(filter(None, map(canonical_pattern, patterns)))
