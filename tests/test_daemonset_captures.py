"""Captures replayed in shards, as the Job does it, add up to one replay of everything."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from helpers.command import knp
from helpers.kustomized import DAEMONSET, documents, needs_kubectl, one, pod_spec
from helpers.kustomized import built as kustomized
from hypothesis import given
from hypothesis import strategies as st

from bench.captures import write_capture
from bench.documents import write_cluster

CAPTURES = DAEMONSET / "captures"
EXAMPLE = DAEMONSET.parent / "examples" / "agent-sandbox"
PODS = 200
_seeds = count(1)


def job(name: str = "job.yaml") -> dict[str, Any]:
    return one(documents(CAPTURES / name), "Job")


def container(document: dict[str, Any]) -> dict[str, Any]:
    spec = pod_spec(document)
    assert spec is not None
    [found] = spec["containers"]
    assert isinstance(found, dict)
    return found


class Volume:
    """What the claim holds, and the Job's pods."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.directories = {}
        for name in ("captures", "manifests", "records"):
            self.directories[name] = path / name
            (path / name).mkdir()
        self.tools = path / "bin"
        self.tools.mkdir()
        stand_in = self.tools / "knp"
        stand_in.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m knp_py "$@"\n')
        stand_in.chmod(0o755)
        (self.tools / "python3").symlink_to(sys.executable)

    def shard(self, index: int, shards: int, **other: str) -> "subprocess.CompletedProcess[str]":
        """A pod of the Job: its command and variables, the paths those of this volume."""
        found = container(job())
        mounts = {m["mountPath"]: m for m in found["volumeMounts"] if m["name"] == "volume"}
        variables = {each["name"]: each["value"] for each in found["env"]}
        for name, value in variables.items():
            if value in mounts:
                variables[name] = str(self.directories[mounts[value]["subPath"]])
        command, script = found["command"]
        assert script == "/scripts/shard.py"
        return subprocess.run(
            [shutil.which(command, path=str(self.tools)) or "", str(CAPTURES / "shard.py")],
            env={
                **os.environ,
                "PATH": f"{self.tools}:{os.environ['PATH']}",
                **variables,
                "SHARDS": str(shards),
                "JOB_COMPLETION_INDEX": str(index),
                **other,
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def merged(self) -> Any:
        """What the merging Job prints."""
        found = container(job("merge/job.yaml"))
        [script] = found["args"]
        script = script.replace("/records/", f"{self.directories['records']}/")
        done = subprocess.run(
            [*found["command"], script],
            env={**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return json.loads(done.stdout)

    def capture(self, name: str, *, connections: int = 20, packets: int = 10) -> Path:
        """A capture of connections that no other has."""
        path = self.directories["captures"] / name
        path.parent.mkdir(exist_ok=True)
        write_capture(
            path,
            packets=connections * packets,
            connections=connections,
            pods=PODS,
            seed=next(_seeds),
        )
        return path


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return Volume(tmp_path)


def filled(volume: Volume) -> list[str]:
    """Files and directories of all the kinds that count, and some that do not."""
    write_cluster(
        volume.directories["manifests"], cluster_policies=5, network_policies=20, pods=PODS
    )
    for index in range(5):
        volume.capture(f"node-{index}.pcap", connections=10 + 30 * index)
    for index in range(3):
        volume.capture(f"rotated/{index}.pcap")
    plain = volume.capture("packed.pcap")
    (volume.directories["captures"] / "packed.pcap.gz").write_bytes(
        gzip.compress(plain.read_bytes())
    )
    plain.unlink()
    (volume.directories["captures"] / "notes.txt").write_text("no capture\n")
    (volume.directories["captures"] / ".upload.pcap").write_bytes(b"half of")
    (volume.directories["captures"] / "empty").mkdir()
    return sorted([*(f"node-{index}.pcap" for index in range(5)), "rotated", "packed.pcap.gz"])


def counted(summary: Any) -> dict[str, Any]:
    """Totals, and who decided how often."""
    return {
        "verdicts": summary["verdicts"],
        "deciders": Counter(
            {
                (each["verdict"], each["direction"], each["decided_by"]): each["count"]
                for each in summary["deciders"]
            }
        ),
    }


def everything(volume: Volume) -> Any:
    """One replay of all captures, summed up the same way."""
    captures = volume.directories["captures"]
    paths = [path for path in sorted(captures.rglob("*.pcap*")) if path.name[0] != "."]
    ended = knp(
        "replay", *map(str, paths), "-m", str(volume.directories["manifests"]), "-o", "jsonl"
    )
    assert ended.code == 0, ended.err
    return json.loads(knp("logs", "-", "--summary", "-o", "json", stdin=ended.out.encode()).out)


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 3, 12])
def test_shards_add_up_to_one_replay_of_everything(volume: Volume, shards: int) -> None:
    names = filled(volume)
    for index in range(shards):
        done = volume.shard(index, shards)
        assert done.returncode == 0, done.stderr
    records = volume.directories["records"]
    assert sorted(path.name for path in records.iterdir()) == [f"{name}.jsonl" for name in names]
    merged = volume.merged()
    assert merged["entries"] == 10 + 40 + 70 + 100 + 130 + 4 * 20
    assert merged["verdicts"].keys() >= {"allow", "deny"}
    assert counted(merged) == counted(everything(volume))


def test_a_unit_is_judged_together(volume: Volume) -> None:
    """A name that is looked up in one file of a directory counts in the next."""
    shutil.copytree(EXAMPLE / "manifests", volume.directories["manifests"], dirs_exist_ok=True)
    data = (EXAMPLE / "phase4.pcap").read_bytes()
    at = middle = 24
    while at < len(data):
        if at <= len(data) // 2:
            middle = at
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
    node = volume.directories["captures"] / "node"
    node.mkdir()
    (node / "1.pcap").write_bytes(data[:middle])
    (node / "2.pcap").write_bytes(data[:24] + data[middle:])
    assert volume.shard(0, 1).returncode == 0
    whole = knp(
        "replay", str(EXAMPLE / "phase4.pcap"), "-m", str(EXAMPLE / "manifests"), "-o", "jsonl"
    )
    assert (volume.directories["records"] / "node.jsonl").read_text() == whole.out


def test_what_is_there_already_is_not_done_again(volume: Volume) -> None:
    filled(volume)
    kept = volume.directories["records"] / "node-4.pcap.jsonl"
    kept.write_text("as it was\n")
    assert volume.shard(0, 1).returncode == 0
    assert kept.read_text() == "as it was\n"
    before = {path: path.stat().st_mtime_ns for path in volume.directories["records"].iterdir()}
    done = volume.shard(0, 1)
    assert done.returncode == 0
    assert "node-4" not in done.stderr
    assert before == {p: p.stat().st_mtime_ns for p in volume.directories["records"].iterdir()}


def test_what_is_passed_over_is_named_by_one_shard(volume: Volume) -> None:
    captures = volume.directories["captures"]
    assert "no capture is in" in volume.shard(0, 2).stderr
    (captures / "node.pcap1").write_bytes(b"a name that tcpdump -C gives")
    said = volume.shard(0, 2).stderr
    assert "shard: 1 files are no captures by their names: node.pcap1\n" in said
    assert volume.shard(1, 2).stderr == ""


def test_a_unit_that_cannot_be_read_is_named_and_the_others_are_done(volume: Volume) -> None:
    filled(volume)
    (volume.directories["captures"] / "bad.pcap").write_bytes(b"this is no capture at all")
    done = volume.shard(0, 1)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "shard: could not be replayed: bad.pcap"
    assert "Traceback" not in done.stderr
    names = {path.name for path in volume.directories["records"].iterdir()}
    assert "bad.pcap.jsonl" not in names
    assert len(names) == 7
    assert not any(name.startswith(".") for name in names)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"SHARDS": "0"}, "JOB_COMPLETION_INDEX 0 is not below SHARDS 0"),
        ({"JOB_COMPLETION_INDEX": "4"}, "JOB_COMPLETION_INDEX 4 is not below SHARDS 4"),
        ({"JOB_COMPLETION_INDEX": "-1"}, "JOB_COMPLETION_INDEX -1 is not below SHARDS 4"),
        ({"SHARDS": "four"}, "invalid literal for int() with base 10: 'four'"),
        ({"CAPTURES": "/nowhere"}, "[Errno 2] No such file or directory: '/nowhere'"),
    ],
)
def test_a_wrong_variable_is_said(volume: Volume, variables: dict[str, str], said: str) -> None:
    done = volume.shard(0, 4, **variables)
    assert done.returncode == 2
    assert done.stderr == f"shard: {said}\n"


