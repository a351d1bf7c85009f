"""Write phase4.pcap: what the sandboxes of this example sent while phase 4 was in force.

The capture is as a node sees it behind destination NAT: Services appear as the pods behind
them. What phase 4 denies shows as a connection request that is sent three times and never
answered. Equal input gives equal bytes: nothing here is random and no clock is read.

    python examples/agent-sandbox/make_capture.py [FILE]
"""

import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from struct import pack
from typing import Any, NamedTuple

from scapy.layers.dns import DNS, DNSQR, DNSRR
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import PcapWriter

CAPTURE = Path(__file__).with_name("phase4.pcap")
BEGIN = datetime(2026, 11, 29, 20, 38, tzinfo=UTC).timestamp()

TEAM_A, TEAM_A_POOL = "10.244.1.6", "10.244.1.4"
TEAM_B, RAW = "10.244.1.7", "10.244.1.12"
COREDNS, TOOL_SERVER, ROUTER = "10.244.0.2", "10.244.1.9", "10.244.1.2"
NODE = "172.18.0.3"

NAMES = {
    "github.com": "140.82.121.4",
    "api.github.com": "140.82.121.6",
    "example.com": "172.66.147.243",
    "pypi.org": "151.101.0.223",
    "files.pythonhosted.org": "146.75.120.223",
    "tool-server.shared-tools.svc.cluster.local": "10.96.88.20",
}
TTL = 60
# A round trip: to the internet, and within the cluster.
FAR, NEAR = 0.012, 0.0004
RETRIES = (0.0, 1.0, 3.0)  # seconds after which a connection request is sent again


class Sent(NamedTuple):
    """A packet and when, in seconds after the beginning."""

    at: float
    packet: Any


class Conversations:
    """Packets of conversations; ports, identifiers and sequence numbers simply count on."""

    def __init__(self) -> None:
        self._number = 0

    def lookup(
        self, at: float, pod: str, server: str, name: str, *, answered: bool = True
    ) -> Iterator[Sent]:
        """A question over UDP; one that is not answered is asked twice."""
        sport, identifier = self._next(), 0x4000 + self._number
        question = DNSQR(qname=name, qtype="A")
        ask = DNS(id=identifier, rd=1, qd=question)
        yield self._sent(at, pod, server, UDP(sport=sport, dport=53) / ask)
        if not answered:
            yield self._sent(at + 5, pod, server, UDP(sport=sport, dport=53) / ask)
            return
        reply = _answer(identifier, name, NAMES[name])
        later = at + (NEAR if server.startswith("10.") else FAR)
        yield self._sent(later, server, pod, UDP(sport=53, dport=sport) / reply)

    def spoofed(self, at: float, sender: str, pod: str, name: str, address: str) -> Iterator[Sent]:
        """An answer that nobody asked for, from a pod that is no resolver."""
        dport, identifier = self._next(), 0x4000 + self._number
        reply = _answer(identifier, name, address)
        yield self._sent(at, sender, pod, UDP(sport=53, dport=dport) / reply)

    def refused(self, at: float, src: str, dst: str, dport: int) -> Iterator[Sent]:
        """A connection request that is dropped on its way: sent again, then given up."""
        sport, seq = self._next(), self._number * 1000
        for wait in RETRIES:
            yield self._sent(at + wait, src, dst, _tcp(sport, dport, "S", seq))

    def exchange(
        self, at: float, src: str, dst: str, dport: int, request: bytes, response: bytes
    ) -> Iterator[Sent]:
        """A whole TCP connection: a request, a response, both ends closed."""
        sport, seq, ack = self._next(), self._number * 1000, self._number * 1000 + 500_000
        trip = NEAR if dst.startswith("10.") else FAR
        end = seq + 1 + len(request)
        far_end = ack + 1 + len(response)
        there = (
            (0.0, "S", seq, 0, b""),
            (trip, "A", seq + 1, ack + 1, b""),
            (trip + 0.0001, "PA", seq + 1, ack + 1, request),
            (trip * 2 + 0.0002, "FA", end, far_end, b""),
            (trip * 3 + 0.0002, "A", end + 1, far_end + 1, b""),
        )
        back = (
            (trip, "SA", ack, seq + 1, b""),
            (trip * 2 + 0.0001, "PA", ack + 1, end, response),
            (trip * 3 + 0.0001, "FA", far_end, end + 1, b""),
        )
        for after, flags, seq_, ack_, data in there:
            yield self._sent(at + after, src, dst, _tcp(sport, dport, flags, seq_, ack_, data))
        for after, flags, seq_, ack_, data in back:
            yield self._sent(at + after, dst, src, _tcp(dport, sport, flags, seq_, ack_, data))

    def ping(self, at: float, src: str, dst: str) -> Iterator[Sent]:
        """An echo request without reply."""
        identifier = self._next()
        yield self._sent(at, src, dst, ICMP(type=8, id=identifier, seq=1) / Raw(b"knp example"))

    def _next(self) -> int:
        self._number += 1
        return 37_300 + self._number

    def _sent(self, at: float, src: str, dst: str, rest: Any) -> Sent:
        frame = Ether(src=_mac(src), dst=_mac(dst), type=0x0800)
        return Sent(at, frame / IP(src=src, dst=dst, id=self._number, flags="DF", ttl=64) / rest)


def _tcp(sport: int, dport: int, flags: str, seq: int, ack: int = 0, data: bytes = b"") -> Any:
    segment = TCP(sport=sport, dport=dport, flags=flags, seq=seq, ack=ack, window=64_240)
    return segment / Raw(data) if data else segment


