"""An explanation ends where the decision does, and says of each rule what the oracle says."""

import pytest
from helpers import clusters as c
from helpers.explaining import explained
from helpers.judging import engine_of
from helpers.oracle import Oracle
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.slow


@settings(max_examples=settings().max_examples // 2)
@given(data=st.data())
def test_an_explanation_agrees_with_decision_and_oracle(data: st.DataObject) -> None:
    cluster = data.draw(c.clusters())
    engine = engine_of(cluster.objects, cluster.learned)
    oracle = Oracle(cluster.objects, cluster.learned)
    for packet in data.draw(st.lists(c.packets(cluster.pods), min_size=1, max_size=12)):
        explained(engine, oracle, packet)
