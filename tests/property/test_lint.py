"""Lint never raises, and what it calls dead never decides anything."""

from collections.abc import Iterator

from helpers import clusters as c
from helpers.judging import engine_of
from hypothesis import event, given, note
from hypothesis import strategies as st

from knp_py.audit.findings import CATALOGUE, Finding
from knp_py.audit.lint import lint
from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.explain import Outcome, explain
from knp_py.model.objects import Node, Pod
from knp_py.model.packet import Packet

DEAD = ("shadowed-rule", "shadowed-now", "redundant-rule", "overruled-rule")


def deciding(engine: PolicyEngine, packet: Packet) -> Iterator[tuple[str, str]]:
    """Every rule that decided a tier of the packet, a Pass included."""
    explanation = explain(engine, packet, now=0.0)
    for steps in explanation.directions:
        for policy in steps.policies:
            for rule in policy.rules:
                if rule.outcome in {Outcome.DECIDED, Outcome.PASSED}:
                    yield policy.policy, f"spec.{steps.direction.text}[{rule.rule}]"


def dead_rules(findings: list[Finding]) -> dict[tuple[str, str], Finding]:
    """Rules that must never decide, by policy name and field.

    A redundant NetworkPolicy rule is not among them: of several rules that allow a flow
    any may be the one that is named.
    """
    return {
        (finding.object.partition(" ")[2], finding.path): finding
        for finding in findings
        if finding.id in DEAD
        and (finding.id == "overruled-rule" or not finding.object.startswith("NetworkPolicy"))
    }


@given(data=st.data())
def test_dead_rules_never_decide(data: st.DataObject) -> None:
    cluster = data.draw(c.clusters())
    packets = data.draw(st.lists(c.packets(cluster.pods), min_size=30, max_size=60))
    findings = lint(cluster.objects)
    assert all(finding.severity in CATALOGUE[finding.id].severities for finding in findings)
    here = dead_rules(findings)
    # What is dead without pods is dead whatever pods there are.
    bare = [o for o in cluster.objects if not isinstance(o, (Pod, Node))]
    anywhere = dead_rules(lint(bare))
    dead = {**anywhere, **here}
    for finding in dead.values():
        event(finding.id)
    engine = engine_of(cluster.objects, cluster.learned)
    for packet in packets:
        for decided in deciding(engine, packet):
            if decided in dead:
                note(f"{dead[decided]}")
                for obj in cluster.objects:
                    note(f"{obj}")
                note(f"{packet}")
            assert decided not in dead
