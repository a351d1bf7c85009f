"""Sets that follow changes are those that a fresh look at all pods gives."""

from collections.abc import Iterable

from helpers.fakes import FakeKernel
from helpers.histories import History, histories
from hypothesis import given
from hypothesis import strategies as st

from knp_py.agent.layout import Layout, Queues
from knp_py.agent.marks import Marks
from knp_py.agent.world import WorldKeeper, is_here, members_of
from knp_py.engine.snapshot import Snapshot
from knp_py.engine.state import ClusterState

LAYOUT = Layout("knp", Marks(), Queues((100, 100), 100, 101), False, True, False, native=False)


def nothing(addresses: Iterable[int]) -> frozenset[str]:
    del addresses
    return frozenset()


def gone_between(before: Snapshot, after: Snapshot) -> set[int]:
    """Addresses whose pod is another one now, or none."""
    return {
        address
        for address, end in before.endpoints.items()
        if (new := after.endpoints.get(address)) is None or new.pod.uid != end.pod.uid
    }


@given(histories(), st.integers(1, 5), st.sampled_from(["n1", "n2", None]))
def test_members_and_forgotten_addresses(history: History, at_once: int, node: str | None) -> None:
    forgotten: list[frozenset[int]] = []
    keeper = WorldKeeper(
        LAYOUT,
        FakeKernel([]),
        node=node,
        load=str,
        sweep=lambda: None,
        forget=forgotten.append,
        links=nothing,
        own=frozenset,
    )
    keeper.prepare(())
    keeper.install()
    plain = ClusterState()
    before = plain.snapshot()
    for start in range(0, len(history.changes), at_once):
        changes = history.changes[start : start + at_once]
        forgotten.clear()
        keeper.change(changes)
        plain.apply_all(changes)
        after = plain.snapshot()
        here = [pod for pod in after.pods.values() if is_here(pod, node)]
        assert keeper.members == members_of(after, node, here)
        assert set().union(*forgotten) == gone_between(before, after)
        before = after
