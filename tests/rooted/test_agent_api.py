"""A real agent that follows an API server: real rules, real packets, a server that fails."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.apiserver import ApiServer
from helpers.nodes import PATIENCE, Agent, NodeUnderTest, eventually, node_of, on_a_node
from scapy.layers.inet import IP, UDP

pytestmark = on_a_node

A, B, NEW = "10.94.1.11", "10.94.1.12", "10.94.1.13"
CLUSTER = f"""\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {{name: n1}}
  spec: {{podCIDRs: [10.94.1.0/24]}}
  status: {{addresses: [{{type: InternalIP, address: 10.94.0.1}}]}}
- apiVersion: v1
  kind: Namespace
  metadata: {{name: x}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: a, namespace: x, labels: {{app: a}}}}
  spec: {{nodeName: n1, containers: [{{name: c, image: i}}]}}
  status: {{phase: Running, podIPs: [{{ip: {A}}}]}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: b, namespace: x, labels: {{app: b}}}}
  spec: {{nodeName: n1, containers: [{{name: c, image: i}}]}}
  status: {{phase: Running, podIPs: [{{ip: {B}}}]}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: new, namespace: x, labels: {{app: a}}}}
  spec: {{nodeName: n1, containers: [{{name: c, image: i}}]}}
  status: {{phase: Running, podIPs: [{{ip: {NEW}}}]}}
"""
ALLOWED, FORBIDDEN = 80, 81
HELD = "fail-closed: new connections of pods in 10.94.1.0/24 drop until"


def to_b(port: int) -> dict[str, Any]:
    """Pods ``app: a`` may go to one port of b, and nowhere else."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "to-b", "namespace": "x"},
        "spec": {
            "podSelector": {"matchLabels": {"app": "a"}},
            "policyTypes": ["Egress"],
            "egress": [{"ports": [{"port": port, "protocol": "TCP"}]}],
        },
    }


def guard(action: str) -> dict[str, Any]:
    """An Admin rule about everything that pods ``app: a`` send."""
    return {
        "apiVersion": "policy.networking.k8s.io/v1alpha2",
        "kind": "ClusterNetworkPolicy",
        "metadata": {"name": "guard"},
        "spec": {
            "tier": "Admin",
            "priority": 1,
            "subject": {
                "pods": {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "a"}}}
            },
            "egress": [{"action": action, "to": [{"networks": ["0.0.0.0/0"]}]}],
        },
    }


class Stage:
    """A node, an API server on its loopback, and pods that are there before the API says so."""

    def __init__(self, node: NodeUnderTest, api: ApiServer, path: Path) -> None:
        self.node = node
        self.api = api
        self.config = path / "kubeconfig"
        api.kubeconfig(self.config)
        self.pods = {}
        for document in yaml.safe_load(CLUSTER)["items"]:
            name = document["metadata"]["name"]
            self.pods[name] = document
            if name != "new":
                api.apply(document)
        api.apply(to_b(ALLOWED))

    def agent(self, *options: str, ready: bool = True) -> Agent:
        source = ("--kubeconfig", str(self.config), "--hostname-override", "n1")
        return self.node.agent(*options, source=source, ready=ready)

    def outside(self, action: Callable[[], object]) -> object:
        """By a thread that is on the node: where the API server listens."""
        return self.node.topology.call("node", action)

    def connects(self, place: str, port: int, *, timeout: float = 0.5) -> bool:
        return self.node.connects(f"x/{place}", B, port, timeout=timeout)

    def judges(self, place: str, port: int, *, allowed: bool) -> bool:
        return self.node.judges(f"x/{place}", B, port, allowed=allowed)

    def waits(self, place: str, port: int, expected: bool) -> None:
        timeout = 2 if expected else 0.3
        eventually(
            lambda: self.connects(place, port, timeout=timeout) is expected,
            f"x/{place} to {port} is {'allowed' if expected else 'denied'}",
        )


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with node_of(tmp_path, CLUSTER) as node:
        api = ApiServer()
        node.topology.call("node", api.__enter__)
        try:
            for port in (ALLOWED, FORBIDDEN):
                node.serve_tcp("x/b", port)
            yield Stage(node, api, tmp_path)
        finally:
            api.__exit__(None, None, None)


