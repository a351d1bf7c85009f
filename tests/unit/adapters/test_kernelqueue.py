"""The queue, message by message: what is read, what goes back. The real one: tests/rooted."""

import errno
import itertools
import socket
import struct
from collections.abc import Callable

import pytest
from helpers.netlink import (
    Attribute,
    FakeNetlink,
    attributes,
    error,
    message,
    messages,
    read_attributes,
)
from hypothesis import given
from hypothesis import strategies as st

from knp_py.errors import KernelError, NotPermittedError

pytest.importorskip("netfilterqueue", reason="needs netfilterqueue (the extra agent)")
from knp_py.adapters import kernelqueue
from knp_py.adapters.kernelqueue import BUDGET, KernelQueue

PACKET, VERDICT, CONFIG = 0x300, 0x301, 0x302  # NFQNL_MSG_*
HEADER, MARK, TIMESTAMP, INDEV, HWADDR, PAYLOAD = 1, 3, 4, 5, 9, 10  # NFQA_*
PARAMS, MASK, FLAGS = 2, 4, 5  # NFQA_CFG_*
FAIL_OPEN, GSO = 1, 4
COPY_PACKET = 2
REQUEST, ACK = 1, 4
ACCEPT = 1


def packet(
    ident: int,
    payload: bytes | None,
    mark: int | None = None,
    between: tuple[Attribute, ...] = (),
    after: tuple[Attribute, ...] = (),
) -> bytes:
    """A packet as the kernel sends it; its payload is last and not padded."""
    pairs: list[Attribute] = [(HEADER, struct.pack(">IHB", ident, 0x0800, 4)), *between]
    if mark is not None:
        pairs.append((MARK, struct.pack(">I", mark)))
    body = attributes(*pairs, *after)
    if payload is not None:
        body += struct.pack("=HH", 4 + len(payload), PAYLOAD) + payload
    return message(PACKET, body)


class Package:
    """The netfilterqueue package: binds, and calls back for what came before we read."""

    taken = False
    early: tuple[object, ...] = ()

    def __init__(self) -> None:
        self.bound: list[int] = []
        self.options: dict[str, int] = {}

    def bind(self, number: int, callback: Callable[[object], None], **options: int) -> None:
        if self.taken:
            raise OSError("Failed to create queue 100.")
        self.bound.append(number)
        self.options = options
        for each in self.early:
            callback(each)

    def get_fd(self) -> int:
        return 77

    def unbind(self) -> None:
        self.bound.clear()


class Given:
    """A queue on a kernel that is not there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[int, bytes]] = []
        self.answers: Callable[[int, bytes], int] = lambda mark, _: mark
        self.results = itertools.repeat(0)
        self.netlink = FakeNetlink(self._respond)
        self.before_first: list[bytes | OSError] = []
        self.loses = 0  # answers for which there is no room
        self.package = Package
        monkeypatch.setattr(kernelqueue, "NetfilterQueue", Package)
        monkeypatch.setattr(socket, "fromfd", lambda *_: self.netlink)

    def _respond(self, data: bytes) -> list[bytes | OSError]:
        if not any(flags & ACK for _, flags, _ in messages(data)):
            return []
        answers, self.before_first = self.before_first, []
        if self.loses:
            self.loses -= 1
            return [*answers, OSError(errno.ENOBUFS, "No buffer space available")]
        return [*answers, error(next(self.results))]

    def answer(self, mark: int, data: bytes) -> int:
        self.seen.append((mark, data))
        self.netlink.happened.append("answered")
        return self.answers(mark, data)

    def queue(self, **options: object) -> KernelQueue:
        return KernelQueue(100, self.answer, **options)  # type: ignore[arg-type]

    def come(self, *data: bytes | OSError) -> None:
        self.netlink.waiting += data

    def settings(self) -> dict[int, bytes]:
        """All that was asked of the queue's configuration."""
        found: dict[int, bytes] = {}
        for data in self.netlink.sent:
            for kind, flags, body in messages(data):
                if kind == CONFIG:
                    assert flags == REQUEST | ACK
                    assert body[:4] == struct.pack(">BBH", 0, 0, 100)
                    found |= read_attributes(body[4:])
        return found

    def verdicts(self) -> list[tuple[int, int]]:
        """Packet and mark of every verdict that was sent; all accept."""
        found = []
        for data in self.netlink.sent:
            for kind, flags, body in messages(data):
                if kind == VERDICT:
                    assert flags == REQUEST
                    assert body[:4] == struct.pack(">BBH", 0, 0, 100)
                    said = read_attributes(body[4:])
                    verdict, ident = struct.unpack(">II", said[2])
                    assert verdict == ACCEPT
                    found.append((ident, int.from_bytes(said[MARK], "big")))
        return found


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Given:
    return Given(monkeypatch)


# -- opening ---------------------------------------------------------------------------------


