"""Who answers the queue: an agent, or something else behind an agent's rules, or nobody."""

import contextlib
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from bench.agent.network import Network
from bench.agent.programs import Programs, build
from bench.documents import write_cluster
from knp_py.agent.marks import Deed, Marks

ROOT = Path(__file__).parents[2]
QUEUE, DNS_QUEUE = 100, 101
PORT = 8080
OUTSIDE, OUTSIDE_PORTS = "203.0.113.0/24", 100
_START_SECONDS = 60.0

# What lets the walkthrough's client out to the network of many destinations.
_WIDE = f"""\
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {{name: bench-wide}}
spec:
  tier: Admin
  priority: 1
  subject: {{namespaces: {{matchLabels: {{team: b}}}}}}
  egress:
  - action: Accept
    to: [{{networks: [{OUTSIDE}]}}]
    protocols:
    - tcp: {{destinationPort: {{range: {{start: {PORT}, end: {PORT + OUTSIDE_PORTS - 1}}}}}}}
"""


class Size(NamedTuple):
    """Of a cluster of ``bench.scenarios``."""

    cluster_policies: int
    network_policies: int
    pods: int


LARGE = Size(cluster_policies=100, network_policies=500, pods=5_000)


class Load(NamedTuple):
    """From whom to whom connections are made; every one of them is allowed."""

    client: str
    server: str
    ports: int = 1
    addresses: int = 1

    @property
    def options(self) -> tuple[str, ...]:
        """For ``connect_load``, the server last."""
        return ("-s", self.client, "-p", str(PORT), "-n", str(self.ports),
                "-a", str(self.addresses), self.server)  # fmt: skip


# sandbox-team-b/agent to shared-tools/tool-server: a Pass of an Admin policy, then the derived
# NetworkPolicy of the sandbox's template, on a node with six of the walkthrough's pods.
WALKTHROUGH = Load("10.244.1.7", "10.244.1.9")
# Two of the hundred pods of node-0, in team-0: an app to the one that its policy names.
MANY = Load("10.64.0.10", "10.64.0.11")
WIDE = Load("10.244.1.7", "203.0.113.0", ports=OUTSIDE_PORTS, addresses=256)

# The same two in the cluster of ``api_server``.
CLUSTER = MANY

NODES = {"walkthrough": "demo-worker", "wide": "demo-worker", "many": "node-0"}


class Stage:
    """A network with a server in it, manifests on disk, and whoever answers the queue now."""

    def __init__(self, network: Network, directory: Path) -> None:
        self.network = network
        self.programs: Programs = build(directory)
        self.launcher: tuple[str, ...] = ("-m", "knp_py")
        self.records = directory / "verdicts.jsonl"
        self._directory = directory
        self._api: subprocess.Popen[str] | None = None
        self._manifests(directory)
        self.server = network.start(
            "server", str(self.programs.accept_close), str(PORT), str(OUTSIDE_PORTS)
        )
        _await_ready(self.server)
        # A tuple that was reset is soon forgotten, or the table of connections only grows.
        self.track()
        network.run("node", "sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_timeout_close=1")
        network.clear()

    def _manifests(self, directory: Path) -> None:
        example = ROOT / "examples" / "agent-sandbox" / "manifests"
        for name in ("walkthrough", "wide"):
            shutil.copytree(example, directory / name)
        (directory / "wide" / "wide.yaml").write_text(_WIDE)
        (directory / "many").mkdir()
        write_cluster(directory / "many", **LARGE._asdict())

    def track(self) -> None:
        """Rules as on any node whose connections are tracked, and nothing more."""
        self.network.run(
            "node", "nft", "-f", "-",
            text="table inet tracking { chain forward { type filter hook forward priority 0;\n"
            "ct state invalid drop\n}\n}\n",
        )  # fmt: skip

    def agent(self, manifests: str, *options: str, logged: str = "deny") -> subprocess.Popen[str]:
        """``knp agent`` on a directory of manifests, once it says that it enforces."""
        source = ("--manifests", str(self._directory / manifests))
        return self._agent(source, NODES[manifests], *options, logged=logged)

    def follower(self, rate: float, *options: str) -> subprocess.Popen[str]:
        """``knp agent`` that follows an API server with so many pod events a second."""
        config = self._directory / "kubeconfig"
        program = Path(__file__).with_name("api_server.py")
        self._api = self.network.start(
            "node", sys.executable, str(program), str(config), str(rate), stdin=subprocess.PIPE
        )
        _await_ready(self._api)
        return self._agent(("--kubeconfig", str(config)), NODES["many"], *options)

    def _agent(
        self, source: tuple[str, ...], node: str, *options: str, logged: str = "deny"
    ) -> subprocess.Popen[str]:
        errors = self._directory / "agent.err"
        with errors.open("wb") as err, self.records.open("wb") as out:
            process = self.network.start(
                "node", sys.executable, *self.launcher, "agent", *source,
                "--hostname-override", node,
                "--nfqueue-id", str(QUEUE), "--dns-queue-id", str(DNS_QUEUE),
                "--state-dir", str(self._directory / "state"),
                "--log-verdicts", logged, "--log-limit", "0", *options,
                stdout=out, stderr=err, directory=ROOT,
            )  # fmt: skip
        until = time.monotonic() + _START_SECONDS
        while "enforcing" not in errors.read_text():
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"knp agent did not start: {errors.read_text().strip()}")
            time.sleep(0.02)
        return process

    def in_its_place(self, *program: str) -> subprocess.Popen[str]:
        """``program`` on the queue of an agent that was killed, behind the rules it left."""
        killed = self.agent("walkthrough", "--fail-closed", "--remember", "off")
        self.network.stop(killed, signal.SIGKILL)
        marks = Marks()
        accept = marks.bits(Deed.ACCEPT) | marks.packet_generation(1)
        process = self.network.start(
            "node", *program, str(QUEUE), f"{marks.ours:x}", f"{accept:x}"
        )
        _await_ready(process)
        return process

    def clear(self, process: subprocess.Popen[str] | None) -> None:
        """Whoever answers ends, and what it left behind goes."""
        if process is not None:
            self.network.stop(process, signal.SIGTERM)
        if self._api is not None:
            self.network.stop(self._api, signal.SIGTERM)
            self._api = None
        self.network.clear()

    def recorded(self) -> int:
        """Lines of the verdict log, and the log is gone."""
        with self.records.open("rb") as file:
            lines = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))
        self.records.unlink()
        return lines

    def queued(self) -> tuple[int, int]:
        """Packets of the judged queue since it was opened: that came, that were dropped."""
        lines = self.network.run("node", "cat", "/proc/net/netfilter/nfnetlink_queue")
        for line in lines.splitlines():
            fields = [int(field) for field in line.split()]
            if fields[0] == QUEUE:
                return fields[7], fields[5] + fields[6]
        return 0, 0


class Memory(NamedTuple):
    """MiB: resident, and the same with shared pages counted in parts."""

    resident: float
    proportional: float


def memory(process: subprocess.Popen[str]) -> Memory:
    """What a process holds now."""
    text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    found = dict(re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE))
    return Memory(int(found["Rss"]) / 1024, int(found["Pss"]) / 1024)


def _await_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    with contextlib.suppress(UnicodeDecodeError):
        if process.stdout.readline() == "ready\n":
            return
    raise RuntimeError(f"{process.args!r} did not start")
