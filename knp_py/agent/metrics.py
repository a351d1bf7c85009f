"""What the agent counts: cells that the packet thread adds to, and sources asked when scraped.

A cell is a list of one number. The packet thread asks for it once and then adds to it, which
costs less than anything with a lock. Everything else is a callable that is asked when somebody
scrapes, from the scraping thread: it must only copy what it reads. A count may be one packet
old, and a source that fails costs its own metric and nothing else.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, count
from typing import Any, Final, NamedTuple

from knp_py.agent.families import FAMILIES, Described, Family, Sample
from knp_py.model.decision import Decision

Value = float | Mapping[str, float] | Mapping[tuple[str, str], float]
"""Of a metric without labels, with one, with two in the order of ``FAMILIES``."""

OTHER: Final = "other"
"""The value of a label beyond its bound."""

_BUCKETS = (
    *(5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000),  # nanoseconds
    *(1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000, 100_000_000),
)
_MOST_VALUES = 200  # different labels that a source may give


_ADDED_UP = (
    "knp_packets_total",
    "knp_internal_errors_total",
    "knp_unreadable_total",
    "knp_shadow_differences_total",
    "knp_unparsed_total",
    "knp_log_lines_omitted_total",
)


class Tally(NamedTuple):
    """What one process counted so far, for another to add up."""

    verdicts: dict[tuple[str, ...], int]
    buckets: list[int]
    spent: int
    values: dict[str, Value]


class Metrics:
    """Counts and sources; see ``FAMILIES`` for what they are called.

    ``max_policies`` bounds the values of the policy label: policies that decide something
    after that many others did are counted together as ``other``.

    ``observe`` takes the nanoseconds that a verdict took. ``next_id`` numbers records.
    ``others`` gives what other processes of this agent counted, asked once a scrape.
    """

    def __init__(self, *, version: str, mode: str, max_policies: int = 200) -> None:
        self.internal_errors = [0]
        self.unreadable = [0]
        self.shadow_differences = [0]
        self.next_id: Callable[[], int] = count(1).__next__
        self.others: Callable[[], Sequence[Tally]] = tuple
        self._tallies: Sequence[Tally] = ()
        self._buckets = [0] * (len(_BUCKETS) + 1)
        self._spent = [0]
        self.observe = _observer(self._buckets, self._spent)
        self._verdicts: dict[tuple[str, ...], list[int]] = {}
        self._policies: set[str] = set()
        self._max_policies = max_policies
        self._failed: dict[str, float] = {}
        self._described = {each.name: each for each in FAMILIES}
        self._sources: dict[str, Callable[[], Value | None]] = {
            "knp_info": lambda: {(version, mode): 1.0},
            "knp_internal_errors_total": lambda: self.internal_errors[0],
            "knp_unreadable_total": lambda: self.unreadable[0],
            "knp_shadow_differences_total": lambda: self.shadow_differences[0],
            "knp_scrape_errors_total": lambda: self._failed,
        }

    def verdict_cell(self, decision: Decision) -> list[int]:
        """The cell of verdicts like this one."""
        ruling = decision.decided_by
        if ruling is None:
            key = (decision.verdict.value, "", "", "")
        else:
            policy = ruling.policy or ""
            if policy not in self._policies:
                if len(self._policies) < self._max_policies or not policy:
                    self._policies.add(policy)
                else:
                    policy = OTHER
            key = (decision.verdict.value, ruling.direction.text, ruling.tier.text, policy)
        return self._verdicts.setdefault(key, [0])

    def watch(self, name: str, source: Callable[[], Value | None]) -> None:
        """Ask ``source`` for the metric of this name; None says that there is no value now.

        Raises ``KeyError`` for a name that ``FAMILIES`` does not have.
        """
        if name not in self._described:
            raise KeyError(name)
        self._sources[name] = source

    def families(self) -> Iterator[Family]:
        """All that have a value now, in the order of ``FAMILIES``. Never raises."""
        self._tallies = self.others()
        for described in FAMILIES:
            try:
                samples = self._samples(described)
            except Exception:  # noqa: BLE001 - a scrape shows what it can, whatever one source does
                self._failed[described.name] = self._failed.get(described.name, 0.0) + 1.0
                continue
            if samples is not None:
                yield Family(described.kind, described.name, described.help, samples)

    def tally(self) -> Tally:
        """What this process counted."""
        values: dict[str, Value] = {}
        for name in _ADDED_UP:
            value = self._sources[name]() if name in self._sources else None
            if value is not None:
                values[name] = dict(value) if isinstance(value, Mapping) else value
        verdicts = {key: cell[0] for key, cell in self._verdicts.copy().items()}
        return Tally(verdicts, list(self._buckets), self._spent[0], values)

    def _samples(self, described: Described) -> tuple[Sample, ...] | None:
        if described.kind == "histogram":
            return self._histogram()
        if described.name == "knp_verdicts_total":
            verdicts = Counter({key: cell[0] for key, cell in self._verdicts.copy().items()})
            for each in self._tallies:
                verdicts.update(each.verdicts)
            return tuple(
                Sample("", tuple(zip(described.labels, key, strict=True)), number)
                for key, number in verdicts.items()
            )
        source = self._sources.get(described.name)
        value = None if source is None else source()
        if value is None:
            return None
        for each in self._tallies:
            value = _sum(value, each.values.get(described.name, 0))
        if not isinstance(value, Mapping):
            return (Sample("", (), float(value)),)
        found: dict[tuple[str, ...], float] = {}
        for labels, number in dict(value).items():
            key: tuple[str, ...] = (labels,) if isinstance(labels, str) else labels
            if len(found) >= _MOST_VALUES and key not in found:
                key = (OTHER,) * len(described.labels)
            found[key] = found.get(key, 0.0) + float(number)
        return tuple(
            Sample("", tuple(zip(described.labels, key, strict=True)), number)
            for key, number in found.items()
        )

    def _histogram(self) -> tuple[Sample, ...]:
        buckets = [list(self._buckets), *(each.buckets for each in self._tallies)]
        *below, total = accumulate(map(sum, zip(*buckets, strict=True)))
        spent = self._spent[0] + sum(each.spent for each in self._tallies)
        bounds = [repr(bound / 1e9) for bound in _BUCKETS]
        return (
            *(
                Sample("_bucket", (("le", bound),), number)
                for bound, number in zip((*bounds, "+Inf"), (*below, total), strict=True)
            ),
            Sample("_count", (), total),
            Sample("_sum", (), spent / 1e9),
        )


def _sum(value: Value, more: Value) -> Value:
    if isinstance(value, Mapping):
        total: dict[Any, float] = dict(value)
        for key, number in more.items() if isinstance(more, Mapping) else ():
            total[key] = total.get(key, 0) + number
        return total
    return value if isinstance(more, Mapping) else value + more


def _observer(buckets: list[int], spent: list[int]) -> Callable[[int], None]:
    """Adds a time to the histogram; a closure, since it is called for every packet."""
    bounds = _BUCKETS

    def observe(nanoseconds: int) -> None:
        buckets[bisect_left(bounds, nanoseconds)] += 1
        spent[0] += nanoseconds

    return observe
