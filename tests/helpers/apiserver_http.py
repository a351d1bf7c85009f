"""HTTP/1.1 of the API server of the tests: connections, watches as chunks, and their faults."""

import contextlib
import os
import select
import socket
import ssl
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote

from helpers.apiserver_store import Watch

_GZIP_FROM = 128 * 1024  # bytes: what is smaller is sent as it is


@dataclass
class Request:
    """What a client asked. ``headers``: names in lower case. ``code``: what it got, 0: nothing."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    time: float  # time.monotonic()
    body: bytes = b""
    certificate: str = ""  # the common name of the client's
    user: str = ""
    code: int = 0

    def __iter__(self) -> Iterator[object]:
        return iter((self.method, self.path, self.query, self.headers, self.time))

    @property
    def is_watch(self) -> bool:
        """Whether it wants a stream."""
        return self.query.get("watch", "").lower() in {"1", "true"}


@dataclass
class Response:
    """A whole answer."""

    code: int
    body: bytes = b""
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Stream:
    """An answer that is a watch. ``seconds``: until the server ends it."""

    watch: Watch
    seconds: float | None


class Backend(Protocol):
    """Who answers, and what a connection must know of the faults of the day."""

    chunk: int | None
    bookmark_every: float | None
    lock: threading.RLock

    def answer(self, request: Request) -> Response | Stream: ...
    def frozen(self) -> bool: ...
    def wait_thawed(self) -> None: ...
    def bookmark(self, watch: Watch) -> bytes: ...
    def left(self, watch: Watch) -> None: ...


class Connection:
    """A client's connection, with a thread of its own."""

    def __init__(
        self,
        raw: socket.socket,
        backend: Backend,
        tls: ssl.SSLContext | None,
        done: "Callable[[Connection], None]",
    ) -> None:
        self._socket = raw
        self._backend = backend
        self._tls = tls
        self._done = done
        self._certificate = ""
        self.thread = threading.Thread(target=self._run, name="apiserver", daemon=True)

    def reset(self) -> None:
        """Have it end at once, from another thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        try:
            with contextlib.suppress(OSError):
                self._serve()
        finally:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._done(self)

    def _serve(self) -> None:
        self._backend.wait_thawed()
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            wrapped = self._tls.wrap_socket(self._socket, server_side=True)
            self._socket = wrapped
            self._certificate = _common_name(wrapped.getpeercert() or {})
        with self._socket.makefile("rb") as lines:
            while (request := self._read(lines)) is not None:
                answer = self._backend.answer(request)
                if isinstance(answer, Stream):
                    request.code = 200
                    if not self._stream(answer):
                        return
                else:
                    request.code = answer.code
                    self._send(request, answer)
                if request.headers.get("connection", "").lower() == "close":
                    return

    def _read(self, lines: "Lines") -> Request | None:
        first = lines.readline(65536).split()
        if len(first) != 3:
            return None
        headers: dict[str, str] = {}
        while (text := lines.readline(65536).strip()) != b"":
            name, _, value = text.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        body = lines.read(int(headers.get("content-length", "0")))
        path, _, query = first[1].decode().partition("?")
        return Request(
            first[0].decode(),
            unquote(path),
            dict(parse_qsl(query, keep_blank_values=True)),
            headers,
            time.monotonic(),
            body,
            self._certificate,
        )

    def _head(self, code: int, headers: Mapping[str, str]) -> bytes:
        lines = [f"HTTP/1.1 {code} {HTTPStatus(code).phrase}"]
        always = {"Cache-Control": "no-cache, private", "Date": formatdate(usegmt=True)}
        lines += [f"{name}: {value}" for name, value in (always | dict(headers)).items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def _send(self, request: Request, answer: Response) -> None:
        body, headers = answer.body, {"Content-Type": answer.kind, **answer.headers}
        accepted = request.headers.get("accept-encoding", "")
        if "gzip" in accepted and len(body) > _GZIP_FROM:
            packer = zlib.compressobj(1, wbits=31)
            body = packer.compress(body) + packer.flush()
            headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        headers["Content-Length"] = str(len(body))
        self._socket.sendall(self._head(answer.code, headers) + body)

    def _stream(self, stream: Stream) -> bool:
        """Whether the connection can go on with another request."""
        watch = stream.watch
        try:
            return self._events(watch, stream.seconds)
        finally:
            self._backend.left(watch)

    def _events(self, watch: Watch, seconds: float | None) -> bool:
        every = self._backend.bookmark_every
        end = None if seconds is None else time.monotonic() + seconds
        mark = time.monotonic() + every if every and watch.bookmarks else None
        headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
        self._socket.sendall(self._head(200, headers))
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        poller.register(watch.wake, select.POLLIN)
        while True:
            timers = [at for at in (end, mark) if at is not None]
            frozen = self._backend.frozen()
            left = None if frozen or not timers else max(0.0, min(timers) - time.monotonic())
            ready = poller.poll(None if left is None else left * 1000)
            if any(descriptor != watch.wake for descriptor, _ in ready):
                return False  # the client went away: there is nothing for it to say here
            if self._backend.frozen():
                _drain(watch)
                continue
            with self._backend.lock:
                _drain(watch)
                now = time.monotonic()
                over = end is not None and now >= end
                if watch.bookmarks and (over or (mark is not None and now >= mark)):
                    watch.lines.append(self._backend.bookmark(watch))
                    mark = now + every if every else None
                text, ended = list(watch.lines), watch.ended or ("close" if over else "")
                if ended == "cut" and not text:
                    text = [self._backend.bookmark(watch)]
                watch.lines.clear()
            if ended == "drop":
                return self._abort()
            for index, event in enumerate(text):
                if ended == "cut" and index == len(text) - 1:
                    self._socket.sendall(b"%x\r\n" % len(event) + event[: len(event) // 2])
                    return self._abort()
                self._chunks(event)
            if ended:
                self._socket.sendall(b"0\r\n\r\n")
                return True

    def _chunks(self, event: bytes) -> None:
        size = self._backend.chunk or len(event)
        parts = (event[at : at + size] for at in range(0, len(event), size))
        if self._backend.chunk:
            for part in parts:  # as packets of their own, so that a reader sees the pieces
                self._socket.sendall(b"%x\r\n" % len(part) + part + b"\r\n")
        else:
            self._socket.sendall(b"".join(b"%x\r\n" % len(p) + p + b"\r\n" for p in parts))

    def _abort(self) -> bool:
        """End it with a reset: nothing that is under way is waited for."""
        linger = struct.pack("ii", 1, 0)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        return False


class Lines(Protocol):
    """What a request is read from."""

    def readline(self, size: int = -1, /) -> bytes: ...
    def read(self, size: int = -1, /) -> bytes: ...


def _common_name(certificate: Mapping[str, Any]) -> str:
    for names in certificate.get("subject", ()):
        for key, value in names:
            if key == "commonName":
                return str(value)
    return ""


def _drain(watch: Watch) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            os.eventfd_read(watch.wake)


class Listener:
    """A port on 127.0.0.1 that can go away and come back."""

    def __init__(self, backend: Backend, tls: ssl.SSLContext | None) -> None:
        self._backend = backend
        self._tls = tls
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self._socket = _bound(0)
        self.port: int = self._socket.getsockname()[1]
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Accept connections."""
        listening = self._socket
        listening.listen(128)
        self._thread = threading.Thread(
            target=self._accept, args=(listening,), name="apiserver-listener", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Refuse connections and reset those there are; the port stays ours."""
        if self._thread is None:
            return
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._thread.join()
        self._thread = None
        self._socket.close()
        self._socket = _bound(self.port)
        self.reset()

    def close(self) -> None:
        """Give the port up."""
        self.stop()
        self._socket.close()

    def reset(self) -> None:
        """End every connection and wait until they are gone."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.reset()
        for connection in connections:
            if connection.thread is not threading.current_thread():
                connection.thread.join()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                raw, _ = listening.accept()
            except OSError:
                return
            connection = Connection(raw, self._backend, self._tls, self._gone)
            with self._lock:
                self._connections.add(connection)
            connection.thread.start()

    def _gone(self, connection: Connection) -> None:
        with self._lock:
            self._connections.discard(connection)


def _bound(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made
