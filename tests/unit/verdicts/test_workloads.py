import msgspec
import pytest
from helpers.builders import allow, container_port, netpol, own_pods, pod, select
from helpers.builders import namespace as ns
from helpers.judging import snapshot_of

from knp_py.engine.snapshot import Snapshot
from knp_py.model.objects import Origin, Pod
from knp_py.verdicts.workloads import pods_of, representative


def made_up(key: str, address: str, workload: str) -> Pod:
    derived = Origin("shop.yaml", 1, f"Deployment {workload}")
    return msgspec.structs.replace(pod(key, address), made_up=True, origin=derived)


def stateful(number: int) -> Pod:
    labels = {"app": "db", "apps.kubernetes.io/pod-index": str(number)}
    return pod(f"shop/db-{number}", f"10.0.1.{number}", labels=labels)


@pytest.fixture(scope="module")
def cluster() -> Snapshot:
    return snapshot_of(
        [
            ns("shop"),
            pod("shop/api-5c6d7bd9f4-x2x9q", "10.0.0.1", labels={"app": "api"}),
            pod("shop/api-5c6d7bd9f4-bbcdf", "10.0.0.2", labels={"app": "api"}),
            pod("shop/api-5c6d7bd9f4-zzzzz", phase="Succeeded"),
            pod("shop/api-redis", "10.0.0.3"),
            pod("shop/agent-x2x9q", "10.0.0.4"),
            pod("shop/mixed-0", "10.0.0.5", labels={"app": "api"}),
            pod("shop/mixed-1", "10.0.0.6", labels={"app": "db"}),
            pod("shop/port-0", "10.0.0.7", ports=[container_port("http", 80)]),
            pod("shop/port-1", "10.0.0.8", ports=[container_port("http", 8080)]),
            pod("shop/web", "10.0.0.9"),
            pod("shop/web-0", "10.0.0.10"),
            pod("other/api-0", "10.0.0.11"),
            made_up("shop/front-deployment-0", "10.0.0.12", "shop/front"),
            *map(stateful, (10, 2)),
            netpol(
                "shop/np", select({"app": "db"}), ingress=[allow(own_pods(select({"app": "api"})))]
            ),
        ]
    )


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("shop/api", ["api-5c6d7bd9f4-bbcdf", "api-5c6d7bd9f4-x2x9q"]),
        ("shop/agent", ["agent-x2x9q"]),
        ("shop/db", ["db-2", "db-10"]),
        ("shop/front", ["front-deployment-0"]),
        ("shop/a", []),
        ("shop/", []),
        ("shop", []),
        ("", []),
        ("10.0.0.0/8", []),
    ],
)
def test_the_pods_of_a_workload(cluster: Snapshot, key: str, names: list[str]) -> None:
    assert [pod.name for pod in pods_of(cluster, key)] == names


def test_one_pod_stands_for_those_that_no_policy_tells_apart(cluster: Snapshot) -> None:
    found = representative(cluster, "shop/db")
    assert found is not None
    assert (found[0].name, found[1]) == (
        "db-2",
        "shop/db is judged as its pod db-2; selectors do not tell it from db-10",
    )
    only = representative(cluster, "shop/agent")
    assert only is not None
    assert only[1] == "shop/agent is judged as its pod agent-x2x9q"


@pytest.mark.parametrize("key", ["shop/mixed", "shop/port", "shop/web", "shop/nobody", "x"])
def test_where_none_can_stand_for_all(cluster: Snapshot, key: str) -> None:
    assert representative(cluster, key) is None
