"""How ``knp replay`` prints connections, changes and the summary."""

import sys
import textwrap
from collections.abc import Iterable
from typing import IO

import msgspec

from knp_py.cli.options import OutputFormat
from knp_py.cli.render import (
    WIDTH,
    Cell,
    Column,
    StreamTable,
    clean,
    print_table,
    verdict_cell,
)
from knp_py.engine.datapath import IPV6_CONTROL
from knp_py.engine.flows import Flow
from knp_py.engine.snapshot import Snapshot
from knp_py.engine.snoop import DnsEvent
from knp_py.model.decision import Verdict
from knp_py.model.net import format_address
from knp_py.model.packet import Proto
from knp_py.replay.records import flow_record
from knp_py.replay.runner import Replay
from knp_py.replay.summary import Summary
from knp_py.verdicts.record import End, Record, encode
from knp_py.verdicts.times import timestamp
from knp_py.verdicts.words import connection_text, decision_text

_COLUMNS = (
    Column("#", 5, right=True),
    Column("time", 10, right=True),
    Column("verdict", 7),
    Column("connection"),
)


class Changed(msgspec.Struct):
    """A connection that the other manifests judge differently: both records."""

    id: int
    before: Record
    after: Record


class ConnectionPrinter:
    """Connections as they come: two lines each for people, or JSON.

    ``lines_only`` says that standard output holds JSON lines and nothing else.
    """

    def __init__(
        self, output: OutputFormat, replay: Replay, *, diff: bool = False, live: bool = False
    ) -> None:
        self._output = output
        self._replay = replay
        self._live = live  # nobody can have answered yet
        self._table = StreamTable(_COLUMNS)
        self._begun = False
        self.unlisted = 0  # IPv6 housekeeping, which nobody wants in a table
        self._written = 0
        self._key = "changes" if diff else "connections"
        self.lines_only = output is OutputFormat.JSONL

    def connection(self, flow: Flow) -> None:
        """One connection."""
        if self._output is OutputFormat.TABLE:
            if flow.decision.decided_by is IPV6_CONTROL:
                self.unlisted += 1
                return
            self._row(flow, verdict_cell(flow.decision.verdict.value))
            self._why(decision_text(flow.decision), flow)
        else:
            self._json(encode(flow_record(flow)))

    def change(self, before: Flow, after: Flow) -> None:
        """One connection whose verdict changes."""
        if self._output is OutputFormat.TABLE:
            self._row(after, verdict_cell(after.decision.verdict.value))
            was, now = before.decision, after.decision
            self._why(f"was {was.verdict.value}: {decision_text(was)}")
            self._why(f"now {now.verdict.value}: {decision_text(now)}", after)
        else:
            changed = Changed(after.number, flow_record(before), flow_record(after))
            self._json(msgspec.json.encode(changed))

    def end(self, summary: Summary) -> None:
        """Close the JSON document: the summary is its last member."""
        if self._output is OutputFormat.JSON:
            self._open()
            summary_json = msgspec.json.encode(summary).decode()
            sys.stdout.write(f'\n],\n"summary": {summary_json}\n}}\n')

    def end_diff(self, changed: int, total: int, problems: list[str]) -> None:
        """Say how much changed."""
        if self._output is OutputFormat.JSON:
            self._open()
            sys.stdout.write(f'\n],\n"connections": {total}, "changed": {changed}\n}}\n')
            return
        out = sys.stderr if self.lines_only else sys.stdout
        print(f"{changed:,} of {total:,} connections change their verdict", file=out)
        for problem in problems:
            print(f"knp: warning: {problem}", file=sys.stderr)

    def _open(self) -> None:
        if not self._written:
            sys.stdout.write(f'{{"{self._key}": [\n')
            self._written = 1

    def _json(self, document: bytes) -> None:
        if self._output is OutputFormat.JSON:
            if self._written:
                sys.stdout.write(",\n")
            else:
                self._open()
            sys.stdout.write(document.decode())
            self._written += 1
        else:
            sys.stdout.write(document.decode() + "\n")

    def _row(self, flow: Flow, verdict: Cell) -> None:
        if not self._begun:
            self._begun = True
            print(f"time counts from {timestamp(self._replay.first_ns)}")
        since = flow.first - self._replay.first_ns * 1e-9
        snapshot = self._replay.datapath.engine.snapshot
        text = flow_text(flow, snapshot)
        self._table.entry(str(flow.number), f"{since:.6f}", verdict, text)

    def _why(self, text: str, flow: Flow | None = None) -> None:
        below = self._table.below
        below(text, style="dim")
        if flow is None:
            return
        if flow.note is not None:
            below(f"note: {flow.note}")
        for address in flow.decision.unidentified:
            text = f"{format_address(address)} lies in a pod network and is no known pod's"
            below(f"note: {text}")
        if self._live:
            return
        if flow.decision.verdict is Verdict.DENY and flow.answered:
            below("note: yet it was answered in the capture")
        if _without_answer(flow):
            why = "refused (RST)" if flow.refused else "no answer"
            below(f"note: {why} in the capture, though these policies allow it")


