"""Names, live: learned from the pods' own answers before the pods have them, and from no others.

Real resolvers and real sockets in network namespaces; semantics §6.
"""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from dnslib import RR, A, DNSHeader, DNSQuestion, DNSRecord
from helpers.nodes import PATIENCE, NodeUnderTest, eventually, node_of, on_a_node
from scapy.layers.inet import IP, UDP

pytestmark = on_a_node

POD, OTHER, RESOLVER, EVIL = "10.92.1.11", "10.92.1.12", "198.51.100.53", "203.0.113.66"
CLUSTER = f"""\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {{name: n1}}
  spec: {{podCIDRs: [10.92.1.0/24]}}
  status: {{addresses: [{{type: InternalIP, address: 10.92.0.1}}]}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: agent, namespace: x, uid: one, labels: {{app: agent}}}}
  spec: {{nodeName: n1, dnsPolicy: None, dnsConfig: {{nameservers: [{RESOLVER}]}}}}
  status: {{phase: Running, podIPs: [{{ip: {POD}}}]}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: other, namespace: x, uid: two, labels: {{app: other}}}}
  spec: {{nodeName: n1, dnsPolicy: None, dnsConfig: {{nameservers: [{RESOLVER}]}}}}
  status: {{phase: Running, podIPs: [{{ip: {OTHER}}}]}}
- apiVersion: policy.networking.k8s.io/v1alpha2
  kind: ClusterNetworkPolicy
  metadata: {{name: guard}}
  spec:
    tier: Admin
    priority: 1
    subject: {{namespaces: {{}}}}
    egress:
    - {{name: dns, action: Accept, to: [{{networks: [{RESOLVER}/32]}}]}}
    - {{name: pods, action: Accept, to: [{{namespaces: {{}}}}]}}
    - {{name: names, action: Accept, to: [{{domainNames: ["*.example.com"]}}]}}
    - {{name: rest, action: Deny, to: [{{networks: [0.0.0.0/0, "::/0"]}}]}}
"""


def address_of(name: str) -> str:
    """Where our resolver says that ``hN.example.com`` is."""
    number = int(name.partition(".")[0][1:])
    return f"192.0.{2 + number // 250}.{1 + number % 250}"


def answered(query: bytes) -> bytes | None:
    """The resolver's answer; it knows nothing of evil."""
    asked = DNSRecord.parse(query)
    reply = asked.reply()
    name = str(asked.q.qname).rstrip(".")
    if name.startswith("evil"):
        return None
    reply.add_answer(RR(asked.q.qname, rdata=A(address_of(name)), ttl=60))
    return bytes(reply.pack())


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeUnderTest]:
    with node_of(tmp_path, CLUSTER) as made:
        made.serve_udp("internet", RESOLVER, 53, answered)
        made.serve_tcp("internet", 443)
        yield made


def resolve(node: NodeUnderTest, place: str, name: str) -> str:
    """Ask the resolver as a pod; the address."""
    reply = node.ask(place, RESOLVER, 53, bytes(DNSRecord.question(name).pack()), timeout=PATIENCE)
    assert reply is not None, name
    return str(DNSRecord.parse(reply).a.rdata)


def test_a_thousand_times_resolved_and_connected_at_once(node: NodeUnderTest) -> None:
    agent = node.agent("--fail-closed", "--log-verdicts", "deny")

    def visit(number: int) -> bool:
        name = f"h{number}.example.com"
        return node.connects("x/agent", resolve(node, "x/agent", name), 443, timeout=PATIENCE)

    with ThreadPoolExecutor(16) as threads:
        visits = list(threads.map(visit, range(1000)))
    assert [number for number, passed in enumerate(visits) if not passed] == []
    assert agent.records() == [], "no first packet was denied, to pass at its second try"
    assert agent.metric("knp_internal_errors_total") == 0
    assert agent.metric('knp_dns_answers_total{reason="learned"}') == 1000
    # What one pod learned opens nothing for another.
    assert not node.connects("x/other", address_of("h1.example.com"), 443)


