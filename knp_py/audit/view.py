"""The input as the checks see it: objects by kind, who is selected by what, where pods are.

Two worlds matter. The *input* has the pods it has. But manifests are also read without a
cluster, so the *possible* world has every pod that some labels and namespace could make;
what is certain there holds whatever pods there are. Only addresses tie the two together:
when the input's pods have real addresses, possible pods are where those are.
"""

from collections.abc import Iterable, Iterator, Sequence

from knp_py.audit.overlap import Overlap
from knp_py.engine.identities import Identity, IdentityTable, NodeSelectorTable, SelectorTable
from knp_py.engine.policies import peers_of, subject_of
from knp_py.engine.snapshot import Snapshot
from knp_py.engine.state import ClusterState
from knp_py.engine.surroundings import is_cluster_resolver
from knp_py.model.changes import Change, ClusterObject, Verb
from knp_py.model.net import V4_BASE, V4_LAST, V6_LAST, parse_cidr, subtract
from knp_py.model.objects import NAMESPACE_NAME_LABEL, Namespace, Node, Pod, Service
from knp_py.model.policy import (
    ClusterNetworkPolicy,
    Direction,
    NetworkPolicy,
    NodePeer,
    PodPeer,
    Policy,
    Tier,
)
from knp_py.model.selectors import LabelSelector

Ranges = tuple[tuple[int, int], ...]

EVERYWHERE: Ranges = ((0, V6_LAST),)
IPV4: Ranges = ((V4_BASE, V4_LAST),)