def _answer(identifier: int, name: str, address: str) -> Any:
    return DNS(
        id=identifier,
        qr=1,
        rd=1,
        ra=1,
        qd=DNSQR(qname=name, qtype="A"),
        an=DNSRR(rrname=name, type="A", ttl=TTL, rdata=address),
    )


def _mac(address: str) -> str:
    """The hardware address of a pod, made from its IP as CNI plug-ins do; else the bridge's."""
    numbers = [int(part) for part in address.split(".")]
    if numbers[:3] != [10, 244, 1]:
        numbers = [10, 244, 1, 1]
    return "0a:58:" + ":".join(f"{number:02x}" for number in numbers)


def client_hello(name: str) -> bytes:
    """The smallest TLS 1.2 ClientHello that names a server (RFC 5246 §7.4.1.2, RFC 6066 §3)."""
    host = name.encode()
    entry = b"\0" + pack("!H", len(host)) + host
    names = pack("!H", len(entry)) + entry
    extensions = pack("!HH", 0, len(names)) + names
    body = b"\x03\x03" + bytes(32) + b"\0" + b"\0\x02\xc0\x2f" + b"\x01\0"
    body += pack("!H", len(extensions)) + extensions
    handshake = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + pack("!H", len(handshake)) + handshake


def traffic() -> Iterator[Sent]:
    """Everything, conversation by conversation."""
    say = Conversations()
    hello_back = b"\x16\x03\x03\x00\x04\x0e\x00\x00\x00"  # stands for the server's side
    get, ok = b"GET /hostname HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\nok\n"

    # Team a asks 8.8.8.8. GitHub is open by name, by the wildcard too; nothing else is.
    yield from say.lookup(0.0, TEAM_A, "8.8.8.8", "github.com")
    github = client_hello("github.com"), hello_back
    yield from say.exchange(0.1, TEAM_A, NAMES["github.com"], 443, *github)
    yield from say.lookup(1.0, TEAM_A, "8.8.8.8", "api.github.com")
    api = client_hello("api.github.com"), hello_back
    yield from say.exchange(1.1, TEAM_A, NAMES["api.github.com"], 443, *api)
    yield from say.lookup(2.0, TEAM_A, "8.8.8.8", "example.com")
    yield from say.refused(2.1, TEAM_A, NAMES["example.com"], 443)
    yield from say.refused(6.0, TEAM_A, "1.1.1.1", 443)
    yield from say.lookup(10.0, TEAM_A, "1.1.1.1", "pypi.org")
    yield from say.refused(10.1, TEAM_A, NAMES["pypi.org"], 443)

    # Cluster DNS, another resolver, the tool server, the metadata server, a ping.
    yield from say.refused(14.0, TEAM_A, COREDNS, 53)
    service = "tool-server.shared-tools.svc.cluster.local"
    yield from say.lookup(18.0, TEAM_A, COREDNS, service, answered=False)
    yield from say.lookup(18.5, TEAM_A, "9.9.9.9", "github.com", answered=False)
    yield from say.refused(24.0, TEAM_A, TOOL_SERVER, 8080)
    yield from say.refused(24.5, TEAM_A, "169.254.169.254", 80)
    yield from say.ping(25.0, TEAM_A, "8.8.8.8")

    # Team b asks cluster DNS.
    yield from say.lookup(30.0, TEAM_B, COREDNS, "github.com")
    yield from say.exchange(30.1, TEAM_B, NAMES["github.com"], 443, *github)
    yield from say.lookup(31.0, TEAM_B, COREDNS, "pypi.org")
    yield from say.refused(31.1, TEAM_B, NAMES["pypi.org"], 443)
    yield from say.lookup(35.0, TEAM_B, COREDNS, "files.pythonhosted.org")
    yield from say.refused(35.1, TEAM_B, NAMES["files.pythonhosted.org"], 443)
    yield from say.lookup(39.0, TEAM_B, COREDNS, service)
    yield from say.refused(39.1, TEAM_B, TOOL_SERVER, 8080)

    # A sandbox without a template.
    yield from say.refused(40.0, RAW, TOOL_SERVER, 8080)

    # The ways in: the router, and the kubelet's probe.
    yield from say.exchange(44.0, ROUTER, TEAM_A, 8080, get, ok)
    yield from say.exchange(44.5, ROUTER, TEAM_B, 8080, get, ok)
    yield from say.exchange(45.0, NODE, TOOL_SERVER, 8080, get, ok)
    yield from say.refused(45.5, TEAM_B, TEAM_A, 8080)

    # Answers that teach nothing: to oneself, and from another pod.
    yield from say.spoofed(50.0, TEAM_A, TEAM_A, "github.com", "203.0.113.66")
    yield from say.refused(50.1, TEAM_A, "203.0.113.66", 443)
    yield from say.spoofed(50.2, TEAM_A_POOL, TEAM_A, "github.com", "203.0.113.67")
    yield from say.refused(50.3, TEAM_A, "203.0.113.67", 443)

    # What one pod learned opens nothing for another, nor for itself when its time is over.
    yield from say.refused(55.0, TEAM_A_POOL, NAMES["github.com"], 443)
    yield from say.refused(90.0, TEAM_A, NAMES["github.com"], 443)


def write(path: Path, packets: Iterable[Sent]) -> None:
    """Write the packets in the order of their times."""
    with PcapWriter(str(path), linktype=1, endianness="<") as writer:
        for at, packet in sorted(packets, key=lambda sent: sent.at):
            packet.time = BEGIN + at
            writer.write(packet)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else CAPTURE, traffic())
