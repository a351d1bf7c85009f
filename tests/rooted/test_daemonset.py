"""The image's way into the agent, under exactly what the DaemonSet gives it, on a node.

User, capabilities, no way to more, a root that cannot be written to, its own process namespace:
all read from the manifest. What runs is this checkout, no image: ``test_image.py`` builds that one
and runs it. Policies come from a directory, or from an API server which gives the pod's account
what the RBAC manifests do.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.kustomized import (
    DAEMONSET,
    built,
    containers,
    needs_kubectl,
    one,
    pod_spec,
)
from helpers.nodes import PATIENCE, Agent, NodeUnderTest, eventually, on_a_node
from helpers.workers import ALSO_81, NAME, cluster, container_of, table, worker

from knp_py.adapters.kube.access import SERVICE_ACCOUNT
from knp_py.lab.namespaces import space_of

CONTAINING = ("setpriv", "unshare", "mount")
ABSENT = [tool for tool in CONTAINING if shutil.which(tool) is None]
pytestmark = [
    *on_a_node,
    pytest.mark.slow,
    pytest.mark.skipif(bool(ABSENT), reason=f"needs {', '.join(ABSENT)}"),
]

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")

NET_ADMIN = 1 << 12


def contained(container: dict[str, Any], state: Path, command: list[str]) -> list[str]:
    """A command line that runs ``command`` as the runtime would run this container.

    Every file system that is mounted becomes read-only, ``state`` excepted, which is the
    container's volume.
    """
    context = container["securityContext"]
    added = "".join(f",+{name.lower()}" for name in context["capabilities"]["add"])
    privileges = [
        "setpriv",
        f"--reuid={context['runAsUser']}",
        f"--regid={context['runAsGroup']}",
        "--clear-groups",
        "--inh-caps=-all",
        f"--bounding-set=-all{added}",
        *([] if context["allowPrivilegeEscalation"] else ["--no-new-privs"]),
    ]
    [mount] = container["volumeMounts"]
    prepare = (
        "set -e\n"
        "mount --make-rprivate /\n"
        "mount -t tmpfs tmpfs /run\n"  # nothing of this machine's, nothing left on it
        f'mkdir -p "{mount["mountPath"]}" {SERVICE_ACCOUNT}\n'
        '[ -z "$ACCOUNT" ] || mount --bind "$ACCOUNT" ' + f"{SERVICE_ACCOUNT}\n"
        f'mount --bind "{state}" "{mount["mountPath"]}"\n'
        "mount -t proc proc /proc\n"
        "for at in $(cut -d' ' -f5 /proc/self/mountinfo | grep -v '^/proc'); do\n"
        f'  [ "$at" = "{mount["mountPath"]}" ] || mount -o remount,bind,ro "$at" || :\n'
        "done 2>/dev/null\n"
        'if touch "$HOME/knp-writes" 2>/dev/null; then echo "the root is writable"; exit 1; fi\n'
        'exec "$@"\n'
    )
    space = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    return [*space, "sh", "-c", prepare, "sh", *privileges, *command]


class Contained(Agent):
    """An agent that runs as in its pod."""

    def __init__(
        self,
        node: NodeUnderTest,
        container: dict[str, Any],
        state: Path,
        command: list[str],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.node = node
        self.out = node.path / "records.jsonl"
        self.err = node.path / "agent.log"
        environ = {
            "PATH": f"{node.path}/bin:{os.environ['PATH']}",
            "HOME": str(node.path),
            "ACCOUNT": "",
            **(environment or {}),
        }
        if "PYTHONPATH" in os.environ:
            environ["PYTHONPATH"] = os.environ["PYTHONPATH"]
        with self.out.open("ab") as out, self.err.open("ab") as err:
            self.process = subprocess.Popen(
                [
                    *("nsenter", f"--net=/run/netns/{space_of(node.lab, 'node')}"),
                    *contained(container, state, command),
                ],
                stdout=out,
                stderr=err,
                env=environ,
            )

    @property
    def first(self) -> int:
        """The process that is number 1 in there, by its number out here."""
        [child] = (
            Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            .read_text()[:-1]
            .split(" ")
        )
        return int(child)

    def stop(self) -> int:
        """As the kubelet would: the signal goes to number 1."""
        os.kill(self.first, signal.SIGTERM)
        return self.process.wait(PATIENCE)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeUnderTest]:
    binaries = tmp_path / "bin"
    binaries.mkdir()
    knp = binaries / "knp"
    knp.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m knp_py "$@"\n')
    knp.chmod(0o755)
    with worker(tmp_path) as node:
        yield node


def start(node: NodeUnderTest, mode: str, entry: list[str]) -> Contained:
    """The base's arguments, the mode and the source of policies exchanged."""
    container = container_of("base/daemonset.yaml")
    assert container["args"][0] == "--fail-open"
    arguments = [mode, *container["args"][1:], "--manifests", str(node.directory)]
    words = [word.replace("$(NODE_NAME)", NAME) for word in arguments]
    agent = Contained(node, container, node.path / "state", [*entry, *words])
    node.agents.append(agent)
    eventually(agent.ready, "the agent is ready")
    return agent


