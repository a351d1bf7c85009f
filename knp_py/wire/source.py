"""What the capture readers share: the record, the named problem, and one way to read on.

Constant memory: nobody holds more than one record or block plus ``CHUNK`` bytes,
whatever lengths a hostile file claims.
"""

from collections.abc import Callable
from typing import NamedTuple

# Time in ns since 1970, link type (LINKTYPE_* of tcpdump.org), captured bytes, length on
# the wire. A plain tuple: building a NamedTuple would double the cost of a record.
Record = tuple[int, int, bytes, int]
Read = Callable[[int], bytes]

# Larger chunks are slower, not faster: records are cut out of what is still in the CPU's
# cache (measured: 0.27 us a record at 64 KiB, 0.34 us at 1 MiB).
CHUNK = 1 << 16
# libpcap's own bound; far above any MTU and above the 64 KiB of offloaded segments.
MAX_RECORD = 1 << 18


class CaptureProblem(NamedTuple):
    """Why reading stopped early, or what was left out.

    ``kind`` is short and stable, to count by; ``offset`` is where in the (uncompressed)
    capture the record or block begins; ``message`` is one line.
    """

    kind: str
    offset: int
    message: str

    def __str__(self) -> str:
        return self.message


OnProblem = Callable[[CaptureProblem], None]


def refill(read: Read, rest: bytes, need: int) -> bytes:
    """``rest`` and what follows it: at least ``need`` bytes unless the input ends first.

    Joins once, so that an input that comes a byte at a time costs no more than one pass.
    """
    have = len(rest)
    parts = [rest]
    while have < need:
        part = read(CHUNK)
        if not part:
            break
        parts.append(part)
        have += len(part)
    return b"".join(parts)


def cut(what: str, start: int, need: int, have: int) -> CaptureProblem:
    """The input ended inside a record or block that began at ``start``."""
    return CaptureProblem(
        "cut",
        start,
        f"capture ends mid-{what} at byte {start + have}: "
        f"the {what} at byte {start} has {have} of {need} bytes",
    )
