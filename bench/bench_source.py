"""Manifests that are followed: from a file's change to the objects' changes.

A directory with 5,000 pods, 100 ClusterNetworkPolicies and 500 NetworkPolicies, the policies in
files of their own in YAML, in which one policy's file is replaced by another.
"""

import gc
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.documents import document, pod_document, write_pods
from bench.scenarios import cluster, make_network_policy
from knp_py.adapters.manifestfiles import ManifestFiles
from knp_py.adapters.watch import Watcher
from knp_py.agent.source import ManifestSource
from knp_py.model.objects import Pod

PODS = 5_000
LIMIT = 0.025  # seconds
PAUSE = 0.06  # seconds between changes; a stamp younger than 50 ms is not trusted yet


@pytest.fixture(params=["pods in one file", "a file for each pod"])
def directory(request: Any, tmp_path: Path) -> Path:
    for number, obj in enumerate(cluster(cluster_policies=100, network_policies=500, pods=PODS)):
        if not isinstance(obj, Pod):
            (tmp_path / f"{number}.yaml").write_text(yaml.safe_dump(document(obj)))
    if request.param == "pods in one file":
        write_pods(tmp_path / "pods.json", PODS)
    else:
        for index in range(PODS):
            (tmp_path / f"pod-{index}.json").write_text(json.dumps(pod_document(index)))
    return tmp_path


@pytest.fixture
def unshaken() -> Iterator[None]:
    """As in the agent: what was loaded is not looked at by the garbage collector again."""
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("unshaken")
def test_a_policy_changes(benchmark: Any, directory: Path, request: Any) -> None:
    watcher = Watcher([str(directory)], print)
    source = ManifestSource(ManifestFiles([str(directory)], watcher), time.time_ns)
    first = timed(source.scan)
    gc.collect()
    gc.freeze()
    seconds: list[float] = []
    for number in range(15):
        time.sleep(PAUSE)
        text = yaml.safe_dump(document(make_network_policy(number, 50, one_namespace=False)))
        beside = directory / ".new"
        beside.write_text(text.replace(f"np-{number}", "np-new"))
        begin = time.perf_counter()
        os.replace(beside, directory / "new.yaml")
        assert watcher.wait(5.0)
        batch = source.scan()
        seconds.append(time.perf_counter() - begin)
        assert batch.changes
    watcher.close()
    median = statistics.median(seconds)
    benchmark.extra_info["seconds, under 0.025"] = median
    benchmark.pedantic(source.scan, rounds=3)
    print(f"\nFIGURE from a policy's file to changes, {request.node.callspec.id}:"
          f" {median * 1000:.1f} ms, {max(seconds) * 1000:.1f} at most (median under"
          f" {LIMIT * 1000:g}); the first scan {first:.2f} s")  # fmt: skip
    assert median < LIMIT


def timed(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin
