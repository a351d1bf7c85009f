"""Who is selected: policies, peers and port names held against the pods of the input.

Labels that match nothing are the commonest mistake in policies, and the quietest. When the
input has no pod in the namespaces concerned it says nothing about them, and nor do we.
"""

from collections.abc import Iterator
from typing import NamedTuple

from knp_py.audit.cells import Rule
from knp_py.audit.findings import (
    Collector,
    Severity,
    listing,
    peer_path,
    port_path,
    subject_path,
)
from knp_py.audit.overlap import names_in
from knp_py.audit.rules import numbered_rules
from knp_py.audit.view import View
from knp_py.engine.identities import Identity
from knp_py.engine.policies import subject_of
from knp_py.manifests.problems import did_you_mean
from knp_py.model.packet import protocol_name
from knp_py.model.policy import (
    ClusterNetworkPolicy,
    Direction,
    NamedPort,
    NodePeer,
    PodPeer,
    Policy,
)
from knp_py.model.selectors import LabelSelector

# Namespaces that every cluster has and few manifest directories declare.
_EVERYWHERE = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


def check(view: View, found: Collector) -> None:
    """Every policy against the input's pods, nodes and namespaces."""
    for policy in view.policies:
        if view.all_pods:
            _check_subject(view, policy, found)
            _check_peers(view, policy, found)
            _check_named_ports(view, policy, found)
        if view.nodes:
            _check_nodes(view, policy, found)
        _check_namespaces(view, policy, found)
        _check_own_namespace(view, policy, found)
    if not view.all_pods and view.policies:
        found.overall(
            "no-pods",
            "no pods in the input: what policies and peers select was not checked",
            "lint the workloads too, or all of `kubectl get pods,ns,nodes,svc,netpol,"
            "clusternetworkpolicies -A -o json`",
        )


# -- subjects -------------------------------------------------------------------------------


def _check_subject(view: View, policy: Policy, found: Collector) -> None:
    subject = subject_of(policy)
    if not view.overlap.possible(subject):
        return
    hosts, live = _count(view, subject)
    if hosts:
        _report_hosts(policy, hosts, live, found)
        return
    lack = None if live else _lack(view, subject, subject=True)
    if lack is not None:
        found.about(
            "selects-nothing",
            policy,
            subject_path(policy),
            f"selects no pod: the policy does nothing; {lack.why}",
            "compare the selector with the labels of the pods and namespaces",
            lack.severity,
        )


def _count(view: View, peer: PodPeer) -> tuple[list[str], int]:
    """Host-network pods that it selects, by key, and how many others."""
    hosts: list[str] = []
    live = 0
    for identity in view.selected_identities(peer):
        own = [pod.key for pod in view.members(identity) if pod.host_network]
        hosts += own
        live += len(view.members(identity)) - len(own)
    return hosts, live


class _Lack(NamedTuple):
    severity: Severity
    why: str


def _lack(view: View, peer: PodPeer, *, subject: bool) -> _Lack | None:
    """Why a selector that selects no pod of the input is likely a mistake; None if it is not."""
    if view.could_select(peer):
        return _Lack(Severity.WARNING, f"{_where(view, peer)} {_nearest_label(view, peer)}")
    if peer.namespace is not None or not view.namespaces:
        return None
    homes = [n for n in view.namespaces if peer.namespaces.matches(view.labels_of(n))]
    if homes:
        # Some other input may have their pods, unless this is a whole cluster.
        why = f"there are none in {_named(homes)}"
        return _Lack(Severity.INFO, why) if view.whole else None
    if (view.whole or subject) and not names_in(peer.namespaces):
        return _Lack(Severity.WARNING, "no namespace of the input has such labels")
    return None


def _report_hosts(policy: Policy, hosts: list[str], live: int, found: Collector) -> None:
    pods = listing(sorted(hosts), 2)
    if live:
        found.about(
            "host-network-subject",
            policy,
            subject_path(policy),
            f"selects host-network pods too ({pods}): policy has no effect on those",
            "nothing, if that is known; a host-network pod is guarded by its node's firewall",
            Severity.INFO,
        )
        return
    found.about(
        "host-network-subject",
        policy,
        subject_path(policy),
        f"selects host-network pods only ({pods}): policy has no effect on them",
        "take the pods off the host network, or guard the node by other means",
    )


def _where(view: View, peer: PodPeer) -> str:
    if peer.namespace is not None:
        return f"in namespace {peer.namespace}"
    names = [n for n in view.pod_namespaces if peer.namespaces.matches(view.labels_of(n))]
    return f"in {_named(names)}"


def _named(namespaces: list[str]) -> str:
    word = "namespace" if len(namespaces) == 1 else "namespaces"
    return f"{word} {listing(sorted(namespaces))}"


def _nearest_label(view: View, peer: PodPeer) -> str:
    """What of the selector no pod in reach has, and what was perhaps meant."""
    have: dict[str, set[str]] = {}
    for identity in view.identities():
        in_reach = (
            identity.namespace == peer.namespace
            if peer.namespace is not None
            else peer.namespaces.matches(view.labels_of(identity.namespace))
        )
        if in_reach:
            for pod in view.members(identity)[:1]:
                for key, value in pod.labels.items():
                    have.setdefault(key, set()).add(value)
    for key, value in peer.pods.match_labels:
        if key not in have:
            return f"no pod has the label {key}{did_you_mean(key, sorted(have))}"
        if value not in have[key]:
            return f"no pod has {key}={value}{did_you_mean(value, sorted(have[key]))}"
    return "no pod has all of these labels"


# -- peers ----------------------------------------------------------------------------------


