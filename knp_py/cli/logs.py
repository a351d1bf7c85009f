"""``knp logs``: read verdict logs, our own and those of kube-network-policies.

``-o json`` prints one record a line, in the shape of ``knp replay``, whatever wrote the
log, so that its output is a log again.
"""

import sys
import time
from enum import StrEnum
from typing import Annotated, Any

import typer

from knp_py.adapters.lines import STDIN, follow_lines, read_lines
from knp_py.cli.options import OutputFormat
from knp_py.cli.render import (
    Cell,
    Column,
    Documents,
    StreamTable,
    clean,
    note,
    print_json,
    print_table,
    verdict_cell,
)
from knp_py.errors import InputError
from knp_py.model.policy import Tier
from knp_py.verdicts.logs import UNREADABLE, LogReader, read_log
from knp_py.verdicts.read import VerdictEntry
from knp_py.verdicts.record import End
from knp_py.verdicts.select import Selection, end_test, name_test
from knp_py.verdicts.summary import Summary, deciding_object, end_name
from knp_py.verdicts.times import parse_duration, timestamp

EXAMPLES = """\
knp logs verdicts.jsonl --verdict deny
kubectl logs -n kube-system ds/knp | knp logs --summary -
kubectl logs -n kube-system -l app=kube-network-policies --prefix -f | knp logs -f --verdict deny -
knp logs /var/log/knp/verdicts.log -f --pod shop/web -o compact
knp logs old.log.gz --to 10.0.0.0/8 --tier Admin --since 1h -o json
"""

TOP = 20


class LogFormat(StrEnum):
    """``-o`` of this command: aligned columns, one line for grep, or one record a line."""

    TABLE = "table"
    COMPACT = "compact"
    JSON = "json"


class VerdictWord(StrEnum):
    """The words of every output."""

    ALLOW = "allow"
    DENY = "deny"
    UNKNOWN = "unknown"


COLUMNS = (
    Column("TIME", 14),
    Column("VERDICT", 7),
    Column("FROM", 22),
    Column("TO", 24),
    Column("PROTO", 5),
    Column("DECIDED BY"),
)


def command(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="The log, also gzip; - is stdin.")
    ] = STDIN,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as the log grows, over rotation too.")
    ] = False,
    verdict: Annotated[
        list[VerdictWord] | None,
        typer.Option("--verdict", metavar="WORD", help="Only allow, deny or unknown. Repeatable."),
    ] = None,
    pod: Annotated[
        str, typer.Option("--pod", metavar="NS/POD", help="Flows with this pod at either end.")
    ] = "",
    from_: Annotated[
        str, typer.Option("--from", metavar="NS/POD|IP|CIDR", help="Flows from here; NS/* too.")
    ] = "",
    to: Annotated[
        str, typer.Option("--to", metavar="NS/POD|IP|CIDR", help="Flows to here; NS/* too.")
    ] = "",
    name: Annotated[
        str,
        typer.Option(
            "--name",
            metavar="PATTERN",
            help="Flows to a learned name, matched as policies do: *.example.com is not"
            " example.com.",
        ),
    ] = "",
    policy: Annotated[
        str,
        typer.Option("--policy", metavar="NAME", help="Decided by it, or isolated by it."),
    ] = "",
    tier: Annotated[
        str,
        typer.Option("--tier", metavar="TIER", help="Admin, NetworkPolicy, Baseline or Default."),
    ] = "",
    since: Annotated[
        str, typer.Option("--since", metavar="DURATION", help="Not older than 90s, 15m, 1h30m.")
    ] = "",
    summary: Annotated[bool, typer.Option("--summary", help="Counts instead of entries.")] = False,
    output: Annotated[
        LogFormat, typer.Option("--output", "-o", help="json is one record a line.")
    ] = LogFormat.TABLE,
) -> None:
    """Read verdict logs: filter, follow, sum up.

    Reads records of knp, and text and JSON logs of kube-network-policies (-v=2 and up) as
    they are, with what kubectl logs --prefix and --timestamps put in front. Its logs name no
    policies and no domain names; the NetworkPolicy tier is inferred. Times without a year are
    taken as UTC and as the latest such day.
    """
    now = time.time_ns()
    selection = Selection(
        verdicts=frozenset(word.value for word in verdict or ()),
        either=end_test(pod, "--pod") if pod else None,
        source=end_test(from_, "--from") if from_ else None,
        destination=end_test(to, "--to") if to else None,
        name=name_test(name) if name else None,
        policy=policy,
        tier=_tier(tier) if tier else "",
        since=_since(since, now) if since else "",
    )
    if file == STDIN and sys.stdin.isatty():
        note("reading standard input; name a file, or pipe a log in")
    reader = LogReader(now)
    lines = follow_lines(file) if follow else read_lines(file)
    counts = Summary()
    untimed = 0
    show = _shower(output, flush=follow) if not summary else lambda _: None
    interrupted = False
    try:
        for entry in read_log(lines, reader):
            if not selection.matches(entry):
                continue
            untimed += entry.ts is None
            counts.add(entry)
            show(entry)
    except KeyboardInterrupt:
        interrupted = True  # the usual end of --follow, and what was counted is worth saying
    if summary:
        _print_summary(counts, reader, output)
    sys.stdout.flush()
    _close(reader, selection, untimed)
    if interrupted:
        raise typer.Exit(130)


