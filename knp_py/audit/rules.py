"""What is wrong with a policy taken by itself: parts that fail closed, rules without effect."""

from collections.abc import Callable, Iterator, Sequence

from knp_py.audit.cells import Rule
from knp_py.audit.findings import (
    Collector,
    listing,
    peer_path,
    port_path,
    rule_path,
    subject_path,
)
from knp_py.audit.view import View
from knp_py.engine.patterns import canonical_pattern
from knp_py.engine.policies import subject_of
from knp_py.manifests.fields import one_of
from knp_py.manifests.problems import did_you_mean
from knp_py.model.policy import (
    Action,
    ClusterNetworkPolicy,
    ClusterRule,
    Direction,
    DomainPeer,
    NetworkPeer,
    NetworkPolicy,
    NodePeer,
    Peer,
    PodPeer,
    Policy,
    UnknownPeer,
    UnknownPort,
)

_FIELDS: dict[type[object], str] = {
    NetworkPeer: "networks",
    NodePeer: "nodes",
    DomainPeer: "domainNames",
}
_POD_PEERS = ("namespaces", "pods")
_NETWORK_POLICY_PEERS = ("podSelector", "namespaceSelector", "ipBlock")
_PROTOCOLS = ("tcp", "udp", "sctp", "destinationNamedPort")
_PORTS = ("protocol", "port", "endPort")


def numbered_rules(policy: Policy) -> Iterator[tuple[Direction, int, Rule]]:
    """Every rule with its direction and number."""
    for direction in Direction:
        rules: Sequence[Rule] = policy.rules[direction] or ()
        for number, rule in enumerate(rules):
            yield direction, number, rule


def check(view: View, found: Collector) -> None:
    """Every policy by itself."""
    for policy in view.policies:
        if isinstance(policy, ClusterNetworkPolicy):
            _check_cluster_policy(policy, found)
        else:
            _check_inert(policy, found)
        for direction, number, rule in numbered_rules(policy):
            _check_closed(policy, direction, number, rule, found)
        _check_possible(view, policy, found)


def _check_cluster_policy(policy: ClusterNetworkPolicy, found: Collector) -> None:
    if not any(policy.rules):
        found.about(
            "no-rules",
            policy,
            "spec",
            "has neither ingress nor egress rules: it does nothing, and isolates nothing",
            "add rules; to deny everything a ClusterNetworkPolicy needs Deny rules that say so",
        )
    if policy.kind != "ClusterNetworkPolicy":
        found.about(
            "old-api",
            policy,
            "kind",
            f"{policy.kind} is an older API; newer implementations read ClusterNetworkPolicy only",
            "write it as a ClusterNetworkPolicy of policy.networking.k8s.io/v1alpha2",
        )
    for direction in Direction:
        seen: dict[str, int] = {}
        for number, rule in enumerate(policy.rules[direction]):
            if rule.name and seen.setdefault(rule.name, number) != number:
                found.about(
                    "duplicate-rule-name",
                    policy,
                    f"{rule_path(direction, number)}.name",
                    f"{rule.name!r} is also the name of rule {seen[rule.name]}: "
                    "verdict logs cannot tell them apart",
                    "give each rule a name of its own",
                )


def _check_inert(policy: NetworkPolicy, found: Collector) -> None:
    for direction in policy.inert:
        word = "Ingress" if direction is Direction.INGRESS else "Egress"
        found.about(
            "inert-rules",
            policy,
            f"spec.{direction.text}",
            f"has rules, but policyTypes does not list {word}: they do nothing, and "
            f"{direction.text} stays open unless another policy isolates it",
            f"add {word} to policyTypes, or delete the rules",
        )


