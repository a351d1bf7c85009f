"""Ending connections of pods that are gone, beside everything else."""

import threading
import time
from collections.abc import Callable

from knp_py.adapters.conntrack import forget_connections
from knp_py.errors import KernelError

_APART = 0.2  # seconds between two looks: in a large cluster some pod goes all the time


class Forgetting:
    """Call it with addresses. A large table takes seconds to read, and nobody waits for that.

    What comes while one is being read goes together into the next. ``say`` is told when it
    failed.
    """

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._waiting: set[int] = set()
        self._busy = False

    def __call__(self, addresses: frozenset[int]) -> None:
        """End all connections from and to these, soon."""
        with self._lock:
            self._waiting |= addresses
            if self._busy:
                return
            self._busy = True
        threading.Thread(target=self._work, name="forgetting", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                addresses, self._waiting = self._waiting, set()
                if not addresses:
                    self._busy = False
                    return
            try:
                forget_connections(addresses)
            except KernelError as error:
                self._say(f"connections of pods that are gone may go on: {error}")
            time.sleep(_APART)