def test_a_number_that_is_taken(kernel: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Package, "taken", True)
    with pytest.raises(NotPermittedError, match="queue 100 could not be opened") as refused:
        kernel.queue()
    assert "\n" not in str(refused.value)
    assert "another agent" in str(refused.value)
    assert "--nfqueue-id" in str(refused.value)
    assert "--dns-queue-id" in str(refused.value)


@pytest.mark.parametrize(
    ("fail_open", "whole", "flags"),
    [
        (False, True, GSO),
        (True, True, FAIL_OPEN | GSO),
        (True, False, FAIL_OPEN),
        (False, False, 0),
    ],
)
def test_flags_are_set_and_the_others_cleared(
    kernel: Given, fail_open: bool, whole: bool, flags: int
) -> None:
    kernel.queue(fail_open=fail_open, whole=whole, copy=1234)
    settings = kernel.settings()
    assert settings[FLAGS] == struct.pack(">I", flags)
    assert settings[MASK] == struct.pack(">I", FAIL_OPEN | GSO)
    assert settings[PARAMS] == struct.pack(">IB", 1234, COPY_PACKET)


def test_settings_that_are_refused(kernel: Given) -> None:
    kernel.results = itertools.repeat(errno.EOPNOTSUPP)
    with pytest.raises(KernelError, match="queue 100: its settings were refused: Op"):
        kernel.queue()


def test_packets_that_come_before_the_kernels_answer_are_answered(kernel: Given) -> None:
    kernel.before_first = [packet(n, b"early", 8) for n in range(1, 3 * BUDGET)]
    kernel.queue()
    assert kernel.verdicts() == [(n, 8) for n in range(1, 3 * BUDGET)]


def test_an_answer_for_which_there_was_no_room_is_asked_for_again(kernel: Given) -> None:
    """A flood fills the socket between opening and setting; waiting for it would never end."""
    kernel.before_first = [packet(n, b"early", 8) for n in range(1, 100)]
    kernel.loses = 2
    queue = kernel.queue(fail_open=True)
    assert kernel.settings()[FLAGS] == struct.pack(">I", FAIL_OPEN | GSO)
    assert len(kernel.verdicts()) == 99
    assert queue.overruns == 2


class _Early:
    """A packet that the package itself has read."""

    def __init__(self) -> None:
        self.did: list[str] = []

    def get_mark(self) -> int:
        return 8

    def get_payload(self) -> bytes:
        return b"early"

    def set_mark(self, mark: int) -> None:
        self.did.append(f"mark {mark}")

    def accept(self) -> None:
        self.did.append("accept")


