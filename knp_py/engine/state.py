"""Cluster state: changes in, snapshots out; a snapshot recompiles only what changed.

``apply`` only notes what happened. ``snapshot`` folds the notes: it renumbers and
rematches what they touch, reuses every chain whose policies are the same, and copies
the (flat) maps that changed, so that snapshots already handed out stay as they were.
"""

from collections.abc import Iterable, Mapping
from itertools import chain as concatenate
from typing import TypeVar

from knp_py.engine.addressbook import AddressBook
from knp_py.engine.chains import Chain, ChainCompiler
from knp_py.engine.identities import Identity, IdentityTable, NodeSelectorTable, SelectorTable
from knp_py.engine.policies import (
    evaluation_order,
    id_of,
    name_patterns,
    node_selectors,
    pod_selectors,
    subject_of,
)
from knp_py.engine.snapshot import EMPTY, Profile, Snapshot
from knp_py.engine.surroundings import (
    cluster_resolvers,
    is_cluster_resolver,
    network_bounds,
    node_addresses,
    node_ends,
    service_ends,
)
from knp_py.model.changes import Change, Verb
from knp_py.model.objects import (
    NAMESPACE_NAME_LABEL,
    Namespace,
    Node,
    Pod,
    Service,
)
from knp_py.model.policy import (
    ClusterNetworkPolicy,
    Direction,
    NetworkPolicy,
    Policy,
    Tier,
)

T = TypeVar("T")


