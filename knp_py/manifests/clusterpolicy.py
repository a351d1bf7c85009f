"""ClusterNetworkPolicy ``policy.networking.k8s.io/v1alpha2``, experimental channel.

Every validation of the CRD is here. What semantics §4 fails closed on (a peer, protocol
or port of unknown fields, an unknown action, names outside Accept) is kept and warned of.
"""

from knp_py.manifests.fields import WIDER, Fields, as_object, one_of, unknown_field
from knp_py.manifests.metadata import Metadata
from knp_py.manifests.problems import did_you_mean, quote
from knp_py.manifests.selectors import read_selector
from knp_py.manifests.syntax import PROTOCOLS, bad_domain, read_cidr
from knp_py.model.net import is_v4, parse_address
from knp_py.model.policy import (
    Action,
    ClusterNetworkPolicy,
    ClusterRule,
    DomainPeer,
    NamedPort,
    NetworkPeer,
    NodePeer,
    Peer,
    PodPeer,
    Port,
    PortRange,
    Tier,
    UnknownPeer,
    UnknownPort,
)
from knp_py.model.selectors import EVERYTHING

MOST = 25  # rules, peers, protocols, networks and names (maxItems of the CRD)
_TIERS = {"Admin": Tier.ADMIN, "Baseline": Tier.BASELINE}
ACTIONS = {"Accept": Action.ACCEPT, "Deny": Action.DENY, "Pass": Action.PASS}
_PEERS = {
    "from": ("namespaces", "pods"),
    "to": ("namespaces", "pods", "networks", "nodes", "domainNames"),
}
_SELECTOR_FIELDS = {
    "namespaces": ("matchLabels", "matchExpressions"),
    "pods": ("namespaceSelector", "podSelector"),
}
# Peers that are addresses: they have no named ports.
ADDRESS_PEERS = (NetworkPeer, NodePeer, DomainPeer)


def read_cluster_policy(document: Fields, metadata: Metadata) -> ClusterNetworkPolicy | None:
    """The policy; what is wrong with it is in the report."""
    document.warn_unknown(("apiVersion", "kind", "metadata", "spec", "status"))
    spec = document.mapping("spec")
    if spec is None:
        if not document.has("spec"):
            document.missing("spec", "an object with tier, priority and subject")
        return None
    spec.warn_unknown(("tier", "priority", "subject", "ingress", "egress"))
    if not spec.has("tier"):
        spec.missing("tier", one_of(_TIERS))
    if not spec.has("priority"):
        spec.missing("priority", "a number from 0 to 1000")
    return ClusterNetworkPolicy(
        name=metadata.name,
        tier=spec.word("tier", _TIERS) or Tier.ADMIN,
        priority=spec.number("priority", 0, 1000) or 0,
        subject=read_subject(spec),
        rules=(_read_rules(spec, "egress", "to"), _read_rules(spec, "ingress", "from")),
        origin=document.report.origin,
    )


def read_subject(spec: Fields, *, both_selectors: bool = False) -> PodPeer:
    """``subject``: exactly one of ``namespaces`` and ``pods``."""
    subject = spec.mapping("subject")
    known = ("namespaces", "pods")
    if subject is None:
        if not spec.has("subject"):
            spec.missing("subject", "an object with namespaces or pods")
        return PodPeer()
    subject.warn_unknown(known)
    present = [field for field in known if subject.has(field)]
    if len(present) != 1:
        found = "both" if present else "neither"
        spec.error("subject", f"found {found} of namespaces and pods, expected exactly one")
        return PodPeer()
    return read_pod_peer(subject, present[0], both_selectors=both_selectors)


def read_pod_peer(peer: Fields, key: str, *, both_selectors: bool = False) -> PodPeer:
    """A ``namespaces`` selector, or ``pods`` with ``podSelector`` and ``namespaceSelector``.

    ``both_selectors``: v1alpha1 requires both; v1alpha2 takes a missing
    ``namespaceSelector`` for the empty one.
    """
    fields = peer.mapping(key)
    if fields is None:
        return PodPeer()
    if key == "namespaces":
        return PodPeer(namespaces=read_selector(fields))
    fields.warn_unknown(("namespaceSelector", "podSelector"), WIDER)
    if not fields.has("podSelector"):
        fields.missing("podSelector", "a label selector ({} selects every pod)")
    if both_selectors and not fields.has("namespaceSelector"):
        fields.missing("namespaceSelector", "a label selector ({} selects every namespace)")
    namespaces = fields.mapping("namespaceSelector")
    pods = fields.mapping("podSelector")
    return PodPeer(
        namespaces=EVERYTHING if namespaces is None else read_selector(namespaces),
        pods=EVERYTHING if pods is None else read_selector(pods),
    )


