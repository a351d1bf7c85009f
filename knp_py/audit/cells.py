"""A whole tier in one table, and the cells into which its rules divide the possible flows.

The table is an ``engine.chains.Chain`` of every policy of a tier, whoever it selects. Which
rules are in force for a subject is then a mask: ``must`` holds rules that apply to every pod
of the subject, ``may`` those that apply to some. The same goes for the other end. A claim
that something never happens uses ``must`` for what stands in its way and ``may`` for what
could clear it.

A cell is a set of flows that no rule tells apart: an interval of addresses, what kind of
end is there, an interval of ports, a learned name or none.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from knp_py.audit.view import EVERYWHERE, Ranges, View
from knp_py.engine.chains import PORT_PROTOCOLS, Chain, ChainCompiler
from knp_py.engine.patterns import PatternTrie, canonical_pattern
from knp_py.engine.policies import subject_of
from knp_py.model.net import subtract
from knp_py.model.policy import (
    Action,
    ClusterRule,
    Direction,
    DomainPeer,
    NamedPort,
    NetworkPeer,
    NetworkRule,
    NodePeer,
    PodPeer,
    Policy,
    Port,
    PortRange,
    Tier,
    UnknownPeer,
    UnknownPort,
)
from knp_py.model.selectors import LabelSelector

Rule = ClusterRule | NetworkRule


class Placed(NamedTuple):
    """A rule, its number in its direction, and the bit that is its place in the table."""

    policy: Policy
    direction: Direction
    number: int
    rule: Rule
    bit: int


class End(NamedTuple):
    """Another end that makes a rule match: who it is at least, and where it can be."""

    ranges: Ranges
    pods: PodPeer | None = None
    nodes: LabelSelector | None = None
    pattern: str | None = None


class Ports(NamedTuple):
    """Ports that make a rule match: a range, or a named port wherever it may be.

    ``protocol`` None: any flow, those without ports included.
    """

    protocol: int | None
    first: int = 0
    last: int = 65535
    name: str | None = None


def fails_closed(rule: Rule, direction: Direction) -> bool:
    """Whether the rule has a part this version does not know (semantics §4)."""
    if any(isinstance(port, UnknownPort) for port in rule.ports or ()):
        return True
    if isinstance(rule, NetworkRule):
        return False
    return any(
        isinstance(peer, UnknownPeer)
        or (isinstance(peer, DomainPeer) and rule.action is not Action.ACCEPT)
        or (direction is Direction.INGRESS and not isinstance(peer, PodPeer))
        for peer in rule.peers
    )


def ends_of(view: View, placed: Placed) -> Iterator[End]:
    """Ends that make the rule match, one kind each; none when nothing can."""
    rule = placed.rule
    if fails_closed(rule, placed.direction):
        if isinstance(rule, ClusterRule) and rule.action is not Action.ACCEPT:
            yield End(EVERYWHERE)
        return
    if rule.peers is None:
        yield End(EVERYWHERE)
    for peer in rule.peers or ():
        match peer:
            case PodPeer():
                if view.overlap.possible(peer):
                    yield End(view.pod_ranges, pods=peer)
            case NetworkPeer():
                yield End(ranges_of(peer))
            case NodePeer():
                yield End(view.node_ranges(peer.nodes), nodes=peer.nodes)
            case DomainPeer():
                for pattern in filter(None, map(canonical_pattern, peer.names)):
                    yield End(EVERYWHERE, pattern=pattern)
            case UnknownPeer():
                pass


def ranges_of(peer: NetworkPeer) -> Ranges:
    """The addresses of a network peer, sorted and disjoint."""
    holes = [r for cidr in peer.excepts for r in cidr.ranges]
    return tuple(subtract([r for cidr in peer.cidrs for r in cidr.ranges], holes))


def ports_of(placed: Placed) -> Iterator[Ports]:
    """Ports that make the rule match."""
    rule = placed.rule
    if rule.ports is None or fails_closed(rule, placed.direction):
        yield Ports(None)
        return
    for port in rule.ports:
        yield from port_parts(port)


def port_parts(port: Port) -> Iterator[Ports]:
    """One port entry, by protocol."""
    match port:
        case PortRange():
            yield Ports(port.protocol, port.first, port.last)
        case NamedPort():
            wanted = PORT_PROTOCOLS if port.protocol is None else (port.protocol,)
            for protocol in wanted:
                yield Ports(protocol, name=port.name)
        case UnknownPort():
            pass


class TierTable:
    """All rules of one tier (or of one namespace's NetworkPolicies) in one direction."""

    def __init__(
        self, view: View, policies: Sequence[Policy], tier: Tier, direction: Direction
    ) -> None:
        self.view = view
        self.tier = tier
        self.direction = direction
        compiler = ChainCompiler(view.selectors.number, view.node_selectors.number)
        self.chain: Chain = compiler.compile(tuple(policies), tier, direction)
        self.rules: list[Placed] = []
        self.of_policy: list[tuple[Policy, int]] = []  # and the mask of its rules
        bit = 1
        for policy in policies:
            first = bit
            rules: Sequence[Rule] = policy.rules[direction] or ()
            for number, rule in enumerate(rules):
                self.rules.append(Placed(policy, direction, number, rule, bit))
                bit <<= 1
            self.of_policy.append((policy, bit - first))
        self.peers = {n: view.selectors.by_number(n).peer for n in self.chain.selector_masks}
        self.accepting = _union(
            placed.bit
            for placed, ruling in zip(self.rules, self.chain.rulings, strict=True)
            if ruling.action == "Accept"
        )
        self.any_pod = _union(self.chain.selector_masks.values())
        self.any_node = _union(self.chain.node_masks.values())
        self.any_named = _union(self.chain.named_masks.values())
        self.any_name = _union(self.chain.name_masks.values())
        self._tries = PatternTrie(self.chain.name_masks)
        self._must: dict[PodPeer, int] = {}
        self._may: dict[PodPeer, int] = {}
        self._ends: dict[tuple[object, bool], int] = {}
        self._fewest: dict[Ranges, tuple[int, ...]] = {}
        self._spaces: dict[Ranges, tuple[int, ...]] = {}

    def rule(self, bit: int) -> Placed:
        """The rule whose bit this is."""
        return self.rules[bit.bit_length() - 1]

    # -- which rules are in force -------------------------------------------------------

    def must(self, subject: PodPeer) -> int:
        """Rules in force for every pod of the subject."""
        found = self._must.get(subject)
        if found is None:
            found = self._must[subject] = _union(
                mask
                for policy, mask in self.of_policy
                if mask and self.view.overlap.implies(subject, subject_of(policy))
            )
        return found

    def may(self, subject: PodPeer) -> int:
        """Rules in force for some pod of the subject."""
        found = self._may.get(subject)
        if found is None:
            found = self._may[subject] = _union(
                mask
                for policy, mask in self.of_policy
                if mask and self.view.overlap.meets(subject, subject_of(policy))
            )
        return found

    # -- which peers an end satisfies ---------------------------------------------------

    def end_must(self, end: End) -> int:
        """Rules whose peers the end satisfies whoever exactly it is, addresses left out."""
        bits = 0
        if end.pods is not None:
            bits |= self._pods(end.pods, certain=True)
        if end.nodes is not None:
            bits |= self._nodes(end.nodes)
        if end.pattern is not None:
            bits |= self.name_bits(end.pattern)
        return bits

    def end_may(self, end: End, *, pod: bool) -> int:
        """Rules whose peers the end could satisfy; ``pod``: a pod may be where it is."""
        if end.pods is not None:
            # A node's addresses may be of any type, so one may be a pod's.
            return self.pods_may(end.pods) | self.any_node | self.any_name
        return (self.any_pod if pod else 0) | self.any_node | self.any_name

    def pods_may(self, peer: PodPeer) -> int:
        """Rules with a pod peer that some pod of ``peer`` satisfies."""
        return self._pods(peer, certain=False)

    def _pods(self, peer: PodPeer, *, certain: bool) -> int:
        key = (peer, certain)
        found = self._ends.get(key)
        if found is None:
            relation = self.view.overlap.implies if certain else self.view.overlap.meets
            found = self._ends[key] = _union(
                mask
                for number, mask in self.chain.selector_masks.items()
                if relation(peer, self.peers[number])
            )
        return found

    def _nodes(self, nodes: LabelSelector) -> int:
        key = (nodes, True)
        found = self._ends.get(key)
        if found is None:
            found = 0
            table = self.view.node_selectors
            for placed in self.rules:
                for peer in placed.rule.peers or ():
                    if isinstance(peer, NodePeer) and self.view.overlap.selector_implies(
                        nodes, peer.nodes
                    ):
                        found |= self.chain.node_masks.get(table.number(peer.nodes), 0)
            self._ends[key] = found
        return found

    def name_bits(self, pattern: str) -> int:
        """Rules that match every name which the pattern matches."""
        # A label that nobody writes: of the names a wildcard stands for, the one that
        # the fewest other patterns know.
        name = f"\0.{pattern.removeprefix('*.')}" if pattern.startswith("*.") else pattern
        return _union(self.chain.name_masks[found] for found in self._tries.satisfied(name))

    # -- addresses and ports ------------------------------------------------------------

    def address_masks(self, ranges: Ranges) -> tuple[int, ...]:
        """The distinct sets of rules whose networks hold an address of the ranges."""
        known = self._spaces.get(ranges)
        if known is None:
            found: dict[int, None] = {}
            bounds, masks = self.chain.bounds, self.chain.masks
            for first, last in ranges:
                lowest, highest = bisect_right(bounds, first), bisect_right(bounds, last)
                found.update(dict.fromkeys(masks[lowest : highest + 1]))
            known = self._spaces[ranges] = tuple(found)
        return known

    def fewest(self, ranges: Ranges) -> tuple[int, ...]:
        """Those of ``address_masks`` that matter to the question if some rule always matches."""
        known = self._fewest.get(ranges)
        if known is None:
            known = self._fewest[ranges] = tuple(least(self.address_masks(ranges)))
        return known

    def spans(self, end: End) -> Iterator[tuple[int, int]]:
        """(rules by address, rules the end could satisfy besides) over the end's addresses."""
        if end.pods is None:
            without = self.end_may(end, pod=False)
            for mask in self.address_masks(end.ranges):
                yield mask, without
            ranges = overlap(end.ranges, self.view.pod_ranges)
        else:
            ranges = end.ranges
        perhaps = self.end_may(end, pod=True)
        for mask in self.address_masks(ranges):
            yield mask, perhaps

    def address_mask(self, address: int) -> int:
        """Rules whose networks hold the address."""
        return self.chain.masks[bisect_right(self.chain.bounds, address)]

    def port_masks(self, ports: Ports, *, may: bool = False) -> Iterator[int]:
        """The sets of rules whose ports match, over the ports given.

        ``may``: also what could match because a pod could give its port a name.
        """
        extra = 0
        if ports.name is not None and ports.protocol is not None:
            extra = self.chain.named_masks.get((ports.name, ports.protocol), 0)
        if may:
            extra |= self.any_named
        if ports.protocol is None:
            yield self.chain.any_port
            protocols: tuple[int, ...] = PORT_PROTOCOLS
        else:
            protocols = (ports.protocol,)
        for protocol in protocols:
            table = self.chain.port_tables.get(protocol)
            if table is None:
                yield self.chain.any_port | extra
                continue
            bounds, masks = table
            lowest = bisect_right(bounds, ports.first)
            for mask in masks[lowest : bisect_right(bounds, ports.last) + 1]:
                yield mask | extra

    def ports_must(self, placed: Placed) -> list[int]:
        """The distinct sets of rules that match, over all flows whose ports match a rule's."""
        found: dict[int, None] = {}
        for ports in ports_of(placed):
            if ports.protocol is None:
                # Flows without ports satisfy fewest rules; every other flow satisfies more.
                return [self.chain.any_port]
            found.update(dict.fromkeys(self.port_masks(ports)))
        return list(found)


def least(masks: Sequence[int]) -> Sequence[int]:
    """One set of rules that is part of all the others, if there is one, else all of them."""
    common = -1
    for mask in masks:
        common &= mask
    return (common,) if common in masks else masks


def overlap(some: Ranges, others: Ranges) -> Ranges:
    """Addresses in both; both are sorted and disjoint."""
    found: list[tuple[int, int]] = []
    starts = [first for first, _ in others]
    for first, last in some:
        for other_first, other_last in others[max(0, bisect_right(starts, first) - 1) :]:
            if other_first > last:
                break
            if other_last >= first:
                found.append((max(first, other_first), min(last, other_last)))
    return tuple(found)


def tables(view: View) -> dict[tuple[Tier, Direction], TierTable]:
    """The tables of the ClusterNetworkPolicy tiers."""
    return {
        (tier, direction): TierTable(view, policies, tier, direction)
        for tier, policies in view.cluster.items()
        for direction in Direction
    }


def _union(masks: Iterable[int]) -> int:
    bits = 0
    for mask in masks:
        bits |= mask
    return bits
