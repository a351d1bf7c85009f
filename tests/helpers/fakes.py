"""The agent's ports without a kernel: what they were asked to do is written down."""

from collections import deque
from collections.abc import Callable, Sequence

from knp_py.errors import KernelError

Answer = Callable[[int, bytes], int]


class FakeTimer:
    """Time stands still unless it is moved."""

    def __init__(self, now: float = 1000.0) -> None:
        self.time = now
        self.wall = 1_796_000_000_000_000_000

    def now(self) -> float:
        return self.time

    def wall_ns(self) -> int:
        return self.wall

    def monotonic_ns(self) -> int:
        return int(self.time * 1e9)

    def pass_by(self, seconds: float) -> None:
        self.time += seconds
        self.wall += int(seconds * 1e9)


class FakeKernel:
    """Rules in the kernel: every transaction it took, and everything that happened, in order.

    ``refuses`` holds what is to be refused: a word that the transaction contains.
    """

    def __init__(self, happened: list[str] | None = None) -> None:
        self.transactions: list[str] = []
        self.refuses: list[str] = []
        self.happened: list[str] = [] if happened is None else happened

    def apply(self, ruleset: str) -> None:
        kind = "replace" if "delete table" in ruleset else "update"
        if "flush table" in ruleset:
            kind = "install"
        if any(word in ruleset for word in self.refuses):
            self.happened.append(f"refused {kind}")
            raise KernelError(f"nft: no {kind} today")
        self.happened.append(kind)
        self.transactions.append(ruleset)


class FakeQueue:
    """A queue of packets, each to be answered exactly once.

    ``drain`` hands out at most ``budget`` of them, as the kernel's does; ``verdict`` refuses
    a second verdict, ``missing`` names packets that were handed out and got none.
    """

    def __init__(self, number: int, answer: Answer, *, budget: int = 64) -> None:
        self.number = number
        self.closed = False
        self.waiting: deque[tuple[int, int, bytes]] = deque()
        self.verdicts: dict[int, int] = {}
        self._answer = answer
        self._budget = budget
        self._count = 0
        self._handed_out: list[int] = []

    def put(self, data: bytes, mark: int = 0) -> int:
        """One more packet; its number."""
        self._count += 1
        self.waiting.append((self._count, mark, data))
        return self._count

    def fileno(self) -> int:
        return 1000 + self.number

    def drain(self) -> None:
        for _ in range(min(self._budget, len(self.waiting))):
            packet, mark, data = self.waiting.popleft()
            self._handed_out.append(packet)
            self.verdict(packet, self._answer(mark, data))

    def verdict(self, packet: int, mark: int) -> None:
        if packet in self.verdicts:
            raise AssertionError(f"packet {packet} of queue {self.number} has its verdict already")
        self.verdicts[packet] = mark

    def missing(self) -> list[int]:
        """Packets that nobody gave a verdict."""
        return [packet for packet in self._handed_out if packet not in self.verdicts]

    def close(self) -> None:
        self.closed = True


class FakePoller:
    """Says at once which queues have packets; ``on_wait`` is called before, with the timeout."""

    def __init__(self, queues: Sequence[FakeQueue]) -> None:
        self.timeouts: list[float] = []
        self.woken = 0
        self.on_wait: Callable[[], object] = bool
        self._queues = queues

    def wait(self, timeout: float) -> list[int]:
        self.timeouts.append(timeout)
        self.on_wait()
        return [queue.fileno() for queue in self._queues if queue.waiting]

    def wake(self) -> None:
        self.woken += 1