def test_policies_of_a_cluster_are_enforced_and_followed(stage: Stage) -> None:
    agent = stage.agent("--fail-closed")
    eventually(lambda: "1 of them selected by policy" in agent.log, "it greets")
    assert "the cluster has no ClusterNetworkPolicy" in agent.log
    assert stage.connects("a", ALLOWED, timeout=PATIENCE)
    assert not stage.connects("a", FORBIDDEN)
    stage.api.apply(to_b(FORBIDDEN))
    stage.waits("a", FORBIDDEN, expected=True)
    assert not stage.connects("a", ALLOWED)
    # A pod that is selected no more, and one that is now.
    stage.api.patch("Pod", "x", "a", {"metadata": {"labels": {"app": "z"}}})
    stage.waits("a", ALLOWED, expected=True)
    stage.api.patch("Pod", "x", "a", {"metadata": {"labels": {"app": "a"}}})
    stage.waits("a", ALLOWED, expected=False)
    status = agent.status()["source"]
    assert status["objects"]["Pod"] == 2
    assert status["resources"]["pods"]["synced"]
    assert status["age_seconds"] < 60
    assert agent.metric("knp_api_events_total") >= 3


def test_a_crd_that_is_installed_later(stage: Stage) -> None:
    stage.agent("--fail-closed")
    assert stage.connects("a", ALLOWED, timeout=PATIENCE)
    stage.api.install_crd("experimental")
    stage.api.apply(guard("Deny"))
    stage.waits("a", ALLOWED, expected=False)
    stage.api.apply(guard("Pass"))
    stage.waits("a", ALLOWED, expected=True)


@pytest.mark.parametrize("mode", ["--fail-closed", "--fail-open"])
def test_a_pod_that_runs_before_the_api_knows_its_address(stage: Stage, mode: str) -> None:
    agent = stage.agent(mode)
    closed = mode == "--fail-closed"
    assert stage.judges("new", FORBIDDEN, allowed=not closed)
    eventually(
        lambda: any(r.get("unidentified") == [NEW] for r in agent.records()), "it is logged"
    )
    record = next(r for r in agent.records() if r.get("unidentified"))
    assert record["verdict"] == ("deny" if closed else "allow")
    pending = stage.pods["new"] | {"status": {"phase": "Pending"}}
    stage.api.apply(pending)
    time.sleep(0.3)
    assert stage.judges("new", FORBIDDEN, allowed=not closed)
    stage.api.apply(stage.pods["new"])
    stage.waits("new", ALLOWED, expected=True)
    stage.waits("new", FORBIDDEN, expected=False)
    # Terminating is still itself; when its object goes, nobody knows it again.
    stage.api.terminate("Pod", "x", "new")
    time.sleep(0.3)
    assert stage.connects("new", ALLOWED, timeout=PATIENCE)
    assert not stage.connects("new", FORBIDDEN)
    stage.api.delete("Pod", "x", "new")
    stage.waits("new", FORBIDDEN, expected=not closed)


def test_a_namespace_that_goes_takes_its_policies_along_last(stage: Stage) -> None:
    stage.agent("--fail-closed")
    stage.api.terminate("Namespace", "", "x")
    stage.api.delete("NetworkPolicy", "x", "to-b")
    time.sleep(0.5)
    assert stage.connects("a", ALLOWED, timeout=PATIENCE)
    assert not stage.connects("a", FORBIDDEN)


@pytest.mark.parametrize("mode", ["--fail-closed", "--fail-open"])
def test_a_pod_is_known_before_its_namespace(stage: Stage, mode: str) -> None:
    """Each kind has a watch of its own; who selects a pod by its namespace is not known yet."""
    stage.api.install_crd("standard")
    policy = guard("Deny")
    policy["spec"]["subject"] = {"namespaces": {"matchLabels": {"tenant": "t"}}}
    stage.api.apply(policy)
    agent = stage.agent(mode)
    stage.api.fail(503, times=10_000, path="/namespaces")
    stage.api.drop_watches("namespaces")
    namespace = {"metadata": {"name": "late", "labels": {"tenant": "t"}}}
    stage.api.apply({"apiVersion": "v1", "kind": "Namespace", **namespace})
    pod = stage.pods["new"]
    pod["metadata"]["namespace"] = "late"
    stage.api.apply(pod)
    eventually(lambda: agent.status()["source"]["objects"]["Pod"] == 3, "the pod is known")
    time.sleep(0.3)
    closed = mode == "--fail-closed"
    assert stage.judges("new", FORBIDDEN, allowed=not closed)
    if closed:
        reasons = [str(record.get("reason")) for record in agent.records()]
        assert any("what namespace the pod is in" in reason for reason in reasons)
    assert stage.connects("a", ALLOWED, timeout=PATIENCE), "nobody else is concerned"
    namespace["metadata"]["labels"] = {"tenant": "other"}
    stage.api.apply({"apiVersion": "v1", "kind": "Namespace", **namespace})
    stage.api.no_more_failures()
    stage.waits("new", FORBIDDEN, expected=True)


