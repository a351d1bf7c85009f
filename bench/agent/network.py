"""A node and two pods as network namespaces, and processes inside them."""

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

PREFIX = "knpb"
_ROUTER = "169.254.1.1"  # what both pods have as their way out, as with many CNIs
_NETNS = Path("/run/netns")


class Network:
    """Namespaces ``knpb<pid>-node``, ``-client``, ``-server``; gone when the block ends.

    The pods have the addresses given, as /32; ``outside`` is a network that the server
    answers for besides, whole.
    """

    def __init__(
        self, client: Sequence[str], server: Sequence[str], *, outside: str | None = None
    ) -> None:
        self._prefix = f"{PREFIX}{os.getpid()}"
        self._ends = {"client": tuple(client), "server": tuple(server)}
        self._outside = outside
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        _remove_left_behind()
        try:
            self._up()
        except BaseException:
            self._down()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._down()

    def inside(self, where: str, *argv: str) -> list[str]:
        """The command line that runs ``argv`` in ``node``, ``client`` or ``server``."""
        return ["ip", "netns", "exec", self._name(where), *argv]

    def run(self, where: str, *argv: str, text: str | None = None) -> str:
        """Run to its end inside; its output. Raises ``RuntimeError`` with what it said."""
        return _run(*self.inside(where, *argv), text=text)

    def start(
        self,
        where: str,
        *argv: str,
        stdout: IO[bytes] | int = subprocess.PIPE,
        stderr: IO[bytes] | int | None = None,
        stdin: int | None = None,
        directory: Path | None = None,
    ) -> subprocess.Popen[str]:
        """Start inside; killed when the network goes, if not by ``stop``."""
        process = subprocess.Popen(
            self.inside(where, *argv), stdin=stdin, stdout=stdout, stderr=stderr,
            text=True, cwd=directory,
        )  # fmt: skip
        self._processes.append(process)
        return process

    def stop(self, process: subprocess.Popen[str], number: int = signal.SIGKILL) -> None:
        """Send a signal, wait for the end."""
        if process.poll() is None:
            process.send_signal(number)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        self._processes.remove(process)

    def clear(self) -> None:
        """No rules and no connections on the node, as it was made."""
        self.run("node", "nft", "flush", "ruleset")

    def _name(self, where: str) -> str:
        return f"{self._prefix}-{where}"

    def _up(self) -> None:
        for where in ("node", "client", "server"):
            _run("ip", "netns", "add", self._name(where))
            _run("ip", "-n", self._name(where), "link", "set", "lo", "up")
        node = self._name("node")
        _run("ip", "netns", "exec", node, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for pod, addresses in self._ends.items():
            space = self._name(pod)
            _run("ip", "-n", node, "link", "add", pod, "type", "veth", "peer", "name", "eth0",
                 "netns", space)  # fmt: skip
            _run("ip", "-n", node, "addr", "add", f"{_ROUTER}/32", "dev", pod)
            _run("ip", "-n", node, "link", "set", pod, "up")
            for address in addresses:
                _run("ip", "-n", space, "addr", "add", f"{address}/32", "dev", "eth0")
                _run("ip", "-n", node, "route", "add", f"{address}/32", "dev", pod)
            _run("ip", "-n", space, "link", "set", "eth0", "up")
            _run("ip", "-n", space, "route", "add", _ROUTER, "dev", "eth0", "scope", "link")
            _run("ip", "-n", space, "route", "add", "default", "via", _ROUTER)
            # A connection that was reset frees its port at once; there must be enough for 64.
            _run("ip", "netns", "exec", space, "sysctl", "-qw",
                 "net.ipv4.ip_local_port_range=1024 65535")  # fmt: skip
        if self._outside is not None:
            server = self._name("server")
            _run("ip", "-n", server, "route", "add", "local", self._outside, "dev", "lo")
            _run("ip", "-n", node, "route", "add", self._outside, "via",
                 self._ends["server"][0], "dev", "server", "onlink")  # fmt: skip

    def _down(self) -> None:
        for process in list(self._processes):
            self.stop(process)
        for where in ("client", "server", "node"):
            if (_NETNS / self._name(where)).exists():
                _run("ip", "netns", "del", self._name(where))


def _remove_left_behind() -> None:
    """Namespaces of a bench that was killed."""
    if not _NETNS.is_dir():
        return
    for path in _NETNS.iterdir():
        found = re.fullmatch(rf"{PREFIX}(\d+)-\w+", path.name)
        if found and not Path("/proc", found[1]).exists():
            _run("ip", "netns", "del", path.name)


def _run(*argv: str, text: str | None = None) -> str:
    done = subprocess.run(
        argv, input=text, capture_output=True, text=True, check=False, timeout=120
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
