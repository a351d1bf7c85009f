"""NetworkPolicy ``networking.k8s.io/v1``, with the API server's defaults and validation.

The rules are ``pkg/apis/networking/validation`` and ``defaults`` of Kubernetes, except
where semantics §4 fails closed: a peer or a port with no field known here is kept as
unknown, with a warning.
"""

from knp_py.manifests.fields import WIDER, Fields, as_object, unknown_field
from knp_py.manifests.metadata import Metadata
from knp_py.manifests.problems import did_you_mean, quote, show
from knp_py.manifests.selectors import read_selector
from knp_py.manifests.syntax import PROTOCOLS, bad_port_name, read_cidr
from knp_py.model.net import Cidr
from knp_py.model.packet import Proto
from knp_py.model.policy import (
    Direction,
    NamedPort,
    NetworkPeer,
    NetworkPolicy,
    NetworkRule,
    Peer,
    PodPeer,
    Port,
    PortRange,
    UnknownPeer,
    UnknownPort,
)
from knp_py.model.selectors import EVERYTHING, LabelSelector

Rules = tuple[NetworkRule, ...]

_PEER_FIELDS = ("podSelector", "namespaceSelector", "ipBlock")
_PORT_FIELDS = ("protocol", "port", "endPort")
_SECTIONS = ((Direction.EGRESS, "egress", "to"), (Direction.INGRESS, "ingress", "from"))
_TYPES = {"Ingress": Direction.INGRESS, "Egress": Direction.EGRESS}


def read_network_policy(document: Fields, metadata: Metadata) -> NetworkPolicy | None:
    """The policy; what is wrong with it is in the report."""
    document.warn_unknown(("apiVersion", "kind", "metadata", "spec", "status"))
    spec = document.mapping("spec")
    if spec is None:
        if not document.has("spec"):
            document.missing("spec", "an object with a podSelector")
        return None
    spec.warn_unknown(("podSelector", "policyTypes", "ingress", "egress"))
    pods = spec.mapping("podSelector")
    if "podSelector" not in spec.data:  # null is the empty selector, as the API server has it
        spec.missing("podSelector", "a label selector ({} selects every pod of the namespace)")
    rules = read_network_rules(spec, metadata.namespace)
    types = _policy_types(spec, rules)
    return NetworkPolicy(
        namespace=metadata.namespace,
        name=metadata.name,
        pods=EVERYTHING if pods is None else read_selector(pods),
        rules=(
            rules[Direction.EGRESS] if Direction.EGRESS in types else None,
            rules[Direction.INGRESS] if Direction.INGRESS in types else None,
        ),
        inert=tuple(d for d in Direction if d not in types and rules[d]),
        origin=document.report.origin,
    )


def _policy_types(spec: Fields, rules: tuple[Rules, Rules]) -> set[Direction]:
    """Absent or empty: Ingress, and Egress if there is an egress rule (API default)."""
    given = spec.texts("policyTypes", most=2)
    if not given:
        return {Direction.INGRESS, *([Direction.EGRESS] if rules[Direction.EGRESS] else [])}
    types: set[Direction] = set()
    for path, text in given:
        if text in _TYPES:
            types.add(_TYPES[text])
        else:
            spec.report.error(
                path,
                f"found {quote(text)}, expected Ingress or Egress{did_you_mean(text, _TYPES)}",
            )
    return types


def read_network_rules(spec: Fields, namespace: str) -> tuple[Rules, Rules]:
    """``egress`` and ``ingress`` of a spec, as (egress, ingress); absent is empty."""
    found: list[Rules] = []
    for _, section, side in _SECTIONS:
        rules: list[NetworkRule] = []
        for path, item in spec.array(section) or ():
            rule = as_object(spec.report, path, item)
            if rule is not None:
                rules.append(_read_rule(rule, side, namespace))
        found.append(tuple(rules))
    return found[0], found[1]


def _read_rule(rule: Fields, side: str, namespace: str) -> NetworkRule:
    known = (side, "ports")
    without = rule.data.keys().isdisjoint(known)
    rule.warn_unknown(
        known,
        "it is ignored, which leaves a rule that allows everything" if without else WIDER,
    )
    peers = rule.array(side)
    ports = rule.array("ports")
    return NetworkRule(
        # An empty list is the same as none: every peer, every port (API text).
        peers=tuple(_read_peer(rule, path, item, namespace) for path, item in peers)
        if peers
        else None,
        ports=tuple(_read_port(rule, path, item) for path, item in ports) if ports else None,
    )


