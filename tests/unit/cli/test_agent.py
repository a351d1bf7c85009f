"""``knp agent``'s command line: what is wrong is one line, before anything is changed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.command import knp, run_knp

from knp_py.agent.judge import Mode
from knp_py.cli.nodeparts import Settings
from knp_py.cli.nodewords import farewell, greeting

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
        (["--metrics-bind-address", "9080"], "--metrics-bind-address: '9080' is no address"),
        (
            ["--shadow-manifests", "/nowhere"],
            "/nowhere: no such file or directory; give --shadow-manifests files",
        ),
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


@pytest.mark.parametrize(
    "theirs",
    [
        ["-v=2", "-nfqueue-id=98", "--fail-open=false", "--hostname-override=n1"],
        ["--v=4", "--strict-mode=true", "-logging-format=json", "-metrics-bind-address=:9080"],
        ["-v", "2", "--disable-nri", "--vmodule=dns=4", "--netfilter-bug-1766-fix"],
    ],
)
def test_the_flags_of_the_daemon_it_stands_in_for(theirs: list[str], tmp_path: Path) -> None:
    ended = run_knp("agent", "-m", str(tmp_path / "none"), *theirs)
    *remarks, last = ended.err.splitlines()
    assert ended.code == 2
    assert "none" in last  # it comes to reading the manifests
    assert len(remarks) == sum("=" not in flag or "vmodule" in flag for flag in theirs[2:])
    assert all("has no effect here" in remark for remark in remarks)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--fail-opne=false"], "No such option: --fail-opne (Possible options:"),
        (["-fail-opne=false"], "No such option: --fail-opne (Possible options:"),
        (["--fail-open=maybe"], "--fail-open=maybe: expected true or false"),
        (["--fail-open", "false"], "No such command 'false'"),
        (["--ip-tracker-address=:1"], "--ip-tracker-address :1: "),
        (["--admin-network-policy"], "--admin-network-policy: "),
        (["--logging-format=xml"], "'xml' is not one of text, json"),
        (["--v=loud"], "'loud' is not a whole number"),
    ],
)
def test_flags_that_cannot_be_meant(options: list[str], complaint: str) -> None:
    ended = knp("agent", *options)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert complaint in ended.err


def test_a_remark_is_json_where_messages_are(tmp_path: Path) -> None:
    ended = run_knp(
        "agent", "-m", str(tmp_path / "none"), "--logging-format=json", "--disable-nri"
    )
    message = json.loads(ended.err.splitlines()[0])
    assert message["msg"].startswith("--disable-nri has no effect here")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], (True, "deny")),
        (["--v=1"], (True, "deny")),
        (["--dry-run"], (True, "all")),
        (["--dry-run", "--log-verdicts=deny"], (True, "deny")),
        (["--v=2", "--dry-run"], (False, "none")),
        (["--v=2"], (False, "none")),
        (["--v=4", "--remember", "on"], (True, "none")),
        (["--v=2", "--log-verdicts=all"], (False, "all")),
        (["--remember=off", "--log-verdicts=none"], (False, "none")),
    ],
)
def test_every_packet_is_judged_where_every_packet_is_logged(
    argv: list[str], expected: tuple[bool, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("netfilterqueue", reason="needs netfilterqueue (the extra agent)")
    nodeagent = pytest.importorskip("knp_py.cli.nodeagent")
    given: list[Settings] = []

    class Recorded:
        def __init__(self, settings: Settings) -> None:
            given.append(settings)

        def run(self) -> int:
            return 0

    monkeypatch.setattr(nodeagent, "NodeAgent", Recorded)
    assert knp("agent", "-m", ".", *argv).code == 0
    (settings,) = given
    assert (settings.remember, settings.log_verdicts) == expected
    packets = "every judged packet is logged here" in greeting(settings, 0, "nft queue")
    assert packets is bool({"--v=2", "--v=4"} & set(argv))


def test_a_shell_can_complete_behind_their_flags() -> None:
    line = "knp agent -v=2 --fail-open=nonsense --logging-f"
    ended = run_knp(
        env={
            "_KNP_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(line.count(" ")),
        }
    )
    assert ended.out.split() == ["--logging-format"]


def test_help_needs_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "knp_py", "agent", "--v=2", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pydantic" not in done.stderr
    assert "knp_py.agent" not in done.stderr
