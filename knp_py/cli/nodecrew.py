"""More processes that judge, each with a queue of its own: ``knp agent --queues N``.

The kernel spreads new connections over their queues (fanout). What has to be seen by one
process alone stays with the parent: DNS, untracked packets, connections judged again. Workers
are forked when the first world is compiled; they get every change after that, and every
learned name before the answer is released that it was in.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from knp_py.adapters.clocks import BootClock
from knp_py.adapters.forked import fork
from knp_py.adapters.kernelqueue import KernelQueue
from knp_py.adapters.poller import Poller
from knp_py.agent.connections import NamedConnections
from knp_py.agent.loop import PacketLoop
from knp_py.agent.metrics import Metrics, Tally
from knp_py.agent.world import WorldKeeper
from knp_py.cli.nodeparts import Parts, Settings
from knp_py.engine.names import SavedName
from knp_py.engine.state import ClusterState
from knp_py.errors import KnpError
from knp_py.model.changes import Change

_PATIENCE = 0.25  # seconds that an answer waits for a worker to take its names in
_MESSAGES = 64  # at a time


class Duty(NamedTuple):
    """What a worker goes on with: copies of its own, from the fork on."""

    settings: Settings
    parts: Parts
    keeper: WorldKeeper
    metrics: Metrics
    candidates: ClusterState
    clock: BootClock
    tick: Callable[[float], object]


class _Way:
    """Both ends of the two ways to a worker."""

    def __init__(self, queue: int) -> None:
        self.queue = queue
        self.control, self.orders = Pipe()  # the parent's end first
        self.names, self.heard = Pipe()
        self.lock = threading.Lock()  # one question at a time

    def ask(self, question: object) -> Any:
        """What the worker says to it. Raises ``OSError`` or ``EOFError`` when it is gone."""
        with self.lock:
            self.control.send(question)
            return self.control.recv()


class Feed:
    """Messages from another process, read by a packet thread between its packets."""

    def __init__(self, connection: Connection, take: Callable[[Any], object]) -> None:
        self._connection = connection
        self._take = take
        self.number = -1

    def fileno(self) -> int:
        """Readable when there are messages."""
        return self._connection.fileno()

    def drain(self) -> None:
        """Take what is there. Raises ``OSError`` when the other process has ended."""
        for _ in range(_MESSAGES):
            if not self._connection.poll():
                return
            try:
                self._take(self._connection.recv())
            except EOFError:
                raise OSError("the process at the other end has ended") from None

    def close(self) -> None:
        """Hear no more of it."""
        self._connection.close()


class Crew:
    """The workers of one agent; none where one process does everything."""

    def __init__(self, queues: Iterable[int]) -> None:
        self.late = 0  # times that a worker did not take names in in time
        self._ways = [_Way(queue) for queue in queues]
        self._learned: list[SavedName] = []
        self._batch = 0
        self._opened: NamedConnections | None = None

    def start(self, duty: Duty) -> None:
        """Fork them, while this process has one thread."""
        step = len(self._ways) + 1
        for number, way in enumerate(self._ways, 1):
            duty.metrics.next_id = count(number, step).__next__
            fork(partial(_work, duty, way, self._ways))
        duty.metrics.next_id = count(step, step).__next__
        self._opened = duty.parts.connections
        for way in self._ways:
            way.orders.close()
            way.heard.close()
        if self._ways:
            duty.metrics.others = self._tallies
            for way in self._ways:
                _demand(way.ask(("ready",)))

    def feeds(self) -> list[Feed]:
        """What workers tell the packet thread. Its loop ends when one of them does."""
        return [Feed(way.names, self._told) for way in self._ways]

    def learn(self, saved: SavedName) -> None:
        """A name for every worker; told before ``release`` comes back."""
        if self._ways:
            self._learned.append(saved)

    def release(self) -> None:
        """Have every worker know what was learned, or wait for it no longer."""
        if not self._learned:
            return
        self._batch += 1
        for way in self._ways:
            way.names.send((self._batch, self._learned))
        self._learned = []
        end = time.monotonic() + _PATIENCE
        for way in self._ways:
            answer: object = None
            while answer != self._batch:
                if not way.names.poll(max(0.0, end - time.monotonic())):
                    self.late += 1
                    break
                answer = way.names.recv()
                self._told(answer)

    def change(self, generation: int, changes: Sequence[Change]) -> None:
        """Put a world in force with all of them; comes back when it is."""
        for way in self._ways:
            _demand(way.ask(("world", generation, changes)))

    def candidates(self, changes: Sequence[Change]) -> None:
        """The same for the candidate policies."""
        for way in self._ways:
            _demand(way.ask(("candidates", changes)))

    def stop(self) -> None:
        """Have them answer what waits, and end."""
        for way in self._ways:
            try:
                way.ask(("stop",))
            except (OSError, EOFError):
                continue  # it has

    def _told(self, message: object) -> None:
        if isinstance(message, tuple) and self._opened is not None:
            connection, grants = message
            if grants:
                self._opened.put(connection, grants)
            else:
                self._opened.forget(connection)

    def _tallies(self) -> list[Tally]:
        found: list[Tally] = []
        for way in self._ways:
            try:
                found.append(way.ask(("tally",)))
            except (OSError, EOFError):
                continue  # whoever reads its names notices
        return found


def _demand(answer: object) -> None:
    if answer is not None:
        raise KnpError(f"a worker says: {answer}")


def _work(duty: Duty, way: _Way, ways: Sequence[_Way]) -> int:
    """A worker's life."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # the parent tells when it is over
    for other in ways:
        other.control.close()
        other.names.close()
        if other is not way:
            other.orders.close()
            other.heard.close()
    return _Workplace(duty, way).run()


