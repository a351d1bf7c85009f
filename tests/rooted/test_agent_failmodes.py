"""Fail-open and fail-closed, stop after stop, under connections that never cease.

semantics §7. A forbidden connection that passes once is a failure, whatever the agent was doing
at that moment.
"""

import random
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from helpers import ip_bytes
from helpers.nodes import PATIENCE, Agent, NodeUnderTest, eventually, node_of, on_a_node
from scapy.layers.inet import IP, TCP

from knp_py.model.packet import ACK

pytestmark = [*on_a_node, pytest.mark.slow]

A, B, B6 = "10.91.1.11", "10.91.1.12", "fd91::12"
ALLOWED, FORBIDDEN = 80, 81
CLUSTER = f"""\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {{name: n1}}
  spec: {{podCIDR: 10.91.1.0/24, podCIDRs: [10.91.1.0/24, "fd91::/64"]}}
  status: {{addresses: [{{type: InternalIP, address: 10.91.0.1}}]}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: a, namespace: x, labels: {{app: a}}}}
  spec: {{nodeName: n1}}
  status: {{phase: Running, podIPs: [{{ip: {A}}}, {{ip: "fd91::11"}}]}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: b, namespace: x, labels: {{app: b}}}}
  spec: {{nodeName: n1}}
  status: {{phase: Running, podIPs: [{{ip: {B}}}, {{ip: "{B6}"}}]}}
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {{name: default-deny, namespace: x}}
  spec: {{podSelector: {{}}, policyTypes: [Ingress, Egress]}}
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {{name: a-to-b, namespace: x}}
  spec:
    podSelector: {{}}
    policyTypes: [Ingress, Egress]
    ingress: [{{from: [{{podSelector: {{}}}}], ports: [{{port: {ALLOWED}}}]}}]
    egress: [{{to: [{{podSelector: {{}}}}], ports: [{{port: {ALLOWED}}}]}}]
"""


class Attempts:
    """Connections one after the other from several threads, until told to stop."""

    def __init__(self, node: NodeUnderTest, port: int, *, timeout: float, threads: int) -> None:
        self.tried = 0
        self.passed = 0
        self.failed: list[str] = []
        self._node = node
        self._port = port
        self._timeout = timeout
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._try, args=(B if each % 2 else B6,), daemon=True)
            for each in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def _try(self, address: str) -> None:
        while not self._over.is_set():
            self.tried += 1
            begun = time.monotonic()
            try:
                self._node.open("x/a", address, self._port, timeout=self._timeout).close()
                self.passed += 1
            except OSError as error:
                took = time.monotonic() - begun
                self.failed.append(f"{address} after {took:.1f} s: {error!r}")
            time.sleep(0.01)

    def close(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


class Stream:
    """A connection that says something all the time and notices when nobody answers."""

    def __init__(self, node: NodeUnderTest) -> None:
        self.echoes = 0
        self.broken = ""
        self._sock = node.open("x/a", B, ALLOWED, timeout=PATIENCE)
        self._sock.settimeout(PATIENCE)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._talk, daemon=True)
        self._thread.start()

    def _talk(self) -> None:
        try:
            while not self._over.is_set():
                self._sock.sendall(b"x")
                if not self._sock.recv(16):
                    raise ConnectionError("closed by its peer")
                self.echoes += 1
                time.sleep(0.005)
        except OSError as error:
            self.broken = f"after {self.echoes} echoes: {error!r}"

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._sock.close()


def torture(node: NodeUnderTest, rounds: int, *options: str) -> None:
    """Stop or kill, start again, wait until it is there; so often."""
    dice = random.Random(7)
    begun = time.monotonic()
    agent = node.agent(*options)
    start = time.monotonic() - begun  # seconds that it takes here
    for number in range(1, rounds + 1):
        try:
            agent = end_and_begin(node, agent, dice, start, *options)
        except BaseException as error:
            error.add_note(f"in round {number} of {rounds}")
            raise
    eventually(agent.ready, "the agent is ready at last")


def end_and_begin(
    node: NodeUnderTest, agent: Agent, dice: random.Random, start: float, *options: str
) -> Agent:
    """One round. ``start`` are the seconds until an agent is ready."""
    time.sleep(dice.uniform(0, 0.05))
    assert agent.process.poll() is None, f"it ended by itself with {agent.process.returncode}"
    if dice.random() < 0.5:
        agent.kill()
    else:
        code = agent.stop()
        assert code in {0, -signal.SIGTERM}, f"exit code {code}"  # it may not have come far
    time.sleep(dice.choice([0, 0, 0.05, 0.2]))
    agent = node.agent(*options, ready=False)
    if dice.random() < 0.8:
        eventually(agent.ready, "the agent is ready again")
    else:
        time.sleep(dice.uniform(0, start))  # ended in the middle of its start
    return agent


