import threading

import pytest

from knp_py.agent.families import FAMILIES, Sample
from knp_py.agent.metrics import Metrics
from knp_py.model.decision import Decision, Ruling, Verdict
from knp_py.model.policy import Direction, Tier


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(version="1.2", mode="fail-open", max_policies=3)


def samples(metrics: Metrics, name: str) -> list[Sample] | None:
    for family in metrics.families():
        if family.name == name:
            return list(family.samples)
    return None


def values(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(value for _, value in each.labels): each.value
        for each in samples(metrics, name) or []
    }


def denied(policy: str | None, verdict: Verdict = Verdict.DENY) -> Decision:
    ruling = Ruling(False, Direction.EGRESS, Tier.ADMIN, policy)
    return Decision(verdict, ruling, None, ruling)


def test_what_is_there_from_the_start(metrics: Metrics) -> None:
    assert samples(metrics, "knp_info") == [
        Sample("", (("version", "1.2"), ("mode", "fail-open")), 1.0)
    ]
    assert values(metrics, "knp_internal_errors_total") == {(): 0}
    assert values(metrics, "knp_verdicts_total") == {}
    assert samples(metrics, "knp_generation") is None


def test_verdicts_are_counted_by_what_decided(metrics: Metrics) -> None:
    one, two = denied("a"), denied("a")
    metrics.verdict_cell(one)[0] += 1
    metrics.verdict_cell(two)[0] += 2
    metrics.verdict_cell(denied("a", Verdict.ALLOW))[0] += 1
    metrics.verdict_cell(denied(None))[0] += 1
    metrics.verdict_cell(Decision(Verdict.UNKNOWN, None, None, None, "why"))[0] += 1
    assert values(metrics, "knp_verdicts_total") == {
        ("deny", "egress", "Admin", "a"): 3,
        ("allow", "egress", "Admin", "a"): 1,
        ("deny", "egress", "Admin", ""): 1,
        ("unknown", "", "", ""): 1,
    }


def test_policies_beyond_a_bound_are_counted_together(metrics: Metrics) -> None:
    for number in range(10):
        metrics.verdict_cell(denied(f"p{number}"))[0] += 1
    metrics.verdict_cell(denied("p1"))[0] += 1
    metrics.verdict_cell(denied(None))[0] += 1
    found = {labels[3]: n for labels, n in values(metrics, "knp_verdicts_total").items()}
    assert found == {"p0": 1, "p1": 2, "p2": 1, "other": 7, "": 1}


def test_packets_by_queue(metrics: Metrics) -> None:
    metrics.watch("knp_packets_total", lambda: {"100": 5, "101": 0})
    assert values(metrics, "knp_packets_total") == {("100",): 5, ("101",): 0}


def test_cells_without_labels(metrics: Metrics) -> None:
    for cell, name in (
        (metrics.internal_errors, "knp_internal_errors_total"),
        (metrics.unreadable, "knp_unreadable_total"),
        (metrics.shadow_differences, "knp_shadow_differences_total"),
    ):
        cell[0] += 2
        assert values(metrics, name) == {(): 2}


def test_numbers_of_records(metrics: Metrics) -> None:
    assert [metrics.next_id() for _ in range(3)] == [1, 2, 3]


def test_times_fall_into_buckets_that_add_up(metrics: Metrics) -> None:
    for nanoseconds in (0, 5_000, 5_001, 30_000, 100_000_000, 100_000_001):
        metrics.observe(nanoseconds)
    found = samples(metrics, "knp_verdict_seconds")
    assert found is not None
    buckets = {each.labels[0][1]: each.value for each in found if each.suffix == "_bucket"}
    assert list(buckets) == [
        "5e-06", "1e-05", "2.5e-05", "5e-05", "0.0001", "0.00025", "0.0005", "0.001", "0.0025",
        "0.005", "0.01", "0.025", "0.05", "0.1", "+Inf",
    ]  # fmt: skip
    assert (buckets["5e-06"], buckets["1e-05"], buckets["5e-05"]) == (2, 3, 4)
    assert (buckets["0.05"], buckets["0.1"], buckets["+Inf"]) == (4, 5, 6)
    rest = {each.suffix: each.value for each in found if each.suffix != "_bucket"}
    assert rest == {"_count": 6, "_sum": pytest.approx(0.200040002)}


def test_sources_are_asked_when_somebody_scrapes(metrics: Metrics) -> None:
    generation = [1]
    metrics.watch("knp_generation", lambda: generation[0])
    metrics.watch("knp_objects", lambda: {"Pod": 3})
    metrics.watch("knp_queue_dropped_total", lambda: {("100", "queue-full"): 4})
    metrics.watch("knp_names", lambda: None)
    generation[0] = 7
    assert values(metrics, "knp_generation") == {(): 7}
    assert samples(metrics, "knp_objects") == [Sample("", (("kind", "Pod"),), 3)]
    assert samples(metrics, "knp_queue_dropped_total") == [
        Sample("", (("queue", "100"), ("reason", "queue-full")), 4)
    ]
    assert samples(metrics, "knp_names") is None


def test_only_what_is_documented_can_be_watched(metrics: Metrics) -> None:
    with pytest.raises(KeyError, match="knp_nonsense"):
        metrics.watch("knp_nonsense", lambda: 1)


def test_a_source_that_fails_costs_its_own_metric_only(metrics: Metrics) -> None:
    def fails() -> float:
        raise OSError("gone")

    metrics.watch("knp_queue_depth", fails)
    metrics.watch("knp_objects", lambda: {("Pod", "Node"): 3})  # one label too many
    metrics.watch("knp_names", lambda: 5)
    for _ in range(2):
        names = {family.name for family in metrics.families()}
    assert not names & {"knp_queue_depth", "knp_objects"}
    assert "knp_names" in names
    assert values(metrics, "knp_scrape_errors_total") == {
        ("knp_queue_depth",): 3,
        ("knp_objects",): 3,
    }


def test_labels_of_a_source_are_bounded(metrics: Metrics) -> None:
    problems = {f"problem {number}": 1.0 for number in range(300)}
    metrics.watch("knp_unparsed_total", lambda: problems)
    found = values(metrics, "knp_unparsed_total")
    assert len(found) == 201
    assert found["other",] == 100
    problems["problem 299"] += 1
    assert values(metrics, "knp_unparsed_total")["other",] == 101


def test_a_scrape_in_the_middle_of_everything(metrics: Metrics) -> None:
    """Cells appear while another thread scrapes; nothing is missing, nothing fails."""
    metrics = Metrics(version="1", mode="m", max_policies=100_000)
    stop = threading.Event()
    failures: list[object] = []

    def scrape() -> None:
        while not stop.is_set():
            failures.extend(values(metrics, "knp_scrape_errors_total"))

    thread = threading.Thread(target=scrape)
    thread.start()
    for number in range(5000):
        metrics.verdict_cell(denied(f"p{number}"))[0] += 1
        metrics.observe(number)
    stop.set()
    thread.join()
    assert failures == []
    assert len(values(metrics, "knp_verdicts_total")) == 5000


def test_every_metric_can_have_a_value(metrics: Metrics) -> None:
    for each in FAMILIES:
        if each.kind != "histogram" and each.name != "knp_verdicts_total":
            keys = {1: {"a": 1.0}, 2: {("a", "b"): 1.0}}
            value = keys.get(len(each.labels), 1.0)
            metrics.watch(each.name, lambda value=value: value)  # type: ignore[misc]
    assert [family.name for family in metrics.families()] == [each.name for each in FAMILIES]
