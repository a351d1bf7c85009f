"""``knp replay``: judge a capture, one record per connection, and say who decided."""

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from enum import StrEnum
from heapq import merge
from itertools import tee
from typing import Annotated, NamedTuple

import typer

from knp_py.adapters.captures import open_capture
from knp_py.adapters.odd_links import find_ip
from knp_py.cli.cluster import load_cluster
from knp_py.cli.interrupt import InterruptibleInput
from knp_py.cli.options import FqdnScope, Manifests, Output, OutputFormat, Scope, TrustedResolvers
from knp_py.cli.render import note, progress
from knp_py.cli.replay_text import ConnectionPrinter, print_summary
from knp_py.engine.datapath import Datapath
from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.flows import Flow
from knp_py.engine.names import DomainCache
from knp_py.engine.resolvers import parse_networks, parse_trust
from knp_py.engine.snapshot import Snapshot
from knp_py.engine.snoop import DnsSnooper
from knp_py.errors import CaptureError, InputError
from knp_py.model.net import Cidr
from knp_py.replay.placing import Placing
from knp_py.replay.runner import OnPacket, Replay
from knp_py.replay.summary import Tally
from knp_py.wire.source import Record

EXAMPLES = """\
knp replay capture.pcap --manifests policies/
knp replay capture.pcap --manifests policies/ --verdict deny -o jsonl
kubectl get pods,ns,nodes,svc,netpol,clusternetworkpolicy -A -o json > cluster.json
tcpdump -i any -U -w - | knp replay - --manifests cluster.json
knp replay yesterday.pcap --manifests policies/ --diff policies-new/
knp replay capture.pcap --manifests policies/ --write verdicts/
"""


class VerdictWord(StrEnum):
    """What ``--verdict`` takes."""

    ALLOW = "allow"
    DENY = "deny"
    UNKNOWN = "unknown"


class Settings(NamedTuple):
    """How the datapath is to judge; the same for both sides of ``--diff``."""

    scope: FqdnScope
    trusted: str
    assume_queried: bool
    judge_midstream: bool
    resolve_services: bool
    allow_special: tuple[Cidr, ...]


def command(
    captures: Annotated[
        list[str],
        typer.Argument(metavar="CAPTURE...", help="pcap or pcapng, gzip too; - is stdin."),
    ],
    manifests: Manifests,
    verdict: Annotated[
        VerdictWord | None, typer.Option("--verdict", help="Print only these connections.")
    ] = None,
    output: Output = OutputFormat.TABLE,
    write: Annotated[
        str,
        typer.Option("--write", metavar="DIR", help="Write allowed.pcap and denied.pcap there."),
    ] = "",
    diff: Annotated[
        list[str] | None,
        typer.Option(
            "--diff",
            metavar="PATH",
            help="Judge by these manifests instead, pods included, and print only the connections"
            " whose verdict changes (exit 1 if any).",
        ),
    ] = None,
    scope: Scope = FqdnScope.POD,
    trusted: TrustedResolvers = "auto",
    assume_queried: Annotated[
        bool,
        typer.Option(
            "--assume-queried", help="Take DNS answers whose query the capture lacks as asked for."
        ),
    ] = False,
    judge_midstream: Annotated[
        bool,
        typer.Option(
            "--judge-midstream",
            help="Judge a TCP connection whose SYN is missing as if it began at its first packet.",
        ),
    ] = False,
    resolve_services: Annotated[
        bool,
        typer.Option(
            "--resolve-services/--no-resolve-services",
            help="Judge a Service's address by the pods behind it, as policy does after"
            " destination NAT, or as the address it is.",
        ),
    ] = True,
    allow_special: Annotated[
        str,
        typer.Option(
            "--allow-special",
            metavar="CIDR,...",
            help="Let names teach these addresses too, although no public service has them:"
            " loopback, link-local, nodes, Services.",
        ),
    ] = "",
    summary_only: Annotated[
        bool, typer.Option("--summary", help="Print the summary only, no connections.")
    ] = False,
) -> None:
    """Judge every connection of a capture at its first packet, at packet time.

    DNS answers in the capture teach names to the pods that asked. One record per
    connection, then a summary: verdicts, deciding objects, what could not be judged.
    """
    settings = Settings(
        scope,
        trusted,
        assume_queried,
        judge_midstream,
        resolve_services,
        parse_networks(allow_special, "--allow-special"),
    )
    if diff and (write or summary_only):
        raise InputError("--diff prints what changes: it goes with neither --write nor --summary")
    if len(set(captures)) < len(captures):
        raise InputError("the same capture is given twice")
    if "-" in captures and "-" in [*manifests, *(diff or [])]:
        raise InputError("standard input cannot be both the capture and the manifests")
    problems: list[str] = []
    before = _Side(load_cluster(manifests), settings)
    after = _other_side(before, diff, settings) if diff else None
    # The cluster stays; what comes and goes is a few objects a connection. Looking through
    # everything for garbage as often as Python does by itself costs a tenth of the time.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    with ExitStack() as stack:
        stdin = stack.enter_context(InterruptibleInput()) if "-" in captures else None
        records = _records(captures, problems, stdin)
        if after is not None:
            raise typer.Exit(_diff(before, after, records, verdict, output, problems))
        live = stdin is not None
        if not write:
            _judge(before, records, verdict, output, problems, None, quiet=summary_only, live=live)
            return
        # Here, because it imports scapy, which costs more than most replays.
        from knp_py.adapters.verdict_files import VerdictFiles  # noqa: PLC0415

        files = stack.enter_context(VerdictFiles(write, captures))
        placing = Placing(lambda flow, record: files.write(flow.decision.verdict, record))
        _judge(
            before,
            records,
            verdict,
            output,
            problems,
            placing.packet,
            quiet=summary_only,
            live=live,
        )
        placing.finish()
        if files.unknown:
            note(f"{files.unknown:,} packets of unknown verdict are in neither file")
        if files.out_of_range:
            note(f"{files.out_of_range:,} packet times do not fit a pcap file and were cut")
        if placing.unplaced:
            note(
                f"{placing.unplaced:,} fragments of datagrams that never became whole are in"
                " neither file"
            )


