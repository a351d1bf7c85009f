"""Objects as big and as detailed as those of a real cluster, and the lives of pods."""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from helpers.apiserver_types import Doc

IMAGE = "registry.example.com/shop/{app}@sha256:" + "4f" * 32
APPS = ("api", "cart", "checkout", "frontend", "ledger", "mailer", "search", "worker")
_STAMP = "2026-11-30T03:00:00Z"


def managed_fields(doc: Doc, manager: str = "kube-controller-manager") -> list[Doc]:
    """What a server remembers of who set which field: about as large as the object again."""
    entries = []
    for by, operation, keys in (
        (manager, "Update", ("metadata", "spec")),
        ("kubelet", "Update", ("status",)),
    ):
        fields = {f"f:{key}": _owned(doc[key]) for key in keys if doc.get(key)}
        if not fields:
            continue
        entry = {
            "manager": by,
            "operation": operation,
            "apiVersion": doc.get("apiVersion", "v1"),
            "time": _STAMP,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        entries.append(entry | ({"subresource": "status"} if keys == ("status",) else {}))
    return entries


def _owned(value: Any) -> Doc:
    if isinstance(value, dict):
        return {f"f:{key}": _owned(item) for key, item in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        owned: Doc = {}
        for item in value:
            key = next((k for k in ("name", "type", "ip", "key") if k in item), None)
            if key is not None:
                owned[f'k:{{"{key}":"{item[key]}"}}'] = {".": {}} | _owned(item)
        return owned
    return {}


class Place(NamedTuple):
    """A node as pods see it."""

    name: str
    address: str


def pod(
    name: str,
    namespace: str,
    ip: str,
    place: Place | None,
    *,
    labels: dict[str, str] | None = None,
    phase: str = "Running",
) -> Doc:
    """A pod with one container, as a Deployment makes it; no ``ip``: it has none yet."""
    app = name.rsplit("-", 2)[0]
    owner = name.rpartition("-")[0]
    doc: Doc = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "generateName": f"{owner}-",
            "namespace": namespace,
            "creationTimestamp": _STAMP,
            "labels": {"app": app, "pod-template-hash": owner.rpartition("-")[2]} | (labels or {}),
            "annotations": {"prometheus.io/scrape": "true"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": owner,
                    "uid": "0b1f6f3a-55c8-4d5e-9d2b-1f0a7c3e9b11",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": _spec(app, place),
        "status": _status(app, ip, place, phase),
    }
    return doc


def _spec(app: str, place: Place | None) -> Doc:
    probe = {
        "httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    token = {
        "name": "kube-api-access-x7k2p",
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {
                    "configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }
                },
            ],
            "defaultMode": 420,
        },
    }
    container = {
        "name": app,
        "image": IMAGE.format(app=app),
        "ports": [
            {"name": "http", "containerPort": 8080, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 9090, "protocol": "TCP"},
        ],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "DATABASE", "value": f"postgres://{app}.db.svc.cluster.local:5432/{app}"},
        ],
        "resources": {
            "limits": {"cpu": "500m", "memory": "256Mi"},
            "requests": {"cpu": "100m", "memory": "128Mi"},
        },
        "volumeMounts": [
            {"name": "config", "readOnly": True, "mountPath": "/etc/app"},
            {
                "name": token["name"],
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            },
        ],
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"runAsNonRoot": True, "allowPrivilegeEscalation": False},
    }
    config = {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}}
    spec: Doc = {
        "volumes": [config, token],
        "containers": [container],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": app,
        "serviceAccount": app,
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{why}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for why in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    if place is not None:
        spec["nodeName"] = place.name
    return spec


def _status(app: str, ip: str, place: Place | None, phase: str) -> Doc:
    if place is None:
        return {"phase": phase, "qosClass": "Burstable"}
    running = phase == "Running"
    ready = "True" if running else "False"
    status: Doc = {
        "phase": phase,
        "conditions": [
            {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": _STAMP}
            for kind, value in (
                ("PodReadyToStartContainers", "True" if ip else "False"),
                ("Initialized", "True"),
                ("Ready", ready),
                ("ContainersReady", ready),
                ("PodScheduled", "True"),
            )
        ],
        "hostIP": place.address,
        "hostIPs": [{"ip": place.address}],
        "startTime": _STAMP,
        "containerStatuses": [
            {
                "name": app,
                "state": {"running": {"startedAt": _STAMP}}
                if running
                else {"waiting": {"reason": "ContainerCreating"}},
                "lastState": {},
                "ready": running,
                "restartCount": 0,
                "image": IMAGE.format(app=app),
                "imageID": f"sha256:{'4f' * 32}",
                "containerID": "containerd://" + "9a" * 32 if running else "",
                "started": running,
            }
        ],
        "qosClass": "Burstable",
    }
    if ip:
        status |= {"podIP": ip, "podIPs": [{"ip": ip}]}
    return status


def node(index: int) -> tuple[Doc, Place]:
    """A node with its pods' range, 10.<64 + index / 256>.<index>.0/24."""
    name = f"node-{index:03d}"
    address = f"192.168.{index // 250}.{index % 250 + 1}"
    cidr = f"{network(index)}.0/24"
    doc: Doc = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": f"zone-{'abc'[index % 3]}",
            },
        },
        "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
        "status": {
            "capacity": {"cpu": "16", "memory": "64Gi", "pods": "250"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": _STAMP}],
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ],
            "images": [
                {"names": [IMAGE.format(app=app)], "sizeBytes": 48_000_000 + index} for app in APPS
            ],
        },
    }
    return doc, Place(name, address)


