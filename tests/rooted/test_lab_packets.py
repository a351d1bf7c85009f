"""What no scenario can say, judged by a live agent: fragments, ICMP errors, path MTU.

The cluster is that of ``protocols/``, with the NetworkPolicy of its second step in force:
pods ``web`` let in only the client, and that only on named ports.
"""

import errno
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from helpers.labs import in_a_lab_with_an_agent, lab_of

from knp_py.lab.laboratory import VERDICTS, Laboratory
from knp_py.lab.topology import Topology, interface_of
from knp_py.verdicts.read import parse_record
from knp_py.verdicts.record import Record

pytestmark = in_a_lab_with_an_agent

SCENARIO = Path(__file__).parent / "protocols" / "scenario.yaml"
CLIENT, WEB = "shop/client", "shop/web-1"
CLIENT4, WEB4, CLIENT6, WEB6 = "10.231.1.2", "10.231.1.3", "fd00:231::2", "fd00:231::3"
FAMILIES = [(socket.AF_INET, WEB4), (socket.AF_INET6, WEB6)]
FEED, SHUT = 7001, 7002

# Linux's numbers, which the socket module does not have (include/uapi/linux/in.h, in6.h).
Option = tuple[int, int]
MTU_DISCOVER: Mapping[int, Option] = {socket.AF_INET: (0, 10), socket.AF_INET6: (41, 23)}
MTU: Mapping[int, Option] = {socket.AF_INET: (0, 14), socket.AF_INET6: (41, 24)}
DO = 2


@pytest.fixture(scope="module")
def lab() -> Iterator[Laboratory]:
    with lab_of(str(SCENARIO), "--steps", "2") as made:
        yield made


@pytest.fixture
def topology(lab: Laboratory) -> Topology:
    return lab.topology


def datagrams(topology: Topology, family: int, target: str, port: int) -> socket.socket:
    """A UDP socket of the client's, connected."""
    sock = topology.socket(CLIENT, family, socket.SOCK_DGRAM)
    sock.settimeout(3)
    sock.connect((target, port))
    return sock


def records(lab: Laboratory, wanted: Callable[[Record], bool]) -> list[Record]:
    """What the agent's log says of something, when it has had time to say it."""
    until = time.monotonic() + 1
    found: list[Record] = []
    while not found and time.monotonic() < until:
        lines = Path(lab.folder.file(VERDICTS)).read_bytes().splitlines()
        found = [each for each in map(parse_record, lines) if wanted(each)]
        time.sleep(0.02)
    return found


def from_port(number: int) -> Callable[[Record], bool]:
    return lambda record: record.src.port == number


# -- fragments -------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "target"), FAMILIES)
def test_a_datagram_in_fragments_is_one_connection(
    lab: Laboratory, topology: Topology, family: int, target: str
) -> None:
    payload = bytes(range(256)) * 40
    with datagrams(topology, family, target, FEED) as sock:
        for _ in range(3):
            sock.send(payload)
            assert sock.recv(65535) == payload
        # None if one like it is remembered.
        assert len(records(lab, from_port(sock.getsockname()[1]))) <= 1


@pytest.mark.parametrize(("family", "target"), FAMILIES)
def test_fragments_are_judged_by_the_port_that_only_the_first_one_has(
    lab: Laboratory, topology: Topology, family: int, target: str
) -> None:
    with datagrams(topology, family, target, SHUT) as sock:
        sock.settimeout(0.5)
        sock.send(bytes(10_000))
        with pytest.raises(TimeoutError):
            sock.recv(65535)
        (record,) = records(lab, from_port(sock.getsockname()[1]))
    assert (record.verdict, record.dst.port, record.protocol) == ("deny", SHUT, "UDP")
    assert record.decided_by is not None
    assert record.decided_by.policy == "shop/web"


