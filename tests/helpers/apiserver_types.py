"""What the API server of the tests serves, and the errors it answers with.

Shapes and wordings are those of kube-apiserver: a client that reads ``reason`` or ``message``
of a real Status reads these the same way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Doc = dict[str, Any]

CNP_GROUP = "policy.networking.k8s.io"


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource type. ``custom``: defined by a CRD, so its items in a list say their kind."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    custom: bool = False
    status: bool = False
    verbs: tuple[str, ...] = ("create", "delete", "get", "list", "patch", "update", "watch")
    empty: str = ""  # what a BOOKMARK of it holds beside its metadata, as Go prints zero values

    @property
    def api_version(self) -> str:
        """As in an object's ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """As in a message: ``pods``, ``leases.coordination.k8s.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def base(self) -> str:
        """The path under which all of the group's version is."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str = "", name: str = "") -> str:
        """Where a collection or an object is."""
        middle = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return f"{self.base}{middle}/{self.plural}" + (f"/{name}" if name else "")


PODS = Resource(
    "", "v1", "pods", "Pod", True, status=True, empty='"spec":{"containers":null},"status":{}'
)
NAMESPACES = Resource(
    "", "v1", "namespaces", "Namespace", False, status=True, empty='"spec":{},"status":{}'
)
NODES = Resource(
    "",
    "v1",
    "nodes",
    "Node",
    False,
    status=True,
    empty='"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":'
    '{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"",'
    '"containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"",'
    '"operatingSystem":"","architecture":""}}',
)
SERVICES = Resource(
    "",
    "v1",
    "services",
    "Service",
    True,
    status=True,
    empty='"spec":{},"status":{"loadBalancer":{}}',
)
EVENTS = Resource(
    "",
    "v1",
    "events",
    "Event",
    True,
    empty='"involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,'
    '"eventTime":null,"reportingComponent":"","reportingInstance":""',
)
NETWORK_POLICIES = Resource(
    "networking.k8s.io",
    "v1",
    "networkpolicies",
    "NetworkPolicy",
    True,
    empty='"spec":{"podSelector":{}}',
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, empty='"spec":{}')
REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    False,
    verbs=("create",),
)
CLUSTER_POLICIES = Resource(
    CNP_GROUP,
    "v1alpha2",
    "clusternetworkpolicies",
    "ClusterNetworkPolicy",
    False,
    custom=True,
    status=True,
)
BUILT_IN = (
    *(PODS, NAMESPACES, NODES, SERVICES, EVENTS),
    *(NETWORK_POLICIES, LEASES, REVIEWS),
)


@dataclass
class ApiError(Exception):
    """An answer that is a Status. ``headers``: more of the answer's."""

    code: int
    reason: str
    message: str
    details: Doc = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    metadata: Doc = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"

    def status(self) -> Doc:
        """The Status object."""
        status: Doc = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details:
            status["details"] = self.details
        status["code"] = self.code
        return status


def details(resource: Resource, name: str = "", **more: object) -> Doc:
    """A Status' details about an object."""
    found: Doc = {"name": name} if name else {}
    if resource.group:
        found["group"] = resource.group
    return found | {"kind": resource.plural} | more


def not_found(resource: Resource, name: str) -> ApiError:
    """There is no such object."""
    message = f'{resource.qualified} "{name}" not found'
    return ApiError(404, "NotFound", message, details(resource, name))


def already_exists(resource: Resource, name: str) -> ApiError:
    """It was to be created and is there."""
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, details(resource, name))


def modified(resource: Resource, name: str) -> ApiError:
    """Somebody else changed it in between."""
    message = (
        f'Operation cannot be fulfilled on {resource.qualified} "{name}": the object has been '
        "modified; please apply your changes to the latest version and try again"
    )
    return ApiError(409, "Conflict", message, details(resource, name))


def bad_request(message: str) -> ApiError:
    """The request says something impossible."""
    return ApiError(400, "BadRequest", message)


_CAUSES = {
    "Required value": "FieldValueRequired",
    "Unsupported value": "FieldValueNotSupported",
    "Forbidden": "FieldValueForbidden",
}


def invalid(kind: str, group: str, name: str, causes: list[tuple[str, str]]) -> ApiError:
    """A field's value is refused; ``causes``: field and message."""
    qualified = f"{kind}.{group}" if group else kind
    text = ", ".join(f"{where}: {what}" for where, what in causes)
    if len(causes) > 1:
        text = f"[{text}]"
    found: Doc = {"name": name, "group": group, "kind": kind}
    found["causes"] = [
        {"reason": _CAUSES.get(what.partition(":")[0], "FieldValueInvalid")}
        | {"message": what, "field": where}
        for where, what in causes
    ]
    message = f'{qualified} "{name}" is invalid: {text}'
    return ApiError(422, "Invalid", message, {k: v for k, v in found.items() if v})


def expired(message: str, **metadata: str) -> ApiError:
    """What was asked for is too old; a list from scratch helps."""
    return ApiError(410, "Expired", message, metadata=dict(metadata))


def too_old(asked: int, oldest: int) -> ApiError:
    """A watch from before what is remembered."""
    return expired(f"too old resource version: {asked} ({oldest})")


def too_large(asked: int, current: int) -> ApiError:
    """A list not older than a version that was not reached yet (or was forgotten)."""
    message = f"Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    found: Doc = {"causes": [cause], "retryAfterSeconds": 1}
    return ApiError(504, "Timeout", f"Timeout: {message}", found, {"Retry-After": "1"})


def unauthorized() -> ApiError:
    """Nobody has this token."""
    return ApiError(401, "Unauthorized", "Unauthorized")
