"""``knp test``: scenarios, the unit tests of policy."""

from typing import Annotated

import typer

from knp_py.adapters.documents import read_documents
from knp_py.cli.options import FqdnScope, Output, OutputFormat, Scope, TrustedResolvers
from knp_py.cli.results import print_results
from knp_py.cli.scenarios import load_scenarios
from knp_py.engine.resolvers import parse_trust
from knp_py.replay.rehearsal import rehearse

EXAMPLES = """\
knp test examples/quickstart
knp test policies/tests/ --junit report.xml
helm template chart/ | knp test tests/egress.yaml --manifests -
"""


def command(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="A scenario's file, or a directory: every *.yaml below it with steps.",
        ),
    ],
    junit: Annotated[
        str, typer.Option("--junit", metavar="FILE", help="Write the results as JUnit XML too.")
    ] = "",
    manifests: Annotated[
        list[str] | None,
        typer.Option(
            "--manifests",
            "-m",
            metavar="PATH",
            help="Manifests that are there from the beginning, besides those a scenario names.",
        ),
    ] = None,
    output: Output = OutputFormat.TABLE,
    scope: Scope = FqdnScope.POD,
    trusted: TrustedResolvers = "auto",
) -> None:
    """Act out scenarios and check what they expect: unit tests for policy.

    A scenario is YAML: name, manifests, resolve (name to addresses) and steps; a step has
    name, apply, delete, wait (seconds) and expect. An expectation is from, connect (a name,
    NS/POD, svc:NS/NAME or an IP address), port and protocol, or lookup and via; then verdict
    and, if it matters who decides, policy or tier. To connect to a name the pod first looks
    it up at its own resolvers, which policy may deny: what somebody at a shell in the pod
    would see. A name lives 60 s of scenario time unless resolve gives it another ttl.

    Exit code 1 if an expectation is not met, 2 if a scenario cannot be understood.
    """
    trust = parse_trust(trusted)
    found = load_scenarios(paths)
    beside = read_documents(manifests) if manifests else []
    results = [
        rehearse(scenario, documents, trust=trust, scope=scope.value, beside=beside)
        for scenario, documents in found
    ]
    raise typer.Exit(print_results(results, output, junit))
