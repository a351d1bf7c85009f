"""Packets' entries, line by line, as people search for them."""

import json
import re

import pytest
from helpers.builders import (
    accept,
    address,
    allow,
    cnp,
    deny,
    netpol,
    networks,
    pass_on,
    pod,
    pods,
    select,
)
from helpers.judging import snapshot_of

from knp_py.engine.evaluate import PolicyEngine
from knp_py.model.changes import ClusterObject
from knp_py.model.objects import Pod
from knp_py.model.packet import Packet
from knp_py.model.policy import Tier
from knp_py.verdicts.klogentry import Format
from knp_py.verdicts.logs import LogReader
from knp_py.verdicts.packetlines import PacketLines
from knp_py.verdicts.record import FlowFacts

NS = 1_795_984_680_123_456_789
A, B, OUTSIDE = "10.244.1.6", "10.244.1.7", "172.66.147.243"
AGENT = pod("sandbox-team-a/agent", A, labels={"app": "a"})
TOOLS = pod("tools/web", B)
# Four of the walkthrough's Admin tier, more or less; one has no rule and selects all the same.
ADMIN = [
    cnp("pass-tools", priority=5, egress=[pass_on(pods())]),
    cnp("allow-dns", priority=10, egress=[accept(networks("10.96.0.10/32"))]),
    cnp("default-deny", priority=100, egress=[deny(networks("0.0.0.0/0"))]),
    cnp("says-nothing", priority=200),
]


def entries(
    policies: list[ClusterObject],
    src: str,
    dst: str,
    *,
    form: Format = "text",
    protocol: int = 6,
    accepted: bool | None = None,
) -> str:
    """What is written about a packet from port 37368 to port 443."""
    engine = PolicyEngine()
    snapshot = snapshot_of([AGENT, TOOLS, *policies])
    engine.load(snapshot)
    packet = Packet(address(src), address(dst), protocol, 37368, 443)
    decision = engine.evaluate(packet, now=0.0)

    def key(found: Pod | None) -> str | None:
        return None if found is None else found.key

    flow = FlowFacts(
        NS,
        303,
        *packet[:5],
        key(snapshot.pod_at(packet.src)),
        key(snapshot.pod_at(packet.dst)),
    )
    if accepted is None:
        accepted = decision.verdict.value == "allow"
    lines = PacketLines(form)
    lines.pid = 1
    return lines.packet(decision, flow, snapshot, accepted=accepted, took_ns=171_516).decode()


def plain(text: str) -> str:
    """Text entries without their headers."""
    return re.sub(r"(?m)^I1129 20:38:00\.123456       1 \w+\.go:1\] ", "", text)


def test_a_denial_reads_as_theirs() -> None:
    assert plain(entries([*ADMIN], A, OUTSIDE)) == (
        '"Evaluating packet" id=303 direction="Egress" srcPod="sandbox-team-a/agent"'
        ' dstPod="external" packet=<\n'
        "\t[303] 10.244.1.6:37368 172.66.147.243:443 TCP\n"
        " >\n"
        '"Egress CNP evaluation" id=303 tier="Admin" npolicies=4 action="Deny"\n'
        '"Packet denied by egress policy" id=303 decidedIn="Egress" decidedTier="Admin"'
        ' policy="default-deny" rule=0\n'
        '"Finished syncing packet" id=303 duration="171.516µs" verdict="drop"\n'
    )


def test_every_tier_that_is_asked_says_something() -> None:
    policies: list[ClusterObject] = [
        *ADMIN,
        netpol("tools/from-a", ingress=[allow(pods(select({"app": "a"})))]),
        netpol("tools/more", ingress=[]),
        netpol("tools/egress-only", egress=[]),
        cnp("baseline", Tier.BASELINE, ingress=[deny(pods())]),
    ]
    text = plain(entries(policies, A, B))
    assert [line for line in text.splitlines() if "npolicies" in line] == [
        '"Egress CNP evaluation" id=303 tier="Admin" npolicies=4 action="Pass"',
        '"Egress CNP evaluation" id=303 tier="Baseline" npolicies=1 action="Pass"',
        '"Ingress CNP evaluation" id=303 tier="Admin" npolicies=4 action="Pass"',
        (
            '"Ingress NetworkPolicies" id=303 tier="NetworkPolicy" npolicies=2 action="Accept"'
            " allowed=true"
        ),
    ]
    assert text.count('"Evaluating packet"') == 2
    assert '"Packet accepted by policy" id=303 decidedIn="Ingress"' in text
    assert text.endswith('verdict="accept"\n')


