"""What each part of a packet's way through the agent costs, in nanoseconds, no kernel involved.

    python -m bench.agent.parts

Packets are the first of a TCP connection, as the kernel hands them over; the judge is the
agent's, with the walkthrough's policies and with the large cluster of ``bench.scenarios``.
"""

import os
import struct
import sys
import time
from collections.abc import Callable, Iterable
from itertools import repeat
from pathlib import Path

from bench.agent.stage import LARGE, MANY, PORT, ROOT, WALKTHROUGH, Load
from bench.scenarios import cluster
from knp_py.adapters.clocks import BootClock
from knp_py.adapters.documents import load_manifests
from knp_py.agent.judge import Judge, Mode, World
from knp_py.agent.marks import Ask, Deed, Marks
from knp_py.agent.metrics import Metrics
from knp_py.agent.packetlog import PacketLog
from knp_py.agent.verdictlog import VerdictLog, Which
from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.live import LiveDatapath
from knp_py.engine.names import DomainCache
from knp_py.engine.resolvers import parse_trust
from knp_py.engine.snapshot import Snapshot
from knp_py.engine.snoop import DnsSnooper
from knp_py.engine.state import ClusterState
from knp_py.model.changes import Change, ClusterObject, Verb
from knp_py.model.net import parse_address
from knp_py.wire.packet import parse_ip

_HEADERS = struct.Struct("!BBHHHBBHIIHHIIBBHHH")
_TIMES = 20_000
_LOW = 0xFFFF_FFFF


def syn(load: Load, sport: int, dport: int = PORT) -> bytes:
    """The first packet of a connection, 40 bytes."""
    src, dst = parse_address(load.client) & _LOW, parse_address(load.server) & _LOW
    return _HEADERS.pack(0x45, 0, 40, sport, 0x4000, 63, 6, 0, src, dst,
                         sport, dport, sport, 0, 0x50, 2, 65535, 0, 0)  # fmt: skip


def measure(
    call: Callable[[bytes], object],
    packets: Iterable[bytes],
    before: Callable[[], object] = bool,
) -> float:
    """Nanoseconds a packet: the best of five goes through all of them, ``before`` each go."""
    given = list(packets)
    best = float("inf")
    for _ in range(5):
        before()
        begin = time.perf_counter_ns()
        for packet in given:
            call(packet)
        best = min(best, time.perf_counter_ns() - begin)
    return best / len(given)


def datapath(names: DomainCache) -> LiveDatapath:
    """As the agent has it."""
    snooper = DnsSnooper(names, trust=parse_trust("auto"))
    return LiveDatapath(PolicyEngine(names), snooper, judge_midstream=True)


def judge(
    snapshot: Snapshot, logged: Which = "none", packets: PacketLog | None = None
) -> tuple[Judge, VerdictLog]:
    """As ``knp agent --remember off`` has it; records go to /dev/null."""
    sink = os.open(os.devnull, os.O_WRONLY)
    names = DomainCache()
    log = VerdictLog(lambda lines: os.write(sink, lines), which=logged, limit=float("inf"))

    def complain(error: Exception) -> None:
        raise SystemExit(f"the judge failed: {error!r}")

    def adopt(src: int, sport: int, dst: int, dport: int, *, mark: int) -> None:
        raise SystemExit(f"no packet here is a reply: {(src, sport, dst, dport, mark)}")

    made = Judge(
        datapath(names),
        Marks(), Mode(remember=False), metrics=Metrics(version="", mode=""), log=log,
        timer=BootClock(), complain=complain, adopt=adopt, logged=logged, packets=packets,
    )  # fmt: skip
    made.load(World(snapshot, 1))
    return made, log


def _snapshot(objects: Iterable[ClusterObject]) -> Snapshot:
    state = ClusterState()
    state.apply_all(Change(Verb.APPLIED, obj) for obj in objects)
    return state.snapshot()


def figures() -> Iterable[tuple[str, float]]:
    """Each part's name and what it costs."""
    example = Path(ROOT, "examples", "agent-sandbox", "manifests")
    small = _snapshot(load_manifests([str(example)]).objects)
    large = _snapshot(cluster(**LARGE._asdict()))
    same = syn(WALKTHROUGH, 40000)
    yield "an empty call", measure(lambda _: None, repeat(same, _TIMES))
    clock = BootClock()
    yield (
        "the clock, thrice",
        measure(
            lambda _: (clock.monotonic_ns(), clock.now(), clock.monotonic_ns()),
            repeat(same, _TIMES),
        ),
    )
    yield "parse", measure(parse_ip, repeat(same, _TIMES))
    for name, load, snapshot in (("walkthrough", WALKTHROUGH, small), ("large", MANY, large)):
        for part, nanoseconds in _judging(load, snapshot):
            yield f"{part}, {name}", nanoseconds


def _judging(load: Load, snapshot: Snapshot) -> Iterable[tuple[str, float]]:
    marks = Marks()
    question, allowed = marks.bits(Ask.JUDGE), marks.bits(Deed.ACCEPT)
    packets = [syn(load, 1024 + n) for n in range(_TIMES)]
    ports = [syn(load, 40000, 1 + n) for n in range(_TIMES)]
    alone = datapath(DomainCache())
    alone.load(snapshot)
    yield "parse and decide", measure(lambda data: alone.first(data, 0.0), packets)
    quiet, _ = judge(snapshot)
    if quiet.answer(question, packets[0]) & marks.verdict != allowed:
        raise SystemExit("the measured connection is not allowed")
    yield "judge", measure(lambda data: quiet.answer(question, data), packets)
    world = World(snapshot, 1)
    yield (
        "judge, nothing remembered",
        measure(lambda data: quiet.answer(question, data), ports, lambda: quiet.load(world)),
    )
    loud, log = judge(snapshot, "all")

    def record(data: bytes) -> None:
        loud.answer(question, data)
        if not data[21] & 63:  # as often as a batch ends
            log.flush(0.0)

    yield "judge and record", measure(record, packets)
    with open(os.devnull, "wb", buffering=0) as sink:
        entries = PacketLog(sink.write)
        loudest, _ = judge(snapshot, packets=entries)

        def write(data: bytes) -> None:
            loudest.answer(question, data)
            if not data[21] & 63:
                entries.flush(0.0)

        yield "judge and log at --v 2", measure(write, packets)


def main() -> int:
    for name, nanoseconds in figures():
        print(f"{name:44} {nanoseconds:8,.0f} ns", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
