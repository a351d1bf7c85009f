"""pcapng captures to records (draft-ietf-opsawg-pcapng).

Section headers, interface descriptions and the three kinds of packet block are read,
everything else is skipped without being held.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from knp_py.errors import CaptureError
from knp_py.wire.source import (
    CHUNK,
    MAX_RECORD,
    CaptureProblem,
    OnProblem,
    Read,
    Record,
    cut,
    refill,
)

MAGIC = b"\x0a\x0d\x0d\x0a"  # a section header; reads the same in both byte orders

_SECTION = 0x0A0D0D0A
_INTERFACE = 1
_PACKET = 2  # obsolete, still written by some
_SIMPLE = 3
_ENHANCED = 6
# Type -> shortest legal length, for the blocks that are read.
_SHORTEST = {_SECTION: 28, _INTERFACE: 20, _PACKET: 32, _SIMPLE: 16, _ENHANCED: 32}
_NAMES = {
    _SECTION: "section header",
    _INTERFACE: "interface description",
    _PACKET: "packet",
    _SIMPLE: "simple packet",
    _ENHANCED: "enhanced packet",
}
_MAX_BLOCK = 4 * MAX_RECORD  # a record and a generous lot of options
_MAX_INTERFACES = 65_536
_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}

_END_OF_OPTIONS, _TSRESOL, _TSOFFSET = 0, 9, 14


class _Interface(NamedTuple):
    """Time is ``ticks * multiply // divide + offset`` ns."""

    link: int
    snaplen: int
    multiply: int = 1000
    divide: int = 1
    offset: int = 0


def read_pcapng(read: Read, head: bytes, tell: OnProblem) -> Iterator[Record]:
    """Records of a pcapng capture whose first bytes, the magic at least, are ``head``.

    A simple packet block has no time: its record takes the one before it (0 if none).
    """
    blocks = _Blocks(read, head, tell)
    interfaces: list[_Interface] = []
    time = 0
    while kind := blocks.advance():
        order, start, stop, at = blocks.order, blocks.start, blocks.pos, blocks.offset
        if kind == _SECTION:
            interfaces.clear()
            continue
        if kind == _INTERFACE:
            if len(interfaces) >= _MAX_INTERFACES:
                message = f"more than {_MAX_INTERFACES} interfaces at byte {at}"
                tell(CaptureProblem("interfaces", at, message))
                return
            interface, sane = _parse_interface(order, blocks.buf, start, stop)
            if not sane:
                message = f"options of the interface at byte {at} are damaged"
                tell(CaptureProblem("interface options", at, message))
            interfaces.append(interface)
            continue
        if kind == _SIMPLE:
            (wire_length,) = struct.unpack_from(order + "I", blocks.buf, start + 8)
            number = 0
            data = start + 12
            snaplen = interfaces[0].snaplen if interfaces else 0
            captured = min(wire_length, snaplen or wire_length, stop - 4 - data)
        else:
            _, _, number, high, low, captured, wire_length = blocks.packet(blocks.buf, start)
            data = start + 28
            if kind == _PACKET:  # two 16-bit fields: the interface, and a drop counter
                number = number >> 16 if order == ">" else number & 0xFFFF
        if captured > stop - 4 - data or captured > MAX_RECORD:
            tell(_bad_length(at, kind, captured))
            return
        if number >= len(interfaces):
            message = f"packet at byte {at} is of interface {number}, which is not described"
            tell(CaptureProblem("unknown interface", at, message))
            continue
        link, _, multiply, divide, offset = interfaces[number]
        if kind != _SIMPLE:
            time = (high << 32 | low) * multiply // divide + offset
        yield time, link, blocks.buf[data : data + captured], wire_length

        # Then the usual case, one sound enhanced packet after the other and all of it in
        # memory, without a call; whatever is not that goes round the loop above.
        unpack, buf, pos = blocks.packet, blocks.buf, blocks.pos
        end = len(buf)
        last = end - 32
        count = len(interfaces)
        while pos <= last:
            kind, length, number, high, low, captured, wire_length = unpack(buf, pos)
            data = pos + 28
            stop = pos + length
            if (
                kind != _ENHANCED
                or stop > end
                or length & 3
                or captured > length - 32
                or captured > MAX_RECORD
                or number >= count
                or buf[stop - 4 : stop] != buf[pos + 4 : pos + 8]
            ):
                break
            link, _, multiply, divide, offset = interfaces[number]
            time = (high << 32 | low) * multiply // divide + offset
            pos = stop
            yield time, link, buf[data : data + captured], wire_length
        blocks.pos = pos