def _check_peers(view: View, policy: Policy, found: Collector) -> None:
    for direction, number, rule in numbered_rules(policy):
        for index, peer in enumerate(rule.peers or ()):
            if isinstance(peer, PodPeer) and view.overlap.possible(peer):
                _check_peer(view, policy, peer, peer_path(direction, number, index), found)


def _check_peer(view: View, policy: Policy, peer: PodPeer, path: str, found: Collector) -> None:
    hosts, live = _count(view, peer)
    if live:
        return
    if hosts:
        found.about(
            "peer-matches-nothing",
            policy,
            path,
            f"matches host-network pods only ({listing(sorted(hosts), 2)}), which to policy are "
            "no pods but their node",
            "allow the nodes' addresses by networks or ipBlock",
        )
        return
    lack = _lack(view, peer, subject=False)
    if lack is not None:
        found.about(
            "peer-matches-nothing",
            policy,
            path,
            f"matches no pod; {lack.why}",
            "compare the selector with the labels of the pods and namespaces",
            lack.severity,
        )


def _check_nodes(view: View, policy: Policy, found: Collector) -> None:
    for direction, number, rule in numbered_rules(policy):
        for index, peer in enumerate(rule.peers or ()):
            if isinstance(peer, NodePeer) and not any(
                peer.nodes.matches(node.labels) for node in view.nodes
            ):
                found.about(
                    "peer-matches-nothing",
                    policy,
                    peer_path(direction, number, index),
                    "matches none of the input's nodes",
                    "compare the selector with the labels of the nodes",
                )


def _check_namespaces(view: View, policy: Policy, found: Collector) -> None:
    """Namespaces asked for by name that are a slip, or missing from a whole cluster."""
    if not view.namespaces:
        return
    known = {*view.namespaces, *view.pod_namespaces, *_EVERYWHERE}
    known.update(other.namespace for other in view.network)
    for path, selector in _namespace_selectors(policy):
        for name in names_in(selector):
            if name in known:
                continue
            hint = _meant(name, known)
            if hint or view.whole:
                found.about(
                    "unknown-namespace",
                    policy,
                    path,
                    f"asks for namespace {name}, which the input does not have{hint}",
                    "correct the name, or add the namespace to the input",
                    severity=Severity.WARNING if hint else None,
                )


def _check_own_namespace(view: View, policy: Policy, found: Collector) -> None:
    """The namespace that a NetworkPolicy is in: by a slip it guards nobody, and all is open."""
    if isinstance(policy, ClusterNetworkPolicy) or not (view.namespaces or view.all_pods):
        return
    name = policy.namespace
    # Not those of other policies: a slip is easily made in all of a file.
    known = {*view.namespaces, *view.pod_namespaces, *_EVERYWHERE}
    known.update(service.namespace for service in view.services)
    if name in known:
        return
    hint = _meant(name, known)
    # A directory of manifests often has a few namespaces of many.
    likely = bool(hint or view.whole)
    found.about(
        "unknown-namespace",
        policy,
        "metadata.namespace",
        f"is in namespace {name}, which the input does not have{hint}",
        "correct the name, or add the namespace to the input",
        Severity.WARNING if likely else None,
    )


def _meant(name: str, known: set[str]) -> str:
    """``, did you mean 'x'?`` for a name that is likely a slip."""
    # team-a and team-b are two namespaces, not one and a slip.
    alike = [n for n in sorted(known) if n.rpartition("-")[0] != name.rpartition("-")[0]]
    alike += [n for n in sorted(known) if "-" not in n and "-" not in name]
    return did_you_mean(name, alike)


def _namespace_selectors(policy: Policy) -> Iterator[tuple[str, LabelSelector]]:
    if isinstance(policy, ClusterNetworkPolicy):
        yield subject_path(policy), policy.subject.namespaces
    for direction, number, rule in numbered_rules(policy):
        for index, peer in enumerate(rule.peers or ()):
            if isinstance(peer, PodPeer) and peer.namespace is None:
                yield peer_path(direction, number, index), peer.namespaces


# -- port names -----------------------------------------------------------------------------


def _check_named_ports(view: View, policy: Policy, found: Collector) -> None:
    for direction, number, rule in numbered_rules(policy):
        names = [
            (index, port)
            for index, port in enumerate(rule.ports or ())
            if isinstance(port, NamedPort)
        ]
        if not names:
            continue
        known = False
        have: set[tuple[str, int]] = set()  # names and protocols of the destinations' ports
        for identity in _destinations(view, policy, direction, rule):
            known = True
            have |= view.port_names(identity)
        for index, port in names:
            wanted = {p for name, p in have if name == port.name}
            if not known or (wanted if port.protocol is None else port.protocol in wanted):
                continue
            found.about(
                "named-port-nowhere",
                policy,
                port_path(policy, direction, number, index),
                f"{_nowhere(port, wanted)}{did_you_mean(port.name, sorted({n for n, _ in have}))}",
                "use a name that the pods' containers declare, or the port's number",
            )


def _nowhere(port: NamedPort, protocols: set[int]) -> str:
    if protocols and port.protocol is not None:
        has = listing(protocol_name(p) for p in sorted(protocols))
        return (
            f"the destination pods have a port named {port.name!r} for {has}, "
            f"not for {protocol_name(port.protocol)}: this entry matches nothing"
        )
    return f"no destination pod has a port named {port.name!r}: this entry matches nothing"


def _destinations(
    view: View, policy: Policy, direction: Direction, rule: Rule
) -> Iterator[Identity]:
    """Those whose ports the rule is about."""
    if direction is Direction.INGRESS:
        yield from view.selected_identities(subject_of(policy))
        return
    if rule.peers is None:
        yield from view.identities()
    for peer in rule.peers or ():
        if isinstance(peer, PodPeer):
            yield from view.selected_identities(peer)
