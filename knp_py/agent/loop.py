"""The packet thread: queues, what other threads ask of it, and what is due now and then.

It alone touches the engine, so nothing there needs a lock. A flood in one queue holds nobody
else up: queues are drained a few packets at a time, in turn.
"""

from collections import deque
from collections.abc import Callable, Sequence

from knp_py.agent.ports import Poller, Queue, Timer

TICK = 0.05  # seconds
_LAST_TURNS = 512  # enough for full queues; whoever floods them does not keep us from ending

Job = Callable[[], object]


class PacketLoop:
    """``run`` belongs to the packet thread; ``post`` and ``stop`` to everybody.

    ``tick`` is called about every ``TICK`` seconds, with the time. ``beat`` is the timer's
    monotonic time at its last turn, 0 before the first.
    """

    def __init__(
        self,
        queues: Sequence[Queue],
        poller: Poller,
        timer: Timer,
        tick: Callable[[float], object],
    ) -> None:
        self.beat = 0
        self._queues = tuple(queues)
        self._poller = poller
        self._timer = timer
        self._tick = tick
        self._jobs: deque[Job] = deque()
        self._stopping = False

    def post(self, job: Job) -> None:
        """Have ``job`` done by the packet thread, before the next packet it reads."""
        self._jobs.append(job)
        self._poller.wake()

    def stop(self) -> None:
        """End ``run`` once the packets that wait now have their verdicts."""
        self._stopping = True
        self._poller.wake()

    def run(self) -> None:
        """Answer packets until ``stop``. Raises ``OSError`` when a queue fails."""
        due = 0
        while not self._stopping:
            self._turn(max(0.0, (due - self._timer.monotonic_ns()) / 1e9))
            self.beat = now = self._timer.monotonic_ns()
            if now >= due:
                due = now + int(TICK * 1e9)
                self._tick(self._timer.now())
        for _ in range(_LAST_TURNS):
            if not self._turn(0.0):
                break
        self._tick(self._timer.now())

    def _turn(self, timeout: float) -> bool:
        """One round; whether a packet waited anywhere."""
        ready = self._poller.wait(timeout)
        for queue in self._queues:
            while self._jobs:
                self._jobs.popleft()()
            if queue.fileno() in ready:
                queue.drain()
        while self._jobs:
            self._jobs.popleft()()
        return bool(ready)
