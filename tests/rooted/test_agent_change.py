"""A change of policy, live: when it is in force, what it leaves behind, what strict mode does."""

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.nodes import PATIENCE, NodeUnderTest, eventually, node_of, on_a_node
from scapy.layers.inet import IP, UDP

pytestmark = on_a_node

A, B, OUTSIDE = "10.93.1.11", "10.93.1.12", "203.0.113.9"
CLUSTER = f"""\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {{name: n1}}
  spec: {{podCIDRs: [10.93.1.0/24]}}
  status: {{addresses: [{{type: InternalIP, address: 10.93.0.1}}]}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: a, namespace: x, uid: one, labels: {{app: a}}}}
  spec: {{nodeName: n1}}
  status: {{phase: Running, podIPs: [{{ip: {A}}}]}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: b, namespace: x, uid: two, labels: {{app: b}}}}
  spec: {{nodeName: n1}}
  status: {{phase: Running, podIPs: [{{ip: {B}}}]}}
"""


def policy(action: str, name: str = "switch") -> str:
    """The one rule that counts here."""
    return json.dumps({
        "apiVersion": "policy.networking.k8s.io/v1alpha2",
        "kind": "ClusterNetworkPolicy",
        "metadata": {"name": name},
        "spec": {
            "tier": "Admin",
            "priority": 1,
            "subject": {
                "pods": {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "a"}}}
            },
            "egress": [{"action": action, "to": [{"networks": ["0.0.0.0/0"]}]}],
        },
    })  # fmt: skip


def closed(app: str) -> str:
    """Nothing out of pods with this label and nothing in.

    In, too: a datagram on its way while conntrack forgets begins a connection the other way round.
    """
    made = json.loads(policy("Deny").replace('"a"', f'"{app}"'))
    made["spec"]["ingress"] = [{"action": "Deny", "from": [{"namespaces": {}}]}]
    return json.dumps(made)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeUnderTest]:
    with node_of(tmp_path, CLUSTER) as made:
        made.write("policy.json", policy("Accept"))
        made.serve_tcp("x/b", 80)
        yield made


