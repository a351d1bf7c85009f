"""Every metric of the agent: the names, what they mean, and the shape of their values.

Names follow Prometheus: base units, ``_total`` for what only grows. Every label has few
values by nature, or ``agent.metrics`` holds it to a bound.
"""

from typing import Final, Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]


class Described(NamedTuple):
    """A metric as it is documented. ``labels`` are in the order that its values have them."""

    kind: Kind
    name: str
    help: str
    labels: tuple[str, ...] = ()


class Sample(NamedTuple):
    """One line: the metric's name gets ``suffix``, labels are (name, value)."""

    suffix: str
    labels: tuple[tuple[str, str], ...]
    value: float


class Family(NamedTuple):
    """A metric and its values, as somebody who scrapes gets them."""

    kind: Kind
    name: str
    help: str
    samples: tuple[Sample, ...]


FAMILIES: Final = (
    Described("gauge", "knp_info", "Always 1; says what runs and how.", ("version", "mode")),
    Described(
        "counter",
        "knp_verdicts_total",
        "Verdicts given, by the policy that decided: empty where none did, the first where"
        " several isolate, other beyond a bound.",
        ("verdict", "direction", "tier", "policy"),
    ),
    Described("histogram", "knp_verdict_seconds", "Time from reading a packet to its verdict."),
    Described(
        "counter", "knp_packets_total", "Packets read from the kernel's queues.", ("queue",)
    ),
    Described("gauge", "knp_queue_depth", "Packets that wait in a queue now.", ("queue",)),
    Described(
        "counter",
        "knp_queue_dropped_total",
        "Packets without room in the queue (queue-full) or its socket (socket-full).",
        ("queue", "reason"),
    ),
    Described(
        "counter",
        "knp_bypassed_total",
        "New connections that passed unjudged, because nobody read the queue.",
    ),
    Described(
        "gauge",
        "knp_learned_set_size",
        "Connections whose verdict the kernel remembers now.",
        ("set",),
    ),
    Described(
        "counter",
        "knp_remembered_total",
        "New connections that the kernel answered from memory.",
        ("verdict",),
    ),
    Described(
        "counter",
        "knp_dns_answers_total",
        "DNS answers heard, by what came of them; only learned ones open anything.",
        ("reason",),
    ),
    Described("counter", "knp_dns_addresses_total", "Addresses learned from DNS answers."),
    Described("gauge", "knp_names", "Learned (pod, name, address) held now."),
    Described(
        "counter",
        "knp_names_evicted_total",
        "Learned addresses that went before their time for want of room.",
    ),
    Described("gauge", "knp_name_file_bytes", "Size of the file that takes names over a restart."),
    Described(
        "counter", "knp_name_file_lost_total", "Names that could not be written to that file."
    ),
    Described(
        "gauge", "knp_generation", "Number of the policies in force; every change adds one."
    ),
    Described("gauge", "knp_objects", "Objects in force.", ("kind",)),
    Described("gauge", "knp_managed_pods", "Pods whose connections are judged here."),
    Described(
        "gauge",
        "knp_policy_problems",
        "Problems in the objects: what has one keeps its last good version, if it had one.",
    ),
    Described(
        "gauge",
        "knp_source_age_seconds",
        "Time since the objects in force were last known to be all there are: manifests were"
        " read, or the API server was heard.",
    ),
    Described(
        "gauge", "knp_api_age_seconds", "Time since the API server was heard.", ("resource",)
    ),
    Described("counter", "knp_api_events_total", "Events of watches.", ("resource",)),
    Described("counter", "knp_api_lists_total", "Complete lists.", ("resource",)),
    Described(
        "counter",
        "knp_api_failures_total",
        "Requests that failed or broke off.",
        ("resource",),
    ),
    Described(
        "gauge",
        "knp_status_writer",
        "Whether this is the node that writes the status of policies: 1 on one of all.",
    ),
    Described(
        "counter",
        "knp_api_writes_total",
        "What was to be written to the API server (lease, condition, event), by what came of it:"
        " written, unchanged, gone, conflict, left_out, failed.",
        ("what", "result"),
    ),
    Described(
        "counter",
        "knp_shadow_differences_total",
        "Verdicts that the candidate policies would have given differently.",
    ),
    Described(
        "counter",
        "knp_unparsed_total",
        "Packets judged on their addresses alone, by what is wrong with the rest.",
        ("problem",),
    ),
    Described("counter", "knp_unreadable_total", "Packets without a readable IP header: dropped."),
    Described(
        "counter",
        "knp_internal_errors_total",
        "Packets that the fail mode answered because judging them failed: each is a bug.",
    ),
    Described(
        "counter",
        "knp_log_lines_omitted_total",
        "Verdict records left out: beyond the limit, or because nobody read the log.",
        ("reason", "verdict"),
    ),
    Described(
        "counter",
        "knp_scrape_errors_total",
        "Times that a metric was missing from a scrape because its source failed.",
        ("metric",),
    ),
)