def test_it_judges_with_one_capability_and_nothing_else(node: NodeUnderTest) -> None:
    agent = start(node, "--fail-open", [str(DAEMONSET / "netpol")])
    status = dict(
        line.split(":\t", 1)
        for line in Path(f"/proc/{agent.first}/status").read_text().splitlines()
        if ":\t" in line
    )
    for kind in ("CapPrm", "CapEff", "CapBnd"):
        assert int(status[kind], 16) == NET_ADMIN, kind
    assert int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert status["NSpid"].split()[-1] == "1"  # it takes the signals of a number 1

    assert node.connects("a/client", "10.244.1.3", 80)
    assert not node.connects("a/client", "10.244.1.3", 81)
    eventually(lambda: bool(agent.records()), "the denial is written")
    assert {each["verdict"] for each in agent.records()} == {"deny"}
    assert agent.get("/healthz") == (200, "ok\n")
    assert agent.metric("knp_queue_depth") == 0.0
    assert "knp_queue_depth{" in agent.get("/metrics")[1]  # /proc's queue file could be read
    assert agent.status()["managed_pods"] == 1
    assert (node.path / "state" / "knp.names").exists()
    assert "warning" not in agent.log

    assert agent.stop() == 0
    assert not table(node)
    assert node.connects("a/client", "10.244.1.3", 81)


def test_a_change_reaches_it_and_fail_closed_stays_closed_until_cleanup(
    node: NodeUnderTest,
) -> None:
    agent = start(node, "--fail-closed", ["knp", "agent"])
    assert not node.connects("a/client", "10.244.1.3", 81)
    since = node.write("more.yaml", ALSO_81)
    node.in_force(agent, since)
    assert node.connects("a/client", "10.244.1.3", 81)

    assert agent.stop() == 0
    assert table(node)
    assert not node.connects("a/client", "10.244.1.3", 82)  # nobody is there to judge it

    container = container_of("overlays/cleanup/daemonset.yaml")
    done = node.run(
        "node",
        *("env", f"PATH={node.path}/bin:{os.environ['PATH']}", f"HOME={node.path}", "ACCOUNT="),
        *contained(container, node.path / "state", [*container["command"], *container["args"]]),
    )
    assert done.returncode == 0, done.stderr
    assert "open now" in done.stdout
    assert not table(node)
    assert not (node.path / "state" / "knp.names").exists()
    assert node.connects("a/client", "10.244.1.3", 82)


