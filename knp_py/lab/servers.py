"""Whoever answers in the lab: one process with sockets in every namespace.

Run as ``python -m knp_py.lab.servers SOCKET``; on that Unix socket it is told, one JSON
document a line, in which namespaces to answer (``Task``) and answers with an error or ``""``.

* TCP, every port: what is sent comes back, and an HTTP request gets a page that says who
  answered. Port 53 speaks DNS.
* UDP, every port: what is sent comes back, and what begins like an HTTP request gets that
  page. Port 53 speaks DNS, and nothing else: an echo from there would be a forged answer.
* SCTP: an INIT is acknowledged.

Packets for ports that nothing listens on are handed over by ``rules.catch_all`` as they came,
so the address and port of a socket are those that the client meant.
"""

import asyncio
import resource
import signal
import socket
import sys
from collections.abc import Mapping
from struct import Struct
from typing import cast

import msgspec

from knp_py.errors import KnpError
from knp_py.lab.nameserver import Names, reply_to
from knp_py.lab.namespaces import inside
from knp_py.lab.rules import SERVER_PORT
from knp_py.lab.sctp import INIT, init_ack, read_start

DNS_PORT = 53
SCTP = 132  # the protocol's number; Python has a constant only where the system has one

# Linux's numbers, which the socket module does not have (include/uapi/linux/in.h, in6.h).
TRANSPARENT: Mapping[int, tuple[int, int]] = {
    socket.AF_INET: (socket.SOL_IP, 19),
    socket.AF_INET6: (socket.IPPROTO_IPV6, 75),
}
_ORIGINAL = {socket.AF_INET: (socket.SOL_IP, 20), socket.AF_INET6: (socket.IPPROTO_IPV6, 74)}
_RECEIVE_BUFFER_FORCED = 33

_BACKLOG = 4096
_BUFFER = 8 << 20  # octets: a thousand pods may ask at once
_LONGEST = 65535
_METHODS = (b"GET ", b"HEAD ", b"POST ", b"PUT ")
_LENGTH = Struct("!H")  # before each DNS message on a stream (RFC 1035 §4.2.2)
_UDP = Struct("!4H")  # ports, length, checksum
_UDP_CHECKSUM = 6
_SOCKADDR = Struct("!2xH4s")
_SOCKADDR6 = Struct("!2xH4x16s")


class Spot(msgspec.Struct, frozen=True):
    """A namespace to answer in. ``inode`` tells it from an earlier one of its name.

    ``label`` is who answers: ``namespace/name``, ``node`` or ``internet``.
    """

    label: str
    inode: int


class Task(msgspec.Struct, frozen=True):
    """Where and what to answer; ``spots`` by the namespace's name."""

    spots: Mapping[str, Spot] = {}
    names: Names = Names()


class Servers:
    """The sockets of all namespaces, in one event loop."""

    def __init__(self) -> None:
        self.names = Names()
        self._stands: dict[str, Stand] = {}

    async def take(self, task: Task) -> None:
        """Do as the task says from now on."""
        self.names = task.names
        for name, stand in list(self._stands.items()):
            if task.spots.get(name) != stand.spot:
                self._stands.pop(name).close()
        for name, spot in task.spots.items():
            if name not in self._stands:
                stand = self._stands[name] = Stand(name, spot, self)
                await stand.open()