class _Side:
    """One set of manifests with everything that judges by it."""

    def __init__(self, snapshot: Snapshot, settings: Settings) -> None:
        names = DomainCache(scope=settings.scope.value)
        self.snapshot = snapshot
        self.snooper = DnsSnooper(
            names,
            trust=parse_trust(settings.trusted),
            assume_queried=settings.assume_queried,
            allow_special=settings.allow_special,
        )
        self.datapath = Datapath(
            PolicyEngine(names),
            self.snooper,
            judge_midstream=settings.judge_midstream,
            assume_queried=settings.assume_queried,
            resolve_services=settings.resolve_services,
        )
        self.datapath.load(snapshot)
        self.tally = Tally()


def _other_side(before: _Side, paths: list[str], settings: Settings) -> _Side:
    """What ``--diff`` names is a whole set: without pods nothing could ever change."""
    after = _Side(load_cluster(paths, "--diff"), settings)
    if before.snapshot.pods and not after.snapshot.pods:
        raise InputError(
            f"--diff {' '.join(paths)}: holds no pods; it stands for all manifests, not for those"
            " that change: repeat it for the pods too (--diff pods.json --diff policies/)"
        )
    return after


def _records(
    captures: list[str], problems: list[str], stdin: InterruptibleInput | None
) -> Iterator[Record]:
    """The records of all captures, in time order when there are several."""

    def tell(name: str) -> Callable[[object], None]:
        return lambda problem: problems.append(f"{name}: {problem}")

    streams = [open_capture(name, on_problem=tell(name), stdin=stdin) for name in captures]
    if len(streams) == 1:
        return streams[0]
    return merge(*streams, key=lambda record: record[0])


def _judge(
    side: _Side,
    records: Iterator[Record],
    verdict: VerdictWord | None,
    output: OutputFormat,
    problems: list[str],
    on_packet: OnPacket | None,
    *,
    quiet: bool,
    live: bool,
) -> None:
    live = live and output is OutputFormat.TABLE
    # Rows on a terminal are progress enough, and a bar would get in between.
    silent = live or (sys.stdout.isatty() and not quiet)
    with nullcontext() if silent else progress("judging", unit="packets") as bar:
        replay = Replay(
            side.datapath, odd_link=find_ip, on_block=None if bar is None else bar.advance
        )
        printer = ConnectionPrinter(output, replay, live=live)

        def show(flow: Flow) -> None:
            if not quiet and (verdict is None or flow.decision.verdict.value == verdict.value):
                printer.connection(flow)

        shown: set[int] = set()
        watch = _as_they_begin(show, shown, on_packet) if live else on_packet
        for flow in replay.run(records, watch):
            side.tally.add(flow)
            if flow.number in shown:
                shown.remove(flow.number)
            else:
                show(flow)
    _refuse_nothing(replay, problems)
    summary = side.tally.summary(replay, side.snooper.counts, problems)
    printer.end(summary)
    if output is not OutputFormat.JSON:
        print_summary(
            summary,
            side.snapshot,
            side.snooper.events,
            unlisted=printer.unlisted,
            to_stderr=printer.lines_only,
            alone=quiet,
        )


def _refuse_nothing(replay: Replay, problems: list[str]) -> None:
    """A capture damaged in its first record was not judged: no CI job may take it for "no"."""
    if problems and not replay.packets:
        raise CaptureError(problems[0])


def _as_they_begin(
    show: Callable[[Flow], None], shown: set[int], on_packet: OnPacket | None
) -> OnPacket:
    """For a capture that streams in: a verdict is shown when it is made, not when it ends.

    A connection that begins without a packet of its own (half a datagram) is not in
    ``shown`` afterwards.
    """
    newest = 0

    def packet(flow: Flow | None, record: Record) -> None:
        nonlocal newest
        if flow is not None and flow.number > newest:
            newest = flow.number
            shown.add(flow.number)
            show(flow)
            sys.stdout.flush()
        if on_packet is not None:
            on_packet(flow, record)

    return packet


def _diff(
    before: _Side,
    after: _Side,
    records: Iterator[Record],
    verdict: VerdictWord | None,
    output: OutputFormat,
    problems: list[str],
) -> int:
    """Judge by both sides in step; connections are numbered alike in both."""
    # Both replays give a connection back at the same record, so little waits in between.
    first, second = tee(records)
    with progress("judging twice", unit="packets") as bar:
        old = Replay(before.datapath, odd_link=find_ip, on_block=bar.advance)
        new = Replay(after.datapath, odd_link=find_ip)
        printer = ConnectionPrinter(output, new, diff=True)
        changed = 0
        for was, now in zip(old.run(first), new.run(second), strict=True):
            before.tally.add(was)
            after.tally.add(now)
            if was.decision.verdict is now.decision.verdict:
                continue
            changed += 1
            if verdict is None or now.decision.verdict.value == verdict.value:
                printer.change(was, now)
    _refuse_nothing(old, problems)
    total = sum(before.tally.summary(old, Counter(), []).verdicts.values())
    printer.end_diff(changed, total, problems)
    return 1 if changed else 0
