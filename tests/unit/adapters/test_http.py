"""The HTTP server, over loopback: what it serves, and what nobody can make it do."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from knp_py.adapters import http
from knp_py.adapters.http import HttpServer, Pages, parse_bind
from knp_py.errors import InputError, NotPermittedError

DIRECT = build_opener(ProxyHandler({}))


class Agent:
    """What stands behind the pages."""

    def __init__(self) -> None:
        self.healthy: str | None = None
        self.ready: str | None = "no packet has come back yet"
        self.status: Callable[[], object] = lambda: {"generation": 7, "strict": False}
        self.accepts: list[str] = []

    def metrics(self, accept: str) -> tuple[str, bytes]:
        self.accepts.append(accept)
        return "text/plain; version=0.0.4", b"knp_generation 7.0\n"


@pytest.fixture
def agent() -> Agent:
    return Agent()


@contextmanager
def serving(agent: Agent, bind: str = "127.0.0.1:0") -> Iterator[HttpServer]:
    server = HttpServer(
        bind,
        Pages(
            agent.metrics,
            lambda: agent.healthy,
            lambda: agent.ready,
            lambda: agent.status(),  # noqa: PLW0108 - it changes during tests
        ),
    )
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def server(agent: Agent) -> Iterator[HttpServer]:
    with serving(agent) as running:
        yield running


def get(server: HttpServer, path: str, method: str = "GET") -> tuple[int, str, str]:
    """Status, content type, body."""
    request = Request(f"http://{server.address}{path}", method=method)
    try:
        with DIRECT.open(request, timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def said(server: HttpServer, data: bytes) -> bytes:
    """What a client gets that sends just this."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(data)
        return client.makefile("rb").read()


