"""Manifests that an agent follows, and what it says about them."""

import time

from knp_py.adapters.manifestfiles import ManifestFiles
from knp_py.adapters.watch import Watcher
from knp_py.agent.source import Batch, ManifestSource
from knp_py.cli.nodewords import say


class Followed:
    """Manifests that are followed, and what was said about them so far."""

    def __init__(self, paths: tuple[str, ...], called: str) -> None:
        self._called = called
        self._watcher = Watcher(paths, say)
        self._source = ManifestSource(ManifestFiles(paths, self._watcher), time.time_ns)
        self._said: set[str] = set()

    def fileno(self) -> int:
        """Readable when something may have changed."""
        return self._watcher.fileno()

    def look(self) -> Batch | None:
        """What has changed, if anything may have; None when nothing did."""
        return self.scan() if self._watcher.wait(0) else None

    def scan(self) -> Batch:
        """Read what has changed, say what is newly wrong and what is well again."""
        batch = self._source.scan()
        lines = {f"{self._called}{line}": "" for line in batch.problems}
        lines |= {f"{self._called}{line}": "warning: " for line in batch.warnings}
        for line, kind in lines.items():
            if line not in self._said:
                what = "" if kind else "kept as it was before: "
                say(f"{kind}{what}{line}")
        for line in sorted(self._said - set(lines)):
            say(f"no longer so: {line}")
        self._said = set(lines)
        return batch

    def close(self) -> None:
        """Watch no more."""
        self._watcher.close()
