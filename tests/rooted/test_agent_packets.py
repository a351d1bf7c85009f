"""``knp agent`` with the arguments of kube-network-policies' daemon: what its log answers."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.nodes import PATIENCE, Agent, NodeUnderTest, eventually, node_of, on_a_node

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
  metadata: {{name: agent, namespace: team-a, uid: one, labels: {{app: a}}}}
  spec: {{nodeName: n1}}
  status: {{phase: Running, podIPs: [{{ip: {A}}}]}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: web, namespace: tools, uid: two}}
  spec: {{nodeName: n1}}
  status: {{phase: Running, podIPs: [{{ip: {B}}}]}}
- apiVersion: policy.networking.k8s.io/v1alpha2
  kind: ClusterNetworkPolicy
  metadata: {{name: allow-tools}}
  spec:
    tier: Admin
    priority: 10
    subject: {{namespaces: {{}}}}
    egress:
    - action: Accept
      to: [{{networks: [{B}/32]}}]
- apiVersion: policy.networking.k8s.io/v1alpha2
  kind: ClusterNetworkPolicy
  metadata: {{name: default-deny}}
  spec:
    tier: Admin
    priority: 100
    subject:
      namespaces: {{matchLabels: {{kubernetes.io/metadata.name: team-a}}}}
    egress:
    - name: everything-else
      action: Deny
      to: [{{networks: [0.0.0.0/0]}}]
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeUnderTest]:
    with node_of(tmp_path, CLUSTER) as made:
        made.serve_tcp("tools/web", 80)
        yield made


def grep(agent: Agent, *argv: str) -> list[str]:
    """What grep finds in the log, line by line."""
    found = subprocess.run(["grep", *argv, agent.err], capture_output=True, text=True, check=False)
    assert found.returncode < 2, found.stderr
    return found.stdout.splitlines()


def connections(node: NodeUnderTest, agent: Agent, finished: str) -> None:
    """Two that are allowed, the same pair; one that is denied. Waits until all are logged."""
    assert node.connects("team-a/agent", B, 80, timeout=PATIENCE)
    assert node.connects("team-a/agent", B, 80, timeout=PATIENCE)
    assert not node.connects("team-a/agent", OUTSIDE, 443, timeout=0.2)

    def all_there() -> bool:
        lines = grep(agent, finished)
        return sum("accept" in each for each in lines) == 2 and any("drop" in e for e in lines)

    eventually(all_there, "all connections are logged")


def records(agent: Agent) -> list[tuple[str, str | None, str, str]]:
    """What ``knp logs`` makes of the log: verdict, pod, who decided."""
    done = agent.node.run(
        "node", sys.executable, "-m", "knp_py", "logs", str(agent.err), "-o", "json"
    )
    assert done.returncode == 0, done.stderr
    assert "cannot be read" not in done.stderr  # the agent's own messages are understood
    assert "whose packet is not in the log" not in done.stderr
    entries = [json.loads(line) for line in done.stdout.splitlines()]
    return [
        (e["verdict"], e["dst"].get("pod"), e["decided_by"]["tier"], e["decided_by"]["policy"])
        for e in entries
    ]


EXPECTED = {
    ("allow", "tools/web", "Admin", "allow-tools"),
    ("deny", None, "Admin", "default-deny"),
}


def test_text_answers_the_greps_of_its_walkthrough(node: NodeUnderTest) -> None:
    agent = node.agent("--v=2", "--fail-open=false", "-nfqueue-id=98", "--disable-nri")
    connections(node, agent, '"Finished syncing packet"')
    assert len(grep(agent, "-e", "--disable-nri has no effect here")) == 1
    assert "every judged packet is logged here (--v 2)" in agent.log
    assert " 98, DNS 99" in agent.log

    found = grep(agent, "-B3", "-A2", 'tier="Admin" npolicies=[0-9]* action="Deny"')
    (first, packet, end, tier, denied, done) = found[:6]
    assert '"Evaluating packet" id=' in first
    assert first.endswith('direction="Egress" srcPod="team-a/agent" dstPod="external" packet=<')
    assert packet.startswith("\t[")
    assert packet.endswith(f" {OUTSIDE}:443 TCP")
    assert end == " >"
    assert 'tier="Admin" npolicies=2 action="Deny"' in tier
    assert '"Packet denied by egress policy" id=' in denied
    assert 'ruleName="everything-else"' in denied
    assert '"Finished syncing packet" id=' in done
    assert done.endswith('s" verdict="drop"')
    number = first.split(" id=")[1].split()[0]
    assert all(f"id={number}" in line for line in (tier, denied, done))
    assert packet.startswith(f"\t[{number}] {A}:")

    assert len(grep(agent, 'dstPod="tools/web"')) == 4  # both connections, both directions
    assert len(grep(agent, "Packet accepted by policy")) == 2
    assert len(grep(agent, 'Ingress CNP evaluation.*npolicies=1 action="Pass"')) == 2
    assert agent.out.read_text() == ""  # no records where nobody asked for them
    assert set(records(agent)) == EXPECTED
    assert agent.stop() == 0
    node.cleanup()


def test_json_has_the_same_entries_and_nothing_else(node: NodeUnderTest) -> None:
    agent = node.agent(
        "-v", "4", "--logging-format=json", "--log-verdicts=deny", "--fail-open=true"
    )
    connections(node, agent, '"msg":"Finished syncing packet"')
    node.in_force(agent, node.write("more.yaml", """\
apiVersion: v1
kind: Namespace
metadata: {name: later}
"""))  # fmt: skip
    eventually(lambda: bool(grep(agent, "Namespace later")), "the change is said")
    assert agent.stop() == 0
    entries = [json.loads(line) for line in agent.log.splitlines()]
    assert all(isinstance(e["ts"], float) and e["msg"] and "v" in e for e in entries)
    by_message = {e["msg"]: e for e in entries if e.get("id")}
    assert by_message["Packet denied by egress policy"]["policy"] == "default-deny"
    assert by_message["Evaluating packet"]["packet"]["Family"] == "IPv4"
    tiers = [e for e in entries if e["msg"] == "Egress CNP evaluation" and e["action"] == "Deny"]
    assert {e["npolicies"] for e in tiers} == {2}
    assert any("enforcing for every pod" in e["msg"] for e in entries)
    assert any("stopped" in e["msg"] for e in entries)
    assert set(records(agent)) == EXPECTED
    told = agent.records()
    assert {each["verdict"] for each in told} == {"deny"}
    denied = {e["id"] for e in entries if e["msg"] == "Packet denied by egress policy"}
    assert {each["id"] for each in told} <= denied


def test_workers_log_their_packets_whole(node: NodeUnderTest) -> None:
    agent = node.agent("--v=2", "--queues", "2")
    for number in range(1, 31):  # each pair of addresses has its worker
        assert node.connects("team-a/agent", B, 80, timeout=PATIENCE)
        assert not node.connects("team-a/agent", f"203.0.113.{number}", 80, timeout=0.02)
    eventually(lambda: len(grep(agent, "Finished syncing packet")) >= 60, "all are logged")
    assert set(records(agent)) == EXPECTED
    processes = {line.split()[2] for line in grep(agent, '"Finished syncing packet"')}
    assert len(processes) > 1
    assert agent.metric("knp_log_lines_omitted_total") == 0
    assert agent.stop() == 0