def test_metrics(server: HttpServer, agent: Agent) -> None:
    assert get(server, "/metrics?debug=1") == (
        200,
        "text/plain; version=0.0.4",
        "knp_generation 7.0\n",
    )
    said(server, b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n")
    assert agent.accepts == ["", "application/openmetrics-text"]


def test_healthy_and_ready_say_why_not(server: HttpServer, agent: Agent) -> None:
    assert get(server, "/healthz")[::2] == (200, "ok\n")
    assert get(server, "/readyz")[::2] == (503, "no packet has come back yet\n")
    agent.healthy, agent.ready = "the packet thread stands still", None
    assert get(server, "/healthz")[::2] == (503, "the packet thread stands still\n")
    assert get(server, "/readyz")[::2] == (200, "ok\n")


def test_status_is_json(server: HttpServer) -> None:
    status, content_type, body = get(server, "/status")
    assert (status, content_type) == (200, "application/json")
    assert json.loads(body) == {"generation": 7, "strict": False}


def test_a_page_that_fails_is_a_500_and_the_next_request_works(
    server: HttpServer, agent: Agent
) -> None:
    agent.status = [].pop
    status, _, body = get(server, "/status")
    assert (status, body) == (500, "internal error: IndexError: pop from empty list\n")
    agent.status = object  # nothing that JSON can hold
    assert get(server, "/status")[0] == 500
    assert server.failures == 2
    assert get(server, "/healthz")[0] == 200


@pytest.mark.parametrize("path", ["/", "/metrics/", "/statusx", "/../etc/passwd"])
def test_there_is_nothing_else(server: HttpServer, path: str) -> None:
    assert get(server, path)[0] == 404


def test_head_is_a_get_without_a_body(server: HttpServer) -> None:
    answer = said(server, b"HEAD /metrics HTTP/1.1\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 ")
    assert b"\r\nContent-Length: 19\r\n" in head
    assert b"Python" not in head
    assert body == b""


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "get"])
def test_other_methods_are_refused(server: HttpServer, method: str) -> None:
    answer = said(server, f"{method} /metrics HTTP/1.1\r\nContent-Length: 4\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.0 405 ")
    assert b"\r\nAllow: GET, HEAD\r\n" in answer


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\r\n",
        b"\x00\xff\x16\x03\x01\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
    ],
)
def test_rubbish_ends_its_connection_and_nothing_else(
    server: HttpServer, rubbish: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        answer = said(server, rubbish)
    except ConnectionError:  # it hung up before all of it was sent
        answer = b""
    assert b" 200 " not in answer.partition(b"\r\n")[0]
    assert get(server, "/healthz")[0] == 200
    assert server.failures == 0
    assert capfd.readouterr() == ("", "")


def test_those_who_say_nothing_hold_nobody_up(server: HttpServer) -> None:
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
    started = time.monotonic()
    assert get(server, "/healthz")[0] == 200
    assert time.monotonic() - started < 3
    assert sum(thread.name.startswith("Thread-") for thread in threading.enumerate()) < 50
    for client in idle:
        client.close()


def test_who_says_too_little_is_hung_up_on(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "DEADLINE", 0.2)
    with (
        serving(agent) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as client,
    ):
        client.sendall(b"GET /healthz HTTP/1.1\r\n")
        ended = False
        for _ in range(100):  # a byte now and then does not keep it open
            time.sleep(0.05)
            try:
                client.sendall(b"x")
            except ConnectionError:
                ended = True
                break
        assert ended


def test_an_address_that_is_taken_is_one_clear_error(agent: Agent, server: HttpServer) -> None:
    with pytest.raises(NotPermittedError) as caught, serving(agent, server.address):
        pass
    assert str(caught.value) == f"cannot listen on {server.address}: Address already in use"
    with pytest.raises(NotPermittedError), serving(agent, f":{server.port}"):
        pass


def test_an_address_that_is_not_here(agent: Agent) -> None:
    with pytest.raises(NotPermittedError, match=r"cannot listen on 192\.0\.2\.1:0: "):
        HttpServer("192.0.2.1:0", Pages(agent.metrics, str, str, str))
    with pytest.raises(NotPermittedError, match=r"cannot listen on no\.invalid:1: "):
        HttpServer("no.invalid:1", Pages(agent.metrics, str, str, str))


def test_it_can_be_stopped_and_started_again(agent: Agent) -> None:
    with serving(agent) as server:
        address = server.address
        assert get(server, "/healthz")[0] == 200
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", server.port), timeout=1)
    with serving(agent, address) as again:
        assert get(again, "/healthz")[0] == 200


def test_it_can_be_stopped_before_it_is_started(agent: Agent) -> None:
    server = HttpServer("127.0.0.1:0", Pages(agent.metrics, str, str, str))
    server.stop()
    with serving(agent, server.address):
        pass


def test_stopping_hangs_up(agent: Agent) -> None:
    with serving(agent) as server:
        client = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        get(server, "/healthz")  # by then it has been accepted
    with client:
        assert client.recv(1) == b""


def test_who_comes_by_the_loopback_is_not_pushed_out_by_others(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that opens connections all the time must not make the node's own probes fail."""
    monkeypatch.setattr(http, "DEADLINE", 600.0)
    monkeypatch.setattr(http._Handler, "timeout", 600.0)
    with ExitStack() as stack:
        server = stack.enter_context(serving(agent, ":0"))
        probe = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        probe.sendall(b"GET /healthz ")
        for _ in range(2 * http.MOST_CONNECTIONS):
            stack.enter_context(socket.create_connection(("127.0.0.2", server.port)))
        with socket.create_connection(("127.0.0.2", server.port), timeout=60) as last:
            last.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert b" 200 OK\r\n" in last.makefile("rb").read()  # all before it were accepted
        probe.settimeout(60)
        probe.sendall(b"HTTP/1.0\r\n\r\n")
        assert b" 200 OK\r\n" in probe.makefile("rb").read()


def test_a_loopback_that_is_not_there_is_done_without(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "LOOPBACK", "192.0.2.1")
    with serving(agent, ":0") as server:
        assert said(server, b"GET /healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 200 ")


@pytest.mark.parametrize("bind", [":{}", "127.0.0.1:{}", "0.0.0.0:{}"])
def test_all_addresses_are_taken_by_one(agent: Agent, bind: str) -> None:
    with (
        serving(agent, ":0") as server,
        pytest.raises(NotPermittedError),
        serving(agent, bind.format(server.port)),
    ):
        pass


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_both_families(agent: Agent) -> None:
    with serving(agent, ":0") as server:
        assert server.address == f"[::]:{server.port}"
        for host in ("127.0.0.1", "::1"):
            with socket.create_connection((host, server.port), timeout=60) as client:
                client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                assert b" 200 OK\r\n" in client.makefile("rb").read()
    with serving(agent, "[::1]:0") as server:
        assert server.address == f"[::1]:{server.port}"
        assert get(server, "/healthz")[0] == 200


@pytest.mark.parametrize(
    ("text", "bind"),
    [
        (":9080", ("", 9080)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("localhost:80", ("localhost", 80)),
        ("[::1]:9080", ("::1", 9080)),
        (" [::]:65535 ", ("::", 65535)),
    ],
)
def test_addresses(text: str, bind: tuple[str, int]) -> None:
    assert parse_bind(text) == bind


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9080",
        "localhost",
        ":",
        "a:b",
        ":65536",
        ":-1",
        "::1:80",
        "[::1]",
        "[a]:1",
        ":\N{ARABIC-INDIC DIGIT ONE}",
    ],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(InputError, match="no address to listen on"):
        parse_bind(text)
