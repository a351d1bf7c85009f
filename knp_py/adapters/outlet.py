"""Writing without ever waiting, to whatever standard output is.

Setting a descriptor to non-blocking would do so for everybody who has it: the other agents
on one pipe, the shell, standard error. So nothing about the descriptor is changed here.
"""

import fcntl
import os
import select
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Final

PIPE_BYTES: Final = 1 << 20
"""What a pipe is asked to hold, so that a burst finds room while its reader wakes up."""


class Outlet:
    """``write`` takes bytes and returns how many went out.

    It raises ``BlockingIOError`` where it would have to wait, any other ``OSError`` when
    the other end is gone. Of at most ``PIPE_BUF`` bytes (4,096) a pipe takes all or none.
    """

    write: Callable[[bytes], int]

    def __init__(self, descriptor: int) -> None:
        self.close: Callable[[], object] = lambda: None
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            self.write = lambda data: os.write(descriptor, data)  # a file makes nobody wait
        elif stat.S_ISSOCK(mode):
            self._socket(descriptor)
        else:
            try:
                self._open_again(descriptor, is_pipe=stat.S_ISFIFO(mode))
            except OSError:
                self._ask_first(descriptor)

    def _open_again(self, descriptor: int, *, is_pipe: bool) -> None:
        """The same pipe or terminal with flags of its own."""
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        own = os.open(f"/proc/self/fd/{descriptor}", flags)
        if is_pipe and fcntl.fcntl(own, fcntl.F_GETPIPE_SZ) < PIPE_BYTES:
            with suppress(OSError):  # more than this user may have
                fcntl.fcntl(own, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.write = lambda data: os.write(own, data)
        self.close = lambda: os.close(own)

    def _socket(self, descriptor: int) -> None:
        """What systemd's journal gives its services."""
        own = socket.socket(fileno=os.dup(descriptor))
        self.write = lambda data: own.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        self.close = own.close

    def _ask_first(self, descriptor: int) -> None:
        """For what may not be opened again: another user's, or a pipe that nobody reads."""
        poller = select.poll()
        poller.register(descriptor, select.POLLOUT)

        def write(data: bytes) -> int:
            if not poller.poll(0):
                raise BlockingIOError
            return os.write(descriptor, data)

        self.write = write
