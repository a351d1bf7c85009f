"""What the agent counts: cells that the packet thread adds to, and sources asked when scraped.

A cell is a list of one number. The packet thread asks for it once and then adds to it, which
costs less than anything with a lock. Everything else is a callable that is asked when somebody
scrapes, from the scraping thread: it must only copy what it reads. A count may be one packet
old, and a source that fails costs its own metric and nothing else.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate, count
from typing import Final

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


class Metrics:
    """Counts and sources; see ``FAMILIES`` for what they are called.

    ``max_policies`` bounds the values of the policy label: policies that decide something
    after that many others did are counted together as ``other``.

    ``observe`` takes the nanoseconds that a verdict took. ``next_id`` numbers records.
    """

    def __init__(self, *, version: str, mode: str, max_policies: int = 200) -> None:
        self.internal_errors = [0]
        self.unreadable = [0]
        self.shadow_differences = [0]
        self.next_id: Callable[[], int] = count(1).__next__
        self._buckets = [0] * (len(_BUCKETS) + 1)
        self._spent = [0]
        self.observe = _observer(self._buckets, self._spent)
        self._verdicts: dict[tuple[str, ...], list[int]] = {}
        self._packets: dict[str, list[int]] = {}
        self._policies: set[str] = set()
        self._max_policies = max_policies
        self._failed: dict[str, float] = {}
        self._described = {each.name: each for each in FAMILIES}
        self._sources: dict[str, Callable[[], Value | None]] = {
            "knp_info": lambda: {(version, mode): 1.0},
            "knp_packets_total": lambda: {
                queue: cell[0] for queue, cell in self._packets.copy().items()
            },
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

    def packet_cell(self, queue: int) -> list[int]:
        """The cell of packets read from this queue."""
        return self._packets.setdefault(str(queue), [0])

    def watch(self, name: str, source: Callable[[], Value | None]) -> None:
        """Ask ``source`` for the metric of this name; None says that there is no value now.

        Raises ``KeyError`` for a name that ``FAMILIES`` does not have.
        """
        if name not in self._described:
            raise KeyError(name)
        self._sources[name] = source

    def families(self) -> Iterator[Family]:
        """All that have a value now, in the order of ``FAMILIES``. Never raises."""
        for described in FAMILIES:
            try:
                samples = self._samples(described)
            except Exception:  # noqa: BLE001 - a scrape shows what it can, whatever one source does
                self._failed[described.name] = self._failed.get(described.name, 0.0) + 1.0
                continue
            if samples is not None:
                yield Family(described.kind, described.name, described.help, samples)

    def _samples(self, described: Described) -> tuple[Sample, ...] | None:
        if described.kind == "histogram":
            return self._histogram()
        if described.name == "knp_verdicts_total":
            return tuple(
                Sample("", tuple(zip(described.labels, key, strict=True)), cell[0])
                for key, cell in self._verdicts.copy().items()
            )
        source = self._sources.get(described.name)
        value = None if source is None else source()
        if value is None:
            return None
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
        *below, total = accumulate(list(self._buckets))
        bounds = [repr(bound / 1e9) for bound in _BUCKETS]
        return (
            *(
                Sample("_bucket", (("le", bound),), number)
                for bound, number in zip((*bounds, "+Inf"), (*below, total), strict=True)
            ),
            Sample("_count", (), total),
            Sample("_sum", (), self._spent[0] / 1e9),
        )


def _observer(buckets: list[int], spent: list[int]) -> Callable[[int], None]:
    """Adds a time to the histogram; a closure, since it is called for every packet."""
    bounds = _BUCKETS

    def observe(nanoseconds: int) -> None:
        buckets[bisect_left(bounds, nanoseconds)] += 1
        spent[0] += nanoseconds

    return observe
