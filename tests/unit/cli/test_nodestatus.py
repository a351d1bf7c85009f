"""Who writes the status of policies: one of the agents that put them in force."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.apiserver import ApiServer
from helpers.command import knp
from helpers.nodes import eventually
from helpers.writers import UNKNOWN_PEER, conditions, events, policy, without_schema

from knp_py.adapters.kube.access import own_namespace
from knp_py.agent.metrics import Metrics
from knp_py.cli.nodeapi import Cluster, cluster_of
from knp_py.cli.nodeparts import Settings


def settings(kubeconfig: Path, node: str, **other: Any) -> Settings:
    given: dict[str, Any] = dict.fromkeys(Settings._fields, "")
    given |= {"manifests": (), "kubeconfig": str(kubeconfig), "hostname": node}
    given |= {"dry_run": False, "all_nodes": False, "write_status": True, "instance": "knp"}
    return Settings(**(given | other))


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as api:
        for name in ("kube-system", "default"):
            api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        api.install_crd("experimental")
        without_schema(api)
        yield api


@pytest.fixture
def clusters(api: ApiServer, tmp_path: Path) -> Iterator[list[Cluster]]:
    kubeconfig = api.kubeconfig(tmp_path / "config")
    found = [cluster_of(settings(kubeconfig, name), "knp") for name in ("n1", "n2")]
    yield found
    for cluster in found:
        end(cluster)


def waited(seconds: float) -> bool:
    """As an agent waits that nobody stops."""
    time.sleep(seconds)
    return False


def end(cluster: Cluster) -> None:
    cluster.close()
    cluster._client._access.pool.clear()


def writer_in(cluster: Cluster) -> Any:
    return cluster.details()["status"]


def test_of_two_agents_one_writes_what_both_know(
    api: ApiServer, clusters: list[Cluster], capfd: pytest.CaptureFixture[str]
) -> None:
    api.apply(policy("a", UNKNOWN_PEER))
    for cluster in clusters:
        cluster.begin(waited, early=False)
    eventually(lambda: bool(events(api)), "it is said")
    assert conditions(api, "a")["knp/PartlyUnsupported"]["status"] == "True"
    assert sorted(writer_in(cluster)["elected"] for cluster in clusters) == [False, True]
    names = {writer_in(cluster)["holder"].partition("_")[0] for cluster in clusters}
    assert names <= {"n1", "n2", ""}

    api.patch("ClusterNetworkPolicy", "", "a", policy("a"))
    eventually(
        lambda: conditions(api, "a")["knp/PartlyUnsupported"]["status"] == "False",
        "the condition turns",
    )
    (first,) = [each for each in clusters if writer_in(each)["elected"]]
    metrics = Metrics(version="1", mode="fail-open")
    first.watch(metrics)
    values = {
        (family.name, *(value for _, value in sample.labels)): sample.value
        for family in metrics.families()
        for sample in family.samples
    }
    assert values["knp_status_writer",] == 1
    assert values["knp_api_writes_total", "condition", "written"] >= 1
    assert values["knp_api_writes_total", "lease", "written"] >= 1
    clusters.remove(first)
    end(first)
    assert "holderIdentity" not in api.get("Lease", "kube-system", "knp-status")["spec"]
    assert "this node writes the status of policies" in capfd.readouterr().err


@pytest.mark.parametrize("other", [{"write_status": False}, {"dry_run": True}])
def test_who_does_not_write(api: ApiServer, tmp_path: Path, other: dict[str, Any]) -> None:
    kubeconfig = api.kubeconfig(tmp_path / "config")
    cluster = cluster_of(settings(kubeconfig, "n1", **other), "knp")
    assert cluster.details()["status"] is None
    end(cluster)


def test_the_lease_is_where_the_agent_is(tmp_path: Path) -> None:
    assert own_namespace(str(tmp_path)) == "kube-system"
    (tmp_path / "namespace").write_text("knp\n")
    assert own_namespace(str(tmp_path)) == "knp"


def test_the_option() -> None:
    assert "--write-status" in knp("agent", "--help").out
    ended = knp("agent", "--write-status", "perhaps")
    assert ended.code == 2
    assert "--write-status" in ended.err
