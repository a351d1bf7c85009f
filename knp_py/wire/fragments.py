"""IP fragments to whole datagrams, for captures; live, the kernel has done it.

RFC 791 §3.2 and RFC 8200 §4.5. A policy that reads ports must wait for the whole
datagram, as the kernel does: a later fragment has no ports, and a first one may be
overlapped. Memory is bounded in datagrams and in bytes; when full, what expires soonest
goes first. Time is the caller's, in seconds.
"""

from bisect import bisect_left, insort
from collections import Counter, deque
from struct import Struct, pack_into
from typing import NamedTuple

from knp_py.wire.extensions import COMMON_FORM, FRAGMENT, MAX_HEADERS

TIMEOUT = 30.0
MAX_DATAGRAMS = 4096
MAX_BYTES = 8 << 20

_V4_FIELDS = Struct(">xxHHH").unpack_from  # total length, identification, flags and offset
_PIECE_COST = 200  # bytes that holding a fragment costs besides its own
_FIRST_KEPT = 2048  # of a first fragment whose datagram never became whole
_LATER_KEPT = 128  # bytes of any other: it has no more to tell than its addresses

_Key = tuple[int, bytes, bytes, int, int]  # VLANs, addresses, identification, protocol, version
_Piece = tuple[int, int, bytes]  # start, end, bytes: fewer if the capture cut them


class Datagram(NamedTuple):
    """A whole datagram: ``data`` is an IP packet without fragmentation, from its header on.

    ``parts`` is the number of fragments it came in (1 if it was none), ``received`` the
    time of the first of them. If a fragment was captured only in part, ``data`` ends
    where the first hole begins, shorter than its length field says.
    """

    data: bytes
    parts: int
    received: float


class Incomplete(NamedTuple):
    """A datagram that never became whole, as ``expire`` hands it out.

    ``first`` is the beginning of its first fragment, IP header included, or of the one that
    came first if that never came. ``reason`` is a key of ``Reassembler.counts``.
    """

    first: bytes
    parts: int
    received: float
    vlan: int
    reason: str


class _Fragment(NamedTuple):
    """One fragment as read: its payload is bytes ``start`` to ``end`` of the datagram's.

    ``header`` is all that goes before the whole payload, its lengths still to be set.
    """

    key: _Key
    start: int
    end: int
    more: bool
    payload: bytes
    header: bytes


class _Pending:
    """A datagram's pieces so far: sorted, not overlapping."""

    def __init__(self, now: float, deadline: float) -> None:
        self.received = now
        self.deadline = deadline
        self.pieces: list[_Piece] = []
        self.covered = 0  # bytes that the pieces stand for
        self.end = -1  # of the whole payload, known from the last fragment
        self.header = b""
        self.first = b""
        self.parts = 0
        self.cost = _PIECE_COST
        self.refused = False  # nothing of it is taken any more


