"""Options that several commands share: the same name, meaning and help everywhere."""

from enum import StrEnum
from typing import Annotated

import typer


class OutputFormat(StrEnum):
    """``-o``: for people, one JSON document, or one JSON object per line."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


class FqdnScope(StrEnum):
    """Who may use a name that a pod learned: the pod, or every pod of its node."""

    POD = "pod"
    NODE = "node"


Manifests = Annotated[
    list[str],
    typer.Option(
        "--manifests",
        "-m",
        metavar="PATH",
        help="File, directory or - for stdin: YAML or JSON, also `kubectl get -o json` as it is."
        " Repeatable.",
    ),
]

Output = Annotated[
    OutputFormat,
    typer.Option("--output", "-o", help="How to print: a table, JSON, or JSON lines."),
]

Scope = Annotated[
    FqdnScope,
    typer.Option(
        "--fqdn-scope",
        help="Whether a learned name counts for the pod that learned it or for its whole node.",
    ),
]

TrustedResolvers = Annotated[
    str,
    typer.Option(
        "--trusted-resolvers",
        metavar="auto|any|CIDR,...",
        help="Whose DNS answers count: those the pod's spec names, any, or these networks.",
    ),
]
