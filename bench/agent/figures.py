"""Samples to medians and ratios, as a table and as JSON."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bench.agent.rounds import Sample
from bench.agent.sides import LIMITS, SIDES, Limit

Samples = Mapping[str, Sequence[Sample]]


class Ratio(NamedTuple):
    """The median of the rounds' ratios, and whether that is enough (None: nobody asks)."""

    limit: Limit
    value: float
    enough: bool | None


def median(samples: Sequence[Sample], of: Callable[[Sample], float]) -> float:
    """Over the rounds."""
    return statistics.median(of(sample) for sample in samples)


def ratios(samples: Samples) -> list[Ratio]:
    """Those of ``LIMITS`` that both sides were measured for, rate by rate of the same round."""
    found = []
    for limit in LIMITS:
        if limit.side in samples and limit.reference in samples:
            pairs = zip(samples[limit.side], samples[limit.reference], strict=True)
            value = statistics.median(a.per_second / b.per_second for a, b in pairs)
            enough = None if limit.least is None else value >= limit.least
            found.append(Ratio(limit, value, enough))
    return found


def added(samples: Samples, side: str, percentile: int) -> float | None:
    """Microseconds that a first packet takes longer than with no agent: 0 the median, 1 p99."""
    if "none" not in samples:
        return None
    pairs = zip(samples[side], samples["none"], strict=True)
    return statistics.median(a.first[percentile] - b.first[percentile] for a, b in pairs)


def table(samples: Samples) -> str:
    """Medians over the rounds, a line a side; then the ratios."""
    head = ("", "conn/s", "of C", "of none", "core µs", "+p50 µs", "+p99 µs", "p50 ms", "p99 ms",
            "RSS MiB", "PSS MiB")  # fmt: skip
    rows: list[tuple[str, ...]] = [head]
    for side, taken in samples.items():
        rate = median(taken, lambda s: s.per_second)
        held = [s.memory for s in taken if s.memory is not None]
        rows.append(
            (
                SIDES[side].title,
                f"{rate:,.0f}",
                *(_against(samples, side, other) for other in ("c", "none")),
                f"{median(taken, lambda s: s.core_us):.1f}",
                *(_number(added(samples, side, which)) for which in (0, 1)),
                *(f"{median(taken, lambda s: s.loaded[w]) / 1e3:.2f}" for w in (0, 1)),  # noqa: B023
                *(f"{statistics.median(m[w] for m in held):.0f}" if held else "" for w in (0, 1)),
            )
        )
    widths = [max(len(row[n]) for row in rows) for n in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if not n else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    lines.append("")
    for limit, value, enough in ratios(samples):
        bound = "" if limit.least is None else f" (at least {limit.least:g})"
        verdict = {None: "", True: "", False: "  MISSED"}[enough]
        one, other = SIDES[limit.side].title, SIDES[limit.reference].title
        lines.append(f"FIGURE {one} / {other}: {value:.2f}{bound}{verdict}")
    return "\n".join(lines)


def document(samples: Samples) -> dict[str, Any]:
    """Everything that was measured, and what was made of it."""
    return {
        "sides": {
            side: {"title": SIDES[side].title, "rounds": [s._asdict() for s in taken]}
            for side, taken in samples.items()
        },
        "ratios": [
            {"side": r.limit.side, "reference": r.limit.reference, "ratio": round(r.value, 4),
             "least": r.limit.least, "enough": r.enough}
            for r in ratios(samples)
        ],
        "added_us": {
            side: {"p50": added(samples, side, 0), "p99": added(samples, side, 1)}
            for side in samples
        },
    }  # fmt: skip


def _against(samples: Samples, side: str, reference: str) -> str:
    if reference not in samples:
        return ""
    pairs = zip(samples[side], samples[reference], strict=True)
    return f"{statistics.median(a.per_second / b.per_second for a, b in pairs):.2f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"
