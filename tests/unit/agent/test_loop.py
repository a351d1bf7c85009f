"""The packet thread's loop: whose turn it is, what is done before what, how it ends."""

from collections.abc import Callable

import pytest
from helpers.fakes import FakePoller, FakeQueue, FakeTimer

from knp_py.agent.loop import TICK, PacketLoop

DENIED = 0x50


class Running:
    """A loop over two queues, and what happened in it."""

    def __init__(self, budget: int = 64) -> None:
        self.happened: list[str] = []
        self.ticks: list[float] = []
        self.timer = FakeTimer()
        self.queues = [FakeQueue(n, self._answer(n), budget=budget) for n in (1, 2)]
        self.poller = FakePoller(self.queues)
        self.loop = PacketLoop(self.queues, self.poller, self.timer, self._tick)

    def _answer(self, number: int) -> Callable[[int, bytes], int]:
        def answer(mark: int, data: bytes) -> int:
            del mark
            self.happened.append(f"{number}:{data.decode()}")
            return DENIED

        return answer

    def _tick(self, now: float) -> None:
        self.ticks.append(now)

    def run(self, *turns: Callable[[], object]) -> None:
        """Run; before the poller says what is ready, the next of ``turns`` happens, then stop."""
        left = list(turns)

        def on_wait() -> None:
            if left:
                left.pop(0)()
            else:
                self.loop.stop()

        self.poller.on_wait = on_wait
        self.loop.run()

    def put(self, number: int, *data: str) -> None:
        for each in data:
            self.queues[number - 1].put(each.encode())


@pytest.fixture
def running() -> Running:
    return Running()


def test_every_packet_gets_its_verdict(running: Running) -> None:
    running.put(1, *map(str, range(200)))
    running.put(2, *map(str, range(10)))
    running.run(*[bool] * 5)
    first, second = running.queues
    assert first.verdicts == dict.fromkeys(range(1, 201), DENIED)
    assert second.verdicts == dict.fromkeys(range(1, 11), DENIED)
    assert first.missing() == second.missing() == []


def test_a_flood_in_one_queue_does_not_hold_up_the_other() -> None:
    running = Running(budget=4)
    running.put(1, *map(str, range(1000)))
    running.put(2, "dns")
    running.run(bool)
    # At most one budget of the flood before it.
    assert running.happened.index("2:dns") <= 4


def test_a_flood_does_not_hold_up_the_tick() -> None:
    running = Running(budget=1)

    def flood() -> None:
        running.put(1, "x", "y")
        running.timer.pass_by(TICK / 4)

    running.run(*[flood] * 40)
    assert len(running.ticks) >= 40 / 4
    assert running.ticks == sorted(running.ticks)


def test_jobs_come_before_the_next_packet(running: Running) -> None:
    def world_changes() -> None:
        running.put(1, "a")
        running.put(2, "b")
        running.loop.post(lambda: running.happened.append("job"))

    running.run(world_changes)
    assert running.happened == ["job", "1:a", "2:b"]


def test_a_job_that_comes_while_one_queue_is_read_is_done_before_the_next_is(
    running: Running,
) -> None:
    def post(mark: int, data: bytes) -> int:
        del mark, data
        running.loop.post(lambda: running.happened.append("job"))
        return DENIED

    running.queues[0]._answer = post
    running.put(1, "a")
    running.put(2, "b")
    running.run(bool)
    assert running.happened == ["job", "2:b"]


def test_jobs_are_done_in_the_order_in_which_they_came(running: Running) -> None:
    done: list[int] = []

    def post() -> None:
        for number in range(5):
            running.loop.post(lambda number=number: done.append(number))  # type: ignore[misc]

    running.run(post)
    assert done == [0, 1, 2, 3, 4]


def test_whoever_posts_or_stops_ends_the_wait(running: Running) -> None:
    running.loop.post(bool)
    assert running.poller.woken == 1
    running.loop.stop()
    assert running.poller.woken == 2


def test_it_waits_no_longer_than_until_the_next_tick(running: Running) -> None:
    running.run(bool, lambda: running.timer.pass_by(TICK / 2), bool)
    first, second, third, *_ = running.poller.timeouts
    assert first == 0.0  # nothing has been done yet
    assert second == pytest.approx(TICK)
    assert third == pytest.approx(TICK / 2)
    assert all(0.0 <= timeout <= TICK for timeout in running.poller.timeouts)


def test_the_tick_says_the_time(running: Running) -> None:
    running.run(bool, lambda: running.timer.pass_by(5.0))
    assert running.ticks[0] == 1000.0
    assert running.ticks[-1] == 1005.0


def test_stop_answers_what_waits(running: Running) -> None:
    """What is not answered is dropped by the kernel when the queue is given back."""
    running.loop.stop()
    running.put(1, "a")
    running.put(2, "b")
    running.loop.run()
    assert running.happened == ["1:a", "2:b"]
    assert running.ticks == [1000.0]


def test_stop_answers_more_than_one_budget_of_what_waits() -> None:
    running = Running(budget=4)
    running.put(1, *map(str, range(50)))
    running.run()
    assert len(running.queues[0].verdicts) == 50


def test_stop_ends_also_when_packets_never_do() -> None:
    """Fail-closed: the rules stay, and whoever is cut off tries again and again."""
    running = Running(budget=4)

    def flood(mark: int, data: bytes) -> int:
        del mark
        running.queues[0].put(data)
        return DENIED

    running.queues[0]._answer = flood
    running.put(1, *"abcdefgh")
    running.run()
    assert len(running.poller.timeouts) < 100_000


def test_whoever_looks_sees_when_it_last_turned(running: Running) -> None:
    """A thread that hangs in one packet is not healthy, however much it lives."""
    assert running.loop.beat == 0
    seen: list[int] = []

    def look() -> None:
        seen.append(running.loop.beat)
        running.timer.pass_by(1.0)

    running.run(look, look, look)
    assert seen == [0, *(int((1001.0 + n) * 1e9) for n in range(2))]


def test_a_queue_that_fails_ends_it(running: Running) -> None:
    def drain() -> None:
        raise OSError("gone")

    running.queues[0].drain = drain  # type: ignore[method-assign]
    running.put(1, "a")
    with pytest.raises(OSError, match="gone"):
        running.run(bool)
