"""What ``knp lab status`` says of a lab, and ``up`` when one is up."""

from collections.abc import Sequence
from typing import Any

import msgspec

from knp_py.cli.options import OutputFormat
from knp_py.cli.render import Column, Documents, note, print_table, print_wrapped
from knp_py.lab.laboratory import Laboratory


class LabStatus(msgspec.Struct):
    """What ``knp lab status`` says of a lab. ``agent`` is null where there is none."""

    lab: str
    up: bool
    scenario: str
    pods: dict[str, tuple[str, ...]]
    agent: dict[str, Any] | None
    files: str


def status_of(lab: Laboratory) -> LabStatus:
    """How it is at this moment."""
    agent: dict[str, Any] | None = None
    if lab.enforcer is not None and lab.enforcer.process is not None:
        running = lab.enforcer.process
        agent = {"pid": running.pid, "running": running.alive, **lab.enforcer.status()}
    pods = {key: own for key, (own, _) in lab.state.plan.pods.items()}
    return LabStatus(lab.name, lab.is_up, lab.state.source, pods, agent, lab.folder.top)


def print_status(found: Sequence[LabStatus], output: OutputFormat) -> None:
    """Labs with their pods for people, or as JSON."""
    if output is not OutputFormat.TABLE:
        with Documents(output) as documents:
            for each in found:
                documents.write(each)
        return
    if not found:
        note("no lab is up")
    for each in found:
        rows = [[pod, " ".join(addresses)] for pod, addresses in each.pods.items()]
        state = "up" if each.up else "not whole: its server does not run"
        print_wrapped(f"{each.lab}: {state}, {_agent_text(each.agent)}; files in {each.files}", 0)
        print_table((Column("POD"), Column("ADDRESSES")), rows)


def _agent_text(agent: dict[str, Any] | None) -> str:
    if agent is None:
        return "no agent"
    if not agent["running"]:
        return f"agent {agent['pid']} has ended"
    mode = agent.get("mode", "not ready")
    return f"agent {agent['pid']} {mode}, generation {agent.get('generation', '?')}"