@pytest.fixture
def node(tmp_path: Path):  # type: ignore[no-untyped-def]
    with node_of(tmp_path, CLUSTER) as made:
        for port in (ALLOWED, FORBIDDEN):
            made.serve_tcp("x/b", port)
        yield made


def warmed(node: NodeUnderTest, *options: str) -> Agent:
    """An agent whose rules are in force: the torture begins from there."""
    agent = node.agent(*options)
    assert node.connects("x/a", B, ALLOWED, timeout=PATIENCE)
    assert not node.connects("x/a", B, FORBIDDEN)
    return agent


def never_forbidden(node: NodeUnderTest, rounds: int, remember: str) -> None:
    """Fail-closed: what is denied stays denied, what is established goes on."""
    options = ("--fail-closed", "--remember", remember, "--log-verdicts", "none")
    agent = warmed(node, *options)
    with (
        closing(Stream(node)) as stream,
        closing(Attempts(node, FORBIDDEN, timeout=0.2, threads=6)) as forbidden,
    ):
        agent.stop()
        torture(node, rounds, *options)
    assert forbidden.passed == 0, f"{forbidden.passed} of {forbidden.tried} passed"
    assert forbidden.tried > 5 * rounds
    assert stream.broken == ""
    assert stream.echoes > 5 * rounds


def always_allowed(node: NodeUnderTest, rounds: int) -> None:
    """Fail-open: what is allowed comes about, whether anybody judges it or not."""
    options = ("--fail-open", "--log-verdicts", "none")
    agent = warmed(node, *options)
    with (
        closing(Stream(node)) as stream,
        closing(Attempts(node, ALLOWED, timeout=PATIENCE, threads=4)) as allowed,
    ):
        agent.stop()
        torture(node, rounds, *options)
    assert allowed.failed == []
    assert allowed.passed > 5 * rounds
    assert stream.broken == ""


def test_two_hundred_stops_and_kills_in_each_fail_mode(tmp_path: Path) -> None:
    def run(name: str, check: Callable[..., None], *arguments: object) -> None:
        path = tmp_path / name
        path.mkdir()
        begun = time.monotonic()
        try:
            with node_of(path, CLUSTER, name) as node:
                for port in (ALLOWED, FORBIDDEN):
                    node.serve_tcp("x/b", port)
                check(node, *arguments)
        except BaseException as error:
            # A report ends with this line, and its end may be all that anybody sees.
            what = " ".join([*str(error).splitlines()[:1], *getattr(error, "__notes__", [])[:1]])
            after = time.monotonic() - begun
            raise AssertionError(
                f"{name}, after {after:.0f} s: {type(error).__name__}: {what}"
            ) from error

    # Beside each other: an agent takes most of the time to come back, and there are cores.
    with ThreadPoolExecutor() as threads:
        runs = [
            threads.submit(run, "closed-on", never_forbidden, 100, "on"),
            threads.submit(run, "closed-off", never_forbidden, 100, "off"),
            threads.submit(run, "open", always_allowed, 200),
        ]
    failures = [error for each in runs if (error := each.exception()) is not None]
    if failures:
        for other in failures[1:]:
            failures[0].add_note(f"and {other}")
        raise failures[0]


def test_closed_rules_stay_until_cleanup(node: NodeUnderTest) -> None:
    agent = warmed(node, "--fail-closed", "--remember", "off")
    assert agent.stop() == 0
    assert "its rules stay" in agent.log
    assert not node.connects("x/a", B, ALLOWED)
    # The node itself is not cut off, neither from the pods nor from anybody else.
    assert node.connects("node", B, FORBIDDEN, timeout=PATIENCE)
    assert "open now" in node.cleanup()
    assert node.connects("x/a", B, FORBIDDEN, timeout=PATIENCE)
    listed = node.run("node", "nft", "list", "ruleset").stdout
    assert "knp" not in listed.lower()
    assert "no rules" in node.cleanup()
    if "by iptables" not in agent.log:
        return
    # What an agent leaves that is killed as it stops.
    node.run("node", "iptables-nft", "-t", "mangle", "-N", "KNP")
    assert "removed the rules" in node.cleanup()
    assert "KNP" not in node.run("node", "iptables-nft", "-t", "mangle", "-S").stdout


def test_open_rules_go_with_it(node: NodeUnderTest) -> None:
    agent = warmed(node, "--fail-open")
    assert agent.stop() == 0
    assert "knp" not in node.run("node", "nft", "list", "ruleset").stdout.lower()
    assert node.connects("x/a", B, FORBIDDEN, timeout=PATIENCE)


