"""A node in a kernel that is there, its rules, and a daemon that says what it is told to.

The pods a and b are managed, c is not. Nothing here judges.
"""

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from helpers.builders import address, node, pod
from helpers.netspace import run

from knp_py.adapters.kernelqueue import KernelQueue
from knp_py.adapters.nft import Nft
from knp_py.adapters.rules import Rules
from knp_py.agent.chains import turn
from knp_py.agent.layout import Layout, Members, Queues
from knp_py.agent.marks import Ask, Deed, Marks
from knp_py.agent.ruleset import install, iptables, update
from knp_py.lab.namespaces import inside, space_of
from knp_py.lab.topology import Topology
from knp_py.model.changes import ClusterObject
from knp_py.model.net import format_address, parse_cidr
from knp_py.wire.packet import parse_ip

PATIENCE = 60.0
NODE, INTERNET = "10.95.0.1", "198.51.100.7"
A, B, C = "10.95.1.11", "10.95.1.12", "10.95.1.13"
A6, B6 = "fd95::11", "fd95::12"
OBJECTS: list[ClusterObject] = [
    node("n1", NODE, pod_cidrs=["10.95.1.0/24"]),
    pod("x/a", A, A6, node="n1"),
    pod("x/b", B, B6, node="n1"),
    pod("x/c", C, node="n1"),
]
MEMBERS = Members(
    managed=frozenset(map(address, (A, A6, B, B6))),
    open_=frozenset({address(C)}),
    local=frozenset(parse_cidr("10.95.1.0/24").ranges),
)
ONE_QUEUE = Queues((100, 100), 100, 101)


class Asked(NamedTuple):
    """A packet that was put to the daemon."""

    ask: Ask
    src: str
    dst: str
    protocol: int
    dport: int


class Stage:
    """A node with rules, the daemon that answers them, and pods to send from."""

    marks = Marks()

    def __init__(self, topology: Topology, stack: ExitStack) -> None:
        self.topology = topology
        self.asked: list[Asked] = []
        self.deed: Callable[[Asked], int] = lambda _: Deed.ACCEPT_REMEMBER
        self.generation = 1  # of the daemon's world
        self.in_force = 1  # of the kernel's
        self.layout: Layout
        self.rules: Rules
        self._stack = stack
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._queues: list[KernelQueue] = []

    # -- the node ------------------------------------------------------------------------

    def start(
        self,
        *,
        fail_open: bool = False,
        remember: bool = True,
        strict: bool = False,
        queues: Queues = ONE_QUEUE,
        daemon: bool = True,
    ) -> None:
        with self.on_node():
            self.rules = Rules("knp", "KNP", self.marks.verdict)
            native = self.rules.native
            self.layout = Layout(
                "knp", self.marks, queues, fail_open, remember, strict, native=native
            )
            self.rules.apply(install(self.layout, MEMBERS, 1))
            self.rules.apply_queue(iptables(self.layout, "KNP"))
        if daemon:
            self.start_daemon()

    def start_daemon(self) -> None:
        self._stop.clear()
        with self.on_node():
            self._queues = [KernelQueue(n, self._answer) for n in self.layout.queues.numbers]
        thread = threading.Thread(target=self._read, args=(self._queues,))
        thread.start()
        self._threads.append(thread)

    def stop_daemon(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        for queue in self._queues:
            queue.close()
        self._queues = []

    def end(self) -> None:
        self.stop_daemon()
        with self.on_node():
            run("nft", "flush", "ruleset")

    def _answer(self, mark: int, data: bytes) -> int:
        packet = parse_ip(data)
        asked = Asked(
            Ask(self.marks.value(mark)),
            format_address(packet.src),
            format_address(packet.dst),
            packet.protocol,
            packet.dport,
        )
        self.asked.append(asked)
        deed = 0 if asked.ask in {Ask.DNS_QUERY, Ask.DNS_ANSWER} else self.deed(asked)
        number = self.marks.packet_generation(self.generation) if deed else 0
        return mark & self.marks.keep | self.marks.bits(deed) | number

    def _read(self, queues: list[KernelQueue]) -> None:
        while not self._stop.is_set():
            ready = select.select([queue.fileno() for queue in queues], [], [], 0.02)[0]
            for queue in queues:
                if queue.fileno() in ready:
                    queue.drain()

    @contextmanager
    def on_node(self) -> Iterator[None]:
        with inside(space_of(self.topology.lab, "node")):
            yield

    def nft(self, text: str) -> None:
        with self.on_node():
            run("nft", "-f", "-", text=text)

    def change(self, generation: int) -> None:
        """Another world in the kernel. The daemon's is ``generation`` itself, when it is told."""
        with self.on_node():
            self.rules.apply(update(self.layout, MEMBERS, MEMBERS, generation))
        self.in_force = generation

    def counter(self, name: str, table: str = "knp") -> int:
        with self.on_node():
            return Nft().counters(table)[name]

    def learned(self, name: str = "learned4") -> int:
        with self.on_node():
            return self.rules.set_size(f"{name}{turn(self.in_force)}")

    def questions(self, dport: int | None = None) -> list[Ask]:
        """What was asked, of packets to a port."""
        return [each.ask for each in self.asked if dport is None or each.dport == dport]

    # -- pods ----------------------------------------------------------------------------

    def open(self, place: str, kind: int, *, v6: bool = False, protocol: int = 0) -> socket.socket:
        family = socket.AF_INET6 if v6 or protocol == socket.IPPROTO_ICMPV6 else socket.AF_INET
        sock = self.topology.socket(place, family, kind, protocol)
        sock.settimeout(PATIENCE)
        return self._stack.enter_context(sock)

    def listen(self, place: str, port: int, *, v6: bool = False) -> socket.socket:
        """Connections to this port come about without anybody's doing."""
        sock = self.open(place, socket.SOCK_STREAM, v6=v6)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("::" if v6 else "0.0.0.0", port))
        sock.listen(512)
        return sock

    def dial(self, place: str, host: str, port: int) -> socket.socket:
        """A connection that has been begun."""
        sock = self.open(place, socket.SOCK_STREAM, v6=":" in host)
        sock.setblocking(False)
        sock.connect_ex((host, port))
        return sock

    def connect(self, place: str, host: str, port: int) -> socket.socket:
        """A connection that has come about."""
        sock = self.open(place, socket.SOCK_STREAM, v6=":" in host)
        sock.connect((host, port))
        return sock


def eventually(check: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.01)


def is_open(sock: socket.socket) -> bool:
    """Whether a connection that was begun has come about by now."""
    try:
        sock.getpeername()
    except OSError:
        return False
    return True