@cache
def share() -> Any:
    """The function of that name; the script is no module of the package."""
    scope: dict[str, Any] = {"__name__": "shard"}
    exec(compile((CAPTURES / "shard.py").read_text(), "shard.py", "exec"), scope)
    return scope["share"]


@given(
    st.dictionaries(st.text(min_size=1, max_size=5), st.integers(0, 10**6), max_size=30),
    st.integers(1, 12),
)
def test_every_unit_is_one_shard_s_and_none_has_far_too_much(
    sizes: dict[str, int], shards: int
) -> None:
    dealt = [share()(sizes, shards, index) for index in range(shards)]
    assert sorted(name for part in dealt for name in part) == sorted(sizes)
    loads = [sum(sizes[name] for name in part) for part in dealt]
    assert max(loads) <= sum(sizes.values()) / shards + max(sizes.values(), default=0)
    shuffled = dict(reversed(sizes.items()))
    assert [share()(shuffled, shards, index) for index in range(shards)] == dealt


def test_the_job_has_as_many_pods_as_its_shards() -> None:
    document = job()
    variables = {each["name"]: each["value"] for each in container(document)["env"]}
    assert variables["SHARDS"] == str(document["spec"]["completions"])
    assert document["spec"]["completionMode"] == "Indexed"


@needs_kubectl
def test_the_pod_gets_this_script() -> None:
    found = kustomized("captures")
    script = one(found, "ConfigMap")
    assert script["data"] == {"shard.py": (CAPTURES / "shard.py").read_text()}
    spec = pod_spec(one(found, "Job"))
    assert spec is not None
    assert {"name": "scripts", "configMap": {"name": script["metadata"]["name"]}} in spec[
        "volumes"
    ]


def mounts() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in ("job.yaml", "merge/job.yaml"):
        for mount in container(job(name))["volumeMounts"]:
            yield name, mount


def test_only_records_can_be_written_and_by_the_shards() -> None:
    writable = [
        (name, mount["subPath"]) for name, mount in mounts() if not mount.get("readOnly", False)
    ]
    assert writable == [("job.yaml", "records")]
    loader = one(documents(CAPTURES / "volume" / "loader.yaml"), "Pod")
    [made] = container(loader)["args"]
    for _, mount in mounts():
        if mount["name"] == "volume":
            assert f"/volume/{mount['subPath']}" in made
