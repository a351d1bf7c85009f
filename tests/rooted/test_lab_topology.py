"""Namespaces, Services and servers without an agent: what a cluster is before any policy."""

import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from dnslib import DNSRecord
from helpers.builders import address, addresses, container_port, node, pod, service
from helpers.labs import Served, in_a_lab, served, topology_of

from knp_py.errors import LabError
from knp_py.lab.attempts import PingAttempt, Question, SctpAttempt, Seen, TcpAttempt, UdpAttempt
from knp_py.lab.namespaces import space_of
from knp_py.lab.topology import Topology, interface_of
from knp_py.model.changes import ClusterObject
from knp_py.model.objects import Service, ServicePort
from knp_py.model.packet import Proto
from knp_py.replay.scenario import Resolved

pytestmark = in_a_lab

NODE4, NODE6 = "172.31.0.2", "fd00:31::2"
DNS4, DNS6 = "10.231.0.53", "fd00:231::53"
A4, A6, B4, B6 = "10.231.1.2", "fd00:231::2", "10.231.1.3", "fd00:231::3"
NODES: list[ClusterObject] = [node("n1", NODE4, NODE6), node("n2", "172.31.0.3")]
A = pod("t/a", A4, A6, node="n1")
B = pod("t/b", B4, B6, labels={"app": "web"}, ports=[container_port("http", 8080)], node="n2")
V4 = pod("t/v4", "10.231.1.4", labels={"app": "web"}, ports=[container_port("http", 8081)])
DNS = pod("kube-system/dns", DNS4, DNS6, labels={"k8s-app": "kube-dns"})
CLUSTER_DNS = service(
    "kube-system/kube-dns",
    "10.232.0.10",
    selector={"k8s-app": "kube-dns"},
    port=53,
    protocol="UDP",
)
FRONT = Service(
    "t",
    "front",
    selector={"app": "web"},
    cluster_ips=addresses(["10.232.0.80", "fd00:232::80"]),
    ports=tuple(
        ServicePort(name, int(protocol), 80, "http" if protocol is Proto.TCP else 7000)
        for name, protocol in (("t", Proto.TCP), ("u", Proto.UDP), ("s", Proto.SCTP))
    ),
)
EMPTY = service("t/empty", "10.232.0.81", selector={"app": "none"})
CLUSTER: list[ClusterObject] = [*NODES, A, B, V4, DNS, CLUSTER_DNS, FRONT, EMPTY]
NAME = Resolved(tuple(addresses(["140.82.121.4", "2001:db8::4"])), 77)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("served")
    with served(CLUSTER, path, {"github.com": NAME}) as made:
        yield made


@pytest.mark.parametrize(
    ("place", "target", "who"),
    [
        ("t/a", B4, "t/b"),
        ("t/a", B6, "t/b"),
        ("t/a", A4, "t/a"),
        ("t/a", NODE4, "node"),
        ("t/a", NODE6, "node"),
        ("t/a", "172.31.0.3", "node"),
        ("t/a", "140.82.121.4", "internet"),
        ("t/a", "2001:db8::4", "internet"),
        ("t/a", "169.254.169.254", "internet"),
        ("node", B4, "t/b"),
        ("node", B6, "t/b"),
        ("node", "8.8.8.8", "internet"),
        ("internet", A4, "t/a"),
    ],
)
def test_everybody_answers_on_every_port_as_who_they_are(
    lab: Served, place: str, target: str, who: str
) -> None:
    for port in (1, 80, 53 + 1, 65535):
        assert lab.fetch(place, target, port) == f"{who} {target} {port}"


def test_a_pod_has_the_addresses_of_its_manifest_and_no_other(lab: Served) -> None:
    shown = lab.topology.run("t/v4", ["ip", "-o", "addr", "show", "dev", "eth0"]).stdout
    assert [line.split()[3] for line in shown.splitlines()] == ["10.231.1.4/32"]
    assert lab.fetch("t/v4", B6, 80) == "OSError"
    both = lab.topology.run("t/a", ["ip", "-o", "addr", "show", "dev", "eth0", "scope", "global"])
    assert {line.split()[3] for line in both.stdout.splitlines()} == {f"{A4}/32", f"{A6}/128"}


