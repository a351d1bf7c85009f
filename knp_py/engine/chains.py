"""One tier of one subject in one direction, compiled so that cost hardly grows with rules.

Every rule is one bit; the first rule is the lowest bit. For each thing a rule can look
at there is a table from its value to the set of rules it satisfies, as an integer:

* the other end's address → bisect over the sorted bounds of every CIDR in the chain,
* the other end's pod → the selectors it matches, numbered for the whole cluster,
* the destination's node, the learned names → a dictionary each,
* protocol and destination port → bisect over the sorted bounds of every port range.

A rule matches when its bit is set both in the peer set and in the port set, and the
lowest common bit decides: that is the API's "first matching rule" (ClusterNetworkPolicy)
and, for the union of NetworkPolicies, a stable choice of the rule to name.

The method is Lakshman and Stiliadis' bit-vector classification (SIGCOMM 1998), whose
cost grows with the number of rules only by 1/30 of a machine operation each in CPython.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

from knp_py.engine.patterns import canonical_pattern
from knp_py.model.decision import NameGrant, Ruling
from knp_py.model.net import subtract
from knp_py.model.packet import Proto
from knp_py.model.policy import (
    Action,
    ClusterNetworkPolicy,
    ClusterRule,
    Direction,
    DomainPeer,
    NamedPort,
    NetworkPeer,
    NetworkPolicy,
    NetworkRule,
    NodePeer,
    Peer,
    PodPeer,
    Policy,
    Port,
    PortRange,
    Tier,
    UnknownPeer,
    UnknownPort,
)
from knp_py.model.selectors import LabelSelector

# Only these can match a rule with `protocols` or `ports` (semantics §4).
PORT_PROTOCOLS = (int(Proto.TCP), int(Proto.UDP), int(Proto.SCTP))

# Peer sets remembered per group of identities; dropped whole when a chain has seen more.
_GROUP_LIMIT = 4096

FAIL_CLOSED = "fails closed: it has a field that this version does not know"
NAMES_CLOSED = "fails closed: domainNames work in Accept rules only"
INGRESS_CLOSED = "fails closed: ingress peers select pods only"
UNKNOWN_ACTION = "its action is unknown, which denies"
ISOLATED = "no rule of the policies that isolate the pod matches"


class Chain:
    """The compiled rules; immutable but for ``group_masks``, which only remembers."""

    __slots__ = (
        "any_port",
        "bounds",
        "end",
        "group_masks",
        "masks",
        "name_masks",
        "named_masks",
        "node_masks",
        "pass_bits",
        "policies",
        "port_tables",
        "rulings",
        "selector_masks",
        "skipped",
    )

    def __init__(self, policies: tuple[Policy, ...], end: Ruling | None) -> None:
        self.policies = policies
        self.end = end  # what decides when no rule matches; None: the next tier
        self.rulings: list[Ruling] = []
        self.pass_bits = 0
        self.bounds: list[int] = []
        self.masks: list[int] = [0]
        self.selector_masks: dict[int, int] = {}
        self.node_masks: dict[int, int] = {}
        self.name_masks: dict[str, int] = {}
        self.any_port = 0
        self.port_tables: dict[int, tuple[list[int], list[int]]] = {}
        self.named_masks: dict[tuple[str, int], int] = {}
        self.skipped = 0  # rules that can never match because an Accept failed closed
        self.group_masks: dict[int, int] = {}

    def match(
        self,
        address: int,
        group: int,
        selectors: Sequence[int],
        extra: int,
        protocol: int,
        port: int,
        named: Mapping[tuple[int, int], tuple[str, ...]],
    ) -> int:
        """Rules that match: ``(peer_bits | extra) & port_bits``, in one call.

        Written out because it runs up to six times for every new connection; a test
        holds it against the two methods.
        """
        bits = self.masks[bisect_right(self.bounds, address)] | extra
        if group:
            known = self.group_masks.get(group)
            if known is None:
                known = self._group_bits(group, selectors)
            bits |= known
        if not bits:
            return 0
        table = self.port_tables.get(protocol)
        ports = self.any_port if table is None else table[1][bisect_right(table[0], port)]
        if named and self.named_masks:
            for name in named.get((protocol, port), ()):
                ports |= self.named_masks.get((name, protocol), 0)
        return bits & ports

    def peer_bits(self, address: int, group: int, selectors: Sequence[int]) -> int:
        """Rules whose peers the other end satisfies, names and nodes left out.

        ``group`` numbers the set ``selectors`` (what the other end's pod matches), 0
        and empty for an end that is no pod.
        """
        bits = self.masks[bisect_right(self.bounds, address)]
        if group:
            known = self.group_masks.get(group)
            if known is None:
                known = self._group_bits(group, selectors)
            bits |= known
        return bits

    def _group_bits(self, group: int, selectors: Sequence[int]) -> int:
        bits = 0
        table = self.selector_masks
        for selector in selectors:
            bits |= table.get(selector, 0)
        if len(self.group_masks) >= _GROUP_LIMIT:
            self.group_masks.clear()
        self.group_masks[group] = bits
        return bits

    def node_bits(self, selectors: Sequence[int]) -> int:
        """Rules with a ``nodes`` peer that one of these node selectors is."""
        bits = 0
        for selector in selectors:
            bits |= self.node_masks.get(selector, 0)
        return bits

    def name_bits(self, grants: Sequence[NameGrant]) -> int:
        """Rules with a ``domainNames`` peer that one of the learned names satisfies."""
        bits = 0
        for grant in grants:
            bits |= self.name_masks.get(grant.pattern, 0)
        return bits

    def port_bits(
        self, protocol: int, port: int, named: Mapping[tuple[int, int], tuple[str, ...]]
    ) -> int:
        """Rules whose protocols or ports match; ``named`` is the destination pod's."""
        table = self.port_tables.get(protocol)
        bits = self.any_port if table is None else table[1][bisect_right(table[0], port)]
        if named and self.named_masks:
            for name in named.get((protocol, port), ()):
                bits |= self.named_masks.get((name, protocol), 0)
        return bits


class ChainCompiler:
    """Builds chains; numbers selectors through the two functions it is given."""

    def __init__(
        self,
        pod_selector: Callable[[PodPeer], int],
        node_selector: Callable[[LabelSelector], int],
    ) -> None:
        self._pod_selector = pod_selector
        self._node_selector = node_selector

    def compile(self, policies: tuple[Policy, ...], tier: Tier, direction: Direction) -> Chain:
        """A chain of the policies in the order given; all are of ``tier``."""
        end = None
        if tier is Tier.NETWORK_POLICY:
            names = tuple(p.key for p in policies if isinstance(p, NetworkPolicy))
            end = Ruling(
                False, direction, tier, names[0], None, None, "Deny", ISOLATED, isolated_by=names
            )
        build = _Builder(Chain(policies, end), self._pod_selector, self._node_selector)
        for policy in policies:
            if isinstance(policy, ClusterNetworkPolicy):
                for index, rule in enumerate(policy.rules[direction]):
                    build.cluster_rule(policy, direction, index, rule)
            else:
                for index, network_rule in enumerate(policy.rules[direction] or ()):
                    build.network_rule(policy, direction, index, network_rule)
        return build.finish()


class _Builder:
    """Collects each rule's ranges, then sweeps them into tables."""

    def __init__(
        self,
        chain: Chain,
        pod_selector: Callable[[PodPeer], int],
        node_selector: Callable[[LabelSelector], int],
    ) -> None:
        self._chain = chain
        self._pod_selector = pod_selector
        self._node_selector = node_selector
        self._any_peer = 0
        self._ranges: dict[int, list[tuple[int, int]]] = {}  # rule → its addresses
        self._address_edges: dict[int, int] = {}  # address → rules that begin or end there
        self._port_edges: dict[int, dict[int, int]] = {p: {} for p in PORT_PROTOCOLS}

    def cluster_rule(
        self, policy: ClusterNetworkPolicy, direction: Direction, index: int, rule: ClusterRule
    ) -> None:
        """Add one ClusterNetworkPolicy rule as the next bit."""
        action = rule.action
        reason = _closed(rule, direction)
        closed = reason is not None
        if action is Action.UNKNOWN:
            reason = reason or UNKNOWN_ACTION
        denies = action is not Action.ACCEPT and (closed or action is not Action.PASS)
        bit = self._ruling(
            Ruling(
                not denies,
                direction,
                policy.tier,
                policy.name,
                index,
                rule.name or None,
                "Deny" if denies else action.value,
                reason,
                by_name=any(isinstance(peer, DomainPeer) for peer in rule.peers),
            )
        )
        if closed:
            if action is Action.ACCEPT:
                self._chain.skipped |= bit
                return
            self._any_peer |= bit
            self._chain.any_port |= bit
            return
        if action is Action.PASS:
            self._chain.pass_bits |= bit
        for peer in rule.peers:
            self._peer(peer, bit)
        self._ports(rule.ports, bit)

    def network_rule(
        self, policy: NetworkPolicy, direction: Direction, index: int, rule: NetworkRule
    ) -> None:
        """Add one NetworkPolicy rule as the next bit."""
        bit = self._ruling(
            Ruling(True, direction, Tier.NETWORK_POLICY, policy.key, index, None, "Accept")
        )
        if any(isinstance(port, UnknownPort) for port in rule.ports or ()):
            self._chain.skipped |= bit  # an allow rule we cannot read allows nothing
            return
        if rule.peers is None:
            self._any_peer |= bit
        for peer in rule.peers or ():
            self._peer(peer, bit)
        self._ports(rule.ports, bit)

    def _ruling(self, ruling: Ruling) -> int:
        self._chain.rulings.append(ruling)
        return 1 << (len(self._chain.rulings) - 1)

    def _peer(self, peer: Peer, bit: int) -> None:
        chain = self._chain
        match peer:
            case PodPeer():
                selector = self._pod_selector(peer)
                chain.selector_masks[selector] = chain.selector_masks.get(selector, 0) | bit
            case NetworkPeer():
                ranges = [r for cidr in peer.cidrs for r in cidr.ranges]
                holes = [r for cidr in peer.excepts for r in cidr.ranges]
                self._addresses(subtract(ranges, holes), bit)
            case NodePeer():
                selector = self._node_selector(peer.nodes)
                chain.node_masks[selector] = chain.node_masks.get(selector, 0) | bit
            case DomainPeer():
                for name in peer.names:
                    pattern = canonical_pattern(name)
                    if pattern is None:
                        continue  # lint calls it an error; no name can ever match it
                    chain.name_masks[pattern] = chain.name_masks.get(pattern, 0) | bit
            case UnknownPeer():
                pass  # a NetworkPolicy peer without a known field matches nothing

    def _addresses(self, ranges: list[tuple[int, int]], bit: int) -> None:
        # Two peers of one rule may overlap; toggling needs disjoint ranges, so each
        # rule's ranges are collected first and merged in finish().
        self._ranges.setdefault(bit, []).extend(ranges)

    def _ports(self, ports: tuple[Port, ...] | None, bit: int) -> None:
        chain = self._chain
        if ports is None:
            chain.any_port |= bit
            return
        ranges: dict[int, list[tuple[int, int]]] = {}
        for port in ports:
            match port:
                case PortRange():
                    ranges.setdefault(port.protocol, []).append((port.first, port.last))
                case NamedPort():
                    wanted = PORT_PROTOCOLS if port.protocol is None else (port.protocol,)
                    for protocol in wanted:
                        key = (port.name, protocol)
                        chain.named_masks[key] = chain.named_masks.get(key, 0) | bit
                case UnknownPort():
                    pass  # the whole rule was closed before we came here
        for protocol, pairs in ranges.items():
            _toggle(self._port_edges[protocol], subtract(pairs, []), bit)

    def finish(self) -> Chain:
        """Sweep the collected edges into bounds and masks."""
        chain = self._chain
        for bit, ranges in self._ranges.items():
            _toggle(self._address_edges, subtract(ranges, []), bit)
        chain.bounds, chain.masks = _sweep(self._address_edges, self._any_peer)
        for protocol, edges in self._port_edges.items():
            if edges:
                chain.port_tables[protocol] = _sweep(edges, chain.any_port)
        return chain


def _toggle(edges: dict[int, int], ranges: list[tuple[int, int]], bit: int) -> None:
    for first, last in ranges:
        edges[first] = edges.get(first, 0) ^ bit
        edges[last + 1] = edges.get(last + 1, 0) ^ bit


def _sweep(edges: dict[int, int], always: int) -> tuple[list[int], list[int]]:
    """Sorted bounds, and the rules in force before, between and after them."""
    bounds: list[int] = []
    masks = [always]
    current = 0
    for bound in sorted(edges):
        if edges[bound]:
            current ^= edges[bound]
            bounds.append(bound)
            masks.append(current | always)
    return bounds, masks


def _closed(rule: ClusterRule, direction: Direction) -> str | None:
    """Why a rule fails closed as a whole (semantics §4); None if it does not."""
    if any(
        isinstance(part, (UnknownPeer, UnknownPort)) for part in (*rule.peers, *(rule.ports or ()))
    ):
        return FAIL_CLOSED
    if direction is Direction.INGRESS and not all(isinstance(p, PodPeer) for p in rule.peers):
        return INGRESS_CLOSED
    if rule.action is not Action.ACCEPT and any(isinstance(p, DomainPeer) for p in rule.peers):
        return NAMES_CLOSED
    return None
