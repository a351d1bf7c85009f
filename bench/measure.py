"""Ratios that hold on a noisy machine: both sides in turn, medians of paired rounds."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple


class Paired(NamedTuple):
    """Medians in seconds of one call of each side, and the median of the pairwise ratios."""

    subject: float
    reference: float
    ratio: float


def paired(
    subject: Callable[[], object], reference: Callable[[], object], *, rounds: int = 15
) -> Paired:
    """Time both in turn, A B A B …, after one round that does not count."""
    pairs: list[tuple[float, float]] = []
    for number in range(rounds + 1):
        begin = time.perf_counter()
        subject()
        middle = time.perf_counter()
        reference()
        end = time.perf_counter()
        if number:
            pairs.append((middle - begin, end - middle))
    return Paired(
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


class Run(NamedTuple):
    """A whole process: wall seconds and its own peak memory in KiB."""

    seconds: float
    peak_kib: int


_LAUNCHER = """
import os, resource, subprocess, sys, time
begin = time.perf_counter()
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
seconds = time.perf_counter() - begin
print(code, seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def run(*argv: str) -> Run:
    """Run a command to its end, its output thrown away. Fails if the command does."""
    done = subprocess.run(
        [sys.executable, "-c", _LAUNCHER, *argv], capture_output=True, text=True, check=True
    )
    code, seconds, peak = done.stdout.split()
    if int(code):
        raise RuntimeError(f"{argv} ended with {code}")
    return Run(float(seconds), int(peak))