@pytest.mark.parametrize("mode", ["--fail-closed", "--fail-open"])
def test_a_pod_of_another_node_is_known_before_its_namespace(stage: Stage, mode: str) -> None:
    """A rule may be about the namespace of whoever comes: what it says is not known yet."""
    stage.api.install_crd("standard")
    policy = guard("Deny")
    policy["spec"]["subject"]["pods"]["podSelector"] = {"matchLabels": {"app": "b"}}
    evil = {"namespaces": {"matchLabels": {"tenant": "t"}}}
    del policy["spec"]["egress"]
    policy["spec"]["ingress"] = [{"action": "Deny", "from": [evil]}]
    stage.api.apply(policy)
    agent = stage.agent(mode)
    stage.api.fail(503, times=10_000, path="/namespaces")
    stage.api.drop_watches("namespaces")
    namespace = {"metadata": {"name": "late", "labels": {"tenant": "t"}}}
    stage.api.apply({"apiVersion": "v1", "kind": "Namespace", **namespace})
    pod = stage.pods["new"]
    pod["metadata"]["namespace"] = "late"
    pod["spec"]["nodeName"] = "n2"
    stage.api.apply(pod)
    eventually(lambda: agent.status()["source"]["objects"]["Pod"] == 3, "the pod is known")
    stage.waits("new", ALLOWED, expected=mode == "--fail-open")
    assert stage.connects("a", ALLOWED, timeout=PATIENCE), "nobody else is concerned"
    stage.api.no_more_failures()
    stage.waits("new", ALLOWED, expected=False)
    namespace["metadata"]["labels"] = {"tenant": "other"}
    stage.api.apply({"apiVersion": "v1", "kind": "Namespace", **namespace})
    stage.waits("new", ALLOWED, expected=True)


@pytest.mark.parametrize("mode", ["--fail-closed", "--dry-run"])
def test_whom_no_policy_selects_is_nobody_else_either(stage: Stage, mode: str) -> None:
    """Its datagrams with another pod's address would be judged as that pod's."""
    arrived: list[bytes] = []
    stage.node.serve_udp("x/b", B, 90, arrived.append)
    policy = to_b(ALLOWED)
    policy["spec"] = {
        "podSelector": {"matchLabels": {"app": "b"}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "a"}}}]}],
    }
    stage.api.apply(policy)
    stage.pods["new"]["metadata"]["labels"] = {"app": "new"}
    stage.api.apply(stage.pods["new"])
    stage.agent(mode)

    def counted() -> int:
        listed = stage.node.run("node", "nft", "list", "counter", "inet", "knp", "spoofed").stdout
        return int(listed.split("packets ")[1].split()[0])

    for place, sender in (("x/new", A), ("x/new", NEW), ("x/a", A)):
        data = f"{place} as {sender}".encode()
        packet = bytes(IP(src=sender, dst=B) / UDP(sport=5000, dport=90) / data)
        stage.node.send_raw(place, "10.94.0.1", packet)
    eventually(lambda: b"x/a as 10.94.1.11" in arrived, "whose address it is has it")
    eventually(lambda: counted() == 1, "what was spoofed is counted")
    if mode == "--fail-closed":
        assert arrived == [b"x/a as 10.94.1.11"]
    else:
        eventually(lambda: len(arrived) == 3, "a dry run lets pass what it counts")


