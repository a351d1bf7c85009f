"""What the agent needs of the world, as protocols: adapters are handed in by the caller."""

from typing import Protocol


class Queue(Protocol):
    """A kernel queue that is ours."""

    number: int

    def fileno(self) -> int:
        """A descriptor that is readable when packets wait."""
        ...

    def drain(self) -> None:
        """Answer packets that wait, a bounded number of them."""
        ...

    def close(self) -> None:
        """Give the number back; the kernel drops what still waits."""
        ...


class Poller(Protocol):
    """Waits for queues and for somebody's wake-up call."""

    def wait(self, timeout: float) -> list[int]:
        """Descriptors that are readable, within ``timeout`` seconds."""
        ...

    def wake(self) -> None:
        """End the wait; may be called from any thread."""
        ...


class Kernel(Protocol):
    """The rules."""

    def apply(self, ruleset: str) -> None:
        """One nftables transaction; raises ``KernelError`` and then nothing has changed."""
        ...


class Timer(Protocol):
    """The clocks: names live by the first, records carry the second, the third measures."""

    def now(self) -> float:
        """Seconds since boot, sleep included; no change of the wall clock moves them."""
        ...

    def wall_ns(self) -> int:
        """Nanoseconds since the epoch."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds from no particular moment, for measuring durations."""
        ...
