"""The one door for bytes: parse, learn names, known connection?, evaluate.

``ingest`` never raises for what a packet holds: what cannot be parsed is judged on its
addresses with protocol ``unknown``, and what has no readable IP header is counted in
``unreadable`` and belongs to no connection (semantics §5).
"""

import struct
from collections import Counter

from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.flows import (
    MAX_FLOWS,
    TCP_ESTABLISHED,
    UDP_STREAM,
    Flow,
    FlowKey,
    FlowTable,
    Side,
    first_idle,
    key_of,
    tcp_begins,
    tcp_flags,
    tcp_replaces,
)
from knp_py.engine.services import Backend, backends
from knp_py.engine.snapshot import Snapshot
from knp_py.engine.snoop import DnsSnooper
from knp_py.errors import PacketError
from knp_py.model.decision import Decision, Ruling, Verdict
from knp_py.model.net import is_v4
from knp_py.model.objects import Service
from knp_py.model.packet import RST, SYN, Packet, Proto
from knp_py.model.policy import Direction, Tier
from knp_py.wire.fragments import Reassembler
from knp_py.wire.packet import parse_ip

DNS_PORT = 53
_MOST_BACKENDS = 4096
MAX_DISORDER = 60.0  # seconds that packets may be out of order
MIDSTREAM = "midstream: the capture does not hold the connection's beginning"
# Neighbour and router discovery (RFC 4861) and multicast listener discovery (RFC 2710,
# RFC 3810): without them IPv6 does not work, so they are never judged (semantics §5).
IPV6_MUST_PASS = frozenset({130, 131, 132, 133, 134, 135, 136, 137, 143})
IPV6_CONTROL = Ruling(
    True,
    Direction.EGRESS,
    Tier.DEFAULT,
    action="Accept",
    reason="IPv6 neighbour, router and listener discovery always passes",
)
_ALLOW_CONTROL = Decision(Verdict.ALLOW, None, None, IPV6_CONTROL, IPV6_CONTROL.reason)
_UNKNOWN_MIDSTREAM = Decision(Verdict.UNKNOWN, None, None, None, MIDSTREAM)
# What the short road reads, in one go: first byte, length, (IPv4) fragment field, protocol,
# addresses and ports as they lie there, and the byte that holds a TCP header's flags.
_V4_ROAD = struct.Struct(">BxH2xHxB2x12s9xB").unpack_from
_V6_ROAD = struct.Struct(">B3xHBx36s9xB").unpack_from

# Fragments that a host drops (RFC 8200 §4.5, RFC 5722): no policy sees the datagram.
_REFUSED = frozenset({"overlap", "contradiction", "too long"})


