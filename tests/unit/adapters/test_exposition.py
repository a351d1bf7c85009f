from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from knp_py.adapters.exposition import render
from knp_py.agent.families import Family, Sample
from knp_py.agent.metrics import Metrics


class Line(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


def lines(*families: Family, accept: str = "") -> list[Line]:
    """Our own of a scrape, as a scraper reads it."""
    _, text = render(families, accept)
    return [
        Line(sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if sample.name.startswith("knp_")
    ]


def test_a_counter_keeps_its_name_and_labels() -> None:
    counter = Family(
        "counter",
        "knp_verdicts_total",
        "Verdicts.",
        (
            Sample("", (("verdict", "allow"), ("policy", 'a"b\\c\nd')), 3),
            Sample("", (("verdict", "deny"), ("policy", "")), 1),
        ),
    )
    assert lines(counter) == [
        Line("knp_verdicts_total", {"verdict": "allow", "policy": 'a"b\\c\nd'}, 3),
        Line("knp_verdicts_total", {"verdict": "deny", "policy": ""}, 1),
    ]
    content_type, text = render([counter], "")
    assert content_type.startswith("text/plain")
    assert text.startswith(
        b"# HELP knp_verdicts_total Verdicts.\n# TYPE knp_verdicts_total counter\n"
    )


def test_a_gauge_and_a_metric_without_values() -> None:
    gauge = Family("gauge", "knp_names", "Names.", (Sample("", (), 0.5),))
    empty = Family("counter", "knp_packets_total", "Packets.", ())
    assert lines(gauge, empty) == [Line("knp_names", {}, 0.5)]


def test_a_histogram_is_one_to_a_scraper() -> None:
    metrics = Metrics(version="1", mode="fail-open")
    metrics.observe(7_000)
    metrics.observe(10**9)
    found = lines(*(each for each in metrics.families() if each.kind == "histogram"))
    values = {(each.name, each.labels.get("le")): each.value for each in found}
    assert values["knp_verdict_seconds_bucket", "5e-06"] == 0
    assert values["knp_verdict_seconds_bucket", "1e-05"] == 1
    assert values["knp_verdict_seconds_bucket", "+Inf"] == 2
    assert values["knp_verdict_seconds_count", None] == 2
    assert values["knp_verdict_seconds_sum", None] == 1.000007


def test_this_process_is_in_it() -> None:
    assert b"\nprocess_resident_memory_bytes " in render([], "")[1]


def test_openmetrics_for_those_who_ask() -> None:
    metrics = Metrics(version="1", mode="fail-open")
    metrics.watch("knp_packets_total", lambda: {"100": 1})
    content_type, text = render(
        metrics.families(), "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
    )
    assert content_type.startswith("application/openmetrics-text")
    assert b'\nknp_packets_total{queue="100"} 1' in text
    assert text.endswith(b"# EOF\n")