class _Blocks:
    """Steps from block to block of the kinds in ``_SHORTEST``, each whole and checked.

    After ``advance`` the block is ``buf[start:pos]`` and began at byte ``offset`` of the
    capture. The first is a section header, and so is the first in another byte order.
    """

    def __init__(self, read: Read, buf: bytes, tell: OnProblem) -> None:
        self._read = read
        self._tell = tell
        self._before = 0  # bytes of the capture before buf
        self.buf = buf
        self.start = 0
        self.pos = 0
        self._use("")

    def _use(self, order: str) -> None:
        self.order = order
        self._head = struct.Struct(order + "II").unpack_from
        self.packet = struct.Struct(order + "7I").unpack_from

    @property
    def offset(self) -> int:
        return self._before + self.start

    def advance(self) -> int:
        """The next block's kind, 0 at the end or where reading on makes no sense."""
        while True:
            if not self._hold(12):
                return 0
            self.start = self.pos
            if self.buf.startswith(MAGIC, self.start) and not self._begin_section():
                return 0
            kind, length = self._head(self.buf, self.start)
            shortest = _SHORTEST.get(kind)
            if length < (shortest or 12) or length % 4 or (shortest and length > _MAX_BLOCK):
                self._tell(_bad_length(self.offset, kind, length))
                return 0
            if shortest is None:
                if not self._skip(length):
                    return 0
                continue
            if not self._hold(length):
                return 0
            self.start = self.pos
            self.pos += length
            if self._head(self.buf, self.pos - 8)[1] != length:
                self._tell(_bad_length(self.offset, kind, length))
                return 0
            return int(kind)

    def _begin_section(self) -> bool:
        order = _ORDERS.get(self.buf[self.start + 8 : self.start + 12])
        if order is None:
            message = f"section at byte {self.offset} has no readable byte order"
            if not self.order:
                raise CaptureError(f"expected a pcapng capture: {message}")
            self._tell(CaptureProblem("section", self.offset, message))
            return False
        self._use(order)
        return True

    def _hold(self, count: int) -> bool:
        """Whether ``count`` bytes from ``pos`` on are in ``buf``, after reading if need be."""
        if len(self.buf) - self.pos >= count:
            return True
        self._before += self.pos
        self.buf = refill(self._read, self.buf[self.pos :], count)
        self.pos = 0
        return self._whole(len(self.buf), count)

    def _skip(self, count: int) -> bool:
        """Step over ``count`` bytes without holding them; whether there were as many."""
        have = len(self.buf) - self.pos
        if have >= count:
            self.pos += count
            return True
        self._before += self.pos
        self.buf = b""
        self.pos = 0
        while have < count:
            part = self._read(min(count - have, CHUNK))
            if not part:
                return self._whole(have, count)
            have += len(part)
        self._before += count
        return True

    def _whole(self, have: int, need: int) -> bool:
        if have >= need:
            return True
        if not self._before:
            raise CaptureError(f"capture ends mid-header: {have} of {need} bytes")
        if have:
            self._tell(cut("block", self._before, need, have))
        return False


def _parse_interface(order: str, buf: bytes, start: int, stop: int) -> tuple[_Interface, bool]:
    """An interface description block, and whether its options could all be read."""
    link, _, snaplen = struct.unpack_from(order + "HHI", buf, start + 8)
    multiply, divide, offset = 1000, 1, 0
    pos = start + 16
    end = stop - 4
    while end - pos >= 4:
        code, length = struct.unpack_from(order + "HH", buf, pos)
        pos += 4
        if code == _END_OF_OPTIONS:
            break
        if length > end - pos:
            return _Interface(link, snaplen, multiply, divide, offset), False
        if code == _TSRESOL and length == 1:
            multiply, divide = _resolution(buf[pos])
        elif code == _TSOFFSET and length == 8:
            offset = struct.unpack_from(order + "q", buf, pos)[0] * 1_000_000_000
        pos += length + -length % 4
    return _Interface(link, snaplen, multiply, divide, offset), True


def _resolution(value: int) -> tuple[int, int]:
    """if_tsresol: the top bit says power of two, else of ten; -> (multiply, divide) to ns."""
    if value & 0x80:
        return 1_000_000_000, 1 << (value & 0x7F)
    if value <= 9:
        return 10 ** (9 - value), 1
    return 1, 10 ** (value - 9)


def _bad_length(offset: int, kind: int, length: int) -> CaptureProblem:
    name = _NAMES.get(kind, f"type {kind:#x}")
    return CaptureProblem(
        "block length",
        offset,
        f"{name} block at byte {offset} has an impossible length ({length}): "
        "what follows cannot be read",
    )