class View:
    """See the module's docstring. ``pods`` are those with addresses of their own."""

    def __init__(self, objects: Sequence[ClusterObject]) -> None:
        state = ClusterState()
        state.apply_all(Change(Verb.APPLIED, obj) for obj in objects)
        self.snapshot: Snapshot = state.snapshot()
        self.selectors = SelectorTable()
        self.node_selectors = NodeSelectorTable()
        self.cluster: dict[Tier, list[ClusterNetworkPolicy]] = {
            Tier.ADMIN: [],
            Tier.BASELINE: [],
        }
        self.network: list[NetworkPolicy] = []
        self.policies: list[Policy] = self.snapshot.policies()
        for policy in self.policies:
            if isinstance(policy, ClusterNetworkPolicy):
                self.cluster[policy.tier].append(policy)
            else:
                self.network.append(policy)
            self._hold(policy)
        self.all_pods: list[Pod] = list(self.snapshot.pods.values())
        self.pods: list[Pod] = [pod for pod in self.all_pods if pod.resolves and pod.ips]
        self.dns_pods: list[Pod] = [pod for pod in self.pods if is_cluster_resolver(pod)]
        self.namespaces: dict[str, Namespace] = dict(self.snapshot.namespaces)
        self.nodes: list[Node] = list(self.snapshot.nodes.values())
        self.services: list[Service] = list(self.snapshot.services.values())
        # With kube-system declared it is most likely all of a cluster.
        self.whole = "kube-system" in self.namespaces
        self.pod_namespaces = {pod.namespace for pod in self.all_pods}
        self.overlap = Overlap({name: self.labels_of(name) for name in self.namespaces})
        self._identities = IdentityTable()
        self._identity_of: dict[str, Identity] = {}
        self._members: dict[int, list[Pod]] = {}
        for pod in self.all_pods:
            identity, _ = self._identities.take(
                pod.namespace, self.labels_of(pod.namespace), pod.labels, self.selectors
            )
            self._identity_of[pod.uid] = identity
            self._members.setdefault(identity.number, []).append(pod)
        self._isolating: dict[tuple[PodPeer, Direction], list[NetworkPolicy]] = {}
        self._port_names: dict[int, frozenset[tuple[str, int]]] = {}
        self._selected: dict[int, list[Identity]] = {}
        for identity in self._identities.by_number.values():
            for number in sorted(identity.matched):
                self._selected.setdefault(number, []).append(identity)
        self.pod_ranges = self._pod_ranges()
        # Address → numbers of the node selectors that match a node there.
        self.node_points: dict[int, tuple[int, ...]] = {}
        for node in self.nodes:
            matched = self.node_selectors.matching(node.labels)
            for address in node.all_ips:
                before = self.node_points.get(address, ())
                self.node_points[address] = tuple({*before, *matched})

    def _hold(self, policy: Policy) -> None:
        self.selectors.hold(subject_of(policy))
        for peer in peers_of(policy):
            if isinstance(peer, PodPeer):
                self.selectors.hold(peer)
            elif isinstance(peer, NodePeer):
                self.node_selectors.hold(peer.nodes)

    def labels_of(self, namespace: str) -> dict[str, str]:
        """A namespace's labels; its name is always among them."""
        known = self.namespaces.get(namespace)
        return {**(known.labels if known else {}), NAMESPACE_NAME_LABEL: namespace}

    # -- the input's pods ---------------------------------------------------------------

    def identity(self, pod: Pod) -> Identity:
        """What the pod is to policy."""
        return self._identity_of[pod.uid]

    def identities(self) -> Iterable[Identity]:
        """Every identity of the input's pods."""
        return self._identities.by_number.values()

    def selected_identities(self, peer: PodPeer) -> list[Identity]:
        """Identities that a policy's subject or pod peer selects."""
        return self._selected.get(self.selectors.number(peer), [])

    def members(self, identity: Identity) -> list[Pod]:
        """The pods of an identity, host-network and finished ones too."""
        return self._members[identity.number]

    def port_names(self, identity: Identity) -> frozenset[tuple[str, int]]:
        """(name, protocol) of the container ports that its pods declare."""
        known = self._port_names.get(identity.number)
        if known is None:
            known = self._port_names[identity.number] = frozenset(
                (port.name, port.protocol)
                for pod in self.members(identity)
                if pod.resolves
                for port in pod.ports
            )
        return known

    def selected(self, peer: PodPeer) -> Iterator[Pod]:
        """Pods that a policy's subject or pod peer selects by labels, of any state."""
        for identity in self.selected_identities(peer):
            yield from self.members(identity)

    def live(self, peer: PodPeer) -> Iterator[Pod]:
        """Those of ``selected`` that have addresses of their own."""
        return (pod for pod in self.selected(peer) if pod.resolves and pod.ips)

    def could_select(self, peer: PodPeer) -> bool:
        """Whether the input has pods in a namespace that the peer is about."""
        if peer.namespace is not None:
            return peer.namespace in self.pod_namespaces
        return any(peer.namespaces.matches(self.labels_of(n)) for n in self.pod_namespaces)

    # -- where pods can be --------------------------------------------------------------

    def _pod_ranges(self) -> Ranges:
        """Addresses that a pod may have; everything unless real addresses are known."""
        if not self.pods or any(pod.made_up for pod in self.pods):
            return EVERYWHERE
        ranges = [(address, address) for pod in self.pods for address in pod.ips]
        for node in self.nodes:
            for text in node.pod_cidrs:
                ranges += parse_cidr(text).ranges
        return tuple(subtract(ranges, []))

    @property
    def ipv4(self) -> bool:
        """Whether a pod may have an IPv4 address, for all the input says."""
        return any(first <= V4_LAST and last >= V4_BASE for first, last in self.pod_ranges)

    @property
    def ipv6(self) -> bool:
        """Whether a pod may have an IPv6 address, for all the input says."""
        return any(last > V4_LAST or first < V4_BASE for first, last in self.pod_ranges)

    def node_ranges(self, nodes: LabelSelector) -> Ranges:
        """Addresses that a ``nodes`` peer matches; everything when no such node is known."""
        found = [
            (address, address)
            for node in self.nodes
            if nodes.matches(node.labels)
            for address in node.all_ips
        ]
        return tuple(subtract(found, [])) if found else EVERYWHERE

    # -- NetworkPolicies ----------------------------------------------------------------

    def isolates(self, subject: PodPeer, direction: Direction) -> bool:
        """Whether some NetworkPolicy isolates every pod of the subject."""
        return any(
            self.overlap.implies(subject, subject_of(policy))
            for policy in self.may_isolate(subject, direction)
        )

    def may_isolate(self, subject: PodPeer, direction: Direction) -> list[NetworkPolicy]:
        """NetworkPolicies that isolate some pod of the subject."""
        known = self._isolating.get((subject, direction))
        if known is None:
            known = self._isolating[subject, direction] = [
                policy
                for policy in self.network
                if policy.rules[direction] is not None
                and self.overlap.meets(subject, subject_of(policy))
            ]
        return known
