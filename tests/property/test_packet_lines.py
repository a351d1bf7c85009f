"""Packets' entries: what is written is read back as the record; the oracle counts policies too."""

import json
import re

import msgspec
import pytest
from helpers import clusters as c
from helpers.judging import engine_of
from helpers.oracle import Oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from knp_py.engine.snapshot import EMPTY
from knp_py.model.decision import Decision, NameGrant, Ruling, Verdict
from knp_py.model.objects import Pod
from knp_py.model.packet import Packet, Proto
from knp_py.model.policy import Direction, Tier
from knp_py.verdicts.klogentry import Format
from knp_py.verdicts.logs import LogReader
from knp_py.verdicts.packetlines import PacketLines
from knp_py.verdicts.record import FlowFacts, Record, record

NOW = 1_795_984_680_123_456_789
FORMS: tuple[Format, ...] = ("text", "json")


def facts(engine_pods: dict[int, Pod], packet: Packet, number: int) -> FlowFacts:
    source, target = engine_pods.get(packet.src), engine_pods.get(packet.dst)
    return FlowFacts(
        NOW + number * 1_000_001,
        number,
        packet.src,
        packet.dst,
        packet.protocol,
        packet.sport,
        packet.dport,
        source.key if source else None,
        target.key if target else None,
    )


def read_back(data: bytes) -> list[Record]:
    reader = LogReader(NOW)
    found = [entry for line in data.splitlines(keepends=True) for entry in reader.line(line)]
    assert reader.first_problem is None
    assert not reader.counts
    return [*found, *reader.drain()]


def as_logged(told: Record) -> Record:
    """A record without what these entries do not have."""
    return msgspec.structs.replace(told, packets=None, bytes=None)


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 2)
@given(data=st.data())
def test_what_the_engine_decides_is_read_back_as_its_record(data: st.DataObject) -> None:
    cluster = data.draw(c.clusters())
    engine = engine_of(cluster.objects, cluster.learned)
    oracle = Oracle(cluster.objects, cluster.learned)
    snapshot = engine.snapshot
    pods = {address: end.pod for address, end in snapshot.endpoints.items()}
    writers = {form: PacketLines(form) for form in FORMS}
    written = dict.fromkeys(FORMS, b"")
    expected = []
    packets = data.draw(st.lists(c.packets(cluster.pods), min_size=1, max_size=12))
    for number, packet in enumerate(packets, 1):
        decision = engine.evaluate(packet, now=0.0)
        flow = facts(pods, packet, number)
        dry = data.draw(st.booleans())
        again = data.draw(st.booleans())
        accepted = decision.verdict is Verdict.ALLOW or dry
        enforced = decision.verdict is Verdict.ALLOW or not dry
        expected.append(as_logged(record(decision, flow, enforced=enforced, again=again)))
        entries = {
            form: lines.packet(
                decision, flow, snapshot, accepted=accepted, took_ns=171_516, again=again
            )
            for form, lines in writers.items()
        }
        for form in FORMS:
            written[form] += entries[form]
        tiers = check_tiers(entries["json"], oracle, flow, decision)
        assert text_tiers(entries["text"]) == tiers
    for form in FORMS:
        assert read_back(written[form]) == expected


def text_tiers(entries: bytes) -> list[tuple[str, str, int, str]]:
    """The tiers that were asked, from text: direction, tier, how many policies, what it said."""
    found = re.findall(
        r'"(Egress|Ingress) .*" id=\d+ tier="(\w+)" npolicies=(\d+) action="(\w+)"',
        entries.decode(),
    )
    return [(direction, tier, int(count), action) for direction, tier, count, action in found]


def check_tiers(
    entries: bytes, oracle: Oracle, flow: FlowFacts, decision: Decision
) -> list[tuple[str, str, int, str]]:
    """The same from JSON, held against the oracle and the decision."""
    found = []
    for line in entries.splitlines():
        entry = json.loads(line)
        assert entry["id"] == flow.id
        if "npolicies" not in entry:
            continue
        direction = entry["msg"].split()[0]
        found.append((direction, entry["tier"], entry["npolicies"], entry["action"]))
        pod = oracle.pod_at(flow.src if direction == "Egress" else flow.dst)
        assert pod is not None
        if entry["tier"] in {"Admin", "Baseline"}:
            wanted = Tier.ADMIN if entry["tier"] == "Admin" else Tier.BASELINE
            assert entry["npolicies"] == sum(
                policy.tier is wanted and oracle.pod_peer(policy.subject, pod)
                for policy in oracle.cluster_policies
            )
    for word, ruling in (("Egress", decision.egress), ("Ingress", decision.ingress)):
        said = [(tier, action) for direction, tier, _, action in found if direction == word]
        assert all(action == "Pass" for _, action in said[:-1])
        if ruling is None:
            assert not said
        elif ruling.tier is not Tier.DEFAULT and ruling.policy is not None:
            assert said[-1] == (ruling.tier.text, ruling.action)
        elif said and ruling.tier is Tier.DEFAULT:
            assert said[-1][1] == "Pass"
    return found


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
keys = st.tuples(texts, texts).map("/".join)
maybe = st.none() | texts
addresses = st.sampled_from([1, 0xFFFF_0A00_0001, 0xFFFF_0808_0808, 1 << 127])


@st.composite
def odd_decisions(draw: st.DrawFn) -> Decision:
    """Decisions that no engine gives, with every field there is."""
    allowed = draw(st.booleans())
    ruling = Ruling(
        allowed,
        draw(st.sampled_from(Direction)),
        draw(st.sampled_from(Tier)),
        draw(maybe),
        draw(st.none() | st.integers(0, 999)),
        draw(maybe),
        "Accept" if allowed else "Deny",
        draw(maybe),
        draw(st.lists(keys, max_size=3).map(tuple)),
    )
    grants = draw(
        st.lists(
            st.builds(NameGrant, texts, texts, addresses, st.none(), st.just(9.0)), max_size=2
        )
    )
    return Decision(
        Verdict.ALLOW if allowed else Verdict.DENY,
        None,
        None,
        ruling,
        draw(maybe),
        tuple(grants),
        unidentified=draw(st.lists(addresses, max_size=2).map(tuple)),
    )


odd_flows = st.builds(
    FlowFacts,
    ts_ns=st.integers(NOW - 10**15, NOW),
    id=st.integers(1, 2**62),
    src=addresses,
    dst=addresses,
    protocol=st.sampled_from([int(each) for each in Proto]),
    sport=st.integers(0, 65535),
    dport=st.integers(0, 65535),
    src_pod=st.none() | keys,
    dst_pod=st.none() | keys,
    names=st.lists(texts, max_size=3).map(tuple),
    note=maybe,
    service=st.none() | keys,
)


@given(odd_decisions(), odd_flows, st.booleans(), st.sampled_from(FORMS))
def test_whatever_is_in_a_name_is_read_back(
    decision: Decision, flow: FlowFacts, accepted: bool, form: Format
) -> None:
    accepted = accepted or decision.verdict is Verdict.ALLOW
    entries = PacketLines(form).packet(decision, flow, EMPTY, accepted=accepted, took_ns=0)
    enforced = not (accepted and decision.verdict is Verdict.DENY)
    assert read_back(entries) == [as_logged(record(decision, flow, enforced=enforced))]