def test_what_was_known_decides_through_an_outage(stage: Stage) -> None:
    agent = stage.agent("--fail-closed")
    stage.outside(stage.api.stop_listening)
    stage.api.cut_watches()
    eventually(lambda: agent.metric("knp_source_age_seconds") > 2, "it says how old it is")
    assert agent.get("/healthz")[0] == 200
    assert agent.get("/readyz")[0] == 200
    assert stage.connects("a", ALLOWED, timeout=PATIENCE)
    assert not stage.connects("a", FORBIDDEN)
    assert "what was known goes on" in agent.log
    stage.api.apply(to_b(FORBIDDEN))
    stage.outside(stage.api.start_listening)
    stage.waits("a", FORBIDDEN, expected=True)
    eventually(lambda: "is heard again" in agent.log, "that is said")


def test_a_restart_during_an_outage_holds_what_was_held(stage: Stage) -> None:
    agent = stage.agent("--fail-closed", "--remember", "off")
    assert stage.connects("a", ALLOWED, timeout=PATIENCE)
    stage.outside(stage.api.stop_listening)
    stage.api.cut_watches()
    agent.kill()
    agent = stage.agent("--fail-closed", "--remember", "off", ready=False)
    eventually(lambda: "waiting for" in agent.log, "it says for whom it waits")
    eventually(lambda: _answers(agent, "/healthz") == 200, "it is alive")
    code, text = agent.get("/readyz")
    assert (code, "pods" in text) == (503, True)
    for port in (ALLOWED, FORBIDDEN):
        assert not stage.connects("a", port)
    stage.outside(stage.api.start_listening)
    eventually(agent.ready, "it is ready")
    assert stage.connects("a", ALLOWED, timeout=PATIENCE)
    assert not stage.connects("a", FORBIDDEN)


def test_an_unselected_pods_address_stays_open_until_somebody_can_know_better(
    stage: Stage,
) -> None:
    """A limit, said in daemonset/README.md: who is not selected passes without an agent.

    Whoever gets that address while no agent hears of it passes too, selected or not.
    """
    unselected = stage.pods["new"]
    selected = yaml.safe_load(yaml.safe_dump(unselected))
    unselected["metadata"] |= {"name": "before", "labels": {"app": "z"}}
    stage.api.apply(unselected)
    agent = stage.agent("--fail-closed", "--remember", "off")
    stage.waits("new", FORBIDDEN, expected=True)
    agent.kill()
    stage.api.delete("Pod", "x", "before")
    stage.api.apply(selected)
    assert stage.connects("new", FORBIDDEN, timeout=PATIENCE)
    assert not stage.connects("a", ALLOWED), "whom the table knows as selected is held"
    stage.outside(stage.api.stop_listening)
    agent = stage.agent("--fail-closed", "--remember", "off", ready=False)
    eventually(lambda: "waiting for" in agent.log, "it says for whom it waits")
    assert stage.connects("new", FORBIDDEN, timeout=PATIENCE)
    opened = stage.node.open("x/new", B, FORBIDDEN, timeout=PATIENCE)
    stage.outside(stage.api.start_listening)
    eventually(agent.ready, "it has heard everything")
    assert stage.connects("new", ALLOWED, timeout=PATIENCE)
    assert not stage.connects("new", FORBIDDEN)
    with opened:
        opened.settimeout(2)
        opened.sendall(b"still?")
        with pytest.raises(TimeoutError):  # the address was somebody else's, that is kept
            opened.recv(16)


def test_a_boot_without_an_api_server_holds_the_nodes_pods(stage: Stage) -> None:
    """No rules are left of the last time, only the file that tells the node's networks."""
    agent = stage.agent("--fail-closed")
    agent.stop()
    kept = stage.node.path / "state" / "knp.node"
    text = kept.read_text()
    stage.node.cleanup()
    assert not kept.exists(), "whoever cleans up wants nothing to be left"
    kept.write_text(text)
    stage.outside(stage.api.stop_listening)
    assert stage.connects("a", FORBIDDEN, timeout=PATIENCE)
    agent = stage.agent("--fail-closed", ready=False)
    eventually(lambda: HELD in agent.log, "it holds them")
    for port in (ALLOWED, FORBIDDEN):
        stage.waits("a", port, expected=False)
        assert not stage.connects("a", port)
    assert agent.get("/readyz")[0] == 503
    stage.outside(stage.api.start_listening)
    eventually(agent.ready, "it has heard everything")
    stage.waits("a", ALLOWED, expected=True)
    assert not stage.connects("a", FORBIDDEN)


