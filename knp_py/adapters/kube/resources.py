"""What the agent asks an API server for. The manifests' RBAC rules are held to these lists."""

from typing import NamedTuple
from urllib.parse import urlencode


class Resource(NamedTuple):
    """A resource as the API's paths have it; ``group`` is empty for the core group.

    ``namespace`` and ``name`` narrow it down to one object, empty for all there are.
    ``optional`` says that a cluster may lack it: its definition can come and go. ``without`` says
    how it goes on where RBAC forbids it; empty where it does not.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespace: str = ""
    name: str = ""
    optional: bool = False
    without: str = ""

    @property
    def api_version(self) -> str:
        """As objects have it in ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """Of the collection."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{root}{within}/{self.plural}"

    def query(self, **parameters: object) -> str:
        """Path and query; parameters that are None or empty are left out."""
        if self.name:
            parameters["fieldSelector"] = f"metadata.name={self.name}"
        given = {key: value for key, value in parameters.items() if value not in {None, ""}}
        return f"{self.path}?{urlencode(given)}" if given else self.path


CLUSTER_POLICIES = Resource(
    "policy.networking.k8s.io",
    "v1alpha2",
    "clusternetworkpolicies",
    "ClusterNetworkPolicy",
    optional=True,
)
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
WATCHED = (
    Resource("", "v1", "namespaces", "Namespace"),
    Resource("", "v1", "nodes", "Node"),
    Resource("", "v1", "pods", "Pod"),
    # Which addresses pods may believe as resolvers (semantics §6); no other Service matters.
    # kube-network-policies' own role does not allow to read it.
    Resource(
        "",
        "v1",
        "services",
        "Service",
        "kube-system",
        "kube-dns",
        without="pods believe cluster DNS by its pods' addresses, not by its Service's",
    ),
    NETWORK_POLICIES,
    CLUSTER_POLICIES,
)
"""Each is listed and watched."""


class Need(NamedTuple):
    """What must be allowed; ``resource`` is a plural, with ``/`` and the subresource.

    ``own`` says that the agent's own namespace is enough; else it is needed everywhere.
    ``name`` narrows it down to one object, empty for all.
    """

    verb: str
    group: str
    resource: str
    own: bool = False
    name: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


LEASE = "knp-status"
"""Whoever holds the Lease of this name writes the status of policies."""

WRITTEN = (
    *(
        # A name is nothing that the right to create something can be restricted to.
        Need(verb, "coordination.k8s.io", "leases", True, "" if verb == "create" else LEASE)
        for verb in ("get", "create", "update")
    ),
    Need("get", CLUSTER_POLICIES.group, "clusternetworkpolicies"),
    Need("patch", CLUSTER_POLICIES.group, "clusternetworkpolicies/status"),
    Need("create", "", "events"),
)
"""What the node needs that writes the status of policies, and Events about them."""
