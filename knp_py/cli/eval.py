"""``knp eval``: what would happen to this flow, and who decides."""

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer
from msgspec import UNSET

from knp_py.adapters.lines import STDIN, read_lines
from knp_py.cli.cluster import load_cluster
from knp_py.cli.eval_text import as_expected, print_answer, print_results
from knp_py.cli.options import FqdnScope, Manifests, Output, OutputFormat, Scope, TrustedResolvers
from knp_py.cli.render import Documents, note, notes, print_json
from knp_py.engine.explain import DirectionSteps
from knp_py.engine.resolvers import parse_trust
from knp_py.engine.snapshot import Snapshot
from knp_py.errors import InputError, ProbeError
from knp_py.verdicts.ends import split_port
from knp_py.verdicts.probe import Asked, Failure, Probe, Prober, parse_probe, probe_id
from knp_py.verdicts.read import WORDS
from knp_py.verdicts.record import Answer
from knp_py.verdicts.workloads import representative

EXAMPLES = """\
knp eval --manifests policies/ --from shop/web --to shop/db --port 5432
knp eval --manifests policies/ --from shop/web --to api.github.com --explain
knp eval --manifests policies/ --from shop/web --to pypi.org=151.101.0.223
kubectl get netpol,clusternetworkpolicy,pods,ns,nodes,svc -A -o json | \\
  knp eval --manifests - --from 203.0.113.9 --to shop/web -o json
knp eval --manifests policies/ --probes probes.jsonl -o jsonl
"""

FAILURES_SHOWN = 5


def command(
    manifests: Manifests,
    *,
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="NS/POD|IP",
            help="Where the connection begins. A workload's name stands for its pods if no"
            " policy tells them apart.",
        ),
    ] = "",
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="NS/POD|IP|NAME[=IP]",
            help="Where it goes; :PORT may follow. A domain name counts as looked up by the"
            " source; without an address it stands for some public one.",
        ),
    ] = "",
    protocol: Annotated[
        str, typer.Option("--protocol", metavar="WORD", help="TCP, UDP, SCTP or ICMP.")
    ] = "TCP",
    port: Annotated[
        str | None,
        typer.Option(
            "--port",
            metavar="PORT",
            help="The destination port, also by the name a container gives it. Default 443.",
        ),
    ] = None,
    expect: Annotated[
        str,
        typer.Option("--expect", metavar="WORD", help="Exit 1 unless the verdict is this word."),
    ] = "",
    probes: Annotated[
        str,
        typer.Option(
            "--probes",
            metavar="FILE|-",
            help="Many flows, one JSON object a line, instead of --from and --to.",
        ),
    ] = "",
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Show every policy considered, and what became of each rule."
        ),
    ] = False,
    resolve_services: Annotated[
        bool,
        typer.Option(
            "--resolve-services", help="Ask about the pods behind a Service given as destination."
        ),
    ] = False,
    output: Output = OutputFormat.TABLE,
    fqdn_scope: Scope = FqdnScope.POD,
    trusted_resolvers: TrustedResolvers = "auto",
) -> None:
    """What would happen to this flow, and who decides.

    Exit code 1 if the verdict is not the expected one, 2 if there is no answer.

    --probes asks about many flows, one JSON object a line. Only from and to must be there;
    names count as learned by the source for the destination:

    \b
    {"id": "p1", "from": "shop/web", "to": "10.0.0.7", "protocol": "TCP",
     "port": 443, "names": ["github.com"], "expect": "allow"}

    A probe gives its names itself, so --fqdn-scope and --trusted-resolvers, which say whose
    names count, change nothing here.
    """  # noqa: D301  a real \b is what keeps the example's lines as they are
    del fqdn_scope
    parse_trust(trusted_resolvers)
    if probes and (from_ or to or port or expect):
        raise InputError("--probes takes the place of --from, --to, --port and --expect")
    if not probes and not (from_ and to):
        raise InputError("--from and --to, or --probes, are needed (see knp eval --help)")
    if probes == STDIN and STDIN in manifests:
        raise InputError("--manifests and --probes cannot both be standard input")
    if expect and expect not in WORDS:
        raise InputError(f"--expect: {expect!r} is not one of {', '.join(sorted(WORDS))}")
    to, port = _destination(to, port)
    snapshot = load_cluster(manifests)
    prober = Prober(snapshot, explain=explain, resolve_services=resolve_services)
    if probes:
        raise typer.Exit(_many(prober, probes, output))
    remarks: list[str] = []
    probe = Probe(
        id=UNSET,
        source=_pod(snapshot, from_, remarks),
        destination=to if to in snapshot.services else _pod(snapshot, to, remarks),
        protocol=protocol,
        port=port,
        expect=expect or None,
    )
    raise typer.Exit(_one(_remarked(prober.ask(probe), remarks), probe, output))


