"""``knp agent``'s life: what is looked at first, the order of starting, stopping.

Two threads matter. The packet thread reads the queues and alone touches the engine; the main
thread reads manifests, keeps the rules and handles signals. HTTP has threads of its own.
"""

import signal
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from knp_py import __version__
from knp_py.adapters.clocks import BootClock
from knp_py.adapters.conntrack import clear_marks
from knp_py.adapters.forgetting import Forgetting
from knp_py.adapters.http import HttpServer
from knp_py.adapters.instance import InstanceLock
from knp_py.adapters.kernelqueue import KernelQueue
from knp_py.adapters.links import links_of, own_addresses
from knp_py.adapters.outlet import Outlet
from knp_py.adapters.poller import Poller
from knp_py.adapters.probe import RoundTrip
from knp_py.adapters.rules import Rules
from knp_py.agent.judge import World
from knp_py.agent.loop import PacketLoop
from knp_py.agent.marks import Ask, parse_marks
from knp_py.agent.metrics import Metrics
from knp_py.agent.ports import Queue
from knp_py.agent.ruleset import iptables, remove
from knp_py.agent.source import Batch
from knp_py.agent.world import WorldKeeper
from knp_py.cli.nodecleanup import require_root, table_of
from knp_py.cli.nodecrew import Crew, Duty
from knp_py.cli.nodekept import Kept
from knp_py.cli.nodemanifests import source_of
from knp_py.cli.nodepages import Overview
from knp_py.cli.nodeparts import Complaints, Settings, build, layout_of
from knp_py.cli.nodeshadow import Candidates
from knp_py.cli.nodewords import (
    CHANGES,
    errors,
    farewell,
    greeting,
    has_policy,
    mode_word,
    say,
    say_changes,
    summary,
)
from knp_py.engine.names import SavedName
from knp_py.engine.state import ClusterState
from knp_py.errors import InputError, NotPermittedError
from knp_py.model.changes import Change
from knp_py.model.objects import Pod

_PROOF_EVERY = 5.0  # seconds between two proofs that the rules are what they should be
_SCAN_EVERY = 30.0  # seconds without an event after which the manifests are looked at anyway
_SWITCH = 0.0005  # seconds that the packet thread waits for another at most
_SETTLE = 1.0  # seconds without a change after which the rules are noted as ours
_STUCK = 10.0  # seconds without a turn after which the agent counts as dead
_DNS_COPY = 65_535  # bytes of a packet: an answer may be as long