class _Workplace:
    """What a worker does: its main thread takes orders, its packet thread judges."""

    def __init__(self, duty: Duty, way: _Way) -> None:
        self._duty = duty
        self._way = way
        self._failure = ""
        if duty.parts.connections is not None:
            duty.parts.connections.on_put = self._opened

    def run(self) -> int:
        duty, way = self._duty, self._way
        question = way.orders.recv()  # "ready?": before that it has no queue
        try:
            queue = KernelQueue(
                way.queue,
                duty.parts.judge.answer,
                length=duty.settings.queue_length,
                fail_open=duty.settings.mode.fail_open,
            )
        except KnpError as error:
            way.orders.send(str(error))
            return 3
        feed = Feed(way.heard, self._hear)
        poller = Poller([feed.fileno(), queue.fileno()])
        duty.metrics.watch("knp_packets_total", lambda: {str(queue.number): queue.packets})
        self._loop = PacketLoop([feed, queue], poller, duty.clock, duty.tick)
        packets = threading.Thread(target=self._judge, name="packets", daemon=True)
        packets.start()
        while question[0] != "stop":
            way.orders.send(self._obey(question))
            question = way.orders.recv()
        self._loop.stop()
        packets.join()
        duty.parts.log.close(duty.clock.now())
        queue.close()
        way.orders.send(None)
        return 0

    def _judge(self) -> None:
        try:
            self._loop.run()
        except BaseException:  # noqa: BLE001 - the parent sees the process end, and says so
            os._exit(70)

    def _obey(self, order: Any) -> object:
        duty = self._duty
        match order[0]:
            case "world":
                _, generation, changes = order
                world = duty.keeper.absorb(changes, generation)
                self._have_done(lambda: duty.parts.judge.load(world))
            case "candidates":
                duty.candidates.apply_all(order[1])
                snapshot = duty.candidates.snapshot()
                shadow = duty.parts.shadow
                if shadow is not None:
                    self._have_done(lambda: shadow.load(snapshot))
            case "tally":
                return duty.metrics.tally()
        return None

    def _have_done(self, job: Callable[[], object]) -> None:
        """By the packet thread; waits until it is."""
        done = threading.Event()

        def do() -> None:
            job()
            done.set()

        self._loop.post(do)
        done.wait()

    def _hear(self, message: tuple[int, list[SavedName]]) -> None:
        batch, saved = message
        self._duty.parts.names.restore(saved, self._duty.clock.now())
        self._way.heard.send(batch)

    def _opened(self, connection: Any, grants: Any) -> None:
        """A name opened a connection here; whoever judges it again is the parent."""
        self._way.heard.send((connection, grants))
