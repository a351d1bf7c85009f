"""One copy of what ten thousand pods have in common.

Texts, label maps and small tuples repeat endlessly in a cluster; keeping one of each is
most of what makes a pod cost a kilobyte instead of five.
"""

from collections.abc import Hashable, Mapping
from typing import TypeVar

from knp_py.manifests.problems import Report
from knp_py.manifests.selectors import check_labels
from knp_py.model.net import parse_address

H = TypeVar("H", bound=Hashable)

_NO_LABELS: Mapping[str, str] = {}


class Sharing:
    """Tables that live while one input is loaded. Shared values must not be changed."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._values: dict[Hashable, Hashable] = {}
        self._labels: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
        self._checked: set[tuple[str, str]] = set()
        self._addresses: dict[str, int] = {}

    def text(self, text: str | None) -> str:
        """The one copy of a text; empty for None."""
        return self._texts.setdefault(text, text) if text else ""

    def value(self, value: H) -> H:
        """The one copy of an immutable value."""
        return self._values.setdefault(value, value)  # type: ignore[return-value]

    def labels(
        self, report: Report, path: str, labels: Mapping[str, str] | None
    ) -> Mapping[str, str]:
        """The one copy of a label map; each distinct label is validated once."""
        if not labels:
            return _NO_LABELS
        key = tuple(sorted(labels.items()))
        found = self._labels.get(key)
        if found is not None:
            return found
        fresh = [pair for pair in key if pair not in self._checked]
        good = check_labels(report, path, fresh)
        self._checked.update(good)
        if len(good) < len(fresh):
            return labels
        text = self.text
        found = {text(name): text(value) for name, value in key}
        self._labels[key] = found
        return found

    def address(self, text: str) -> int:
        """An address parsed once; raises ``ValueError``."""
        found = self._addresses.get(text)
        if found is None:
            found = self._addresses[text] = parse_address(text)
        return found