def _read_rules(spec: Fields, section: str, side: str) -> tuple[ClusterRule, ...]:
    rules: list[ClusterRule] = []
    for path, item in spec.array(section, most=MOST) or ():
        rule = as_object(spec.report, path, item)
        if rule is not None:
            rules.append(_read_rule(rule, side))
    return tuple(rules)


def _read_rule(rule: Fields, side: str) -> ClusterRule:
    rule.warn_unknown(("name", "action", side, "protocols"), WIDER)
    action, action_text = read_action(rule, ACTIONS)
    name = read_rule_name(rule)
    if not rule.has(side):
        rule.missing(side, "a list of at least one peer")
    effect = fail_closed(action)
    peers = [
        read_peer(rule, path, item, _PEERS[side], effect)
        for path, item in rule.array(side, least=1, most=MOST) or ()
    ]
    ports: list[Port] | None = None
    entries = rule.array("protocols", least=1, most=MOST)
    if entries is not None:
        ports = [_read_protocol(rule, path, item, effect) for path, item in entries]
    if any(isinstance(peer, ADDRESS_PEERS) for peer in peers) and any(
        isinstance(port, NamedPort) for port in ports or ()
    ):
        rule.error(
            "protocols",
            "found destinationNamedPort beside a networks, nodes or domainNames peer, "
            "which has no named ports",
        )
    if action is not Action.ACCEPT and any(isinstance(peer, DomainPeer) for peer in peers):
        rule.warn(side, f"domainNames is for Accept rules only: the rule {effect}")
    return ClusterRule(
        action=action,
        peers=tuple(peers),
        ports=None if ports is None else tuple(ports),
        name=name,
        action_text=action_text,
    )


def read_action(rule: Fields, actions: dict[str, Action]) -> tuple[Action, str]:
    """The action, and its text if it is unknown (which denies, semantics §4)."""
    if not rule.has("action"):
        rule.missing("action", one_of(actions))
        return Action.UNKNOWN, ""
    text = rule.text("action")
    if text is None:
        return Action.UNKNOWN, ""
    if text in actions:
        return actions[text], ""
    rule.warn(
        "action",
        f"unknown action {quote(text)}: the rule denies; "
        f"expected {one_of(actions)}{did_you_mean(text, actions)}",
    )
    return Action.UNKNOWN, text


def read_rule_name(rule: Fields) -> str:
    """The rule's name; at most 100 characters."""
    name = rule.text("name") or ""
    if len(name) > 100:
        rule.error("name", f"found {len(name)} characters, expected at most 100")
    return name


def fail_closed(action: Action) -> str:
    """What an unknown peer or port makes of a rule, for the warning."""
    return "matches nothing" if action is Action.ACCEPT else "denies everything"


def read_peer(
    rule: Fields,
    path: str,
    item: object,
    known: tuple[str, ...],
    effect: str,
    *,
    both_selectors: bool = False,
) -> Peer:
    """One peer: exactly one field. Any unknown field makes it unknown."""
    peer = as_object(rule.report, path, item)
    if peer is None:
        return UnknownPeer()
    fields = peer.unknown(known)
    present = [field for field in known if peer.has(field)]
    if fields or not present:
        rule.report.warn(path, unknown_field("peer", f"the rule {effect}", fields, known))
        return UnknownPeer(fields)
    if len(present) > 1:
        rule.report.error(path, f"found {' and '.join(present)}, expected exactly one field")
    key = present[0]
    if both_selectors and key in _SELECTOR_FIELDS:
        older = _older_fields(peer, key)
        if older:
            known = _SELECTOR_FIELDS[key]
            where = peer.at(key)
            rule.report.warn(where, unknown_field(key, f"the rule {effect}", older, known))
            return UnknownPeer(older)
    match key:
        case "namespaces" | "pods":
            return read_pod_peer(peer, key, both_selectors=both_selectors)
        case "nodes":
            nodes = peer.mapping(key)
            return UnknownPeer() if nodes is None else NodePeer(read_selector(nodes))
        case "networks":
            return _read_networks(peer)
        case _:
            return _read_domains(peer)


