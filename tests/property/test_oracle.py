"""The engine says what the oracle says, and names the same object."""

from helpers import clusters as c
from helpers.judging import answered, engine_of
from helpers.oracle import Oracle
from hypothesis import given, note
from hypothesis import strategies as st

from knp_py.model.decision import Decision, Verdict
from knp_py.model.packet import Packet
from knp_py.model.policy import Tier


def explain_case(cluster: c.Cluster, packet: Packet, now: float) -> None:
    for obj in cluster.objects:
        note(f"{obj}")
    for entry in cluster.learned:
        note(f"{entry}")
    note(f"{packet} at {now}")


@given(data=st.data())
def test_engine_equals_oracle(data: st.DataObject) -> None:
    cluster = data.draw(c.clusters())
    drawn = data.draw(st.lists(c.packets(cluster.pods), min_size=1, max_size=20))
    now = data.draw(st.sampled_from((0.0, 29.9, 30.0, 59.5, 60.0, 300.0)))
    engine = engine_of(cluster.objects, cluster.learned)
    oracle = Oracle(cluster.objects, cluster.learned)
    for packet in (variant for one in drawn for variant in c.variants(one)):
        expected = oracle.judge(packet, now)
        decision = engine.evaluate(packet, now=now)
        answer = answered(decision)
        if answer != expected:
            explain_case(cluster, packet, now)
        assert answer == expected
        consistent(decision)


def consistent(decision: Decision) -> None:
    """What a Decision promises about itself."""
    rulings = [ruling for ruling in (decision.egress, decision.ingress) if ruling is not None]
    assert decision.verdict is (
        Verdict.ALLOW if all(ruling.allowed for ruling in rulings) else Verdict.DENY
    )
    if decision.verdict is Verdict.DENY:
        assert decision.decided_by == rulings[-1]
    else:
        assert decision.decided_by is not None
        told = [ruling for ruling in rulings if ruling.tier is not Tier.DEFAULT] or rulings
        assert decision.decided_by == told[-1] if told else decision.decided_by.allowed
    for ruling in rulings:
        if ruling.allowed:
            assert not ruling.isolated_by
            assert ruling.action in {None, "Accept"}
        else:
            assert ruling.action in {None, "Deny"}
    if decision.grants:
        assert decision.egress is not None
        assert decision.egress.by_name
        assert decision.egress.allowed
