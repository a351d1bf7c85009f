"""What the engine and the log count anyway, as sources of metrics.

Asked by the thread that scrapes, while the packet thread goes on: ``dict(...)`` of a counter
is a copy that no other thread can come between.
"""

from collections import Counter
from collections.abc import Sequence

from knp_py.agent.linelog import LineLog
from knp_py.agent.metrics import Metrics
from knp_py.engine.datapath import Datapath
from knp_py.engine.names import DomainCache

_ADDRESSES = "addresses"  # which the snooper counts beside the answers


def watch_engine(
    metrics: Metrics, *, datapath: Datapath, names: DomainCache, logs: Sequence[LineLog]
) -> None:
    """Let the metrics show what these know: names, DNS answers, odd packets, lines left out."""
    counts = datapath.snooper.counts

    def answers() -> dict[str, float]:
        return {reason: n for reason, n in dict(counts).items() if reason != _ADDRESSES}

    metrics.watch("knp_dns_answers_total", answers)
    metrics.watch("knp_dns_addresses_total", lambda: counts[_ADDRESSES])

    def omitted() -> dict[tuple[str, str], float]:
        total: Counter[tuple[str, str]] = Counter()
        for log in logs:
            total.update(dict(log.omitted))
        return dict(total)

    metrics.watch("knp_names", lambda: len(names))
    metrics.watch("knp_names_evicted_total", lambda: names.evicted)
    metrics.watch("knp_unparsed_total", lambda: dict(datapath.unparsed))
    metrics.watch("knp_log_lines_omitted_total", omitted)
