"""Documents as `kubectl get pods -A -o json` prints them, thousands of unrelated fields too."""

import json
from pathlib import Path
from typing import Any

from bench.scenarios import make_pod
from knp_py.model.net import format_address


def pod_document(index: int) -> dict[str, Any]:
    """Pod number ``index`` of ``bench.scenarios`` with the fields that real ones carry."""
    pod = make_pod(index)
    ip = format_address(pod.ips[0])
    managed: dict[str, Any] = {
        f"f:field-{n}": {"f:name": {}, "f:value": {}, ".": {}} for n in range(40)
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": f"1c9d4f5e-0000-4000-8000-{index:012d}",
            "resourceVersion": str(100_000 + index),
            "creationTimestamp": "2026-11-01T08:00:00Z",
            "labels": dict(pod.labels),
            "annotations": {f"example.invalid/note-{n}": "x" * 60 for n in range(8)},
            "managedFields": [
                {"manager": "kubelet", "operation": "Update", "apiVersion": "v1",
                 "fieldsType": "FieldsV1", "fieldsV1": {"f:status": managed}},
            ],
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"rs-{index % 1000}",
                 "uid": f"2c9d4f5e-0000-4000-8000-{index % 1000:012d}", "controller": True},
            ],
        },
        "spec": {
            "nodeName": pod.node,
            "serviceAccountName": "default",
            "tolerations": [
                {"key": f"node.kubernetes.io/{k}", "operator": "Exists", "effect": "NoExecute"}
                for k in ("not-ready", "unreachable")
            ],
            "containers": [
                {
                    "name": "app",
                    "image": "example.invalid/app:1",
                    "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                    "env": [{"name": f"VARIABLE_{n}", "value": "y" * 20} for n in range(10)],
                    "volumeMounts": [
                        {"name": f"v{n}", "mountPath": f"/mnt/{n}", "readOnly": True}
                        for n in range(4)
                    ],
                }
            ],
        },
        "status": {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "hostIP": "172.20.0.1",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-11-01T08:00:05Z"}
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
        },
    }  # fmt: skip


def write_pods(path: Path, pods: int) -> None:
    """One JSON List of that many pods."""
    items = [pod_document(index) for index in range(pods)]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1))
