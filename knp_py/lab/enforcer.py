"""``knp agent`` on the lab's node: started, asked how it is, told the time, ended."""

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from knp_py.errors import LabError
from knp_py.lab.manifestdir import write_whole
from knp_py.lab.namespaces import socket_inside, start_inside, with_resolv_conf
from knp_py.lab.patience import Patience
from knp_py.lab.processes import Process, end, process

_PORT = 9080  # where the agent serves unless told otherwise
_START = 30.0  # seconds to be ready, and for a change to be in force
_PAGE = 2.0  # seconds for one of its pages
_TICK = 0.02
_CLOCK_READ = 0.3  # seconds for it to look at its clock's file
_LAST_LINES = 3


class Post(NamedTuple):
    """Where an agent does its work: the node's namespace and its files.

    ``verdicts`` is its standard output, ``log`` its standard error; ``clock`` holds the
    seconds that its clock is ahead.
    """

    space: str
    manifests: str
    state: str
    verdicts: str
    log: str
    clock: str
    resolv_conf: str


def agent_options(post: Post, extra: Sequence[str]) -> list[str]:
    """The agent's command line: what a lab needs, and what the user says instead or besides."""
    options = ["--manifests", post.manifests, "--state-dir", post.state, "--all-nodes"]
    options += ["--clock-file", post.clock]
    if not any(each.startswith("--fail-") for each in extra):
        options.append("--fail-open")
    if not any(each.startswith("--log-verdicts") for each in extra):
        options += ["--log-verdicts", "all"]
    return [*options, *extra]


class Enforcer:
    """One agent. ``process`` is None until it is started."""

    def __init__(self, post: Post, options: Sequence[str], running: Process | None = None) -> None:
        self._post = post
        self._options = options
        self.process = running
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> Process:
        """Start it, with nothing that an earlier one has left behind."""
        write_whole(self._post.clock, b"0\n", self._post.state)
        argv = [sys.executable, "-m", "knp_py", "agent", *self._options]
        with open(self._post.verdicts, "wb") as out, open(self._post.log, "wb") as errors:
            self._child = start_inside(
                self._post.space,
                with_resolv_conf(argv, self._post.resolv_conf),
                stdout=out,
                stderr=errors,
                detached=True,
            )
        started = process(self._child.pid)
        if started is None:
            raise self._failed()
        self.process = started
        return started

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            end([self.process])
            self.process = None
        if self._child is not None:
            self._child.wait()
            self._child = None

    def check(self) -> None:
        """Raises ``LabError`` with its last words when it has ended by itself."""
        if self.process is None or not self.process.alive:
            raise self._failed()

    def wait_ready(self) -> None:
        """Back when it says that it judges. Raises ``LabError``."""
        self._wait(lambda: self._get("/readyz")[0] == http.HTTPStatus.OK, "is not ready")

    def wait_for(self, written_ns: int) -> int:
        """Back when it enforces what was written by then (wall clock); its generation.

        Raises ``LabError``.
        """

        def in_force() -> bool:
            return int(self.status().get("source", {}).get("scan_started_ns", 0)) > written_ns

        self._wait(in_force, "does not take the change up")
        return int(self.status()["generation"])

    def status(self) -> dict[str, Any]:
        """What it says of itself; empty when it says nothing."""
        code, body = self._get("/status")
        return json.loads(body) if code == http.HTTPStatus.OK else {}

    def set_clock(self, seconds: float) -> None:
        """Have its clock be so many seconds ahead of the machine's. Raises ``LabError``.

        It looks at the file some twenty times a second.
        """
        write_whole(self._post.clock, f"{seconds}\n".encode(), self._post.state)
        time.sleep(_CLOCK_READ)
        self._wait(
            lambda: self.status().get("clock_offset", seconds) == seconds,
            "does not move its clock",
        )

    # -- asking ------------------------------------------------------------------------

    def _wait(self, done: Callable[[], bool], complaint: str) -> None:
        patience = Patience(time.monotonic, _PAGE)
        while not done():
            self.check()
            if patience.spent() > _START:
                said = self._get("/readyz")[1].decode("utf-8", "replace").strip()
                reason = f": {said}" if said else ""
                raise LabError(f"the agent {complaint} after {_START:g} s{reason}")
            time.sleep(_TICK)

    def _get(self, path: str) -> tuple[int, bytes]:
        """Status code, 0 when nobody answers, and body."""
        try:
            with socket_inside(self._post.space, socket.AF_INET, socket.SOCK_STREAM) as sock:
                sock.settimeout(_PAGE)
                sock.connect(("127.0.0.1", self._port()))
                connection = http.client.HTTPConnection("127.0.0.1")
                connection.sock = sock
                connection.request("GET", path)
                response = connection.getresponse()
                return response.status, response.read()
        except (OSError, http.client.HTTPException, LabError):
            return 0, b""

    def _port(self) -> int:
        address = ""
        for option, value in pairwise([*self._options, ""]):
            name, equals, given = option.partition("=")
            if name == "--metrics-bind-address":
                address = given if equals else value
        port = address.rpartition(":")[2]
        return int(port) if port.isdigit() else _PORT

    def _failed(self) -> LabError:
        try:
            with open(self._post.log, encoding="utf-8", errors="replace") as file:
                lines = file.read().strip().splitlines()[-_LAST_LINES:]
            said = [line.removeprefix("knp: ") for line in lines]
        except FileNotFoundError:
            said = []
        return LabError("\n".join(["the agent has ended", *said]))
