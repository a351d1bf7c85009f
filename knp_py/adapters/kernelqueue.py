"""A netfilter queue: opened by the netfilterqueue package, read and answered here.

What a verdict costs is the system call that carries it, in which the kernel sends the packet
on its way. The package makes one for every packet; here the verdicts of all packets that wait
go in one message after the other in a single call, which is 1.3 times as fast
(bench/agent). Nor does the package set the queue's flags or a copy range above 4 KiB: those
are messages on its descriptor, as it must be: the kernel checks whose queue it is.

Message layout: linux/netlink.h, linux/netfilter/nfnetlink.h and nfnetlink_queue.h.
"""

import os
import socket
import struct
import warnings
from collections.abc import Callable
from errno import ENOBUFS
from typing import NamedTuple

from netfilterqueue import NetfilterQueue, Packet

from knp_py.errors import KernelError, NotPermittedError

_NETLINK_NETFILTER = 12
_VERDICT, _CONFIG = 3 << 8 | 1, 3 << 8 | 2  # NFNL_SUBSYS_QUEUE, NFQNL_MSG_*
_REQUEST, _ACK = 1, 4
_PACKET_TYPE = 3 << 8  # NFQNL_MSG_PACKET
_PACKET, _ERROR = struct.pack("=H", _PACKET_TYPE), struct.pack("=H", 2)
_KERNEL = (0, 0)
_MOST_SUFFIXES = 1024
_PARAMS, _MASK, _FLAGS = 2, 4, 5  # NFQA_CFG_*
_FAIL_OPEN, _GSO = 1, 4  # NFQA_CFG_F_*
_COPY_PACKET = 2
_METADATA = 1024  # bytes that a message may have besides the packet
_SOCKET_BUFFER = 8 * 1024 * 1024
_ID = slice(24, 28)  # behind the netlink, netfilter and attribute headers
_FIRST = 32  # where the attributes behind the packet's header begin
_MARK, _PAYLOAD = 3, 10
_MOST_SHAPES = 8
_MARK_HEADER = struct.pack("=HH", 8, 3)
_HEADER = struct.Struct("=HH").unpack_from
_WORD = struct.Struct("=I").unpack_from
_RESULT = struct.Struct("=16xi").unpack_from
_ACCEPT = 1
BUDGET = 64  # packets at a time

Answer = Callable[[int, bytes], int]


class _Shape(NamedTuple):
    """Which attributes a message has, where: ``headers`` reads all their headers in one go.

    A message of ``size`` bytes or more whose headers are ``expected`` has its mark and its
    payload at the same places, whatever a sender has put between them: a packet's bytes and
    its link-layer address are the sender's own choice.
    """

    headers: Callable[[bytes], tuple[int, ...]]
    expected: tuple[int, ...]
    size: int
    mark_at: int  # 0: it has none
    payload_at: int  # the same


