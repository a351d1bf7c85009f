"""Pods that workloads stand for."""

from collections.abc import Mapping
from typing import Any

import pytest
from helpers.manifests import clean, lines, load_raw, load_text, load_values, pods

from knp_py.manifests.addresses import RANGE
from knp_py.model.objects import ContainerPort

((FIRST, LAST),) = RANGE.ranges
LABELS = {"app": "a"}


def workload(
    kind: str = "Deployment", name: str = "web", *, labels: object = LABELS, **spec: object
) -> dict[str, object]:
    return {
        "apiVersion": "batch/v1" if kind in {"Job", "CronJob"} else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "x"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": []}},
            **spec,
        },
    }


def real_pod(
    name: str, *owner: str, labels: Mapping[str, str] | None = None, namespace: str = "x"
) -> dict[str, object]:
    owners = [{"kind": owner[0], "name": owner[1], "controller": True}] if owner else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels or LABELS,
            "ownerReferences": owners,
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }


def names(*documents: dict[str, object]) -> list[str]:
    found = list(pods(clean(load_values(*documents))))
    assert found == list(pods(clean(load_raw({**LIST, "items": list(documents)}))))
    return [key.removeprefix("x/") for key in found]


LIST = {"apiVersion": "v1", "kind": "List"}


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("Deployment", {}, ["web-0"]),
        ("Deployment", {"replicas": None}, ["web-0"]),
        ("Deployment", {"replicas": 0}, []),
        ("Deployment", {"replicas": 2}, ["web-0", "web-1"]),
        ("Deployment", {"replicas": 500}, ["web-0", "web-1", "web-2"]),
        ("ReplicaSet", {"replicas": 2}, ["web-0", "web-1"]),
        ("StatefulSet", {"replicas": 4}, ["web-0", "web-1", "web-2", "web-3"]),
        ("StatefulSet", {"replicas": 500}, [f"web-{i}" for i in range(10)]),
        ("StatefulSet", {"replicas": 2, "ordinals": {"start": 5}}, ["web-5", "web-6"]),
        ("DaemonSet", {}, ["web-0"]),
        ("Job", {}, ["web-0"]),
        ("Job", {"parallelism": 2}, ["web-0", "web-1"]),
        ("Job", {"parallelism": 2, "completions": 1}, ["web-0"]),
        ("Job", {"parallelism": 0}, []),
        ("Job", {"suspend": True}, []),
    ],
)
def test_how_many(kind: str, spec: dict[str, Any], expected: list[str]) -> None:
    assert names(workload(kind, **spec)) == expected


def test_what_a_made_up_pod_is_like() -> None:
    document = workload(
        template={
            "metadata": {"labels": {"app": "a", "tier": "front"}},
            "spec": {
                "nodeName": "n1",
                "dnsPolicy": "Default",
                "containers": [{"ports": [{"name": "http", "containerPort": 80}]}],
            },
        }
    )
    (pod,) = pods(clean(load_values(document))).values()
    assert pod.labels == {"app": "a", "tier": "front"}
    assert pod.ports == (ContainerPort("http", 6, 80),)
    assert (pod.node, pod.dns_policy, pod.phase) == ("n1", "Default", "Running")
    assert pod.made_up
    assert FIRST <= pod.ips[0] <= LAST
    assert pod.uid == "x/web-0"
    assert str(pod.origin) == "m.yaml (derived from Deployment x/web)"


def test_labels_that_controllers_are_known_to_add() -> None:
    (pod,) = pods(clean(load_values(workload("StatefulSet")))).values()
    assert pod.labels["statefulset.kubernetes.io/pod-name"] == "web-0"
    assert pod.labels["apps.kubernetes.io/pod-index"] == "0"
    (pod,) = pods(clean(load_values(workload("Job")))).values()
    assert pod.labels["job-name"] == pod.labels["batch.kubernetes.io/job-name"] == "web"


def test_a_replication_controller_and_a_cron_job() -> None:
    result = clean(
        load_text("""
        apiVersion: v1
        kind: ReplicationController
        metadata: {name: rc}
        spec: {replicas: 1, selector: {app: rc}, template: {metadata: {labels: {app: rc}}}}
        ---
        apiVersion: batch/v1
        kind: CronJob
        metadata: {name: nightly}
        spec:
          schedule: "@daily"
          jobTemplate: {spec: {template: {metadata: {labels: {app: cron}}, spec: {}}}}
        ---
        apiVersion: batch/v1
        kind: CronJob
        metadata: {name: paused}
        spec:
          suspend: true
          jobTemplate: {spec: {template: {metadata: {labels: {app: cron}}, spec: {}}}}
        """)
    )
    assert {key: dict(pod.labels) for key, pod in pods(result).items()} == {
        "default/rc-0": {"app": "rc"},
        "default/nightly-0": {"app": "cron"},
    }


def test_a_finished_job_has_no_pods() -> None:
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert names({**workload("Job"), "status": done}) == []
    running = {"conditions": [{"type": "Complete", "status": "False"}]}
    assert names({**workload("Job"), "status": running}) == ["web-0"]


