"""``knp lint``: problems in policies, each with its field, its reason and the next step."""

import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from itertools import groupby
from typing import Annotated

import typer

from knp_py.adapters.documents import PATHS, read_documents
from knp_py.audit.findings import CATALOGUE, Finding, Severity, listing
from knp_py.audit.lint import lint
from knp_py.cli.options import Output, OutputFormat
from knp_py.cli.render import (
    STYLES,
    WIDTH,
    Column,
    Documents,
    clean,
    colours,
    counted,
    print_table,
)
from knp_py.errors import InputError
from knp_py.manifests.load import load
from knp_py.manifests.problems import did_you_mean
from knp_py.model.changes import ClusterObject
from knp_py.model.objects import Pod
from knp_py.model.policy import ClusterNetworkPolicy, NetworkPolicy

EXAMPLES = """\
knp lint policies/
knp lint policies/ workloads/ --ignore dns-anywhere
knp lint policies/ --severity warning -o jsonl
kubectl get pods,ns,nodes,svc,netpol,clusternetworkpolicies -A -o json | knp lint -
knp lint --list
"""


class SeverityWord(StrEnum):
    """What ``--severity`` and ``--fail-on`` take."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def severity(self) -> Severity:
        """As findings have it."""
        return Severity[self.name]


def command(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Files, directories or - for stdin: policies, and the workloads they select.",
        ),
    ] = [],  # noqa: B006  typer copies it
    output: Output = OutputFormat.TABLE,
    ignore: Annotated[
        list[str],
        typer.Option("--ignore", metavar="ID", help="Leave out a check. Repeatable."),
    ] = [],  # noqa: B006
    severity: Annotated[
        SeverityWord, typer.Option("--severity", help="Print only findings this grave or graver.")
    ] = SeverityWord.INFO,
    fail_on: Annotated[
        SeverityWord, typer.Option("--fail-on", help="Exit 1 from this severity on.")
    ] = SeverityWord.WARNING,
    catalogue: Annotated[
        bool, typer.Option("--list", help="Print the checks and what they find; read nothing.")
    ] = False,
) -> None:
    """Find problems in policies without a cluster.

    What the API server would reject, what fails closed, rules that never decide, selectors
    that match nothing, names that can never be learned, and what stays open by mistake.
    With workloads (or a whole `kubectl get -o json`) beside the policies more is checked.

    Exit codes: 0 nothing of severity warning or above, 1 findings, 2 unreadable input.
    """
    if catalogue:
        _print_catalogue(output)
        return
    if not paths:
        raise InputError(f"give {PATHS} (see knp lint --help)")
    for check in ignore:
        if check not in CATALOGUE:
            hint = did_you_mean(check, CATALOGUE) or ", see knp lint --list"
            raise InputError(f"--ignore: no check is called {check!r}{hint}")
    loaded = load(read_documents(paths, hint=f"give {PATHS}"))
    findings = lint(loaded.objects, loaded.problems, loaded.warnings, ignore=ignore)
    shown = [finding for finding in findings if finding.severity >= severity.severity]
    if output is OutputFormat.TABLE:
        _print_findings(shown)
        _print_summary(loaded.objects, findings, len(findings) - len(shown))
    else:
        with Documents(output) as documents:
            for finding in shown:
                documents.write(finding.record())
    if any(finding.severity >= fail_on.severity for finding in findings):
        raise typer.Exit(1)


def _print_findings(findings: Sequence[Finding]) -> None:
    """One block per object: where it is, then what is wrong with it."""
    out = sys.stdout
    paint = colours(out)
    width = WIDTH
    if out.isatty():
        width = max(40, min(WIDTH, shutil.get_terminal_size().columns))
    for (place, subject), group in groupby(findings, lambda f: (_place(f), f.object)):
        head = " ".join(filter(None, (clean(subject), place))) or "input"
        if len(head) > width:
            head = f"{clean(subject)}\n    {place}".lstrip()
        print(_style(head, "bold", paint))
        for finding in group:
            word = finding.severity.text
            shown = _style(word, word if word in STYLES else "dim", paint)
            path = clean(finding.path)
            gap = "  " if len(f"  {word}  {finding.id}  {path}") <= width else "\n    "
            print(f"  {shown}  {finding.id}{gap}{path}".rstrip())
            print(_wrapped(finding.message, "    ", "    ", width))
            print(_style(_wrapped(finding.fix, "    fix: ", "         ", width), "dim", paint))
        print()


def _place(finding: Finding) -> str:
    return f"({clean(str(finding.origin))})" if finding.origin.source else ""


def _wrapped(text: str, first: str, rest: str, width: int) -> str:
    return textwrap.fill(
        clean(text),
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _style(text: str, style: str, paint: bool) -> str:
    return f"\033[{STYLES[style][0]}m{text}\033[0m" if paint else text


def _print_summary(
    objects: Sequence[ClusterObject], findings: Sequence[Finding], hidden: int
) -> None:
    """One line: what was found in how much."""
    policies = sum(isinstance(obj, (ClusterNetworkPolicy, NetworkPolicy)) for obj in objects)
    pods = sum(isinstance(obj, Pod) for obj in objects)
    counts = Counter(finding.severity for finding in findings)
    words = [counted(counts[s], s.text) for s in reversed(Severity) if counts[s]]
    line = f"{listing(words) or 'nothing found'} in {counted(policies, 'policy')}"
    line += f" and {counted(pods, 'pod')}"
    print(f"{line} ({hidden} not shown)" if hidden else line)


def _print_catalogue(output: OutputFormat) -> None:
    if output is OutputFormat.TABLE:
        print_table(
            [Column("CHECK"), Column("SEVERITY"), Column("WHAT IT FINDS")],
            [
                [c.id, " or ".join(s.text for s in c.severities), c.title]
                for c in CATALOGUE.values()
            ],
        )
        return
    with Documents(output) as documents:
        for check in CATALOGUE.values():
            documents.write(
                {
                    "id": check.id,
                    "severity": check.severity.text,
                    "severities": [severity.text for severity in check.severities],
                    "title": check.title,
                }
            )
