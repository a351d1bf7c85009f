"""Logs: whatever the bytes, the reader goes on; what it writes, it reads."""

from helpers.knp_logs import Flow, json_lines, text_lines
from hypothesis import given
from hypothesis import strategies as st

from knp_py.verdicts.logs import LogReader
from knp_py.verdicts.read import parse_record
from knp_py.verdicts.record import encode

NOW = 1_795_984_680_000_000_000

GOOD = [
    line.encode()
    for flow in (Flow(1, tiers=[("Egress", "Admin", "Deny")], denied="Egress"), Flow(2))
    for line in (*text_lines(flow, payload=True), *json_lines(flow))
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good line with a piece cut out and another put in."""
    line = draw(st.sampled_from(GOOD))
    start = draw(st.integers(0, len(line)))
    end = draw(st.integers(start, len(line)))
    return line[:start] + draw(st.binary(max_size=6)) + line[end:]


@given(st.lists(st.one_of(st.sampled_from(GOOD), damaged(), st.binary(max_size=60)), max_size=40))
def test_any_bytes_give_entries_or_counts_and_every_entry_can_be_written(
    lines: list[bytes],
) -> None:
    reader = LogReader(NOW)
    entries = [entry for line in lines for entry in reader.line(line + b"\n")]
    entries += reader.drain()
    assert reader.ours + reader.foreign == len(entries)
    for entry in entries:
        assert parse_record(encode(entry)) == entry


flows = st.builds(
    Flow,
    id=st.integers(1, 2**32 - 1),
    src=st.sampled_from(["10.0.0.1:1", "fd00::1:65535", "10.0.0.1:0"]),
    dst=st.sampled_from(["10.0.0.2:443", "2001:db8::5:53", "255.255.255.255:0"]),
    protocol=st.sampled_from(["TCP", "UDP", "SCTP", ""]),
    src_pod=st.sampled_from(["external", "a/b"]),
    dst_pod=st.sampled_from(["external", "c/d"]),
    denied=st.sampled_from([None, "Egress", "Ingress"]),
)


@given(st.lists(flows, unique_by=lambda flow: flow.id, max_size=6), st.randoms())
def test_packets_are_told_apart_however_their_lines_interleave(
    packets: list[Flow], chance: object
) -> None:
    queues = [[line.encode() for line in text_lines(packet)] for packet in packets]
    reader = LogReader(NOW)
    entries = []
    while any(queues):
        queue = chance.choice([q for q in queues if q])  # type: ignore[attr-defined]
        entries += reader.line(queue.pop(0))
    entries += reader.drain()
    found = {entry.id: (entry.src.pod or "external", entry.verdict) for entry in entries}
    assert found == {p.id: (p.src_pod, "deny" if p.denied else "allow") for p in packets}
