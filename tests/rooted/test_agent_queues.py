"""Several queues, a process for each: the same verdicts, the same names, one set of figures."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from helpers.nodes import PATIENCE, NodeUnderTest, eventually, node_of, on_a_node
from rooted.test_agent_change import CLUSTER as CHANGING
from rooted.test_agent_change import B, policy
from rooted.test_agent_dns import CLUSTER as NAMED
from rooted.test_agent_dns import RESOLVER, answered, resolve

pytestmark = on_a_node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeUnderTest]:
    with node_of(tmp_path, NAMED) as made:
        made.serve_udp("internet", RESOLVER, 53, answered)
        made.serve_tcp("internet", 443)
        yield made


def workers_of(pid: int) -> list[int]:
    """Forked from it, in this order; it also starts tools now and then.

    Which are not told from workers until they have become what they are.
    """
    looks = []
    for _ in range(3):
        children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        looks.append([child for child in children if command_of(child) == command_of(pid)])
        time.sleep(0.2)
    return [child for child in looks[0] if all(child in look for look in looks)]


def command_of(pid: int) -> bytes:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b"?"


def test_names_reach_every_worker_before_the_pod(node: NodeUnderTest) -> None:
    agent = node.agent("--fail-closed", "--queues", "3", "--strict-mode", "--log-verdicts", "all")
    assert len(workers_of(agent.process.pid)) == 3

    def visit(number: int) -> bool:
        address = resolve(node, "x/agent", f"h{number}.example.com")
        return node.connects("x/agent", address, 443, timeout=PATIENCE)

    with ThreadPoolExecutor(8) as threads:
        visits = list(threads.map(visit, range(300)))
    assert [number for number, passed in enumerate(visits) if not passed] == []
    assert agent.metric("knp_internal_errors_total") == 0
    records = agent.records()
    # A first packet that was denied would pass at its second try: none was.
    assert {record["verdict"] for record in records} == {"allow"}
    assert len({record["id"] for record in records}) == len(records) >= 301
    assert agent.metric("knp_verdict_seconds_count") == agent.metric("knp_packets_total")
    assert agent.stop() == 0


def test_a_change_reaches_every_worker(tmp_path: Path) -> None:
    with node_of(tmp_path, CHANGING) as node:
        node.write("policy.json", policy("Accept"))
        node.serve_tcp("x/b", 80)
        agent = node.agent("--fail-closed", "--queues", "2", "--remember", "off")
        for action in ("Deny", "Accept", "Deny"):
            node.in_force(agent, node.write("policy.json", policy(action)))
            for _ in range(8):
                assert node.judges("x/a", B, 80, allowed=action == "Accept")


def test_a_worker_that_dies_ends_the_agent(node: NodeUnderTest) -> None:
    agent = node.agent("--fail-closed", "--queues", "2")
    os.kill(workers_of(agent.process.pid)[0], signal.SIGKILL)
    assert agent.process.wait(PATIENCE) == 1
    assert "the process at the other end has ended" in agent.log
    assert not node.connects("x/agent", "192.0.2.9", 443)


@pytest.mark.parametrize("changed", [False, True], ids=["by itself", "after a change"])
def test_a_worker_that_hangs_ends_the_agent(tmp_path: Path, changed: bool) -> None:
    with node_of(tmp_path, CHANGING) as node:
        node.write("policy.json", policy("Accept"))
        agent = node.agent("--fail-closed", "--queues", "3")
        before = agent.metric("knp_packets_total")
        _, worker, _ = workers_of(agent.process.pid)
        os.kill(worker, signal.SIGSTOP)
        began = time.monotonic()
        if changed:
            node.write("policy.json", policy("Deny"))
        assert agent.metric("knp_packets_total") >= before  # its figures count on
        assert time.monotonic() - began < 9
        assert agent.get("/healthz")[0] == 200
        assert agent.process.wait(50 if changed else 20) == 1
        assert f"(process {worker}): it has not answered for" in agent.log
        assert "generation 2 in force" not in agent.log
        assert "Traceback" not in agent.log
        eventually(lambda: not Path(f"/proc/{worker}").exists(), "the worker is gone")


def test_a_worker_that_hung_for_a_moment_goes_on(node: NodeUnderTest) -> None:
    agent = node.agent("--fail-closed", "--queues", "2")
    worker = workers_of(agent.process.pid)[0]
    os.kill(worker, signal.SIGSTOP)
    agent.get("/metrics")
    os.kill(worker, signal.SIGCONT)
    for number in range(8):
        address = resolve(node, "x/agent", f"h{number}.example.com")
        assert node.connects("x/agent", address, 443, timeout=PATIENCE)
    assert agent.metric("knp_verdict_seconds_count") == agent.metric("knp_packets_total")
    assert agent.stop() == 0


def test_workers_die_with_the_agent(node: NodeUnderTest) -> None:
    agent = node.agent("--queues", "2")
    workers = workers_of(agent.process.pid)
    agent.kill()
    eventually(
        lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers),
        "the workers are gone",
    )
