"""etcd and kube-apiserver as processes, with throwaway certificates, tokens and data.

Both listen on 127.0.0.1 only. The flags are those that kube-apiserver has had since 1.20.
"""

import base64
import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from helpers.apiserver_certs import Authority

ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")


def _missing() -> str:
    if not ASSETS:
        return "KUBEBUILDER_ASSETS names no directory with etcd and kube-apiserver"
    absent = [name for name in ("etcd", "kube-apiserver") if not shutil.which(name, path=ASSETS)]
    return f"no {' and no '.join(absent)} in {ASSETS}" if absent else ""


MISSING = _missing()  # why there is no real server, "" when there is one

_START = 90.0  # seconds that a slow machine may take


class Programs:
    """The two of them. ``tokens``: user and group ("" for none) by token."""

    def __init__(self, tokens: Mapping[str, tuple[str, str]]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="envtest-"))
        self._tokens = tokens
        self._etcd, self._peer, self.port = _free_ports(3)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def _data(self) -> Path:
        return self.directory / "etcd"

    def prepare(self) -> None:
        """Certificates, keys and tokens."""
        self.authority = Authority(self.directory / "certs")
        self._pair = self.authority.server()
        lines = [
            f'{token},{user},{user},"{group}"\n' for token, (user, group) in self._tokens.items()
        ]
        (self.directory / "tokens.csv").write_text("".join(lines))
        key = str(self.directory / "accounts.key")
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], capture_output=True, check=True)

    def remove(self) -> None:
        """All files."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def start_etcd(self) -> None:
        """Until it answers."""
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd, self._peer))
        self._start(
            "etcd",
            f"--data-dir={self._data}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        )
        self._wait("etcd", lambda: b"true" in self._ask_etcd("GET", "/health"))

    def start_server(self, ready: Callable[[], bool]) -> None:
        """Until it is ``ready``."""
        accounts = self.directory / "accounts.key"
        self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            f"--cert-dir={self.directory / 'certs'}",
            f"--tls-cert-file={self._pair.cert}",
            f"--tls-private-key-file={self._pair.key}",
            f"--client-ca-file={self.authority.pair.cert}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--endpoint-reconciler-type=none",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={accounts}",
            f"--service-account-signing-key-file={accounts}",
            "--service-cluster-ip-range=10.96.0.0/16",
            # without controllers nobody makes the accounts that it wants to see
            "--disable-admission-plugins=ServiceAccount",
        )
        self._wait("kube-apiserver", ready)

    def stop(self, program: str) -> None:
        """End it; etcd in good order, the server at once: it would wait for its watches."""
        process = self._processes.pop(program, None)
        if process is None:
            return
        if program == "etcd":
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
        process.kill()
        process.wait()

    def compact(self) -> None:
        """Have etcd forget what was before now."""
        key = {"key": base64.b64encode(b"/").decode()}
        found = json.loads(self._ask_etcd("POST", "/v3/kv/range", key))
        order = {"revision": found["header"]["revision"], "physical": True}
        try:
            self._ask_etcd("POST", "/v3/kv/compaction", order)
        except OSError as error:
            if "has been compacted" not in str(error):  # twice at the same revision
                raise

    def backup(self) -> Path:
        """A copy of etcd's files; it must be stopped."""
        copy = Path(tempfile.mkdtemp(prefix="backup-", dir=self.directory)) / "etcd"
        shutil.copytree(self._data, copy)
        return copy

    def restore(self, copy: Path) -> None:
        """Put one back; etcd must be stopped."""
        shutil.rmtree(self._data)
        shutil.copytree(copy, self._data)

    def _ask_etcd(self, method: str, path: str, body: object = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._etcd, timeout=60)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            raw = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise OSError(f"etcd: {path}: {answer.status} {raw!r}")
        return raw

    def _start(self, program: str, *arguments: str) -> None:
        found = shutil.which(program, path=ASSETS)
        assert found is not None, MISSING
        with (self.directory / f"{program}.log").open("ab") as log:
            self._processes[program] = subprocess.Popen(
                [found, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _wait(self, program: str, check: Callable[[], bool]) -> None:
        end = time.monotonic() + _START
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if check():
                    return
            ended = self._processes[program].poll() is not None
            if ended or time.monotonic() > end:
                log = (self.directory / f"{program}.log").read_text(errors="replace")
                raise AssertionError(f"{program} does not run:\n{log[-4000:]}")
            time.sleep(0.05)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in made:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in made]