class Reassembler:
    """Collects fragments until their datagram is whole.

    ``counts`` says what became of datagrams (``reassembled``, ``timeout``, ``no room``,
    ``overlap``, ``contradiction``, ``too long``) and of single fragments (``duplicate``,
    ``odd length``, ``unreadable``). An overlap loses the whole datagram, in IPv6 (RFC 5722) as
    in IPv4 (Linux since 4.19); in IPv4 a fragment that brings nothing new does no harm.
    """

    def __init__(
        self,
        *,
        timeout: float = TIMEOUT,
        max_datagrams: int = MAX_DATAGRAMS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._timeout = timeout
        self._max_datagrams = max_datagrams
        self._max_bytes = max_bytes
        self._bytes = 0
        # In order of arrival, so in order of deadline as far as time runs forward.
        self._pending: dict[_Key, _Pending] = {}
        self._incomplete: deque[Incomplete] = deque(maxlen=max_datagrams)

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, data: bytes, *, now: float, offset: int = 0, vlan: int = 0) -> Datagram | None:
        """The datagram that the packet at ``offset`` makes whole; None while parts miss.

        A packet that is no fragment is whole at once. Never raises for what ``data`` holds.
        """
        fragment = _read(data, offset, vlan)
        if fragment is None:
            return Datagram(data[offset:], 1, now)
        if isinstance(fragment, str):
            self.counts[fragment] += 1
            return None
        self._expire(now)
        key = fragment.key
        pending = self._pending.get(key)
        if pending is not None and now >= pending.deadline:
            self._give_up(key, "timeout")
            pending = None
        if pending is None:
            pending = self._pending[key] = _Pending(now, now + self._timeout)
            self._bytes += pending.cost
        pending.parts += 1
        if pending.refused:
            return None
        begins = fragment.start == 0 and not pending.header
        if begins or not pending.first:
            self._charge(pending, -len(pending.first))
            pending.first = data[offset : offset + (_FIRST_KEPT if begins else _LATER_KEPT)]
            self._charge(pending, len(pending.first))
        if begins:
            pending.header = fragment.header
            self._charge(pending, len(pending.header))
        problem = self._insert(pending, fragment)
        if problem:
            self._refuse(key, pending, problem)
        elif pending.covered == pending.end and pending.header:
            return self._complete(key, pending)
        self._make_room()
        return None

    def expire(self, now: float) -> list[Incomplete]:
        """Datagrams given up by ``now`` and since the last call; ``inf`` gives up all.

        ``add`` gives up what is overdue by itself; this is for whoever wants to know.
        """
        self._expire(now)
        incomplete = list(self._incomplete)
        self._incomplete.clear()
        return incomplete

    def _insert(self, pending: _Pending, fragment: _Fragment) -> str:
        """Take a fragment's bytes; answers why the whole datagram must be refused, if so."""
        start, end = fragment.start, fragment.end
        last = pending.pieces[-1][1] if pending.pieces else 0
        if fragment.more:
            if 0 <= pending.end < end:
                return "contradiction"
        elif pending.end not in {-1, end} or last > end:
            return "contradiction"
        else:
            pending.end = end
        gaps = _gaps(pending.pieces, start, end)
        if not gaps:
            index = bisect_left(pending.pieces, (start,))
            same = pending.pieces[index : index + 1] == [(start, end, fragment.payload)]
            if fragment.key[-1] == 6 and not same:
                return "overlap"
            self.counts["duplicate"] += 1
        elif gaps != [(start, end)]:
            return "overlap"
        for gap_start, gap_end in gaps:
            payload = fragment.payload[gap_start - start : gap_end - start]
            insort(pending.pieces, (gap_start, gap_end, payload))
            pending.covered += gap_end - gap_start
            self._charge(pending, len(payload) + _PIECE_COST)
        return ""

    def _complete(self, key: _Key, pending: _Pending) -> Datagram | None:
        self._forget(key)
        data = _assemble(pending, version=key[-1])
        if data is None:
            self.counts["too long"] += 1
            self._report(key, pending, "too long")
            return None
        self.counts["reassembled"] += 1
        return Datagram(data, pending.parts, pending.received)

    def _refuse(self, key: _Key, pending: _Pending, reason: str) -> None:
        """Drop what is held but remember until the deadline to drop the rest as well."""
        self.counts[reason] += 1
        self._report(key, pending, reason)
        self._charge(pending, _PIECE_COST - pending.cost)
        pending.refused = True
        pending.pieces.clear()
        pending.header = pending.first = b""

    def _expire(self, now: float) -> None:
        while self._pending:
            key, pending = next(iter(self._pending.items()))
            if now < pending.deadline:
                return
            self._give_up(key, "timeout")

    def _make_room(self) -> None:
        while len(self._pending) > self._max_datagrams or self._bytes > self._max_bytes:
            self._give_up(next(iter(self._pending)), "no room")

    def _give_up(self, key: _Key, reason: str) -> None:
        pending = self._forget(key)
        if not pending.refused:  # that has been counted
            self.counts[reason] += 1
            self._report(key, pending, reason)

    def _report(self, key: _Key, pending: _Pending, reason: str) -> None:
        vlan = key[0]
        self._incomplete.append(
            Incomplete(pending.first, pending.parts, pending.received, vlan, reason)
        )

    def _forget(self, key: _Key) -> _Pending:
        pending = self._pending.pop(key)
        self._bytes -= pending.cost
        return pending

    def _charge(self, pending: _Pending, cost: int) -> None:
        pending.cost += cost
        self._bytes += cost


