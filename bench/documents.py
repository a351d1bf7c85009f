"""Documents as `kubectl get -A -o json` prints them, pods with thousands of unrelated fields."""

import json
from pathlib import Path
from typing import Any

from bench.scenarios import cluster, make_pod
from knp_py.model.changes import ClusterObject
from knp_py.model.net import format_address
from knp_py.model.objects import Namespace, Node, Pod
from knp_py.model.packet import Proto
from knp_py.model.policy import (
    ClusterNetworkPolicy,
    DomainPeer,
    NamedPort,
    NetworkPeer,
    NetworkPolicy,
    Peer,
    PodPeer,
    Port,
    PortRange,
)
from knp_py.model.selectors import EVERYTHING, LabelSelector


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
    _write(path, [pod_document(index) for index in range(pods)])


def write_cluster(
    directory: Path, *, cluster_policies: int, network_policies: int, pods: int
) -> None:
    """That cluster of ``bench.scenarios``: its pods in one file, the rest in another."""
    write_pods(directory / "pods.json", pods)
    objects = cluster(
        cluster_policies=cluster_policies, network_policies=network_policies, pods=pods
    )
    _write(directory / "rest.json", [document(o) for o in objects if not isinstance(o, Pod)])


def _write(path: Path, items: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1))


def document(obj: ClusterObject) -> dict[str, Any]:
    """What ``bench.scenarios`` makes besides pods; it holds nothing that is not handled here."""
    match obj:
        case Namespace():
            return {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": obj.name, "labels": dict(obj.labels)},
            }
        case Node():
            addresses = [{"type": "InternalIP", "address": format_address(ip)} for ip in obj.ips]
            return {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": obj.name, "labels": dict(obj.labels)},
                "status": {"addresses": addresses},
            }
        case ClusterNetworkPolicy():
            return _cluster_policy(obj)
        case NetworkPolicy():
            return _network_policy(obj)
        case _:
            raise TypeError(f"no document for {obj!r}")


def _cluster_policy(policy: ClusterNetworkPolicy) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "tier": policy.tier.text,
        "priority": policy.priority,
        "subject": _cluster_peer(policy.subject),
    }
    for side, end, rules in zip(("egress", "ingress"), ("to", "from"), policy.rules, strict=True):
        spec[side] = [
            {"action": rule.action.value, end: [_cluster_peer(peer) for peer in rule.peers]}
            | ({} if rule.ports is None else {"protocols": [_protocol(p) for p in rule.ports]})
            for rule in rules
        ]
    return {
        "apiVersion": "policy.networking.k8s.io/v1alpha2",
        "kind": "ClusterNetworkPolicy",
        "metadata": {"name": policy.name},
        "spec": spec,
    }


def _cluster_peer(peer: Peer) -> dict[str, Any]:
    match peer:
        case PodPeer(pods=pods) if pods == EVERYTHING:
            return {"namespaces": _selector(peer.namespaces)}
        case PodPeer():
            return {
                "pods": {
                    "namespaceSelector": _selector(peer.namespaces),
                    "podSelector": _selector(peer.pods),
                }
            }
        case NetworkPeer():
            return {"networks": [cidr.text for cidr in peer.cidrs]}
        case DomainPeer():
            return {"domainNames": list(peer.names)}
        case _:
            raise TypeError(f"no document for {peer!r}")


def _protocol(port: Port) -> dict[str, Any]:
    match port:
        case PortRange(first=first, last=last) if first == last:
            return {"tcp": {"destinationPort": {"number": first}}}
        case PortRange():
            return {"tcp": {"destinationPort": {"range": {"start": port.first, "end": port.last}}}}
        case _:
            raise TypeError(f"no document for {port!r}")


def _network_policy(policy: NetworkPolicy) -> dict[str, Any]:
    spec: dict[str, Any] = {"podSelector": _selector(policy.pods), "policyTypes": []}
    for side, end, rules in zip(("Egress", "Ingress"), ("to", "from"), policy.rules, strict=True):
        if rules is not None:
            spec["policyTypes"].append(side)
            spec[side.lower()] = [
                {
                    end: [_network_peer(peer) for peer in rule.peers or ()],
                    "ports": [_port(port) for port in rule.ports or ()],
                }
                for rule in rules
            ]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"namespace": policy.namespace, "name": policy.name},
        "spec": spec,
    }


def _network_peer(peer: Peer) -> dict[str, Any]:
    match peer:
        case PodPeer(namespace=None):
            return {"namespaceSelector": _selector(peer.namespaces)}
        case PodPeer():
            return {"podSelector": _selector(peer.pods)}
        case NetworkPeer():
            excepts = [cidr.text for cidr in peer.excepts]
            return {"ipBlock": {"cidr": peer.cidrs[0].text, "except": excepts}}
        case _:
            raise TypeError(f"no document for {peer!r}")


def _port(port: Port) -> dict[str, Any]:
    match port:
        case NamedPort():
            return {"protocol": "TCP", "port": port.name}
        case PortRange(protocol=Proto.TCP) if port.first == port.last:
            return {"protocol": "TCP", "port": port.first}
        case PortRange(protocol=Proto.TCP):
            return {"protocol": "TCP", "port": port.first, "endPort": port.last}
        case _:
            raise TypeError(f"no document for {port!r}")


def _selector(selector: LabelSelector) -> dict[str, Any]:
    return {"matchLabels": dict(selector.match_labels)} if selector.match_labels else {}
