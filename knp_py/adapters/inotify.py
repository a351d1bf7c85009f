"""Linux's inotify and a timer as descriptors: what the standard library does not have yet.

See inotify(7) and timerfd_create(2). Python has ``os.timerfd_create`` from 3.13 on.
"""

import ctypes
import os
from struct import Struct
from typing import NamedTuple

MODIFY = 0x2
ATTRIB = 0x4
CLOSE_WRITE = 0x8
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
MOVE_SELF = 0x800
UNMOUNT = 0x2000
OVERFLOW = 0x4000
IGNORED = 0x8000
ONLYDIR = 0x0100_0000
DONT_FOLLOW = 0x0200_0000
ISDIR = 0x4000_0000

_MASK_ADD = 0x2000_0000
_HEADER = Struct("iIII")
_MOST = 1 << 16  # bytes read at a time
_MONOTONIC = 1  # CLOCK_MONOTONIC
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # also what the kernel calls IN_ and TFD_ of those


class Event(NamedTuple):
    """What happened, to the watched inode itself or to ``name`` in the watched directory.

    ``cookie`` connects the two halves of a rename.
    """

    watch: int
    mask: int
    cookie: int
    name: str


class Inotify:
    """One inotify instance. Everything raises ``OSError`` where the kernel refuses."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = _checked(self._libc.inotify_init1(_FLAGS))

    def fileno(self) -> int:
        """Readable while there are events."""
        return self._descriptor

    def add(self, path: str, mask: int) -> int:
        """Watch a path, besides what its inode is watched for already; the watch's number."""
        name = os.fsencode(path)
        return _checked(self._libc.inotify_add_watch(self._descriptor, name, mask | _MASK_ADD))

    def remove(self, watch: int) -> None:
        """End a watch; one that has ended by itself is no error."""
        self._libc.inotify_rm_watch(self._descriptor, watch)

    def read(self) -> list[Event]:
        """The events there are, perhaps not all of them; it does not wait."""
        try:
            data = os.read(self._descriptor, _MOST)
        except BlockingIOError:
            return []
        events: list[Event] = []
        position = 0
        while position < len(data):
            watch, mask, cookie, length = _HEADER.unpack_from(data, position)
            position += _HEADER.size
            name = os.fsdecode(data[position : position + length].rstrip(b"\0"))
            position += length
            events.append(Event(watch, mask, cookie, name))
        return events

    def close(self) -> None:
        """Drop every watch."""
        os.close(self._descriptor)


class _Moment(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Setting(ctypes.Structure):
    _fields_ = (("interval", _Moment), ("first", _Moment))


class Timer:
    """A descriptor that is readable once the time has come."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = _checked(self._libc.timerfd_create(_MONOTONIC, _FLAGS))

    def fileno(self) -> int:
        """Readable from the moment that was set until ``expired`` is asked."""
        return self._descriptor

    def set(self, seconds: float, *, again: bool = False) -> None:
        """Ring in so many seconds (more than 0), and every so many seconds ``again``."""
        moment = _Moment(*divmod(int(seconds * 1e9), 1_000_000_000))
        setting = _Setting(moment if again else _Moment(0, 0), moment)
        _checked(self._libc.timerfd_settime(self._descriptor, 0, ctypes.byref(setting), None))

    def expired(self) -> bool:
        """Whether it rang since it was last asked."""
        try:
            return bool(os.read(self._descriptor, 8))
        except BlockingIOError:
            return False

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)


def _checked(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
