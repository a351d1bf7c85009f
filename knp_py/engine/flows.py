"""Connections of a capture: which packet begins one, which belongs to one (semantics §5).

Live, the kernel's conntrack knows this; a capture has only packets, so here is the part
of conntrack that policy depends on: the original direction, replies, ICMP errors about a
connection, ends and idle expiry. Time-outs are the kernel's defaults
(net.netfilter.nf_conntrack_*), except that a TCP connection is given up after an hour of
silence, not five days, so that memory stays flat over a long capture.

TCP states are reduced to what a time-out and "is this SYN a new connection" need.
"""

from collections.abc import Callable
from heapq import nsmallest
from typing import NamedTuple

from knp_py.model.decision import Decision
from knp_py.model.objects import Pod, Service
from knp_py.model.packet import ACK, FIN, RST, SYN, Packet, Proto

TCP_OPENING = 120.0
TCP_ESTABLISHED = 3600.0
TCP_CLOSING = 120.0
TCP_RESET = 10.0
UDP_ONE_WAY = 30.0
UDP_STREAM = 120.0
SCTP_ESTABLISHED = 210.0
ICMP = 30.0
GENERIC = 600.0

SWEEP_EVERY = 10.0
MAX_FLOWS = 131_072  # about 100 MB; beyond it the longest silent connection is given up


class FlowKey(NamedTuple):
    """A connection's tuple in its original direction; ``vlan`` keeps segments apart.

    For a protocol without ports both are 0; for one we do not know ``number`` is the IP
    protocol number. For ICMP ``sport`` is the echo identifier and ``dport`` the message
    type, so that only an answer to this very kind of request is its reply: an isolated
    pod's peer must not get in on what another message began.
    """

    vlan: int
    protocol: int
    src: int
    dst: int
    sport: int
    dport: int
    number: int = -1

    def reversed(self) -> "FlowKey":
        """The tuple that replies carry; one that no packet has when there are none."""
        vlan, protocol, src, dst, sport, dport, number = self
        answers = _ICMP_ANSWERS.get(protocol)
        if answers is not None:
            return FlowKey(vlan, protocol, dst, src, sport, answers.get(dport, -1 - dport), number)
        return FlowKey(vlan, protocol, dst, src, dport, sport, number)


# Request type → reply type (RFC 792, RFC 950, RFC 4443): what conntrack pairs too.
_ICMP_ANSWERS: dict[int, dict[int, int]] = {
    int(Proto.ICMP): {8: 0, 13: 14, 15: 16, 17: 18},
    int(Proto.ICMPV6): {128: 129},
}


class Side:
    """One direction of a flow: the counters that every packet touches."""

    __slots__ = ("bytes", "flow", "original", "packets", "raw")

    def __init__(self, flow: "Flow", *, original: bool) -> None:
        self.flow = flow
        self.original = original
        self.packets = 0
        self.bytes = 0
        self.raw = b""  # its tuple's bytes, once the datapath may find it by them


class Flow:
    """A connection and the decision on it, made at its first packet.

    ``number`` counts connections from 1. ``first`` and ``last`` are packet times in the
    caller's clock; ``idle`` is how long it may be silent. ``midstream`` says that a TCP
    connection's beginning is not in the capture, ``answered`` that the other end itself has
    sent something other than a refusal, ``refused`` that it has sent one. ``pod`` is the pod
    that opened it, ``target`` the pod it goes to, ``service`` the Service whose address that
    is; ``names`` are those ``pod`` had learned for the other end. ``note`` is what else a
    reader of the verdict should know.
    """

    __slots__ = (
        "answered",
        "closing",
        "decision",
        "first",
        "idle",
        "isn",
        "key",
        "last",
        "midstream",
        "names",
        "note",
        "number",
        "original",
        "pod",
        "refused",
        "reply",
        "service",
        "target",
    )

    def __init__(self, number: int, key: FlowKey, now: float) -> None:
        self.number = number
        self.key = key
        self.first = now
        self.last = now
        self.idle = GENERIC
        self.isn: int | None = None
        self.closing = 0  # bit 1: the original side has sent FIN, bit 2: the reply side
        self.midstream = False
        self.answered = False
        self.refused = False
        self.decision: Decision
        self.note: str | None = None
        self.names: tuple[str, ...] = ()
        self.pod: Pod | None = None
        self.target: Pod | None = None
        self.service: Service | None = None
        self.original = Side(self, original=True)
        self.reply = Side(self, original=False)

    @property
    def packets(self) -> int:
        """Packets of both directions."""
        return self.original.packets + self.reply.packets

    @property
    def bytes(self) -> int:
        """IP bytes of both directions."""
        return self.original.bytes + self.reply.bytes


def key_of(packet: Packet, vlan: int = 0) -> FlowKey:
    """The tuple of a packet as it is."""
    protocol = packet.protocol
    number = packet.number if protocol == Proto.UNKNOWN else -1
    dport = packet.icmp_type if protocol in _ICMP_ANSWERS else packet.dport
    return FlowKey(vlan, protocol, packet.src, packet.dst, packet.sport, dport, number)