@pytest.mark.parametrize("mode", ["--fail-open", "--fail-closed"])
def test_a_connection_from_before_goes_on_whoever_speaks_first(tmp_path: Path, mode: str) -> None:
    """Nothing but the agent's rules keeps conntrack running here: it has seen no beginning."""
    with node_of(tmp_path, CLUSTER) as node, ExitStack() as stack:

        def connected(address: str) -> tuple[socket.socket, socket.socket]:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            server = stack.enter_context(node.topology.socket("x/b", family, socket.SOCK_STREAM))
            client = stack.enter_context(node.topology.socket("x/a", family, socket.SOCK_STREAM))
            server.bind((address, ALLOWED))
            server.listen(1)
            client.settimeout(PATIENCE)
            client.connect((address, ALLOWED))
            return client, stack.enter_context(server.accept()[0])

        pairs = [connected(address) for address in (B, B6)]
        node.agent(mode)
        for client, peer in pairs:
            peer.sendall(b"x")
            assert client.recv(16) == b"x"
            client.sendall(b"y")
            assert peer.recv(16) == b"y"
            peer.sendall(b"z")
            assert client.recv(16) == b"z"


def test_what_looks_like_a_reply_opens_no_way_back(tmp_path: Path) -> None:
    with node_of(tmp_path, CLUSTER) as node, ExitStack() as stack:
        node.serve_tcp("x/a", FORBIDDEN)
        agent = node.agent("--fail-closed", "--log-verdicts", "all")
        segment = ip_bytes.tcp(B, ALLOWED, A, FORBIDDEN, b"late", flags=ACK)
        node.send_raw("x/b", "10.91.0.1", checked(segment))

        def verdicts() -> list[str]:
            return [each["verdict"] for each in agent.records() if each["protocol"] == "TCP"]

        eventually(lambda: verdicts() == ["allow"], "it is taken for a reply")
        node.send_raw("x/b", "10.91.0.1", checked(segment))  # it gets there, and is reset
        sock = stack.enter_context(node.topology.socket("x/b", socket.AF_INET, socket.SOCK_STREAM))
        sock.bind((B, ALLOWED))
        sock.settimeout(3)
        with pytest.raises(TimeoutError):
            sock.connect((A, FORBIDDEN))
        assert verdicts()[:2] == ["allow", "deny"]


def checked(packet: bytes) -> bytes:
    """With the checksums that it should have."""
    made = IP(packet)
    del made.chksum, made[TCP].chksum
    return bytes(made)


def test_a_second_agent_is_refused_or_stays_out_of_the_way(node: NodeUnderTest) -> None:
    warmed(node, "--fail-closed")
    same = node.agent("--metrics-bind-address", "127.0.0.1:0", ready=False)
    assert same.process.wait(PATIENCE) == 3
    native = "by nftables queue" in same.log  # the first one's greeting: they share a log
    assert "an agent of the instance 'knp' is running here: stop it first" in same.log
    assert ("give this one --instance" in same.log) is native
    assert ("only one agent can queue packets" in same.log) is not native
    # Where iptables queues, what one agent has queued never comes to the other's rules.
    options = ("--instance", "blue", "--metrics-bind-address", "127.0.0.1:9081")
    masks = ("--mark-mask", "0xf0000", "--generation-mask", "0xf00000", "--connmark-mask", "0xff")
    for more in ((), ("--nfqueue-id", "200", *masks)):
        refused = node.agent(*options, *more, ready=False)
        assert refused.process.wait(PATIENCE) == 3
        assert "the table knp of another agent" in refused.log
    assert node.connects("x/a", B, ALLOWED, timeout=PATIENCE)
    assert not node.connects("x/a", B, FORBIDDEN)


@pytest.mark.parametrize(
    "damage",
    [
        "nft flush ruleset",
        "ip6tables-nft -t mangle -F",
        "iptables-nft -t mangle -F INPUT",
        "nft flush set inet knp managed4; nft flush set inet knp local4",
        "nft flush chain inet knp ends",
    ],
)
def test_rules_that_somebody_changed_are_put_back(node: NodeUnderTest, damage: str) -> None:
    agent = warmed(node, "--fail-open")
    time.sleep(1.5)  # until it has seen its rules as they are
    node.run("node", "sh", "-c", damage)
    eventually(lambda: "putting them back" in agent.log, "the change is noticed")
    for address in (B, B6):
        eventually(lambda: not node.connects("x/a", address, FORBIDDEN), "the rules are back")  # noqa: B023
        assert node.connects("x/a", address, ALLOWED, timeout=PATIENCE)
