"""A connection of a capture as the verdict record of every door."""

from knp_py.engine.flows import Flow
from knp_py.model.objects import Pod
from knp_py.verdicts.record import FlowFacts, Record, record


def flow_record(flow: Flow) -> Record:
    """The record of a connection; its time is rounded to the microsecond it prints."""
    key = flow.key
    return record(
        flow.decision,
        FlowFacts(
            ts_ns=round(flow.first * 1e6) * 1000,
            id=flow.number,
            src=key.src,
            dst=key.dst,
            protocol=key.protocol,
            sport=key.sport,
            dport=key.dport,
            src_pod=_key(flow.pod),
            dst_pod=_key(flow.target),
            packets=flow.packets,
            octets=flow.bytes,
            names=flow.names,
            note=flow.note,
            service=None if flow.service is None else flow.service.key,
        ),
    )


def _key(pod: Pod | None) -> str | None:
    return None if pod is None else pod.key
