"""The kind kit's scripts, on tools that only pretend; and what they say where there are none."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.kindcluster import Cluster, make
from helpers.kustomized import DAEMONSET, needs_kubectl

KIT = DAEMONSET / "kind"
SCRIPTS = [KIT / name for name in ("setup-all.sh", "test.sh", "teardown.sh")]
SHELL = sorted([*DAEMONSET.rglob("*.sh"), DAEMONSET / "netpol"])
TOOLS = ("docker", "kind", "kubectl")
GITHUB = "sandbox-team-a/agent get https://github.com/"

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


@pytest.mark.skipif(
    shutil.which("shellcheck") is None, reason="needs shellcheck (.ci/run installs it)"
)
@pytest.mark.parametrize("path", SHELL, ids=lambda path: path.name)
def test_shellcheck_has_nothing_to_say(path: Path) -> None:
    done = subprocess.run(
        ["shellcheck", "-x", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_scripts_can_be_run() -> None:
    for path in (*SCRIPTS, DAEMONSET / "netpol", DAEMONSET / "install.sh"):
        assert os.access(path, os.X_OK), path


class Kit:
    """The scripts, with stand-ins for the tools first on their path."""

    def __init__(self, path: Path) -> None:
        self.cluster: Cluster = make(path / "state")
        self.tools = path / "tools"
        self.cluster.install(self.tools, *TOOLS)
        self.environ = {
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "HOME": str(path),
            "SETTLE": "0",
            "PAUSE": "0",
            "PATIENCE": "2",
        }
        if "PYTHONPATH" in os.environ:
            self.environ["PYTHONPATH"] = os.environ["PYTHONPATH"]

    def run(self, name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(KIT / f"{name}.sh"), *arguments],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def did(self) -> list[str]:
        """The calls that change, wait for or ask something, in short."""
        quiet = (["docker", "info"], ["kind", "get"], ["kubectl", "kustomize"])
        calls = [call for call in self.cluster.calls if call[:2] not in quiet]
        return [
            " ".join(call[3:] if call[0] == "kubectl" else call).replace(str(DAEMONSET.parent), "")
            for call in calls
            if call[3:4] != ["get"]
        ]


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


@pytest.fixture
def up(kit: Kit) -> Kit:
    """With its cluster there."""
    kit.cluster.write("clusters", ["another", "knp"])
    return kit


# -- where tools are missing -----------------------------------------------------------------


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_without_docker_it_says_so_for_real(path: Path) -> None:
    """On this very machine, where it has no engine."""
    docker = shutil.which("docker")
    if (
        docker
        and subprocess.run([docker, "info"], capture_output=True, check=False).returncode == 0
    ):
        pytest.skip("there is a Docker engine here")
    done = subprocess.run([str(path)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith(f"{path.name}: needs ")
    assert line.endswith("; nothing was done")
    assert ("docker (not installed)" if docker is None else "a Docker engine") in line


@pytest.mark.parametrize("missing", TOOLS)
@pytest.mark.parametrize("name", ["setup-all", "test", "teardown"])
def test_a_missing_tool_is_named_before_anything_is_done(
    tmp_path: Path, name: str, missing: str
) -> None:
    kit = Kit(tmp_path)
    (kit.tools / missing).unlink()
    for program in ("bash", "basename", "dirname", "env", "cat"):
        found = shutil.which(program)
        assert found is not None
        (kit.tools / program).symlink_to(found)
    kit.environ["PATH"] = str(kit.tools)
    done = kit.run(name)
    assert done.returncode == 3
    assert done.stderr == f"{name}.sh: needs {missing} (not installed); nothing was done\n"
    assert done.stdout == ""
    assert kit.did() == []


def test_an_engine_that_does_not_answer_is_missing_too(kit: Kit) -> None:
    kit.cluster.write("fails", ["^docker info"])
    done = kit.run("setup-all")
    assert done.returncode == 3
    assert "a Docker engine" in done.stderr
    assert kit.did() == []


def test_without_its_cluster_there_is_nothing_to_test(kit: Kit) -> None:
    done = kit.run("test")
    assert done.returncode == 3
    assert done.stderr == "test.sh: there is no kind cluster knp: run setup-all.sh first\n"
    assert kit.did() == []


# -- setup -----------------------------------------------------------------------------------


@needs_kubectl
def test_setup_does_everything_in_order_and_again(kit: Kit) -> None:
    done = kit.run("setup-all")
    assert done.returncode == 0, done.stderr
    expected = [
        r"kind create cluster --name knp --image kindest/node:v\S+@sha256:\w{64} --config \S+",
        r"docker build -f /daemonset/Dockerfile -t knp:\S+",
        r"kind load docker-image knp:\S+ --name knp",
        r"apply --server-side -f https://\S+/v0.2.0/config/crd/experimental/\S+\.yaml",
        r"wait --for=condition=Established .*crd/clusternetworkpolicies",
        r"apply -k /daemonset/overlays/kind",
        r"rollout status daemonset/knp -n kube-system",
        r"apply --server-side -f https://\S+/sandbox-with-extensions.yaml",
        r"rollout status deployment -n agent-sandbox-system",
        r"apply -f -",
        r"rollout status deployment/tool-server -n shared-tools",
        r"wait --for=condition=Ready .* -n sandbox-team-a pod/agent",
        r"wait --for=condition=Ready .* -n sandbox-team-b pod/agent",
    ]
    did = kit.did()
    assert len(did) == len(expected), did
    for line, pattern in zip(did, expected, strict=True):
        assert re.match(pattern, line), (line, pattern)
    kinds = {each["kind"] for each in kit.cluster.read("applied", [])}
    assert "SandboxTemplate" in kinds
    assert not {"Node", "Pod"} & kinds
    names = {each["metadata"]["name"] for each in kit.cluster.read("applied", [])}
    assert "kube-system" not in names

    again = kit.run("setup-all")
    assert again.returncode == 0, again.stderr
    more = kit.did()[len(did) :]
    assert not any(line.startswith("kind create") for line in more)
    assert "rollout restart daemonset/knp -n kube-system" in more
    assert len(more) == len(did)  # the restart instead of the creation


@pytest.mark.parametrize(
    ("refused", "last"),
    [
        ("^kind create", "kind create"),
        ("^docker build", "docker build"),
        ("apply -k", "apply -k"),
        ("rollout status daemonset/knp", "rollout status daemonset/knp"),
    ],
)
def test_setup_stops_where_something_fails(kit: Kit, refused: str, last: str) -> None:
    kit.cluster.write("fails", [refused])
    done = kit.run("setup-all")
    assert done.returncode == 1
    assert kit.did()[-1].startswith(last)


@needs_kubectl
def test_setup_says_for_what_it_waited_in_vain(kit: Kit) -> None:
    kit.cluster.write("sandbox", "")
    kit.environ["PATIENCE"] = "1"
    done = kit.run("setup-all")
    assert done.returncode == 1
    assert "not within 1 s: the claim in sandbox-team-a has a sandbox" in done.stderr


# -- the walkthrough -------------------------------------------------------------------------

PHASES = [
    (None, 4),
    ("phase-4/30-cnp-admin-default-deny.yaml", 3),
    ("phase-4/40-cnp-admin-allow-dns.yaml", 4),
    ("phase-4/50-cnp-admin-allow-github.yaml", 4),
    ("phase-7/60-cnp-admin-team-b-allow-pypi.yaml", 2),
    ("phase-7/70-cnp-admin-pass-shared-tools.yaml", 2),
    ("-", 1),
    ("phase-7/80-cnp-baseline-default-deny.yaml", 3),
]


def phases(did: list[str]) -> list[tuple[str | None, int]]:
    """What was applied, and how many questions were asked before the next."""
    found: list[tuple[str | None, int]] = [(None, 0)]
    for line in did:
        if line.startswith("apply"):
            found.append((line.split("manifests/")[-1].removeprefix("apply -f "), 0))
        elif line.startswith("exec"):
            found[-1] = (found[-1][0], found[-1][1] + 1)
    return found


@needs_kubectl
@pytest.mark.slow
def test_the_walkthrough_is_what_the_engine_says_and_can_be_run_again(up: Kit) -> None:
    done = up.run("test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "== 24 of 24 as expected" in done.stdout
    assert "FAIL" not in done.stdout
    assert len(re.findall("^ok ", done.stdout, re.MULTILINE)) == 24
    did = up.did()
    assert phases(did) == PHASES
    first_applied = next(i for i, line in enumerate(did) if line.startswith("apply"))
    gone = [line for line in did[:first_applied] if line.startswith("delete")]
    assert len(gone) == 7  # six policies and the sandbox of the last phase
    assert did[-1].startswith("logs -n kube-system pod/knp-xyz12")

    again = up.run("test")
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout == done.stdout
    assert up.did()[len(did) :] == did


@needs_kubectl
@pytest.mark.slow
def test_an_answer_that_comes_late_is_waited_for_and_one_that_never_comes_fails(up: Kit) -> None:
    late = ["deny", "error", "deny", "engine"]
    up.cluster.write(
        "answers",
        {
            GITHUB: late,
            "sandbox-team-a/agent connect 1.1.1.1:443": ["allow"],
            "sandbox-team-b/agent pip requests": ["error"],
        },
    )
    up.cluster.write("fails", ["^kubectl .* logs "])
    done = up.run("test")
    assert done.returncode == 1
    assert "== 21 of 24 as expected" in done.stdout
    assert re.findall("^FAIL  (.*)", done.stdout, re.MULTILINE) == [
        "expected deny, got allow: sandbox-team-a connect 1.1.1.1:443 (no allowed name led there)",
        "expected allow, got no answer: sandbox-team-b pip requests",
        (
            "expected record, got missing: of sandbox-team-a/agent, denied by"
            " sandbox-egress-default-deny"
        ),
    ]
    asked = [line for line in up.did() if line.startswith("exec")]
    github = [line for line in asked if line.endswith("get https://github.com/")]
    # The first of its four expectations was asked four times; each failure as often as allowed.
    assert len(github) == 4 + 3
    assert len(asked) == 23 + 3 + 4 + 4
    assert "logs -n kube-system ds/knp" in done.stdout


def test_claims_without_sandboxes_are_no_failed_expectation(up: Kit) -> None:
    up.cluster.write("sandbox", "")
    done = up.run("test")
    assert done.returncode == 3
    assert "run setup-all.sh again" in done.stderr


def test_a_policy_that_is_refused_ends_it(up: Kit) -> None:
    up.cluster.write("fails", ["apply .*30-cnp"])
    done = up.run("test")
    assert done.returncode == 1
    assert "as expected" not in done.stdout


def test_nothing_is_asked_of_another_cluster(up: Kit) -> None:
    up.run("teardown")
    calls = [call for call in up.cluster.calls if call[0] == "kubectl" and call[1] != "kustomize"]
    assert calls
    assert all(call[1:3] == ["--context", "kind-knp"] for call in calls)


# -- teardown --------------------------------------------------------------------------------


@needs_kubectl
def test_teardown_removes_the_demo_and_keeps_the_cluster(up: Kit) -> None:
    done = up.run("teardown")
    assert done.returncode == 0, done.stderr
    did = up.did()
    assert did[0] == "delete sandbox raw-sandbox -n sandbox-team-a --ignore-not-found"
    assert did[1] == "delete --ignore-not-found -f -"
    assert len(did) == 2 + 6
    assert all(line.startswith("delete --ignore-not-found -f ") for line in did[1:])
    assert up.cluster.read("clusters", []) == ["another", "knp"]


def test_teardown_of_all_deletes_that_cluster_and_no_other(up: Kit) -> None:
    assert up.run("teardown", "--all").returncode == 0
    assert up.did() == ["kind delete cluster --name knp"]
    assert up.cluster.read("clusters", []) == ["another"]
    again = up.run("teardown", "--all")
    assert (again.returncode, again.stdout) == (0, "there is no kind cluster knp\n")


@pytest.mark.parametrize("arguments", [("--al",), ("--all", "knp"), ("-h",)])
def test_teardown_takes_nothing_else(up: Kit, arguments: tuple[str, ...]) -> None:
    done = up.run("teardown", *arguments)
    assert done.returncode == 2
    assert done.stderr == "usage: teardown.sh [--all]\n"
    assert up.did() == []
