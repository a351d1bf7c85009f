"""A pod's container as a node would run it: made of a manifest and an image, run by runc.

What the kubelet and its runtime add to the manifest is added here: the image's variables, the
default seccomp profile, the masked parts of /proc, a resolv.conf, the service account's files.
Not its cgroup: limits are not in force.
"""

import copy
import json
import os
import platform
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self

from helpers.imagebuild import MINUTES, Image
from helpers.kustomized import Document
from helpers.nodes import Agent, NodeUnderTest, eventually

from knp_py.adapters.kube.access import SERVICE_ACCOUNT
from knp_py.lab.namespaces import path_of, space_of

# What RuntimeDefault is, as Debian's container tools have it; containerd's differs in details.
SECCOMP = Path("/usr/share/containers/seccomp.json")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Runtime:
    """Containers by name, none of which is left at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._root = path / "root"
        self._root.mkdir(parents=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._runc("list", "--quiet").stdout.split():
            self._runc("delete", "--force", name)

    def plain(self) -> Document:
        """What ``runc spec`` suggests, less what a pod does not have."""
        bundle = self._path / "plain"
        bundle.mkdir(exist_ok=True)
        if not (bundle / "config.json").exists():
            assert self._runc("spec", "--bundle", str(bundle)).returncode == 0
        config: Document = json.loads((bundle / "config.json").read_text())
        config["process"]["terminal"] = False
        del config["process"]["rlimits"], config["process"]["capabilities"]["ambient"]
        config["linux"]["resources"] = {}
        mounts = [each for each in config["mounts"] if each["type"] != "cgroup"]
        config["mounts"] = mounts
        return config

    def run(self, name: str, config: Document) -> "subprocess.CompletedProcess[str]":
        """One that ends by itself."""
        return subprocess.run(
            self._command("run", "--bundle", self._bundle(name, config), self._id(name)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=5 * MINUTES,
            check=False,
        )

    def start(
        self, name: str, config: Document, out: IO[bytes], err: IO[bytes]
    ) -> "subprocess.Popen[bytes]":
        """One that goes on. The process ends with it, as it does."""
        return subprocess.Popen(
            self._command("run", "--bundle", self._bundle(name, config), self._id(name)),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )

    def kill(self, name: str, number: signal.Signals) -> bool:
        """A signal to its number 1; whether there was one."""
        return self._runc("kill", self._id(name), str(int(number))).returncode == 0

    def first(self, name: str) -> int:
        """The process that is number 1 in there, by its number out here."""
        return int(json.loads(self._runc("state", self._id(name)).stdout)["pid"])

    def _bundle(self, name: str, config: Document) -> str:
        bundle = self._path / name
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(config))
        return str(bundle)

    def _id(self, name: str) -> str:
        return f"knp-{os.getpid()}-{name}"  # a cgroup has this name too

    def _command(self, *argv: str) -> list[str]:
        return ["runc", "--root", str(self._root), *argv]

    def _runc(self, *argv: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self._command(*argv), capture_output=True, text=True, timeout=5 * MINUTES, check=False
        )


def container_config(
    plain: Document,
    image: Image,
    spec: Document,
    container: Document,
    *,
    volumes: Mapping[str, Path] | None = None,
    account: Path | None = None,
    service: Mapping[str, str] | None = None,
    node: NodeUnderTest | None = None,
    node_name: str = "",
) -> Document:
    """The container of a pod's ``spec`` as an OCI runtime wants it.

    ``volumes`` are the directories of the pod's volumes by name, ``account`` and ``service`` what
    a pod of a cluster has of it. ``node`` is whose network the pod has; none: one of its own.
    """
    context = {**spec.get("securityContext", {}), **container["securityContext"]}
    assert context["capabilities"]["drop"] == ["ALL"]
    assert not context["privileged"]
    held = [f"CAP_{name}" for name in context["capabilities"].get("add", [])]
    variables = dict(each.split("=", 1) for each in image.config["Env"])
    variables |= {"HOSTNAME": node_name, **(service or {})}
    for each in container.get("env", []):
        if "valueFrom" in each:
            assert each["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
            variables[each["name"]] = node_name
        else:
            variables[each["name"]] = each["value"]
    command = container.get("command", image.config.get("Entrypoint", []))
    # As with the kubelet, the image's own arguments belong to the image's own way in.
    words = container.get("args", [] if "command" in container else image.config.get("Cmd", []))

    config: Document = copy.deepcopy(plain)
    config["hostname"] = node_name
    config["root"] = {"path": str(image.files), "readonly": context["readOnlyRootFilesystem"]}
    config["process"] |= {
        "user": {"uid": context["runAsUser"], "gid": context["runAsGroup"]},
        "args": [_expanded(word, variables) for word in (*command, *words)],
        "env": [f"{name}={value}" for name, value in variables.items()],
        "cwd": image.config.get("WorkingDir") or "/",
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), held),
        "noNewPrivileges": not context["allowPrivilegeEscalation"],
    }
    resolvers = image.files.parent / "resolv.conf"
    resolvers.write_text("nameserver 192.0.2.53\n")
    config["mounts"].append(_bind(resolvers, "/etc/resolv.conf", read_only=False))
    for mount in container.get("volumeMounts", []):
        source = (volumes or {})[mount["name"]] / mount.get("subPath", "")
        config["mounts"].append(_bind(source, mount["mountPath"], mount.get("readOnly", False)))
    if account is not None:
        assert spec["automountServiceAccountToken"]
        config["mounts"].append(_bind(account, SERVICE_ACCOUNT, read_only=True))
    if node is not None:
        assert spec["hostNetwork"]
        [network] = [each for each in config["linux"]["namespaces"] if each["type"] == "network"]
        network["path"] = path_of(space_of(node.lab, "node"))
    if context.get("seccompProfile") == {"type": "RuntimeDefault"}:
        config["linux"]["seccomp"] = _seccomp(held)
    return config


def _expanded(word: str, variables: Mapping[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda found: variables.get(found[1], found[0]), word)


def _bind(source: Path, at: str, read_only: bool) -> Document:
    options = ["rbind", "rprivate", "ro" if read_only else "rw"]
    return {"destination": at, "type": "bind", "source": str(source), "options": options}


def _seccomp(held: list[str]) -> Document:
    """The profile for these capabilities on this machine."""
    profile = json.loads(SECCOMP.read_text())
    here = _ARCHITECTURES.get(platform.machine(), platform.machine())

    def applies(rule: dict[str, Any]) -> bool:
        wanted, unwanted = rule.get("includes", {}), rule.get("excludes", {})
        return (
            set(wanted.get("caps", [])) <= set(held)
            and here in wanted.get("arches", [here])
            and not set(unwanted.get("caps", [])) & set(held)
            and here not in unwanted.get("arches", [])
        )

    taken = ("names", "action", "args", "errnoRet")
    return {
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile["defaultErrnoRet"],
        "syscalls": [
            {key: rule[key] for key in taken if rule.get(key) is not None}
            for rule in profile["syscalls"]
            if applies(rule)
        ],
    }


class RunAgent(Agent):
    """An agent in its container, on a node."""

    def __init__(self, node: NodeUnderTest, runtime: Runtime, config: Document) -> None:
        self.node = node
        self.out = node.path / "records.jsonl"
        self.err = node.path / "agent.log"
        self._runtime = runtime
        with self.out.open("ab") as out, self.err.open("ab") as err:
            self.process = runtime.start("agent", config, out, err)
        node.agents.append(self)

    @property
    def first(self) -> int:
        """The process that is number 1 in there, by its number out here."""
        return self._runtime.first("agent")

    def kill(self) -> None:
        """Also while its container is being made."""
        if not self._runtime.kill("agent", signal.SIGKILL):
            self.process.kill()
        self._ended("is gone after SIGKILL")

    def stop(self) -> int:
        """As the kubelet would; the exit code."""
        eventually(lambda: self._runtime.kill("agent", signal.SIGTERM), "the signal is sent")
        return self._ended("ends after SIGTERM")
