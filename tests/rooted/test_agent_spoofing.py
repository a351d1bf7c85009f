"""A pod that writes an address of its node on what it sends, live."""

import socket
from pathlib import Path

from helpers.nodes import eventually, node_of, on_a_node
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6

pytestmark = on_a_node

NODE, SENDER, TARGET = "fd97::1", "fd96::11", "fd96::12"
CLUSTER = f"""\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {{name: n1}}
  spec: {{podCIDRs: [10.96.1.0/24, "fd96::/64"]}}
  status:
    addresses: [{{type: InternalIP, address: 10.96.0.1}}, {{type: InternalIP, address: "{NODE}"}}]
- apiVersion: v1
  kind: Pod
  metadata: {{name: a, namespace: x, labels: {{app: a}}}}
  spec: {{nodeName: n1}}
  status: {{phase: Running, podIPs: [{{ip: 10.96.1.11}}, {{ip: "{SENDER}"}}]}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: b, namespace: x, labels: {{app: b}}}}
  spec: {{nodeName: n1}}
  status: {{phase: Running, podIPs: [{{ip: 10.96.1.12}}, {{ip: "{TARGET}"}}]}}
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {{name: closed, namespace: x}}
  spec: {{podSelector: {{matchLabels: {{app: b}}}}, policyTypes: [Ingress]}}
"""


def test_a_pod_is_not_its_node(tmp_path: Path) -> None:
    """What the node sends passes NetworkPolicy, and IPv6 does not look at who sends from it."""
    with node_of(tmp_path, CLUSTER) as node:
        arrived: list[bytes] = []
        node.serve_udp("x/b", TARGET, 90, arrived.append)
        agent = node.agent("--fail-closed")
        own, there = node.hardware("x/a", "10.96.0.1")
        with node.topology.socket("x/a", socket.AF_PACKET, socket.SOCK_RAW) as sock:
            sock.bind(("eth0", 0))
            for sender in (NODE, SENDER):  # the last one is judged, and its denial written
                packet = IPv6(src=sender, dst=TARGET) / UDP(sport=5000, dport=90) / b"?"
                sock.send(there + own + b"\x86\xdd" + bytes(packet))
        eventually(lambda: len(agent.records()) > 0, "the denial is written")
        assert [each["src"]["ip"] for each in agent.records()] == [SENDER]
        node.ask("node", TARGET, 90, b"probe", timeout=0.2)
        eventually(lambda: b"probe" in arrived, "the node itself gets through")
        assert arrived == [b"probe"]
