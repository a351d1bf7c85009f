"""Exec plugins of a kubeconfig, as programs that do what is said here."""

import json
import os
import time
from pathlib import Path

import pytest

from knp_py.adapters.kube.access import by_kubeconfig
from knp_py.errors import InputError

API = "client.authentication.k8s.io/v1"
CONFIG = f"""\
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:1"}}}}]
users:
- name: u
  user:
    exec: {{apiVersion: {API}, command: ./plugin, args: [token, "of us"], env: [{{name: A, value: b}}]}}
"""  # noqa: E501


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knp_py.adapters.kube.plugins.SAY_AFTER", 0.05)
    monkeypatch.setattr("knp_py.adapters.kube.plugins.LONGEST", 60.0)


def plugin(folder: Path, script: str) -> str:
    """A kubeconfig file beside its plugin; its path."""
    program = folder / "plugin"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    config = folder / "config"
    config.write_text(CONFIG)
    return str(config)


def credential(**status: str) -> str:
    document = {"apiVersion": API, "kind": "ExecCredential", "status": status}
    return f"echo '{json.dumps(document)}'"


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_plugins_token_is_what_is_shown_to_the_server(tmp_path: Path) -> None:
    script = f'echo "$1,$2,$A" > "{tmp_path}/got"\n' + credential(token="s3cret")
    said: list[str] = []
    access = by_kubeconfig(plugin(tmp_path, script), say=said.append)
    assert access.headers()["authorization"] == "Bearer s3cret"
    assert (tmp_path / "got").read_text() == "token,of us,b\n"


def test_a_plugin_that_takes_its_time_is_waited_for_and_that_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    config = plugin(tmp_path, f"sleep 0.5\n{credential(token='s3cret')}")
    assert by_kubeconfig(config, say=said.append).headers()
    assert said == [f"waiting for the exec plugin ./plugin of --kubeconfig {config}, at most 60 s"]


def test_a_plugin_that_hangs_is_ended_with_all_that_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("knp_py.adapters.kube.plugins.LONGEST", 1.0)
    # The one that it began has its output open too: its end alone would end nothing.
    config = plugin(tmp_path, f"sleep 3600 &\necho $! $$ > '{tmp_path}/pids'\nsleep 3600")
    with pytest.raises(InputError) as caught:
        by_kubeconfig(config)
    assert str(caught.value) == (
        f"--kubeconfig {config}: the exec plugin ./plugin gave no credentials within 1 s"
    )
    assert capfd.readouterr().err == "", "the caller says it"
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        end = time.monotonic() + 60
        while is_running(pid):
            assert time.monotonic() < end, f"{pid} is still there"
            time.sleep(0.01)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'log in first' >&2; exit 3", "exec: process returned 3. log in first"),
        ("echo nonsense", "exec: failed to decode process output"),
        ("echo '{}'", "exec: malformed response. missing key 'apiVersion'"),
        (credential(user="me"), "it gave neither a token nor a certificate with its key"),
        (credential(clientCertificateData="x"), "neither a token nor a certificate with its key"),
    ],
)
def test_a_plugin_that_fails_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], script: str, why: str
) -> None:
    config = plugin(tmp_path, script)
    with pytest.raises(InputError) as caught:
        by_kubeconfig(config)
    said = str(caught.value)
    assert said.startswith(f"--kubeconfig {config}: the exec plugin ./plugin: ")
    assert why in said
    assert "\n" not in said
    assert capfd.readouterr().err == ""


def test_a_plugin_that_is_not_there_is_named(tmp_path: Path) -> None:
    config = plugin(tmp_path, "")
    (tmp_path / "plugin").unlink()
    with pytest.raises(InputError, match=r"the exec plugin \./plugin: .*No such file"):
        by_kubeconfig(config)


def test_a_token_that_cannot_be_renewed_is_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it runs there is somebody to say it: whoever asks hears why nobody was asked."""
    monkeypatch.setattr("knp_py.adapters.kube.plugins.LONGEST", 1.0)
    expired = credential(token="s3cret", expirationTimestamp="2020-01-01T00:00:00Z")
    config = plugin(tmp_path, f"test -e '{tmp_path}/down' && sleep 3600\n{expired}")
    access = by_kubeconfig(config)
    assert access.headers()["authorization"] == "Bearer s3cret"
    (tmp_path / "down").touch()
    with pytest.raises(OSError, match=r"exec plugin \./plugin gave no credentials within 1 s"):
        access.headers()
    os.unlink(tmp_path / "down")
    assert access.headers()["authorization"] == "Bearer s3cret"