class NodeAgent:
    """``run`` is the whole life of an agent; its exit code comes back."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._table = table_of(settings.instance)
        self._marks = parse_marks(*settings.masks)
        self._clock = BootClock(Path(settings.clock_file) if settings.clock_file else None)
        self._metrics = Metrics(version=__version__, mode=mode_word(settings))
        self._wake = Poller()
        self._stopping = False
        self._failure = ""
        self._proof_due = self._scan_due = 0.0
        self._as_ours = ""  # the rules' text as we made them, when it is known
        self._settled = 0.0
        self._enforcing = False
        self._complete = False  # the world in force is the source's, whole
        self._pending: list[Change] = []  # what workers do not have yet
        first = settings.nfqueue_id + 1
        self._crew = Crew(range(first, first + settings.queues) if settings.queues > 1 else ())

    def run(self) -> int:
        """Start, enforce until a signal, stop. Raises ``KnpError`` when it cannot start.

        Nothing is changed before all that can be wrong has been looked at.
        """
        settings = self._settings
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)  # also in the middle of starting
        with ExitStack() as stack:
            stack.callback(self._wake.close)
            self._source = source_of(settings, self._table)
            stack.callback(self._source.close)
            first = self._source.check()
            self._candidates = Candidates(settings) if settings.shadow else None
            require_root()
            sys.setswitchinterval(_SWITCH)
            self._rules = Rules(self._table, self._table.upper(), self._marks.verdict)
            stack.callback(self._be_the_only_one().close)
            self._rules.refuse_neighbours(self._marks.ours, self._marks.connection)
            self._layout = layout_of(
                settings,
                self._table,
                self._marks,
                native=self._rules.native,
                paths=self._rules.paths,
            )
            forget = Forgetting(say)
            self._kept = Kept(settings.state_dir, self._table, self._clock, forget)
            outlet = Outlet(sys.stdout.fileno())
            stack.callback(outlet.close)
            self._parts = build(
                settings,
                self._marks,
                self._clock,
                self._metrics,
                write=outlet.write,
                write_packets=errors().write,
                on_learn=self._learned,
                on_open=None if self._kept.names is None else self._kept.names.add_connection,
                complain=Complaints(say),
                seen=self._rules.has_table() and not self._takes_away(),
            )
            self._keeper = WorldKeeper(
                self._layout,
                self._rules,
                node=settings.node,
                load=self._hand_over,
                sweep=lambda: clear_marks(self._marks.connection),
                forget=forget,
                links=links_of,
                own=own_addresses,
                told=not settings.manifests,
            )
            # The judge has its world before a queue is open: packets come at once.
            self._parts.judge.load(self._keeper.prepare(first.changes))
            if self._candidates is not None:
                self._candidates.begin(self._parts.shadow, self._crew)
            self._kept.restore(self._parts)
            self._crew.start(
                Duty(
                    settings,
                    self._parts,
                    self._keeper,
                    self._metrics,
                    ClusterState() if self._candidates is None else self._candidates.state,
                    self._clock,
                    self._tick,
                )
            )
            self._overview = Overview(
                settings,
                self._metrics,
                self._parts,
                self._keeper,
                self._rules,
                source=self._source,
                clock=self._clock,
                batch=first,
                healthy=self._unhealthy,
                ready=self._unready,
            )
            self._serve(stack)
            if not self._begin():
                return 0
            queues = self._open_queues(stack)
            feeds: list[Queue] = [*self._crew.feeds(), *queues]
            poller = Poller(feed.fileno() for feed in feeds)
            stack.callback(poller.close)
            self._loop = PacketLoop(feeds, poller, self._clock, self._tick)
            self._proof = RoundTrip(self._marks.bits(Ask.PROBE))
            stack.callback(self._proof.close)
            self._parts.judge.on_probe = self._proof.seen
            self._overview.watch(queues, self._layout.queues.numbers, self._kept.names)
            self._enforcing = True
            if not self._stopping:
                self._put_in_force()
            self._enforce()
        return 1 if self._failure else 0

    # -- starting ----------------------------------------------------------------------

    def _be_the_only_one(self) -> InstanceLock:
        """Of this instance, here. What to do where it is not depends on how packets queue."""
        try:
            return InstanceLock(self._settings.instance)
        except NotPermittedError as error:
            raise NotPermittedError(f"{error}: stop it first{self._rules.room_for_two}") from None

    def _begin(self) -> bool:
        """Have the world that there is at first; whether to go on.

        A fail-closed agent's table that is there already holds what it held, meanwhile. Where
        there is none, or one that lets pass what nobody answers, and fail-closed must hold
        something, it begins with the node's networks.
        """
        if self._takes_away() and self._rules.has_table():
            self._rules.remove(remove(self._table))
        early = not (self._settings.mode.fail_open or self._rules.holds())
        batch = self._source.begin(self._stopped_within, early=early)
        if batch is not None:
            # Before a queue is open: packets come at once.
            self._parts.judge.load(self._keeper.absorb(batch.changes, 1))
            self._crew.change(1, batch.changes)
            self._overview.batch = batch
            if self._candidates is not None:
                self._candidates.follow(batch)
        self._complete = not self._source.waits_for()
        if self._stopping:
            if self._settings.mode.fail_open:
                self._rules.remove(remove(self._table))
            say(farewell(self._settings.mode, self._failure))
        return not self._stopping

    def _takes_away(self) -> bool:
        """Whether a table from before must go: a fail-closed agent's would hold while we wait."""
        return self._settings.mode.fail_open and bool(self._source.waits_for())

    def _stopped_within(self, seconds: float) -> bool:
        self._wake.wait(seconds)
        return self._stopping

    def _open_queues(self, stack: ExitStack) -> list[KernelQueue]:
        settings, answer = self._settings, self._parts.judge.answer
        # Whoever asked must get the answer whatever becomes of us (semantics §7).
        dns = KernelQueue(
            settings.dns_queue_id,
            answer,
            copy=_DNS_COPY,
            fail_open=True,
            whole=False,
            before_release=self._before_release,
        )
        stack.callback(dns.close)
        judged = KernelQueue(
            settings.nfqueue_id,
            answer,
            length=settings.queue_length,
            fail_open=settings.mode.fail_open,
            before_release=self._before_release,
        )
        stack.callback(judged.close)
        return [dns, judged]

    def _learned(self, saved: SavedName) -> None:
        self._kept.learned(saved)
        self._crew.learn(saved)

    def _before_release(self) -> None:
        """What was learned is kept and known before the answer is let go that it was in."""
        self._kept.commit()
        self._crew.release()

    def _put_in_force(self) -> None:
        # First what may be missing. Without a table nothing comes to it.
        self._rules.apply_queue(iptables(self._layout, self._table.upper()))
        self._keeper.install()
        if self._settings.strict:
            # Generations begin anew. Not before: the rules that were there stamp until now.
            clear_marks(self._marks.connection)
        self._note_owners()

    def _note_owners(self) -> None:
        """Once everything is known: until then a pod that is not there may only not be listed."""
        if self._complete:
            self._kept.note_owners(self._keeper.owners())

    def _serve(self, stack: ExitStack) -> None:
        if not self._settings.bind:
            return
        try:
            server = HttpServer(self._settings.bind, self._overview.pages())
        except (InputError, NotPermittedError) as error:  # as where another agent is
            raise type(error)(f"--metrics-bind-address: {error}") from None
        server.start()
        stack.callback(server.stop)
        if self._settings.bind.endswith(":0"):
            say(f"metrics at http://{server.address}/metrics")

    # -- running -----------------------------------------------------------------------

    def _enforce(self) -> None:
        packets = threading.Thread(target=self._run_packets, name="packets", daemon=True)
        packets.start()
        if self._complete and not self._stopping:
            self._greet()
        self._wake.add(self._source.fileno())
        if self._candidates is not None:
            self._wake.add(self._candidates.fileno())
            self._candidates.post = self._loop.post
        self._proof_due = time.monotonic() + _PROOF_EVERY
        self._scan_due = time.monotonic() + _SCAN_EVERY
        try:
            while not self._stopping:
                self._turn()
        finally:
            if self._settings.mode.fail_open:
                # Nothing of ours stays: nobody has to ask who is not there.
                try:
                    self._rules.remove(remove(self._table))
                except NotPermittedError as error:
                    why = f"its rules could not be removed ({error}): run knp agent cleanup"
                    self._failure = self._failure or why
            self._loop.stop()
            packets.join()
            self._crew.stop()
            self._kept.close()
            lost = self._parts.close(self._clock.now())
            if lost:
                say(f"{lost} lines about verdicts could not be written any more")
            say(farewell(self._settings.mode, self._failure))

    def _greet(self) -> None:
        """Say what is in force, once a packet has come by."""
        wrong = self._proof.check(5.0)
        if wrong is not None:
            say(f"not ready: {wrong}")
        say(greeting(self._settings, self._keeper.managed_pods, self._rules.how))
        node = self._settings.node
        if node is not None and not self._keeper.knows_node():
            say(f"warning: no Node and no Pod says that there is a node {node}: nothing is judged")

    def _turn(self) -> None:
        """What the main thread has to do next: a change of manifests, a proof that is due."""
        due = self._proof_due if self._as_ours else min(self._proof_due, self._settled)
        self._wake.wait(max(0.0, due - time.monotonic()))
        if self._stopping:
            return
        if not self._as_ours and time.monotonic() >= self._settled:
            self._as_ours = self._rules.text()
            self._settled = time.monotonic() + _PROOF_EVERY
        batch = self._source.look()
        if batch is None and time.monotonic() >= self._scan_due:
            batch = self._source.scan()  # not every file system tells of changes
        if batch is not None:
            self._scan_due = time.monotonic() + _SCAN_EVERY
            self._take(batch)
        if self._candidates is not None:
            self._candidates.look()
        if time.monotonic() >= self._proof_due:
            self._proof_due = time.monotonic() + _PROOF_EVERY
            self._prove()

    def _take(self, batch: Batch) -> None:
        """Put a change of manifests in force."""
        self._pending += batch.changes
        if self._candidates is not None:
            self._candidates.follow(batch)  # what the kernel thinks of it does not concern them
        try:
            changed = self._keeper.change(batch.changes)
        except NotPermittedError as error:
            say(f"the change is not in force, the policies before it are: {error}")
            return
        self._crew.change(self._keeper.generation, self._pending)
        self._pending = []
        self._overview.batch = batch
        self._settle()
        if not (self._complete or self._source.waits_for()):
            self._complete = True
            self._note_owners()
            self._greet()
            return
        if any(isinstance(obj, Pod) for _, obj in batch.changes):
            self._note_owners()
        if self._settings.verbosity >= CHANGES:
            say_changes(batch)
        if changed and (self._settings.manifests or has_policy(batch)):
            say(f"generation {self._keeper.generation} in force: {summary(batch)}")

    def _prove(self) -> None:
        """See to it that packets come by us; put the rules back when somebody removed them."""
        if self._keeper.behind or self._keeper.links_changed():
            self._take(self._overview.batch._replace(changes=[]))
        wrong = self._proof.check()
        changed = bool(self._as_ours) and self._changed(self._rules.text())
        if wrong is None and not changed:
            return
        if not changed and self._rules.complete():
            say(f"not ready: {wrong}")
            return
        say("somebody has changed the rules: putting them back")
        try:
            self._keeper.heal()
            self._crew.change(self._keeper.generation, self._pending)
            self._pending = []
            self._rules.restore_queue()
            self._settle()
        except NotPermittedError as error:
            say(f"the rules could not be put back: {error}")

    def _changed(self, text: str) -> bool:
        """Whether these rules are others than ours. A tool that failed once has told of none."""
        return text != self._as_ours if text else not self._rules.complete()

    def _settle(self) -> None:
        """Rules of ours have changed: how they look is noted once they stay like that."""
        self._as_ours = ""
        self._settled = time.monotonic() + _SETTLE

    def _hand_over(self, world: World) -> None:
        judge = self._parts.judge
        self._loop.post(lambda: judge.load(world))

    def _run_packets(self) -> None:
        """The packet thread. When it ends for another reason than ``stop``, the process does."""
        try:
            self._loop.run()
        except BaseException as error:  # noqa: BLE001 - the main thread says it and exits
            self._failure = f"{type(error).__name__}: {error}"
            self._on_signal(0, None)

    def _tick(self, now: float) -> None:
        """Housekeeping of the packet thread, some twenty times a second."""
        self._parts.flush(now)
        self._clock.reread()

    def _on_signal(self, number: int, frame: object) -> None:
        del number, frame
        self._stopping = True
        self._wake.wake()

    def _unready(self) -> str | None:
        """Whether a packet gets its verdict here, and a verdict of all there is.

        None is sent before the packet thread is there: it would lie in the queue that the rules
        of an agent before us lead to, and hold up the agent's own proof.
        """
        if not self._complete:
            return f"the API server has not said everything yet: {self._source.waits_for()}"
        return self._proof.check() if self._enforcing and self._loop.beat else "it is starting"

    def _unhealthy(self) -> str | None:
        """Whether the packet thread still takes its turns, some twenty a second."""
        if not self._enforcing:
            return None
        silent = (self._clock.monotonic_ns() - self._loop.beat) / 1e9
        if self._loop.beat and silent > _STUCK:
            return f"the packet thread has not moved for {silent:.0f} s"
        return self._failure or None