def test_packets_that_come_while_it_is_opened_are_answered(
    kernel: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = _Early()
    monkeypatch.setattr(Package, "early", (early,))
    kernel.answers = lambda mark, _: mark | 0x40
    kernel.queue()
    assert kernel.seen == [(8, b"early")]
    assert early.did == ["mark 72", "accept"]


def test_closing_gives_number_and_descriptor_back(kernel: Given) -> None:
    queue = kernel.queue()
    assert queue.fileno() == 77
    queue.close()
    assert kernel.netlink.closed


# -- reading ---------------------------------------------------------------------------------


def test_every_packet_gets_one_verdict_in_one_call(kernel: Given) -> None:
    queue = kernel.queue()
    kernel.answers = lambda mark, data: mark | len(data) << 16
    kernel.come(*(packet(n, bytes(n), 8) for n in range(1, 11)))
    before = len(kernel.netlink.sent)
    queue.drain()
    assert kernel.verdicts() == [(n, 8 | n << 16) for n in range(1, 11)]
    assert len(kernel.netlink.sent) == before + 1
    assert queue.packets == 10


def test_a_turn_is_bounded(kernel: Given) -> None:
    queue = kernel.queue()
    kernel.come(*(packet(n, b"x", 8) for n in range(BUDGET + 5)))
    queue.drain()
    assert len(kernel.verdicts()) == BUDGET
    queue.drain()
    assert len(kernel.verdicts()) == BUDGET + 5


def test_nothing_waits_nothing_is_sent(kernel: Given) -> None:
    told: list[str] = []
    queue = kernel.queue(before_release=lambda: told.append("release"))
    before = len(kernel.netlink.sent)
    queue.drain()
    assert len(kernel.netlink.sent) == before
    assert told == []


def test_what_is_to_be_kept_is_kept_before_anybody_is_released(kernel: Given) -> None:
    queue = kernel.queue(before_release=lambda: kernel.netlink.happened.append("kept"))
    kernel.netlink.happened.clear()
    kernel.come(packet(1, b"x", 8), packet(2, b"y", 8))
    queue.drain()
    assert kernel.netlink.happened == ["answered", "answered", "kept", "sent"]


def test_no_room_in_our_socket_is_counted_and_no_reason_to_stop(kernel: Given) -> None:
    queue = kernel.queue()
    full = OSError(errno.ENOBUFS, "No buffer space available")
    kernel.come(packet(1, b"x", 8), full, packet(2, b"y", 8))
    queue.drain()
    assert kernel.verdicts() == [(1, 8), (2, 8)]
    assert queue.overruns == 1


def test_what_was_read_before_a_failure_is_answered(kernel: Given) -> None:
    queue = kernel.queue()
    kernel.come(packet(1, b"x", 8), OSError(errno.EBADF, "gone"))
    with pytest.raises(OSError, match="gone"):
        queue.drain()
    assert kernel.verdicts() == [(1, 8)]


def test_a_packet_without_mark_or_bytes(kernel: Given) -> None:
    queue = kernel.queue()
    kernel.come(
        packet(1, b"abc"),
        packet(2, None, 8),
        packet(3, None),
        packet(4, b"", 8),
        packet(5, b"abc", 8),
        packet(6, b"abc"),
    )
    queue.drain()
    assert kernel.seen == [(0, b"abc"), (8, b""), (0, b""), (8, b""), (8, b"abc"), (0, b"abc")]
    assert [ident for ident, _ in kernel.verdicts()] == [1, 2, 3, 4, 5, 6]


def test_messages_that_are_no_packets_are_passed_over(kernel: Given) -> None:
    queue = kernel.queue()
    kernel.come(packet(1, b"a", 8), error(0), message(0x555, bytes(40)), packet(2, b"b", 8))
    queue.drain()
    assert [ident for ident, _ in kernel.verdicts()] == [1, 2]


# What else the kernel says of a packet; a link-layer address is the sender's own choice, and
# so are bytes of the payload that look like the header of a mark.
_LOOKS_LIKE_A_MARK = struct.pack("=HH", 8, MARK) + b"\xff\xff\xff\xff"
_OTHERS = st.lists(
    st.one_of(
        st.tuples(st.just(INDEV), st.binary(min_size=4, max_size=4)),
        st.tuples(st.just(HWADDR), st.binary(min_size=12, max_size=12)),
        st.just((HWADDR, _LOOKS_LIKE_A_MARK + bytes(4))),
        st.tuples(st.just(TIMESTAMP), st.binary(min_size=16, max_size=16)),
    ),
    max_size=3,
).map(tuple)
_PACKETS = st.tuples(
    st.integers(min_value=0, max_value=0xFFFF_FFFF),
    st.binary(max_size=100) | st.just(_LOOKS_LIKE_A_MARK * 3),
    st.none() | st.integers(min_value=0, max_value=0xFFFF_FFFF),
    _OTHERS,
    _OTHERS,
)


@given(st.lists(_PACKETS, max_size=20))
def test_whatever_a_message_holds_mark_and_bytes_are_found(
    packets: list[tuple[int, bytes, int | None, tuple[Attribute, ...], tuple[Attribute, ...]]],
) -> None:
    """Also when it looks like the one before and is not."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        kernel = Given(monkeypatch)
        queue = kernel.queue()
        kernel.answers = lambda mark, data: mark ^ len(data)
        kernel.come(*(packet(i, p, m, before, after) for i, p, m, before, after in packets))
        queue.drain()
        assert kernel.seen == [(m or 0, p) for _, p, m, _, _ in packets]
        assert kernel.verdicts() == [(i, (m or 0) ^ len(p)) for i, p, m, _, _ in packets]


def test_a_packet_cannot_move_where_it_is_read(kernel: Given) -> None:
    """What comes through a tunnel has no link-layer address: its bytes begin 16 earlier.

    An IPv6 source can be chosen so that the header of a payload stands where that of the
    packet before was, and behind it any other packet that would be allowed.
    """
    address = (HWADDR, b"\0\6\0\0" + bytes(8))
    trick = bytes(8) + bytes(4) + struct.pack("=HH", 4 + 40, PAYLOAD) + b"E" + bytes(39)
    queue = kernel.queue()
    kernel.come(packet(1, bytes(40), 8, after=(address,)), packet(2, trick, 8))
    queue.drain()
    assert kernel.seen == [(8, bytes(40)), (8, trick)]


def test_many_kinds_of_messages_are_not_kept_for_ever(kernel: Given) -> None:
    queue = kernel.queue()
    for n in range(40):
        kernel.come(packet(n, b"x", 8, after=((TIMESTAMP, bytes(4 * n)),)))
        queue.drain()
    assert [data for _, data in kernel.seen] == [b"x"] * 40
    assert len(queue._shapes) <= 8


def test_what_cannot_be_kept_is_no_reason_not_to_release(kernel: Given) -> None:
    """Names that cannot be written down are lost with the agent, packets are not."""

    def fail() -> None:
        raise OSError("disk full")

    queue = kernel.queue(before_release=fail)
    kernel.come(packet(1, b"x", 8))
    with pytest.raises(OSError, match="disk full"):
        queue.drain()
    assert kernel.verdicts() == [(1, 8)]


def test_others_bits_in_marks_do_not_fill_the_memory(kernel: Given) -> None:
    queue = kernel.queue()
    for start in range(0, 5000, BUDGET):
        kernel.come(*(packet(n, b"x", n << 12) for n in range(start, start + BUDGET)))
        queue.drain()
    assert len(queue._suffixes) <= 1024
    assert all(mark == ident << 12 for ident, mark in kernel.verdicts())
