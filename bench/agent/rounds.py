"""Each side in turn, again and again, in the same namespaces."""

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.agent.busy import Spent, between, moment
from bench.agent.sides import SIDES
from bench.agent.stage import Load, Stage, memory

CLIENTS = 64
QUIET = 0.10  # share of the machine that others may have while a rate is measured
_LOOK = 0.5  # seconds that the machine is looked at before it is called quiet


class Plan(NamedTuple):
    """``seconds`` of load as fast as it goes, half of that one connection at a time.

    Before each, up to ``patience`` seconds go by until the machine has nothing else to do;
    what others disturb all the same is measured again, in at most ``tries`` tries.
    """

    rounds: int
    seconds: float
    processes: int = 4  # that make connections; one alone is busy before the agent is
    tries: int = 4
    patience: float = 60.0


class Sample(NamedTuple):
    """One side in one round.

    ``core_us``: CPU time a connection, everybody's together, in microseconds. ``first`` are the
    median and the 99th percentile of connect() with one connection at a time, ``loaded`` those
    with all at once, in microseconds. ``queued`` and ``recorded`` are packets and records a
    connection. ``others`` is the share of the machine that the rest of the world had.
    """

    per_second: float
    core_us: float
    first: tuple[float, float]
    loaded: tuple[float, float]
    queued: float
    dropped: int
    failed: int
    recorded: float | None
    memory: tuple[float, float] | None
    others: float


def run(
    stage: Stage, sides: Sequence[str], plan: Plan, said: Callable[[str], object]
) -> dict[str, list[Sample]]:
    """Samples by side, in order. Raises ``RuntimeError`` for one that means nothing."""
    found: dict[str, list[Sample]] = {side: [] for side in sides}
    for number in range(plan.rounds):
        for side in sides:
            sample = _measure(stage, side, plan)
            found[side].append(sample)
            said(
                f"round {number + 1}: {side} {sample.per_second:,.0f}/s,"
                f" others {sample.others:.0%}"
            )
    return found


def _measure(stage: Stage, name: str, plan: Plan) -> Sample:
    side = SIDES[name]
    process = side.start(stage)
    try:
        made = int(
            _connect(stage, side.load, "-t", "0.3", "-j", str(plan.processes))["connections"]
        )
        before, _ = stage.queued()
        many, spent, tried = _quietly(
            stage, process, plan, side.load, "-c", str(CLIENTS), "-j", str(plan.processes),
            "-t", str(plan.seconds),
        )  # fmt: skip
        after, dropped = stage.queued()
        one, _, alone = _quietly(
            stage, process, plan, side.load, "-c", "1", "-t", str(plan.seconds / 2)
        )
        held = None if process is None else memory(process)
    finally:
        stage.clear(process)
    made += tried + alone
    queued = (after - before) / tried
    recorded = stage.recorded() / made if side.recorded else None
    if side.queued and queued < 0.98:
        raise RuntimeError(f"{name}: only {queued:.0%} of the connections came to the queue")
    if side.recorded and (recorded or 0) < 0.98:
        raise RuntimeError(f"{name}: only {recorded:.0%} of the connections were recorded")
    return Sample(
        many["per_second"], spent.ours / many["connections"] * 1e6,
        (one["p50_us"], one["p99_us"]), (many["p50_us"], many["p99_us"]),
        queued, dropped, int(many["failed"] + one["failed"]), recorded, held, spent.others,
    )  # fmt: skip


def _quietly(
    stage: Stage, process: subprocess.Popen[str] | None, plan: Plan, load: Load, *options: str
) -> tuple[dict[str, float], Spent, int]:
    """The load at a moment when nobody else needs the machine, or the least of it in some tries.

    With it the CPU time it took, and how many connections all tries made.
    """
    ours = [stage.server.pid] if process is None else [stage.server.pid, process.pid]
    best: tuple[dict[str, float], Spent] | None = None
    made = 0
    for _ in range(plan.tries):
        _await_quiet(ours, plan.patience)
        begin = moment(ours)
        result = _connect(stage, load, *options)
        spent = between(begin, moment(ours))
        made += int(result["connections"])
        if best is None or spent.others < best[1].others:
            best = (result, spent)
        if spent.others <= QUIET:
            break
    assert best is not None
    return *best, made


def _await_quiet(ours: Sequence[int], patience: float) -> None:
    until = time.monotonic() + patience
    while time.monotonic() < until:
        begin = moment(ours)
        time.sleep(_LOOK)
        if between(begin, moment(ours)).others <= QUIET:
            return


def _connect(stage: Stage, load: Load, *options: str) -> dict[str, float]:
    out = stage.network.run("client", str(stage.programs.connect_load), *options, *load.options)
    result: dict[str, float] = json.loads(out)
    if not result["connections"]:
        raise RuntimeError(f"no connection from {load.client} to {load.server} was opened")
    return result
