"""What the kernel says of its queues: /proc/net/netfilter/nfnetlink_queue."""

from pathlib import Path
from typing import NamedTuple

_FILE = Path("/proc/net/netfilter/nfnetlink_queue")


class QueueState(NamedTuple):
    """One bound queue. ``dropped`` for want of room in it, ``lost`` in the socket's buffer."""

    number: int
    owner: int  # the netlink port, usually the process id
    waiting: int
    dropped: int
    lost: int
    last_id: int


def read_queues() -> dict[int, QueueState]:
    """Every bound queue by number. A line that is not understood is left out."""
    found: dict[int, QueueState] = {}
    try:
        lines = _FILE.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        try:
            number, owner, waiting, _, _, dropped, lost, last, *_ = map(int, line.split())
        except ValueError:
            continue
        found[number] = QueueState(number, owner, waiting, dropped, lost, last)
    return found
