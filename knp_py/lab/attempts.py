"""Connections tried from inside a namespace with real sockets, and what came of them.

An attempt is begun at once and looked at as often as one likes: ``look`` waits a little and
says what the socket has seen, None while it has seen nothing. Silence is all that a dropped
packet leaves, so how long to wait is the caller's to decide.
"""

import os
import random
import select
import socket
from collections.abc import Sequence
from struct import pack
from typing import NamedTuple, Self

from dnslib import QTYPE, RCODE, DNSError, DNSRecord

from knp_py.lab.namespaces import inside
from knp_py.lab.sctp import init, read_start
from knp_py.lab.servers import DNS_PORT, SCTP, TRANSPARENT
from knp_py.model.net import format_address, is_v4, parse_address
from knp_py.model.packet import Proto

_REQUEST = b"GET / HTTP/1.0\r\n\r\n"
_PAGE = 2048
_PAGE_WAIT = 1.0  # seconds for who answered to say so


class Seen(NamedTuple):
    """What a socket has seen. ``refused`` is in the system's words, empty for an answer."""

    refused: str = ""


class Page(NamedTuple):
    """Who answered: ``namespace/name``, ``node`` or ``internet``, and the address it has."""

    label: str
    address: int


class Attempt:
    """One connection from an address to another. ``sport`` is 0 where there are no ports."""

    def __init__(self, space: str, source: int, target: int, port: int) -> None:
        self.space = space
        self.source = source
        self.target = target
        self.port = port
        self.sport = 0
        self._family = socket.AF_INET if is_v4(target) else socket.AF_INET6
        self._seen: Seen | None = None
        self._sock = self._open()
        self._poll = select.poll()
        try:
            self._begin()
        except OSError as error:
            self._refuse(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def look(self, seconds: float) -> Seen | None:
        """What has come of it, after at most so many seconds."""
        if self._seen is None and self._poll.poll(seconds * 1000):
            try:
                self._look()
            except BlockingIOError:
                pass
            except OSError as error:
                self._refuse(error)
        return self._seen

    def page(self) -> Page | None:
        """Who answered, if they say so."""
        return None

    # -- for each protocol -------------------------------------------------------------

    def _make(self) -> socket.socket:
        raise NotImplementedError

    def _begin(self) -> None:
        raise NotImplementedError

    def _look(self) -> None:
        raise NotImplementedError

    # -- for all of them ---------------------------------------------------------------

    def _open(self) -> socket.socket:
        with inside(self.space):
            sock = self._make()
        sock.setblocking(False)
        # Somebody on the internet has whatever address the scenario says.
        sock.setsockopt(*TRANSPARENT[self._family], 1)
        sock.bind((format_address(self.source), 0))
        return sock

    @property
    def _peer(self) -> tuple[str, int]:
        return format_address(self.target), self.port

    def _refuse(self, error: OSError) -> None:
        self._seen = Seen((error.strerror or str(error)).lower())

    def _read(self) -> bytes:
        return self._sock.recv(65535)


def _parse_page(data: bytes) -> Page | None:
    words = data.rpartition(b"\r\n")[2].decode("utf-8", "replace").split()
    if len(words) != 3:
        return None
    try:
        return Page(words[0], parse_address(words[1]))
    except ValueError:
        return None


class TcpAttempt(Attempt):
    """A handshake; then who answered is asked for."""

    def _make(self) -> socket.socket:
        return socket.socket(self._family, socket.SOCK_STREAM)

    def _begin(self) -> None:
        self._poll.register(self._sock, select.POLLOUT)
        error = self._sock.connect_ex(self._peer)
        self.sport = self._sock.getsockname()[1]
        if error not in {0, 115}:  # EINPROGRESS
            raise OSError(error, os.strerror(error))

    def _look(self) -> None:
        error = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
        self._seen = Seen()

    def page(self) -> Page | None:
        """Ask, as a browser would."""
        self._sock.settimeout(_PAGE_WAIT)
        try:
            self._sock.sendall(_REQUEST)
            data = b""
            while chunk := self._sock.recv(_PAGE):
                data += chunk
        except OSError:
            return None
        return _parse_page(data)


class UdpAttempt(Attempt):
    """A datagram that is answered."""

    def _make(self) -> socket.socket:
        return socket.socket(self._family, socket.SOCK_DGRAM)

    def _begin(self) -> None:
        self._poll.register(self._sock, select.POLLIN)
        self._sock.connect(self._peer)
        self.sport = self._sock.getsockname()[1]
        self._page: Page | None = None
        self._sock.send(_REQUEST)

    def _look(self) -> None:
        self._page = _parse_page(self._read())
        self._seen = Seen()

    def page(self) -> Page | None:
        """The answer has it."""
        return self._page


class PingAttempt(Attempt):
    """An ICMP echo (RFC 792, RFC 4443 §4.1)."""

    def _make(self) -> socket.socket:
        protocol = socket.IPPROTO_ICMP if is_v4(self.target) else socket.IPPROTO_ICMPV6
        return socket.socket(self._family, socket.SOCK_DGRAM, protocol)

    def _begin(self) -> None:
        self._poll.register(self._sock, select.POLLIN)
        self._sock.connect((self._peer[0], 0))
        # The kernel fills in checksum and identifier.
        self._sock.send(pack("!BBHHH", 8 if is_v4(self.target) else 128, 0, 0, 0, 1) + b"knp lab")

    def _look(self) -> None:
        self._read()
        self._seen = Seen()


class SctpAttempt(Attempt):
    """An INIT that is acknowledged, or refused by an ABORT: either came back."""

    def _make(self) -> socket.socket:
        return socket.socket(self._family, socket.SOCK_RAW, SCTP)

    def _begin(self) -> None:
        self._poll.register(self._sock, select.POLLIN)
        self._sock.connect((self._peer[0], 0))
        self.sport = random.randint(32768, 60999)  # noqa: S311  as a kernel would choose
        self._sock.send(init(self.sport, self.port))

    def _look(self) -> None:
        data = self._read()
        start = read_start(data[(data[0] & 15) * 4 :] if is_v4(self.target) else data)
        if start is not None and (start.sport, start.dport) == (self.port, self.sport):
            self._seen = Seen()


class Question(Attempt):
    """A name looked up: A and AAAA from one port, as resolver libraries ask."""

    def __init__(self, space: str, source: int, target: int, name: str) -> None:
        self.name = name
        self.addresses: list[int] = []
        self.ttl = 0
        self.rcode = int(RCODE.NOERROR)
        self._asked: dict[int, str] = {}
        super().__init__(space, source, target, DNS_PORT)

    def _make(self) -> socket.socket:
        return socket.socket(self._family, socket.SOCK_DGRAM)

    def _begin(self) -> None:
        self._poll.register(self._sock, select.POLLIN)
        self._sock.connect(self._peer)
        self.sport = self._sock.getsockname()[1]
        for kind in ("A", "AAAA"):
            question = DNSRecord.question(self.name, kind)
            self._asked[question.header.id] = kind
            self._sock.send(question.pack())

    def _look(self) -> None:
        data = self._read()
        try:
            answer = DNSRecord.parse(data)
        except (DNSError, ValueError, IndexError):
            return
        if self._asked.pop(answer.header.id, None) is None:
            return
        self.rcode = max(self.rcode, answer.header.rcode)
        for record in answer.rr:
            if record.rtype in {QTYPE.A, QTYPE.AAAA}:
                self.addresses.append(parse_address(str(record.rdata)))
                self.ttl = record.ttl
        if not self._asked:
            self._seen = Seen()


_KINDS: Sequence[tuple[int, type[Attempt]]] = (
    (int(Proto.TCP), TcpAttempt),
    (int(Proto.UDP), UdpAttempt),
    (int(Proto.ICMP), PingAttempt),
    (int(Proto.SCTP), SctpAttempt),
)


def attempt(space: str, source: int, target: int, protocol: int, port: int) -> Attempt:
    """Begin a connection; ``protocol`` is one that a scenario can name."""
    return dict(_KINDS)[protocol](space, source, target, port)
