"""The corpus of cases in ``shared/cases``: every probe gets the verdict its source demands."""

import json
from pathlib import Path

import pytest
from helpers.judging import engine_of

from knp_py.adapters.documents import load_manifests
from knp_py.engine.evaluate import PolicyEngine
from knp_py.model.net import parse_address
from knp_py.model.packet import Packet, Proto

SHARED_CASES = Path(__file__).resolve().parents[4] / "shared" / "cases"
CASES = sorted(path.parent for path in SHARED_CASES.glob("*/*/probes.jsonl"))
NUMBERS = {"TCP": Proto.TCP, "UDP": Proto.UDP, "SCTP": Proto.SCTP, "ICMP": Proto.ICMP}


def end(engine: PolicyEngine, text: str) -> int:
    """A probe's ``namespace/pod`` or address to an address integer."""
    if "/" not in text:
        return parse_address(text)
    pod = engine.snapshot.pod_by_key(text)
    assert pod is not None, f"the case has no pod {text}"
    return pod.ips[0]


@pytest.mark.skipif(not CASES, reason=f"{SHARED_CASES} is not here")
@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_case(case: Path) -> None:
    engine = engine_of(load_manifests([str(case / "manifests.yaml")]).objects)
    wrong = []
    for text in (case / "probes.jsonl").read_text().splitlines():
        probe = json.loads(text)
        packet = Packet(
            end(engine, probe["from"]),
            end(engine, probe["to"]),
            int(NUMBERS[probe["protocol"]]),
            40000,
            probe.get("port") or 0,
        )
        decision = engine.evaluate(packet, now=0.0)
        if decision.verdict.value != probe["expect"]:
            wrong.append((probe, decision))
    assert not wrong