def test_cleanup_waits_for_the_agent_to_be_gone(node: NodeUnderTest) -> None:
    start(node, "--fail-closed", ["knp", "agent"])
    container = container_of("overlays/cleanup/daemonset.yaml")
    done = node.run(
        "node",
        *("env", f"PATH={node.path}/bin:{os.environ['PATH']}", f"HOME={node.path}", "ACCOUNT="),
        *contained(container, node.path / "state", [*container["command"], *container["args"]]),
    )
    assert done.returncode == 3
    assert "stop it first" in done.stderr
    assert table(node)


@needs_kubectl
@needs_openssl
def test_in_a_cluster_it_needs_no_right_that_the_manifests_do_not_give(
    node: NodeUnderTest,
) -> None:
    """The overlay's own command line, as its pod would run it; not an option is added."""
    found = built("overlays/fail-closed")
    spec = pod_spec(one(found, "DaemonSet"))
    assert spec is not None
    [container] = containers(spec)
    words = [
        word.replace("$(NODE_NAME)", NAME) for word in (*container["command"], *container["args"])
    ]
    with cluster(node, found, spec["serviceAccountName"]) as (api, files, environment):
        account = {"ACCOUNT": str(files), **environment}
        agent = Contained(node, container, node.path / "state", words, account)
        node.agents.append(agent)
        eventually(agent.ready, "the agent is ready")
        assert node.connects("a/client", "10.244.1.3", 80)
        assert not node.connects("a/client", "10.244.1.3", 81)
        assert agent.status()["managed_pods"] == 1
        policy = yaml.safe_load(ALSO_81)
        api.apply(policy)
        eventually(lambda: node.connects("a/client", "10.244.1.3", 81), "the change is in force")
        asked = {(request.method, request.path.partition("?")[0]) for request in api.requests}
        assert ("GET", "/api/v1/namespaces/kube-system/services") in asked
        assert "forbidden" not in agent.log
        assert "Traceback" not in agent.log
        assert agent.stop() == 0


@needs_openssl
def test_in_the_place_of_kube_network_policies_its_rights_are_enough(node: NodeUnderTest) -> None:
    """Its ClusterRole knows no Services; its arguments are its own; its image is ours."""
    read = (
        ("", ("pods", "namespaces", "nodes")),
        ("networking.k8s.io", ("networkpolicies",)),
        ("policy.networking.k8s.io", ("clusternetworkpolicies",)),
    )
    role = {
        "kind": "ClusterRole",
        "metadata": {"name": "kube-network-policies"},
        "rules": [
            {"apiGroups": [group], "resources": list(resources), "verbs": ["list", "watch"]}
            for group, resources in read
        ],
    }
    account = "kube-network-policies"
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": account},
        "roleRef": {"kind": "ClusterRole", "name": account},
        "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": account}],
    }
    arguments = ["--hostname-override=worker-1", "--v=4", "--nfqueue-id=89"]
    with cluster(node, [role, binding], account) as (_, files, environment):
        agent = Contained(
            node,
            container_of("base/daemonset.yaml"),
            node.path / "state",
            [str(DAEMONSET / "netpol"), *arguments],
            {"ACCOUNT": str(files), **environment},
        )
        node.agents.append(agent)
        eventually(agent.ready, "the agent is ready", seconds=15)
        assert node.connects("a/client", "10.244.1.3", 80)
        assert not node.connects("a/client", "10.244.1.3", 81)
        eventually(lambda: 'verdict="drop"' in agent.log, "the denial is in the log")
        assert '"Evaluating packet"' in agent.log


def test_without_the_capability_it_says_so(node: NodeUnderTest) -> None:
    container = container_of("base/daemonset.yaml")
    container["securityContext"]["capabilities"]["add"] = []
    agent = Contained(
        node, container, node.path / "state", ["knp", "agent", "--manifests", str(node.directory)]
    )
    node.agents.append(agent)
    with suppress(subprocess.TimeoutExpired):
        agent.process.wait(PATIENCE)
    assert agent.process.returncode == 3
    assert "CAP_NET_ADMIN" in agent.log
    assert "Traceback" not in agent.log
