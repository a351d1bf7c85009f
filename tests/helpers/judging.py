"""The engine behind the words the oracle uses, so that their answers compare."""

from collections.abc import Iterable, Sequence

from helpers.oracle import Answer, Learned, Oracle, Ruled

from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.names import DomainCache
from knp_py.engine.snapshot import Snapshot
from knp_py.engine.state import ClusterState
from knp_py.model.changes import Change, ClusterObject, Verb
from knp_py.model.decision import Decision, Ruling
from knp_py.model.packet import Packet
from knp_py.model.policy import Tier


def state_of(objects: Iterable[ClusterObject]) -> ClusterState:
    state = ClusterState()
    for obj in objects:
        state.apply(Change(Verb.APPLIED, obj))
    return state


def snapshot_of(objects: Iterable[ClusterObject]) -> Snapshot:
    return state_of(objects).snapshot()


def engine_of(objects: Sequence[ClusterObject], learned: Sequence[Learned] = ()) -> PolicyEngine:
    """An engine that holds these objects and, heard at time 0, these names."""
    names = DomainCache()
    engine = PolicyEngine(names=names)
    snapshot = snapshot_of(objects)
    engine.load(snapshot)
    teach(names, snapshot, learned)
    return engine


def teach(
    names: DomainCache, snapshot: Snapshot, learned: Iterable[Learned], now: float = 0.0
) -> None:
    """Tell the cache what the answers said; ``expires`` is 30 to 300 s after ``now``."""
    for entry in learned:
        pod = snapshot.pods.get(entry.pod_uid)
        if pod is not None:
            ttl = int(entry.expires - now)
            names.learn(pod, entry.name, entry.address, ttl=ttl, now=now, source=None)


def ruled(ruling: Ruling | None) -> Ruled | None:
    """A ruling in the oracle's terms. NetworkPolicies have no action of their own."""
    if ruling is None:
        return None
    cluster = ruling.tier in {Tier.ADMIN, Tier.BASELINE}
    isolated = ruling.tier is Tier.NETWORK_POLICY and not ruling.allowed
    return Ruled(
        ruling.allowed,
        ruling.tier,
        None if isolated else ruling.policy,
        ruling.rule,
        ruling.action if cluster else None,
        ruling.isolated_by if isolated else (),
    )


def answered(decision: Decision) -> Answer:
    return Answer(
        decision.verdict,
        ruled(decision.egress),
        ruled(decision.ingress),
        frozenset(decision.unidentified),
    )


def decisions(
    objects: Sequence[ClusterObject], packets: Iterable[Packet], learned: Sequence[Learned] = ()
) -> list[Decision]:
    engine = engine_of(objects, learned)
    return [engine.evaluate(packet, now=0.0) for packet in packets]


def oracle_answer(
    objects: Sequence[ClusterObject],
    packet: Packet,
    learned: Sequence[Learned] = (),
    now: float = 0.0,
) -> Answer:
    return Oracle(objects, learned).judge(packet, now)
