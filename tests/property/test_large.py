"""The oracle again, on clusters too large to draw: dozens of policies on every pod."""

from collections.abc import Sequence

import msgspec
import pytest
from helpers import builders as b
from helpers import clusters as c
from helpers.explaining import explained
from helpers.judging import answered, engine_of, snapshot_of, state_of
from helpers.large import Maker
from helpers.oracle import Oracle

from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.names import DomainCache
from knp_py.engine.snapshot import Snapshot
from knp_py.model.changes import Change, ClusterObject, Verb
from knp_py.model.packet import Packet
from knp_py.model.policy import ClusterNetworkPolicy, NetworkPolicy


@pytest.mark.parametrize("seed", range(6))
def test_large_clusters(seed: int) -> None:
    maker = Maker(seed)
    objects = maker.cluster()
    learned = maker.learned(objects)
    engine = engine_of(objects, learned)
    oracle = Oracle(objects, learned)
    for packet in maker.packets(objects, 150):
        assert answered(engine.evaluate(packet, now=0.0)) == oracle.judge(packet), packet


@pytest.mark.parametrize("seed", range(200, 206))
def test_explanations_in_large_clusters(seed: int) -> None:
    maker = Maker(seed)
    objects = maker.cluster(pods=12, policies=12)
    learned = maker.learned(objects)
    engine = engine_of(objects, learned)
    oracle = Oracle(objects, learned)
    for packet in maker.packets(objects, 60):
        explained(engine, oracle, packet)


@pytest.mark.parametrize("seed", range(6))
def test_large_clusters_changed_in_place(seed: int) -> None:
    maker = Maker(100 + seed)
    objects = maker.cluster()
    packets = maker.packets(objects, 150)
    state = state_of(objects)
    for _ in range(40):
        index = maker.rng.randrange(len(objects))
        old = objects[index]
        if maker.rng.random() < 0.2:
            state.apply(Change(Verb.DELETED, old))
            objects.pop(index)
        else:
            objects[index] = changed(maker, old)
            state.apply(Change(Verb.APPLIED, objects[index]))
        if maker.rng.random() < 0.5:
            same_as_fresh(state.snapshot(), objects, packets[:20])
    same_as_fresh(state.snapshot(), objects, packets)


def changed(maker: Maker, old: ClusterObject) -> ClusterObject:
    match old:
        case NetworkPolicy():
            new = maker.network_policy(0)
            rules = b.netpol(old.key, egress=new.rules[0], ingress=new.rules[1]).rules
            return msgspec.structs.replace(old, pods=new.pods, rules=rules)
        case ClusterNetworkPolicy():
            return msgspec.structs.replace(maker.cluster_policy(0), name=old.name)
        case _:
            return c.relabelled(old, maker.labels())


def same_as_fresh(
    snapshot: Snapshot, objects: Sequence[ClusterObject], packets: Sequence[Packet]
) -> None:
    kept, fresh = PolicyEngine(names=DomainCache()), PolicyEngine(names=DomainCache())
    kept.load(snapshot)
    fresh.load(snapshot_of(objects))
    for packet in packets:
        assert kept.evaluate(packet, now=0.0) == fresh.evaluate(packet, now=0.0), packet
