"""One engine behind every door: a probe's answer is the verdict on its packet's bytes.

In a capture, and live, where the kernel says that the packet begins a connection.
"""

import json
from pathlib import Path

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.layers.sctp import SCTP, SCTPChunkInit
from scapy.packet import Packet as Layer

from knp_py.adapters.documents import load_manifests
from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.live import LiveDatapath, Said
from knp_py.engine.names import DomainCache
from knp_py.engine.resolvers import parse_trust
from knp_py.engine.snapshot import Snapshot
from knp_py.engine.snoop import DnsSnooper
from knp_py.engine.state import ClusterState
from knp_py.model.changes import Change, Verb
from knp_py.verdicts.probe import Prober, parse_probe
from knp_py.verdicts.record import Answer

SOURCES = ["api-text", "api-text-fail-closed", "k8s-e2e", "npapi-conformance",
           "npapi-user-stories"]  # fmt: skip


def packet_of(answer: Answer) -> Layer:
    """The first packet of the connection that a probe asks about."""
    src, dst = answer.source.ip or "", answer.destination.ip or ""
    six = ":" in src
    below = IPv6(src=src, dst=dst) if six else IP(src=src, dst=dst)
    port = answer.port or 0
    match answer.protocol:
        case "TCP":
            return below / TCP(sport=40000, dport=port, flags="S")
        case "UDP":
            return below / UDP(sport=40000, dport=port)
        case "SCTP":
            return below / SCTP(sport=40000, dport=port) / SCTPChunkInit()
        case _:
            return below / (ICMPv6EchoRequest() if six else ICMP())


def snapshot_of(case: Path) -> Snapshot:
    state = ClusterState()
    for obj in load_manifests([str(case / "manifests.yaml")]).objects:
        state.apply(Change(Verb.APPLIED, obj))
    return state.snapshot()


@pytest.mark.parametrize("source", SOURCES)
def test_bytes_and_probes_get_one_answer(shared: Path, source: str) -> None:
    cases = [p.parent for p in sorted((shared / "cases" / source).glob("*/probes.jsonl"))]
    assert cases
    for case in cases:
        snapshot = snapshot_of(case)
        prober = Prober(snapshot)
        names = DomainCache()
        path = LiveDatapath(PolicyEngine(names), DnsSnooper(names, trust=parse_trust("auto")))
        path.load(snapshot)
        lines = (case / "probes.jsonl").read_text().splitlines()
        for number, line in enumerate(filter(None, lines)):
            answer = prober.ask(parse_probe(line)).answer
            # Far enough apart that every packet begins a connection of its own.
            flow = path.ingest(bytes(packet_of(answer)), now=number * 10_000.0)
            assert flow is not None
            found = flow.decision.verdict.value
            assert (found, answer.verdict) == (json.loads(line)["expect"],) * 2, (case, line)
            data, later = bytes(packet_of(answer)), number * 10_000.0 + 1_000.0
            live = path.first(data, later)
            kept = path.told(data, later, Said.BEGINS)
            assert live is not None
            assert kept is not None
            assert live[1] == kept.decision == flow.decision, (case, line)
