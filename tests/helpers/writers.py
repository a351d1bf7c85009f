"""Nodes that write the status of policies to the tests' API server, on a clock of the test's."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec
from helpers.apiclients import client_of
from helpers.apiserver import ApiServer
from helpers.fakes import FakeTimer

from knp_py.adapters.kube.resources import CLUSTER_POLICIES, NETWORK_POLICIES
from knp_py.adapters.kube.writer import Writer
from knp_py.agent.mirror import Mirror
from knp_py.cli.nodestatus import PolicyReports
from knp_py.manifests.single import SingleReader

Doc = dict[str, Any]
NOW = 1_796_000_000.0
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
POLICIES = "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies"


def policy(name: str, *rules: Doc, priority: int = 5) -> Doc:
    """A ClusterNetworkPolicy for all pods, by default with one rule that is understood."""
    ok = {"action": "Accept", "to": [{"networks": ["10.0.0.0/8"]}]}
    return {
        "apiVersion": CLUSTER_POLICIES.api_version,
        "kind": "ClusterNetworkPolicy",
        "metadata": {"name": name},
        "spec": {
            "tier": "Admin",
            "priority": priority,
            "subject": {"namespaces": {}},
            "egress": list(rules or (ok,)),
        },
    }


def network_policy(namespace: str, name: str, port: object = 80) -> Doc:
    """A NetworkPolicy."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": port}]}]},
    }


UNKNOWN_PEER = {"action": "Accept", "to": [{"planets": {"name": "mars"}}]}
BROKEN = {"action": "Accept", "to": [{"networks": ["10.0.0.0/99"]}]}


def without_schema(api: ApiServer) -> None:
    """Let its CRD allow everything, as that of a version to come may."""
    api._rest.writer.schema = None


class StatusNode:
    """A node: what it knows is what the server had when it last heard of it."""

    def __init__(self, api: ApiServer, stack: ExitStack, name: str, timer: FakeTimer) -> None:
        self.timer = timer
        self.said: list[str] = []
        self.known = True
        self._api = api
        self._mirrors = {
            each.kind: Mirror(SingleReader(each.api_version, each.kind, "cluster"))
            for each in (CLUSTER_POLICIES, NETWORK_POLICIES)
        }
        self.writer = Writer(
            stack.enter_context(client_of(api)),
            PolicyReports(self._mirrors, lambda: self.known),
            namespace="kube-system",
            identity=f"{name}_knp_1",
            node=name,
            say=self.said.append,
            clock=timer.now,
            wall=lambda: NOW + timer.now(),
            chance=lambda: 0.0,
        )

    def hear(self) -> None:
        """Know what is there now."""
        for kind, mirror in self._mirrors.items():
            mirror.listed(
                [msgspec.Raw(json.dumps(doc).encode()) for doc in self._api.state(kind).values()]
            )

    def run(self, seconds: float, *, hear: bool = True) -> None:
        """Do all that is due in so many seconds."""
        end = self.timer.now() + seconds
        while True:
            if hear:
                self.hear()
            pause = self.writer.turn()
            if self.timer.now() + pause > end:
                self.timer.time = end
                return
            self.timer.pass_by(pause)


@contextmanager
def status_nodes(api: ApiServer, *names: str) -> Iterator[list[StatusNode]]:
    """Some, each with a clock of its own."""
    with ExitStack() as stack:
        yield [StatusNode(api, stack, name, FakeTimer()) for name in names]


def conditions(api: ApiServer, name: str) -> dict[str, Doc]:
    """A policy's, by their type."""
    status = api.get("ClusterNetworkPolicy", "", name).get("status") or {}
    return {each["type"]: each for each in status.get("conditions") or ()}


def events(api: ApiServer) -> list[Doc]:
    """All Events there are."""
    return list(api.state("Event").values())
