"""What an agent judges with: engine, names, log and judge, as the command line wants them."""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from knp_py.adapters.clocks import BootClock
from knp_py.adapters.conntrack import adopt_connection
from knp_py.agent.connections import NamedConnections, Tuple
from knp_py.agent.judge import Judge, Mode
from knp_py.agent.layout import Layout, Queues
from knp_py.agent.marks import Marks
from knp_py.agent.metrics import Metrics
from knp_py.agent.packetlog import PacketLog
from knp_py.agent.shadow import Shadow, SharedNames
from knp_py.agent.verdictlog import VerdictLog, Which
from knp_py.engine.evaluate import Names, PolicyEngine
from knp_py.engine.live import LiveDatapath
from knp_py.engine.names import DomainCache, SavedName, Scope
from knp_py.engine.resolvers import parse_networks, parse_trust
from knp_py.engine.snoop import DnsSnooper
from knp_py.errors import InputError
from knp_py.model.decision import NameGrant
from knp_py.model.net import parse_address
from knp_py.verdicts.klogentry import Format

_RESOLV_CONF = Path("/etc/resolv.conf")
_MOST_KINDS = 64
_PACKETS = 2  # the verbosity from which on every packet is logged
_MAX_FLOWS = 65_536  # conversations with resolvers and untracked packets only


class Settings(NamedTuple):
    """The command line, as it was given. No ``manifests``: an API server has the objects."""

    manifests: tuple[str, ...]
    kubeconfig: str
    context: str
    shadow: tuple[str, ...]
    fail_open: bool
    nfqueue_id: int
    dns_queue_id: int
    queues: int
    queue_length: int
    hostname: str
    all_nodes: bool
    strict: bool
    dry_run: bool
    remember: bool
    bind: str
    log_verdicts: Which
    log_limit: float
    verbosity: int
    logging_format: Format
    state_dir: str
    instance: str
    masks: tuple[str, str, str]
    priority: int
    scope: Scope
    trusted: str
    node_resolvers: str
    allow_special: str
    clock_file: str
    write_status: bool

    @property
    def node(self) -> str | None:
        """This node's name; None when every pod counts as being here.

        As kubelet and kube-network-policies make it of a host's name, however that is written:
        nodes have no capitals (DNS-1123).
        """
        return None if self.all_nodes else (self.hostname or socket.gethostname()).strip().lower()

    @property
    def mode(self) -> Mode:
        """How packets are answered. A dry run fails open: it drops nothing, ever."""
        return Mode(self.fail_open or self.dry_run, self.dry_run, self.remember, self.strict)

    @property
    def logs_packets(self) -> bool:
        """Whether every judged packet is on standard error."""
        return self.verbosity >= _PACKETS


class Parts(NamedTuple):
    """Everything that the packet thread touches."""

    judge: Judge
    datapath: LiveDatapath
    names: DomainCache
    snooper: DnsSnooper
    log: VerdictLog
    packets: PacketLog | None
    shadow: Shadow | None
    connections: NamedConnections | None

    def flush(self, now: float) -> None:
        """Write what the logs have."""
        self.log.flush(now)
        if self.packets is not None:
            self.packets.flush(now)

    def close(self, now: float) -> int:
        """The same for the last time; how many lines could not be written and are lost."""
        lost = self.log.close(now)
        return lost if self.packets is None else lost + self.packets.close(now)


def build(
    settings: Settings,
    marks: Marks,
    clock: BootClock,
    metrics: Metrics,
    *,
    write: Callable[[bytes], object],
    write_packets: Callable[[bytes], object],
    on_learn: Callable[[SavedName], object],
    on_open: Callable[[Tuple, tuple[NameGrant, ...]], object] | None,
    complain: Callable[[Exception], object],
    seen: bool,
) -> Parts:
    """Put the parts together; raises ``InputError`` for options that cannot be meant.

    Records go to ``write``, the packets of ``--v 2`` to ``write_packets``. ``on_learn`` is told
    every name, ``on_open`` in strict mode every connection that a name opened.
    """
    trust = parse_trust(settings.trusted, node_resolvers=_node_resolvers(settings))
    special = parse_networks(settings.allow_special, "--allow-special")
    cache = DomainCache(scope=settings.scope, on_learn=on_learn)
    names: Names = cache
    shadow = None
    if settings.shadow:
        shared = SharedNames(cache)
        names = shared.part()
        shadow = Shadow(shared.part())
    snooper = DnsSnooper(cache, trust=trust, allow_special=special)
    datapath = LiveDatapath(
        PolicyEngine(names), snooper, judge_midstream=True, max_flows=_MAX_FLOWS
    )
    log = VerdictLog(
        write, which="all" if shadow else settings.log_verdicts, limit=settings.log_limit
    )
    packets = None
    if settings.logs_packets:
        packets = PacketLog(
            write_packets, form=settings.logging_format, pid=os.getpid, limit=settings.log_limit
        )
    connections = None
    if settings.strict:
        connections = NamedConnections(on_put=on_open)
    judge = Judge(
        datapath,
        marks,
        settings.mode,
        metrics=metrics,
        log=log,
        timer=clock,
        complain=complain,
        adopt=adopt_connection,
        seen=seen,
        shadow=shadow,
        connections=connections,
        logged=settings.log_verdicts,
        packets=packets,
    )
    return Parts(judge, datapath, cache, snooper, log, packets, shadow, connections)


def layout_of(
    settings: Settings, table: str, marks: Marks, *, native: bool, paths: bool
) -> Layout:
    """What the rules are made for; raises ``InputError`` for queues that cannot be.

    ``native``: nftables can queue; ``paths``: it can ask for the way back to a sender.
    """
    main, dns, workers = settings.nfqueue_id, settings.dns_queue_id, settings.queues
    judge = (main + 1, main + workers) if workers > 1 else (main, main)
    queues = Queues(judge, main, dns)
    if dns in {main, *range(judge[0], judge[1] + 1)} or queues.numbers[-1] > 65535:
        raise InputError(
            f"--nfqueue-id {main}, --queues {workers} and --dns-queue-id {dns}: the queues'"
            " numbers must differ and be at most 65535"
        )
    mode = settings.mode
    return Layout(
        table=table,
        marks=marks,
        queues=queues,
        fail_open=mode.fail_open,
        remember=mode.remember,
        strict=mode.strict,
        native=native,
        paths=paths,
        drops=not mode.dry_run,
        priority=settings.priority,
    )


class Complaints:
    """Errors inside, each kind said once and then only counted: a flood must not fill a log."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._said: set[str] = set()

    def __call__(self, error: Exception) -> None:
        """One more error while judging a packet."""
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        at = "" if where is None else f" at {where.tb_frame.f_code.co_name}:{where.tb_lineno}"
        kind = f"{type(error).__name__}{at}"
        if kind not in self._said and len(self._said) < _MOST_KINDS:
            self._said.add(kind)
            self._say(f"internal error, please report it: {kind}: {error}")


def _node_resolvers(settings: Settings) -> list[int]:
    """The node's own resolvers, for pods with dnsPolicy Default."""
    if settings.node_resolvers:
        found = parse_networks(settings.node_resolvers, "--node-resolvers")
        return [first for cidr in found for first, last in cidr.ranges if first == last]
    resolvers = []
    try:
        lines = _RESOLV_CONF.read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        word, _, address = line.strip().partition(" ")
        if word == "nameserver":
            with suppress(ValueError):  # an interface's name behind the address
                resolvers.append(parse_address(address.strip()))
    return resolvers
