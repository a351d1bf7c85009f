"""Metrics as Prometheus reads them: values in, the text that the scraper asked for out."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector


class Sample(Protocol):
    """One value. ``labels`` are (name, value); the metric's name gets ``suffix``."""

    @property
    def suffix(self) -> str: ...  # noqa: D102

    @property
    def labels(self) -> Sequence[tuple[str, str]]: ...  # noqa: D102

    @property
    def value(self) -> float: ...  # noqa: D102


class Family(Protocol):
    """A metric under the name it is to have, a counter's ``_total`` included."""

    @property
    def kind(self) -> str: ...  # noqa: D102

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def help(self) -> str: ...  # noqa: D102

    @property
    def samples(self) -> Sequence[Sample]: ...  # noqa: D102


class _Once(Collector):
    """What prometheus-client takes for a registry: one scrape's values."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)


_process = ProcessCollector(registry=None)


def render(families: Iterable[Family], accept: str) -> tuple[str, bytes]:
    """Content type and text, for an HTTP Accept header.

    This process's own are added: resident memory, processor time, open files.
    """
    encode, content_type = choose_encoder(accept)
    metrics = [_metric(family) for family in families]
    return content_type, encode(_Once([*metrics, *_process.collect()]))


def _metric(family: Family) -> Metric:
    # prometheus-client puts a counter's ending back where the format has it.
    name = family.name.removesuffix("_total") if family.kind == "counter" else family.name
    metric = Metric(name, family.help, family.kind)
    for sample in family.samples:
        metric.add_sample(family.name + sample.suffix, dict(sample.labels), sample.value)
    return metric
