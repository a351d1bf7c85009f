"""A node with two pods and a policy on which a DaemonSet's pod can be run, and its cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from helpers.apiserver import ApiServer
from helpers.kustomized import DAEMONSET, Document, containers, documents, pod_spec
from helpers.nodes import NodeUnderTest, node_of

NAME = "worker-1"
MANIFESTS = f"""\
apiVersion: v1
kind: Node
metadata: {{name: {NAME}}}
spec: {{podCIDRs: [10.244.1.0/24]}}
status: {{addresses: [{{type: InternalIP, address: 172.18.0.3}}]}}
---
apiVersion: v1
kind: Namespace
metadata: {{name: a}}
---
apiVersion: v1
kind: Pod
metadata: {{namespace: a, name: client, labels: {{app: client}}}}
spec: {{nodeName: {NAME}, containers: [{{name: c, image: i}}]}}
status: {{phase: Running, podIP: 10.244.1.2, podIPs: [{{ip: 10.244.1.2}}]}}
---
apiVersion: v1
kind: Pod
metadata: {{namespace: a, name: server, labels: {{app: server}}}}
spec: {{nodeName: {NAME}, containers: [{{name: c, image: i}}]}}
status: {{phase: Running, podIP: 10.244.1.3, podIPs: [{{ip: 10.244.1.3}}]}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{namespace: a, name: only-80}}
spec:
  podSelector: {{matchLabels: {{app: server}}}}
  ingress: [{{ports: [{{port: 80}}]}}]
"""
ALSO_81 = MANIFESTS.rsplit("---", 1)[1].replace("80", "81")


@contextmanager
def worker(path: Path) -> Iterator[NodeUnderTest]:
    """The node, ``a/server`` listening on three ports, a directory ``state`` for the agent."""
    (path / "state").mkdir()
    with node_of(path, MANIFESTS, "ds") as node:
        for port in (80, 81, 82):
            node.serve_tcp("a/server", port)
        yield node


def table(node: NodeUnderTest) -> bool:
    """Whether there are rules of an agent on the node."""
    return "knp" in node.run("node", "nft", "list", "tables").stdout


@contextmanager
def cluster(
    node: NodeUnderTest, rights: list[Document], account: str
) -> Iterator[tuple[ApiServer, Path, dict[str, str]]]:
    """An API server on the node that gives an account these rights.

    And what the account's pod has: the files that are mounted, the variables.
    """
    api = ApiServer(tls=True)
    node.topology.call("node", api.__enter__)
    try:
        api.install_crd("experimental")
        for document in yaml.safe_load_all(MANIFESTS):
            api.apply(document)
        api.use_rbac(rights, user=f"system:serviceaccount:kube-system:{account}")
        files = node.path / "account"
        yield api, files, api.service_account(files)
    finally:
        api.__exit__()


def container_of(path: str) -> Document:
    """The first container of the pods of a file of ``daemonset/``."""
    [document] = documents(DAEMONSET / path)
    spec = pod_spec(document)
    assert spec is not None
    return containers(spec)[0]
