"""A real queue: every packet read and answered once, the flags prove themselves."""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import pytest
from helpers.netspace import alone, needs, run

from knp_py.adapters.queuestats import read_queues
from knp_py.errors import NotPermittedError

pytest.importorskip("netfilterqueue", reason="needs netfilterqueue (the extra agent)")
from knp_py.adapters.kernelqueue import BUDGET, KernelQueue

pytestmark = needs("nft", "iptables-nft")

NUMBER = 7
PORT = 4000
PATIENCE = 60.0
LO = "127.0.0.1"
ANSWERED, ASKED, OTHERS = 0x40, 0x8, 0xC000
COUNTERS = """\
table inet counting {
  counter answered { }
  counter unanswered { }
  chain post {
    type filter hook postrouting priority -140;
    udp dport 4000 meta mark and 0x78 == 0x40 counter name answered
    udp dport 4000 meta mark and 0x78 != 0x40 counter name unanswered
  }
}
"""


@pytest.fixture(autouse=True)
def _space() -> Iterator[None]:
    """A namespace whose UDP to one port goes through the queue."""
    with alone():
        run("nft", "-f", "-", text=COUNTERS)
        yield


def to_queue(*match: str, mark: int = 0, tool: str = "iptables-nft") -> None:
    """Have what matches queued, with this mark."""
    if mark:
        run(tool, "-t", "mangle", "-A", "OUTPUT", *match, "-j", "MARK", "--set-mark", hex(mark))
    where = ["POSTROUTING", *match]
    run(tool, "-t", "mangle", "-A", *where, "-j", "NFQUEUE", "--queue-num", str(NUMBER))


UDP = ("-p", "udp", "--dport", str(PORT))


@contextmanager
def datagrams(family: int = socket.AF_INET) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A sender with all the room it wants, and who it sends to."""
    host = LO if family == socket.AF_INET else "::1"
    with (
        socket.socket(family, socket.SOCK_DGRAM) as sender,
        socket.socket(family, socket.SOCK_DGRAM) as receiver,
    ):
        for sock, option in ((sender, socket.SO_SNDBUF), (receiver, socket.SO_RCVBUF)):
            force = {socket.SO_SNDBUF: 32, socket.SO_RCVBUF: 33}[option]  # SO_*BUFFORCE
            sock.setsockopt(socket.SOL_SOCKET, force, 64 * 1024 * 1024)
        receiver.bind((host, PORT))
        receiver.settimeout(PATIENCE)
        sender.connect((host, PORT))
        yield sender, receiver


def received(receiver: socket.socket) -> list[bytes]:
    """All that has arrived by now."""
    receiver.setblocking(False)
    found = []
    try:
        while True:
            found.append(receiver.recv(65535))
    except BlockingIOError:
        return found


def counted(name: str) -> int:
    listed = run("nft", "list", "counter", "inet", "counting", name)
    return int(listed.split("packets ")[1].split()[0])


def waits(queue: KernelQueue) -> bool:
    return bool(select.select([queue.fileno()], [], [], 0)[0])


class Reader:
    """Answers a queue's packets in a thread, until told to stop."""

    def __init__(self, queue: KernelQueue) -> None:
        self.queue = queue
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        while not self._stop.is_set():
            if select.select([self.queue.fileno()], [], [], 0.02)[0]:
                self.queue.drain()


