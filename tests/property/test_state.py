"""Where a cluster's objects came from does not matter; only what they are."""

from collections.abc import Sequence

import msgspec
import pytest
from helpers import builders as b
from helpers import clusters as c
from helpers.histories import History, histories, living, replayed
from helpers.judging import answered, engine_of, snapshot_of, state_of, teach
from helpers.oracle import Learned, Oracle
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.names import DomainCache
from knp_py.engine.snapshot import Snapshot
from knp_py.engine.state import ClusterState
from knp_py.model.changes import ClusterObject
from knp_py.model.decision import Decision, Verdict
from knp_py.model.packet import Packet
from knp_py.model.policy import ClusterNetworkPolicy, ClusterRule, NetworkPolicy, NetworkRule

pytestmark = pytest.mark.slow
# Histories are dear to draw and to judge at every step; a fraction of the profile's.
costly = settings(max_examples=settings().max_examples // 4)
TABLE = c.packet_table()
some_packets = st.lists(st.sampled_from(TABLE), min_size=10, max_size=40)


def judge_all(
    snapshot: Snapshot,
    packets: Sequence[Packet],
    learned: Sequence[Learned] = (),
    now: float = 0.0,
) -> list[Decision]:
    names = DomainCache()
    engine = PolicyEngine(names=names)
    engine.load(snapshot)
    teach(names, snapshot, learned)
    return [engine.evaluate(packet, now=now) for packet in packets]


@costly
@given(history=histories())
def test_the_order_of_events_does_not_matter(history: History) -> None:
    state = ClusterState()
    for change in history.changes:
        state.apply(change)
    learned = names_for(history.objects)
    assert judge_all(state.snapshot(), TABLE, learned) == judge_all(
        snapshot_of(history.objects), TABLE, learned
    )


@costly
@given(data=st.data())
def test_incremental_equals_fresh_at_every_step(data: st.DataObject) -> None:
    history = data.draw(histories())
    packets = data.draw(some_packets)
    state = ClusterState()
    kept: list[tuple[Snapshot, list[Decision]]] = []
    for count, change in enumerate(history.changes, 1):
        state.apply(change)
        snapshot = state.snapshot()
        objects = replayed(history.changes[:count])
        learned = names_for(objects)
        decided = judge_all(snapshot, packets, learned)
        assert decided == judge_all(snapshot_of(objects), packets, learned)
        lookups_agree(snapshot, objects)
        kept.append((snapshot, decided))
    for snapshot, decided in kept:
        learned = names_for(tuple(snapshot.pods.values()))
        assert judge_all(snapshot, packets, learned) == decided, "a later change reached it"


@costly
@given(data=st.data())
def test_snapshots_taken_now_and_then(data: st.DataObject) -> None:
    """Changes that fold into one snapshot, also those that undo each other."""
    history = data.draw(histories())
    state = ClusterState()
    for count, change in enumerate(history.changes, 1):
        state.apply(change)
        if data.draw(st.integers(0, 3)) == 0:
            objects = replayed(history.changes[:count])
            packets = data.draw(some_packets)
            assert judge_all(state.snapshot(), packets) == judge_all(snapshot_of(objects), packets)


def names_for(objects: Sequence[ClusterObject]) -> list[Learned]:
    """Every live pod has heard the same two answers."""
    return [
        Learned(pod.uid, name, b.address(address), 60.0)
        for pod in c.Cluster(tuple(objects)).pods
        for name, address in (("api.example.com", "203.0.113.5"), ("example.com", "2001:db8::5"))
    ]


def lookups_agree(snapshot: Snapshot, objects: Sequence[ClusterObject]) -> None:
    oracle = Oracle(objects)
    assert {pod.uid: pod for pod in oracle.pods} == dict(snapshot.pods)
    for address in c.ADDRESSES:
        assert snapshot.pod_at(address) == oracle.pod_at(address)
        node = snapshot.node_at(address)
        owned = oracle.pod_at(address) is None and oracle.node_address(address)
        assert (node is not None) == owned
        assert node is None or address in node.ips
    for pod in oracle.pods:
        assert snapshot.pod_by_key(pod.key) == pod
    assert {p.key: p for p in oracle.network_policies} == dict(snapshot.network_policies)
    assert {p.name: p for p in oracle.cluster_policies} == dict(snapshot.cluster_policies)


@costly
@given(data=st.data())
def test_one_engine_through_changes_names_and_time_equals_the_oracle(
    data: st.DataObject,
) -> None:
    history = data.draw(histories())
    half = data.draw(st.integers(0, len(history.changes)))
    state = ClusterState()
    for change in history.changes[:half]:
        state.apply(change)
    names = DomainCache()
    engine = PolicyEngine(names=names)
    engine.load(state.snapshot())
    learned: list[Learned] = []
    now = 0.0
    count = half
    packets = data.draw(
        st.lists(c.packets(c.Cluster(history.objects).pods), min_size=1, max_size=12)
    )
    for step in data.draw(st.lists(st.sampled_from(("change", "learn", "tick")), max_size=12)):
        if step == "change" and count < len(history.changes):
            state.apply(history.changes[count])
            count += 1
            engine.load(state.snapshot())
        if step == "learn":
            heard = data.draw(c.learned(c.Cluster(replayed(history.changes[:count])).pods))
            heard = [entry._replace(expires=entry.expires + now) for entry in heard]
            teach(names, state.snapshot(), heard, now)
            learned += heard
        if step == "tick":
            now += data.draw(st.sampled_from((0.5, 29.5, 30.0, 60.0, 270.0)))
        oracle = Oracle(replayed(history.changes[:count]), learned)
        for packet in packets:
            expected = oracle.judge(packet, now)
            first = engine.evaluate(packet, now=now)
            assert answered(first) == expected
            assert engine.evaluate(packet, now=now) == first
            assert first.valid_until > now
            for grant in first.grants:
                assert now < grant.expires
                assert grant.address == packet.dst


@costly
@given(data=st.data())
def test_a_decision_holds_as_long_as_it_says(data: st.DataObject) -> None:
    cluster = data.draw(c.clusters())
    engine = engine_of(cluster.objects, cluster.learned)
    for packet in data.draw(st.lists(c.packets(cluster.pods), max_size=12)):
        now = 0.0
        while now < 1000.0:
            decision = engine.evaluate(packet, now=now)
            until = min(decision.valid_until, 1000.0)
            for later in (now + (until - now) / 2, until - 0.001):
                again = engine.evaluate(packet, now=later)
                assert again.egress == decision.egress
                assert again.ingress == decision.ingress
            now = until


# Metamorphic: what must not change, and what may change one way only.


@costly
@given(data=st.data())
def test_one_more_allow_rule_never_denies(data: st.DataObject) -> None:
    objects = list(data.draw(c.clusters()).objects)
    isolating = [
        (index, policy, direction)
        for index, policy in enumerate(objects)
        if isinstance(policy, NetworkPolicy)
        for direction in (0, 1)
        if policy.rules[direction] is not None
    ]
    assume(isolating)
    index, policy, direction = data.draw(st.sampled_from(isolating))
    rules = list(policy.rules[direction] or ())
    rules.insert(data.draw(st.integers(0, len(rules))), data.draw(c.network_rules()))
    widened = [*policy.rules]
    widened[direction] = tuple(rules)
    wider = list(objects)
    wider[index] = msgspec.structs.replace(policy, rules=(widened[0], widened[1]))
    before = judge_all(snapshot_of(objects), TABLE)
    after = judge_all(snapshot_of(wider), TABLE)
    for packet, old, new in zip(TABLE, before, after, strict=True):
        assert old.verdict is Verdict.DENY or new.verdict is Verdict.ALLOW, packet


@costly
@given(data=st.data())
def test_the_order_of_documents_labels_peers_and_ports_does_not_matter(
    data: st.DataObject,
) -> None:
    # Names of objects order policies; the order in which they are read does not.
    objects = living(data.draw(c.clusters()).objects)
    shuffled = [data.draw(reordered(obj)) for obj in data.draw(st.permutations(objects))]
    learned = names_for(objects)
    before = judge_all(snapshot_of(objects), TABLE, learned)
    after = judge_all(snapshot_of(shuffled), TABLE, learned)
    assert [answered(d) for d in before] == [answered(d) for d in after]
    assert [d.decided_by for d in before] == [d.decided_by for d in after]


@st.composite
def reordered(draw: st.DrawFn, obj: ClusterObject) -> ClusterObject:
    """The same meaning written in another order; rules keep theirs, it has a meaning."""
    match obj:
        case NetworkPolicy():
            sides = [
                None if side is None else tuple(draw(reordered_rule(rule)) for rule in side)
                for side in obj.rules
            ]
            return msgspec.structs.replace(obj, rules=tuple(sides))
        case ClusterNetworkPolicy():
            return msgspec.structs.replace(
                obj, rules=tuple(tuple(draw(reordered_rule(r)) for r in s) for s in obj.rules)
            )
        case _ if hasattr(obj, "labels"):
            items = draw(st.permutations(list(obj.labels.items())))
            return msgspec.structs.replace(obj, labels=dict(items))
        case _:
            return obj


@st.composite
def reordered_rule(draw: st.DrawFn, rule: NetworkRule | ClusterRule) -> NetworkRule | ClusterRule:
    peers = rule.peers and tuple(draw(st.permutations(rule.peers)))
    ports = rule.ports and tuple(draw(st.permutations(rule.ports)))
    return msgspec.structs.replace(rule, peers=peers, ports=ports)


@costly
@given(data=st.data())
def test_source_ports_flags_and_lengths_never_matter(data: st.DataObject) -> None:
    cluster = data.draw(c.clusters())
    engine = engine_of(cluster.objects, cluster.learned)
    for packet in data.draw(st.lists(c.packets(cluster.pods), max_size=20)):
        other = packet._replace(sport=packet.sport ^ 0x5A5A, flags=0x12, wire_len=1500, seq=7)
        assert engine.evaluate(other, now=0.0) == engine.evaluate(packet, now=0.0)


@costly
@given(cluster=c.clusters())
def test_services_change_nothing(cluster: c.Cluster) -> None:
    more = b.service("a/other", "203.0.113.5", "2001:db8::5", external_ips=("8.8.8.8",))
    learned = names_for(cluster.objects)
    assert judge_all(snapshot_of(cluster.objects), TABLE, learned) == judge_all(
        snapshot_of((*cluster.objects, more)), TABLE, learned
    )


def test_deleting_what_is_not_there_is_no_change() -> None:
    state = state_of([b.pod("a/p", "10.0.0.1")])
    before = state.snapshot()
    for obj in (b.pod("a/q"), b.namespace("z"), b.node("n9"), b.netpol("a/x"), b.cnp("y")):
        state.apply(c.deleted(obj))
    assert dict(state.snapshot().pods) == dict(before.pods)