class ClusterState:
    """Everything known of a cluster. Not thread-safe; snapshots are."""

    def __init__(self) -> None:
        self._generation = 0
        self._pods: dict[str, Pod] = {}
        self._pod_keys: dict[str, str] = {}
        self._pods_in: dict[str, int] = {}  # namespace → pods
        self._namespaces: dict[str, Namespace] = {}
        self._nodes: dict[str, Node] = {}
        self._services: dict[str, Service] = {}
        self._cluster_policies: dict[str, ClusterNetworkPolicy] = {}
        self._network_policies: dict[str, NetworkPolicy] = {}
        self._terminating: set[str] = set()  # namespaces on their way out
        self._held: set[str] = set()  # policies deleted while their namespace terminates

        self._selectors = SelectorTable()
        self._node_selectors = NodeSelectorTable()
        self._identities = IdentityTable()
        self._compiler = ChainCompiler(self._selectors.number, self._node_selectors.number)
        self._in_force: dict[str, Policy] = {}  # policy id → as compiled
        self._by_subject: dict[int, set[str]] = {}  # selector number → policy ids
        self._chains: dict[tuple[Tier, Direction, tuple[str, ...]], Chain] = {}
        self._groups: dict[frozenset[int], int] = {}
        self._next_group = 1

        self._identity_of: dict[str, Identity] = {}  # pod uid → identity
        self._addresses = AddressBook()
        self._profiles: dict[int, Profile] = {}
        self._patterns: frozenset[str] = frozenset()
        self._dns_pods: dict[str, Pod] = {}
        self._node_ends: dict[int, Node] = {}
        self._node_addresses: dict[int, tuple[int, ...]] = {}
        self._every_node_address: frozenset[int] = frozenset()
        self._network_bounds: tuple[int, ...] = ()
        self._cluster_resolvers: frozenset[int] = frozenset()

        self._dirty_pods: dict[str, Pod | None] = {}  # uid → the pod as folded, None if new
        self._dirty_namespaces: set[str] = set()
        self._dirty_policies: dict[str, None] = {}
        self._dirty_nodes = True
        self._dirty_services = True
        self._last: Snapshot | None = None

    # -- changes in ------------------------------------------------------------------

    def apply_all(self, objects: Iterable[Change]) -> None:
        """Note many changes."""
        for change in objects:
            self.apply(change)

    def apply(self, change: Change) -> None:
        """Note one change. Deleting what is not there is no change."""
        gone = change.verb is Verb.DELETED
        obj = change.obj
        match obj:
            case Pod():
                self._apply_pod(obj, gone=gone)
            case Namespace():
                self._apply_namespace(obj, gone=gone)
            case Node():
                self._dirty_nodes = True
                _put(self._nodes, obj.name, obj, gone=gone)
            case Service():
                self._dirty_services = True
                _put(self._services, obj.key, obj, gone=gone)
            case ClusterNetworkPolicy():
                self._dirty_policies[id_of(obj)] = None
                _put(self._cluster_policies, obj.name, obj, gone=gone)
            case NetworkPolicy():
                self._apply_network_policy(obj, gone=gone)

    def _apply_pod(self, pod: Pod, *, gone: bool) -> None:
        key = pod.key
        before = self._pod_keys.get(key)
        if gone:
            if before == pod.uid:
                self._forget_pod(before)
            return
        if before is not None and before != pod.uid:
            self._forget_pod(before)  # the name came back as another pod (semantics §1)
        old = self._pods.get(pod.uid)
        if old is not None and old.key != key:
            self._forget_pod(pod.uid)
            old = None
        if old is None:
            self._pods_in[pod.namespace] = self._pods_in.get(pod.namespace, 0) + 1
        self._dirty_pods.setdefault(pod.uid, old)
        self._pods[pod.uid] = pod
        self._pod_keys[key] = pod.uid

    def _forget_pod(self, uid: str) -> None:
        pod = self._pods.pop(uid)
        del self._pod_keys[pod.key]
        self._dirty_pods.setdefault(uid, pod)
        self._pods_in[pod.namespace] -= 1
        if not self._pods_in[pod.namespace]:
            del self._pods_in[pod.namespace]
            self._drop_held(pod.namespace)
            if pod.namespace not in self._namespaces:
                self._terminating.discard(pod.namespace)

    def _apply_namespace(self, namespace: Namespace, *, gone: bool) -> None:
        name = namespace.name
        self._dirty_namespaces.add(name)
        _put(self._namespaces, name, namespace, gone=gone)
        if gone:
            if name not in self._pods_in:
                self._terminating.discard(name)
            return  # its pods may outlive it: each kind has a watch of its own
        if namespace.terminating:
            self._terminating.add(name)
        else:
            self._terminating.discard(name)
            self._drop_held(name)

    def _apply_network_policy(self, policy: NetworkPolicy, *, gone: bool) -> None:
        key = policy.key
        if gone and policy.namespace in self._terminating and policy.namespace in self._pods_in:
            # The API deletes a namespace's contents in any order; its pods must not be
            # open in between (semantics §1).
            if key in self._network_policies:
                self._held.add(key)
            return
        self._held.discard(key)
        self._dirty_policies[id_of(policy)] = None
        _put(self._network_policies, key, policy, gone=gone)

    def _drop_held(self, namespace: str) -> None:
        prefix = f"{namespace}/"
        for key in [k for k in self._held if k.startswith(prefix)]:
            self._held.discard(key)
            self._dirty_policies[id_of(self._network_policies.pop(key))] = None

    def unknown_namespaces(self) -> set[str]:
        """Namespaces that pods are in and that nobody has told of."""
        return self._pods_in.keys() - self._namespaces.keys()

    # -- snapshots out -----------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The state as it is now. Cheap when little changed since the last one."""
        last = self._last
        clean = not (
            self._dirty_pods
            or self._dirty_namespaces
            or self._dirty_policies
            or self._dirty_nodes
            or self._dirty_services
        )
        if last is not None and clean:
            return last
        stale: set[int] = set()  # identities whose profile must be made anew
        keys = set(self._selectors.key_uses)
        policies_changed = self._fold_policies(stale)
        if set(self._selectors.key_uses) != keys:
            # Other labels are relevant now: who can be told from whom changes.
            for uid, pod in self._pods.items():
                self._dirty_pods.setdefault(uid, pod)
        self._fold_namespaces(stale)
        pods_changed = bool(self._dirty_pods)
        self._fold_pods(stale)
        self._fold_profiles(stale)
        self._prune_chains(policies_changed=policies_changed)
        self._generation += 1
        snapshot = self._build(last, pods=pods_changed, policies=policies_changed)
        self._dirty_pods.clear()
        self._dirty_namespaces.clear()
        self._dirty_policies.clear()
        self._dirty_nodes = self._dirty_services = False
        self._last = snapshot
        return snapshot

    def _fold_policies(self, stale: set[int]) -> bool:
        fresh: list[int] = []
        released: list[Policy] = []
        for policy_id in self._dirty_policies:
            old = self._in_force.pop(policy_id, None)
            if old is not None:
                released.append(old)
                number = self._selectors.number(subject_of(old))
                self._by_subject[number].discard(policy_id)
                stale.update(self._identities.matching(number))
            new = self._policy(policy_id)
            if new is None:
                continue
            self._in_force[policy_id] = new
            for peer in pod_selectors(new):
                selector, is_new = self._selectors.hold(peer)
                if is_new:
                    fresh.append(selector.number)
            for nodes in node_selectors(new):
                self._dirty_nodes |= self._node_selectors.hold(nodes)
            self._by_subject.setdefault(self._selectors.number(subject_of(new)), set()).add(
                policy_id
            )
        gone: set[int] = set()
        for policy in released:
            for peer in pod_selectors(policy):
                number_gone = self._selectors.release(peer)
                if number_gone is not None:
                    gone.add(number_gone)
                    self._by_subject.pop(number_gone, None)
            for nodes in node_selectors(policy):
                self._node_selectors.release(nodes)
        if released:
            changed = {id_of(p) for p in released}
            for key in [k for k in self._chains if not changed.isdisjoint(k[2])]:
                del self._chains[key]
        if fresh or gone:
            self._rematch(fresh, gone, stale)
        for policy_id in self._dirty_policies:
            policy_now = self._in_force.get(policy_id)
            if policy_now is not None:
                number = self._selectors.number(subject_of(policy_now))
                stale.update(self._identities.matching(number))
        return bool(self._dirty_policies)

    def _rematch(self, fresh: list[int], gone: set[int], stale: set[int]) -> None:
        new = [self._selectors.by_number(n) for n in fresh if n not in gone]
        for number, identity in self._identities.by_number.items():
            namespace = identity.namespace
            labels = self._namespace_labels(namespace)
            found = {s.number for s in new if s.matches(namespace, labels, identity.labels)}
            if found or not gone.isdisjoint(identity.matched):
                identity.matched = (identity.matched - gone) | found
                stale.add(number)

    def _fold_namespaces(self, stale: set[int]) -> None:
        for name in self._dirty_namespaces:
            labels = self._namespace_labels(name)
            for identity in self._identities.in_namespace(name):
                matched = self._selectors.matching(name, labels, identity.labels)
                if matched != identity.matched:
                    identity.matched = matched
                    stale.add(identity.number)

    def _fold_pods(self, stale: set[int]) -> None:
        for uid, old in self._dirty_pods.items():
            pod = self._pods.get(uid)
            if old is not None:
                self._addresses.release(old)
            before = self._identity_of.pop(uid, None)
            self._dns_pods.pop(uid, None)
            if pod is not None and pod.resolves and pod.ips:
                identity, fresh = self._identities.take(
                    pod.namespace,
                    self._namespace_labels(pod.namespace),
                    pod.labels,
                    self._selectors,
                )
                self._identity_of[uid] = identity
                if fresh:
                    stale.add(identity.number)
                if is_cluster_resolver(pod):
                    self._dns_pods[uid] = pod
                self._addresses.claim(pod)
            if before is not None and self._identities.drop(before):
                stale.discard(before.number)
                self._profiles.pop(before.number, None)
        self._addresses.settle(lambda pod: self._identity_of[pod.uid].number)

    def _fold_profiles(self, stale: set[int]) -> None:
        for number in stale:
            identity = self._identities.by_number.get(number)
            if identity is None:
                self._profiles.pop(number, None)
                continue
            group = self._groups.get(identity.matched)
            if group is None:
                group = self._groups[identity.matched] = self._next_group
                self._next_group += 1
            policies = [
                self._in_force[policy_id]
                for selector in identity.matched
                for policy_id in self._by_subject.get(selector, ())
            ]
            tiers = [p.tier for p in policies if isinstance(p, ClusterNetworkPolicy)]
            self._profiles[number] = Profile(
                self._chains_of(policies, Direction.EGRESS),
                self._chains_of(policies, Direction.INGRESS),
                group,
                tuple(sorted(identity.matched)),
                tiers.count(Tier.ADMIN),
                tiers.count(Tier.BASELINE),
            )

    def _chains_of(
        self, selecting: list[Policy], direction: Direction
    ) -> tuple[tuple[Tier, Chain], ...]:
        tiers: dict[Tier, list[Policy]] = {}
        for policy in selecting:
            if isinstance(policy, ClusterNetworkPolicy):
                if policy.rules[direction]:
                    tiers.setdefault(policy.tier, []).append(policy)
            elif policy.rules[direction] is not None:
                tiers.setdefault(Tier.NETWORK_POLICY, []).append(policy)
        chains: list[tuple[Tier, Chain]] = []
        for tier in sorted(tiers):
            policies = sorted(tiers[tier], key=evaluation_order)
            key = (tier, direction, tuple(id_of(p) for p in policies))
            compiled = self._chains.get(key)
            if compiled is None:
                compiled = self._compiler.compile(tuple(policies), tier, direction)
                self._chains[key] = compiled
            chains.append((tier, compiled))
        return tuple(chains)

    def _prune_chains(self, *, policies_changed: bool) -> None:
        """Drop chains and groups nobody has any more, now and then (memory stays bounded)."""
        crowded = len(self._groups) > 2 * len(self._profiles) + 1024
        if not (policies_changed or crowded):
            return
        used = {
            id(compiled)
            for profile in self._profiles.values()
            for _, compiled in concatenate(profile.egress, profile.ingress)
        }
        self._chains = {k: c for k, c in self._chains.items() if id(c) in used}
        live = {identity.matched for identity in self._identities.by_number.values()}
        self._groups = {m: n for m, n in self._groups.items() if m in live}

    def _build(self, last: Snapshot | None, *, pods: bool, policies: bool) -> Snapshot:
        """A snapshot that shares with the last one every map that did not change."""
        first = last is None
        base = EMPTY if last is None else last
        nodes = first or self._dirty_nodes
        services = first or self._dirty_services
        pods = first or pods
        policies = first or policies
        if nodes:
            self._node_ends = node_ends(self._nodes)
            self._node_addresses = node_addresses(self._nodes, self._node_selectors)
            self._every_node_address = frozenset(
                address for node in self._nodes.values() for address in node.all_ips
            )
            self._network_bounds = network_bounds(self._nodes)
        if policies:
            self._patterns = name_patterns(self._cluster_policies.values())
        if pods or services:
            self._cluster_resolvers = cluster_resolvers(
                self._dns_pods.values(), self._services, self._addresses.owner
            )
        clashes = self._addresses.clashes
        return Snapshot(
            generation=self._generation,
            pods=dict(self._pods) if pods else base.pods,
            pod_keys=dict(self._pod_keys) if pods else base.pod_keys,
            namespaces=dict(self._namespaces),
            nodes=dict(self._nodes) if nodes else base.nodes,
            services=dict(self._services) if services else base.services,
            cluster_policies=dict(self._cluster_policies) if policies else base.cluster_policies,
            network_policies=dict(self._network_policies) if policies else base.network_policies,
            endpoints=dict(self._addresses.endpoints) if pods else base.endpoints,
            profiles=dict(self._profiles),
            node_ends=self._node_ends,
            node_addresses=self._node_addresses,
            every_node_address=self._every_node_address,
            service_ends=service_ends(self._services) if services else base.service_ends,
            network_bounds=self._network_bounds,
            patterns=self._patterns,
            cluster_resolvers=self._cluster_resolvers,
            warnings=tuple(clashes[a] for a in sorted(clashes)),
        )

    def _policy(self, policy_id: str) -> Policy | None:
        kind, key = policy_id.split(":", 1)
        return self._cluster_policies.get(key) if kind == "c" else self._network_policies.get(key)

    def _namespace_labels(self, name: str) -> Mapping[str, str]:
        namespace = self._namespaces.get(name)
        if namespace is None:
            return {NAMESPACE_NAME_LABEL: name}
        if namespace.labels.get(NAMESPACE_NAME_LABEL) == name:
            return namespace.labels
        return {**namespace.labels, NAMESPACE_NAME_LABEL: name}


def _put(table: dict[str, T], key: str, obj: T, *, gone: bool) -> None:
    if gone:
        table.pop(key, None)
    else:
        table[key] = obj
