"""``knp logs``: read verdict logs, our own and those of kube-network-policies.

``-o json`` (or ``jsonl``) prints one record a line, in the shape of ``knp replay``,
whatever wrote the log, so that its output is a log again.
"""

import sys
import time
from collections import Counter
from enum import StrEnum
from typing import Annotated, Any

import typer

from knp_py.adapters.lines import STDIN, follow_lines, read_lines
from knp_py.cli.options import OutputFormat
from knp_py.cli.render import (
    Column,
    Documents,
    StreamTable,
    clean,
    counted,
    note,
    print_json,
    print_table,
    verdict_cell,
)
from knp_py.errors import InputError
from knp_py.model.policy import Tier
from knp_py.verdicts.logs import UNREADABLE, LogReader, Problem, read_log
from knp_py.verdicts.read import VerdictEntry
from knp_py.verdicts.record import Omission
from knp_py.verdicts.select import Selection, end_test, name_test
from knp_py.verdicts.summary import Summary
from knp_py.verdicts.times import parse_duration, timestamp
from knp_py.verdicts.words import connection_text, omission_text, record_text, remarks_text

EXAMPLES = """\
knp logs verdicts.jsonl --verdict deny
kubectl logs -n kube-system ds/kube-network-policies | knp logs -
kubectl logs -n kube-system -l app=kube-network-policies --prefix -f | \\
  knp logs -f --verdict deny -
knp logs /var/log/knp/verdicts.log -f --pod 'shop/web-*' -o compact
knp logs old.log.gz --to 10.0.0.0/8 --tier Admin --since 1h -o json
"""

TOP = 20


class LogFormat(StrEnum):
    """``-o`` of this command: for people, one line for grep, or one record a line."""

    TABLE = "table"
    COMPACT = "compact"
    JSON = "json"
    JSONL = "jsonl"


class VerdictWord(StrEnum):
    """The words of every output."""

    ALLOW = "allow"
    DENY = "deny"
    UNKNOWN = "unknown"


