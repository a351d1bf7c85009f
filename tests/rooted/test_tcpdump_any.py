"""``tcpdump -i any`` on a node made of network namespaces, then ``knp replay`` on the file.

Real sockets, real packets, a real DNS server; nothing leaves the namespaces made here.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.command import knp

TOOLS = ("ip", "tcpdump")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]
pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make network namespaces"),
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)} (.ci/run installs it)"),
]

# The manifests know web and dns as pods; db is a host outside the cluster.
HOSTS = {"web": "10.231.1.2", "db": "10.231.2.2", "dns": "10.231.3.2"}
MANIFESTS = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: web, namespace: shop, labels: {app: web}}
  status: {phase: Running, podIP: 10.231.1.2}
- apiVersion: v1
  kind: Pod
  metadata: {name: dns, namespace: kube-system, labels: {k8s-app: kube-dns}}
  status: {phase: Running, podIP: 10.231.3.2}
- apiVersion: policy.networking.k8s.io/v1alpha2
  kind: ClusterNetworkPolicy
  metadata: {name: guard}
  spec:
    tier: Admin
    priority: 1
    subject: {namespaces: {matchLabels: {kubernetes.io/metadata.name: shop}}}
    egress:
    - action: Accept
      to: [{namespaces: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}]
    - {name: by-name, action: Accept, to: [{domainNames: [db.example.test]}]}
    - {name: rest, action: Deny, to: [{networks: [0.0.0.0/0]}]}
"""

SERVER = """
import socketserver, sys
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(self.request.recv(64))
socketserver.ThreadingTCPServer.allow_reuse_address = True
server = socketserver.ThreadingTCPServer(("0.0.0.0", 8080), Echo)
print("ready", flush=True)
server.serve_forever()
"""
RESOLVER = """
import socket
from dnslib import A, DNSRecord, RR
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("0.0.0.0", 53))
print("ready", flush=True)
while True:
    data, peer = sock.recvfrom(512)
    reply = DNSRecord.parse(data).reply()
    reply.add_answer(RR(reply.q.qname, rdata=A("10.231.2.2"), ttl=60))
    sock.sendto(reply.pack(), peer)
"""
CLIENT = """
import socket, time
from dnslib import DNSRecord
def connect():
    with socket.create_connection(("10.231.2.2", 8080), timeout=60) as sock:
        sock.sendall(b"hello")
        assert sock.recv(64) == b"hello"
connect()
time.sleep(0.2)  # the capture must not lose a packet to a burst
question = DNSRecord.question("db.example.test")
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(5)
sock.sendto(question.pack(), ("10.231.3.2", 53))
assert str(DNSRecord.parse(sock.recv(512)).a.rdata) == "10.231.2.2"
time.sleep(0.2)
connect()
"""


class Node:
    """A namespace that forwards between the namespaces of its pods."""

    def __init__(self) -> None:
        self.name = f"knpt{os.getpid()}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.spaces: list[str] = []

    def run(self, *argv: str) -> None:
        subprocess.run(argv, check=True, capture_output=True, timeout=60)

    def space(self, pod: str) -> str:
        return f"{self.name}-{pod}"

    def up(self) -> None:
        self._add(self.name)
        self.run("ip", "netns", "exec", self.name, "sh", "-c",
                 "echo 1 > /proc/sys/net/ipv4/ip_forward")  # fmt: skip
        for number, (pod, ip) in enumerate(HOSTS.items(), 1):
            space, link = self.space(pod), f"v{number}"
            self._add(space)
            self.run("ip", "-n", self.name, "link", "add", link, "type", "veth", "peer", "name",
                     "eth0", "netns", space)  # fmt: skip
            gateway = f"10.231.{number}.1"
            self.run("ip", "-n", self.name, "addr", "add", f"{gateway}/24", "dev", link)
            self.run("ip", "-n", self.name, "link", "set", link, "up")
            self.run("ip", "-n", space, "addr", "add", f"{ip}/24", "dev", "eth0")
            self.run("ip", "-n", space, "link", "set", "eth0", "up")
            self.run("ip", "-n", space, "route", "add", "default", "via", gateway)

    def _add(self, space: str) -> None:
        self.run("ip", "netns", "add", space)
        self.spaces.append(space)
        self.run("ip", "-n", space, "link", "set", "lo", "up")

    def start(self, space: str, *argv: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            ["ip", "netns", "exec", space, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.processes.append(process)
        return process

    def serve(self, pod: str, program: str) -> None:
        process = self.start(self.space(pod), sys.executable, "-c", program)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"

    def down(self) -> None:
        for process in self.processes:
            process.terminate()
            process.communicate(timeout=60)
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    try:
        made.up()
        yield made
    finally:
        made.down()


def test_a_capture_of_every_interface_is_judged_truly(node: Node, tmp_path: Path) -> None:
    capture, manifests = tmp_path / "any.pcap", tmp_path / "cluster.yaml"
    manifests.write_text(MANIFESTS)
    node.serve("db", SERVER)
    node.serve("dns", RESOLVER)
    dump = node.start(node.name, "tcpdump", "-i", "any", "-B", "16384", "-U", "-w", str(capture))
    assert dump.stderr is not None
    while b"listening on" not in (line := dump.stderr.readline()):
        assert line, "tcpdump ended"
    client = node.start(node.space("web"), sys.executable, "-c", CLIENT)
    _, errors = client.communicate(timeout=60)
    assert client.returncode == 0, errors
    time.sleep(1.5)  # the kernel hands a block over when it is full or a second old
    dump.terminate()
    dump.wait(timeout=60)

    ended = knp("replay", str(capture), "-m", str(manifests), "-o", "jsonl")
    assert ended.code == 0, ended.err
    records = [json.loads(line) for line in ended.out.splitlines()]
    tcp = [r for r in records if r["protocol"] == "TCP"]
    assert [(r["src"]["pod"], r["dst"]["ip"], r["dst"]["port"]) for r in tcp] == [
        ("shop/web", HOSTS["db"], 8080)
    ] * 2
    # Before the name was looked up, and after.
    assert [r["verdict"] for r in tcp] == ["deny", "allow"]
    assert tcp[1]["decided_by"]["rule_name"] == "by-name"
    assert tcp[1]["dst"]["names"] == ["db.example.test"]
    dns = [r for r in records if r["protocol"] == "UDP"]
    assert [(r["dst"]["pod"], r["verdict"]) for r in dns] == [("kube-system/dns", "allow")]
