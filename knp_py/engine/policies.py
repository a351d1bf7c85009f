"""Questions about a policy that do not depend on a cluster."""

from collections.abc import Iterable, Iterator

from knp_py.engine.patterns import canonical_pattern
from knp_py.model.policy import (
    Action,
    ClusterNetworkPolicy,
    Direction,
    DomainPeer,
    NodePeer,
    Peer,
    PodPeer,
    Policy,
)
from knp_py.model.selectors import LabelSelector


def id_of(policy: Policy) -> str:
    """A key that no other policy of either kind has."""
    return f"c:{policy.name}" if isinstance(policy, ClusterNetworkPolicy) else f"n:{policy.key}"


def evaluation_order(policy: Policy) -> tuple[int, str]:
    """Priority, ties by name: the API leaves ties open, we are deterministic (semantics §3)."""
    if isinstance(policy, ClusterNetworkPolicy):
        return (policy.priority, policy.name)
    return (0, policy.key)


def subject_of(policy: Policy) -> PodPeer:
    """What selects the policy's pods, as a peer."""
    if isinstance(policy, ClusterNetworkPolicy):
        return policy.subject
    return PodPeer(pods=policy.pods, namespace=policy.namespace)


def peers_of(policy: Policy) -> Iterator[Peer]:
    """Every peer of every rule, both directions."""
    for rules in policy.rules:
        for rule in rules or ():
            yield from rule.peers or ()


def pod_selectors(policy: Policy) -> list[PodPeer]:
    """The subject and every pod peer: what is numbered while the policy is in force."""
    return [subject_of(policy), *(p for p in peers_of(policy) if isinstance(p, PodPeer))]


def node_selectors(policy: Policy) -> list[LabelSelector]:
    """The selectors of its ``nodes`` peers."""
    return [p.nodes for p in peers_of(policy) if isinstance(p, NodePeer)]


def name_patterns(policies: Iterable[ClusterNetworkPolicy]) -> frozenset[str]:
    """Every ``domainNames`` entry that can open anything, as it compares (semantics §6)."""
    written = (
        name
        for policy in policies
        for rule in policy.rules[Direction.EGRESS]
        if rule.action is Action.ACCEPT
        for peer in rule.peers
        if isinstance(peer, DomainPeer)
        for name in peer.names
    )
    return frozenset(p for p in map(canonical_pattern, written) if p is not None)
