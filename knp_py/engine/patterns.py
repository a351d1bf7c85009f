"""``domainNames`` patterns and which of them a name satisfies (semantics §6).

Names are compared as ASCII, lower case, without a trailing dot; A-labels (``xn--``) are
bytes like any others and never decoded.
"""

import re
from collections.abc import Iterable

MAX_NAME = 253

_HOST_NAME = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")


def canonical_name(text: str) -> str | None:
    """The name as it is compared: ASCII lower case, one trailing dot gone.

    None when it can be no host's name: empty, longer than 253, or with a label that holds
    anything but letters, digits, hyphen and underscore (RFC 1123 §2.1; underscore because
    service names use it). Only ASCII folds: U+212A is no "k" (RFC 4343 §3).
    """
    if not text.isascii():
        return None
    name = text.lower().removesuffix(".")
    return name if len(name) <= MAX_NAME and _HOST_NAME.fullmatch(name) else None


def canonical_pattern(text: str) -> str | None:
    """A ``domainNames`` entry in the form of ``canonical_name``, ``*.`` only in front."""
    name = canonical_name(text.removeprefix("*."))
    if name is None:
        return None
    return f"*.{name}" if text.startswith("*.") else name


class _Labels:
    """A node of the trie: what is below it, and the patterns that end here."""

    __slots__ = ("below", "exact", "wildcard")

    def __init__(self) -> None:
        self.below: dict[str, _Labels] = {}
        self.exact: str | None = None
        self.wildcard: str | None = None


class PatternTrie:
    """Canonical patterns by their labels, last label first.

    A question walks no deeper than the patterns go, however many they are.
    """

    __slots__ = ("_root",)

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._root = _Labels()
        for pattern in patterns:
            at = self._root
            for label in reversed(pattern.removeprefix("*.").split(".")):
                at = at.below.setdefault(label, _Labels())
            if pattern.startswith("*."):
                at.wildcard = pattern
            else:
                at.exact = pattern

    def satisfied(self, name: str) -> tuple[str, ...]:
        """Patterns that a canonical name satisfies, the widest first."""
        found: list[str] = []
        at = self._root
        for label in reversed(name.split(".")):
            if at.wildcard is not None:  # and there is at least this one label before it
                found.append(at.wildcard)
            below = at.below.get(label)
            if below is None:
                return tuple(found)
            at = below
        if at.exact is not None:
            found.append(at.exact)
        return tuple(found)
