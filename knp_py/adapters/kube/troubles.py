"""What keeps resources from being followed, said once and not for each of them."""

import threading
import time
from collections.abc import Callable

_MOST = 20  # reasons that are said of one outage: some have a number that is another each time
_BRIEF = 5.0  # seconds; a failure so soon after it was heard is one more in a row
_PASSES = 2  # failures in a row of one resource before anybody is told: connections do break


class Troubles:
    """Shared by all followers of one server; called from their threads.

    ``say`` is given a line. ``now`` is in seconds.
    """

    def __init__(
        self, say: Callable[[str], object], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = say
        self._now = now
        self._lock = threading.Lock()
        self._count: dict[str, int] = {}  # failures in a row, of those in trouble
        self._brief: dict[str, tuple[float, int]] = {}  # when it was over, after how many
        self._said: set[str] = set()
        self._since = 0.0

    def note(self, resource: str, why: str, *, known: bool = True) -> None:
        """One more failure; ``known`` says whether the resource was ever listed."""
        with self._lock:
            if not self._count:
                self._since = self._now()
            when, before = self._brief.pop(resource, (0.0, 0))
            if self._now() - when > _BRIEF:
                before = 0
            self._count[resource] = self._count.get(resource, before) + 1
            if self._count[resource] < _PASSES or why in self._said or len(self._said) >= _MOST:
                return
            self._said.add(why)
        after = "what was known goes on" if known else "nothing is known of it yet"
        self._say(f"{resource}: {why}; {after}")

    def over(self, resource: str) -> None:
        """This one is heard."""
        with self._lock:
            count = self._count.pop(resource, None)
            if count is None:
                return
            self._brief[resource] = self._now(), count
            if self._count or not self._said:
                return
            self._said.clear()
            seconds = self._now() - self._since
        self._say(f"the API server is heard again, after {seconds:,.0f} s")
