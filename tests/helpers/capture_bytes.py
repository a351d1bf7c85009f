"""Capture files as bytes, written from the format's description alone."""

import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple

MICRO, NANO, MODIFIED = 0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34
EPOCH = 1_700_000_000


class Rec(NamedTuple):
    data: bytes
    seconds: int = EPOCH
    fraction: int = 0
    wire_length: int | None = None  # as captured


def pcap(records: Iterable[Rec], *, order: str = "<", magic: int = MICRO, link: int = 1) -> bytes:
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link)]
    for record in records:
        size = len(record.data)
        wire = size if record.wire_length is None else record.wire_length
        parts.append(struct.pack(order + "IIII", record.seconds, record.fraction, size, wire))
        if magic == MODIFIED:
            parts.append(struct.pack(order + "IHBx", 1, 0x0800, 0))
        parts.append(record.data)
    return b"".join(parts)


def block(kind: int, body: bytes, *, order: str = "<", length: int | None = None) -> bytes:
    """A pcapng block; ``length`` overrides what the first of the two length fields says."""
    body += bytes(-len(body) % 4)
    size = len(body) + 12
    return (
        struct.pack(order + "II", kind, size if length is None else length)
        + body
        + struct.pack(order + "I", size)
    )


def option(code: int, value: bytes, *, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(*, order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order=order)


def interface(link: int = 1, *, snaplen: int = 0, options: bytes = b"", order: str = "<") -> bytes:
    return block(1, struct.pack(order + "HHI", link, 0, snaplen) + options, order=order)


def enhanced(
    data: bytes,
    *,
    ticks: int = EPOCH * 1_000_000,
    number: int = 0,
    wire_length: int | None = None,
    captured: int | None = None,
    options: bytes = b"",
    order: str = "<",
) -> bytes:
    size = len(data) if captured is None else captured
    wire = len(data) if wire_length is None else wire_length
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, size, wire)
    return block(6, head + data + bytes(-len(data) % 4) + options, order=order)


def obsolete(data: bytes, *, ticks: int = 0, number: int = 0, order: str = "<") -> bytes:
    head = struct.pack(
        order + "HHIIII", number, 7, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data)
    )
    return block(2, head + data, order=order)


def simple(data: bytes, *, wire_length: int | None = None, order: str = "<") -> bytes:
    wire = len(data) if wire_length is None else wire_length
    return block(3, struct.pack(order + "I", wire) + data, order=order)


def reader(data: bytes, *, at_most: int | None = None) -> Callable[[int], bytes]:
    """``read(n)`` over ``data``; never more than ``at_most`` bytes at a time."""
    pos = 0

    def read(size: int) -> bytes:
        nonlocal pos
        part = data[pos : pos + (size if at_most is None else min(size, at_most))]
        pos += len(part)
        return part

    return read
