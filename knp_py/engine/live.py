"""The datapath behind the kernel's queue, where conntrack says which packet begins a connection.

Only packets about which something has to be decided or learned come here, so most connections
need no flow of ours: ``first`` judges and forgets. Conversations with resolvers, and packets
that conntrack does not follow, have flows as in a capture, because the answers to what a pod
asked have to be told from what anybody sends from port 53 (semantics §6).
"""

from collections import defaultdict
from enum import Enum
from typing import Any

from knp_py.engine.datapath import DNS_PORT, Datapath
from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.flows import Flow, key_of
from knp_py.engine.snoop import DnsSnooper
from knp_py.errors import PacketError
from knp_py.model.decision import Decision
from knp_py.model.packet import SYN, Packet
from knp_py.wire.packet import parse_ip

FLOWS_PER_POD = 4096


class Said(Enum):
    """What conntrack says of a packet whose flow is kept here."""

    BEGINS = "begins"  # the first of its connection, or as good as
    FORWARD = "forward"  # in the direction in which the connection was opened
    BACK = "back"  # a reply
    NOTHING = "nothing"  # untracked: the flow table says


class LiveDatapath(Datapath):
    """A datapath whose packets come one by one with what the kernel knows of them.

    A pod has at most ``FLOWS_PER_POD`` flows here, its oldest giving way, so that none can crowd
    out what others wait for.
    """

    def __init__(self, engine: PolicyEngine, snooper: DnsSnooper, **settings: Any) -> None:
        """``settings`` are those of ``Datapath``."""
        super().__init__(engine, snooper, **settings)
        self._of_pod: defaultdict[str, dict[int, Flow]] = defaultdict(dict)

    def first(self, data: bytes, now: float) -> tuple[Packet, Decision] | None:
        """The verdict on a connection's first packet; None if it has no readable IP header.

        A TCP segment without SYN that conntrack takes for a beginning is judged as one, by its
        own addresses: that it is a reply to anything, nobody knows.
        """
        try:
            packet = parse_ip(data)
        except PacketError as error:
            self.unreadable[str(error)] += 1
            return None
        if packet.problem is not None:
            self.unparsed[packet.problem] += 1
        self._clock = max(self._clock, now)
        return packet, self._decide(packet)

    def told(self, data: bytes, now: float, said: Said) -> Flow | None:
        """The flow of a packet; None if it has no readable IP header, or is a reply to nothing."""
        try:
            packet = parse_ip(data, want_payload=True)
        except PacketError as error:
            self.unreadable[str(error)] += 1
            return None
        self._forward(now)
        if packet.problem is not None:
            self.unparsed[packet.problem] += 1
        if said is Said.NOTHING:
            side = self._side(packet, 0, now)
        else:
            key = key_of(packet)
            found = self.flows.find(key, now)
            if said is Said.BACK:
                if found is None or found.original:
                    self._unsolicited(packet)
                    return None
                side = found
            else:
                if found is not None and (said is Said.BEGINS or not found.original):
                    self.flows.end(found.flow)
                    found = None
                side = found or self._begin(packet, key, now).original
        self._bound(side.flow)
        self._follow(side, packet, now, 1)
        if DNS_PORT in {packet.sport, packet.dport} and (packet.payload or packet.flags & SYN):
            self._dns(side, packet, self._clock)
        self.flows.ended.clear()  # the kernel counts packets; nobody reports flows here
        return side.flow

    def _decide(self, packet: Packet) -> Decision:
        """Discovery comes here only when it is none: the rules let pass what is."""
        return self.engine.evaluate(packet, now=self._clock)

    def _bound(self, flow: Flow) -> None:
        """Note a flow as its pod's, and end that pod's oldest if it has too many."""
        own = self._of_pod[_owner(flow)]
        if flow.number in own:
            return
        own[flow.number] = flow
        if len(own) > FLOWS_PER_POD:
            self.flows.end(next(iter(own.values())))

    def _ended(self, flow: Flow) -> None:
        super()._ended(flow)
        uid = _owner(flow)
        own = self._of_pod[uid]
        own.pop(flow.number, None)
        if not own:
            del self._of_pod[uid]


def _owner(flow: Flow) -> str:
    return "" if flow.pod is None else flow.pod.uid