def _read(data: bytes, offset: int, vlan: int) -> _Fragment | str | None:
    """The fragment at ``offset``, None if the packet there is none, or what is wrong with it."""
    if len(data) < offset + 20:
        return "unreadable"
    version = data[offset] >> 4
    if version == 4:
        fragment = _read_v4(data, offset, vlan)
    elif version == 6 and len(data) >= offset + 40:
        fragment = _read_v6(data, offset, vlan)
    else:
        return "unreadable"
    if isinstance(fragment, _Fragment):
        length = fragment.end - fragment.start
        # All but the last end on a multiple of 8: IPv6 refuses any other (RFC 8200 §4.5), for
        # IPv4 Linux leaves off the rest. An empty one says nothing.
        odd = length % 8 if fragment.more else 0
        if length == odd or (odd and version == 6):
            return "odd length"
        if odd:
            kept = fragment.payload[: length - odd]
            return fragment._replace(end=fragment.end - odd, payload=kept)
    return fragment


def _read_v4(data: bytes, offset: int, vlan: int) -> _Fragment | str | None:
    total, ident, field = _V4_FIELDS(data, offset)
    if not field & 0x3FFF:
        return None
    header = (data[offset] & 0x0F) * 4
    if header < 20 or total < header or len(data) < offset + header:
        return "unreadable"
    begin = offset + header
    start = (field & 0x1FFF) * 8
    return _Fragment(
        (vlan, data[offset + 12 : offset + 20], ident.to_bytes(2, "big"), data[offset + 9], 4),
        start,
        start + total - header,
        bool(field & 0x2000),
        data[begin : offset + total],
        data[offset:begin],
    )


def _read_v6(data: bytes, offset: int, vlan: int) -> _Fragment | str | None:
    """Headers before the fragment header are in every fragment; the first's are kept."""
    stop = offset + 40 + (data[offset + 4] << 8 | data[offset + 5])
    end = min(stop, len(data))
    named_at = offset + 6  # where the number of the header at pos stands
    pos = offset + 40
    for _ in range(MAX_HEADERS):
        number = data[named_at]
        if number == FRAGMENT and pos + 8 <= end:
            break
        if number not in COMMON_FORM or pos + 8 > end:
            return None  # whatever it is, it is not ours
        named_at = pos
        pos += 8 + data[pos + 1] * 8
    else:
        return None
    field = data[pos + 2] << 8 | data[pos + 3]
    if not field & 0xFFF9:
        return None  # atomic (RFC 6946)
    header = bytearray(data[offset:pos])
    header[named_at - offset] = data[pos]
    start = field & 0xFFF8
    # The next header is no part of the key: fragments may name different ones, and the
    # first one's holds (RFC 8200 §4.5).
    return _Fragment(
        (vlan, data[offset + 8 : offset + 40], data[pos + 4 : pos + 8], 0, 6),
        start,
        start + stop - pos - 8,
        bool(field & 1),
        data[pos + 8 : end],
        bytes(header),
    )


def _gaps(pieces: list[_Piece], start: int, end: int) -> list[tuple[int, int]]:
    """What of ``start`` to ``end`` no piece covers yet, in order."""
    gaps = []
    index = bisect_left(pieces, (start,))
    if index and pieces[index - 1][1] > start:
        index -= 1
    while start < end:
        if index == len(pieces) or pieces[index][0] >= end:
            gaps.append((start, end))
            break
        piece_start, piece_end, _ = pieces[index]
        if start < piece_start:
            gaps.append((start, piece_start))
        start = piece_end
        index += 1
    return gaps


def _assemble(pending: _Pending, version: int) -> bytes | None:
    """The datagram as if it had never been fragmented; None if it would be too long."""
    header = bytearray(pending.header)
    if version == 4:
        length = len(header) + pending.end
        if length > 0xFFFF:
            return None
        pack_into(">H", header, 2, length)
        header[6:8] = bytes((header[6] & 0x40, 0))
        header[10:12] = _checksum(header).to_bytes(2, "big")
    else:
        length = len(header) - 40 + pending.end
        if length > 0xFFFF:
            return None
        pack_into(">H", header, 4, length)
    parts = [bytes(header)]
    for start, end, payload in pending.pieces:
        parts.append(payload)
        if len(payload) < end - start:
            break  # the capture cut it: what follows would stand in the wrong place
    return b"".join(parts)


def _checksum(header: bytearray) -> int:
    """RFC 791 §3.1, of a header with any old checksum in it."""
    header[10:12] = bytes(2)
    total = sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, len(header), 2))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF
