"""More processes that judge, each with a queue of its own: ``knp agent --queues N``.

The kernel spreads new connections over their queues (fanout). What has to be seen by one
process alone stays with the parent: DNS, untracked packets, connections judged again. Workers
are forked when the first world is compiled; they get every change after that, and every
learned name before the answer is released that it was in.

A worker that ends or hangs takes its share of the connections with it, so the agent ends too,
with the name of the worker: whoever keeps the agent running starts all of them anew.
"""

import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
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
_NAMES = 5.0  # seconds until a worker that takes no names at all does not answer
_TALLY = 2.0  # seconds that a scrape waits, for all workers together
_LEAST = 0.1  # seconds of them for a worker that comes after slow ones
_SILENT = 10.0  # seconds until a worker that owes a tally does not answer any more
_WORLD = 30.0  # the same for a world, which it may have to compile
_STOP = 5.0  # the same for what waits when the agent ends
_BEAT = 2.0  # seconds between two questions whether it is well


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
        self.process = 0  # its id
        self.fate = "the process at the other end has ended"  # once it has
        self.tally: Tally | None = None  # the last that was heard of it
        self.control, self.orders = Pipe()  # the parent's end first
        self.names, self.heard = Pipe()
        _limit(self.control, _WORLD)
        _limit(self.names, _NAMES)
        self._lock = threading.Lock()  # one question at a time
        self._due: float | None = None  # until when it must have answered
        self._limit = 0.0  # seconds that it had for it

    def ask(self, question: object, patience: float, limit: float | None = None) -> Any:
        """What the worker says to it, within ``patience`` seconds.

        Raises ``TimeoutError`` when it does not in time: it may still, and is asked nothing
        else before. After ``limit`` seconds, ``patience`` when there is none, it is
        ``overdue``. Raises ``OSError`` or ``EOFError`` when it is gone.
        """
        end = time.monotonic() + patience
        if not self._lock.acquire(timeout=patience):
            raise TimeoutError(f"{self} is being asked something else")
        try:
            if self._due is not None:
                self._hear(end)
            self._limit = patience if limit is None else limit
            self._due = time.monotonic() + self._limit
            self.control.send(question)
            return self._hear(end)
        finally:
            self._lock.release()

    def _hear(self, end: float) -> Any:
        if not self.control.poll(max(0.0, end - time.monotonic())):
            raise TimeoutError(f"{self} does not answer")
        answer = self.control.recv()
        self._due = None
        return answer

    @property
    def overdue(self) -> bool:
        """Whether it owes an answer that it should have given."""
        due = self._due
        return due is not None and time.monotonic() > due

    def end(self) -> None:
        """Have everybody who waits for it see that it is gone, whether it can end or not."""
        self.fate = f"it has not answered for {self._limit:.0f} s"
        for connection in (self.control, self.names):
            with suppress(OSError), _socket_of(connection) as sock:
                sock.shutdown(socket.SHUT_RDWR)
        if self.process:
            os.kill(self.process, signal.SIGKILL)  # nobody has waited for it: the id is its own

    def obituary(self) -> str:
        """What became of it."""
        return f"{self}: {self.fate}"

    def __str__(self) -> str:
        return f"the worker of queue {self.queue} (process {self.process})"


def _socket_of(connection: Connection) -> socket.socket:
    return socket.socket(fileno=os.dup(connection.fileno()))


def _limit(connection: Connection, seconds: float) -> None:
    """Have it fail when half a message cannot be written or read for that long."""
    timeval = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
    with _socket_of(connection) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)


