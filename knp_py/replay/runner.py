"""A capture through the datapath: records in, connections with their decisions out.

Constant memory whatever the capture's length: a connection leaves when it ends or falls
silent, in the order of first packets as long as no more than ``REORDER`` wait for an
earlier one that goes on.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import chain, islice

from knp_py.engine.datapath import Datapath
from knp_py.engine.flows import Flow
from knp_py.errors import PacketError
from knp_py.wire.link import locate, not_supported, reason
from knp_py.wire.source import Record

# Called with each record and the flow it belongs to, None if it belongs to none (yet).
OnPacket = Callable[[Flow | None, Record], None]
# Bytes of the IP packet inside an odd link layer, or None; PacketError for an unknown one.
OddLink = Callable[[int, bytes], bytes | None]

REORDER = 65_536
_BLOCK = 4096  # records between two looks at what has ended


class Replay:
    """One pass over a capture; the counters may be read at any time.

    ``skipped`` counts what is no IP packet, by reason; ``first_ns`` is
    the first packet's time and ``last_ns`` the latest, nanoseconds since the epoch.
    """

    def __init__(
        self,
        datapath: Datapath,
        *,
        odd_link: OddLink | None = None,
        on_block: Callable[[int], object] | None = None,
    ) -> None:
        self.datapath = datapath
        self._on_block = on_block  # told how many more packets have been judged
        self.packets = 0
        self.skipped: Counter[str] = Counter()
        self.first_ns = 0
        self.last_ns = 0
        self._odd_link = odd_link
        self._waiting: list[tuple[int, Flow]] = []
        self._next = 1

    def run(self, records: Iterable[Record], on_packet: OnPacket | None = None) -> Iterator[Flow]:
        """Every connection, once it has ended."""
        stream = iter(records)
        for first in stream:
            self.first_ns = self.last_ns = first[0]
            stream = chain((first,), stream)
            break
        while self._block(islice(stream, _BLOCK), on_packet) == _BLOCK:
            yield from self._drain(REORDER)
        self.datapath.finish()
        yield from self._drain(0)

    def _block(self, records: Iterable[Record], on_packet: OnPacket | None) -> int:
        """Some records through the datapath; how many there were."""
        ingest = self.datapath.ingest
        count = ts = 0
        for count, record in enumerate(records, 1):  # noqa: B007 - counted by C code
            ts, link, data, _ = record
            if link == 1 and data[12:14] == b"\x08\x00":  # Ethernet, IPv4, no VLAN tag
                flow = ingest(data, ts * 1e-9, 14)
            else:
                flow = self._other(record)
            if on_packet is not None:
                on_packet(flow, record)
        self.packets += count
        self.last_ns = max(self.last_ns, ts)
        if self._on_block is not None:
            self._on_block(count)
        return count

    def _other(self, record: Record) -> Flow | None:
        ts, link, data, _ = record
        offset, vlan = locate(link, data)
        if offset < 0:
            why = reason(offset)
            inner = None
            if self._odd_link is not None and not_supported(offset):
                try:
                    inner = self._odd_link(link, data)
                    why = f"no IP inside link type {link}"
                except PacketError as error:
                    why = str(error)
            if inner is None:
                self.skipped[why] += 1
                return None
            data, offset, vlan = inner, 0, 0
        return self.datapath.ingest(data, now=ts * 1e-9, offset=offset, vlan=vlan)

    def _drain(self, hold: int) -> Iterator[Flow]:
        """Ended flows in the order they began; at most ``hold`` stay back for that."""
        ended = self.datapath.flows.ended
        waiting = self._waiting
        for flow in ended:
            heappush(waiting, (flow.number, flow))
        ended.clear()
        while waiting and (waiting[0][0] == self._next or len(waiting) > hold):
            number, flow = heappop(waiting)
            self._next = max(self._next, number + 1)
            yield flow