def _older_fields(peer: Fields, key: str) -> tuple[str, ...]:
    """Fields of a v1alpha1 selector that only older releases knew (``sameLabels``).

    Left out, they would leave a selector that matches more than its author meant.
    """
    fields = peer.data.get(key)
    return (
        tuple(name for name in fields if name not in _SELECTOR_FIELDS[key])
        if isinstance(fields, dict)
        else ()
    )


def _read_networks(peer: Fields) -> Peer:
    cidrs = []
    for path, text in peer.texts("networks", least=1, most=MOST, unique=True) or ():
        cidr = read_cidr(peer.report, path, text)
        if cidr is None:
            continue
        # isCIDR of the CRD refuses IPv4-mapped IPv6; maxLength is 43.
        if ":" in text and is_v4(parse_address(text.partition("/")[0])):
            peer.report.error(path, f"found {text}, expected IPv4 written as IPv4")
        elif len(text) > 43:
            peer.report.error(path, f"found {len(text)} characters, expected at most 43")
        cidrs.append(cidr)
    return NetworkPeer(tuple(cidrs))


def _read_domains(peer: Fields) -> Peer:
    names = []
    for path, text in peer.texts("domainNames", least=1, most=MOST, unique=True) or ():
        complaint = bad_domain(text)
        if complaint:
            peer.report.error(path, f"found {quote(text)}, expected {complaint}")
        names.append(text)
    return DomainPeer(tuple(names))


def _read_protocol(rule: Fields, path: str, item: object, effect: str) -> Port:
    entry = as_object(rule.report, path, item)
    if entry is None:
        return UnknownPort()
    known = ("tcp", "udp", "sctp", "destinationNamedPort")
    fields = entry.unknown(known)
    present = [field for field in known if entry.has(field)]
    if fields or not present:
        rule.report.warn(path, unknown_field("protocol", f"the rule {effect}", fields, known))
        return UnknownPort(fields)
    if len(present) > 1:
        rule.report.error(path, f"found {' and '.join(present)}, expected exactly one field")
    key = present[0]
    if key == "destinationNamedPort":
        return NamedPort(entry.text(key) or "")
    protocol = PROTOCOLS[key.upper()]
    match_ = entry.mapping(key)
    if match_ is None:
        return UnknownPort()
    fields = match_.unknown(("destinationPort",))
    if fields:
        rule.report.warn(
            match_.path, unknown_field("match", f"the rule {effect}", fields, ("destinationPort",))
        )
        return UnknownPort(fields)
    if not match_.has("destinationPort"):
        rule.report.warn(
            match_.path,
            f"empty, taken as every {key.upper()} port; the API server would refuse it",
        )
        return PortRange(protocol)
    return _read_destination_port(match_, protocol, effect)


def _read_destination_port(match_: Fields, protocol: int, effect: str) -> Port:
    port = match_.mapping("destinationPort")
    if port is None:
        return UnknownPort()
    known = ("number", "range")
    fields = port.unknown(known)
    present = [field for field in known if port.has(field)]
    if fields or not present:
        port.report.warn(port.path, unknown_field("port", f"the rule {effect}", fields, known))
        return UnknownPort(fields)
    if len(present) > 1:
        port.report.error(port.path, "found number and range, expected exactly one field")
    if present[0] == "number":
        number = port.number("number", 1, 65535) or 0
        return PortRange(protocol, number, number)
    limits = port.mapping("range")
    if limits is None:
        return UnknownPort()
    limits.warn_unknown(("start", "end"))
    first, last = read_range(limits)
    return PortRange(protocol, first, last)


def read_range(limits: Fields) -> tuple[int, int]:
    """``start`` and ``end``, both required, start below end."""
    for key in ("start", "end"):
        if not limits.has(key):
            limits.missing(key, "a number from 1 to 65535")
    first, last = limits.number("start", 1, 65535), limits.number("end", 1, 65535)
    if first is not None and last is not None and first >= last:
        limits.error("end", f"found {last}, expected more than start, which is {first}")
    return first or 0, last or 0
