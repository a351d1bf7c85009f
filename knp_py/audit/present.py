"""Which rules of a tier decide anything for the pods that the input has.

Exact within the tier: every subject, every pod and node as the other end, every interval of
outside addresses, every port that rules or container ports tell apart, and every name.
"""

from collections.abc import Mapping
from typing import Protocol

from knp_py.audit.cells import Placed, TierTable, ends_of, least
from knp_py.audit.view import EVERYWHERE, View
from knp_py.engine.chains import PORT_PROTOCOLS
from knp_py.engine.policies import subject_of
from knp_py.engine.snapshot import NO_PORTS
from knp_py.model.net import V6_LAST
from knp_py.model.policy import Direction

_Names = Mapping[tuple[int, int], tuple[str, ...]]
_Key = tuple[tuple[tuple[int, int], tuple[str, ...]], ...]

# An interval of more addresses than this is never full of pods.
_SMALL = 4096


class Room(Protocol):
    """How much work is left; see ``audit.shadows.Budget``."""

    def spend(self, cells: int) -> bool:
        """Whether there is room for so much more."""
        ...


class Present:
    """One table and the input's pods. Worked out when first asked."""

    def __init__(self, view: View, table: TierTable) -> None:
        self._view = view
        self._table = table
        self._port_sets: dict[_Key, frozenset[int]] = {}
        self._others: dict[frozenset[int], set[int]] | None = None  # by the ports of that end
        self._subjects: set[tuple[int, frozenset[int]]] = set()

    def takers(self, placed: Placed, earlier: int, room: Room) -> int | None:
        """Who takes all that the rule matches here, of ``earlier``; 0 if it decides something.

        0 also when it matches nothing here at all. None when there is no room to look.
        """
        others = self._others
        if others is None:
            self._subjects = self._selected()
            others = self._others = self._ends()
        names = {end.pattern for end in ends_of(self._view, placed) if end.pattern is not None}
        extras = (0, *(self._table.name_bits(name) for name in names))
        bit = placed.bit
        takers = 0
        for in_force, own_ports in self._subjects:
            if not in_force & bit:
                continue
            before = in_force & earlier
            for ports, peers in others.items():
                masks = least(
                    [m & before for m in (ports if self._egress else own_ports) if m & bit]
                )
                taken: set[int] = set()
                for mask in peers if masks else ():
                    for extra in extras:
                        if (mask | extra) & bit:
                            before_it = (mask | extra) & before
                            if not before_it:
                                return 0
                            taken.add(before_it)
                if not room.spend(len(taken) * len(masks)):
                    return None
                for mask in masks:
                    for bits in taken:
                        first = bits & mask
                        if not first:
                            return 0
                        takers |= first & -first
        return takers

    @property
    def _egress(self) -> bool:
        return self._table.direction is Direction.EGRESS

    def _selected(self) -> set[tuple[int, frozenset[int]]]:
        """(rules in force, port sets of its own ports) of every pod that a policy selects."""
        view, table = self._view, self._table
        masks = {view.selectors.number(subject_of(p)): 0 for p, _ in table.of_policy}
        for policy, mask in table.of_policy:
            masks[view.selectors.number(subject_of(policy))] |= mask
        found: set[tuple[int, frozenset[int]]] = set()
        for end in view.snapshot.endpoints.values():
            in_force = 0
            for number in view.identity(end.pod).matched:
                in_force |= masks.get(number, 0)
            if in_force:
                # Only ingress asks for the subject's own ports.
                found.add((in_force, frozenset() if self._egress else self._ports(end.ports)))
        return found

    def _ends(self) -> dict[frozenset[int], set[int]]:
        """Peer sets of every other end there is, grouped by the port sets it gives."""
        view, table = self._view, self._table
        snapshot, chain = view.snapshot, table.chain
        found: dict[frozenset[int], set[int]] = {}
        selected: dict[int, int] = {}
        anywhere = set(table.address_masks(EVERYWHERE))
        made_up: set[tuple[int, frozenset[int]]] = set()
        for address, end in snapshot.endpoints.items():
            identity = view.identity(end.pod)
            bits = selected.get(identity.number)
            if bits is None:
                bits = 0
                for number in identity.matched:
                    bits |= chain.selector_masks.get(number, 0)
                selected[identity.number] = bits
            ports = self._ports(end.ports if self._egress else NO_PORTS)
            group = found.setdefault(ports, set())
            if end.pod.made_up:
                if (identity.number, ports) in made_up:
                    continue
                made_up.add((identity.number, ports))
                group.update(mask | bits for mask in anywhere)
            else:
                nodes = chain.node_bits(view.node_points.get(address, ()))
                group.add(table.address_mask(address) | bits | nodes)
        outside = found.setdefault(self._ports(NO_PORTS), set())
        for index, mask in enumerate(chain.masks):
            if not self._full_of_pods(index):
                outside.add(mask)
        for address, numbers in view.node_points.items():
            outside.add(table.address_mask(address) | chain.node_bits(numbers))
        return found

    def _full_of_pods(self, index: int) -> bool:
        """Whether every address of an interval of the table is a pod's."""
        bounds = self._table.chain.bounds
        if not 0 < index < len(bounds):
            return index > 0 and bounds[-1] > V6_LAST  # beyond the last address
        first, end = bounds[index - 1], bounds[index]
        endpoints = self._view.snapshot.endpoints
        return end - first <= _SMALL and all(
            address in endpoints and not endpoints[address].pod.made_up
            for address in range(first, end)
        )

    def _ports(self, named: _Names) -> frozenset[int]:
        """The sets of rules whose ports match, over all ports of a destination."""
        key = tuple(sorted(named.items()))
        known = self._port_sets.get(key)
        if known is None:
            chain = self._table.chain
            found = {chain.any_port}
            for protocol in PORT_PROTOCOLS:
                table = chain.port_tables.get(protocol)
                if table is not None:
                    found.update(table[1])
            found.update(chain.port_bits(protocol, port, named) for protocol, port in named)
            known = self._port_sets[key] = frozenset(found)
        return known