def _destination(to: str, port: str | None) -> tuple[str, str | None]:
    """What --to and --port say, when --to may end in a port as well."""
    parts = split_port(to)
    if parts is None:
        return to, port
    if port not in {None, parts[1]}:
        raise InputError(f"--to {to} and --port {port} are two ports, expected one")
    return parts


def _pod(snapshot: Snapshot, text: str, remarks: list[str]) -> str:
    """The text, or the pod that stands for the workload that it names."""
    found = representative(snapshot, text)
    if found is None:
        return text
    remarks.append(found[1])
    return found[0].key


def _remarked(asked: Asked, remarks: list[str]) -> Asked:
    if not remarks:
        return asked
    notes = (*remarks, *(asked.answer.notes or ()))
    return asked._replace(answer=msgspec.structs.replace(asked.answer, notes=notes))


def _one(asked: Asked, probe: Probe, output: OutputFormat) -> int:
    if output is OutputFormat.TABLE:
        print_answer(asked)
    elif output is OutputFormat.JSON:
        print_json(_document(asked))
    else:
        with Documents(output) as documents:
            documents.write(_document(asked))
    if as_expected(asked.answer):
        return 0
    note(f"the verdict is {asked.answer.verdict}, expected is {probe.expect}")
    return 1


def _many(prober: Prober, path: str, output: OutputFormat) -> int:
    total = 0
    failures: list[str] = []
    differing: list[str] = []
    results: list[tuple[str, Asked | Failure]] = []
    with Documents(output, flush=path == STDIN) as documents:
        for number, result in _answers(prober, path):
            total += 1
            if isinstance(result, Failure):
                failures.append(f"{_label(result.id, number)}: {result.error}")
            elif not as_expected(result.answer):
                differing.append(
                    f"{_label(result.answer.id, number)}: expected {result.answer.expect},"
                    f" got {result.answer.verdict}"
                )
            if output is not OutputFormat.TABLE:
                documents.write(result if isinstance(result, Failure) else _document(result))
                continue
            results.append((_label(_identity(result), number), result))
    if output is OutputFormat.TABLE:
        print_results(results)
    sys.stdout.flush()
    if differing:
        note(f"{len(differing)} of {total} probes differ from what they expect")
        notes(differing, FAILURES_SHOWN, "the answers name them all")
    if failures:
        note(f"{len(failures)} of {total} probes have no answer")
        notes(failures, FAILURES_SHOWN, "the answers name them all")
    return 2 if failures else 1 if differing else 0


def _answers(prober: Prober, path: str) -> Iterator[tuple[int, Asked | Failure]]:
    for number, line in enumerate(read_lines(path), 1):
        text = line.strip().removeprefix(b"\xef\xbb\xbf")
        if not text:
            continue
        try:
            yield number, prober.ask(parse_probe(text))
        except ProbeError as error:
            yield number, Failure(probe_id(text), str(error))


def _label(identity: Any, number: int) -> str:
    return f"line {number}" if identity is None else str(identity)


def _identity(result: Asked | Failure) -> Any:
    return result.id if isinstance(result, Failure) else result.answer.id


def _document(asked: Asked) -> Answer:
    if not asked.steps:
        return asked.answer
    return msgspec.structs.replace(asked.answer, considered=tuple(map(_considered, asked.steps)))


def _considered(steps: DirectionSteps) -> dict[str, Any]:
    return {
        "direction": steps.direction.text,
        "pod": steps.pod,
        "policies": [
            {
                "tier": policy.tier.text,
                "policy": policy.policy,
                "priority": policy.priority,
                "note": policy.note,
                "rules": [
                    {
                        "rule": rule.rule,
                        "rule_name": rule.name,
                        "action": rule.action,
                        "outcome": rule.outcome.value,
                    }
                    for rule in policy.rules
                ],
            }
            for policy in steps.policies
        ],
    }
