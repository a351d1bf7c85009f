"""Manifests that an agent follows, and what it says about its source."""

import time
from collections.abc import Callable
from typing import Protocol

from knp_py.adapters.manifestfiles import ManifestFiles
from knp_py.adapters.watch import Watcher
from knp_py.agent.metrics import Metrics
from knp_py.agent.source import Batch, ManifestSource
from knp_py.cli.nodeparts import Settings
from knp_py.cli.nodewords import Announcer, say


class Source(Protocol):
    """Where an agent has the cluster's objects from."""

    def fileno(self) -> int:
        """Readable when something may have changed."""
        ...

    def check(self) -> Batch:
        """What can be had at once; raises ``InputError`` where there is something wrong with it.

        Starts nothing that goes on beside the caller.
        """
        ...

    def begin(self, until: Callable[[float], bool], *, early: bool) -> Batch | None:
        """The rest of what there is at first, None when there was no more.

        It may take long: ``until`` waits for so many seconds and says whether to give up.
        When an ``early`` answer is wanted, what tells which addresses are this node's pods'
        is enough.
        """
        ...

    def look(self) -> Batch | None:
        """What has changed, if anything may have; None when nothing did."""
        ...

    def scan(self) -> Batch:
        """What has changed, looked at again whether anything may have or not."""
        ...

    def age(self) -> float:
        """Seconds since it was last sure that what it said is how it is."""
        ...

    def waits_for(self) -> str:
        """What it still waits for before it has said everything once; empty for nothing."""
        ...

    def watch(self, metrics: Metrics) -> None:
        """Let metrics show more about it."""
        ...

    def details(self) -> dict[str, object]:
        """More about it, for people."""
        ...

    def close(self) -> None:
        """Follow no more."""
        ...


class Followed:
    """Manifests that are followed, and what was said about them so far.

    ``called`` begins every line about them; ``option`` is what their paths were given by.
    """

    def __init__(self, paths: tuple[str, ...], called: str, option: str = "--manifests") -> None:
        self._watcher = Watcher(paths, say)
        self._source = ManifestSource(ManifestFiles(paths, self._watcher, option), time.time_ns)
        self._announce = Announcer(called)
        self._scanned_ns = 0

    def fileno(self) -> int:
        """Readable when something may have changed."""
        return self._watcher.fileno()

    def check(self) -> Batch:
        """All of them; raises ``ManifestError`` with every problem there is."""
        return self.scan()

    def begin(self, until: Callable[[float], bool], *, early: bool) -> Batch | None:
        """Nothing: all of them were checked."""
        del until, early
        return None

    def look(self) -> Batch | None:
        """What has changed, if anything may have; None when nothing did."""
        return self.scan() if self._watcher.wait(0) else None

    def scan(self) -> Batch:
        """Read what has changed, say what is newly wrong and what is well again."""
        batch = self._source.scan()
        self._scanned_ns = batch.scan_started_ns
        self._announce(
            batch._replace(problems=tuple(f"kept as it was before: {p}" for p in batch.problems))
        )
        return batch

    def age(self) -> float:
        """Seconds since the last scan began."""
        return max(0.0, (time.time_ns() - self._scanned_ns) / 1e9)

    def waits_for(self) -> str:
        """Nothing: they are there or the agent does not start."""
        return ""

    def watch(self, metrics: Metrics) -> None:
        """Nothing more."""

    def details(self) -> dict[str, object]:
        """Nothing more."""
        return {}

    def close(self) -> None:
        """Watch no more."""
        self._watcher.close()


def source_of(settings: Settings, table: str) -> Source:
    """Manifests where some were given, else a cluster; raises ``InputError``."""
    if settings.manifests:
        return Followed(settings.manifests, "")
    # HTTP and TLS take some megabytes that manifests need not pay for.
    from knp_py.cli.nodeapi import cluster_of  # noqa: PLC0415

    return cluster_of(settings, table)