@pytest.mark.parametrize(
    ("tool", "family"), [("iptables-nft", socket.AF_INET), ("ip6tables-nft", socket.AF_INET6)]
)
def test_every_packet_is_read_and_answered_once(tool: str, family: int) -> None:
    """Thousands, of every size, many longer than what is read of them."""
    to_queue(*UDP, mark=ASKED | OTHERS, tool=tool)
    seen: list[tuple[int, bytes]] = []

    def answer(mark: int, data: bytes) -> int:
        seen.append((mark, data))
        return mark & ~0x78 | ANSWERED

    queue = KernelQueue(NUMBER, answer, copy=256)
    header = 48 if family == socket.AF_INET6 else 28
    sizes = [0, 1, 3, 227, 228, 229, 255, 256, 1400, 9000, 60_000]
    sent = [bytes([n % 251]) * sizes[n % len(sizes)] for n in range(4400)]
    with datagrams(family) as (sender, receiver):
        got: list[bytes] = []
        for start in range(0, len(sent), 40):
            for data in sent[start : start + 40]:
                sender.send(data)
            queue.drain()
            got += received(receiver)
        while waits(queue):
            queue.drain()
        got += received(receiver)
    assert got == sent
    assert queue.packets == len(seen) == len(sent)
    for (mark, data), payload in zip(seen, sent, strict=True):
        assert mark == ASKED | OTHERS
        assert len(data) == min(256, header + len(payload))
        assert data[header:] == payload[: 256 - header]
    assert counted("answered") == len(sent)
    assert counted("unanswered") == 0
    state = read_queues()[NUMBER]
    assert (state.waiting, state.dropped, state.lost) == (0, 0, 0)
    assert state.last_id == len(sent)
    queue.close()
    assert NUMBER not in read_queues()


def test_others_bits_go_on_with_the_packet() -> None:
    to_queue(*UDP, mark=ASKED | OTHERS)
    run("nft", "add rule inet counting post meta mark and 0xc000 == 0xc000 udp dport 4000 drop")
    queue = KernelQueue(NUMBER, lambda mark, _: mark & ~0x78 | ANSWERED)
    with datagrams() as (sender, receiver):
        sender.send(b"x")
        queue.drain()
        assert counted("answered") == 1
        assert received(receiver) == []
    queue.close()


def test_a_packet_without_a_mark() -> None:
    """The kernel leaves the mark out then; what comes back may have one."""
    to_queue(*UDP)
    seen: list[tuple[int, bytes]] = []

    def answer(mark: int, data: bytes) -> int:
        seen.append((mark, data[28:]))
        return ANSWERED if data.endswith(b"yes") else 0

    queue = KernelQueue(NUMBER, answer)
    with datagrams() as (sender, receiver):
        for data in (b"yes", b"no", b"", b"yes"):
            sender.send(data)
        queue.drain()
        assert received(receiver) == [b"yes", b"no", b"", b"yes"]
    assert seen == [(0, b"yes"), (0, b"no"), (0, b""), (0, b"yes")]
    assert (counted("answered"), counted("unanswered")) == (2, 2)
    queue.close()


def test_marked_and_unmarked_in_turn() -> None:
    run("iptables-nft", "-t", "mangle", "-A", "OUTPUT", *UDP, "-m", "length", "--length", "100:",
        "-j", "MARK", "--set-mark", "8")  # fmt: skip
    to_queue(*UDP)
    seen: list[tuple[int, int]] = []

    def answer(mark: int, data: bytes) -> int:
        seen.append((mark, len(data)))
        return mark

    queue = KernelQueue(NUMBER, answer)
    with datagrams() as (sender, _):
        for n in range(20):
            sender.send(bytes(100 if n % 3 else 1))
        queue.drain()
    assert seen == [(8, 128) if n % 3 else (0, 29) for n in range(20)]
    queue.close()


def test_a_turn_is_bounded() -> None:
    to_queue(*UDP, mark=ASKED)
    queue = KernelQueue(NUMBER, lambda mark, _: mark)
    with datagrams() as (sender, _):
        for _ in range(BUDGET + 3):
            sender.send(b"x")
        queue.drain()
        assert queue.packets == BUDGET
        assert waits(queue)
        queue.drain()
        assert queue.packets == BUDGET + 3
        assert not waits(queue)
    queue.close()


def test_a_number_that_is_taken_is_refused() -> None:
    first = KernelQueue(NUMBER, lambda mark, _: mark)
    with pytest.raises(NotPermittedError, match=f"queue {NUMBER} could not be opened") as refused:
        KernelQueue(NUMBER, lambda mark, _: mark)
    assert "\n" not in str(refused.value)
    other = KernelQueue(NUMBER + 1, lambda mark, _: mark)
    assert set(read_queues()) == {NUMBER, NUMBER + 1}
    first.close()
    other.close()
    KernelQueue(NUMBER, lambda mark, _: mark).close()


