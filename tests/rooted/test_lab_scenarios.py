"""Scenarios in a lab with a live agent: every outcome is that of ``knp test``."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.command import Ended, run_knp, start_knp
from helpers.labs import in_a_lab_with_an_agent, lab_name, lab_of
from helpers.scenarios import ALLOW_DNS, ALLOW_GITHUB, CLUSTER, DENY_ALL

from knp_py.lab.laboratory import Laboratory
from knp_py.lab.labstate import folder_of, lab_names, read_state
from knp_py.lab.namespaces import spaces_of

ROOT = Path(__file__).parents[2]
SCENARIOS = {
    "walkthrough": ROOT / "examples" / "agent-sandbox" / "scenario.yaml",
    "quickstart": ROOT / "examples" / "quickstart" / "scenario.yaml",
    "protocols": Path(__file__).parent / "protocols" / "scenario.yaml",
}

pytestmark = in_a_lab_with_an_agent


def checks(ended: Ended) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ended.out.splitlines()]


def essence(check: dict[str, Any]) -> dict[str, Any]:
    """What must be the same in theory and for real. A Service's backend is chance."""
    keys = ("step", "from", "connect", "lookup", "verdict", "met", "decided_by")
    return {key: check.get(key) for key in keys}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_lab_sees_what_the_engine_says(name: str) -> None:
    path = str(SCENARIOS[name])
    in_theory = checks(run_knp("test", path, "-o", "jsonl"))
    lab = lab_name()
    began = time.monotonic()
    ended = run_knp("lab", "test", "--name", lab, path, "-o", "jsonl")
    seconds = time.monotonic() - began
    for_real = checks(ended)
    assert list(map(essence, for_real)) == list(map(essence, in_theory)), ended.err
    assert [check["faults"] for check in for_real if "faults" in check] == []
    assert ended.code == 0
    assert seconds < 120  # half of a minute where nothing else runs
    assert spaces_of(lab) == []
    assert lab not in lab_names()


@pytest.mark.slow
def test_a_lab_that_is_up_begins_from_the_beginning_again() -> None:
    """Whatever was there before, learned names included; and it stays up."""
    with lab_of(str(SCENARIOS["walkthrough"]), "--steps", "99") as lab:
        own = ["lab", "test", "--name", lab.name]
        for path in ([], [str(SCENARIOS["quickstart"])], [str(SCENARIOS["walkthrough"])]):
            ended = run_knp(*own, *path)
            assert ended.code == 0, ended
        again = Laboratory(lab.name)
        assert again.is_up
        assert again.state.source == str(SCENARIOS["walkthrough"])
        assert "sandbox-team-a/raw-sandbox" in again.topology.places
        assert "shop/web" not in again.topology.places


CLOCK = """\
name: clock
manifests: {CLUSTER}
resolve: {{github.com: {{addresses: 140.82.121.4, ttl: 30}}}}
steps:
  - name: learned
    apply: [{POLICIES}]
    expect: [{{from: a/public, connect: github.com, verdict: allow, policy: github}}]
  - name: still there
    wait: {EARLY}
    expect: [{{from: a/public, connect: 140.82.121.4, verdict: allow, policy: github}}]
  - name: gone
    wait: {LATE}
    expect: [{{from: a/public, connect: 140.82.121.4, verdict: deny, policy: deny}}]
"""


def clock(folder: Path, early: float, late: float) -> str:
    (folder / "cluster.yaml").write_text(CLUSTER)
    policies = f"{ALLOW_DNS}, {ALLOW_GITHUB}, {DENY_ALL}"
    text = CLOCK.format(CLUSTER="cluster.yaml", POLICIES=policies, EARLY=early, LATE=late)
    (folder / "s.yaml").write_text(text)
    return str(folder / "s.yaml")


def test_time_is_moved_and_that_is_said(tmp_path: Path) -> None:
    """Not a second more than was asked for: what was learned is there until its end."""
    began = time.monotonic()
    ended = run_knp("lab", "test", "--name", lab_name(), clock(tmp_path, 20, 12))
    assert ended.code == 0, ended
    assert "32 s were not waited for: the agent's clock was put forward" in ended.err
    assert time.monotonic() - began < 32


def test_time_is_waited_for_when_asked_to(tmp_path: Path) -> None:
    began = time.monotonic()
    argv = ["lab", "test", "--name", lab_name(), "--real-time", clock(tmp_path, 3, 1)]
    ended = run_knp(*argv)
    assert ended.code == 1, ended  # four seconds are not enough for the name to end
    assert "2 of 3 expectations met" in ended.out
    assert "were not waited for" not in ended.err
    assert time.monotonic() - began > 4


def test_what_is_not_met_says_what_the_engine_makes_of_it(tmp_path: Path) -> None:
    """The agent runs dry: it says deny and drops nothing, so the sockets see otherwise."""
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "s.yaml").write_text(
        f"manifests: cluster.yaml\nsteps: [{{name: one, apply: [{DENY_ALL}], expect: "
        "[{from: a/client, connect: a/server, port: 80, verdict: deny, policy: deny}]}]\n"
    )
    ended = run_knp(
        *("lab", "test", "--name", lab_name(), str(tmp_path / "s.yaml")), "--", "--dry-run"
    )
    assert ended.code == 1, ended
    lines = [line.strip() for line in ended.out.splitlines()]
    assert "FAIL  allow    a/client → a/server:80" in lines
    assert "in theory (knp test): deny" in lines
    assert any(line.startswith("expected deny, got allow: egress: Admin deny") for line in lines)


def test_what_cannot_be_in_a_lab_is_an_error_of_its_step(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "manifests: deploy.yaml\nsteps: [{name: one, delete: Pod/a/web-0, expect: []},"
        " {name: two, expect: [{from: a/web-1, connect: 1.1.1.1, verdict: allow}]}]\n"
    )
    (tmp_path / "deploy.yaml").write_text(
        "{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: a, name: web}, spec:"
        " {replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}},"
        " spec: {containers: [{name: c}]}}}}\n"
    )
    name = lab_name()
    ended = run_knp("lab", "test", "--name", name, str(tmp_path / "s.yaml"))
    assert ended.code == 2, ended
    assert "Pod a/web-0 cannot be deleted by itself in a lab" in ended.err
    assert spaces_of(name) == []


def test_an_agent_that_does_not_start_is_said_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    name = lab_name()
    argv = ["lab", "up", "--name", name, "-m", str(tmp_path / "cluster.yaml")]
    ended = run_knp(*argv, "--", "--no-such-option")
    assert ended.code == 2, ended
    assert ended.err.splitlines()[0] == "knp: the agent has ended"
    assert "No such option: --no-such-option" in ended.err
    assert spaces_of(name) == []


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_an_agent_that_dies_ends_the_test_and_leaves_nothing(
    tmp_path: Path, seconds: float
) -> None:
    """Also after the last change: fail-open lets everything through, and that is no result."""
    name = lab_name()
    argv = ["lab", "test", "--name", name, clock(tmp_path, 20, 12)]
    with start_knp(*argv) as process:
        until = time.monotonic() + 20
        while not (state := read_state(folder_of(name))) or "agent" not in state.processes:
            assert time.monotonic() < until
            time.sleep(0.01)
        time.sleep(seconds)
        os.kill(state.processes["agent"].pid, signal.SIGKILL)
        out, err = process.communicate(timeout=180)
    assert process.returncode == 2, (out, err)
    assert b"the agent has ended" in err
    assert spaces_of(name) == []