def _check_closed(
    policy: Policy, direction: Direction, number: int, rule: Rule, found: Collector
) -> None:
    """Semantics §4: what this version does not know closes the rule."""
    denies = isinstance(rule, ClusterRule) and rule.action is not Action.ACCEPT
    effect = "the rule denies everything" if denies else "the rule matches nothing"
    if isinstance(rule, ClusterRule) and rule.action is Action.UNKNOWN:
        found.about(
            "unknown-action",
            policy,
            f"{rule_path(direction, number)}.action",
            f"{rule.action_text!r} is no action: the rule denies what it matches",
            "write Accept, Deny or Pass",
        )
    for index, peer in enumerate(rule.peers or ()):
        path = peer_path(direction, number, index)
        _check_peer(policy, direction, rule, peer, path, effect, found)
    for index, port in enumerate(rule.ports or ()):
        if isinstance(port, UnknownPort):
            known = _PROTOCOLS if isinstance(rule, ClusterRule) else _PORTS
            found.about(
                "unknown-port",
                policy,
                port_path(policy, direction, number, index),
                f"{_has(port.fields)}: {effect}",
                _use(port.fields, known),
            )


def _check_peer(
    policy: Policy,
    direction: Direction,
    rule: Rule,
    peer: Peer,
    path: str,
    effect: str,
    found: Collector,
) -> None:
    if isinstance(peer, UnknownPeer):
        alone = "the peer matches nothing" if isinstance(policy, NetworkPolicy) else effect
        known: tuple[str, ...] = _NETWORK_POLICY_PEERS
        if isinstance(rule, ClusterRule):
            known = _POD_PEERS
            if direction is Direction.EGRESS:
                known = (*_POD_PEERS, *_FIELDS.values())
        has = _has(peer.fields)
        if direction is Direction.INGRESS and set(peer.fields) & set(_FIELDS.values()):
            has = f"{listing(peer.fields)} is no ingress peer"
        found.about("unknown-peer", policy, path, f"{has}: {alone}", _use(peer.fields, known))
        return
    if not isinstance(rule, ClusterRule):
        return
    if direction is Direction.INGRESS and not isinstance(peer, PodPeer):
        found.about(
            "unknown-peer",
            policy,
            path,
            f"{_FIELDS[type(peer)]} is no ingress peer: {effect}",
            "select pods by namespaces or pods",
        )
        return
    if not isinstance(peer, DomainPeer):
        return
    if rule.action is not Action.ACCEPT:
        found.about(
            "names-outside-accept",
            policy,
            f"{path}.domainNames",
            f"names work in Accept rules only; here {effect}",
            "accept the names that are wanted, and deny 0.0.0.0/0 and ::/0 after that",
        )
        return
    for index, name in enumerate(peer.names):
        if canonical_pattern(name) is None:
            found.about(
                "unmatchable-name",
                policy,
                f"{path}.domainNames[{index}]",
                f"{name!r} can be no host's name: nothing is ever learned for it",
                "write letters, digits and hyphens, labels of at most 63, in all at most 253",
            )


def _has(fields: tuple[str, ...]) -> str:
    if not fields:
        return "has no field"
    return f"has {listing(fields)}, which this version does not know"


def _use(fields: tuple[str, ...], known: tuple[str, ...]) -> str:
    hint = next((h for field in fields if (h := did_you_mean(field, known))), "")
    return f"use {one_of(known)}{hint}; or upgrade knp if the API has more by now"


def _check_possible(view: View, policy: Policy, found: Collector) -> None:
    """Selectors that no pod can ever satisfy."""
    possible: Callable[[PodPeer], bool] = view.overlap.possible
    if not possible(subject_of(policy)):
        found.about(
            "impossible-selector",
            policy,
            subject_path(policy),
            "contradicts itself: no pod can have such labels, so the policy never applies",
            "drop one of the requirements that exclude each other",
        )
    for direction, number, rule in numbered_rules(policy):
        for index, peer in enumerate(rule.peers or ()):
            if isinstance(peer, PodPeer) and not possible(peer):
                found.about(
                    "impossible-selector",
                    policy,
                    peer_path(direction, number, index),
                    "contradicts itself: no pod can have such labels, so it matches nothing",
                    "drop one of the requirements that exclude each other",
                )
