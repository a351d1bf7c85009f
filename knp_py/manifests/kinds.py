"""Which kinds are read, in which versions, and what is said of all others."""

import msgspec

from knp_py.manifests.problems import Problem, did_you_mean, plain
from knp_py.model.objects import Origin

POLICY_GROUP = "policy.networking.k8s.io"
_SANDBOX = ("agents.x-k8s.io/v1beta1", "agents.x-k8s.io/v1alpha1")
_SANDBOX_EXTENSION = (
    "extensions.agents.x-k8s.io/v1beta1",
    "extensions.agents.x-k8s.io/v1alpha1",
)


class Kind(msgspec.Struct, frozen=True):
    """A kind that is read."""

    versions: tuple[str, ...]
    namespaced: bool = True


KINDS = {
    "NetworkPolicy": Kind(("networking.k8s.io/v1",)),
    "ClusterNetworkPolicy": Kind((f"{POLICY_GROUP}/v1alpha2",), namespaced=False),
    "AdminNetworkPolicy": Kind((f"{POLICY_GROUP}/v1alpha1",), namespaced=False),
    "BaselineAdminNetworkPolicy": Kind((f"{POLICY_GROUP}/v1alpha1",), namespaced=False),
    "Pod": Kind(("v1",)),
    "Namespace": Kind(("v1",), namespaced=False),
    "Node": Kind(("v1",), namespaced=False),
    "Service": Kind(("v1",)),
    "Deployment": Kind(("apps/v1",)),
    "StatefulSet": Kind(("apps/v1",)),
    "DaemonSet": Kind(("apps/v1",)),
    "ReplicaSet": Kind(("apps/v1",)),
    "ReplicationController": Kind(("v1",)),
    "Job": Kind(("batch/v1",)),
    "CronJob": Kind(("batch/v1",)),
    "Sandbox": Kind(_SANDBOX),
    "SandboxTemplate": Kind(_SANDBOX_EXTENSION),
    "SandboxWarmPool": Kind(_SANDBOX_EXTENSION),
    "SandboxClaim": Kind(_SANDBOX_EXTENSION),
}

# API groups of KINDS: only there is a strange kind or version a likely slip.
_GROUPS = frozenset(
    version.rpartition("/")[0] for kind in KINDS.values() for version in kind.versions
) | {"extensions"}

# Kinds of other products that decide about traffic; those whose name ends in
# NetworkPolicy need not be listed.
_OTHER_POLICIES = frozenset(
    (
        *("AuthorizationPolicy", "PeerAuthentication", "GlobalNetworkSet", "NetworkSet", "Tier"),
        *("EgressFirewall", "EgressNetworkPolicy", "HostEndpoint", "ClusterGroup"),
        *("ServerAuthorization", "HTTPRoutePolicy", "MeshTrafficPermission", "TrafficTarget"),
        *("PolicyEndpoint", "ClusterPolicyEndpoint"),
    )
)


def is_read(version: str, kind: str) -> bool:
    """Whether documents of this kind and version are read."""
    known = KINDS.get(kind)
    return known is not None and version in known.versions


def is_list(kind: str) -> bool:
    """Whether documents of this kind hold objects in ``items``.

    Other kinds may end in "List" and mean something else by ``items``.
    """
    return kind == "List" or (kind.endswith("List") and kind[:-4] in KINDS)


class _Seen:
    """How many documents of a kind that is not read, and the first of them."""

    def __init__(self, origin: Origin, name: str) -> None:
        self.origin = origin
        self.name = name
        self.count = 0


class Unread:
    """Documents of kinds that are not read: one warning a kind, never silence.

    ``seen`` is by version and kind.
    """

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], _Seen] = {}

    def add(self, version: str, kind: str, origin: Origin, name: str) -> None:
        """Count one document."""
        seen = self.seen.get((version, kind))
        if seen is None:
            seen = self.seen[version, kind] = _Seen(origin, name)
        seen.count += 1

    def merge(self, other: "Unread") -> None:
        """Count all that another has counted, after one's own."""
        for (version, kind), theirs in other.seen.items():
            mine = self.seen.get((version, kind))
            if mine is None:
                mine = self.seen[version, kind] = _Seen(theirs.origin, theirs.name)
            mine.count += theirs.count

    def warnings(self) -> list[Problem]:
        """One line a kind, policies first."""
        lines = [
            (_reason(version, kind), version, kind, seen)
            for (version, kind), seen in self.seen.items()
        ]
        lines.sort(key=lambda line: (line[0][0], line[2], line[1]))
        return [
            Problem(
                seen.origin,
                f"{plain(kind)} {plain(seen.name)}" if seen.name else plain(kind),
                "",
                f"{plain(version)} {reason}"
                + (f" ({seen.count} such objects, this is the first)" if seen.count > 1 else ""),
            )
            for (_, reason), version, kind, seen in lines
        ]


def _reason(version: str, kind: str) -> tuple[int, str]:
    known = KINDS.get(kind)
    group = version.rpartition("/")[0]
    if known is not None and group in _GROUPS:
        return 0, f"is not read for this kind and has no effect; read is {known.versions[0]}"
    if kind.removesuffix("List").endswith("NetworkPolicy") or kind in _OTHER_POLICIES:
        return 1, "is another product's policy: it is not judged, and verdicts leave it out"
    hint = did_you_mean(kind, KINDS) if group in _GROUPS else ""
    return 2, f"kind, which policy does not depend on; ignored{hint}"
