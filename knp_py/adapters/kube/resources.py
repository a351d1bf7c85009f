"""What the agent asks an API server for. The manifests' RBAC rules are held to this list."""

from typing import NamedTuple
from urllib.parse import urlencode


class Resource(NamedTuple):
    """A resource as the API's paths have it; ``group`` is empty for the core group.

    ``namespace`` and ``name`` narrow it down to one object, empty for all there are.
    ``optional`` says that a cluster may lack it: its definition can come and go.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespace: str = ""
    name: str = ""
    optional: bool = False

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


WATCHED = (
    Resource("", "v1", "namespaces", "Namespace"),
    Resource("", "v1", "nodes", "Node"),
    Resource("", "v1", "pods", "Pod"),
    # Which addresses pods may believe as resolvers (semantics §6); no other Service matters.
    Resource("", "v1", "services", "Service", "kube-system", "kube-dns"),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    Resource(
        "policy.networking.k8s.io",
        "v1alpha2",
        "clusternetworkpolicies",
        "ClusterNetworkPolicy",
        optional=True,
    ),
)
"""Each is listed and watched."""
