"""Which packet belongs to which connection, fragments included, for who writes them out.

A fragment belongs to no connection until its datagram is whole, so it is held back until
then; how many is bounded, and what is never placed is counted.
"""

from collections import OrderedDict
from collections.abc import Callable

from knp_py.engine.flows import Flow
from knp_py.errors import PacketError
from knp_py.model.net import is_v4
from knp_py.wire.fragments import TIMEOUT
from knp_py.wire.link import locate
from knp_py.wire.packet import parse_ip
from knp_py.wire.source import Record

_Key = tuple[int, int, int, int, int]

MAX_HELD = 4096  # fragments; the datagram begun first is given up first


class Placing:
    """Passes each record on with its flow, a datagram's earlier fragments before its last."""

    def __init__(self, place: Callable[[Flow, Record], None]) -> None:
        self._place = place
        self._held: OrderedDict[_Key, list[Record]] = OrderedDict()
        self._count = 0
        self.unplaced = 0

    def packet(self, flow: Flow | None, record: Record) -> None:
        """The next record and what the datapath said it belongs to."""
        key = _fragment(record)
        if key is None:
            if flow is not None:
                self._place(flow, record)
            return
        if flow is None:
            self._held.setdefault(key, []).append(record)
            self._count += 1
            while self._count > MAX_HELD:
                _, oldest = self._held.popitem(last=False)
                self._count -= len(oldest)
                self.unplaced += len(oldest)
            return
        earlier = self._held.pop(key, [])
        self._count -= len(earlier)
        # The same identification again, after the reassembler has given the first datagram up.
        stale = [each for each in earlier if record[0] - each[0] > TIMEOUT * 1_000_000_000]
        self.unplaced += len(stale)
        for each in (*earlier[len(stale) :], record):
            self._place(flow, each)

    def finish(self) -> None:
        """What is still held belongs to datagrams that never became whole."""
        self.unplaced += self._count
        self._held.clear()
        self._count = 0


def _fragment(record: Record) -> _Key | None:
    """What all fragments of the record's datagram share; None if it is no fragment."""
    offset, vlan = locate(record[1], record[2])
    if offset < 0:
        return None
    try:
        packet = parse_ip(record[2], offset=offset)
    except PacketError:
        return None
    if not packet.fragment:
        return None
    number = packet.number if is_v4(packet.src) else -1
    return vlan, packet.src, packet.dst, packet.ident, number
