"""Whose CPU time it was: a rate counts only when the machine had nothing else to do.

Both cores are busy while connections are made as fast as they go, so whatever else runs takes
its share of the rate. The CPU time that a connection took, everybody's together, suffers less.
"""

import resource
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

_TICKS = 100  # of /proc, a second; the kernel's USER_HZ on every architecture that matters here


class Moment(NamedTuple):
    """CPU seconds since boot: of the machine, idle included; of everybody; of us."""

    machine: float
    everybody: float
    ours: float


class Spent(NamedTuple):
    """Between two moments: CPU seconds of ours, and the share of the machine that others had."""

    ours: float
    others: float


def moment(processes: Iterable[int]) -> Moment:
    """Now. Ours are these processes, children that have ended, and the kernel's packet threads."""
    first = Path("/proc/stat").read_text().splitlines()[0]
    fields = [int(field) / _TICKS for field in first.split()[1:9]]
    idle = fields[3] + fields[4]
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    ours = ended.ru_utime + ended.ru_stime
    ours += sum(_used(process) for process in (*processes, *_packet_threads()))
    return Moment(sum(fields), sum(fields) - idle, ours)


def between(begin: Moment, end: Moment) -> Spent:
    """What was spent from one moment to the other."""
    ours = end.ours - begin.ours
    machine = end.machine - begin.machine
    others = end.everybody - begin.everybody - ours
    return Spent(ours, max(0.0, others / machine) if machine else 0.0)


@cache
def _packet_threads() -> list[int]:
    """ksoftirqd, one a core: packets that were handed on come to lie there."""
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if path.read_text().startswith("ksoftirqd"):
                found.append(int(path.parent.name))
    return found


def _used(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
