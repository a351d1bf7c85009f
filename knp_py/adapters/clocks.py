"""The clocks of a live agent.

Names live by the time since boot, which runs on through a suspended machine and which nobody
sets; records carry the wall clock.
"""

import time
from pathlib import Path

_BOOT = time.CLOCK_BOOTTIME


class BootClock:
    """``now`` may be moved forward by the seconds that ``offset_file`` holds.

    Only the lab does that, where nobody wants to wait for a name's life to end. ``offset`` is
    how far.
    """

    def __init__(self, offset_file: Path | None = None) -> None:
        self._file = offset_file
        self.offset = 0.0
        self._read = -1
        self.reread()

    def reread(self) -> None:
        """Take over the offset, if the file has changed. It never moves time back."""
        if self._file is None:
            return
        try:
            changed = self._file.stat().st_mtime_ns
            if changed != self._read:
                self.offset = max(self.offset, float(self._file.read_text() or 0))
                self._read = changed
        except (OSError, ValueError):
            return  # not there yet, or being written

    def now(self) -> float:
        """Seconds since boot, sleep included."""
        return time.clock_gettime(_BOOT) + self.offset

    def wall_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Nanoseconds for measuring durations."""
        return time.perf_counter_ns()
