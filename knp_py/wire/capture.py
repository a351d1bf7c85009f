"""Captures to records: classic pcap here, pcapng in ``wire.pcapng``.

Formats: draft-ietf-opsawg-pcap (both byte orders, micro- and nanoseconds), and the
"modified" pcap that patched Linux libpcaps of old wrote. This module has its own
reader because every record of a replay passes through it and scapy's costs five times
as much; tests compare the two.
"""

import struct
from collections.abc import Iterator

from knp_py.errors import CaptureError
from knp_py.wire import pcapng
from knp_py.wire.source import (
    MAX_RECORD,
    CaptureProblem,
    OnProblem,
    Read,
    Record,
    cut,
    refill,
)

_FILE_HEADER = 24
# Magic number as bytes -> byte order, nanoseconds per fraction, record header length.
_CLASSIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000, 16),
    b"\xa1\xb2\xc3\xd4": (">", 1000, 16),
    b"\x4d\x3c\xb2\xa1": ("<", 1, 16),
    b"\xa1\xb2\x3c\x4d": (">", 1, 16),
    b"\x34\xcd\xb2\xa1": ("<", 1000, 24),  # adds interface, protocol and packet type
    b"\xa1\xb2\xcd\x34": (">", 1000, 24),
}
# The upper bits of the link type field hold the frame check sequence's length.
_LINK_MASK = 0x03FF_FFFF

# What people give by mistake, by its first bytes.
_OTHER_FILES = (
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\xfd7zXZ", "xz data"),
    (b"BZh", "bzip2 data"),
    (b"PK", "a zip archive"),
    (b"\x7fELF", "a program"),
    (b"snoop\x00", "a Solaris snoop capture"),
    (b"RTSS", "a Network Monitor capture"),
    (b"GMBU", "a Network Monitor capture"),
)


def read_capture(read: Read, *, on_problem: OnProblem | None = None) -> Iterator[Record]:
    """Records of a pcap or pcapng capture, in file order.

    ``read(n)`` returns at most ``n`` bytes and ``b""`` at the end; it may return fewer,
    so a growing pipe works. Raises ``CaptureError`` if this is no capture. A capture
    that is cut short or names absurd lengths yields every record before that place and
    then tells ``on_problem``; without ``on_problem`` a problem is a ``CaptureError``.
    """
    tell = on_problem or _refuse
    head = refill(read, b"", 4)
    magic = head[:4]
    if magic in _CLASSIC:
        return _read_classic(read, head, tell)
    if magic == pcapng.MAGIC:
        return pcapng.read_pcapng(read, head, tell)
    start = refill(read, head, 32)[:32]
    raise CaptureError(f"expected a pcap or pcapng capture, found {_describe(start)}")


def _refuse(problem: CaptureProblem) -> None:
    raise CaptureError(str(problem))


def _describe(start: bytes) -> str:
    """The first bytes of something that is no capture, in words."""
    if not start:
        return "an empty file"
    for prefix, name in _OTHER_FILES:
        if start.startswith(prefix):
            return name
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in start):
        return f"text beginning {start.decode('ascii')!r}"
    return f"data {'beginning ' if len(start) > 4 else ''}{start[:4].hex(' ')}"


def _read_classic(read: Read, buf: bytes, tell: OnProblem) -> Iterator[Record]:
    """Records of a classic pcap whose first bytes, the magic at least, are ``buf``."""
    order, scale, header = _CLASSIC[buf[:4]]
    buf = refill(read, buf, _FILE_HEADER)
    if len(buf) < _FILE_HEADER:
        raise CaptureError(f"capture ends mid-header: {len(buf)} of {_FILE_HEADER} bytes")
    link = struct.unpack_from(order + "I", buf, 20)[0] & _LINK_MASK
    unpack = struct.Struct(order + "IIII").unpack_from
    pos = _FILE_HEADER
    before = 0  # bytes of the capture before buf
    second = -1
    base = 0
    while True:
        end = len(buf)
        last = end - header
        while pos <= last:
            seconds, fraction, length, wire_length = unpack(buf, pos)
            start = pos + header
            stop = start + length
            if stop > end:
                break
            if seconds != second:
                second = seconds
                base = seconds * 1_000_000_000
            yield base + fraction * scale, link, buf[start:stop], wire_length
            pos = stop
        # A record that is not whole in buf; one that is cannot be longer than MAX_RECORD,
        # because buf is never longer than what a record needed plus a chunk.
        need = header
        if pos <= last:
            need += length
            if length > MAX_RECORD:
                tell(_absurd(before + pos, length))
                return
        before += pos
        buf = refill(read, buf[pos:], need)
        pos = 0
        if len(buf) < need:
            if buf:
                tell(cut("record", before, need, len(buf)))
            return


def _absurd(offset: int, length: int) -> CaptureProblem:
    return CaptureProblem(
        "record length",
        offset,
        f"record at byte {offset} claims {length} bytes, more than {MAX_RECORD}: "
        "what follows cannot be read",
    )
