"""``knp lab`` as a person uses it: up, exec, status, down, and what a crash leaves behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.command import Ended, knp, run_knp, start_knp
from helpers.labs import in_a_lab, lab_name
from helpers.scenarios import CLUSTER

from knp_py.lab.labstate import folder_of, lab_names, read_state
from knp_py.lab.namespaces import spaces_of

pytestmark = in_a_lab

SCENARIO = """\
name: small
manifests: cluster.yaml
resolve: {github.com: 140.82.121.4}
steps:
  - {name: one, expect: [{from: a/client, connect: web.a, port: 80, verdict: allow}]}
  - name: two
    apply:
      apiVersion: v1
      kind: Pod
      metadata: {namespace: a, name: late}
      spec: {containers: [{name: c}]}
      status: {phase: Running, podIPs: [{ip: 10.244.1.20}]}
    expect: [{from: a/late, connect: github.com, verdict: allow}]
"""


class Lab:
    """A lab by name, which is gone at the end whatever happens to it."""

    def __init__(self, folder: Path) -> None:
        self.name = lab_name()
        self.folder = folder
        (folder / "cluster.yaml").write_text(CLUSTER)
        self.scenario = folder / "s.yaml"
        self.scenario.write_text(SCENARIO)

    def __call__(self, command: str, *argv: str) -> Ended:
        return run_knp("lab", command, "--name", self.name, *argv)

    def up(self, *argv: str) -> Ended:
        ended = self("up", str(self.scenario), "--no-agent", *argv)
        assert ended.code == 0, ended.err
        return ended

    def exec(self, place: str, *argv: str) -> Ended:
        return run_knp("lab", "exec", "--name", self.name, place, *argv)

    def connects(self, place: str, address: str) -> bool:
        program = f"import socket; socket.create_connection(({address!r}, 80), 3)"
        return self.exec(place, sys.executable, "-c", program).code == 0

    @property
    def left(self) -> list[str]:
        """Whatever there still is of it."""
        top = Path(folder_of(self.name).top)
        return [*spaces_of(self.name), *([str(top)] if top.exists() else []), *self.processes]

    @property
    def processes(self) -> list[str]:
        """Command lines that name its folder."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().decode(errors="replace").split("\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if any(word.startswith(folder_of(self.name).top + "/") for word in words):
                found.append(" ".join(words))
        return found


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    yield made
    made("down")
    assert made.left == []


def test_up_exec_and_down(lab: Lab) -> None:
    ended = lab.up()
    assert ended.out.splitlines() == [
        f"{lab.name}: up, no agent; files in /run/knp-lab/{lab.name}",
        "POD              ADDRESSES",
        "a/client         10.244.1.6",
        "a/public         10.244.1.7",
        "a/server         10.244.1.9",
        "kube-system/dns  10.244.0.2",
    ]
    # Names by the pod's own resolvers and search list; what comes back comes back unchanged.
    assert lab.exec("a/client", "getent", "hosts", "web").out.split() == [
        *("10.96.1.1", "web.a.svc.cluster.local")
    ]
    assert lab.exec("a/public", "getent", "hosts", "web.a.svc.cluster.local").code == 2
    assert lab.exec("a/public", "getent", "hosts", "github.com").code == 0
    assert lab.exec("a/client", "sh", "-c", "echo out; echo err >&2; exit 7") == Ended(
        7, "out\n", "err\n"
    )
    assert lab.exec("a/client", "ip", "-br", "-4", "addr", "show", "eth0").out.split()[2] == (
        "10.244.1.6/32"
    )
    assert lab.exec("node", "nft", "list", "table", "inet", "knplab_services").code == 0
    ended = lab("down")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert lab.left == []
    assert lab.name not in lab_names()


def test_the_machines_resolv_conf_stays_as_it_is(lab: Lab) -> None:
    before = Path("/etc/resolv.conf").read_bytes()
    mounts = Path("/proc/self/mountinfo").read_text()
    lab.up()
    shown = lab.exec("a/public", "cat", "/etc/resolv.conf").out
    assert shown == "nameserver 8.8.8.8\nnameserver 1.1.1.1\n"
    assert Path("/etc/resolv.conf").read_bytes() == before
    changed = set(Path("/proc/self/mountinfo").read_text().splitlines()) ^ set(mounts.splitlines())
    assert not [line for line in changed if "resolv" in line]


