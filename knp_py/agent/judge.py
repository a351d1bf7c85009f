"""From a queued packet to its verdict: the one place that gives exactly one, on every path.

Runs on the packet thread, which alone touches the engine. Whatever goes wrong inside is
counted and said, and the packet gets what the fail mode says (semantics §7); what a packet
*is*, however broken, is never such an error but judged (semantics §5).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

from knp_py.agent.connections import NamedConnections
from knp_py.agent.held import HeldNames
from knp_py.agent.marks import Ask, Deed, Marks
from knp_py.agent.metrics import Metrics
from knp_py.agent.packetlog import PacketLog
from knp_py.agent.ports import Timer
from knp_py.agent.shadow import Shadow
from knp_py.agent.verdictlog import VerdictLog, Which
from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.flows import Flow
from knp_py.engine.live import LiveDatapath, Said
from knp_py.engine.snapshot import Snapshot
from knp_py.errors import KernelError
from knp_py.model.decision import Decision, Ruling, Verdict
from knp_py.model.packet import RST, SYN, Packet, Proto
from knp_py.model.policy import Direction, Tier
from knp_py.verdicts.record import FlowFacts

# Protocols whose tuples the rules can remember: those with a port to be found by.
_REMEMBERED = frozenset({int(Proto.TCP), int(Proto.UDP), int(Proto.SCTP)})
_FOREVER = float("inf")
_ALLOW, _DENY = Verdict.ALLOW, Verdict.DENY
_MOST_ANSWERS = 65_536
# Seconds from the first world on in which a connection may be one that conntrack did not see
# begin. It sees all that begin once rules are there; a pod could invent others for ever, and talk
# by them to whoever may open connections to it.
_UNSEEN_FOR = 60.0
_LOGGED: dict[Which, frozenset[Verdict]] = {
    "all": frozenset(Verdict),
    "deny": frozenset(Verdict) - {_ALLOW},
    "none": frozenset(),
}

_NO_IDENTITY = Ruling(
    False,
    Direction.EGRESS,
    Tier.DEFAULT,
    action="Deny",
    reason="the address is in this node's pod network and no known pod has it: fail-closed denies",
)


_LINK_LOCAL = Ruling(
    False,
    Direction.EGRESS,
    Tier.DEFAULT,
    action="Deny",
    reason="from a link-local address, which no policy knows, of a pod whose egress is isolated",
)
_FROM_LINK_LOCAL = Decision(_DENY, None, None, _LINK_LOCAL, _LINK_LOCAL.reason)
_LINK_LOCAL_BITS = 0xFE80 >> 6  # fe80::/10
_NO_NAMESPACE_YET = Ruling(
    False,
    Direction.EGRESS,
    Tier.DEFAULT,
    action="Deny",
    reason="the API server has not said yet what namespace the pod is in: fail-closed denies",
)
_NO_NAMESPACE = Decision(_DENY, None, None, _NO_NAMESPACE_YET, _NO_NAMESPACE_YET.reason)


class Mode(NamedTuple):
    """How the agent answers, besides what policy says."""

    fail_open: bool = True
    dry_run: bool = False
    remember: bool = True
    strict: bool = False


class World(NamedTuple):
    """What packets are judged by. ``networks`` are this node's pod networks, as ranges.

    ``nameless`` are addresses of pods, of any node, whose namespace is not known: who selects them
    by its labels is not known either.
    """

    snapshot: Snapshot
    generation: int
    networks: tuple[tuple[int, int], ...] = ()
    nameless: frozenset[int] = frozenset()


class Adopt(Protocol):
    """Tells the kernel of a TCP connection that began when nobody looked."""

    def __call__(self, src: int, sport: int, dst: int, dport: int, *, mark: int) -> None:
        """``src`` opened it. Raises ``KernelError``."""
        ...


class _Answer(NamedTuple):
    """What a decision means for the mark, and the cell that counts it."""

    decision: Decision
    deed: int
    cell: list[int]
    protocol: int
    logged: bool


class Judge:
    """Answers packets; see ``answer``. ``load`` puts another world in force.

    ``seen`` says that conntrack has run since before this agent, by the rules of one before it.
    """

    def __init__(
        self,
        datapath: LiveDatapath,
        marks: Marks,
        mode: Mode,
        *,
        metrics: Metrics,
        log: VerdictLog,
        timer: Timer,
        complain: Callable[[Exception], object],
        adopt: Adopt,
        seen: bool = False,
        shadow: Shadow | None = None,
        connections: NamedConnections | None = None,
        logged: Which = "deny",
        packets: PacketLog | None = None,
    ) -> None:
        self.on_probe: Callable[[bytes], object] = bool
        self._datapath = datapath
        self._mode = mode
        self._metrics = metrics
        self._log = log
        self._logged = _LOGGED[logged] if shadow is None else frozenset()
        self._recorded = self._logged
        self._tell: Callable[..., None] = self._write
        self._packets = packets
        self._begun = 0
        self._timer = timer
        self._complain = complain
        self._adopt = adopt
        self._seen = seen
        self._unseen_until = float("-inf")
        self._shadow = shadow
        self._connections = connections
        self._held = HeldNames(datapath.engine.names)
        self._held_engine = PolicyEngine(self._held)
        self._marks = marks
        self._world = World(datapath.engine.snapshot, 0)
        self._answers: dict[int, _Answer] = {}
        self._keep, self._mask = marks.keep, marks.verdict
        self._shift = marks.shift
        self._handlers: dict[int, Callable[[bytes, float], int]] = {
            Ask.JUDGE: self._judge,
            Ask.AGAIN: self._again,
            Ask.UNTRACKED: self._untracked,
            Ask.JUDGE_DNS: self._judge_dns,
            Ask.DNS_QUERY: self._query,
            Ask.DNS_ANSWER: self._reply,
            Ask.PROBE: self._probe,
        }
        if packets is not None:
            self._logged = _LOGGED["all"]
            self._tell = partial(self._write_all, packets)
            self._handlers = {ask: self._timed(do) for ask, do in self._handlers.items()}
        self._marked: dict[int, int] = {}
        self._stamp()

    def load(self, world: World) -> None:
        """Judge by this world from now on; its verdicts carry its generation."""
        self._world = world
        if world.generation <= 1 and not self._seen:
            self._unseen_until = self._timer.now() + _UNSEEN_FOR
        self._datapath.load(world.snapshot)
        self._held_engine.load(world.snapshot)
        self._answers = {}
        self._stamp()

    def _stamp(self) -> None:
        marks = self._marks
        number = marks.packet_generation(max(1, self._world.generation))
        self._marked = {int(deed): marks.bits(deed) | number for deed in Deed}
        self._marked[0] = 0  # nothing decided: the packet had been allowed before
        closed = not (self._mode.fail_open or self._mode.dry_run)
        failed = self._marked[Deed.DENY if closed else Deed.ACCEPT]
        # Of an established connection nothing is decided then: it goes on in both modes, and is
        # judged again at its next packet.
        self._failed = {int(ask): failed for ask in (Ask.JUDGE, Ask.UNTRACKED, Ask.JUDGE_DNS)}

    def answer(self, mark: int, data: bytes) -> int:
        """The mark that carries the verdict on a packet: other users' bits as they came.

        ``mark`` is what the rules put on it, ``data`` its bytes from the IP header on. Never
        raises, whatever is in it and whatever goes wrong.
        """
        keep = mark & self._keep
        ask = (mark & self._mask) >> self._shift
        try:
            started = self._timer.monotonic_ns()
            deed = self._handlers[ask](data, self._timer.now())
            self._metrics.observe(self._timer.monotonic_ns() - started)
            return keep | self._marked[deed]
        except Exception as error:  # noqa: BLE001 - whatever it is, the packet gets a verdict
            self._report(error)
            return keep | self._failed.get(ask, 0)

    def _report(self, error: Exception) -> None:
        self._metrics.internal_errors[0] += 1
        with suppress(Exception):  # nobody may be there any more to read it
            self._complain(error)

    # -- questions ---------------------------------------------------------------------

    def _judge(self, data: bytes, now: float) -> int:
        found = self._datapath.first(data, now)
        if found is None:
            return self._unreadable()
        packet, decision = found
        if decision.verdict is not _ALLOW and packet.protocol == Proto.TCP:
            deed = self._unseen(packet, now)
            if deed is not None:
                return deed
        return self._conclude(packet, decision)

    def _unseen(self, packet: Packet, now: float) -> int | None:
        """The deed for a segment that may be a reply where conntrack did not see the beginning.

        Nothing else may keep conntrack running on this node, and then it knows no connection from
        before the first start, nor from while a fail-open agent was away. Established connections
        go on all the same (semantics §7): if policy lets the receiver open this one, the kernel is
        told that it did. The segment itself does not pass; sent again, it is a reply, and that is
        all that its sender can send. None when it is no such segment, or no such time.
        """
        if now > self._unseen_until or packet.flags & (SYN | RST) or not packet.flags:
            return None
        src, dst, _, sport, dport = _tuple(packet)
        opening = Packet(dst, src, packet.protocol, dport, sport, wire_len=packet.wire_len)
        decision = self._datapath.engine.judge(opening, now)
        if self._answer(opening, decision).decision.verdict is not _ALLOW:
            return None
        if self._is_nameless(opening):
            return None
        if not self._mode.dry_run:
            mark = self._marks.seal(self._world.generation, strict=self._mode.strict)
            try:
                self._adopt(dst, dport, src, sport, mark=mark)
            except KernelError as error:
                self._report(error)
                return None
        self._conclude(opening, decision)
        return Deed.ACCEPT if self._mode.dry_run else Deed.DENY

    def _judge_dns(self, data: bytes, now: float) -> int:
        flow = self._datapath.told(data, now, Said.BEGINS)
        if flow is None:
            return self._unreadable()
        return self._conclude(_opening(flow, data), flow.decision)

    def _untracked(self, data: bytes, now: float) -> int:
        flow = self._datapath.told(data, now, Said.NOTHING)
        if flow is None:
            return self._unreadable()
        # Conntrack keeps no mark for it and the rules do not know its direction.
        return self._conclude(_opening(flow, data), flow.decision, remember=False)

    def _again(self, data: bytes, now: float) -> int:
        """Strict mode: a connection accepted before the last change (semantics §5)."""
        found = self._datapath.first(data, now)
        if found is None:
            return self._unreadable()
        packet, decision = found
        if decision.verdict is not _ALLOW and decision.named and self._connections is not None:
            grants = self._connections.get(_tuple(packet), self._owner(packet))
            if grants:
                with self._held.granting(grants):
                    decision = self._held_engine.judge(packet, now)
        return self._conclude(packet, decision, again=True)

    def _query(self, data: bytes, now: float) -> int:
        self._datapath.told(data, now, Said.FORWARD)
        return 0

    def _reply(self, data: bytes, now: float) -> int:
        self._datapath.told(data, now, Said.BACK)
        return 0

    def _probe(self, data: bytes, now: float) -> int:
        del now
        self.on_probe(data)
        return 0

    # -- answers -----------------------------------------------------------------------

    def _unreadable(self) -> int:
        """No readable IP header: dropped in both fail modes (semantics §5)."""
        self._metrics.unreadable[0] += 1
        if self._packets is not None:
            self._packets.unreadable(
                self._timer.wall_ns(), self._metrics.next_id(), accepted=self._mode.dry_run
            )
        return Deed.ACCEPT if self._mode.dry_run else Deed.DENY

    def _conclude(
        self, packet: Packet, decision: Decision, *, remember: bool = True, again: bool = False
    ) -> int:
        """The deed for a decision; counts it, logs it."""
        if packet.src >> 118 == _LINK_LOCAL_BITS:
            # The rules ask about such an address only for pods that may not get out by it.
            decision = _FROM_LINK_LOCAL
        elif not again and self._is_nameless(packet):
            decision = _NO_NAMESPACE
        known = self._answers.get(id(decision))
        if (
            known is None
            or known.decision is not decision
            or known.protocol != packet.protocol  # a pod to itself: one decision for all
        ):
            known = self._answer(packet, decision)
        given, deed, cell, _, logged = known
        cell[0] += 1
        try:
            if self._connections is not None and not again:
                if given.grants:
                    owner = self._owner(packet)
                    self._connections.put(_tuple(packet), given.grants, owner)
                else:
                    self._connections.forget(_tuple(packet))
            if logged:
                self._tell(packet, given, again=again)
            if self._shadow is not None:
                other = self._shadow.judge(packet, self._timer.now())
                if other.verdict is not given.verdict:
                    self._metrics.shadow_differences[0] += 1
                    self._write(packet, given, again=again, other=other)
        except Exception as error:  # noqa: BLE001 - the verdict stands, whoever is told of it
            self._report(error)
        if not remember and deed in {Deed.ACCEPT_REMEMBER, Deed.DENY_REMEMBER}:
            return deed - 1
        return deed

    def _answer(self, packet: Packet, decision: Decision) -> _Answer:
        mode = self._mode
        given = decision
        if decision.unidentified and not mode.fail_open and self._is_ours(decision.unidentified):
            given = Decision(
                _DENY, None, None, _NO_IDENTITY, _NO_IDENTITY.reason, (), _FOREVER,
                decision.unidentified,
            )  # fmt: skip
        allowed = given.verdict is _ALLOW
        remember = (
            mode.remember
            and not given.unidentified
            and given.valid_until == _FOREVER
            and packet.protocol in _REMEMBERED
        )
        if allowed:
            deed = Deed.ACCEPT_REMEMBER if remember else Deed.ACCEPT
        elif mode.dry_run:
            deed = Deed.ACCEPT
        else:
            # A denial that a name could undo is given anew each time: one may be learned next.
            deed = Deed.DENY_REMEMBER if remember and not given.named else Deed.DENY
        cell = self._metrics.verdict_cell(given)
        # A pod of ours that nobody knows yet is worth a line even when it is let through.
        stranger = bool(given.unidentified) and self._is_ours(given.unidentified)
        logged = given.verdict in self._logged or (stranger and bool(self._logged))
        answer = _Answer(given, int(deed), cell, packet.protocol, logged)
        if given is decision:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers = {}
            self._answers[id(decision)] = answer
        return answer

    def _is_nameless(self, packet: Packet) -> bool:
        """Whether fail-closed must not take what is known of its ends for all there is."""
        nameless = self._world.nameless
        if not nameless or self._mode.fail_open:
            return False
        return packet.src in nameless or packet.dst in nameless

    def _is_ours(self, addresses: Sequence[int]) -> bool:
        return any(
            first <= address <= last
            for address in addresses
            for first, last in self._world.networks
        )

    def _owner(self, packet: Packet) -> str:
        pod = self._world.snapshot.pod_at(packet.src)
        return "" if pod is None else pod.uid

    def _facts(self, packet: Packet) -> FlowFacts:
        snapshot = self._world.snapshot
        source, target = snapshot.pod_at(packet.src), snapshot.pod_at(packet.dst)
        service = None if target is not None else snapshot.service_at(packet.dst)
        now = self._timer.now()
        names = (
            () if source is None else self._datapath.engine.names.names(source, packet.dst, now)
        )
        return FlowFacts(
            ts_ns=self._timer.wall_ns(),
            id=self._metrics.next_id(),
            src=packet.src,
            dst=packet.dst,
            protocol=packet.protocol,
            sport=packet.sport,
            dport=packet.dport,
            src_pod=None if source is None else source.key,
            dst_pod=None if target is None else target.key,
            octets=packet.wire_len,
            names=names,
            note=packet.problem,
            service=None if service is None else service.key,
        )

    def _write(
        self,
        packet: Packet,
        decision: Decision,
        *,
        again: bool,
        other: Decision | None = None,
        facts: FlowFacts | None = None,
    ) -> None:
        self._log.log(
            decision,
            self._facts(packet) if facts is None else facts,
            enforced=not (self._mode.dry_run and decision.verdict is _DENY),
            shadow=other,
            again=again,
            generation=self._world.generation,
        )

    def _timed(self, handler: Callable[[bytes, float], int]) -> Callable[[bytes, float], int]:
        """The handler, for a log that says how long it took."""

        def handle(data: bytes, now: float) -> int:
            self._begun = self._timer.monotonic_ns()
            return handler(data, now)

        return handle

    def _write_all(
        self, packets: PacketLog, packet: Packet, decision: Decision, *, again: bool
    ) -> None:
        """Every packet's entries, and the record of those that have one."""
        facts = self._facts(packet)
        allowed = decision.verdict is _ALLOW
        packets.log(
            decision,
            facts,
            self._world.snapshot,
            accepted=allowed or self._mode.dry_run,
            took_ns=self._timer.monotonic_ns() - self._begun,
            again=again,
        )
        if decision.verdict in self._recorded:
            self._write(packet, decision, again=again, facts=facts)


def _opening(flow: Flow, data: bytes) -> Packet:
    """The packet a flow's verdict is about: in the direction in which it was opened.

    Its length is as its header says: not all of it need have been copied from the kernel.
    """
    key = flow.key
    six = data[0] >> 4 == 6
    length = 40 + int.from_bytes(data[4:6], "big") if six else int.from_bytes(data[2:4], "big")
    return Packet(key.src, key.dst, key.protocol, key.sport, key.dport, wire_len=length)


def _tuple(packet: Packet) -> tuple[int, int, int, int, int]:
    return packet.src, packet.dst, packet.protocol, packet.sport, packet.dport