def _read_peer(rule: Fields, path: str, item: object, namespace: str) -> Peer:
    peer = as_object(rule.report, path, item)
    if peer is None:
        return UnknownPeer()
    present = [field for field in _PEER_FIELDS if peer.has(field)]
    if not present:
        fields = peer.unknown(_PEER_FIELDS)
        rule.report.warn(path, unknown_field("peer", "it matches nothing", fields, _PEER_FIELDS))
        return UnknownPeer(fields)
    peer.warn_unknown(_PEER_FIELDS, WIDER)
    if "ipBlock" in present:
        if len(present) > 1:
            peer.error("ipBlock", f"stands together with {present[0]}, expected it alone")
        return _read_ip_block(peer)
    pods = _selector(peer, "podSelector")
    namespaces = _selector(peer, "namespaceSelector")
    if namespaces is None:
        return PodPeer(pods=pods or EVERYTHING, namespace=namespace)
    return PodPeer(namespaces=namespaces, pods=pods or EVERYTHING)


def _selector(peer: Fields, key: str) -> LabelSelector | None:
    fields = peer.mapping(key)
    return None if fields is None else read_selector(fields)


def _read_ip_block(peer: Fields) -> Peer:
    block = peer.mapping("ipBlock")
    if block is None:
        return UnknownPeer()
    block.warn_unknown(("cidr", "except"), WIDER)
    text = block.text("cidr")
    if not block.data.get("cidr"):
        block.missing("cidr", "a CIDR such as 10.0.0.0/8")
    cidr = read_cidr(block.report, block.at("cidr"), text, sloppy=True) if text else None
    excepts: list[Cidr] = []
    for path, hole_text in block.texts("except") or ():
        hole = read_cidr(block.report, path, hole_text, sloppy=True)
        if hole is None or cidr is None:
            continue
        if not _strictly_inside(hole, cidr):
            block.report.error(
                path, f"found {hole_text}, expected a network inside {cidr.text} and smaller"
            )
        excepts.append(hole)
    return NetworkPeer((cidr,) if cidr else (), tuple(excepts))


def _strictly_inside(hole: Cidr, cidr: Cidr) -> bool:
    """The API's "strict subset": the same family, inside, and not all of it."""
    first, last = hole.ranges[0][0], hole.ranges[-1][1]
    return (
        (":" in hole.text) == (":" in cidr.text)
        and cidr.ranges[0][0] <= first
        and last <= cidr.ranges[-1][1]
        and hole.ranges != cidr.ranges
    )


def _read_port(rule: Fields, path: str, item: object) -> Port:
    port = as_object(rule.report, path, item)
    if port is None:
        return UnknownPort()
    fields = port.unknown(_PORT_FIELDS)
    if fields and len(fields) == len(port.data):
        rule.report.warn(path, unknown_field("port", "it matches nothing", fields, _PORT_FIELDS))
        return UnknownPort(fields)
    port.warn_unknown(_PORT_FIELDS)
    protocol = port.word("protocol", PROTOCOLS) if port.has("protocol") else int(Proto.TCP)
    protocol = int(Proto.TCP) if protocol is None else protocol
    number = port.data.get("port")
    if number is None:
        if port.has("endPort"):
            port.error("endPort", "stands without port, expected a port number beside it")
        return PortRange(protocol)
    if isinstance(number, str):
        complaint = bad_port_name(number)
        if complaint:
            port.error("port", f"found {quote(number)}, expected {complaint}")
        if port.has("endPort"):
            port.error("endPort", f"stands with the named port {quote(number)}, expected none")
        return NamedPort(number, protocol)
    if isinstance(number, (dict, list, bool)):
        port.error("port", f"found {show(number)}, expected a port number or a port name")
        return PortRange(protocol)
    first = port.number("port", 1, 65535)
    last = port.number("endPort", 1, 65535)
    if first is not None and last is not None and last < first:
        port.error("endPort", f"found {last}, expected at least port, which is {first}")
    first = first or 0
    return PortRange(protocol, first, first if last is None else last)