def _tier(text: str) -> str:
    for tier in Tier:
        if tier.text.lower() == text.lower():
            return tier.text
    raise InputError(f"--tier: {text!r} is not one of {', '.join(tier.text for tier in Tier)}")


def _since(text: str, now: int) -> str:
    try:
        return timestamp(max(0, now - parse_duration(text))) or ""
    except ValueError as error:
        raise InputError(f"--since: {error}") from None


def _shower(output: LogFormat, *, flush: bool) -> Any:
    if output is LogFormat.JSON:
        return Documents(OutputFormat.JSONL, flush=flush).write
    if output is LogFormat.COMPACT:
        return lambda entry: print(_compact(entry), flush=flush)
    table = StreamTable(COLUMNS, flush=flush)
    return lambda entry: table.row(*_row(entry))


def _row(entry: VerdictEntry) -> tuple[Cell | str, ...]:
    decided = deciding_object(entry)
    return (
        (entry.ts or "")[5:19].replace("T", " ") or "-",
        verdict_cell(entry.verdict),
        end_name(entry.src),
        _with_port(entry.dst),
        entry.protocol,
        f"{decided}: {entry.reason}" if entry.reason else decided,
    )


def _with_port(end: End) -> str:
    name = end_name(end)
    if not isinstance(end.port, int):
        return name
    address = end.ip or ""
    return f"[{name}]:{end.port}" if name == address and ":" in name else f"{name}:{end.port}"


def _compact(entry: VerdictEntry) -> str:
    parts = [
        entry.ts or "-",
        entry.verdict,
        entry.direction or "-",
        entry.protocol,
        _with_port(entry.src),
        "->",
        _with_port(entry.dst),
        "by",
        deciding_object(entry),
    ]
    if entry.reason:
        parts.append(f"({entry.reason})")
    return clean(" ".join(parts))


def _print_summary(counts: Summary, reader: LogReader, output: LogFormat) -> None:
    deciders = counts.deciders.top()
    denied = counts.denied.top(TOP)
    if output is LogFormat.JSON:
        print_json(
            {
                "entries": counts.entries,
                "verdicts": dict(sorted(counts.verdicts.items())),
                "deciders": [
                    dict(zip(("verdict", "direction", "decided_by"), key, strict=True))
                    | {"count": n}
                    for key, n in deciders
                ],
                "top_denied": [
                    dict(zip(("from", "to", "protocol", "port"), key, strict=True)) | {"count": n}
                    for key, n in denied
                ],
                "lines": reader.lines,
                "without_entry": dict(sorted(reader.counts.items())),
            }
        )
        return
    words = ", ".join(f"{n} {word}" for word, n in sorted(counts.verdicts.items()))
    print(f"{counts.entries} entries in {reader.lines} lines" + (f": {words}" if words else ""))
    if deciders:
        print()
        print_table(
            (
                Column("VERDICT"),
                Column("DIRECTION"),
                Column("DECIDED BY"),
                Column("COUNT", right=True),
            ),
            [(verdict_cell(v), d or "-", by, str(n)) for (v, d, by), n in deciders],
        )
    if denied:
        print()
        print_table(
            (
                Column("DENIED FROM"),
                Column("TO"),
                Column("PROTO"),
                Column("PORT", right=True),
                Column("COUNT", right=True),
            ),
            [(*key[:3], key[3] or "-", str(n)) for key, n in denied],
        )
        if counts.denied.other:
            print(f"and {counts.denied.other} more denied, of flows too many to count apart")


def _close(reader: LogReader, selection: Selection, untimed: int) -> None:
    """What the reader of the output would otherwise not know."""
    for reason, count in sorted(reader.counts.items()):
        text = f"{count} of {reader.lines} lines {reason}"
        problem = reader.first_problem
        if reason == UNREADABLE and problem is not None:
            text += (
                f"; the first is line {problem.line}: {problem.reason}: {clean(problem.text)[:60]}"
            )
        note(text)
    if selection.since and untimed:
        note(f"{untimed} entries have no time that --since could judge; they are shown")
    if reader.foreign and (selection.policy or selection.name):
        note("logs of kube-network-policies name no policies and no domain names: none matched")
