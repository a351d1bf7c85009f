"""A node of network namespaces with a real ``knp agent`` on it, for tests that need both."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from knp_py.adapters.documents import load_manifests
from knp_py.engine.state import ClusterState
from knp_py.lab.namespaces import space_of
from knp_py.lab.plan import plan_of
from knp_py.lab.topology import Topology
from knp_py.model.changes import Change, Verb

TOOLS = ("ip", "nft", "iptables", "nsenter")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]

on_a_node = [
    pytest.mark.needs_root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make network namespaces"),
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)} (.ci/run installs it)"),
]

PATIENCE = 60.0  # seconds until something that should happen counts as never happening
_TURN = 2.0  # seconds of them that one look may take


def eventually(check: Callable[[], bool], what: str, *, seconds: float = PATIENCE) -> None:
    """Wait until ``check`` holds; fail saying ``what`` did not happen.

    It is about whether, not when. A machine that stands still for a while has not waited: of
    the time between two looks no more than ``_TURN`` counts.
    """
    left = seconds
    while True:
        begun = time.monotonic()
        if check():
            return
        assert left > 0, f"not within {seconds:g} s: {what}"
        time.sleep(0.01)
        left -= min(time.monotonic() - begun, _TURN)


class Agent:
    """A running agent: its process, its records, its pages."""

    def __init__(self, node: "NodeUnderTest", options: list[str]) -> None:
        self.node = node
        self.out = node.path / "records.jsonl"
        self.err = node.path / "agent.log"
        with self.out.open("ab") as out, self.err.open("ab") as err:
            command = [sys.executable, "-m", "knp_py", "agent", *options]
            self.process = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{space_of(node.lab, 'node')}", *command],
                stdout=out,
                stderr=err,
            )

    @property
    def log(self) -> str:
        """What it has said on standard error so far."""
        return self.err.read_text()

    def records(self) -> list[dict[str, Any]]:
        """The verdicts it has written so far."""
        return [json.loads(line) for line in self.out.read_text().splitlines()]

    def get(self, page: str) -> tuple[int, str]:
        """Status code and body of one of its pages."""

        def fetch() -> tuple[int, str]:
            try:
                with urllib.request.urlopen(
                    f"http://127.0.0.1:9080{page}", timeout=PATIENCE
                ) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read().decode()

        return self.node.topology.call("node", fetch)

    def status(self) -> Any:
        """Its /status."""
        return json.loads(self.get("/status")[1])

    def metric(self, name: str) -> float:
        """A metric's sum over its labels, 0 when it is not there."""
        total = 0.0
        for line in self.get("/metrics")[1].splitlines():
            key, _, value = line.rpartition(" ")
            if key == name or key.startswith(name + "{"):
                total += float(value)
        return total

    def ready(self) -> bool:
        """Whether a packet goes through its queue and back."""
        if self.process.poll() is not None:
            said = self.log.splitlines()[-1:]
            raise AssertionError(f"the agent ended with {self.process.returncode}: {said}")
        with suppress(OSError, HTTPException):
            return self.get("/readyz")[0] == 200
        return False

    def kill(self) -> None:
        """As the out-of-memory killer would."""
        self.process.kill()
        self._ended("is gone after SIGKILL")

    def stop(self) -> int:
        """As the kubelet would; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self._ended("ends after SIGTERM")

    def _ended(self, how: str) -> int:
        # The kernel takes its time too: what watches files is closed by its workers.
        eventually(lambda: self.process.poll() is not None, f"the agent {how}")
        return int(self.process.returncode)


class NodeUnderTest:
    """Namespaces as the manifests want them, in a directory that agents watch."""

    def __init__(self, lab: str, path: Path, manifests: str) -> None:
        self.lab = lab
        self.path = path
        self.directory = path / "manifests"
        self.directory.mkdir()
        self.topology = Topology(lab)
        self.agents: list[Agent] = []
        self._sockets: list[socket.socket] = []
        self.write("cluster.yaml", manifests)
        loaded = load_manifests([str(self.directory)])
        state = ClusterState()
        state.apply_all(Change(Verb.APPLIED, obj) for obj in loaded.objects)
        self.topology.build(plan_of(state.snapshot()))

    def write(self, name: str, text: str) -> int:
        """Put a manifest there at once; wall clock nanoseconds when that was done."""
        part = self.path / f"{name}.part"
        part.write_text(text)
        part.replace(self.directory / name)
        return time.time_ns()

    def agent(self, *options: str, ready: bool = True, source: tuple[str, ...] = ()) -> Agent:
        """Start one; wait until it enforces. It follows the directory, or another ``source``."""
        source = source or ("--manifests", str(self.directory), "--all-nodes")
        agent = Agent(self, [*source, "--state-dir", str(self.path / "state"), *options])
        self.agents.append(agent)
        if ready:
            eventually(agent.ready, "the agent is ready")
        return agent

    def cleanup(self) -> str:
        """``knp agent cleanup``; what it said."""
        done = self.run(
            "node", sys.executable, "-m", "knp_py", "agent", "cleanup",
            "--state-dir", str(self.path / "state"),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def in_force(self, agent: Agent, since_ns: int) -> None:
        """Wait until what was written before is in force."""
        asked = time.monotonic()

        def is_in_force() -> bool:
            nonlocal asked
            if agent.status()["source"]["scan_started_ns"] > since_ns:
                return True
            if time.monotonic() - asked > 0.5:
                # The scan that saw it may have begun before the rename came back.
                (self.directory / "cluster.yaml").touch()
                asked = time.monotonic()
            return False

        eventually(is_in_force, "the change is in force")

    def run(self, place: str, *argv: str) -> "subprocess.CompletedProcess[str]":
        """A command at a place."""
        return self.topology.run(place, argv, timeout=60)

    # -- traffic -----------------------------------------------------------------------

    def serve_tcp(self, place: str, port: int) -> None:
        """Accept everything on a port, in both families; say ``hi`` and echo."""
        listener = self._listen(place, socket.SOCK_STREAM, port)

        def talk(sock: socket.socket) -> None:
            with sock, suppress(OSError):
                sock.sendall(b"hi")
                while data := sock.recv(4096):
                    sock.sendall(data)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    sock, _ = listener.accept()
                    threading.Thread(target=talk, args=(sock,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()

    def serve_udp(
        self, place: str, address: str, port: int, answer: Callable[[bytes], bytes | None]
    ) -> None:
        """Answer every datagram to an address and port, from there; or not."""
        mapped = address if ":" in address else f"::ffff:{address}"
        sock = self._listen(place, socket.SOCK_DGRAM, port, mapped)

        def serve() -> None:
            with suppress(OSError):
                while (received := sock.recvfrom(65535))[0]:
                    data, peer = received
                    reply = answer(data)
                    if reply is not None:
                        sock.sendto(reply, peer)

        threading.Thread(target=serve, daemon=True).start()

    def _listen(self, place: str, kind: int, port: int, address: str = "::") -> socket.socket:
        sock = self.topology.socket(place, socket.AF_INET6, kind)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        if kind == socket.SOCK_STREAM:
            sock.listen(512)
        self._sockets.append(sock)
        return sock

    def open(self, place: str, address: str, port: int, *, timeout: float = 0.5) -> socket.socket:
        """A TCP connection that has been greeted; ``OSError`` when there is none in time."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = self.topology.socket(place, family, socket.SOCK_STREAM)
        sock.settimeout(timeout)
        try:
            sock.connect((address, port))
            if sock.recv(16) != b"hi":
                raise ConnectionError("closed without a greeting")
        except OSError:
            sock.close()
            raise
        return sock

    def connects(self, place: str, address: str, port: int, *, timeout: float = 0.5) -> bool:
        """Whether a TCP connection comes about."""
        try:
            self.open(place, address, port, timeout=timeout).close()
        except OSError:
            return False
        return True

    def judges(self, place: str, address: str, port: int, *, allowed: bool) -> bool:
        """Whether connections are as they should be: what should pass has all the time."""
        timeout = PATIENCE if allowed else 0.5
        return self.connects(place, address, port, timeout=timeout) is allowed

    def ask(
        self, place: str, address: str, port: int, data: bytes, *, timeout: float = 0.5
    ) -> bytes | None:
        """The answer to a datagram, None when there is none in time."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with self.topology.socket(place, family, socket.SOCK_DGRAM) as sock:
            sock.settimeout(timeout)
            sock.sendto(data, (address, port))
            try:
                return sock.recv(65535)
            except OSError:
                return None

    def hardware(self, place: str, gateway: str) -> tuple[bytes, bytes]:
        """A pod's own hardware address and its gateway's."""
        self.ask(place, gateway, 9, b"who has it?", timeout=0.2)
        there = self.run(place, "ip", "neigh", "show", gateway).stdout.split()
        own = self.run(place, "ip", "-br", "link", "show", "eth0").stdout.split()
        found = own[2], there[there.index("lladdr") + 1]
        return bytes.fromhex(found[0].replace(":", "")), bytes.fromhex(found[1].replace(":", ""))

    def send_raw(self, place: str, gateway: str, *packets: bytes) -> None:
        """IP packets as they are, by a pod's interface to the node."""
        own, there = self.hardware(place, gateway)
        with self.topology.socket(place, socket.AF_PACKET, socket.SOCK_RAW) as sock:
            sock.bind(("eth0", 0))
            for data in packets:
                kind = b"\x86\xdd" if data[0] >> 4 == 6 else b"\x08\x00"
                sock.send(there + own + kind + data)

    def close(self) -> None:
        """End what was started here, remove the namespaces."""
        for agent in self.agents:
            if agent.process.poll() is None:
                agent.kill()
        for sock in self._sockets:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        self.topology.remove()


@contextmanager
def node_of(path: Path, manifests: str, name: str = "t") -> Iterator[NodeUnderTest]:
    """A node for one test; says what its agents said when the test fails."""
    node = NodeUnderTest(f"{name}{os.getpid()}", path, manifests)
    try:
        yield node
    except BaseException as error:
        for agent in node.agents[-1:]:  # they share a log
            error.add_note("\n".join(agent.log.splitlines()[-12:]))
        raise
    finally:
        node.close()