class Stand:
    """The sockets of one namespace."""

    def __init__(self, space: str, spot: Spot, servers: Servers) -> None:
        self.space = space
        self.spot = spot
        self.servers = servers
        self._loop = asyncio.get_running_loop()
        self._streams: list[asyncio.Server] = []
        self._sockets: list[socket.socket] = []

    async def open(self) -> None:
        """Answer from now on."""
        with inside(self.space):
            listening = [self._bound(family, socket.SOCK_STREAM) for family in TRANSPARENT]
            datagrams = [self._bound(family, socket.SOCK_DGRAM) for family in TRANSPARENT]
            raw = [socket.socket(family, socket.SOCK_RAW, SCTP) for family in TRANSPARENT]
        for each in listening:
            self._streams.append(
                await self._loop.create_server(lambda: Talk(self), sock=each, backlog=_BACKLOG)
            )
        for each in datagrams:
            each.setsockopt(socket.SOL_SOCKET, _RECEIVE_BUFFER_FORCED, _BUFFER)
            each.setsockopt(*_ORIGINAL[each.family], 1)
            self._loop.add_reader(each, self._datagrams, each)
        for each in raw:
            each.setblocking(False)
            if each.family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
            self._loop.add_reader(each, self._associations, each)
        self._sockets = [*datagrams, *raw]

    def close(self) -> None:
        """Answer no more, so that the namespace can go."""
        for server in self._streams:
            server.close()
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()

    def page(self, address: str, port: int) -> bytes:
        """Who answers, and as what."""
        return f"{self.spot.label} {address} {port}\n".encode()

    def _bound(self, family: int, kind: int) -> socket.socket:
        made = socket.socket(family, kind)
        made.setblocking(False)
        made.setsockopt(*TRANSPARENT[family], 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(("", SERVER_PORT))
        return made

    # -- UDP ---------------------------------------------------------------------------

    def _datagrams(self, sock: socket.socket) -> None:
        for _ in range(64):  # then the others
            try:
                data, extra, _, peer = sock.recvmsg(_LONGEST, 128)
            except BlockingIOError:
                return
            except OSError:
                continue  # an ICMP error about an earlier answer
            for level, kind, content in extra:
                if (level, kind) == _ORIGINAL[sock.family]:
                    self._answer(sock, data, peer, _address(sock.family, content))

    def _answer(
        self, sock: socket.socket, data: bytes, peer: tuple[str, int], own: tuple[str, int]
    ) -> None:
        if own[1] == DNS_PORT:
            reply = reply_to(data, self.servers.names, own[0])
            if reply is None:
                return
        else:
            reply = self.page(*own) if data.startswith(_METHODS) else data
        header = _UDP.pack(own[1], peer[1], _UDP.size + len(reply), 0)
        self._send(sock.family, socket.IPPROTO_UDP, own[0], header + reply, peer[0])

    def _send(self, family: int, protocol: int, own: str, packet: bytes, peer: object) -> None:
        """Send a packet from the address that another was for, whosever that is.

        Raw: for as long as a socket of that address and port were open, it would take what
        arrives for the server's.
        """
        with inside(self.space), socket.socket(family, socket.SOCK_RAW, protocol) as out:
            out.setsockopt(*TRANSPARENT[family], 1)
            if family == socket.AF_INET6 and protocol == socket.IPPROTO_UDP:
                # In IPv4 none is a checksum too (RFC 768); here the kernel fills it in.
                out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_CHECKSUM, _UDP_CHECKSUM)
            try:
                out.bind((own, 0))
                out.sendto(packet, (peer, 0))
            except OSError as error:
                sys.stderr.write(f"{self.spot.label}: {own} to {peer}: {error}\n")

    # -- SCTP --------------------------------------------------------------------------

    def _associations(self, sock: socket.socket) -> None:
        try:
            data, extra, _, peer = sock.recvmsg(_LONGEST, 128)
        except OSError:
            return
        if sock.family == socket.AF_INET:
            own = socket.inet_ntop(socket.AF_INET, data[16:20])
            data = data[(data[0] & 15) * 4 :]
        else:
            info = next((c for _, kind, c in extra if kind == socket.IPV6_PKTINFO), b"")
            own = socket.inet_ntop(socket.AF_INET6, info[:16].ljust(16, b"\0"))
        start = read_start(data)
        if start is not None and start.chunk == INIT:
            reply = init_ack(start)
            self._send(sock.family, SCTP, own, reply, peer[0])


def _address(family: int, content: bytes) -> tuple[str, int]:
    """A ``sockaddr_in`` or ``sockaddr_in6``."""
    port, packed = (_SOCKADDR if family == socket.AF_INET else _SOCKADDR6).unpack_from(content)
    return socket.inet_ntop(family, packed), port


class Talk(asyncio.Protocol):
    """One TCP connection."""

    def __init__(self, stand: Stand) -> None:
        self._stand = stand
        self._own = ("", 0)
        self._begun = False
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Find out what the client thinks it is talking to."""
        self._transport = cast("asyncio.Transport", transport)
        self._own = transport.get_extra_info("sockname")[:2]

    def data_received(self, data: bytes) -> None:
        """DNS on its port, a page for a request, else what came."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._own[1] == DNS_PORT:
            self._questions(transport, data)
        elif not self._begun and data.startswith(_METHODS):
            page = self._stand.page(*self._own)
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(page)}"
            transport.write(f"{head}\r\nConnection: close\r\n\r\n".encode() + page)
            transport.close()
        else:
            transport.write(data)
        self._begun = True

    def pause_writing(self) -> None:
        """Read no more while the client does not read what comes back."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        if self._transport is not None:
            self._transport.resume_reading()

    def _questions(self, transport: asyncio.Transport, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            query = self._buffer[_LENGTH.size : _LENGTH.size + length]
            if len(query) < length:
                return
            self._buffer = self._buffer[_LENGTH.size + length :]
            reply = reply_to(query, self._stand.servers.names, self._own[0], stream=True)
            if reply is None:
                transport.close()
                return
            transport.write(_LENGTH.pack(len(reply)) + reply)


async def serve(path: str) -> None:
    """Take tasks on a Unix socket until told to end (SIGTERM)."""
    servers = Servers()
    decoder = msgspec.json.Decoder(Task)

    async def told(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            try:
                await servers.take(decoder.decode(line))
                said = ""
            except (OSError, ValueError, KnpError) as error:
                said = f"{type(error).__name__}: {error}"
            writer.write(msgspec.json.encode(said) + b"\n")
            await writer.drain()
        writer.close()

    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    server = await asyncio.start_unix_server(told, path, limit=256 << 20)
    async with server:
        await ended.wait()


if __name__ == "__main__":
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    asyncio.run(serve(sys.argv[1]))