class FlowTable:
    """Live connections by tuple; ended ones wait in ``ended`` for whoever reports them."""

    def __init__(
        self, *, max_flows: int = MAX_FLOWS, on_end: Callable[[Flow], None] | None = None
    ) -> None:
        self._on_end = on_end
        self._sides: dict[FlowKey, Side] = {}
        self._flows: dict[int, Flow] = {}
        self._max = max_flows
        self._count = 0
        self._next_sweep = float("-inf")
        self.ended: list[Flow] = []
        self.evicted = 0
        # Raw header bytes → side, per IP version and protocol: what the datapath looks
        # up before it parses anything. Only plain, untagged TCP and UDP get in.
        self.quick4: tuple[dict[bytes, Side], ...] = _quick_tables()
        self.quick6: tuple[dict[bytes, Side], ...] = _quick_tables()

    def __len__(self) -> int:
        return len(self._flows)

    def find(self, key: FlowKey, now: float) -> Side | None:
        """The side that a packet with this tuple belongs to, if its flow still lives."""
        side = self._sides.get(key)
        if side is None:
            return None
        flow = side.flow
        if now - flow.last > flow.idle:
            self.end(flow)
            return None
        return side

    def begin(self, key: FlowKey, now: float) -> Flow:
        """A new flow; the caller sets its decision. Makes room when the table is full."""
        # Far before it: one packet from the future must not stop the sweeping.
        if now >= self._next_sweep or now < self._next_sweep - 2 * SWEEP_EVERY:
            self.expire(now)
        if len(self._flows) >= self._max:
            self._make_room()
        self._count += 1
        flow = Flow(self._count, key, now)
        self._flows[flow.number] = flow
        self._sides[key] = flow.original
        self._sides.setdefault(key.reversed(), flow.reply)
        return flow

    def end(self, flow: Flow) -> None:
        """Take a flow out of the table; it waits in ``ended``."""
        del self._flows[flow.number]
        for key in (flow.key, flow.key.reversed()):
            side = self._sides.get(key)
            if side is not None and side.flow is flow:
                del self._sides[key]
        for side in (flow.original, flow.reply):
            if side.raw:
                tables = self.quick4 if len(side.raw) == 12 else self.quick6
                tables[flow.key.protocol].pop(side.raw, None)
        # No table leads to its sides any more. Without the way back from them the flow is
        # freed when it has been reported, not when somebody looks for cycles.
        del flow.original.flow, flow.reply.flow
        self.ended.append(flow)
        if self._on_end is not None:
            self._on_end(flow)

    def expire(self, now: float) -> None:
        """End every flow that has been silent too long; at most about every ten seconds."""
        self._next_sweep = now + SWEEP_EVERY
        for flow in [f for f in self._flows.values() if now - f.last > f.idle]:
            self.end(flow)

    def _make_room(self) -> None:
        """Give up the longest silent sixteenth at once, so that a flood stays linear."""
        victims = nsmallest(max(1, self._max // 16), self._flows.values(), key=lambda f: f.last)
        self.evicted += len(victims)
        for flow in victims:
            self.end(flow)

    def end_all(self) -> None:
        """The capture is over."""
        for flow in list(self._flows.values()):
            self.end(flow)

    def remember_raw(self, side: Side, version: int, raw: bytes) -> None:
        """Let the datapath find this side by raw header bytes from now on."""
        if side.raw:
            return
        tables = self.quick4 if version == 4 else self.quick6
        tables[side.flow.key.protocol][raw] = side
        side.raw = raw


def _quick_tables() -> tuple[dict[bytes, Side], ...]:
    nothing: dict[bytes, Side] = {}
    own = {int(Proto.TCP), int(Proto.UDP)}
    return tuple({} if protocol in own else nothing for protocol in range(256))


def tcp_begins(packet: Packet) -> bool:
    """Whether this is a connection's first packet: SYN without ACK (RFC 9293 §3.5)."""
    return packet.flags & (SYN | ACK) == SYN


def tcp_replaces(flow: Flow, packet: Packet) -> bool:
    """Whether a SYN on a known tuple opens another connection rather than repeats itself."""
    if flow.closing == 3 or flow.idle == TCP_RESET:
        return True
    return flow.isn is None or flow.isn != packet.seq


def tcp_flags(side: Side, flags: int) -> None:
    """Follow a segment's flags: they set how long the connection may be silent."""
    flow = side.flow
    if flags & RST:
        flow.idle = TCP_RESET
    elif flags & FIN:
        flow.closing |= 1 if side.original else 2
        if flow.closing == 3:
            flow.idle = TCP_CLOSING
    elif flow.idle == TCP_OPENING and not side.original and flags & ACK:
        flow.idle = TCP_ESTABLISHED


def first_idle(protocol: int) -> float:
    """How long a flow of this protocol may be silent after its first packet."""
    if protocol == Proto.TCP:
        return TCP_OPENING
    if protocol == Proto.UDP:
        return UDP_ONE_WAY
    if protocol in _ICMP_ANSWERS:
        return ICMP
    return SCTP_ESTABLISHED if protocol == Proto.SCTP else GENERIC