class KernelQueue:
    """Queue ``number`` of this network namespace, bound by us.

    ``answer`` gets a packet's mark and bytes and returns the mark that its verdict carries: the
    packet goes on in the rules with that, so what is denied is dropped by them. It may be
    called before this returns and must not raise. ``copy`` bytes of every packet are read;
    ``length`` packets may wait. ``fail_open`` lets packets pass when more would; ``whole``
    leaves packets together that the network card is to cut up, which SCTP needs and a reader
    of streams cannot use. ``before_release`` is called before verdicts are sent.

    Raises ``NotPermittedError`` when the number is taken.
    """

    def __init__(
        self,
        number: int,
        answer: Answer,
        *,
        length: int = 4096,
        copy: int = 2048,
        fail_open: bool = False,
        whole: bool = True,
        before_release: Callable[[], object] | None = None,
    ) -> None:
        self.number = number
        self.packets = 0
        self.overruns = 0  # times that the kernel had no room for a packet in our socket
        self._answer = answer
        self._before_release = before_release
        self._size = copy + _METADATA
        self._shapes: list[_Shape] = []
        self._results: list[int] = []
        self._suffixes: dict[int, bytes] = {}
        body = struct.pack(">BBH", socket.AF_UNSPEC, 0, number)
        header = struct.pack("=IHHII", 40, _VERDICT, _REQUEST, 0, 0)
        self._prefix = header + body + struct.pack("=HH", 12, 2) + struct.pack(">I", _ACCEPT)
        self._queue = NetfilterQueue()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a smaller buffer is no reason to stop
                self._queue.bind(number, self._early, max_len=length, sock_len=_SOCKET_BUFFER)
        except OSError as error:
            raise NotPermittedError(
                f"queue {number} could not be opened: another process has it (another agent? then"
                " --nfqueue-id and --dns-queue-id name other queues), or this one may not (needs"
                f" root, CAP_NET_ADMIN): {error}"
            ) from error
        self._socket = socket.fromfd(
            self._queue.get_fd(), socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER
        )
        flags = (_FAIL_OPEN if fail_open else 0) | (_GSO if whole else 0)
        self._configure(
            _attribute(_MASK, struct.pack(">I", _FAIL_OPEN | _GSO))
            + _attribute(_FLAGS, struct.pack(">I", flags))
        )
        self._configure(_attribute(_PARAMS, struct.pack(">IB", copy, _COPY_PACKET)))

    def fileno(self) -> int:
        """Readable when packets wait."""
        return self._socket.fileno()

    def drain(self) -> None:
        """Answer the packets that wait, at most ``BUDGET`` of them: each exactly once."""
        receive, read = self._socket.recv, self._read
        verdicts: list[bytes] = []
        try:
            for _ in range(BUDGET):
                try:
                    read(receive(self._size, socket.MSG_DONTWAIT), verdicts)
                except BlockingIOError:
                    break
                except OSError as error:
                    if error.errno != ENOBUFS:
                        raise
                    self.overruns += 1
        finally:
            if verdicts:
                self.packets += len(verdicts)
                try:
                    if self._before_release is not None:
                        self._before_release()
                finally:
                    self._socket.sendto(b"".join(verdicts), _KERNEL)

    def close(self) -> None:
        """Give the number back. What still waits is dropped by the kernel."""
        self._queue.unbind()
        self._socket.close()

    def _read(self, data: bytes, verdicts: list[bytes]) -> None:
        """One message of the kernel; its verdict, if it brings a packet, goes on the list."""
        size = len(data)
        for shape in self._shapes:  # nearly every message looks like the one before
            if size >= shape.size and shape.headers(data) == shape.expected:
                break
        else:
            if data[4:6] != _PACKET:
                if data[4:6] == _ERROR:
                    self._results.append(-_RESULT(data)[0])
                return
            shape = _shape_of(data)
            if shape.payload_at:
                self._shapes = [shape, *self._shapes[: _MOST_SHAPES - 1]]
        mark_at, payload_at = shape.mark_at, shape.payload_at
        mark = int.from_bytes(data[mark_at : mark_at + 4], "big") if mark_at else 0
        answer = self._answer(mark, data[payload_at:] if payload_at else b"")
        suffix = self._suffixes.get(answer)
        if suffix is None:
            if len(self._suffixes) >= _MOST_SUFFIXES:  # others' bits may be anything
                self._suffixes.clear()
            suffix = self._suffixes[answer] = _MARK_HEADER + answer.to_bytes(4, "big")
        verdicts.append(self._prefix + data[_ID] + suffix)

    def _early(self, packet: Packet) -> None:
        """A packet that came while the package was still opening the queue."""
        packet.set_mark(self._answer(packet.get_mark(), packet.get_payload()))
        packet.accept()

    def _configure(self, attributes: bytes) -> None:
        body = struct.pack(">BBH", socket.AF_UNSPEC, 0, self.number) + attributes
        header = struct.pack("=IHHII", 16 + len(body), _CONFIG, _REQUEST | _ACK, 0, 0)
        self._results.clear()
        overruns = -1
        while not self._results:
            if overruns != self.overruns:  # the answer may be what there was no room for
                overruns = self.overruns
                self._socket.sendto(header + body, _KERNEL)
            self.drain()  # packets may lie before it
        error = self._results.pop()
        if error:
            raise KernelError(
                f"queue {self.number}: its settings were refused: {os.strerror(error)}"
            )


def _shape_of(data: bytes) -> _Shape:
    """A packet's message, attribute by attribute. The payload comes last."""
    headers, expected = ["=4xH26x"], [_PACKET_TYPE]
    mark_at = payload_at = 0
    at = _FIRST
    while at + 4 <= len(data):
        length, kind = _HEADER(data, at)
        if kind == _PAYLOAD:
            payload_at = at + 4
            headers.append("2xH")
            expected.append(_PAYLOAD)
            break
        if kind == _MARK:
            mark_at = at + 4
        size = max(4, length + 3 & ~3)
        headers.append(f"I{size - 4}x")
        expected.append(_WORD(data, at)[0])
        at += size
    layout = struct.Struct("".join(headers))
    return _Shape(layout.unpack_from, tuple(expected), layout.size, mark_at, payload_at)


def _attribute(kind: int, payload: bytes) -> bytes:
    padding = -len(payload) % 4
    return struct.pack("=HH", 4 + len(payload), kind) + payload + bytes(padding)