class Feed:
    """Messages from another process, read by a packet thread between its packets.

    ``obituary`` says what became of the process once it is gone.
    """

    def __init__(
        self, connection: Connection, take: Callable[[Any], object], obituary: Callable[[], str]
    ) -> None:
        self._connection = connection
        self._take = take
        self._obituary = obituary
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
                message = self._connection.recv()
            except (OSError, EOFError):
                raise OSError(self._obituary()) from None
            self._take(message)

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
        self._over = threading.Event()

    def start(self, duty: Duty) -> None:
        """Fork them, while this process has one thread."""
        step = len(self._ways) + 1
        for number, way in enumerate(self._ways, 1):
            duty.metrics.next_id = count(number, step).__next__
            way.process = fork(partial(_work, duty, way, self._ways))
        duty.metrics.next_id = count(step, step).__next__
        self._opened = duty.parts.connections
        for way in self._ways:
            way.orders.close()
            way.heard.close()
        if self._ways:
            for way in self._ways:
                try:
                    answer = way.ask(("ready",), _WORLD)
                except (OSError, EOFError):
                    raise KnpError(f"{way} has ended or does not begin") from None
                _demand(answer)
            duty.metrics.others = self._tallies
            threading.Thread(target=self._watch, name="workers", daemon=True).start()

    def feeds(self) -> list[Feed]:
        """What workers tell the packet thread. Its loop ends when one of them does."""
        return [Feed(way.names, self._told, way.obituary) for way in self._ways]

    def learn(self, saved: SavedName) -> None:
        """A name for every worker; told before ``release`` comes back."""
        if self._ways:
            self._learned.append(saved)

    def release(self) -> None:
        """Have every worker know what was learned, or wait for it no longer."""
        if not self._learned:
            return
        self._batch += 1
        learned, self._learned = self._learned, []
        for way in self._ways:
            try:
                way.names.send((self._batch, learned))
            except BlockingIOError:
                raise OSError(f"{way} takes no names any more") from None
            except OSError:
                raise OSError(way.obituary()) from None
        end = time.monotonic() + _PATIENCE
        for way in self._ways:
            answer: object = None
            while answer != self._batch:
                if not way.names.poll(max(0.0, end - time.monotonic())):
                    self.late += 1
                    break
                try:
                    answer = way.names.recv()
                except (OSError, EOFError):
                    raise OSError(way.obituary()) from None
                self._told(answer)

    def change(self, generation: int, changes: Sequence[Change]) -> None:
        """Put a world in force with all of them; comes back when it is.

        Ends the agent with failure when a worker is gone or does not answer.
        """
        self._order(("world", generation, changes))

    def candidates(self, changes: Sequence[Change]) -> None:
        """The same for the candidate policies."""
        self._order(("candidates", changes))

    def stop(self) -> None:
        """Have them answer what waits, and end."""
        self._over.set()
        for way in self._ways:
            with suppress(OSError, EOFError):  # it has, or will when we do
                way.ask(("stop",), _STOP)

    def _order(self, order: object) -> None:
        for way in self._ways:
            try:
                answer = way.ask(order, _WORLD)
            except (TimeoutError, BlockingIOError):
                way.end()
            except (OSError, EOFError):
                pass  # it has ended
            else:
                _demand(answer)
                continue
            # The packet thread finds it gone; its last words are the agent's.
            raise SystemExit(1)

    def _watch(self) -> None:
        """Find out who does not answer any more, whether somebody asks for figures or not."""
        while not self._over.wait(_BEAT):
            self._tallies()
            for way in self._ways:
                if way.overdue:
                    way.end()

    def _told(self, message: object) -> None:
        if isinstance(message, tuple) and self._opened is not None:
            connection, grants = message
            if grants:
                self._opened.put(connection, grants)
            else:
                self._opened.forget(connection)

    def _tallies(self) -> list[Tally]:
        """What each of them counted, by its last answer: a figure must not go back."""
        end = time.monotonic() + _TALLY
        for way in self._ways:
            with suppress(OSError, EOFError):  # who is gone is noticed by who reads its names
                patience = max(_LEAST, end - time.monotonic())
                way.tally = way.ask(("tally",), patience, _SILENT)
        return [way.tally for way in self._ways if way.tally is not None]


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
        feed = Feed(way.heard, self._hear, lambda: "the agent has ended")
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
        duty.parts.close(duty.clock.now())
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
                self._have_done(lambda: None)  # or nobody judges here
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
