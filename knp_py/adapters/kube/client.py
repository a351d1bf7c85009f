"""Requests to an API server: bytes in, bytes out, and every failure one of two kinds."""

import http.client
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress

import msgspec
import urllib3

from knp_py.adapters.kube.access import Access
from knp_py.errors import InputError, KnpError

CONNECT = 5.0  # seconds
_ANSWER = 30.0  # seconds that an answer, or a part of one, may take
_LARGEST = 1 << 26  # bytes of a list's page; the server's objects are limited to some 3 MB
_LONGEST = 1 << 24  # bytes of one event
_CHUNK = 1 << 16
_RENEW = 5.0  # seconds between two looks at the credentials after they were refused
_UNAUTHORIZED = 401
_TOO_MANY = 429
_PLAIN = 300
_BROKEN = (http.client.HTTPException, urllib3.exceptions.ProtocolError, ValueError)
_SHOWN = 300  # characters of what a server says


class ApiError(KnpError):
    """The server said no. ``status`` is HTTP's, ``reason`` the API's word, ``wait`` seconds."""

    def __init__(self, status: int, reason: str, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.wait = wait


class UnreachableError(KnpError):
    """No answer, or one that broke off."""


class _UntrustedError(UnreachableError):
    """Who answered is not who should, by the certificates that are known; or we are not."""


class Status(msgspec.Struct, rename="camel"):
    """metav1.Status, as far as it is read."""

    message: str = ""
    reason: str = ""
    code: int = 0


_STATUS = msgspec.json.Decoder(Status)


class Client:
    """Talks to the server that ``enter`` leads to; used by several threads.

    ``enter`` is called again when credentials are refused, or a server is that nobody vouches
    for: they may have been renewed.
    """

    def __init__(self, enter: Callable[[], Access]) -> None:
        self._enter = enter
        self._access = enter()
        self._entered = time.monotonic()
        self._lock = threading.Lock()
        self._streams: set[urllib3.BaseHTTPResponse] = set()
        self._closed = False

    @property
    def server(self) -> str:
        """Its URL."""
        return self._access.base

    def get(self, path: str) -> bytes:
        """The body of a GET. Raises ``ApiError`` or ``UnreachableError``."""
        return self.send("GET", path)

    def send(self, method: str, path: str, body: object = None, kind: str = "json") -> bytes:
        """A request; ``body`` is sent as ``application/<kind>``. Raises as ``get`` does."""
        data = None if body is None else msgspec.json.encode(body)
        with self._ask(method, path, data, f"application/{kind}", _ANSWER) as answer:
            try:
                found = answer.read(_LARGEST)
                if answer.read(1):
                    raise UnreachableError(f"{self.server}: an answer of over {_LARGEST:,} bytes")
            except (urllib3.exceptions.HTTPError, OSError, AttributeError) as error:
                raise self._unreachable(error) from None
        return bytes(found)

    def watch(self, path: str, silence: float) -> Generator[bytes]:
        """Lines of a watch, as they come, without their ends, until the server ends it.

        An empty one comes first, when the server has agreed. Raises ``UnreachableError`` when it
        is ``silent`` for that many seconds or breaks off, ``ApiError`` when it says no or more
        in one line than there is room for.
        """
        with self._ask("GET", path, None, "", silence) as answer:
            self._streams.add(answer)
            try:
                yield b""
                yield from self._lines(answer)
            except (urllib3.exceptions.HTTPError, OSError, AttributeError, ValueError) as error:
                raise self._unreachable(error) from None
            finally:
                self._streams.discard(answer)

    def close(self) -> None:
        """Have every watch end at once."""
        self._closed = True
        for stream in list(self._streams):
            with suppress(Exception):
                stream.shutdown()

    def _lines(self, answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        rest: list[bytes] = []
        length = 0
        while chunk := answer.read1(_CHUNK):
            head, *more = chunk.split(b"\n")
            rest.append(head)
            length += len(head)
            if length > _LONGEST:
                # The same watch would come to it again and again; a list goes past it.
                raise ApiError(0, "", f"{self.server}: an event of over {_LONGEST:,} bytes")
            if more:
                yield b"".join(rest)
                yield from more[:-1]
                rest, length = [more[-1]], len(more[-1])
        if any(rest):
            raise UnreachableError(f"{self.server}: the watch broke off in the middle of an event")

    def _ask(
        self, method: str, path: str, body: bytes | None, content: str, patience: float
    ) -> urllib3.BaseHTTPResponse:
        access = self._access
        try:
            answer = self._request(access, method, path, body, content, patience)
        except _UntrustedError:
            if not self._renew(access):
                raise
            access = self._access
            answer = self._request(access, method, path, body, content, patience)
        if answer.status == _UNAUTHORIZED and self._renew(access):
            answer.drain_conn()
            access = self._access
            answer = self._request(access, method, path, body, content, patience)
        if answer.status < _PLAIN:
            return answer
        with answer:
            try:
                said = answer.read(_CHUNK)
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise self._unreachable(error) from None
        raise _refusal(answer, bytes(said), f"{method} {path.partition('?')[0]}")

    def _request(
        self,
        access: Access,
        method: str,
        path: str,
        body: bytes | None,
        content: str,
        patience: float,
    ) -> urllib3.BaseHTTPResponse:
        if self._closed:
            raise UnreachableError("the agent is stopping")
        try:
            headers = {"accept": "application/json", "user-agent": "knp", **access.headers()}
            if body is not None:
                headers["content-type"] = content
            return access.pool.request(
                method,
                access.base + path,
                headers=headers,
                body=body,
                timeout=urllib3.Timeout(connect=CONNECT, read=patience),
                preload_content=False,
                redirect=False,
                retries=False,
            )
        except urllib3.exceptions.SSLError as error:
            raise _UntrustedError(f"{self.server}: {_plainly(error)}") from None
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._unreachable(error) from None

    def _renew(self, refused: Access) -> bool:
        """Look at the credentials again; whether there is anything new to try."""
        with self._lock:
            if self._access is not refused:
                return True  # another thread has
            if time.monotonic() - self._entered < _RENEW:
                return False
            self._entered = time.monotonic()
            try:
                self._access = self._enter()
            except InputError:
                return False  # being written, perhaps
        refused.pool.clear()
        return True

    def _unreachable(self, error: Exception) -> UnreachableError:
        return UnreachableError(f"{self.server}: {_plainly(error)}")


def refusal_of(raw: bytes | msgspec.Raw) -> ApiError:
    """The error that an ERROR event of a watch carries."""
    try:
        status = _STATUS.decode(raw)
    except msgspec.MsgspecError:
        return ApiError(0, "", "an error that is no Status")
    return ApiError(status.code, status.reason, _short(status.message or status.reason))


def _refusal(answer: urllib3.BaseHTTPResponse, body: bytes, request: str) -> ApiError:
    try:
        status = _STATUS.decode(body)
    except msgspec.MsgspecError:
        status = Status(message=body.decode(errors="replace"))
    wait = answer.headers.get("retry-after", "")
    said = _short(status.message) or "no reason given"
    return ApiError(
        answer.status,
        status.reason,
        f"{request}: {answer.status} {status.reason or answer.reason or ''}: {said}",
        float(wait) if wait.isdecimal() else 0.0,
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else "?" for c in line[:_SHOWN])


def _plainly(error: Exception) -> str:
    """What went wrong, without the library's names of its objects."""
    cause: BaseException = error
    while inner := getattr(cause, "reason", None) or cause.__cause__ or cause.__context__:
        if not isinstance(inner, BaseException):
            break
        cause = inner
    if isinstance(cause, TimeoutError) or "timed out" in str(cause).lower():
        return "no answer in time"
    if isinstance(cause, OSError):
        text = cause.strerror or str(cause)
    elif isinstance(cause, _BROKEN):
        return "the connection broke off"  # in the middle of what it was saying
    else:
        text = str(cause)
    return _short(text) or type(cause).__name__
