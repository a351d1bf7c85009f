"""The manifests of ``daemonset/``: as files, as ``kubectl kustomize`` builds them, and checked."""

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DAEMONSET = ROOT / "daemonset"


def _kubectl() -> str | None:
    """kubectl, if the kustomize in it is one that knows components and labels."""
    found = shutil.which("kubectl")
    if found is None:
        return None
    asked = [found, "version", "--client", "-o", "json"]
    said = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False).stdout
    version = re.search(r'"kustomizeVersion": "v(\d+)', said)
    return found if version and int(version[1]) >= 5 else None


KUBECTL = _kubectl()
needs_kubectl = pytest.mark.skipif(
    KUBECTL is None, reason="needs kubectl, with kustomize 5 in it (kubectl 1.27)"
)

Document = dict[str, Any]

_LOADS = {
    "DaemonSet": ("spec", "template", "spec"),
    "Deployment": ("spec", "template", "spec"),
    "Job": ("spec", "template", "spec"),
    "Pod": ("spec",),
}


def documents(path: Path) -> list[Document]:
    """The objects of a file of manifests."""
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


@cache
def _built(directory: Path) -> str:
    assert KUBECTL is not None
    done = subprocess.run(
        [KUBECTL, "kustomize", "--load-restrictor=LoadRestrictionsNone", str(directory)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, f"{directory}: {done.stderr}"
    return done.stdout


def built(name: str) -> list[Document]:
    """What ``kubectl kustomize daemonset/NAME`` makes."""
    return [each for each in yaml.safe_load_all(_built(DAEMONSET / name)) if each]


def one(found: Iterable[Document], kind: str, name: str = "") -> Document:
    """The only object of a kind, of a name if given."""
    [match] = [
        each
        for each in found
        if each["kind"] == kind and (not name or each["metadata"]["name"] == name)
    ]
    return match


def pod_spec(document: Document) -> Document | None:
    """The pods' spec of what makes pods, or None."""
    path = _LOADS.get(document["kind"])
    if path is None:
        return None
    spec: Any = document
    for key in path:
        spec = spec[key]
    assert isinstance(spec, dict)
    return spec


def containers(spec: Document) -> list[Document]:
    """All of them, those that only prepare included."""
    return [*spec.get("initContainers", []), *spec["containers"]]


def problems(found: list[Document], beside: Iterable[Document] = ()) -> Iterator[str]:
    """What does not hang together: names that nothing has, labels that select nothing.

    ``beside`` is what is there already. What the fields are and may hold is not looked at here.
    """
    names = {(each["kind"], each["metadata"]["name"]) for each in (*found, *beside)}
    ids = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in found
    ]
    yield from (f"{kind} {name} is there twice" for kind, _, name in set(ids) if _twice(ids, name))
    for each in found:
        at = f"{each['kind']} {each['metadata']['name']}"
        if "roleRef" in each:
            ref = each["roleRef"]
            if (ref["kind"], ref["name"]) not in names:
                yield f"{at}: no {ref['kind']} {ref['name']}"
            for subject in each["subjects"]:
                if "namespace" not in subject:
                    yield f"{at}: a subject without a namespace"
        selector = each.get("spec", {}).get("selector", {}).get("matchLabels", {})
        if selector:
            labels = each["spec"]["template"]["metadata"]["labels"]
            if not selector.items() <= labels.items():
                yield f"{at}: selects {selector}, its pods have {labels}"
        spec = pod_spec(each)
        if spec is not None:
            yield from (f"{at}: {problem}" for problem in _pod_problems(spec, names))


def _twice(ids: list[tuple[str, str | None, str]], name: str) -> bool:
    return any(ids.count(each) > 1 for each in ids if each[2] == name)


def _pod_problems(spec: Document, names: set[tuple[str, str]]) -> Iterator[str]:
    account = spec.get("serviceAccountName")
    if account and ("ServiceAccount", account) not in names:
        yield f"no ServiceAccount {account}"
    volumes = {volume["name"] for volume in spec.get("volumes", [])}
    for volume in spec.get("volumes", []):
        config, claim = volume.get("configMap"), volume.get("persistentVolumeClaim")
        if config and ("ConfigMap", config["name"]) not in names:
            yield f"no ConfigMap {config['name']}"
        if claim and ("PersistentVolumeClaim", claim["claimName"]) not in names:
            yield f"no PersistentVolumeClaim {claim['claimName']}"
    mounted = set()
    for container in containers(spec):
        for mount in container.get("volumeMounts", []):
            mounted.add(mount["name"])
            if mount["name"] not in volumes:
                yield f"{container['name']} mounts {mount['name']}, which is no volume"
        ports = {port["name"] for port in container.get("ports", [])}
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            port = container.get(kind, {}).get("httpGet", {}).get("port")
            if port is not None and port not in ports:
                yield f"{container['name']}: {kind} asks port {port}, which it has not"
        known = {variable["name"] for variable in container.get("env", [])}
        for word in (*container.get("command", []), *container.get("args", [])):
            for used in re.findall(r"\$\((\w+)\)", word):
                if used not in known:
                    yield f"{container['name']}: $({used}) is no variable of it"
    yield from (f"volume {volume} is mounted nowhere" for volume in sorted(volumes - mounted))