def test_a_daemon_set_has_a_pod_on_each_node() -> None:
    nodes: list[dict[str, object]] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{i}"},
            "status": {"addresses": [{"type": "InternalIP", "address": f"192.168.0.{i}"}]},
        }
        for i in (2, 1)
    ]
    found = pods(clean(load_values(workload("DaemonSet"), *nodes)))
    assert {key: pod.node for key, pod in found.items()} == {"x/web-0": "n1", "x/web-1": "n2"}
    host = workload(
        "DaemonSet",
        template={"metadata": {"labels": LABELS}, "spec": {"hostNetwork": True}},
    )
    found = pods(clean(load_values(host, *nodes)))
    assert all(pod.host_network and not pod.made_up for pod in found.values())
    assert found["x/web-0"].ips == found["x/web-0"].host_ips


@pytest.mark.parametrize(
    "documents",
    [
        [workload(), real_pod("web-abc-1", "ReplicaSet", "web-abc")],
        [
            workload(),
            {
                **workload("ReplicaSet", "web-abc", replicas=1),
                "metadata": {
                    "name": "web-abc",
                    "namespace": "x",
                    "ownerReferences": [{"kind": "Deployment", "name": "web", "controller": True}],
                },
            },
            real_pod("web-abc-1", "ReplicaSet", "web-abc"),
        ],
        [workload("StatefulSet"), real_pod("web-7", "StatefulSet", "web")],
        [workload("Job"), real_pod("web-abc", "Job", "web")],
        [
            workload("CronJob", jobTemplate={"spec": {"template": {}}}),
            real_pod("a", "Job", "web-1"),
        ],
        [workload(), real_pod("hand-made")],
        [workload(labels={"app": "a", "b": "c"}), real_pod("p", labels={"app": "a", "b": "c"})],
    ],
)
def test_a_workload_with_real_pods_makes_none(documents: list[dict[str, object]]) -> None:
    result = clean(load_values(*documents))
    assert len(pods(result)) == 1
    assert lines(result.notes) == ["input: workloads that have their pods in the input: 1"]


@pytest.mark.parametrize(
    "documents",
    [
        [workload(), real_pod("p", namespace="y")],
        [workload(), real_pod("p", labels={"app": "b"})],
        [workload(), real_pod("p", "ReplicaSet", "other-abc")],
        [workload("Job"), real_pod("p")],  # its labels are not what makes it a Job's
    ],
)
def test_other_pods_do_not_count(documents: list[dict[str, object]]) -> None:
    assert "x/web-0" in pods(clean(load_values(*documents)))


def test_a_pod_without_status_is_nobodys_real_pod() -> None:
    debug = real_pod("debug")
    del debug["status"]
    assert names(workload(), debug) == ["debug", "web-0"]


def test_an_owner_in_the_input_stands_for_what_it_owns() -> None:
    replica_set = workload("ReplicaSet", "web-abc", replicas=1)
    replica_set["metadata"] = {
        "name": "web-abc",
        "namespace": "x",
        "ownerReferences": [{"kind": "Deployment", "name": "web", "controller": True}],
    }
    assert names(workload(), replica_set) == ["web-0"]
    assert names(replica_set) == ["web-abc-0"]


def test_two_workloads_of_one_name() -> None:
    expected = ["web-0", "web-deployment-0", "web-job-0"]
    documents = [workload("Job"), workload("Deployment"), workload("StatefulSet")]
    assert names(*documents) == expected
    assert names(*reversed(documents)) == expected
    taken = real_pod("web-0", labels={"app": "other"})
    assert names(workload(), taken) == ["web-0", "web-deployment-0"]


def test_addresses_do_not_depend_on_the_rest_of_the_input() -> None:
    alone = pods(load_values(workload()))["x/web-0"].ips
    others = [workload(name=f"other-{i}") for i in range(200)]
    assert pods(load_values(*others, workload()))["x/web-0"].ips == alone
    found = pods(load_values(workload(), *others))
    assert found["x/web-0"].ips == alone
    assert len({pod.ips for pod in found.values()}) == 201


def test_the_number_made_is_said() -> None:
    result = load_values(workload(replicas=9), workload("StatefulSet", "db", replicas=9))
    assert lines(result.notes) == ["input: Deployment x/web: 3 pods stand for its 9"]


@pytest.mark.parametrize(
    ("document", "what"),
    [
        (workload(replicas=-1), "spec.replicas: found -1, expected 0 or more"),
        (workload(replicas="3"), "spec.replicas: found the text '3', expected a whole number"),
        (workload(selector=None), "spec.selector: missing, expected a selector of the template"),
        (workload(selector={"matchLabels": {"app": "b"}}), "spec.selector: does not select spec."),
        (workload(template=None), "spec.template: missing, expected a pod template"),
        (workload(labels={"app": "a b"}), "spec.template.metadata.labels[app]: found 'a b'"),
        (
            workload(
                selector={"matchExpressions": [{"key": "app", "operator": "Is", "values": ["a"]}]}
            ),
            "spec.selector.matchExpressions[0].operator: found 'Is', expected In, NotIn, Exists",
        ),
        (workload("Job", parallelism=-1), "spec.parallelism: found -1, expected 0 or more"),
        (workload("CronJob"), "spec.jobTemplate: missing, expected an object"),
        (
            workload("CronJob", jobTemplate={"spec": {"parallelism": -1, "template": {}}}),
            "spec.jobTemplate.spec.parallelism: found -1, expected 0 or more",
        ),
        ({**workload(), "spec": None}, "spec: missing, expected an object"),
    ],
)
def test_bad_workloads(document: dict[str, object], what: str) -> None:
    result = load_values(document)
    assert not result.objects
    found = [line.partition(": ")[2] for line in lines(result.problems)]
    assert found[0].startswith(what)
