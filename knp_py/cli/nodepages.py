"""What a running agent shows of itself: metrics, health, readiness, status."""

import time
from collections.abc import Callable, Iterable, Mapping

from knp_py import __version__
from knp_py.adapters.clocks import BootClock
from knp_py.adapters.http import Pages
from knp_py.adapters.kernelqueue import KernelQueue
from knp_py.adapters.namefile import NameFile
from knp_py.adapters.queuestats import QueueState, read_queues
from knp_py.adapters.rules import Rules
from knp_py.agent.chains import turn
from knp_py.agent.gauges import watch_engine
from knp_py.agent.metrics import Metrics
from knp_py.agent.source import Batch
from knp_py.agent.world import WorldKeeper
from knp_py.cli.nodemanifests import Source
from knp_py.cli.nodeparts import Parts, Settings

_FRESH = 1.0  # seconds for which what the kernel said is good enough
_SETS = tuple(f"{name}{version}" for name in ("learned", "denied") for version in (4, 6))


class Overview:
    """Gathers what the pages show; read from the server's threads, so it only copies.

    ``batch`` is what the last look at the manifests gave, set by the main thread. ``healthy``
    and ``ready`` give None or the reason why not.
    """

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        parts: Parts,
        keeper: WorldKeeper,
        rules: Rules,
        *,
        source: Source,
        clock: BootClock,
        batch: Batch,
        healthy: Callable[[], str | None],
        ready: Callable[[], str | None],
    ) -> None:
        self.batch = batch
        self._source = source
        self._clock = clock
        self._healthy = healthy
        self._settings = settings
        self._metrics = metrics
        self._parts = parts
        self._keeper = keeper
        self._rules = rules
        self._ready = ready
        self._counters: Mapping[str, int] = {}
        self._counted = 0.0

    def pages(self) -> Pages:
        """For the server."""
        return Pages(self._scrape, self._healthy, self._ready, self._status)

    def watch(
        self, queues: list[KernelQueue], numbers: tuple[int, ...], kept: NameFile | None
    ) -> None:
        """Tell the metrics where to look."""
        parts, keeper, watch = self._parts, self._keeper, self._metrics.watch
        watch("knp_packets_total", lambda: {str(q.number): q.packets for q in queues})
        watch("knp_queue_depth", lambda: _per_queue(numbers, lambda state: state.waiting))
        watch("knp_queue_dropped_total", lambda: _dropped(numbers))
        watch("knp_bypassed_total", lambda: self._counter("bypassed"))
        watch(
            "knp_remembered_total",
            lambda: {"allow": self._counter("remembered"), "deny": self._counter("refused")},
        )
        if self._settings.mode.remember:
            watch(
                "knp_learned_set_size",
                lambda: {
                    name: self._rules.set_size(f"{name}{turn(keeper.generation)}")
                    for name in _SETS
                },
            )
        logs = [parts.log, *([] if parts.packets is None else [parts.packets])]
        watch_engine(self._metrics, datapath=parts.datapath, names=parts.names, logs=logs)
        if kept is not None:
            watch("knp_name_file_bytes", lambda: kept.size)
            watch("knp_name_file_lost_total", lambda: kept.lost)
        watch("knp_generation", lambda: keeper.generation)
        watch("knp_objects", lambda: dict(self.batch.objects))
        watch("knp_managed_pods", lambda: keeper.managed_pods)
        watch("knp_policy_problems", lambda: len(self.batch.problems))
        watch("knp_source_age_seconds", self._source.age)
        self._source.watch(self._metrics)

    def _counter(self, name: str) -> int:
        now = time.monotonic()
        if now - self._counted > _FRESH:
            self._counters = self._rules.counters()
            self._counted = now
        return self._counters.get(name, 0)

    def _scrape(self, accept: str) -> tuple[str, bytes]:
        # A third of the agent's start-up time, and nobody has asked yet.
        from knp_py.adapters.exposition import render  # noqa: PLC0415

        return render(self._metrics.families(), accept)

    def _status(self) -> object:
        keeper, batch, mode = self._keeper, self.batch, self._settings.mode
        return {
            "version": __version__,
            "generation": keeper.generation,
            "mode": "fail-open" if mode.fail_open else "fail-closed",
            "strict": mode.strict,
            "dry_run": mode.dry_run,
            "remember": mode.remember,
            "queue": self._rules.how,
            "managed_pods": keeper.managed_pods,
            "clock_offset": self._clock.offset,
            "source": {
                "age_seconds": round(self._source.age(), 3),
                "waits_for": self._source.waits_for(),
                **self._source.details(),
                "scan_started_ns": batch.scan_started_ns,
                "objects": dict(batch.objects),
                "problems": list(batch.problems),
                "warnings": list(batch.warnings),
            },
        }


def _per_queue(numbers: Iterable[int], value: Callable[[QueueState], float]) -> dict[str, float]:
    return {str(n): value(state) for n, state in read_queues().items() if n in numbers}


def _dropped(numbers: Iterable[int]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for number, state in read_queues().items():
        if number in numbers:
            found[str(number), "queue-full"] = state.dropped
            found[str(number), "socket-full"] = state.lost
    return found
