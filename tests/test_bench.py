"""What the benchmarks measure is what they say: the same clusters, captures and documents."""

from collections import Counter
from pathlib import Path

import pytest
from helpers.command import knp
from helpers.judging import answered, engine_of
from helpers.oracle import Oracle

from bench.captures import write_capture
from bench.documents import write_cluster, write_pods
from bench.scenarios import changes, cluster, make_pod
from knp_py.adapters.documents import load_manifests
from knp_py.engine.state import ClusterState
from knp_py.model.objects import Pod
from knp_py.model.packet import Packet, Proto
from knp_py.wire.capture import read_capture


@pytest.mark.parametrize("one_namespace", [False, True])
def test_the_measured_cluster_is_judged_as_the_oracle_judges_it(one_namespace: bool) -> None:
    size = {"cluster_policies": 12, "network_policies": 30, "pods": 120}
    objects = list(cluster(**size, one_namespace=one_namespace))
    engine, oracle = engine_of(objects), Oracle(objects, ())
    pods = [obj for obj in objects if isinstance(obj, Pod)]
    for n in range(60):
        src, dst = pods[n].ips[0], pods[(n * 7 + 3) % 120].ips[0]
        for port in (8080, 443, 3):
            packet = Packet(src, dst, int(Proto.TCP), 40000, port)
            assert answered(engine.evaluate(packet, now=0.0)) == oracle.judge(packet, 0.0)


def test_adding_a_pod_adds_one() -> None:
    state = ClusterState()
    state.apply_all(changes(cluster(cluster_policies=1, network_policies=1, pods=10)))
    assert len(state.snapshot().pods) == 10
    assert make_pod(3) == make_pod(3)


def test_the_measured_capture_is_what_it_says(tmp_path: Path) -> None:
    path = tmp_path / "c.pcap"
    write_capture(path, packets=600, connections=60, pods=50)
    with path.open("rb") as file:
        assert sum(1 for _ in read_capture(file.read)) == 600
    write_pods(tmp_path / "pods.json", 50)
    ended = knp("replay", str(path), "-m", str(tmp_path / "pods.json"), "--summary")
    assert "60 connections in 600 packets" in ended.out
    assert "0 unknown" in ended.out


def test_the_measured_documents_are_the_measured_pods(tmp_path: Path) -> None:
    write_pods(tmp_path / "pods.json", 3)
    result = load_manifests([str(tmp_path / "pods.json")])
    assert (result.problems, result.warnings) == ([], [])
    loaded = [obj for obj in result.objects if isinstance(obj, Pod)]
    assert [(p.key, p.ips, dict(p.labels), p.ports) for p in loaded] == [
        (p.key, p.ips, dict(p.labels), p.ports) for p in map(make_pod, range(3))
    ]


def test_the_measured_documents_are_the_measured_cluster(tmp_path: Path) -> None:
    write_cluster(tmp_path, cluster_policies=9, network_policies=30, pods=250)
    objects = list(cluster(cluster_policies=9, network_policies=30, pods=250))
    result = load_manifests([str(tmp_path)])
    assert (result.problems, result.warnings) == ([], [])
    loaded, made = engine_of(result.objects), engine_of(objects)
    assert Counter(map(type, result.objects)) == Counter(map(type, objects))
    for n in range(250):
        for port in (8080, 8443, 443, n % 12):
            packet = Packet(make_pod(n).ips[0], make_pod(n * 7 % 250).ips[0], 6, 40000, port)
            assert loaded.judge(packet, 0.0) == made.judge(packet, 0.0)