def test_a_race_of_changes_and_connections(node: NodeUnderTest) -> None:
    agent = node.agent("--fail-closed", "--log-verdicts", "none")
    over = threading.Event()

    def keep_connecting() -> None:
        while not over.is_set():
            node.connects("x/a", B, 80, timeout=0.05)

    threads = [threading.Thread(target=keep_connecting, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    dice = random.Random(3)
    for _ in range(25):
        for action in ("Deny", "Accept"):
            node.in_force(agent, node.write("policy.json", policy(action)))
            if action == "Deny":
                # Whatever was on its way when the change came: nothing of it is remembered.
                tries = [node.connects("x/a", B, 80, timeout=0.03) for _ in range(5)]
                assert tries == [False] * 5
            else:
                assert node.connects("x/a", B, 80, timeout=PATIENCE)
            time.sleep(dice.uniform(0, 0.02))
    over.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert agent.metric("knp_internal_errors_total") == 0
    assert agent.metric("knp_generation") == 51


def test_a_broken_file_keeps_the_last_good_policy(node: NodeUnderTest) -> None:
    node.write("policy.json", policy("Deny"))
    agent = node.agent("--fail-closed")
    node.in_force(agent, node.write("policy.json", policy("Accept")[:-30]))
    assert not node.connects("x/a", B, 80)
    assert "policy.json" in agent.status()["source"]["problems"][0]
    eventually(lambda: "kept as it was before" in agent.log, "the problem is said")
    node.in_force(agent, node.write("policy.json", policy("Accept")))
    assert node.connects("x/a", B, 80, timeout=PATIENCE)
    eventually(lambda: "no longer so" in agent.log, "its end is said")


def test_established_goes_on_unless_strict(node: NodeUnderTest) -> None:
    agent = node.agent("--fail-closed")
    stream = node.open("x/a", B, 80, timeout=PATIENCE)
    node.in_force(agent, node.write("policy.json", policy("Deny")))
    assert not node.connects("x/a", B, 80)
    stream.sendall(b"on and on")
    assert stream.recv(64) == b"on and on"
    stream.close()


@pytest.mark.parametrize("remember", ["on", "off"])
def test_strict_cuts_what_is_not_allowed_any_more(node: NodeUnderTest, remember: str) -> None:
    agent = node.agent("--fail-closed", "--strict-mode", "--remember", remember)
    stream = node.open("x/a", B, 80, timeout=PATIENCE)
    for action in ("Accept", "Deny", "Accept"):
        node.in_force(agent, node.write("policy.json", policy(action, "switch")))
        stream.sendall(action.encode())
        if action == "Deny":
            stream.settimeout(0.5)
            with pytest.raises(TimeoutError):
                stream.recv(64)
        else:
            stream.settimeout(PATIENCE)
            heard = b""
            while not heard.endswith(b"Accept"):  # what was held up in between comes first
                heard += stream.recv(64)
    stream.close()
    judged = [r for r in agent.records() if r.get("again")]
    assert judged
    assert {r["verdict"] for r in judged} == {"deny"}


def test_strict_ends_a_download_of_a_silent_client(node: NodeUnderTest) -> None:
    """The client only acknowledges; a reply is never judged by its own tuple."""
    listener = node.topology.socket("x/b", socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((B, 90))
    listener.listen()
    agent = node.agent("--fail-closed", "--strict-mode")
    client = node.topology.socket("x/a", socket.AF_INET, socket.SOCK_STREAM)
    client.settimeout(PATIENCE)
    client.connect((B, 90))
    server, _ = listener.accept()
    over = threading.Event()

    def push() -> None:
        server.settimeout(0.2)
        while not over.is_set():
            try:
                server.sendall(b"x" * 1400)
            except TimeoutError:
                continue
            time.sleep(0.001)

    thread = threading.Thread(target=push, daemon=True)
    thread.start()
    assert client.recv(65536)
    node.in_force(agent, node.write("policy.json", policy("Deny")))

    def has_ended() -> bool:
        client.settimeout(1.5)
        try:
            while client.recv(1 << 20):
                pass
        except TimeoutError:
            return True
        return False

    eventually(has_ended, "the download ends")
    over.set()
    thread.join(PATIENCE)
    for sock in (client, server, listener):
        sock.close()


def test_strict_leaves_replies_and_the_other_end_alone(node: NodeUnderTest) -> None:
    """What others open to the pod goes on: only its egress is denied."""
    node.serve_tcp("x/a", 81)
    agent = node.agent("--fail-closed", "--strict-mode")
    stream = node.open("x/b", A, 81, timeout=PATIENCE)
    node.in_force(agent, node.write("policy.json", policy("Deny")))
    stream.settimeout(PATIENCE)
    stream.sendall(b"still")
    assert stream.recv(64) == b"still"
    stream.close()


def test_a_pod_that_comes_and_goes(node: NodeUnderTest) -> None:
    """Managed while some policy selects it, and judged as nobody before its object is there."""
    agent = node.agent("--fail-closed", "--log-verdicts", "all")
    assert agent.metric("knp_managed_pods") == 1
    node.in_force(
        agent, node.write("policy.json", policy("Accept").replace('"app": "a"', '"app": "z"'))
    )
    assert agent.metric("knp_managed_pods") == 0
    assert node.connects("x/b", A, 79, timeout=0.3) is False  # nobody listens there
    before = len(agent.records())
    node.in_force(
        agent, node.write("cluster.yaml", CLUSTER.replace(f"{{ip: {A}}}", "{ip: 10.93.1.99}"))
    )
    assert not node.connects("x/a", B, 80)
    eventually(lambda: len(agent.records()) > before, "the stranger is logged")
    last = agent.records()[-1]
    assert (last["verdict"], last["unidentified"]) == ("deny", [A])


def test_no_way_out_by_a_link_local_address(node: NodeUnderTest) -> None:
    """The node answers to its own, on every pod's link, whatever addresses pods have."""
    six = "/proc/sys/net/ipv6/conf"
    node.run(
        "x/a", "sh", "-c", f"echo 0 > {six}/all/disable_ipv6; echo 0 > {six}/eth0/disable_ipv6"
    )
    node.run("x/a", "ip", "addr", "add", "fe80::a/64", "dev", "eth0", "nodad")
    link = node.run("node", "ip", "-o", "route", "get", A).stdout.split("dev ")[1].split()[0]
    node.run("node", "sh", "-c", f"echo 0 > {six}/{link}/disable_ipv6")
    node.run("node", "ip", "addr", "add", "fe80::1/64", "dev", link, "nodad")
    node.serve_tcp("node", 10250)

    def reaches() -> bool:
        def connect() -> bool:
            with socket.socket(socket.AF_INET6) as sock:
                sock.settimeout(0.7)
                try:
                    sock.connect(("fe80::1", 10250, 0, socket.if_nametoindex("eth0")))
                except OSError:
                    return False
                return True

        return node.topology.call("x/a", connect)

    assert reaches()
    node.write("policy.json", policy("Deny"))
    agent = node.agent("--fail-closed", "--log-verdicts", "all")
    assert not reaches()
    eventually(lambda: bool(agent.records()), "the denial is written")
    assert "link-local" in agent.records()[0]["reason"]
    nobody = policy("Deny").replace('"app": "a"', '"app": "z"')
    node.in_force(agent, node.write("policy.json", nobody))
    assert reaches()  # nothing isolates it now


@pytest.mark.parametrize("options", [("--fail-closed",), ("--dry-run",)])
def test_an_address_that_is_not_its_own_takes_a_pod_nowhere(
    node: NodeUnderTest, options: tuple[str, ...]
) -> None:
    """Nobody's, another pod's, the node's: it would be judged by what its sender chose."""
    node.write("policy.json", policy("Deny"))
    arrived: list[bytes] = []
    node.serve_udp("internet", OUTSIDE, 90, arrived.append)
    node.agent(*options)
    senders = ("198.51.100.7", B, "10.93.0.1")
    packets = [
        bytes(IP(src=each, dst=OUTSIDE) / UDP(sport=5000, dport=90) / each.encode())
        for each in senders
    ]
    node.send_raw("x/a", "10.93.0.1", *packets)
    own = bytes(IP(src=A, dst=OUTSIDE) / UDP(sport=5001, dport=90) / b"own")
    node.send_raw("x/a", "10.93.0.1", own)

    def counted() -> int:
        listed = node.run("node", "nft", "list", "counter", "inet", "knp", "spoofed").stdout
        return int(listed.split("packets ")[1].split()[0])

    # IPv4 drops the node's own address itself, before anybody is asked.
    eventually(lambda: counted() == 2, "what was spoofed is counted")
    if "--dry-run" in options:
        eventually(lambda: len(arrived) == 3, "a dry run lets pass what it counts")
    else:
        assert arrived == []


def test_dry_run_drops_nothing_and_says_all(node: NodeUnderTest) -> None:
    node.write("policy.json", policy("Deny"))
    agent = node.agent("--fail-closed", "--dry-run", "--log-verdicts", "all")
    assert node.connects("x/a", B, 80, timeout=PATIENCE)
    eventually(lambda: bool(agent.records()), "a record is written")
    record = agent.records()[0]
    assert (record["verdict"], record["enforced"]) == ("deny", False)
    assert record["decided_by"]["policy"] == "switch"


def test_shadow_policies_log_only_where_they_differ(node: NodeUnderTest, tmp_path: Path) -> None:
    candidates = tmp_path / "next"
    candidates.mkdir()
    (candidates / "cluster.yaml").write_text(CLUSTER)
    (candidates / "policy.json").write_text(policy("Deny"))
    agent = node.agent(
        "--shadow-manifests", str(candidates), "--log-verdicts", "all", "--remember", "off"
    )
    assert node.connects("x/a", B, 80, timeout=PATIENCE)
    eventually(lambda: bool(agent.records()), "the difference is written")
    (record,) = agent.records()
    assert (record["verdict"], record["shadow"]["verdict"]) == ("allow", "deny")
    (candidates / "policy.json.part").write_text(policy("Accept"))
    (candidates / "policy.json.part").replace(candidates / "policy.json")
    time.sleep(0.5)
    assert node.connects("x/a", B, 80, timeout=PATIENCE)
    time.sleep(0.3)
    assert len(agent.records()) == 1


@contextmanager
def asking(node: NodeUnderTest) -> Iterator[Callable[[], bool]]:
    """Whether a datagram from the address is answered; all of them are one connection."""
    with node.topology.socket("x/a", socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.4)
        sock.bind((A, 40000))

        def answered() -> bool:
            sock.sendto(b"there?", (B, 90))
            try:
                return sock.recv(64) == b"there?"
            except TimeoutError:
                return False

        yield answered


def test_a_pod_does_not_inherit_what_was_allowed_to_its_address(node: NodeUnderTest) -> None:
    """UDP goes on for as long as its sender does: not to, nor from, who has the address next."""
    node.serve_udp("x/b", B, 90, lambda data: data)
    node.write("policy.json", policy("Accept"))
    agent = node.agent("--fail-closed")
    with asking(node) as answered:
        eventually(answered, "it is answered")
        # Another pod, which policy allows nothing, at the same address.
        successor = CLUSTER.replace(
            "name: a, namespace: x, uid: one", "name: c, namespace: x, uid: c"
        )
        successor = successor.replace("app: a", "app: c")
        node.in_force(agent, node.write("cluster.yaml", successor))
        time.sleep(0.5)  # what its predecessor had is forgotten beside everything else
        assert answered()  # nothing selects it, so this is a connection of its own
        node.in_force(agent, node.write("policy.json", closed("c")))
        assert answered()  # which goes on, as established ones do
        third = successor.replace("uid: c", "uid: d").replace("name: c,", "name: d,")
        node.in_force(agent, node.write("cluster.yaml", third))
        eventually(lambda: not answered(), "the third inherits nothing")


def test_nor_when_nobody_was_there_to_see_it_change(node: NodeUnderTest) -> None:
    """The agent is updated, and meanwhile the address goes to another pod."""
    node.serve_udp("x/b", B, 90, lambda data: data)
    agent = node.agent("--fail-closed")
    with asking(node) as answered:
        eventually(answered, "it is answered")
        agent.stop()
        agent = node.agent("--fail-closed")
        eventually(answered, "for the same pod it goes on")
        agent.stop()
        successor = CLUSTER.replace(
            "name: a, namespace: x, uid: one", "name: c, namespace: x, uid: c"
        )
        node.write("cluster.yaml", successor.replace("app: a", "app: c"))
        node.write("policy.json", closed("c"))
        node.agent("--fail-closed")
        eventually(lambda: not answered(), "the second inherits nothing")


def test_the_nodes_own_address_in_its_pod_network_is_reached(node: NodeUnderTest) -> None:
    """A bridge's or a gateway's: nobody has to be known for a pod to be there."""
    gateway = "10.93.1.1"
    assert node.run("node", "ip", "addr", "add", gateway, "dev", "lo").returncode == 0
    node.serve_tcp("node", 80)
    agent = node.agent("--fail-closed")
    assert node.connects("x/a", gateway, 80, timeout=PATIENCE)
    assert not node.connects("x/a", "10.93.1.99", 80)
    node.in_force(agent, node.write("policy.json", policy("Deny")))
    assert not node.connects("x/a", gateway, 80)