def test_a_signal_reaches_the_command(lab: Lab) -> None:
    lab.up()
    argv = ["lab", "exec", "--name", lab.name, "a/client", "sleep", "60"]
    with start_knp(*argv) as process:
        _eventually(lambda: _words(process.pid)[0] == "sleep")
        process.terminate()
        assert process.wait(timeout=60) == -signal.SIGTERM


def _words(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def test_status_names_pods_and_agent(lab: Lab) -> None:
    lab.up()
    ended = run_knp("lab", "status", "-o", "json")
    assert ended.code == 0
    (own,) = [each for each in json.loads(ended.out) if each["lab"] == lab.name]
    assert own["up"] is True
    assert own["agent"] is None
    assert own["scenario"] == str(lab.scenario)
    assert own["pods"]["a/client"] == ["10.244.1.6"]
    state = read_state(folder_of(lab.name))
    assert state is not None
    os.kill(state.processes["servers"].pid, signal.SIGKILL)
    _eventually(lambda: "not whole: its server does not run" in run_knp("lab", "status").out)


def test_steps_bring_the_lab_further(lab: Lab) -> None:
    ended = lab.up("--steps", "2")
    assert "a/late           10.244.1.20" in ended.out.splitlines()
    assert lab.connects("a/late", "10.244.1.6")


def test_manifests_alone_are_enough(lab: Lab) -> None:
    manifests = str(lab.folder / "cluster.yaml")
    ended = lab("up", "--no-agent", "--manifests", manifests)
    assert ended.code == 0, ended.err
    assert lab.exec("a/client", "getent", "hosts", "web").code == 0
    assert lab.exec("a/clie", "true") == Ended(0, "", "knp: in the pod a/client\n")
    ended = lab("test")
    assert f"the lab {lab.name} has no scenario of its own: say which" in ended.err


def test_without_an_agent_the_scenario_shows_what_is_open(lab: Lab) -> None:
    ended = lab("test", str(lab.scenario), "--no-agent", "-o", "json")
    assert ended.code == 0, ended.err
    assert "no agent ran" in ended.err
    (found,) = json.loads(ended.out)
    assert found["counts"] == {"expectations": 2, "met": 2, "unmet": 0, "errors": 0}
    assert lab.left == []
    kept = lab("test", str(lab.scenario), "--no-agent", "--keep")
    assert kept.code == 0, kept.err
    again = lab("test")
    assert again.code == 0, again.err
    assert lab.exec("a/late", "true").code == 0


# -- what is refused -------------------------------------------------------------------


def test_mistakes_are_told_in_one_line_each(lab: Lab) -> None:
    lab.up()
    cases = [
        (lab("up", str(lab.scenario)), f"there is a lab {lab.name} already: knp lab down"),
        (lab.exec("a/clent", "true"), "there is no pod a/clent, did you mean 'a/client'?"),
        (lab.exec("a/client", "no-such-command"), "no-such-command"),
        (lab("up"), "say which SCENARIO or --manifests"),
        (lab("test", str(lab.scenario), "--no-agent"), "is up with an agent of its own"),
        (lab("test", str(lab.scenario), "--", "--log-verdicts=deny"), "leave --log-verdicts"),
        (run_knp("lab", "exec", "--name", "nosuch", "a/b", "true"), "no lab nosuch is up"),
        (run_knp("lab", "test", "--name", "nosuch"), "no lab is up: say which SCENARIO"),
        (run_knp("lab", "up", "--name", "No!", str(lab.scenario)), "--name 'No!'"),
        (lab("up", str(lab.scenario), "--no-agent", "--", "--strict-mode"), "do not go together"),
    ]
    for ended, text in cases:
        assert ended.code in {2, 127}, ended
        assert text in ended.err, ended
        assert len(ended.err.splitlines()) == 1, ended
    ended = run_knp("lab", "down", "--name", "nosuch")
    assert (ended.code, ended.err) == (0, "knp: no lab nosuch is up\n")


def test_without_root_it_says_what_to_do(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for command in (["up", str(lab.scenario)], ["test"], ["status"], ["down"], ["exec", "a", "b"]):
        ended = knp("lab", *command)
        assert ended.code == 3
        assert ended.err == (
            "knp: knp lab needs root to make network namespaces: run it by sudo\n"
        )


def test_without_the_tools_it_names_them(lab: Lab, tmp_path: Path) -> None:
    ended = run_knp("lab", "up", str(lab.scenario), env={"PATH": str(tmp_path)})
    assert ended.code == 3
    assert "knp lab needs ip, nft, unshare, mount: install iproute2" in ended.err


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv (util-linux)")
@pytest.mark.parametrize("capability", ["sys_admin", "net_admin"])
def test_what_even_root_may_not_is_said_in_one_line(lab: Lab, capability: str) -> None:
    argv = [sys.executable, "-m", "knp_py", "lab", "up", "--name", lab.name, "--no-agent"]
    drop = f"--bounding-set=-{capability}"
    ended = subprocess.run(
        ["setpriv", drop, f"--inh-caps=-{capability}", *argv, str(lab.scenario)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 3, ended
    (line,) = ended.stderr.splitlines()
    assert line.startswith("knp: ")
    assert "Operation not permitted: a lab needs all that root may do" in line
    assert lab.left == []


# -- crashes ---------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0.25, 0.35, 0.45, 0.55, 0.7])
def test_killed_while_it_builds(lab: Lab, seconds: float) -> None:
    argv = ["lab", "up", "--name", lab.name, str(lab.scenario), "--no-agent"]
    with start_knp(*argv) as process:
        time.sleep(seconds)
        process.kill()
        process.wait(timeout=60)
    ended = lab("down")
    assert ended.code == 0, ended.err
    assert lab.left == []


def test_interrupted_while_it_builds_it_tidies_up(lab: Lab) -> None:
    argv = ["lab", "up", "--name", lab.name, str(lab.scenario), "--no-agent"]
    for number in (signal.SIGINT, signal.SIGTERM):
        with start_knp(*argv) as process:
            _eventually(lambda: bool(spaces_of(lab.name)))
            process.send_signal(number)
            assert process.wait(timeout=60) in {130, 0}
        if process.returncode == 0:  # it was up by then
            lab("down")
        assert lab.left == []


def test_a_build_that_fails_leaves_nothing(lab: Lab) -> None:
    # A pod's name that no namespace's file can have.
    long = CLUSTER.replace("name: client,", f"name: {'p' * 254},")
    (lab.folder / "cluster.yaml").write_text(long)
    ended = lab("up", str(lab.scenario), "--no-agent")
    assert ended.code == 2, ended
    assert lab.left == []


def test_everything_in_it_was_killed(lab: Lab) -> None:
    lab.up()
    state = read_state(folder_of(lab.name))
    assert state is not None
    for each in state.processes.values():
        os.kill(each.pid, signal.SIGKILL)
    with start_knp("lab", "exec", "--name", lab.name, "a/client", "sleep", "600") as inside:
        _eventually(lambda: _words(inside.pid)[0] == "sleep")
        assert lab("down").code == 0
        assert inside.wait(timeout=60) == -signal.SIGTERM
    assert lab.left == []


def test_its_memory_was_lost(lab: Lab) -> None:
    lab.up()
    Path(folder_of(lab.name).state).unlink()
    assert lab("down").code == 0
    assert lab.left == []


def test_two_labs_at_once(lab: Lab, tmp_path: Path) -> None:
    other = Lab(tmp_path)
    try:
        lab.up()
        other.up()
        assert lab("down").code == 0
        assert other.connects("a/client", "10.244.1.9")
    finally:
        other("down")
    assert other.left == []


def test_one_command_at_a_time(lab: Lab) -> None:
    with start_knp("lab", "up", "--name", lab.name, str(lab.scenario), "--no-agent") as process:
        _eventually(lambda: bool(spaces_of(lab.name)))
        ended = lab("down")
        assert process.wait(timeout=60) == 0
    if ended.code:  # else it was quick enough to come first, or late enough
        assert ended.err == f"knp: process {process.pid} is at work on the lab {lab.name}\n"


def _eventually(check: object, seconds: float = 60) -> None:
    assert callable(check)
    until = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_kernel_that_lacks_something_is_said_and_leaves_nothing(lab: Lab) -> None:
    """An nft that refuses everything, as one does whose kernel lacks an expression."""
    bin_folder = lab.folder / "bin"
    bin_folder.mkdir()
    nft = bin_folder / "nft"
    nft.write_text("#!/bin/sh\necho 'Error: Could not process rule: No such file' >&2\nexit 1\n")
    nft.chmod(0o755)
    argv = ["lab", "up", "--name", lab.name, str(lab.scenario), "--no-agent"]
    ended = run_knp(*argv, env={"PATH": f"{bin_folder}:{os.environ['PATH']}"})
    assert (ended.code, ended.err) == (
        3,
        "knp: nft refuses a rule of the lab: Error: Could not process rule: No such file\n",
    )
    assert lab.left == []
    assert subprocess.run(["ip", "netns"], capture_output=True, check=True).returncode == 0
