"""Whole processes: replay against tshark, eval from a cold start, loading many pods."""

import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import RawPcapReader

from bench.captures import write_capture
from bench.documents import write_pods
from bench.measure import paired, run
from knp_py.wire.capture import read_capture

KNP = (sys.executable, "-m", "knp_py")
EXAMPLE = Path(__file__).parent.parent / "examples" / "quickstart"
PACKETS, CONNECTIONS, PODS = 1_000_000, 20_000, 1_000
MANY_PODS = 10_000


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("capture") / "million.pcap"
    write_capture(path, packets=PACKETS, connections=CONNECTIONS, pods=PODS)
    return path


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("manifests")
    write_pods(directory / "pods.json", PODS)
    (directory / "policies.yaml").write_text(POLICIES)
    return directory


POLICIES = """\
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: guard}
spec:
  tier: Admin
  priority: 10
  subject: {namespaces: {}}
  egress:
  - {name: tls, action: Accept, to: [{networks: [203.0.113.0/24]}],
     protocols: [{tcp: {destinationPort: {number: 443}}}]}
  - {name: rest, action: Deny, to: [{networks: [203.0.113.0/24]}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: http-only, namespace: team-0}
spec:
  podSelector: {}
  ingress:
  - ports: [{port: http}]
"""


def test_replay_against_tshark(benchmark: Any, capture: Path, manifests: Path) -> None:
    tshark = shutil.which("tshark")
    if tshark is None:
        pytest.skip("tshark is not installed (apt-get install tshark)")
    fields = ["ip.src", "ip.dst", "ip.proto", "tcp.srcport", "tcp.dstport"]
    other = [tshark, "-r", str(capture), "-T", "fields"]
    for field in fields:
        other += ["-e", field]
    ours = [*KNP, "replay", str(capture), "--manifests", str(manifests), "-o", "jsonl"]
    ratios = [run(*other).seconds / run(*ours).seconds for _ in range(3)]
    benchmark.extra_info["times faster, at least 10"] = statistics.median(ratios)
    done = benchmark.pedantic(lambda: run(*ours), rounds=3)
    print(f"\nFIGURE replay of {PACKETS:,} packets: {statistics.median(ratios):.1f} times tshark,"
          f" {done.seconds:.2f} s, peak {done.peak_kib / 1024:.0f} MiB")  # fmt: skip
    assert statistics.median(ratios) >= 10


def test_replay_memory_is_flat(tmp_path: Path, manifests: Path) -> None:
    # A connection is forgotten two minutes after its end: both captures must be longer.
    peaks = []
    for share in (1, 4):
        path = tmp_path / f"{share}.pcap"
        write_capture(path, packets=PACKETS // share, connections=CONNECTIONS // share, pods=PODS,
                      spacing=2000)  # fmt: skip
        argv = [*KNP, "replay", str(path), "--manifests", str(manifests), "-o", "jsonl"]
        peaks.append(run(*argv).peak_kib)
    long, short = peaks
    print(f"\nFIGURE replay memory, 4 times the packets: {long / short:.3f} times the peak")
    assert long / short < 1.25


def test_capture_reader_against_scapy(benchmark: Any, capture: Path) -> None:
    def ours() -> None:
        with capture.open("rb") as file:
            for _ in read_capture(file.read):
                pass

    def theirs() -> None:
        with RawPcapReader(str(capture)) as reader:
            for _ in reader:
                pass

    result = paired(ours, theirs, rounds=3)
    benchmark.pedantic(ours, rounds=3)
    print(f"\nFIGURE capture reader: {1 / result.ratio:.1f} times scapy's RawPcapReader,"
          f" {result.subject / PACKETS * 1e6:.2f} µs a record")  # fmt: skip


def test_eval_from_a_cold_start(benchmark: Any) -> None:
    argv = [*KNP, "eval", "--manifests", str(EXAMPLE), "--from", "shop/web", "--to", "shop/db",
            "--port", "5432"]  # fmt: skip
    benchmark.pedantic(lambda: run(*argv), rounds=10, warmup_rounds=1)
    bare = statistics.median(run(sys.executable, "-c", "pass").seconds for _ in range(5))
    mine = statistics.median(run(*argv).seconds for _ in range(9))
    print(f"\nFIGURE knp eval: {mine:.3f} s (under 0.35), {mine / bare:.1f} times a bare Python")
    assert mine < 0.35


LOADER = """
import gc, sys, time, tracemalloc
from knp_py.adapters.documents import read_documents
from knp_py.engine.state import ClusterState
from knp_py.manifests.load import load
from knp_py.model.changes import Change, Verb
traced = sys.argv[2] == "memory"
if traced:
    tracemalloc.start()
begin = time.perf_counter()
result = load(read_documents([sys.argv[1]]))
state = ClusterState()
for obj in result.objects:
    state.apply(Change(Verb.APPLIED, obj))
snapshot = state.snapshot()
seconds = time.perf_counter() - begin
count = len(snapshot.pods)
del result
gc.collect()
print(seconds, count, tracemalloc.get_traced_memory()[0] if traced else 0)
"""


def test_loading_many_pods(benchmark: Any, tmp_path: Path) -> None:
    write_pods(tmp_path / "pods.json", MANY_PODS)

    def load(mode: str) -> tuple[float, int, int]:
        argv = [sys.executable, "-c", LOADER, str(tmp_path), mode]
        out = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
        return float(out[0]), int(out[1]), int(out[2])

    benchmark.pedantic(lambda: load("time"), rounds=3)
    seconds = statistics.median(load("time")[0] for _ in range(3))
    _, count, held = load("memory")
    size = (tmp_path / "pods.json").stat().st_size / 1e6
    print(f"\nFIGURE loading {count:,} pods ({size:.0f} MB of JSON): {seconds:.2f} s (under 2),"
          f" {held / count:.0f} bytes a pod afterwards (at most 2,048)")  # fmt: skip
    assert seconds < 2
    assert held / count <= 2048
