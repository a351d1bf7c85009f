"""A lab's namespaces, and its servers if wanted, for tests that need real packets."""

import os
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import pytest
from helpers.command import run_knp
from helpers.judging import snapshot_of

from knp_py.engine.snapshot import Snapshot
from knp_py.lab.laboratory import Laboratory
from knp_py.lab.nameserver import names_of
from knp_py.lab.namespaces import NODE, space_of, spaces_of
from knp_py.lab.plan import plan_of
from knp_py.lab.rules import catch_all, load_rules
from knp_py.lab.services import service_rules
from knp_py.lab.serving import start_servers, tell_servers
from knp_py.lab.topology import Topology
from knp_py.model.changes import ClusterObject
from knp_py.replay.directory import Directory
from knp_py.replay.scenario import Resolved

TOOLS = ("ip", "nft", "unshare", "mount")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]

in_a_lab = [
    pytest.mark.needs_root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make network namespaces"),
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)} (.ci/run installs it)"),
]


in_a_lab_with_an_agent = [
    *in_a_lab,
    pytest.mark.skipif(
        find_spec("netfilterqueue") is None, reason="needs the extra [agent] (make installs it)"
    ),
]

_numbers = count()


def lab_name() -> str:
    """A name that no other lab has."""
    return f"t{os.getpid()}-{next(_numbers)}"


@contextmanager
def lab_of(*argv: str) -> Iterator[Laboratory]:
    """A lab with an agent, as ``knp lab up ARGV`` makes it."""
    name = lab_name()
    try:
        ended = run_knp("lab", "up", "--name", name, *argv)
        assert ended.code == 0, ended.err
        yield Laboratory(name)
    finally:
        run_knp("lab", "down", "--name", name)
        assert spaces_of(name) == []


@contextmanager
def topology_of(objects: Sequence[ClusterObject]) -> Iterator[Topology]:
    """The namespaces of a cluster, without servers and without an agent."""
    topology = Topology(lab_name())
    try:
        topology.build(plan_of(snapshot_of(objects)))
        yield topology
    finally:
        topology.remove()
        assert spaces_of(topology.lab) == []


class Served:
    """A topology whose every place answers. ``change`` has another cluster there."""

    def __init__(self, topology: Topology, path: Path, resolve: dict[str, Resolved]) -> None:
        self.topology = topology
        self._path = path
        self._resolve = resolve
        node = space_of(topology.lab, NODE)
        self.process = start_servers(self.control, self.log, node)

    @property
    def control(self) -> str:
        return str(self._path / "control")

    @property
    def log(self) -> str:
        return str(self._path / "servers.log")

    def change(self, objects: Sequence[ClusterObject]) -> Snapshot:
        snapshot = snapshot_of(objects)
        topology = self.topology
        topology.change(plan_of(snapshot))
        directory = Directory(self._resolve)
        directory.load(snapshot)
        catch_all(topology.places)
        load_rules(service_rules(snapshot), [space_of(topology.lab, NODE)])
        names = names_of(self._resolve, directory, snapshot.cluster_resolvers)
        tell_servers(self.control, dict(topology.places), names)
        return snapshot

    def python(self, place: str, program: str) -> list[str]:
        """The lines that a program prints at a place."""
        ended = self.topology.run(place, [sys.executable, "-c", program])
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.splitlines()

    def fetch(self, place: str, address: str, port: int) -> str:
        """Who answers a request at an address, or why nobody does."""
        return self.topology.call(place, lambda: _fetch(address, port))


@contextmanager
def served(
    objects: Sequence[ClusterObject], path: Path, resolve: dict[str, Resolved] | None = None
) -> Iterator[Served]:
    """The namespaces of a cluster with the lab's servers in them, without an agent."""
    with topology_of(objects) as topology:
        made = Served(topology, path, resolve or {})
        try:
            made.change(objects)
            yield made
        finally:
            made.process.terminate()
            made.process.wait(timeout=60)
        assert Path(made.log).read_text() == ""


def _fetch(address: str, port: int) -> str:
    try:
        with socket.create_connection((address, port), timeout=60) as sock:
            sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
            data = b""
            while chunk := sock.recv(4096):
                data += chunk
    except OSError as error:
        return type(error).__name__
    return data.rpartition(b"\r\n")[2].decode().strip()
