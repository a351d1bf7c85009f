"""Counts over verdict entries, in bounded memory."""

from collections import Counter
from typing import Final

from knp_py.verdicts.read import VerdictEntry
from knp_py.verdicts.record import End, Omission
from knp_py.verdicts.words import candidate_text, decider_text

KEYS: Final = 20_000
"""Different flows that are counted apart; beyond it the rarest are counted together."""


def end_name(end: End) -> str:
    """The end as people know it: its pod, else a learned name with the address."""
    if end.pod:
        return str(end.pod)
    address = end.ip or str(end.service or "?")
    if end.name or end.names:
        return f"{address} ({end.name or end.names[0]})"  # type: ignore[index]
    return f"{address} (node {end.node})" if end.node else address


class Tally:
    """Counts by key that never holds more than twice ``keys`` keys.

    When full it keeps the most frequent and adds the rest up in ``other``.
    """

    def __init__(self, keys: int = KEYS) -> None:
        self._keys = keys
        self._counts: Counter[tuple[str, ...]] = Counter()
        self.other = 0

    def add(self, *key: str) -> None:
        """Count one."""
        self._counts[key] += 1
        if len(self._counts) > 2 * self._keys:
            kept = self._counts.most_common(self._keys)
            self.other += sum(self._counts.values()) - sum(count for _, count in kept)
            self._counts = Counter(dict(kept))

    def top(self, limit: int | None = None) -> list[tuple[tuple[str, ...], int]]:
        """Keys and counts, most first, ties by key."""
        ranked = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        return ranked if limit is None else ranked[:limit]


class Summary:
    """How many of what: verdicts, deciding objects, denied flows without source ports.

    ``dry_run`` counts what was not dropped although the verdict is no allow, ``again``
    what strict mode judged once more, ``shadows`` where candidate policies say otherwise
    (verdict, theirs, who decided theirs), ``omitted`` what the log left out, by verdict.
    ``unidentified`` counts entries with an address in a pod network that no known pod has,
    ``strangers`` those addresses.
    """

    def __init__(self) -> None:
        self.entries = 0
        self.dry_run = 0
        self.again = 0
        self.unidentified = 0
        self.strangers = Tally()
        self.omitted: Counter[str] = Counter()
        self.shadows = Tally()
        self.verdicts: Counter[str] = Counter()
        self.deciders = Tally()
        self.denied = Tally()

    def add(self, entry: VerdictEntry) -> None:
        """Count one entry."""
        self.entries += 1
        self.verdicts[entry.verdict] += 1
        decided = entry.decided_by
        direction = (decided.direction if decided else None) or entry.direction or ""
        self.deciders.add(entry.verdict, direction, decider_text(entry))
        self.dry_run += entry.enforced is False and entry.verdict != "allow"
        self.again += entry.again is True
        if entry.unidentified:
            self.unidentified += 1
            for address in entry.unidentified:
                self.strangers.add(address)
        if entry.shadow:
            self.shadows.add(entry.verdict, entry.shadow.verdict, candidate_text(entry.shadow))
        if entry.verdict == "deny":
            port = "" if not isinstance(entry.dst.port, int) else str(entry.dst.port)
            self.denied.add(end_name(entry.src), end_name(entry.dst), entry.protocol, port)

    def leave_out(self, omission: Omission) -> None:
        """Count what the log says it does not hold."""
        self.omitted.update(omission.omitted)
