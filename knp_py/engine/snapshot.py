"""One immutable, compiled view of the cluster. A packet is judged by exactly one.

Built only by ``engine.state``; whoever holds one may keep it as long as they like.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from knp_py.engine.chains import Chain
from knp_py.model.objects import Namespace, Node, Pod, Service
from knp_py.model.policy import ClusterNetworkPolicy, Direction, NetworkPolicy, Policy, Tier

NO_PORTS: Mapping[tuple[int, int], tuple[str, ...]] = {}


class Endpoint(NamedTuple):
    """A pod at an address. ``ports``: (protocol, port) → names of its container ports."""

    pod: Pod
    identity: int
    ports: Mapping[tuple[int, int], tuple[str, ...]]


class Profile(NamedTuple):
    """What an identity means: the chains it is subject to, the selectors it matches.

    ``egress`` and ``ingress`` are the chains of the tiers that select it, in order of
    evaluation. ``group`` numbers ``selectors`` (equal sets, equal number; never 0).
    ``admin`` and ``baseline`` are how many ClusterNetworkPolicies of those tiers select it,
    those without a rule included: no chain has them, and nothing is judged by these numbers.
    """

    egress: tuple[tuple[Tier, Chain], ...]
    ingress: tuple[tuple[Tier, Chain], ...]
    group: int
    selectors: tuple[int, ...]
    admin: int = 0
    baseline: int = 0

    def chains(self, direction: Direction) -> tuple[tuple[Tier, Chain], ...]:
        """The chains of one direction."""
        return self.egress if direction is Direction.EGRESS else self.ingress


class Snapshot:
    """See the module's docstring. Mappings must not be changed by anyone."""

    __slots__ = (
        "cluster_policies",
        "cluster_resolvers",
        "endpoints",
        "every_node_address",
        "generation",
        "namespaces",
        "network_bounds",
        "network_policies",
        "node_addresses",
        "node_ends",
        "nodes",
        "patterns",
        "pod_keys",
        "pods",
        "profiles",
        "service_ends",
        "services",
        "warnings",
    )

    def __init__(
        self,
        *,
        generation: int = 0,
        pods: Mapping[str, Pod] | None = None,
        pod_keys: Mapping[str, str] | None = None,
        namespaces: Mapping[str, Namespace] | None = None,
        nodes: Mapping[str, Node] | None = None,
        services: Mapping[str, Service] | None = None,
        cluster_policies: Mapping[str, ClusterNetworkPolicy] | None = None,
        network_policies: Mapping[str, NetworkPolicy] | None = None,
        endpoints: Mapping[int, Endpoint] | None = None,
        profiles: Mapping[int, Profile] | None = None,
        node_ends: Mapping[int, Node] | None = None,
        node_addresses: Mapping[int, tuple[int, ...]] | None = None,
        every_node_address: frozenset[int] = frozenset(),
        service_ends: Mapping[int, Service] | None = None,
        network_bounds: Sequence[int] = (),
        patterns: frozenset[str] = frozenset(),
        cluster_resolvers: frozenset[int] = frozenset(),
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.generation = generation
        self.pods = pods or {}
        self.pod_keys = pod_keys or {}
        self.namespaces = namespaces or {}
        self.nodes = nodes or {}
        self.services = services or {}
        self.cluster_policies = cluster_policies or {}
        self.network_policies = network_policies or {}
        self.endpoints = endpoints or {}
        self.profiles = profiles or {}
        self.node_ends = node_ends or {}
        self.node_addresses = node_addresses or {}
        self.every_node_address = every_node_address
        self.service_ends = service_ends or {}
        self.network_bounds = network_bounds
        self.patterns = patterns
        self.cluster_resolvers = cluster_resolvers
        self.warnings = warnings

    def pod_at(self, address: int) -> Pod | None:
        """The pod that an address is, by the endpoint rule (semantics §1)."""
        end = self.endpoints.get(address)
        return None if end is None else end.pod

    def node_at(self, address: int) -> Node | None:
        """The node that an address is: InternalIP or ExternalIP, and no pod has it."""
        return None if address in self.endpoints else self.node_ends.get(address)

    def service_at(self, address: int) -> Service | None:
        """The Service whose ClusterIP or external IP this is; policy never sees those."""
        return self.service_ends.get(address)

    def in_pod_network(self, address: int) -> bool:
        """Whether the address lies in a pod CIDR that some Node states."""
        return bisect_right(self.network_bounds, address) % 2 == 1

    def pod_by_key(self, key: str) -> Pod | None:
        """The pod called ``namespace/name``."""
        uid = self.pod_keys.get(key)
        return None if uid is None else self.pods[uid]

    def profile_of(self, pod: Pod) -> Profile | None:
        """The profile of a pod that has an address of its own; None for any other."""
        for address in pod.ips:
            end = self.endpoints.get(address)
            if end is not None and end.pod.uid == pod.uid:
                return self.profiles[end.identity]
        return None

    def policies(self) -> list[Policy]:
        """Every policy: cluster-wide by tier, priority and name, then by namespace/name."""
        cluster = sorted(
            self.cluster_policies.values(), key=lambda p: (p.tier, p.priority, p.name)
        )
        return [*cluster, *(self.network_policies[key] for key in sorted(self.network_policies))]


EMPTY = Snapshot()