_COLUMNS = (
    Column("#", 5, right=True),
    Column("time", 14),
    Column("verdict", 7),
    Column("connection"),
)
_LONGEST_ID = 20  # digits; ids may be anything


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
        str,
        typer.Option(
            "--pod",
            metavar="NS/POD",
            help="Flows with this pod at either end; patterns too, as in 'shop/web-*'.",
        ),
    ] = "",
    from_: Annotated[
        str,
        typer.Option("--from", metavar="NS/POD|IP|CIDR", help="Flows from here; patterns too."),
    ] = "",
    to: Annotated[
        str, typer.Option("--to", metavar="NS/POD|IP|CIDR", help="Flows to here; patterns too.")
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
        LogFormat, typer.Option("--output", "-o", help="json and jsonl: one record a line.")
    ] = LogFormat.TABLE,
) -> None:
    """Read verdict logs: filter, follow, sum up.

    Reads records of knp, and text and JSON logs of kube-network-policies (-v=2 and up) as
    they are, with what kubectl logs --prefix and --timestamps put in front. Its logs name no
    policies and no domain names; the NetworkPolicy tier is inferred. Times without a year are
    taken as UTC and as the latest such day.

    Of our own records it says which addresses lie in a pod network and are no known pod's, what
    was only a dry run, what strict mode judged again, where the policies of --shadow-manifests
    differ, and how many records were left out.
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
            if isinstance(entry, Omission):
                if selection.concerns(entry):
                    counts.leave_out(entry)
                    show(entry)
                continue
            if not selection.matches(entry):
                continue
            untimed += entry.ts is None
            counts.add(entry)
            show(entry)
    except KeyboardInterrupt:
        interrupted = True  # the usual end of --follow, and what was counted is worth saying
    problem = reader.first_problem
    if problem is not None and not reader.understood and not interrupted:
        name = "standard input" if file == STDIN else file
        raise InputError(f"{name}: no line can be read; {_problem_text(problem)}")
    if summary:
        _print_summary(counts, reader, output)
    sys.stdout.flush()
    records = reader.ours + reader.foreign
    if records and not counts.entries:
        note(f"{records:,} record{'s' if records > 1 else ''} read, none matches")
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
    if output in {LogFormat.JSON, LogFormat.JSONL}:
        return Documents(OutputFormat.JSONL, flush=flush).write
    if output is LogFormat.COMPACT:
        return lambda entry: print(_compact(entry), flush=flush)
    table = StreamTable(_COLUMNS)

    def show(entry: VerdictEntry | Omission) -> None:
        _show(table, entry)
        if flush:
            sys.stdout.flush()

    return show


def _show(table: StreamTable, entry: VerdictEntry | Omission) -> None:
    """Two lines, or more where the words are many: the connection, and who decided."""
    if isinstance(entry, Omission):
        _row(table, "", entry.ts, "", omission_text(entry))
        return
    number = str(entry.id) if isinstance(entry.id, int) else ""
    number = number if len(number) <= _LONGEST_ID else ""
    _row(table, number, entry.ts, entry.verdict, connection_text(entry))
    table.below(record_text(entry), style="dim", cut=True)
    remarks = remarks_text(entry)
    if remarks:
        table.below(remarks, style="dim", cut=True)


def _row(table: StreamTable, number: str, ts: str | None, verdict: str, text: str) -> None:
    time_ = (ts or "")[5:19].replace("T", " ") or "-"
    table.entry(number, time_, verdict_cell(verdict), text, cut=True)


def _compact(entry: VerdictEntry | Omission) -> str:
    if isinstance(entry, Omission):
        return clean(f"{entry.ts or '-'} omitted - {omission_text(entry)}")
    who = record_text(entry, direction=False)
    flow = connection_text(entry, "->")
    remarks = remarks_text(entry)
    return clean(
        f"{entry.ts or '-'} {entry.verdict} {entry.direction or '-'} {flow} by {who}"
        + (f" ({remarks})" if remarks else "")
    )


def _print_summary(counts: Summary, reader: LogReader, output: LogFormat) -> None:
    deciders = counts.deciders.top()
    denied = counts.denied.top()
    shadows = counts.shadows.top()
    strangers = counts.strangers.top()
    if output in {LogFormat.JSON, LogFormat.JSONL}:
        document = {
            "entries": counts.entries,
            "verdicts": dict(sorted(counts.verdicts.items())),
            "deciders": [
                dict(zip(("verdict", "direction", "decided_by"), key, strict=True)) | {"count": n}
                for key, n in deciders
            ],
            "top_denied": [
                dict(zip(("from", "to", "protocol", "port"), key, strict=True)) | {"count": n}
                for key, n in denied[:TOP]
            ],
            "unidentified": counts.unidentified,
            "unidentified_addresses": [
                {"address": address, "count": n} for (address,), n in strangers[:TOP]
            ],
            "dry_run": counts.dry_run,
            "again": counts.again,
            "shadows": [
                dict(zip(("verdict", "shadow", "decided_by"), key, strict=True)) | {"count": n}
                for key, n in shadows
            ],
            "omitted": dict(sorted(counts.omitted.items())),
            "lines": reader.lines,
            "without_entry": dict(sorted(reader.counts.items())),
        }
        if output is LogFormat.JSON:
            print_json(document)
        else:
            with Documents(OutputFormat.JSONL) as documents:
                documents.write(document)
        return
    words = ", ".join(f"{n} {word}" for word, n in sorted(counts.verdicts.items()))
    entries, lines = counted(counts.entries, "entry"), counted(reader.lines, "line")
    print(f"{entries} in {lines}" + (f": {words}" if words else ""))
    if counts.unidentified:
        print(
            f"{counts.unidentified} of them with an address in a pod network that no known pod has"
        )
    if counts.dry_run:
        print(f"{counts.dry_run} of them in a dry run: judged so and not dropped")
    if counts.again:
        print(f"{counts.again} of them for established connections, judged again")
    if counts.omitted:
        words = ", ".join(f"{n} {clean(word)}" for word, n in sorted(counts.omitted.items()))
        print(f"besides, left out of the log: {words}")
    if deciders:
        print()
        print_table(
            (Column("verdict"), Column("count", right=True), Column("decided by")),
            [(verdict_cell(v), f"{n:,}", by) for (v, by), n in _by_text(deciders)],
            cut=True,
        )
    if shadows:
        print()
        print_table(
            (Column("count", right=True), Column("shadow"), Column("by the candidate policies")),
            [(f"{n:,}", f"{now} → {then}", by) for (now, then, by), n in shadows],
            cut=True,
        )
    if strangers:
        print()
        print_table(
            (Column("count", right=True), Column("unidentified addresses")),
            [(f"{n:,}", address) for (address,), n in strangers[:TOP]],
            cut=True,
        )
        if len(strangers) > TOP:
            print(f"and {len(strangers) - TOP:,} addresses more")
    if denied:
        print()
        print_table(
            (Column("count", right=True), Column("denied connections")),
            [
                (f"{n:,}", f"{a} → {b} {' '.join(rest)}".rstrip())
                for (a, b, *rest), n in denied[:TOP]
            ],
            cut=True,
        )
        if len(denied) > TOP:
            print(f"and {len(denied) - TOP:,} flows more")
        if counts.denied.other:
            print(f"and {counts.denied.other} more denied, of flows too many to count apart")


def _by_text(deciders: list[tuple[tuple[str, ...], int]]) -> list[tuple[tuple[str, str], int]]:
    """(verdict, who decided) and how often; the direction of a default is left out."""
    counts: Counter[tuple[str, str]] = Counter()
    for (verdict, direction, text), count in deciders:
        plain = not direction or text.startswith("default:")
        counts[verdict, text if plain else f"{direction}: {text}"] += count
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _problem_text(problem: Problem) -> str:
    return f"the first is line {problem.line}: {problem.reason}: {clean(problem.text)[:60]}"


def _close(reader: LogReader, selection: Selection, untimed: int) -> None:
    """What the reader of the output would otherwise not know."""
    for reason, count in sorted(reader.counts.items()):
        text = f"{count} of {reader.lines} lines {reason}"
        problem = reader.first_problem
        if reason == UNREADABLE and problem is not None:
            text += f"; {_problem_text(problem)}"
        note(text)
    if selection.since and untimed:
        note(f"{untimed} entries have no time that --since could judge; they are shown")
    if reader.foreign and (selection.policy or selection.name):
        note("logs of kube-network-policies name no policies and no domain names: none matched")
