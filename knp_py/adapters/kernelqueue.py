"""A netfilter queue by the netfilterqueue package, with what the package leaves out.

The package sets neither the queue's flags nor a copy range above 4 KiB; both are messages on
its own descriptor (it must be that one: the kernel checks whose queue it is). It reads until
nothing waits, which under a flood is never; here it is given a reader with a budget, so that
other queues and other work have their turn.

Message layout: linux/netfilter/nfnetlink_queue.h, linux/netlink.h.
"""

import os
import socket
import struct
import warnings
from collections.abc import Callable
from errno import EAGAIN

from netfilterqueue import NetfilterQueue, Packet

from knp_py.errors import KernelError, NotPermittedError

_NETLINK_NETFILTER = 12
_CONFIG = 3 << 8 | 2  # NFNL_SUBSYS_QUEUE, NFQNL_MSG_CONFIG
_REQUEST, _ACK = 1, 4
_NLMSG_ERROR = 2
_PARAMS, _MASK, _FLAGS = 2, 4, 5  # NFQA_CFG_*
_FAIL_OPEN, _GSO = 1, 4  # NFQA_CFG_F_*
_COPY_PACKET = 2
_METADATA = 1024  # bytes that a message may have besides the packet
_SOCKET_BUFFER = 8 * 1024 * 1024
_TYPE = struct.Struct("=4xH").unpack_from
_RESULT = struct.Struct("=16xi").unpack_from
BUDGET = 64  # packets at a time


class KernelQueue:
    """Queue ``number`` of this network namespace, bound by us.

    ``copy`` bytes of every packet reach ``callback``, which may be called before this returns;
    ``length`` packets may wait. ``fail_open`` lets packets pass when more would; ``whole``
    leaves packets together that the network card is to cut up, which SCTP needs and a reader
    of streams cannot use. Raises ``NotPermittedError`` when the number is taken.
    """

    def __init__(
        self,
        number: int,
        callback: Callable[[Packet], None],
        *,
        length: int = 4096,
        copy: int = 2048,
        fail_open: bool = False,
        whole: bool = True,
    ) -> None:
        self.number = number
        self._queue = NetfilterQueue()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a smaller buffer is no reason to stop
                self._queue.bind(number, callback, max_len=length, sock_len=_SOCKET_BUFFER)
        except OSError as error:
            raise NotPermittedError(
                f"queue {number} could not be opened: another process has it, or this one may not"
                f" (needs root, CAP_NET_ADMIN): {error}"
            ) from error
        self._reader = _Reader(self._queue.get_fd(), copy + _METADATA)
        flags = (_FAIL_OPEN if fail_open else 0) | (_GSO if whole else 0)
        self._configure(
            _attribute(_MASK, struct.pack(">I", _FAIL_OPEN | _GSO))
            + _attribute(_FLAGS, struct.pack(">I", flags))
        )
        self._configure(_attribute(_PARAMS, struct.pack(">IB", copy, _COPY_PACKET)))

    def fileno(self) -> int:
        """Readable when packets wait."""
        return int(self._queue.get_fd())

    def drain(self) -> None:
        """Hand waiting packets to the callback, at most ``BUDGET`` of them."""
        self._reader.left = BUDGET
        self._queue.run_socket(self._reader)  # type: ignore[arg-type]  # it only calls recv

    def close(self) -> None:
        """Give the number back. What still waits is dropped by the kernel."""
        self._queue.unbind()
        self._reader.close()

    def _configure(self, attributes: bytes) -> None:
        body = struct.pack(">BBH", socket.AF_UNSPEC, 0, self.number) + attributes
        header = struct.pack("=IHHII", 16 + len(body), _CONFIG, _REQUEST | _ACK, 0, 0)
        self._reader.results.clear()
        self._reader.send(header + body)
        while not self._reader.results:  # packets may lie before the kernel's answer
            self.drain()
        error = self._reader.results.pop()
        if error:
            raise KernelError(f"queue {self.number}: its settings were refused: {os.strerror(error)}")


class _Reader:
    """What the package reads from: as many messages as it may, results of ours kept out."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._socket = socket.fromfd(
            descriptor, socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER
        )
        self._recv = self._socket.recv
        self._size = size
        self.left = 0
        self.results: list[int] = []

    def send(self, message: bytes) -> None:
        self._socket.sendto(message, (0, 0))

    def recv(self, _size: int) -> bytes:
        if not self.left:
            raise BlockingIOError(EAGAIN, "that was all for now")
        self.left -= 1
        data = self._recv(self._size, socket.MSG_DONTWAIT)
        if _TYPE(data)[0] == _NLMSG_ERROR:
            self.results.append(-_RESULT(data)[0])
            return b""
        return data

    def close(self) -> None:
        self._socket.close()


def _attribute(kind: int, payload: bytes) -> bytes:
    padding = -len(payload) % 4
    return struct.pack("=HH", 4 + len(payload), kind) + payload + bytes(padding)
