"""What is wrong with a document, one line each, and where.

A ``Problem`` is a value, never an exception: loading goes on to find all of them.
"""

from collections.abc import Iterable

import msgspec

from knp_py.model.objects import Origin

_SHOWN = 60  # characters of a value from the input that a message repeats


class Problem(msgspec.Struct, frozen=True):
    """One line about one place in the input.

    ``object`` is ``Kind namespace/name`` (or ``Kind name``); ``path`` the field, such as
    ``spec.ingress[0].ports[1].port``; either may be empty.
    """

    origin: Origin
    object: str
    path: str
    message: str

    def __str__(self) -> str:
        parts = [str(self.origin), self.object, self.path, self.message]
        return ": ".join(part for part in parts if part)


class Report:
    """Collects what is found while one object is read."""

    __slots__ = ("failed", "object", "origin", "place", "problems", "warnings")

    def __init__(
        self,
        origin: Origin,
        name: str,
        place: str,
        problems: list[Problem],
        warnings: list[Problem],
    ) -> None:
        self.origin = origin
        self.object = name
        self.place = place  # ``items[3]`` for an object of a List
        self.problems = problems
        self.warnings = warnings
        self.failed = False

    def error(self, path: str, message: str) -> None:
        """The API server would reject the object: it is not loaded."""
        self.failed = True
        self.problems.append(self._problem(path, message))

    def warn(self, path: str, message: str) -> None:
        """Worth saying; the object is loaded."""
        self.warnings.append(self._problem(path, message))

    def _problem(self, path: str, message: str) -> Problem:
        where = f"{self.place}.{path}" if self.place and path else self.place or path
        return Problem(self.origin, self.object, where, message)


def show(value: object) -> str:
    """A value from the input as it stands in a message: its kind and a bounded excerpt."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() if abs(value) >= 10**30:
            return "a very large number"  # Python refuses to print the largest
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the text {quote(value)}"
        case list() | tuple():
            return "a list"
        case _:
            return "an object"


def quote(text: str) -> str:
    """Text in quotes, on one line and not too long, whatever is in it."""
    return repr(shorten(text))


def shorten(text: str) -> str:
    """The text, or its beginning."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def plain(text: str) -> str:
    """Text as it is where that is harmless, else quoted: for names inside a line."""
    return text if text.isprintable() and len(text) <= 4 * _SHOWN else quote(text)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that ``word`` is probably a slip of: equal but for case, or 1-2 edits."""
    folded = word.casefold()
    best: tuple[int, str] | None = None
    for candidate in known:
        other = candidate.casefold()
        limit = min(2, max(len(folded), len(other)) // 3)
        if abs(len(other) - len(folded)) > limit:
            continue
        distance = _edits(folded, other)
        if distance <= limit and (best is None or (distance, candidate) < best):
            best = (distance, candidate)
    return None if best is None else best[1]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``, did you mean 'x'?`` or nothing."""
    found = nearest(word, known)
    return "" if found is None or found == word else f", did you mean {found!r}?"


def _edits(a: str, b: str) -> int:
    """Edit distance with swapped neighbours counted once (short words only)."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        current = [i]
        for j, y in enumerate(b, 1):
            cost = min(row[j] + 1, current[j - 1] + 1, row[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, before[j - 2] + 1)
            current.append(cost)
        before, row = row, current
    return row[-1]