class Datapath:
    """Packets of a capture in, connections with their decisions out.

    ``judge_midstream`` judges a TCP connection whose beginning is missing as if its
    first packet seen were its beginning. ``assume_queried`` takes a datagram from a
    server's port 53 to a pod as the answer to a query that the capture lacks.
    ``resolve_services`` judges a Service's address, seen before destination NAT, by the
    pods behind it.
    """

    def __init__(
        self,
        engine: PolicyEngine,
        snooper: DnsSnooper,
        *,
        judge_midstream: bool = False,
        assume_queried: bool = False,
        resolve_services: bool = False,
        max_flows: int = MAX_FLOWS,
    ) -> None:
        self.engine = engine
        self.snooper = snooper
        self.flows = FlowTable(max_flows=max_flows, on_end=self._ended)
        self._quick4, self._quick6 = self.flows.quick4, self.flows.quick6
        self.fragments = Reassembler()
        self.unreadable: Counter[str] = Counter()
        self.unparsed: Counter[str] = Counter()
        self._clock = float("-inf")
        self._behind: dict[tuple[str, int, int, bool], tuple[Backend, ...]] = {}
        self._judge_midstream = judge_midstream
        self._assume_queried = assume_queried
        self._resolve_services = resolve_services

    def load(self, snapshot: Snapshot) -> None:
        """Judge new connections by this snapshot from now on."""
        self.engine.load(snapshot)
        self._behind.clear()
        self.snooper.load(snapshot)

    def finish(self) -> None:
        """The capture is over: every connection ends, half datagrams are counted."""
        self._judge_incomplete(float("inf"))
        self.flows.end_all()

    def _ended(self, flow: Flow) -> None:
        if flow.key.dport == DNS_PORT:
            self.snooper.forget(flow.key)

    def ingest(self, data: bytes, now: float, offset: int = 0, vlan: int = 0) -> Flow | None:
        """The connection a packet belongs to, its decision made; None when it has none.

        ``data`` holds an IP header at ``offset``. A fragment belongs to no connection
        until its datagram is complete. The first lines are the road that nearly every
        packet of a long capture takes: a known connection's next segment needs no
        parsing, only its tuple's raw bytes.
        """
        if not vlan:
            side: Side | None = None
            try:
                first, size, fragment, protocol, tuple_, flags = _V4_ROAD(data, offset)
                if first == 0x45:
                    if not fragment & 0x3FFF:
                        side = self._quick4[protocol].get(tuple_)
                elif first >> 4 == 6:
                    _, size, protocol, tuple_, flags = _V6_ROAD(data, offset)
                    size = size and size + 40
                    side = self._quick6[protocol].get(tuple_)
                if side is not None:
                    flow = side.flow
                    flags = flags & 7 if protocol == 6 else 0  # FIN, SYN, RST; TCP
                    if not flags & 2 and now - flow.last <= flow.idle:
                        if flags:
                            tcp_flags(side, flags)
                        side.packets += 1
                        # Zero: a segment that the network card was to cut up.
                        side.bytes += size or len(data) - offset
                        flow.last = now
                        return flow
            except struct.error:
                pass  # too short for the short road; the parser says what is wrong
        return self._slow(data, offset, vlan, now)

    def _slow(self, data: bytes, offset: int, vlan: int, now: float) -> Flow | None:
        try:
            packet = parse_ip(data, offset=offset, want_payload=True)
            parts = 1
            if packet.fragment:
                whole = self.fragments.add(data, offset=offset, now=now, vlan=vlan)
                self._judge_incomplete(now)
                if whole is None:
                    return None
                data, offset, parts = whole.data, 0, whole.parts
                packet = parse_ip(data, offset=0, want_payload=True)
        except PacketError as error:
            self.unreadable[str(error)] += 1
            return None
        self._forward(now)
        return self._take(packet, data, offset, vlan, now, parts)

    def _judge_incomplete(self, now: float) -> None:
        """A datagram whose rest the capture lacks: its first fragment has the ports.

        Without that it is judged on its addresses (semantics §5). What the receiving host
        would refuse whatever policy says is only counted.
        """
        for gone in self.fragments.expire(now):
            if gone.first and gone.reason not in _REFUSED:
                try:
                    packet = parse_ip(gone.first, offset=0, want_payload=True)
                except PacketError as error:
                    self.unreadable[str(error)] += 1
                    continue
                self._take(packet, gone.first, 0, gone.vlan, gone.received, gone.parts)

    def _take(
        self, packet: Packet, data: bytes, offset: int, vlan: int, now: float, parts: int
    ) -> Flow:
        """A packet that came in ``parts`` to its flow; begins the flow when there is none."""
        if packet.problem is not None:
            self.unparsed[packet.problem] += 1
        side = self._side(packet, vlan, now)
        self._follow(side, packet, now, parts)
        if DNS_PORT in {packet.sport, packet.dport}:
            if packet.payload or packet.flags & SYN:  # which says where a stream begins
                self._dns(side, packet, self._clock)
        elif not vlan and parts == 1:
            self._learn_raw(side, data, offset, packet)
        return side.flow

    def _follow(self, side: Side, packet: Packet, now: float, parts: int) -> None:
        """What a packet says about its flow's state, and its share of the counters."""
        flow = side.flow
        if packet.protocol == Proto.TCP:
            tcp_flags(side, packet.flags)
        elif packet.protocol == Proto.UDP and not side.original:
            flow.idle = UDP_STREAM
        if not side.original and packet.inner is None:
            if packet.flags & RST:
                flow.refused = True
            else:
                flow.answered = True
        side.packets += parts
        side.bytes += packet.wire_len
        flow.last = max(flow.last, now)

    def _forward(self, now: float) -> None:
        """Time for names: a packet that comes a little late does not revive what has ended."""
        if now >= self._clock:
            self._clock = now
        elif self._clock - now > MAX_DISORDER:
            # Another capture, or the packet before was from nowhere. Whatever was learned by
            # the other time has no end in this one.
            self._clock = now
            self.engine.names.clear()
            self._judge_incomplete(float("inf"))

    def _learn_raw(self, side: Side, data: bytes, offset: int, packet: Packet) -> None:
        protocol = packet.protocol
        if protocol not in {Proto.TCP, Proto.UDP} or packet.inner is not None:
            return
        if not side.original and not side.flow.answered:
            return  # the answer is still to be noticed, on the long road
        if data[offset] == 0x45:
            self.flows.remember_raw(side, 4, data[offset + 12 : offset + 24])
        elif data[offset] >> 4 == 6 and data[offset + 6] == protocol:
            self.flows.remember_raw(side, 6, data[offset + 8 : offset + 44])

    def _side(self, packet: Packet, vlan: int, now: float) -> Side:
        """The side of the flow a packet belongs to; begins the flow when there is none."""
        flows = self.flows
        # An error goes to whoever sent what it quotes; anything else is forged.
        if packet.inner is not None and packet.inner.src == packet.dst:
            related = flows.find(key_of(packet.inner, vlan), now)
            if related is not None:
                # An ICMP error travels against the packet it quotes.
                return related.flow.reply if related.original else related.flow.original
        key = key_of(packet, vlan)
        side = flows.find(key, now)
        if side is not None:
            opens = packet.protocol == Proto.TCP and tcp_begins(packet)
            if not opens or not tcp_replaces(side.flow, packet):
                return side
            flows.end(side.flow)
        if self._assume_queried and packet.protocol == Proto.UDP and packet.sport == DNS_PORT:
            swapped = packet._replace(
                src=packet.dst, dst=packet.src, sport=packet.dport, dport=packet.sport
            )
            return self._begin(swapped, key.reversed(), now).reply
        return self._begin(packet, key, now).original

    def _begin(self, packet: Packet, key: FlowKey, now: float) -> Flow:
        flow = self.flows.begin(key, now)
        flow.idle = first_idle(packet.protocol)
        snapshot = self.engine.snapshot
        flow.pod = snapshot.pod_at(packet.src)
        flow.target = snapshot.pod_at(packet.dst)
        if flow.pod is not None:
            flow.names = self.engine.names.names(flow.pod, packet.dst, self._clock)
        if packet.protocol == Proto.TCP:
            if tcp_begins(packet):
                flow.isn = packet.seq
            else:
                flow.midstream = True
                flow.idle = TCP_ESTABLISHED
                if not self._judge_midstream:
                    flow.decision = _UNKNOWN_MIDSTREAM
                    return flow
        flow.service = None if flow.target else snapshot.service_at(packet.dst)
        if flow.service is None:
            flow.decision = self._decide(packet)
        else:
            self._judge_service(flow, packet, flow.service, self._clock)
        return flow

    def _decide(self, packet: Packet) -> Decision:
        """The verdict on a connection's first packet, as it is addressed."""
        if packet.protocol == Proto.ICMPV6 and packet.icmp_type in IPV6_MUST_PASS:
            return _ALLOW_CONTROL
        return self.engine.evaluate(packet, now=self._clock)

    def _backends(self, service: Service, packet: Packet) -> tuple[Backend, ...]:
        """Looked up once for all connections to a port: it takes a look at every pod."""
        v4 = is_v4(packet.dst)
        key = (service.key, packet.protocol, packet.dport, v4)
        found = self._behind.get(key)
        if found is None:
            found = backends(
                self.engine.snapshot, service, protocol=packet.protocol, port=packet.dport, v4=v4
            )
            if len(self._behind) >= _MOST_BACKENDS:
                self._behind.clear()  # somebody goes through all ports
            self._behind[key] = found
        return found

    def _judge_service(self, flow: Flow, packet: Packet, service: Service, now: float) -> None:
        """A packet on its way to a Service: its backends are what policy will see."""
        found: tuple[Backend, ...] = ()
        if self._resolve_services:
            found = self._backends(service, packet)
        if not found:
            flow.decision = self.engine.evaluate(packet, now=now)
            flow.note = (
                f"the destination is the Service {service.key}: policy judges the pod behind"
                " it, after destination NAT"
            )
            if not self._resolve_services:
                flow.note += " (--resolve-services does that)"
            return
        decisions = [
            self.engine.evaluate(packet._replace(dst=b.address, dport=b.port), now=now)
            for b in found
        ]
        flow.decision = decisions[0]
        at = found[0]
        more = f" and {len(found) - 1} more alike" if len(found) > 1 else ""
        flow.note = f"judged at {at.pod.key}:{at.port}{more}, the pods behind the Service"
        if len({d.verdict for d in decisions}) > 1:
            words = ", ".join(
                f"{b.pod.key} {d.verdict.value}" for b, d in zip(found, decisions, strict=True)
            )
            flow.note = None
            reason = f"the pods behind the Service {service.key} differ: {words}"
            flow.decision = Decision(Verdict.UNKNOWN, None, None, None, reason)

    def _dns(self, side: Side, packet: Packet, now: float) -> None:
        """Pass DNS on to whoever learns from it; only what policy allowed and a pod asked."""
        flow = side.flow
        pod = flow.pod
        if flow.key.dport == DNS_PORT:
            if pod is None or flow.decision.verdict is not Verdict.ALLOW:
                return
            server = flow.key.dst
            if flow.service is not None and server not in flow.service.cluster_ips:
                # Anybody may claim any external address in a Service: who answers there is
                # the pod behind it, not the resolver that the spec means.
                if not side.original:
                    self.snooper.unsolicited("untrusted", pod, server, packet.payload, now)
                return
            if packet.protocol == Proto.TCP:
                self.snooper.segment(
                    flow.key,
                    pod,
                    server,
                    from_server=not side.original,
                    seq=packet.seq,
                    flags=packet.flags,
                    payload=packet.payload,
                    now=now,
                )
            elif packet.protocol != Proto.UDP:
                return
            elif side.original:
                self.snooper.query(flow.key, pod, server, packet.payload, now)
            else:
                self.snooper.answer(flow.key, pod, server, packet.payload, now)
        else:
            self._unsolicited(packet)

    def _unsolicited(self, packet: Packet) -> None:
        """A datagram from port 53 that answers nothing teaches nothing."""
        if packet.sport == DNS_PORT and packet.protocol == Proto.UDP:
            self.snooper.unsolicited(
                "unsolicited",
                self.engine.snapshot.pod_at(packet.dst),
                packet.src,
                packet.payload,
                self._clock,
            )
