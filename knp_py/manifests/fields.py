"""Reading decoded objects field by field: right value, or a problem that names the path."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from knp_py.manifests.problems import Report, did_you_mean, nearest, plain, quote, show

T = TypeVar("T")


# How a message about a field that nobody knows begins; lint tells it by that.
UNKNOWN_FIELD = "unknown field"
WIDER = "it is ignored, which can only make the rule match more"


class Fields:
    """One object of a document and where it is.

    Readers answer None both for a field that is absent (or null, which the API server
    drops) and for one that is wrong, which they report; an object with a problem is not
    loaded, so nobody needs to tell the two apart.
    """

    __slots__ = ("data", "path", "report")

    def __init__(self, report: Report, path: str, data: Mapping[str, object]) -> None:
        self.report = report
        self.path = path
        self.data = data

    def at(self, key: str) -> str:
        """The path of a field."""
        return f"{self.path}.{key}" if self.path else key

    def has(self, key: str) -> bool:
        """Whether the field is there and not null."""
        return self.data.get(key) is not None

    def error(self, key: str, message: str) -> None:
        """Report a problem with a field."""
        self.report.error(self.at(key), message)

    def warn(self, key: str, message: str) -> None:
        """Report a warning about a field."""
        self.report.warn(self.at(key), message)

    def missing(self, key: str, expected: str) -> None:
        """Report that a required field is not there."""
        self.error(key, f"missing, expected {expected}")

    def text(self, key: str) -> str | None:
        """A text."""
        value = self.data.get(key)
        if value is None or isinstance(value, str):
            return value
        hint = "" if isinstance(value, (dict, list)) else " (put it in quotes)"
        self.error(key, f"found {show(value)}, expected text{hint}")
        return None

    def word(self, key: str, words: Mapping[str, T]) -> T | None:
        """One of the words, as what it stands for."""
        value = self.text(key)
        if value is None:
            return None
        if value in words:
            return words[value]
        self.error(
            key,
            f"found {quote(value)}, expected {one_of(words)}{did_you_mean(value, words)}",
        )
        return None

    def number(self, key: str, lowest: int, highest: int) -> int | None:
        """A whole number within limits, both inclusive."""
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest:
            return value
        hint = " without quotes" if isinstance(value, str) and value.isdecimal() else ""
        self.error(key, f"found {show(value)}, expected a number from {lowest} to {highest}{hint}")
        return None

    def mapping(self, key: str) -> "Fields | None":
        """An object."""
        value = self.data.get(key)
        return None if value is None else as_object(self.report, self.at(key), value)

    def array(
        self, key: str, *, most: int | None = None, least: int = 0
    ) -> list[tuple[str, object]] | None:
        """A list's items, each with its path; ``most`` and ``least`` are the API's limits."""
        value = self.data.get(key)
        if value is None:
            return None
        if not isinstance(value, list):
            self.error(key, f"found {show(value)}, expected a list")
            return None
        if len(value) < least:
            self.error(key, f"found an empty list, expected at least {least} item")
        if most is not None and len(value) > most:
            self.error(key, f"found {len(value)} items, expected at most {most}")
        path = self.at(key)
        return [(f"{path}[{index}]", item) for index, item in enumerate(value)]

    def texts(
        self, key: str, *, most: int | None = None, least: int = 0, unique: bool = False
    ) -> list[tuple[str, str]] | None:
        """A list of texts, each with its path."""
        items = self.array(key, most=most, least=least)
        if items is None:
            return None
        found: list[tuple[str, str]] = []
        seen: dict[str, str] = {}
        for path, item in items:
            if not isinstance(item, str):
                self.report.error(path, f"found {show(item)}, expected text")
                continue
            if unique and item in seen:
                self.report.error(path, f"{quote(item)} stands twice, first at {seen[item]}")
                continue
            seen.setdefault(item, path)
            found.append((path, item))
        return found

    def unknown(self, known: Iterable[str]) -> tuple[str, ...]:
        """Fields that are not in ``known``, in order of appearance."""
        names = frozenset(known)
        return tuple(key for key in self.data if key not in names)

    def warn_unknown(self, known: Iterable[str], effect: str = "it is ignored") -> None:
        """Warn of every field that is not known: the API server drops it."""
        names = frozenset(known)
        for key in self.data:
            if key not in names:
                near = nearest(key, names) or _elsewhere(key, names)
                hint = f"did you mean {near!r}?" if near else f"known: {listed(names)}"
                self.warn(plain(key), f"{UNKNOWN_FIELD}, {effect}; {hint}")


# The same thing is called otherwise in another of these APIs.
_OTHERWISE = {"ports": "protocols", "protocols": "ports", "port": "ports", "ipBlock": "networks"}


def _elsewhere(key: str, names: frozenset[str]) -> str | None:
    found = _OTHERWISE.get(key)
    return found if found in names else None


def as_object(report: Report, path: str, value: object) -> Fields | None:
    """The value as an object; None after reporting that it is none."""
    if isinstance(value, dict):
        return Fields(report, path, value)
    report.error(path, f"found {show(value)}, expected an object")
    return None


def under(path: str, key: str) -> str:
    """The path of one entry of a map whose keys are data, such as a label."""
    return f"{path}[{plain(key)}]"


def one_of(words: Iterable[str]) -> str:
    """``A, B or C``."""
    found = list(words)
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} or {found[-1]}"


def listed(words: Iterable[str]) -> str:
    """Words sorted, for a message."""
    return ", ".join(sorted(words))


def unknown_field(what: str, effect: str, fields: tuple[str, ...], known: tuple[str, ...]) -> str:
    """Why a peer or port is kept as unknown, and what that does (semantics §4)."""
    if not fields:
        return f"empty {what}: {effect}; expected {one_of(known)}"
    names = ", ".join(plain(field) for field in fields)
    near = nearest(fields[0], known)
    hint = f"did you mean {near!r}?" if near else f"known here: {one_of(known)}"
    return f"unknown field {names}: {effect}; {hint}"
