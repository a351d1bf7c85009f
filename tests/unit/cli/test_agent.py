"""``knp agent``'s command line: what is wrong is one line, before anything is changed."""

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.command import knp, run_knp

from knp_py.agent.judge import Mode
from knp_py.cli.nodewords import farewell

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: x}
status: {phase: Running, podIP: 10.0.0.1}
"""


@pytest.fixture
def manifests(tmp_path: Path) -> str:
    (tmp_path / "pod.yaml").write_text(POD)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--mark-mask", "0x4078"], "--mark-mask 0x4078"),
        (["--mark-mask", "0x3c000"], "takes bits of kube-proxy's"),
        (["--generation-mask", "0x70"], "overlap"),
        (["--connmark-mask", "nonsense"], "--connmark-mask nonsense"),
        (["--instance", "Blue!"], "--instance Blue!"),
        (["--trusted-resolvers", "8.8.8.8.8"], "trusted resolvers"),
        (["--allow-special", "x"], "--allow-special"),
        (["--node-resolvers", "x"], "--node-resolvers"),
        (["--dns-queue-id", "100"], "the queues' numbers must differ"),
        (["--queues", "65"], "--queues"),
        (["--metrics-bind-address", "9080"], "9080"),
        (["--shadow-manifests", "/nowhere"], "/nowhere"),
        (["--fail-sideways"], "--fail-sideways"),
    ],
)
def test_bad_options_are_one_line(manifests: str, options: list[str], complaint: str) -> None:
    isolated = ["unshare", "--net", sys.executable, "-m", "knp_py", "agent", "-m", manifests]
    ended = subprocess.run(
        [*isolated, "--state-dir", "", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "unshare" in ended.stderr:
        pytest.skip("needs root to keep away from this machine's own rules")
    lines = ended.stderr.splitlines()
    assert ended.returncode == 2, ended.stderr
    assert len([line for line in lines if not line.startswith("knp agent: warning")]) == 1
    assert complaint in lines[-1]


def test_something_to_enforce_is_needed() -> None:
    ended = knp("agent")
    assert (ended.code, ended.out) == (2, "")
    assert "--manifests PATH" in ended.err


def test_manifests_that_are_not_there(tmp_path: Path) -> None:
    ended = run_knp("agent", "-m", str(tmp_path / "none"))
    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1
    assert "none" in ended.err


def test_a_bad_manifest_is_said_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p}\n"
        "spec: {podSelector: {}, ingress: [{ports: [{port: 99999}]}]}\n"
    )
    ended = run_knp("agent", "-m", str(tmp_path))
    assert ended.code == 2
    assert "p.yaml" in ended.err
    assert "spec.ingress[0].ports[0].port" in ended.err


def test_help_says_what_the_fail_modes_are() -> None:
    ended = knp("agent", "--help")
    assert ended.code == 0
    assert "--fail-open" in ended.out
    assert "knp agent cleanup" in ended.out
    assert "--clock-file" not in ended.out


def test_the_last_words_say_what_holds_now() -> None:
    assert "rules are removed" in farewell(Mode(fail_open=True), "")
    assert "rules stay" in farewell(Mode(fail_open=False), "")
    assert farewell(Mode(), "OSError: gone") == "stopped: OSError: gone"
