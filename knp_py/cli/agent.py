"""``knp agent``: enforce policy on this node."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from knp_py.cli.main import Command, new_app
from knp_py.cli.netpolgroup import NetpolGroup, remarks
from knp_py.cli.options import FqdnScope, Scope, TrustedResolvers
from knp_py.errors import InputError

if TYPE_CHECKING:
    from knp_py.agent.verdictlog import Which

EXAMPLES = """\
knp agent --manifests /etc/knp --fail-closed --hostname-override worker-1
knp agent --manifests policies/ --all-nodes --dry-run | knp logs -
knp agent --manifests now/ --shadow-manifests next/
knp agent --kubeconfig ~/.kube/config --hostname-override worker-1 --dry-run
knp agent cleanup
"""

CLEANUP_EXAMPLES = """\
knp agent cleanup
knp agent cleanup --instance blue
"""

app = new_app(invoke_without_command=True)


class LogVerdicts(StrEnum):
    """Which verdicts are written to standard output."""

    ALL = "all"
    DENY = "deny"
    NONE = "none"


def _which(asked: LogVerdicts | None, *, packets: bool, dry_run: bool) -> "Which":
    """Which verdicts are written; a dry run is for seeing all of them."""
    if asked is not None:
        return asked.value
    return "none" if packets else "all" if dry_run else "deny"


class LoggingFormat(StrEnum):
    """How messages, and packets at --v 2, are written to standard error."""

    TEXT = "text"
    JSON = "json"


class Remember(StrEnum):
    """Whether the kernel may answer for a connection like one just judged."""

    ON = "on"
    OFF = "off"


class WriteStatus(StrEnum):
    """Whether policies get conditions and Events."""

    AUTO = "auto"
    OFF = "off"


Instance = Annotated[
    str,
    typer.Option(
        "--instance",
        metavar="NAME",
        help="Names table and chains, where a node has more than one agent.",
    ),
]


@app.callback(cls=NetpolGroup, epilog=EXAMPLES)
def command(
    ctx: typer.Context,
    manifests: Annotated[
        list[str] | None,
        typer.Option(
            "--manifests",
            "-m",
            metavar="PATH",
            help="File or directory to enforce, watched from then on. Repeatable.",
        ),
    ] = None,
    kubeconfig: Annotated[
        str,
        typer.Option(
            "--kubeconfig",
            metavar="FILE",
            help="Follow the API server that this file leads to.  [default, without --manifests:"
            " the one of the pod this runs in]",
        ),
    ] = "",
    context: Annotated[
        str, typer.Option("--context", metavar="NAME", help="One of the kubeconfig's contexts.")
    ] = "",
    fail_open: Annotated[
        bool,
        typer.Option(
            "--fail-open/--fail-closed",
            help="What becomes of new connections when the agent is away, too slow or broken.",
        ),
    ] = True,
    nfqueue_id: Annotated[
        int, typer.Option("--nfqueue-id", min=0, max=65535, help="Queue of packets to judge.")
    ] = 100,
    dns_queue_id: Annotated[
        int | None,
        typer.Option(
            "--dns-queue-id",
            min=0,
            max=65535,
            help="Queue of DNS packets.  [default: the one after those that judge]",
        ),
    ] = None,
    queues: Annotated[
        int,
        typer.Option(
            "--queues", min=1, max=64, help="Processes that judge, each with a queue of its own."
        ),
    ] = 1,
    queue_length: Annotated[
        int,
        typer.Option("--queue-length", min=1, max=1 << 20, help="Packets that may wait in one."),
    ] = 4096,
    hostname: Annotated[
        str,
        typer.Option(
            "--hostname-override", metavar="NODE", help="This node's name.  [default: the host's]"
        ),
    ] = "",
    all_nodes: Annotated[
        bool,
        typer.Option("--all-nodes", help="Every pod counts as being on this machine."),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict-mode", help="Judge established connections again when policy changes."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Judge and log everything, drop nothing.")
    ] = False,
    shadow: Annotated[
        list[str] | None,
        typer.Option(
            "--shadow-manifests",
            metavar="PATH",
            help="Judge by these as well, and log only where they would answer otherwise.",
        ),
    ] = None,
    remember: Annotated[
        Remember | None,
        typer.Option(
            "--remember",
            help="on: the kernel answers for a minute for what was judged; off: every connection"
            " is judged and logged.  [default: on, off at --v 2]",
        ),
    ] = None,
    bind: Annotated[
        str,
        typer.Option(
            "--metrics-bind-address",
            metavar="HOST:PORT",
            help="Where /metrics, /healthz, /readyz and /status are; empty for nowhere.",
        ),
    ] = ":9080",
    log_verdicts: Annotated[
        LogVerdicts | None,
        typer.Option(
            "--log-verdicts",
            help="Records on standard output.  [default: deny, all in a dry run, none at --v 2]",
        ),
    ] = None,
    log_limit: Annotated[
        float,
        typer.Option(
            "--log-limit",
            min=0,
            metavar="N",
            help="Records, or at --v 2 packets, a second; 0 for no limit.",
        ),
    ] = 1000,
    verbosity: Annotated[
        int,
        typer.Option(
            "--v",
            "-v",
            min=0,
            metavar="N",
            help="From 2 on every judged packet is on standard error, in the words of"
            " kube-network-policies; from 4 on every changed object.",
        ),
    ] = 0,
    logging_format: Annotated[
        LoggingFormat, typer.Option("--logging-format", help="Of standard error.")
    ] = LoggingFormat.TEXT,
    state_dir: Annotated[
        str,
        typer.Option(
            "--state-dir",
            metavar="DIR",
            help="Where learned names survive a restart; empty for nowhere.",
        ),
    ] = "/run/knp",
    instance: Instance = "knp",
    mark_mask: Annotated[
        str, typer.Option("--mark-mask", metavar="HEX", help="Four bits of packets' marks.")
    ] = "0x78",
    generation_mask: Annotated[
        str, typer.Option("--generation-mask", metavar="HEX", help="More bits of packets' marks.")
    ] = "0x1f00",
    connmark_mask: Annotated[
        str, typer.Option("--connmark-mask", metavar="HEX", help="Bits of connections' marks.")
    ] = "0x0fff0000",
    priority: Annotated[
        int,
        typer.Option(
            "--priority",
            min=-400,
            max=-110,
            help="Of the queue step among netfilter's hooks, where the kernel can queue by nft.",
        ),
    ] = -150,
    scope: Scope = FqdnScope.POD,
    trusted: TrustedResolvers = "auto",
    node_resolvers: Annotated[
        str,
        typer.Option(
            "--node-resolvers",
            metavar="IP,...",
            help="Resolvers of pods with dnsPolicy Default.  [default: those of /etc/resolv.conf]",
        ),
    ] = "",
    allow_special: Annotated[
        str,
        typer.Option(
            "--allow-special",
            metavar="CIDR,...",
            help="Networks that a name may open although no public name leads there.",
        ),
    ] = "",
    write_status: Annotated[
        WriteStatus,
        typer.Option(
            "--write-status",
            help="auto: one node of all writes conditions of ClusterNetworkPolicies and Events"
            " about policies, where RBAC lets it.",
        ),
    ] = WriteStatus.AUTO,
    clock_file: Annotated[str, typer.Option("--clock-file", hidden=True)] = "",
) -> None:
    """Enforce policy on this node: judge the first packet of every connection of its pods.

    Needs root. Verdict records go to standard output as JSON lines (knp logs reads them),
    messages to standard error. When it is away, new connections pass (--fail-open, the
    default) or drop (--fail-closed, until knp agent cleanup); established ones go on.
    """
    if ctx.invoked_subcommand is not None:
        return
    from knp_py.cli.nodeagent import NodeAgent  # noqa: PLC0415  heavy, and Linux only
    from knp_py.cli.nodeparts import Settings  # noqa: PLC0415
    from knp_py.cli.nodewords import say, speak  # noqa: PLC0415

    if manifests and kubeconfig:
        raise InputError("--manifests and --kubeconfig: expected one of them, what to enforce")
    if context and not kubeconfig:
        raise InputError("--context: is a kubeconfig's; give --kubeconfig FILE as well")
    packets = verbosity >= 2
    dns_queue = dns_queue_id
    if dns_queue is None:
        dns_queue = nfqueue_id + (queues + 1 if queues > 1 else 1)
    settings = Settings(
        manifests=tuple(manifests or ()),
        kubeconfig=kubeconfig,
        context=context,
        shadow=tuple(shadow or ()),
        fail_open=fail_open,
        nfqueue_id=nfqueue_id,
        dns_queue_id=dns_queue,
        queues=queues,
        queue_length=queue_length,
        hostname=hostname,
        all_nodes=all_nodes,
        strict=strict,
        dry_run=dry_run,
        remember=not packets if remember is None else remember is Remember.ON,
        bind=bind,
        log_verdicts=_which(log_verdicts, packets=packets, dry_run=dry_run),
        log_limit=log_limit or float("inf"),
        verbosity=verbosity,
        logging_format=logging_format.value,
        state_dir=state_dir,
        instance=instance,
        masks=(mark_mask, generation_mask, connmark_mask),
        priority=priority,
        scope=scope.value,
        trusted=trusted,
        node_resolvers=node_resolvers,
        allow_special=allow_special,
        clock_file=clock_file,
        write_status=write_status is WriteStatus.AUTO,
    )
    speak(settings.logging_format)
    for remark in remarks(ctx):
        say(remark)
    raise typer.Exit(NodeAgent(settings).run())


@app.command("cleanup", cls=Command, epilog=CLEANUP_EXAMPLES)
def cleanup(
    instance: Instance = "knp",
    state_dir: Annotated[
        str, typer.Option("--state-dir", metavar="DIR", help="As it was given to the agent.")
    ] = "/run/knp",
) -> None:
    """Remove every rule that an agent made here, and what it kept of learned names.

    After a fail-closed agent nothing else opens the node's pods again.
    """
    from knp_py.cli.nodecleanup import clean_up  # noqa: PLC0415

    print(clean_up(instance, state_dir))
