"""The agent's HTTP server: ``/metrics``, ``/healthz``, ``/readyz``, ``/status``.

Anybody who reaches the node may talk to it, so it is bounded: GET and HEAD without bodies,
one request a connection, a deadline for each, a few connections at a time. When there are
too many the oldest goes, which is the one that has had the most time to say what it wants.
Who listens on all addresses does so on the loopback once more, with a queue of its own: what a
pod sends must not keep out the node's own probes, which end an agent that does not answer.
"""

import contextlib
import errno
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any, Final, NamedTuple

import msgspec

from knp_py.errors import InputError, NotPermittedError

LOOPBACK: Final = "127.0.0.1"
MOST_CONNECTIONS: Final = 8
DEADLINE: Final = 5.0  # seconds that a connection may last

_EVERYWHERE = frozenset(("::", "0.0.0.0"))  # noqa: S104 - asked for
_POLL = 0.1  # seconds in which a deadline or the end is noticed
_PLAIN = "text/plain; charset=utf-8"


class Pages(NamedTuple):
    """What is served; called by the server's threads, several at a time.

    ``metrics`` takes the Accept header and gives content type and body. ``healthy`` and
    ``ready`` give None, or the reason why not. ``status`` gives what JSON can hold.
    """

    metrics: Callable[[str], tuple[str, bytes]]
    healthy: Callable[[], str | None]
    ready: Callable[[], str | None]
    status: Callable[[], object]


class HttpServer:
    """Listens from construction on, answers from ``start`` to ``stop``.

    ``bind`` is ``HOST:PORT``, ``:PORT`` for all addresses of both families, ``[::1]:PORT``;
    port 0 takes any. ``address`` is where it listens, as ``HOST:PORT``. ``failures`` counts
    pages that raised. Raises ``InputError`` for what is no address, ``NotPermittedError``
    for one that cannot be had.
    """

    def __init__(self, bind: str, pages: Pages) -> None:
        host, port = parse_bind(bind)
        self._servers: list[_Server] = []
        try:
            self._servers.append(_listen(host, port, pages))
            found, number = self._servers[0].socket.getsockname()[:2]
            if found in _EVERYWHERE:
                self._servers += _listen_beside(self._servers[0], number, pages)
        except OSError as error:
            for server in self._servers:
                server.server_close()
            reason = error.strerror or str(error)
            raise NotPermittedError(f"cannot listen on {bind}: {reason}") from error
        self._threads: list[threading.Thread] = []
        self.address = f"[{found}]:{number}" if ":" in found else f"{found}:{number}"
        self.port: int = number

    @property
    def failures(self) -> int:
        """How many pages raised."""
        return sum(server.failures for server in self._servers)

    def start(self) -> None:
        """Answer requests from threads of their own from now on."""
        for server in self._servers:
            thread = threading.Thread(
                target=server.serve_forever, args=(_POLL,), name="http", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Listen no more; connections that are open end."""
        if self._threads:
            for server in self._servers:
                server.shutdown()
            for thread in self._threads:
                thread.join()
            self._threads = []
        for server in self._servers:
            server.server_close()
            server.end_all()


def parse_bind(text: str) -> tuple[str, int]:
    """Host, empty for all, and port. Raises ``InputError``."""
    host, colon, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bad_host = ":" in host if not bracketed else ":" not in host
    if not colon or bad_host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise InputError(f"{text!r} is no address to listen on: HOST:PORT, :PORT or [IPV6]:PORT")
    return host[1:-1] if bracketed else host, int(port)


def _listen(host: str, port: int, pages: Pages) -> "_Server":
    if not host:
        if socket.has_dualstack_ipv6():
            return _Server(socket.AF_INET6, ("::", port), pages)
        return _Server(socket.AF_INET, ("0.0.0.0", port), pages)  # noqa: S104 - asked for
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return _Server(family, address, pages)


def _listen_beside(everywhere: "_Server", port: int, pages: Pages) -> "list[_Server]":
    """On the loopback alone, whose connections then come here and not to ``everywhere``.

    Only now do both say that they share the port: before, who else has it would not be noticed.
    None where there is no such address.
    """
    try:
        return [_Server(socket.AF_INET, (LOOPBACK, port), pages, share=everywhere.socket)]
    except OSError as error:
        if error.errno in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
            return []
        raise


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Not an ``HTTPServer``, which asks DNS for its own name before it listens."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(
        self, family: int, address: Any, pages: Pages, share: socket.socket | None = None
    ) -> None:
        self.address_family = family
        self.pages = pages
        self.failures = 0
        self._share = share
        self._open: dict[socket.socket, float] = {}  # when it began, oldest first
        self._lock = threading.Lock()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            only = self.server_address[0] != "::"
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
        if self._share is not None:
            for each in (self._share, self.socket):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            while len(self._open) >= MOST_CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                _hang_up(oldest)
            self._open[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called every ``_POLL`` seconds at least."""
        latest = time.monotonic() - DEADLINE
        with self._lock:
            for late in [each for each, begun in self._open.items() if begun < latest]:
                del self._open[late]
                _hang_up(late)

    def end_all(self) -> None:
        """Hang up on whoever is still connected."""
        with self._lock:
            for each in self._open:
                _hang_up(each)
            self._open.clear()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """A client that hung up, or on whom we did, is no news; anything else is a bug."""
        if not isinstance(sys.exc_info()[1], OSError):
            self.failures += 1


def _hang_up(connection: socket.socket) -> None:
    """Wakes the thread that reads from it, which then closes it."""
    with contextlib.suppress(OSError):  # it may have been faster
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "knp"
    sys_version = ""
    timeout = DEADLINE

    def do_GET(self) -> None:
        status, content_type, body = self._answer()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the names that http.server looks for

    def _answer(self) -> tuple[int, str, bytes]:
        pages = self.server.pages
        try:
            match self.path.partition("?")[0]:
                case "/metrics":
                    content_type, body = pages.metrics(self.headers.get("Accept", ""))
                    return 200, content_type, body
                case "/healthz":
                    return _condition(pages.healthy())
                case "/readyz":
                    return _condition(pages.ready())
                case "/status":
                    return 200, "application/json", msgspec.json.encode(pages.status()) + b"\n"
        except Exception as error:  # noqa: BLE001 - a page must not take the server with it
            self.server.failures += 1
            text = f"internal error: {type(error).__name__}: {error}"
            return 500, _PLAIN, f"{text}\n".encode("utf-8", "replace")
        return 404, _PLAIN, b"not found: /metrics, /healthz, /readyz, /status\n"

    def send_error(
        self, code: int, message: str | None = None, explain: str | None = None
    ) -> None:
        """A refusal in a line instead of a page; what is no GET or HEAD ends here too."""
        del explain
        unknown_method = code == 501
        text = f"{message or code}\n".encode("latin-1", "replace")
        self.send_response(405 if unknown_method else code)
        if unknown_method:
            self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Type", _PLAIN)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Probes every few seconds are no news."""


def _condition(reason: str | None) -> tuple[int, str, bytes]:
    if reason is None:
        return 200, _PLAIN, b"ok\n"
    return 503, _PLAIN, f"{reason}\n".encode("utf-8", "replace")
