"""Rubbish through the real queue: every packet gets its verdict, and the daemon lives.

Frames are sent raw from inside a pod. What the kernel's own IP layer refuses never gets to a
hook; everything else comes to the agent, however broken.
"""

import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from dnslib import DNSRecord
from helpers.nodes import PATIENCE, NodeUnderTest, eventually, node_of, on_a_node
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    ICMPv6PacketTooBig,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    PadN,
)
from scapy.layers.l2 import Ether
from scapy.layers.sctp import SCTP, SCTPChunkInit
from scapy.packet import Packet, Raw

from knp_py.adapters.queuestats import QueueState, read_queues

pytestmark = on_a_node

A, A6, B, B6 = "10.94.1.11", "fd94::11", "10.94.1.12", "fd94::12"
CLUSTER = f"""\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {{name: n1}}
  spec: {{podCIDRs: [10.94.1.0/24, "fd94::/64"]}}
  status: {{addresses: [{{type: InternalIP, address: 10.94.0.1}}]}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: a, namespace: x, uid: one, labels: {{app: a}}}}
  spec: {{nodeName: n1}}
  status: {{phase: Running, podIPs: [{{ip: {A}}}, {{ip: "{A6}"}}]}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: b, namespace: x, uid: two, labels: {{app: b}}}}
  spec: {{nodeName: n1}}
  status: {{phase: Running, podIPs: [{{ip: {B}}}, {{ip: "{B6}"}}]}}
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {{name: only-80, namespace: x}}
  spec:
    podSelector: {{}}
    policyTypes: [Ingress, Egress]
    ingress: [{{ports: [{{port: 80}}]}}]
    egress: [{{ports: [{{port: 80}}]}}, {{ports: [{{port: 53, protocol: UDP}}]}}]
"""


def seeds() -> list[Packet]:
    """Sound packets of every kind, to be broken."""
    dns = bytes(DNSRecord.question("a.example.com").pack())
    options = PadN(optdata=bytes(100))
    transports = [
        TCP(dport=80, flags="S", options=[("MSS", 1460), ("SAckOK", b"")]),
        TCP(dport=81, flags="PA") / Raw(b"x" * 40),
        TCP(dport=53, flags="S"),
        UDP(dport=80) / Raw(b"x" * 30),
        UDP(dport=53) / Raw(dns),
        UDP(sport=53, dport=40000) / Raw(dns),
        SCTP(dport=80) / SCTPChunkInit(),
    ]
    found: list[Packet] = []
    for transport in transports:
        found += [IP(src=A, dst=B) / transport, IPv6(src=A6, dst=B6) / transport]
        found.append(IPv6(src=A6, dst=B6) / IPv6ExtHdrDestOpt(options=[options]) / transport)
    found += [
        IP(src=A, dst=B) / ICMP(),
        IP(src=A, dst=B) / ICMP(type=3, code=4) / IP(src=B, dst=A) / TCP(sport=80),
        IP(src=A, dst=B, proto=47) / Raw(b"x" * 24),
        IP(src=A, dst=B, flags="MF") / UDP(dport=80) / Raw(b"x" * 64),
        IP(src=A, dst=B, options=[Raw(b"\x01" * 40)]) / TCP(dport=80),
        IPv6(src=A6, dst=B6) / ICMPv6EchoRequest(),
        IPv6(src=A6, dst=B6) / ICMPv6PacketTooBig() / IPv6(src=B6, dst=A6) / UDP(),
        IPv6(src=A6, dst=B6) / IPv6ExtHdrFragment(m=1) / UDP(dport=80) / Raw(b"x" * 64),
        IPv6(src=A6, dst=B6) / IPv6ExtHdrHopByHop(options=[options]) / TCP(dport=80),
        IPv6(src=A6, dst=B6) / IPv6ExtHdrRouting(addresses=[]) / TCP(dport=80),
        IPv6(src=A6, dst=B6, nh=59),
        IPv6(src=A6, dst=B6, nh=99) / Raw(b"x" * 8),
    ]
    return found


