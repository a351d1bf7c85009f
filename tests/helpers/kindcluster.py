"""``docker``, ``kind`` and ``kubectl`` of a cluster that is not there, for the kit's scripts.

They write down what they are asked to do, remember what was applied, and answer what a sandbox
can reach with knp's own evaluator, by the policies applied so far: what the script expects of the
walkthrough is held to what the engine says. Run as a program, this module is one of the three:

    kindcluster.py STATE_DIRECTORY TOOL ARGUMENTS...
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import yaml

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "examples" / "agent-sandbox" / "manifests"
SERVICES = {"tool-server": "10.96.88.20", "kube-dns": "10.96.0.10"}
NAMES = ("pypi.org", "files.pythonhosted.org")


class Cluster:
    """The state that the stand-ins share, in a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, name: str, otherwise: Any) -> Any:
        """A value that was kept."""
        file = self.path / f"{name}.json"
        return json.loads(file.read_text()) if file.exists() else otherwise

    def write(self, name: str, value: object) -> None:
        """Keep a value."""
        (self.path / f"{name}.json").write_text(json.dumps(value))

    @property
    def calls(self) -> list[list[str]]:
        """What was run, in order."""
        file = self.path / "calls"
        return (
            [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        )

    def install(self, tools: Path, *names: str) -> None:
        """Put the stand-ins of these names into a directory."""
        tools.mkdir(exist_ok=True)
        for name in names:
            tool = tools / name
            tool.write_text(
                f'#!/bin/sh\nexec {sys.executable} {__file__} {self.path} {name} "$@"\n'
            )
            tool.chmod(0o755)

    # -- as programs -----------------------------------------------------------------------

    def run(self, tool: str, words: list[str]) -> int:
        """One call of a tool."""
        with (self.path / "calls").open("a") as calls:
            calls.write(json.dumps([tool, *words]) + "\n")
        for pattern in self.read("fails", []):
            if re.search(pattern, " ".join([tool, *words])):
                sys.stderr.write(f"{tool}: refused\n")
                return 1
        match [tool, *words]:
            case ["kind", "get", "clusters"]:
                say(*self.read("clusters", ["another"]))
            case ["kind", "create", "cluster", "--name", name, *_]:
                self.write("clusters", [*self.read("clusters", ["another"]), name])
            case ["kind", "delete", "cluster", "--name", name]:
                self.write("clusters", [n for n in self.read("clusters", []) if n != name])
            case ["kubectl", "kustomize", *_]:
                kubectl = self.read("kubectl", None)
                return subprocess.run([kubectl, *words], check=False).returncode
            case ["kubectl", "--context", "kind-knp", verb, *rest]:
                return self.kubectl(verb, rest)
            case ["kubectl", *_]:
                sys.stderr.write("kubectl: on which cluster?\n")
                return 1
        return 0

    def kubectl(self, verb: str, words: list[str]) -> int:
        """A call that names its cluster."""
        if words[-2:] == ["-f", "-"]:
            objects = list(yaml.safe_load_all(sys.stdin.read()))
            self.write("applied", [*self.read("applied", []), *objects])
            if any(each["metadata"]["name"] == "raw-sandbox" for each in objects):
                self.policies(verb, str(MANIFESTS / "phase-7" / "90-raw-sandbox.yaml"))
        elif verb in {"apply", "delete"} and words[-2:-1] == ["-f"]:
            self.policies(verb, words[-1])
        elif verb == "exec":
            pod, words = f"{words[1]}/{words[2]}", words[words.index("--") + 1 :]
            return self.ask(pod, words)
        elif verb == "logs":
            say(*self.read("log", []))
        elif verb == "get":
            say(self.value(words))
        return 0

    def policies(self, verb: str, file: str) -> None:
        """A file of policies comes or goes."""
        before = [each for each in self.read("policies", []) if each != file]
        self.write("policies", [*before, file] if verb == "apply" else before)

    def value(self, words: list[str]) -> str:
        """What ``kubectl get`` prints."""
        match words:
            case ["sandboxclaim", *_]:
                return str(self.read("sandbox", "agent"))
            case ["service", name, *_]:
                return SERVICES[name]
            case ["daemonset", *_]:
                applied = any("overlays/kind" in " ".join(call) for call in self.calls[:-1])
                return "daemonset.apps/knp" if applied else ""
            case ["pod", "-n", "kube-system", *_]:
                return "pod/knp-xyz12"
            case _:
                return "knp-worker"

    def ask(self, pod: str, words: list[str]) -> int:
        """The answer of a probe in a pod: the evaluator's, or what a test wants instead."""
        if words[2] == "sh":
            kind, target = "pip", words[-1]
        else:
            kind, target = words[-2:]
        what = f"{pod} {kind} {target}"
        instead = self.read("answers", {}).get(what, [])
        if instead:
            answer, *later = instead
            self.write("answers", {**self.read("answers", {}), what: later or [answer]})
            if answer == "error":
                sys.stderr.write("error: unable to upgrade connection\n")
                return 1
            if answer != "engine":
                say(answer)
                return 0
        say(self.verdict(pod, kind, target))
        return 0

    def verdict(self, pod: str, kind: str, target: str) -> str:
        """``allow`` or ``deny`` by the policies that were applied."""
        if kind == "pip":
            expect = [{"connect": name, "port": 443} for name in NAMES]
        elif kind == "lookup":
            expect = [{"lookup": target}]
        else:
            parts = urlsplit(target if kind == "get" else f"tcp://{target}")
            expect = [{"connect": parts.hostname, "port": parts.port or 443}]
        scenario = yaml.safe_load((MANIFESTS.parent / "scenario.yaml").read_text())
        step = {
            "name": "now",
            "apply": self.read("policies", []),
            "expect": [{"from": pod, "verdict": "allow", **each} for each in expect],
        }
        file = self.path / "scenario.yaml"
        file.write_text(
            yaml.safe_dump(
                {
                    "name": "now",
                    "manifests": str(MANIFESTS / "phase-1"),
                    "resolve": scenario["resolve"],
                    "steps": [step],
                }
            )
        )
        done = subprocess.run(
            [sys.executable, "-m", "knp_py", "test", str(file), "-o", "json"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in {0, 1}, done.stderr
        [result] = json.loads(done.stdout)
        for check in result["checks"]:
            if check["verdict"] == "deny":
                record = {
                    "verdict": "deny",
                    "src": {"pod": pod},
                    "decided_by": check["decided_by"],
                }
                self.write("log", [*self.read("log", []), msgspec.json.encode(record).decode()])
                return "deny"
        return "allow"


def say(*lines: str) -> None:
    """To whoever ran the tool."""
    sys.stdout.writelines(f"{line}\n" for line in lines)


def make(path: Path) -> Cluster:
    """A cluster in a new directory; ``kubectl kustomize`` is the real one's, if there is one."""
    path.mkdir()
    cluster = Cluster(path)
    cluster.write("kubectl", shutil.which("kubectl"))
    return cluster


if __name__ == "__main__":
    sys.exit(Cluster(Path(sys.argv[1])).run(sys.argv[2], sys.argv[3:]))