def _without_answer(flow: Flow) -> bool:
    """A connection that policy allows and that came to nothing all the same."""
    return (
        flow.decision.verdict is Verdict.ALLOW
        and flow.key.protocol == Proto.TCP
        and not flow.midstream
        and not flow.answered
    )


def flow_text(flow: Flow, snapshot: Snapshot) -> str:
    """A connection as its record reads, and nodes by their names."""
    made = flow_record(flow)
    return connection_text(
        msgspec.structs.replace(
            made,
            src=_named(made.src, flow.key.src, snapshot),
            dst=_named(made.dst, flow.key.dst, snapshot),
        )
    )


def _named(end: End, address: int, snapshot: Snapshot) -> End:
    node = snapshot.node_at(address)
    return end if node is None else msgspec.structs.replace(end, node=node.name)


def print_summary(
    summary: Summary,
    snapshot: Snapshot,
    events: Iterable[DnsEvent],
    *,
    unlisted: int,
    to_stderr: bool,
    alone: bool,
) -> None:
    """The counts, for people; ``alone`` when nothing was printed before them."""
    out = sys.stderr if to_stderr else sys.stdout
    verdicts = ", ".join(f"{n:,} {word}" for word, n in summary.verdicts.items())
    if not to_stderr and not alone:
        print(file=out)
    connections = f"{summary.connections:,} connection{'s' * (summary.connections != 1)}"
    packets = f"{summary.packets:,} packet{'s' * (summary.packets != 1)}"
    _say(f"{connections} in {packets} over {summary.seconds:.1f} s: {verdicts}", out)
    if summary.deciders:
        print_table(
            [Column("verdict"), Column("connections", right=True), Column("decided by")],
            [
                (verdict_cell(d.verdict), f"{d.connections:,}", d.decided_by)
                for d in summary.deciders
            ],
            stream=out,
        )
    if unlisted:
        _say(
            f"Not listed above: {unlisted:,} of IPv6 neighbour and listener discovery.",
            out,
        )
    if summary.denied_but_answered:
        _say(
            f"Denied here, yet answered in the capture: {summary.denied_but_answered:,}. These"
            " policies were not in force there, or nothing enforced them.",
            out,
        )
    if summary.service_connections:
        _say(
            f"To a Service's address, before destination NAT: {summary.service_connections:,}."
            " The same connection shows again where it has been translated.",
            out,
        )
    if summary.connections and not summary.pod_connections:
        _say(
            "No address in this capture is a pod of these manifests, so no policy applies to it."
            f" The manifests hold {len(snapshot.endpoints)} pod addresses; is it the same cluster,"
            " and were its pods read (kubectl get pods -A -o json)?",
            out,
        )
    _dns(summary, events, out)
    _rest(summary, out)


def _dns(summary: Summary, events: Iterable[DnsEvent], out: IO[str]) -> None:
    if summary.dns:
        counts = dict(summary.dns)
        addresses = counts.pop("addresses", 0)
        words = ", ".join(f"{reason} {n:,}" for reason, n in counts.items())
        _say(f"DNS answers: {words} (addresses learned: {addresses:,})", out)
    shown: set[tuple[str, str | None]] = set()
    for event in events:
        if (event.reason, event.hint) in shown:
            continue
        shown.add((event.reason, event.hint))
        _say(f"  {clean(event_text(event))}", out)


def event_text(event: DnsEvent) -> str:
    """``untrusted: 9.9.9.9 to x/a about github.com; --trusted-resolvers any counts it``."""
    text = f"{event.reason}: {format_address(event.server)} to {event.pod or 'no pod'}"
    if event.name:
        text += f" about {event.name}"
    if event.address is not None:
        text += f", address {format_address(event.address)}"
    if event.detail:
        text += f" ({event.detail})"
    return f"{text}; {event.hint} would count it" if event.hint else text


def _rest(summary: Summary, out: IO[str]) -> None:
    for title, counts in (
        ("Not IP, not judged", summary.skipped),
        ("No readable IP header, dropped by the agent in both fail modes", summary.unreadable),
        ("Transport not readable, judged on addresses alone", summary.unparsed),
        ("IP datagrams in fragments", summary.fragments),
    ):
        if counts:
            _say(f"{title}: " + ", ".join(f"{k} {n:,}" for k, n in counts.items()), out)
    if summary.midstream:
        _say(
            f"Midstream: the capture lacks the beginning of {summary.midstream:,} TCP connections"
            " (--judge-midstream judges them as if they began there)",
            out,
        )
    if summary.evicted:
        _say(f"Given up early for want of room: {summary.evicted:,} connections", out)
    for problem in summary.problems:
        print(f"knp: warning: {problem}", file=sys.stderr)


def _say(text: str, out: IO[str]) -> None:
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    lines = textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    print("\n".join(lines), file=out)