def test_an_isolated_pod_is_denied_by_all_that_isolate_it() -> None:
    policies: list[ClusterObject] = [netpol("tools/x", ingress=[]), netpol("tools/y", ingress=[])]
    text = plain(entries(policies, OUTSIDE, B))
    assert 'direction="Egress" srcPod="external" dstPod="tools/web"' in text
    assert 'npolicies=2 action="Deny" allowed=false\n"Packet denied by ingress policy"' in text
    assert 'isolatedBy=["tools/x","tools/y"]' in text


def test_nobody_is_asked_where_no_policy_selects() -> None:
    text = plain(entries([], A, B))
    assert "npolicies" not in text
    assert 'decidedIn="Ingress" decidedTier="Default"\n' in text
    text = plain(entries([*ADMIN], A, A))  # a pod to itself
    assert "npolicies" not in text


def test_protocols_without_ports_have_port_0() -> None:
    assert f"\t[303] {A}:0 {OUTSIDE}:0 ICMP\n" in entries([], A, OUTSIDE, protocol=1)
    assert f"\t[303] {A}:0 {OUTSIDE}:0 unknown\n" in entries([], A, OUTSIDE, protocol=-1)


def test_a_dry_run_accepts_what_it_denies() -> None:
    text = plain(entries([*ADMIN], A, OUTSIDE, accepted=True))
    assert '"Packet denied by egress policy"' in text
    assert " enforced=false\n" in text
    assert text.endswith('verdict="accept"\n')


def test_json_has_the_same_entries() -> None:
    documents = [json.loads(s) for s in entries([*ADMIN], A, OUTSIDE, form="json").splitlines()]
    assert documents[0] == {
        "ts": 1795984680123.456,
        "caller": "networkpolicy/logging.go:1",
        "msg": "Evaluating packet",
        "v": 0,
        "id": 303,
        "direction": "Egress",
        "srcPod": "sandbox-team-a/agent",
        "dstPod": "external",
        "packet": {
            "ID": 303,
            "Family": "IPv4",
            "SrcIP": A,
            "DstIP": OUTSIDE,
            "Proto": "TCP",
            "SrcPort": 37368,
            "DstPort": 443,
        },
    }
    assert [(each["msg"], each["v"]) for each in documents[1:]] == [
        ("Egress CNP evaluation", 2),
        ("Packet denied by egress policy", 2),
        ("Finished syncing packet", 2),
    ]
    assert (documents[1]["tier"], documents[1]["npolicies"]) == ("Admin", 4)
    assert (documents[3]["duration"], documents[3]["verdict"]) == ("171.516µs", "drop")


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_is_no_packet_is_read_too(form: Format) -> None:
    lines = PacketLines(form)
    reader = LogReader(NS)
    (entry,) = reader.line(lines.unreadable(NS, 5, accepted=False))
    assert (entry.id, entry.verdict, entry.src.ip) == (5, "deny", None)
    assert reader.line(lines.left_out(NS, {"allow": 12, "deny": 3}, 1.25, "blocked")) == []
    (omission,) = reader.omissions
    assert (omission.ts, omission.omitted) == (
        "2026-11-29T20:38:00.123456Z",
        {"allow": 12, "deny": 3},
    )
    assert (omission.seconds, omission.reason) == (1.25, "blocked")
    assert not reader.counts
    assert reader.understood == 2


def test_rules_that_are_compiled_anew_are_not_mistaken_for_old_ones() -> None:
    lines = PacketLines("text")
    for name in ("one", "two"):
        engine = PolicyEngine()
        snapshot = snapshot_of([AGENT, cnp(name, egress=[deny(networks("0.0.0.0/0"))])])
        engine.load(snapshot)
        packet = Packet(address(A), address(OUTSIDE), 6, 1, 2)
        decision = engine.evaluate(packet, now=0.0)
        flow = FlowFacts(NS, 1, *packet[:5], AGENT.key, None)
        text = lines.packet(decision, flow, snapshot, accepted=False, took_ns=0).decode()
        assert f'policy="{name}"' in text