def network(index: int) -> str:
    """The first three octets of the addresses of a node's pods."""
    return f"10.{64 + index // 256}.{index % 256}"


class Mould:
    """Makes pods fast: one is made carefully, the others are it with other words."""

    _MARKS = ("NAMEMARK", "NAMESPACEMARK", "10.255.255.255", "NODEMARK", "192.0.2.255")

    def __init__(self, app: str) -> None:
        place = Place(self._MARKS[3], self._MARKS[4])
        doc = pod(f"{app}-7d9c6b5f48-{self._MARKS[0]}", self._MARKS[1], self._MARKS[2], place)
        doc["metadata"]["managedFields"] = managed_fields(doc)
        doc["metadata"] |= {"uid": "UIDMARK", "resourceVersion": "VERSIONMARK"}
        for key in ("kind", "apiVersion"):
            del doc[key]
        self.labels: dict[str, str] = doc["metadata"]["labels"]
        self._body = msgspec.json.encode(doc)[1:].decode()

    def body(self, *, uid: str, version: int, **words: str) -> bytes:
        """A pod's JSON after its kind; ``words``: name, namespace, ip, node, host."""
        text = self._body
        for mark, key in zip(
            self._MARKS, ("name", "namespace", "ip", "node", "host"), strict=True
        ):
            text = text.replace(mark, words[key])
        return text.replace("UIDMARK", uid).replace("VERSIONMARK", str(version)).encode()


class Step(NamedTuple):
    """What happens next to a pod: it is as ``doc`` says, or (``gone``) is no more."""

    doc: Doc
    gone: bool = False


class Lives:
    """Pods that come, run and go, for ever; the same for the same seed.

    Addresses are given again as soon as their pod is deleted, as a busy node does; the first
    place has those of ``network(first)``.
    """

    def __init__(
        self, seed: int, places: list[Place], namespaces: list[str], first: int = 0
    ) -> None:
        self._random = random.Random(seed)
        self._places = places
        self._namespaces = namespaces
        self._free = {
            place: [f"{network(index)}.{host}" for host in range(254, 200, -1)]
            for index, place in enumerate(places, first)
        }
        self._count = 0
        self._seed = seed

    def steps(self, living: int = 40) -> Iterator[Step]:
        """One after the other, of about ``living`` pods at a time, mixed."""
        lives: list[Iterator[Step]] = []
        while True:
            if len(lives) < living and (not lives or self._random.random() < 0.4):
                lives.append(self._life())
            life = self._random.choice(lives)
            step = next(life, None)
            if step is None:
                lives.remove(life)
            else:
                yield step

    def _life(self) -> Iterator[Step]:
        self._count += 1
        app = self._random.choice(APPS)
        name = f"{app}-5c8f7d6b9{self._seed % 10}-c{self._count:05d}"
        namespace = self._random.choice(self._namespaces)
        place = self._random.choice(self._places)
        yield Step(pod(name, namespace, "", None, phase="Pending"))
        yield Step(pod(name, namespace, "", place, phase="Pending"))
        ip = self._free[place].pop()
        yield Step(pod(name, namespace, ip, place, phase="Pending"))
        doc = pod(name, namespace, ip, place)
        yield Step(doc)
        if self._random.random() < 0.3:
            doc = pod(name, namespace, ip, place, labels={"canary": "true"})
            yield Step(doc)
        doc["metadata"] |= {"deletionTimestamp": _STAMP, "deletionGracePeriodSeconds": 30}
        yield Step(doc)
        over = pod(name, namespace, ip, place, phase="Failed")
        over["metadata"] = doc["metadata"]
        if self._random.random() < 0.7:
            yield Step(over)
        self._free[place].append(ip)
        yield Step(over, gone=True)