def test_rules_that_a_fail_open_agent_left_hold_nothing(stage: Stage) -> None:
    """Killed, it leaves a table that lets pass what nobody answers."""
    stage.agent("--fail-open").kill()
    stage.outside(stage.api.stop_listening)
    stage.api.cut_watches()
    assert stage.connects("a", FORBIDDEN, timeout=PATIENCE)
    agent = stage.agent("--fail-closed", ready=False)
    eventually(lambda: HELD in agent.log, "it holds them")
    for port in (ALLOWED, FORBIDDEN):
        stage.waits("a", port, expected=False)
        assert not stage.connects("a", port)
    stage.outside(stage.api.start_listening)
    stage.waits("a", ALLOWED, expected=True)
    assert not stage.connects("a", FORBIDDEN)


def test_a_boot_at_which_nothing_is_known_says_that_nothing_is_held(stage: Stage) -> None:
    stage.outside(stage.api.stop_listening)
    agent = stage.agent("--fail-closed", ready=False)
    eventually(lambda: "NOTHING IS HELD" in agent.log, "it says so")
    assert "nothing is known of it yet" in agent.log
    assert stage.connects("a", FORBIDDEN, timeout=PATIENCE)


def test_fail_open_opens_what_a_closed_agent_left_also_without_an_api_server(
    stage: Stage,
) -> None:
    stage.agent("--fail-closed").stop()
    assert not stage.connects("a", ALLOWED)
    stage.outside(stage.api.stop_listening)
    stage.agent("--fail-open", ready=False)
    stage.waits("a", FORBIDDEN, expected=True)
    stage.outside(stage.api.start_listening)
    stage.waits("a", FORBIDDEN, expected=False)


@pytest.mark.parametrize("mode", ["--fail-closed", "--fail-open"])
def test_a_stop_while_it_waits(stage: Stage, mode: str) -> None:
    stage.outside(stage.api.stop_listening)
    agent = stage.agent(mode, ready=False)
    eventually(lambda: _answers(agent, "/healthz") == 200, "it is there")
    assert agent.stop() == 0
    assert "stopped" in agent.log
    assert stage.connects("a", FORBIDDEN, timeout=PATIENCE)


def test_workers_follow_too(stage: Stage) -> None:
    stage.agent("--fail-closed", "--queues", "2", "--remember", "off")
    for _ in range(8):
        assert stage.connects("a", ALLOWED, timeout=PATIENCE)
        assert not stage.connects("a", FORBIDDEN, timeout=0.2)
    stage.api.apply(to_b(FORBIDDEN))
    stage.waits("a", FORBIDDEN, expected=True)
    for _ in range(8):
        assert stage.connects("a", FORBIDDEN, timeout=PATIENCE)
        assert not stage.connects("a", ALLOWED, timeout=0.2)


def test_what_became_of_a_policy_is_in_its_status(stage: Stage) -> None:
    for name in ("default", "kube-system"):
        stage.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    stage.api.install_crd("experimental")
    stage.api.apply(guard("Deny"))
    odd = guard("Accept")
    odd["metadata"]["name"] = "odd"
    odd["spec"]["egress"][0]["to"] = [{"domainNames": ["example.com"]}]
    stage.api.apply(odd)
    stage.api.install_crd("standard")  # a server drops what its definition lacks, also on reading
    agent = stage.agent("--fail-closed")

    def conditions(name: str) -> dict[str, str]:
        status = stage.api.get("ClusterNetworkPolicy", "", name).get("status", {})
        return {each["type"]: each["status"] for each in status.get("conditions", [])}

    eventually(
        lambda: conditions("guard") == {"knp/Accepted": "True", "knp/PartlyUnsupported": "False"},
        "the good one is accepted",
    )
    eventually(lambda: bool(stage.api.state("Event")), "an Event tells of the other one")
    event = next(iter(stage.api.state("Event").values()))
    assert event["involvedObject"]["name"] == "odd"
    assert "the rule matches nothing" in event["message"]
    assert agent.metric("knp_status_writer") == 1
    assert agent.status()["source"]["status"]["elected"]


def test_a_node_of_another_name_is_said(stage: Stage) -> None:
    source = ("--kubeconfig", str(stage.config), "--hostname-override", "n9")
    agent = stage.node.agent(source=source)
    eventually(lambda: "no Node and no Pod says that there is a node n9" in agent.log, "said")


def _answers(agent: Agent, page: str) -> int:
    try:
        return agent.get(page)[0]
    except OSError:
        return 0