def test_nothing_answers_on_a_pods_own_loopback(lab: Served) -> None:
    assert lab.fetch("t/a", "127.0.0.1", 80) == "ConnectionRefusedError"
    assert lab.fetch("node", "::1", 80) == "ConnectionRefusedError"


def test_the_node_talks_to_a_pod_from_that_pods_own_node(lab: Served) -> None:
    for key, expected in (("t/a", NODE4), ("t/b", "172.31.0.3")):
        pod_ip = A4 if key == "t/a" else B4
        said = lab.topology.run("node", ["ip", "route", "get", pod_ip]).stdout.split()
        assert said[said.index("dev") + 1] == interface_of(key)
        assert said[said.index("src") + 1] == expected


def test_who_listens_in_a_pod_has_its_port(lab: Served) -> None:
    with (
        lab.topology.socket("t/b", socket.AF_INET, socket.SOCK_STREAM) as listener,
        lab.topology.socket("t/b", socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        listener.bind(("", 7777))
        listener.listen()
        datagrams.bind(("", 7777))
        datagrams.settimeout(3)
        listener.settimeout(3)
        client = lab.topology.call("t/a", lambda: socket.create_connection((B4, 7777), 3))
        with client, closing(listener.accept()[0]) as accepted:
            assert accepted.getpeername()[0] == A4
        with lab.topology.socket("t/a", socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"hello", (B4, 7777))
            assert datagrams.recvfrom(99) == (b"hello", (A4, sender.getsockname()[1]))
    assert lab.fetch("t/a", B4, 7777) == f"t/b {B4} 7777"


@pytest.mark.parametrize(("family", "target"), [(socket.AF_INET, B4), (socket.AF_INET6, B6)])
@pytest.mark.parametrize("size", [1, 1400, 9000, 60000])
def test_udp_comes_back_whole_also_in_fragments(
    lab: Served, family: int, target: str, size: int
) -> None:
    payload = bytes(range(256)) * (size // 256 + 1)
    with lab.topology.socket("t/a", family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(3)
        for _ in range(5):
            sock.sendto(payload[:size], (target, 9))
            data, peer = sock.recvfrom(65535)
            assert (data, peer[:2]) == (payload[:size], (target, 9))


def test_tcp_comes_back_and_a_slow_reader_stops_the_sender(lab: Served) -> None:
    client = lab.topology.call("t/a", lambda: socket.create_connection((B6, 7), 5))
    with client:
        payload = b"x" * 300_000
        client.sendall(payload[:100])
        assert client.recv(100) == payload[:100]
        client.settimeout(1)
        with pytest.raises(TimeoutError):
            client.sendall(b"y" * 100_000_000)


# -- Services --------------------------------------------------------------------------


def test_a_services_backends_take_turns_each_with_its_own_port(lab: Served) -> None:
    found = [lab.fetch("t/a", "10.232.0.80", 80) for _ in range(4)]
    assert sorted(set(found)) == [f"t/b {B4} 8080", "t/v4 10.231.1.4 8081"]
    assert found[0] != found[1]
    assert lab.fetch("t/a", "fd00:232::80", 80) == f"t/b {B6} 8080"
    assert lab.fetch("node", "fd00:232::80", 80) == f"t/b {B6} 8080"
    assert lab.fetch("internet", "fd00:232::80", 80) == f"t/b {B6} 8080"


def test_a_pod_reaches_itself_by_its_service(lab: Served) -> None:
    assert lab.fetch("t/b", "fd00:232::80", 80) == f"t/b {B6} 8080"
    assert {lab.fetch("t/v4", "10.232.0.80", 80) for _ in range(2)} == {
        f"t/b {B4} 8080",
        "t/v4 10.231.1.4 8081",
    }


@pytest.mark.parametrize(("target", "port"), [("10.232.0.80", 81), ("10.232.0.81", 80)])
def test_a_port_that_nothing_is_behind_is_refused(lab: Served, target: str, port: int) -> None:
    for place in ("t/a", "node"):
        assert lab.fetch(place, target, port) == "ConnectionRefusedError"


# -- attempts --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [TcpAttempt, UdpAttempt, PingAttempt, SctpAttempt])
@pytest.mark.parametrize(("source", "target"), [(A4, B4), (A6, B6)])
def test_every_kind_of_attempt_is_answered(
    lab: Served, kind: type[TcpAttempt], source: str, target: str
) -> None:
    port = 0 if issubclass(kind, PingAttempt) else 5000
    space = space_of(lab.topology.lab, "t/a")
    with kind(space, address(source), address(target), port) as attempt:
        seen = attempt.look(3)
        assert seen is not None
        assert seen.refused == ""
        page = attempt.page()
        if kind in {TcpAttempt, UdpAttempt}:
            assert page is not None
            assert (page.label, page.address) == ("t/b", address(target))


@pytest.mark.parametrize("kind", [TcpAttempt, UdpAttempt, SctpAttempt])
@pytest.mark.parametrize(("source", "target"), [(A4, "10.232.0.80"), (A6, "fd00:232::80")])
def test_attempts_reach_services(
    lab: Served, kind: type[TcpAttempt], source: str, target: str
) -> None:
    space = space_of(lab.topology.lab, "t/a")
    with kind(space, address(source), address(target), 80) as attempt:
        seen = attempt.look(3)
        assert seen is not None
        assert seen.refused == ""


@pytest.mark.parametrize("kind", [TcpAttempt, UdpAttempt])
def test_an_attempt_knows_refusal_from_silence(lab: Served, kind: type[TcpAttempt]) -> None:
    space = space_of(lab.topology.lab, "t/a")
    with kind(space, address(A4), address("10.232.0.81"), 80) as attempt:
        seen = attempt.look(3)
        assert seen is not None
        assert seen.refused == "connection refused"
    drop = "add table inet t; add chain inet t f { type filter hook forward priority 0;"
    drop += " policy drop; }"
    try:
        lab.topology.run("node", ["nft", drop])
        with kind(space, address(A4), address(B4), 80) as attempt:
            assert attempt.look(0.2) is None
    finally:
        lab.topology.run("node", ["nft", "delete table inet t"])


def test_somebody_on_the_internet_has_whatever_address_it_takes(lab: Served) -> None:
    for source, target in (("203.0.113.5", A4), ("2001:db8::99", A6)):
        space = space_of(lab.topology.lab, "internet")
        with TcpAttempt(space, address(source), address(target), 80) as attempt:
            assert attempt.look(3) is not None
            page = attempt.page()
            assert page is not None
            assert page.label == "t/a"


# -- names -----------------------------------------------------------------------------


@pytest.mark.parametrize("server", ["10.232.0.10", DNS4, "8.8.8.8", B4, NODE4])
def test_every_resolver_knows_the_names_of_the_scenario(lab: Served, server: str) -> None:
    space = space_of(lab.topology.lab, "t/a")
    with Question(space, address(A4), address(server), "github.com") as asked:
        assert asked.look(3) is not None or asked.look(3) is not None
        assert (sorted(asked.addresses), asked.ttl) == (sorted(NAME.addresses), 77)
    with Question(space, address(A4), address(server), "front.t.svc.cluster.local") as asked:
        assert asked.look(3) is not None or asked.look(3) is not None
        cluster = server in {"10.232.0.10", DNS4}
        assert sorted(asked.addresses) == (sorted(FRONT.cluster_ips) if cluster else [])
        assert asked.rcode == (0 if cluster else 3)


@pytest.mark.parametrize("server", [DNS4, DNS6, "2001:db8::53"])
def test_resolvers_speak_tcp_too(lab: Served, server: str) -> None:
    query = DNSRecord.question("github.com", "AAAA").pack()
    client = lab.topology.call("t/a", lambda: socket.create_connection((server, 53), 3))
    with client, client.makefile("rb") as stream:
        client.sendall(struct.pack("!H", len(query)) + query)
        client.sendall(struct.pack("!H", len(query)) + query)
        for _ in range(2):
            (length,) = struct.unpack("!H", stream.read(2))
            assert str(DNSRecord.parse(stream.read(length)).a.rdata) == "2001:db8::4"
        client.sendall(struct.pack("!H", 2) + b"no")
        assert stream.read() == b""


def test_port_53_echoes_nothing(lab: Served) -> None:
    answer = DNSRecord.question("github.com").reply().pack()
    with lab.topology.socket("t/a", socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.3)
        for data in (b"GET /", answer, b""):
            sock.sendto(data, (DNS4, 53))
        with pytest.raises(TimeoutError):
            sock.recv(99)


def test_a_thousand_questions_at_once(lab: Served) -> None:
    query = DNSRecord.question("github.com").pack()
    with lab.topology.socket("t/a", socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
        sock.settimeout(5)
        for _ in range(1000):
            sock.sendto(query, (DNS4, 53))
        assert sum(len(sock.recv(99)) > 12 for _ in range(1000)) == 1000


# -- changes ---------------------------------------------------------------------------


def test_pods_come_go_and_change_places(tmp_path: Path) -> None:
    client, old = pod("t/client", A4), pod("t/old", B4)
    with served([client, old], tmp_path) as lab:
        assert lab.fetch("t/client", B4, 80) == f"t/old {B4} 80"
        lab.change([client, pod("t/new", B4)])
        assert lab.fetch("t/client", B4, 80) == f"t/new {B4} 80"
        assert "t/old" not in lab.topology.places
        moved = pod("t/new", "10.231.1.9", B6)
        lab.change([pod("t/client", A4, A6), moved])
        assert lab.fetch("t/client", "10.231.1.9", 80) == "t/new 10.231.1.9 80"
        assert lab.fetch("t/client", B6, 80) == f"t/new {B6} 80"
        # Whoever leaves the cluster is out there like everybody else.
        lab.change([pod("t/client", A4, A6)])
        assert lab.fetch("t/client", B4, 80) == f"internet {B4} 80"
        with pytest.raises(LabError, match="no network namespace"):
            lab.fetch("t/new", A4, 80)
        lab.change([pod("t/client", A4), node("n", NODE4)])
        assert lab.fetch("t/client", NODE4, 80) == f"node {NODE4} 80"


def test_a_name_used_again_is_served_again(tmp_path: Path) -> None:
    with served([pod("t/client", A4)], tmp_path) as lab:
        for number in range(5):
            lab.change([pod("t/client", A4), pod("t/p", f"10.231.1.{number + 10}")])
            target = f"10.231.1.{number + 10}"
            assert lab.fetch("t/client", target, 80) == f"t/p {target} 80"


# -- the library -----------------------------------------------------------------------


def test_a_topology_by_itself() -> None:
    with topology_of([*NODES, A, B]) as topology:
        assert sorted(topology.places) == ["internet", "node", "t/a", "t/b"]
        with PingAttempt(topology.places["t/a"], address(A6), address(B6), 0) as ping:
            assert ping.look(3) == Seen()
        process = topology.start("t/b", [sys.executable, "-c", "print('here')"])
        assert process.communicate(timeout=60)[0] == b"here\n"
        with pytest.raises(LabError, match="there is no network namespace"):
            topology.socket("t/nosuch", socket.AF_INET, socket.SOCK_STREAM)
        again = Topology(topology.lab, topology.plan)
        assert again.places == topology.places
        with pytest.raises(LabError, match="File exists"):
            again.build(topology.plan)


def test_nothing_leads_out(lab: Served) -> None:
    """Every interface is the lab's own; the machine's own addresses are not to be had."""
    shown = lab.topology.run("node", ["ip", "-o", "link"]).stdout.splitlines()
    names = {line.split()[1].partition("@")[0].rstrip(":") for line in shown}
    assert {n for n in names if not n.startswith("pod")} == {"lo", "internet"}
    own = subprocess.check_output(["ip", "-o", "-4", "addr", "show", "scope", "global"], text=True)
    for line in own.splitlines():
        ip = line.split()[3].partition("/")[0]
        assert lab.fetch("t/a", ip, 80) == f"internet {ip} 80"
