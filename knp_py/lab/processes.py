"""Processes of a lab: told apart from strangers, and ended.

A process is its id *and* the time it started, so that one that got the id of an ended one is
never taken for it; signals go through a descriptor, which cannot change hands in between.
"""

import os
import select
import signal
import time
from collections.abc import Iterable

import msgspec

from knp_py.lab.namespaces import path_of

_PATIENCE = 2.0  # seconds between asking a process to end and ending it


class Process(msgspec.Struct, frozen=True):
    """``started`` is in clock ticks since boot, as the kernel tells it."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        """Whether it is there and has not ended."""
        return _started(self.pid) == self.started


def process(pid: int) -> Process | None:
    """The process that has this id now; None when there is none that runs."""
    started = _started(pid)
    return None if started is None else Process(pid, started)


def _started(pid: int) -> int | None:
    """When it started; None when it is not there or has ended and is only not buried yet."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def processes_in(spaces: Iterable[str]) -> list[Process]:
    """Every process in these network namespaces, our own aside."""
    inodes = set()
    for space in spaces:
        try:
            found = os.stat(path_of(space))
        except FileNotFoundError:
            continue
        inodes.add((found.st_dev, found.st_ino))
    inside = []
    for name in os.listdir("/proc") if inodes else ():
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            where = os.stat(f"/proc/{name}/ns/net")
        except OSError:
            continue
        each = process(int(name)) if (where.st_dev, where.st_ino) in inodes else None
        if each is not None:
            inside.append(each)
    return inside


def end(processes: Iterable[Process]) -> None:
    """Ask them to end, and end those that do not; back when all of them have."""
    descriptors: list[int] = []
    try:
        for each in processes:
            descriptor = _open(each)
            if descriptor is not None:
                descriptors.append(descriptor)
                _send(descriptor, signal.SIGTERM)
        left = _wait(descriptors, _PATIENCE)
        for descriptor in left:
            _send(descriptor, signal.SIGKILL)
        _wait(left, 5 * _PATIENCE)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _open(each: Process) -> int | None:
    try:
        descriptor = os.pidfd_open(each.pid)
    except ProcessLookupError:
        return None
    if each.alive:
        return descriptor
    os.close(descriptor)
    return None


def _send(descriptor: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return


def _wait(descriptors: list[int], seconds: float) -> list[int]:
    """Those that have not ended by then; a descriptor is readable when its process has."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    left, until = set(descriptors), time.monotonic() + seconds
    while left and (rest := until - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(rest * 1000):
            poll.unregister(descriptor)
            left.discard(descriptor)
    return sorted(left)