def broken(seed: bytes, dice: random.Random) -> bytes:
    """One way of many in which a packet can be wrong behind its addresses."""
    six = seed[0] >> 4 == 6
    header = 40 if six else 20
    data = bytearray(seed)
    for _ in range(dice.randint(1, 4)):
        if len(data) > header and dice.random() < 0.8:
            data[dice.randrange(header, len(data))] = dice.randrange(256)
    cut = dice.choice([len(data), len(data), dice.randint(header, len(data))])
    data = data[:cut]
    if dice.random() < 0.2:
        data[6 if six else 9] = dice.randrange(256)  # the next protocol
    if six:
        length = len(data) - 40 if dice.random() < 0.9 else dice.randrange(65536)
        data[4:6] = length.to_bytes(2, "big")
        return bytes(data)
    if dice.random() < 0.2:
        data[6:8] = dice.choice([b"\x20\x00", b"\x40\x00", b"\x00\x10", b"\x20\x01"])
    data[2:4] = (len(data) if dice.random() < 0.9 else dice.randrange(20, 65536)).to_bytes(
        2, "big"
    )
    data[10:12] = bytes(2)
    total = sum(int.from_bytes(data[at : at + 2], "big") for at in range(0, 20, 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    data[10:12] = (~total & 0xFFFF).to_bytes(2, "big")
    return bytes(data)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeUnderTest]:
    with node_of(tmp_path, CLUSTER) as made:
        made.serve_tcp("x/b", 80)
        yield made


@pytest.mark.parametrize("options", [("--fail-closed",), ("--fail-open", "--strict-mode")])
def test_every_packet_gets_one_verdict(node: NodeUnderTest, options: tuple[str, ...]) -> None:
    agent = node.agent(*options, "--remember", "off", "--log-verdicts", "all", "--log-limit", "0")
    own, gateway = node.hardware("x/a", "10.94.0.1")
    dice = random.Random(11)
    plain = [bytes(seed) for seed in seeds()]

    def state() -> dict[int, QueueState]:
        return node.topology.call("node", read_queues)

    def all_answered() -> bool:
        return all(each.waiting == 0 for each in state().values())

    frames = 0
    with node.topology.socket("x/a", socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind(("eth0", 0))
        for number in range(6000):
            seed = dice.choice(plain)
            data = seed if number < len(plain) else broken(seed, dice)
            kind = b"\x86\xdd" if seed[0] >> 4 == 6 else b"\x08\x00"
            sock.send(gateway + own + kind + data)
            frames += 1
            if number % 200 == 0:
                eventually(all_answered, "every packet is answered")
    eventually(all_answered, "every packet is answered")
    queues = state()
    seen = queues[100].last_id + queues[101].last_id
    assert seen > 1500, f"only {seen} of {frames} came to the queues"
    assert [each.dropped + each.lost for each in queues.values()] == [0, 0]
    assert agent.metric("knp_packets_total") == seen
    assert agent.metric("knp_internal_errors_total") == 0, agent.log
    assert agent.metric("knp_unparsed_total") > 100
    # And judging goes on as before.
    assert agent.ready()
    assert node.connects("x/a", B, 80, timeout=PATIENCE)
    assert not node.connects("x/a", B, 81)
    records = agent.records()
    assert all(record["verdict"] in {"allow", "deny"} for record in records)
    passed = [r for r in records if r["protocol"] == "unknown" and r["verdict"] == "allow"]
    assert passed == []  # rules with ports match nothing that has none


def test_ether_is_what_we_send() -> None:
    """The frame built by hand above is the one that scapy builds."""
    packet = IP(src=A, dst=B) / UDP(dport=80)
    own, there = b"\x02\x00\x00\x00\x00\x01", b"\x02\x00\x00\x00\x00\x02"
    frame = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / packet
    assert bytes(frame) == there + own + b"\x08\x00" + bytes(packet)