def test_forged_answers_teach_nothing(node: NodeUnderTest) -> None:
    agent = node.agent("--fail-closed", "--log-verdicts", "deny")
    question = DNSQuestion("evil.example.com")
    forged = DNSRecord(
        DNSHeader(id=7, qr=1, aa=1, ra=1),
        q=question,
        a=RR("evil.example.com", rdata=A(EVIL), ttl=300),
    ).pack()
    query = DNSRecord(DNSHeader(id=7), q=question).pack()
    for place, own, others in (
        ("x/agent", POD, (POD, RESOLVER, OTHER, "8.8.8.8")),
        ("x/other", OTHER, (POD,)),
    ):
        for port in (53, 40053):
            for other in others:
                with node.topology.socket(place, socket.AF_INET, socket.SOCK_DGRAM) as sock:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    sock.bind((own, 53))
                    sock.sendto(query, (other, port))
                    for _ in range(3):
                        sock.sendto(forged, (other, port))
    # Asked for real, and then answered by somebody else who knows the question.
    with node.topology.socket("x/agent", socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((POD, 45555))
        sock.sendto(DNSRecord(DNSHeader(id=9), q=question).pack(), (OTHER, 53))
        with node.topology.socket("x/other", socket.AF_INET, socket.SOCK_DGRAM) as forger:
            forger.bind((OTHER, 53))
            reply = DNSRecord(DNSHeader(id=9, qr=1), q=question)
            reply.add_answer(RR("evil.example.com", rdata=A(EVIL), ttl=300))
            forger.sendto(reply.pack(), (POD, 45555))
    assert not node.connects("x/agent", EVIL, 443)
    assert not node.connects("x/other", EVIL, 443)
    assert agent.metric("knp_names") == 0
    assert agent.metric("knp_internal_errors_total") == 0


@pytest.mark.parametrize("accomplice", ["x/agent", "x/other"])
def test_an_answer_from_where_its_resolver_is_not_teaches_nothing(
    node: NodeUnderTest, accomplice: str
) -> None:
    """The pod asks, and somebody who knows the question answers in the resolver's name.

    With the right addresses, ports and id, so that conntrack takes it for the reply.
    """
    agent = node.agent("--fail-closed", "--log-verdicts", "none")
    question = DNSQuestion("evil.example.com")
    forged = DNSRecord(DNSHeader(id=9, qr=1, ra=1), q=question)
    forged.add_answer(RR("evil.example.com", rdata=A(EVIL), ttl=300))
    with node.topology.socket("x/agent", socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(PATIENCE)
        sock.bind((POD, 45555))
        sock.sendto(DNSRecord(DNSHeader(id=9), q=question).pack(), (RESOLVER, 53))
        data = bytes(IP(src=RESOLVER, dst=POD) / UDP(sport=53, dport=45555) / forged.pack())
        node.send_raw(accomplice, "10.92.0.1", data)
        assert sock.recv(4096) == forged.pack()  # delivered all the same
    assert not node.connects("x/agent", EVIL, 443)
    assert agent.metric("knp_names") == 0
    listed = node.run("node", "nft", "list", "counter", "inet", "knp", "forged").stdout
    assert "packets 1 " in listed


def test_names_survive_the_agent(node: NodeUnderTest) -> None:
    options = ("--fail-closed", "--remember", "off")
    agent = node.agent(*options)
    address = resolve(node, "x/agent", "h3.example.com")
    agent.kill()
    agent = node.agent(*options)
    assert node.connects("x/agent", address, 443, timeout=PATIENCE)
    assert not node.connects("x/other", address, 443)
    assert agent.stop() == 0
    node.agent(*options)
    assert node.connects("x/agent", address, 443, timeout=PATIENCE)


def test_answers_over_tcp_teach(node: NodeUnderTest) -> None:
    listener = node.topology.socket("internet", socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((RESOLVER, 53))
    listener.listen()

    def serve() -> None:
        sock, _ = listener.accept()
        with sock, listener, sock.makefile("rb") as stream:
            while size := stream.read(2):
                reply = answered(stream.read(int.from_bytes(size, "big")))
                assert reply is not None
                whole = len(reply).to_bytes(2, "big") + reply
                for at in range(0, len(whole), 7):  # in little segments
                    sock.sendall(whole[at : at + 7])

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    node.agent("--fail-closed")
    with node.topology.socket("x/agent", socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(PATIENCE)
        sock.connect((RESOLVER, 53))
        stream = sock.makefile("rb")
        for number in (4, 5):
            query = DNSRecord.question(f"h{number}.example.com").pack()
            sock.sendall(len(query).to_bytes(2, "big") + query)
            size = int.from_bytes(stream.read(2), "big")
            assert len(stream.read(size)) == size
            assert node.connects(
                "x/agent", address_of(f"h{number}.example.com"), 443, timeout=PATIENCE
            )
        stream.close()
    server.join(PATIENCE)


def test_a_dead_agent_holds_no_answers_back(node: NodeUnderTest) -> None:
    agent = node.agent("--fail-closed")
    resolve(node, "x/agent", "h6.example.com")  # which the kernel remembers
    agent.kill()
    assert resolve(node, "x/agent", "h7.example.com") == address_of("h7.example.com")
    assert not node.connects("x/agent", address_of("h7.example.com"), 443)


def test_a_name_ends_and_what_it_opened_goes_on(node: NodeUnderTest, tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_text("0")
    node.agent("--fail-closed", "--clock-file", str(clock))
    address = resolve(node, "x/agent", "h8.example.com")
    stream = node.open("x/agent", address, 443, timeout=PATIENCE)
    clock.write_text("61")
    eventually(
        lambda: not node.connects("x/agent", address, 443), "the name ends for new connections"
    )
    stream.sendall(b"still there?")
    assert stream.recv(64) == b"still there?"
    stream.close()
