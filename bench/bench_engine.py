"""Decisions and compilation, as ratios from one run."""

from collections.abc import Callable
from typing import Any

import pytest

from bench.measure import paired
from bench.scenarios import POD_BASE, changes, cluster, make_pod
from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.names import DomainCache
from knp_py.engine.snapshot import Snapshot
from knp_py.engine.state import ClusterState
from knp_py.model.changes import Change, Verb
from knp_py.model.net import parse_address
from knp_py.model.packet import Packet, Proto

SMALL = {"cluster_policies": 5, "network_policies": 5, "pods": 100}
LARGE = {"cluster_policies": 100, "network_policies": 1000, "pods": 10_000}
OUTSIDE = parse_address("203.0.113.9")


def compiled(**size: Any) -> ClusterState:
    """A cluster of that size, its first snapshot made."""
    state = ClusterState()
    state.apply_all(changes(cluster(**size)))
    state.snapshot()
    return state


def packets(count: int = 500) -> list[Packet]:
    """The same connections whatever the cluster's size: among its first 100 pods, and out."""
    made = []
    for n in range(count):
        src = POD_BASE + n * 7 % 100
        dst = POD_BASE + n * 13 % 100 if n % 4 else OUTSIDE + n % 64
        made.append(Packet(src, dst, int(Proto.TCP), 40000, (8080, 443, 80)[n % 3]))
    return made


def judge_all(snapshot: Snapshot, flows: list[Packet]) -> Callable[[], None]:
    """Decide each without the memo; the compiled tables are there, as after the first packet."""
    engine = PolicyEngine(DomainCache())
    engine.load(snapshot)
    judge = engine.judge

    def go() -> None:
        for packet in flows:
            judge(packet, 0.0)

    go()
    return go


def evaluate_all(snapshot: Snapshot, flows: list[Packet]) -> Callable[[], None]:
    """Decide each through the one door, remembered from the round before."""
    engine = PolicyEngine(DomainCache())
    engine.load(snapshot)

    def go() -> None:
        for packet in flows:
            engine.evaluate(packet, now=0.0)

    go()
    return go


def look_up_all(flows: list[Packet]) -> Callable[[], None]:
    """One dictionary lookup each, by a tuple of four that exists already."""
    keys = [(p.src, p.dst, p.protocol, p.dport) for p in flows]
    table = {(POD_BASE + n, POD_BASE + n + 1, 6, n): n for n in range(10_000)}
    table.update(dict.fromkeys(keys, 0))

    def go() -> None:
        for key in keys:
            table[key]

    return go


@pytest.fixture(scope="module")
def large() -> ClusterState:
    return compiled(**LARGE)


@pytest.fixture(scope="module")
def small() -> ClusterState:
    return compiled(**SMALL)


def test_cold_decision_large_against_small(
    benchmark: Any, large: ClusterState, small: ClusterState
) -> None:
    flows = packets()
    subject = judge_all(large.snapshot(), flows)
    result = paired(subject, judge_all(small.snapshot(), flows))
    benchmark.extra_info["ratio, at most 1.5"] = result.ratio
    benchmark(subject)
    report("cold decision, large / small cluster", result.ratio, 1.5, result.subject / len(flows))
    assert result.ratio <= 1.5


def test_cold_decision_against_a_dictionary_lookup(benchmark: Any, large: ClusterState) -> None:
    flows = packets()
    subject = judge_all(large.snapshot(), flows)
    result = paired(subject, look_up_all(flows))
    benchmark.extra_info["ratio, at most 60"] = result.ratio
    benchmark(subject)
    report("cold decision / dictionary lookup", result.ratio, 60, result.subject / len(flows))
    assert result.ratio <= 60


def test_cold_decision_with_all_policies_in_one_namespace(benchmark: Any) -> None:
    flows = packets()
    subject = judge_all(compiled(**LARGE, one_namespace=True).snapshot(), flows)
    result = paired(subject, look_up_all(flows))
    benchmark.extra_info["ratio, at most 60"] = result.ratio
    benchmark(subject)
    report("the same, 1,000 policies share a namespace", result.ratio, 60,
           result.subject / len(flows))  # fmt: skip
    assert result.ratio <= 60


def test_warm_decision_against_a_dictionary_lookup(benchmark: Any, large: ClusterState) -> None:
    flows = packets()
    subject = evaluate_all(large.snapshot(), flows)
    result = paired(subject, look_up_all(flows))
    benchmark.extra_info["ratio, at most 15"] = result.ratio
    benchmark(subject)
    report("warm decision / dictionary lookup", result.ratio, 15, result.subject / len(flows))
    assert result.ratio <= 15


def test_one_pod_added_or_relabelled_against_a_full_compile(benchmark: Any) -> None:
    state = compiled(**LARGE)
    number = iter(range(10_000, 1_000_000))

    def add() -> None:
        state.apply(Change(Verb.APPLIED, make_pod(next(number))))
        state.snapshot()

    def relabel() -> None:
        state.apply(Change(Verb.APPLIED, make_pod(next(number) % 10_000, app=next(number) % 10)))
        state.snapshot()

    def full() -> None:
        compiled(**LARGE)

    added = paired(add, full, rounds=5)
    relabelled = paired(relabel, full, rounds=5)
    benchmark.extra_info["ratio, under 1/200"] = [added.ratio, relabelled.ratio]
    benchmark(add)
    report("one pod added / full compile", added.ratio, 1 / 200, added.subject)
    report("one pod relabelled / full compile", relabelled.ratio, 1 / 200, relabelled.subject)
    report("full compile", 1.0, None, added.reference)
    assert added.ratio < 1 / 200
    assert relabelled.ratio < 1 / 200


def report(what: str, ratio: float, limit: float | None, seconds: float) -> None:
    """One line for bench/README.md."""
    bound = "" if limit is None else f" (at most {limit:g})"
    print(f"\nFIGURE {what}: ratio {ratio:.4g}{bound}, {seconds * 1e6:.4g} µs")