def test_a_later_fragment_alone_does_not_get_in(topology: Topology) -> None:
    """It has no port; conntrack never makes it whole, and nobody lets it through by itself."""
    with (
        topology.socket(WEB, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP) as inside,
        topology.socket(CLIENT, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as outside,
    ):
        inside.settimeout(0.5)
        header = struct.pack(
            "!BBHHHBBH4s4s",
            *(0x45, 0, 28, 4711, 185, 64, socket.IPPROTO_UDP, 0),  # offset 185 * 8, the last one
            socket.inet_aton(CLIENT4),
            socket.inet_aton(WEB4),
        )
        outside.sendto(header + b"fragment", (WEB4, 0))
        with pytest.raises(TimeoutError):
            inside.recv(2048)


# -- ICMP errors -----------------------------------------------------------------------


@pytest.fixture
def narrow(topology: Topology) -> Iterator[int]:
    """The last hop to the server takes less than the first one."""
    link = ["ip", "link", "set", interface_of(WEB), "mtu"]
    assert topology.run("node", [*link, "1300"]).returncode == 0
    yield 1300
    assert topology.run("node", [*link, "1500"]).returncode == 0


@pytest.mark.parametrize(("family", "target"), FAMILIES)
def test_a_path_that_narrows_is_told_to_who_may_use_it(
    topology: Topology, narrow: int, family: int, target: str
) -> None:
    with datagrams(topology, family, target, FEED) as sock:
        level, option = MTU_DISCOVER[family]
        sock.setsockopt(level, option, DO)
        sock.send(bytes(100))
        assert len(sock.recv(65535)) == 100
        sock.send(bytes(1400))
        _eventually(lambda: sock.getsockopt(*MTU[family]) == narrow)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.EMSGSIZE
        with pytest.raises(OSError, match="Message too long"):
            sock.send(bytes(1400))
        sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # which that was as well
        sock.send(bytes(1000))
        assert len(sock.recv(65535)) == 1000


@pytest.mark.parametrize(("family", "target"), FAMILIES)
def test_tcp_finds_its_way_through_a_path_that_narrows(
    topology: Topology, narrow: int, family: int, target: str
) -> None:
    del family
    client = topology.call(CLIENT, lambda: socket.create_connection((target, 8080), 3))
    with client:
        client.settimeout(5)
        payload = bytes(200_000)
        client.sendall(b"x" + payload[1:50_000])
        received = 0
        while received < 50_000:
            chunk = client.recv(65535)
            assert chunk
            received += len(chunk)
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) < narrow


def icmp_error(quoted: bytes) -> bytes:
    """Destination unreachable, port unreachable (RFC 792), about a packet."""
    message = struct.pack("!BBHI", 3, 3, 0, 0) + quoted
    return message[:2] + struct.pack("!H", checksum(message)) + message[4:]


def checksum(data: bytes) -> int:
    """Of RFC 1071."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def quoted(sport: int, target: str, dport: int) -> bytes:
    """The packet that an error is about: IP header and UDP header."""
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 32, 1, 0x4000, 63, socket.IPPROTO_UDP, 0)
    ip += socket.inet_aton(CLIENT4) + socket.inet_aton(target)
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    return ip + struct.pack("!HHHH", sport, dport, 12, 0)


def complain(topology: Topology, place: str, source: str, about: bytes) -> None:
    """Send the client an ICMP error from somewhere."""
    with topology.socket(place, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
        sock.setsockopt(socket.SOL_IP, 19, 1)  # IP_TRANSPARENT: whoever owns that address
        sock.bind((source, 0))
        sock.sendto(icmp_error(about), (CLIENT4, 0))


def test_an_error_about_an_allowed_connection_reaches_who_began_it(topology: Topology) -> None:
    with datagrams(topology, socket.AF_INET, WEB4, FEED) as sock:
        sock.send(b"hello")
        assert sock.recv(99) == b"hello"
        about = quoted(sock.getsockname()[1], WEB4, FEED)
        complain(topology, WEB, WEB4, about)
        with pytest.raises(ConnectionRefusedError):
            sock.recv(99)


def test_an_error_about_no_connection_is_judged_as_any_packet(
    lab: Laboratory, topology: Topology
) -> None:
    """To web, whom nobody may send ICMP, though the error quotes a packet of web's own."""
    with topology.socket(WEB, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as inside:
        inside.settimeout(0.5)
        with topology.socket(
            CLIENT, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP
        ) as outside:
            about = quoted(4000, "192.0.2.1", 4001)
            about = about[:12] + socket.inet_aton(WEB4) + about[16:]
            outside.sendto(icmp_error(about), (WEB4, 0))
        with pytest.raises(TimeoutError):
            inside.recv(2048)
    (record,) = records(lab, lambda each: (each.protocol, each.dst.ip) == ("ICMP", WEB4))
    assert record.verdict == "deny"


def _eventually(check: object, seconds: float = 3) -> None:
    assert callable(check)
    until = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_replies_of_a_service_come_from_its_address(topology: Topology) -> None:
    """The client never sees a backend, policy never the Service."""
    for family, service in ((socket.AF_INET, "10.232.0.80"), (socket.AF_INET6, "fd00:232::80")):
        with topology.socket(CLIENT, family, socket.SOCK_DGRAM) as sock:
            sock.settimeout(3)
            for _ in range(4):
                sock.sendto(b"hello", (service, 7000))
                data, peer = sock.recvfrom(99)
                assert (data, peer[0]) == (b"hello", service)


def test_a_connection_that_is_denied_gets_no_answer_at_all(topology: Topology) -> None:
    with topology.socket(CLIENT, socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(0.5)
        assert sock.connect_ex((WEB4, 22)) == errno.EAGAIN
