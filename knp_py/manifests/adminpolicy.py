"""AdminNetworkPolicy and BaselineAdminNetworkPolicy ``policy.networking.k8s.io/v1alpha1``.

They are read as the ClusterNetworkPolicies they are equivalent to: Admin tier with the
same priority, Baseline tier with priority 0, ``Allow`` is Accept. What has no equivalent
(the peers of releases before 0.1.2) is kept as unknown, so that it fails closed.

The object's name is ``Kind/name`` ("/" is in no name): an AdminNetworkPolicy and a
ClusterNetworkPolicy of one name are two policies.
"""

from collections.abc import Mapping

from knp_py.manifests.clusterpolicy import (
    ADDRESS_PEERS,
    fail_closed,
    read_action,
    read_peer,
    read_range,
    read_rule_name,
    read_subject,
)
from knp_py.manifests.fields import WIDER, Fields, as_object, unknown_field
from knp_py.manifests.metadata import Metadata
from knp_py.manifests.syntax import PROTOCOLS
from knp_py.model.packet import Proto
from knp_py.model.policy import (
    Action,
    ClusterNetworkPolicy,
    ClusterRule,
    DomainPeer,
    NamedPort,
    Port,
    PortRange,
    Tier,
    UnknownPort,
)

_MOST = 100  # rules, peers and ports
_SELECTORS = ("namespaces", "pods")
_ACTIONS = {
    Tier.ADMIN: {"Allow": Action.ACCEPT, "Deny": Action.DENY, "Pass": Action.PASS},
    Tier.BASELINE: {"Allow": Action.ACCEPT, "Deny": Action.DENY},
}
_PEERS = {
    ("from", Tier.ADMIN): _SELECTORS,
    ("from", Tier.BASELINE): _SELECTORS,
    ("to", Tier.ADMIN): (*_SELECTORS, "nodes", "networks", "domainNames"),
    ("to", Tier.BASELINE): (*_SELECTORS, "nodes", "networks"),
}
_PORTS = ("portNumber", "portRange", "namedPort")


def read_admin_policy(document: Fields, metadata: Metadata) -> ClusterNetworkPolicy | None:
    """An AdminNetworkPolicy as an Admin tier policy."""
    return _read(document, metadata, Tier.ADMIN)


def read_baseline_policy(document: Fields, metadata: Metadata) -> ClusterNetworkPolicy | None:
    """A BaselineAdminNetworkPolicy as a Baseline tier policy."""
    if metadata.name != "default":
        document.error("metadata.name", "expected 'default': there is only one of this kind")
    return _read(document, metadata, Tier.BASELINE)


def _read(document: Fields, metadata: Metadata, tier: Tier) -> ClusterNetworkPolicy | None:
    kind = "AdminNetworkPolicy" if tier is Tier.ADMIN else "BaselineAdminNetworkPolicy"
    document.warn_unknown(("apiVersion", "kind", "metadata", "spec", "status"))
    spec = document.mapping("spec")
    if spec is None:
        if not document.has("spec"):
            document.missing("spec", "an object with a subject")
        return None
    known = ("subject", "ingress", "egress")
    spec.warn_unknown((*known, "priority") if tier is Tier.ADMIN else known)
    if tier is Tier.ADMIN and not spec.has("priority"):
        spec.missing("priority", "a number from 0 to 1000")
    priority = spec.number("priority", 0, 1000) if tier is Tier.ADMIN else 0
    return ClusterNetworkPolicy(
        name=f"{kind}/{metadata.name}",
        tier=tier,
        priority=priority or 0,
        subject=read_subject(spec, both_selectors=True),
        rules=(
            _read_rules(spec, "egress", "to", tier),
            _read_rules(spec, "ingress", "from", tier),
        ),
        kind=kind,
        origin=document.report.origin,
    )


def _read_rules(spec: Fields, section: str, side: str, tier: Tier) -> tuple[ClusterRule, ...]:
    rules: list[ClusterRule] = []
    for path, item in spec.array(section, most=_MOST) or ():
        rule = as_object(spec.report, path, item)
        if rule is not None:
            rules.append(_read_rule(rule, side, tier))
    return tuple(rules)


def _read_rule(rule: Fields, side: str, tier: Tier) -> ClusterRule:
    rule.warn_unknown(("name", "action", side, "ports"), WIDER)
    action, action_text = read_action(rule, _ACTIONS[tier])
    if not rule.has(side):
        rule.missing(side, "a list of at least one peer")
    effect = fail_closed(action)
    peers = [
        read_peer(rule, path, item, _PEERS[side, tier], effect, both_selectors=True)
        for path, item in rule.array(side, least=1, most=_MOST) or ()
    ]
    entries = rule.array("ports", most=_MOST)
    if entries is not None and not entries:
        rule.warn("ports", "an empty list, taken as every protocol and port")
    ports = [_read_port(rule, path, item, effect) for path, item in entries or ()]
    if any(isinstance(peer, ADDRESS_PEERS) for peer in peers) and any(
        isinstance(port, NamedPort) for port in ports
    ):
        rule.error(
            "ports",
            "found namedPort beside a networks, nodes or domainNames peer, "
            "which has no named ports",
        )
    if action is not Action.ACCEPT and any(isinstance(peer, DomainPeer) for peer in peers):
        rule.warn(side, f"domainNames is for Allow rules only: the rule {effect}")
    return ClusterRule(
        action=action,
        peers=tuple(peers),
        ports=tuple(ports) if ports else None,
        name=read_rule_name(rule),
        action_text=action_text,
    )


def _read_port(rule: Fields, path: str, item: object, effect: str) -> Port:
    port = as_object(rule.report, path, item)
    if port is None:
        return UnknownPort()
    fields = port.unknown(_PORTS)
    present = [field for field in _PORTS if port.has(field)]
    if fields or not present:
        rule.report.warn(path, unknown_field("port", f"the rule {effect}", fields, _PORTS))
        return UnknownPort(fields)
    if len(present) > 1:
        rule.report.error(path, f"found {' and '.join(present)}, expected exactly one field")
    key = present[0]
    if key == "namedPort":
        return NamedPort(port.text(key) or "")
    limits = port.mapping(key)
    if limits is None:
        return UnknownPort()
    protocol = _protocol(limits, PROTOCOLS)
    if key == "portRange":
        limits.warn_unknown(("protocol", "start", "end"))
        return PortRange(protocol, *read_range(limits))
    limits.warn_unknown(("protocol", "port"))
    if not limits.has("port"):
        limits.missing("port", "a number from 1 to 65535")
    number = limits.number("port", 1, 65535) or 0
    return PortRange(protocol, number, number)


def _protocol(limits: Fields, words: Mapping[str, int]) -> int:
    """TCP by default."""
    found = limits.word("protocol", words)
    return int(Proto.TCP) if found is None else found