def test_packets_that_wait_when_it_is_closed_are_dropped() -> None:
    """Which is why stopping answers them first."""
    to_queue(*UDP, mark=ASKED)
    queue = KernelQueue(NUMBER, lambda mark, _: mark)
    with datagrams() as (sender, receiver):
        sender.send(b"x")
        assert read_queues()[NUMBER].waiting == 1
        queue.close()
        assert received(receiver) == []


# -- flags -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fail_open", [True, False])
def test_a_full_queue_lets_pass_or_drops(fail_open: bool) -> None:
    """Nobody reads, and one packet may wait. Which flag it was is seen by what arrives."""
    to_queue(*UDP, mark=ASKED)
    queue = KernelQueue(NUMBER, lambda mark, _: mark, length=1, fail_open=fail_open)
    with datagrams() as (sender, receiver):
        sent = [str(n).encode() for n in range(50)]
        for data in sent:
            sender.send(data)
        passed = received(receiver)
        assert passed == (sent[1:] if fail_open else [])
        state = read_queues()[NUMBER]
        assert state.waiting == 1
        assert state.dropped == (0 if fail_open else 49)
        queue.drain()
        assert received(receiver) == sent[:1]
    queue.close()


@pytest.mark.parametrize("whole", [True, False])
def test_packets_that_the_card_is_to_cut_up_arrive_either_way(whole: bool) -> None:
    run("ip", "link", "set", "lo", "mtu", "1500")
    match = ("-p", "tcp", "--dport", str(PORT))
    to_queue(*match, mark=ASKED)
    longest = 0
    counts = 0

    def answer(mark: int, data: bytes) -> int:
        nonlocal longest, counts
        longest = max(longest, int.from_bytes(data[2:4], "big") or 1 << 16)
        counts += 1
        return mark

    queue = KernelQueue(NUMBER, answer, whole=whole)
    sent = bytes(range(256)) * 8192
    with Reader(queue), socket.create_server((LO, PORT)) as server:
        server.settimeout(PATIENCE)
        with socket.create_connection((LO, PORT), timeout=PATIENCE) as client:
            peer, _ = server.accept()
            with peer:
                peer.settimeout(PATIENCE)
                thread = threading.Thread(target=client.sendall, args=(sent,))
                thread.start()
                got = bytearray()
                while len(got) < len(sent):
                    data = peer.recv(1 << 16)
                    assert data
                    got += data
                thread.join(PATIENCE)
    assert bytes(got) == sent
    assert queue.packets == counts
    assert (longest > 1500) is whole
    queue.close()


def test_no_room_in_the_socket_is_counted() -> None:
    """Whoever does not read fast enough must be able to see it."""
    to_queue(*UDP, mark=ASKED)
    queue = KernelQueue(NUMBER, lambda mark, _: mark, length=65_535, copy=65_535)
    with datagrams() as (sender, receiver):
        sent = 0
        while read_queues()[NUMBER].lost == 0:
            sender.send(bytes(60_000))
            sent += 1
            assert sent < 2000, "the socket takes everything"
        for _ in range(5):
            sender.send(bytes(60_000))
        state = read_queues()[NUMBER]
        assert state.lost == 6
        assert queue.overruns == 0
        while waits(queue):
            queue.drain()
        assert queue.overruns >= 1
        assert queue.packets == sent - 1
        assert len(received(receiver)) == sent - 1
        sender.send(b"and it goes on")
        queue.drain()
        assert received(receiver) == [b"and it goes on"]
    queue.close()


def test_a_queue_opens_under_a_flood() -> None:
    """Fail-closed, an agent that comes back: packets are there before the queue is set up."""
    to_queue(*UDP, mark=ASKED)
    stop = threading.Event()
    lengths: list[int] = []

    def answer(mark: int, data: bytes) -> int:
        lengths.append(len(data))
        return mark

    with datagrams() as (sender, receiver):

        def flood() -> None:
            while not stop.is_set():
                sender.send(bytes(1000))

        thread = threading.Thread(target=flood)
        thread.start()
        try:
            for _ in range(20):
                queue = KernelQueue(NUMBER, answer, fail_open=True)
                while queue.packets < 10:
                    queue.drain()
                queue.close()
                received(receiver)
        finally:
            stop.set()
            thread.join(PATIENCE)
    assert len(lengths) >= 200
    assert set(lengths) == {1028}
