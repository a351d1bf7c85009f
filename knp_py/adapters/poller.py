"""Waiting for several descriptors, with a wake-up call from other threads."""

import os
import select
from collections.abc import Iterable
from contextlib import suppress


class Poller:
    """Level-triggered; ``wait`` belongs to one thread, ``wake`` to any."""

    def __init__(self, descriptors: Iterable[int] = ()) -> None:
        self._poll = select.poll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        for descriptor in (self._wake, *descriptors):
            self.add(descriptor)

    def add(self, descriptor: int) -> None:
        """Wait for this one too."""
        self._poll.register(descriptor, select.POLLIN)

    def wait(self, timeout: float) -> list[int]:
        """Descriptors that are readable, within ``timeout`` seconds; a wake-up ends the wait."""
        ready = [descriptor for descriptor, _ in self._poll.poll(max(0.0, timeout) * 1000)]
        if self._wake in ready:
            os.eventfd_read(self._wake)
            ready.remove(self._wake)
        return ready

    def wake(self) -> None:
        """End the wait, now or the next one; nothing when it is closed."""
        with suppress(OSError):
            os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._wake)
        self._wake = -1
