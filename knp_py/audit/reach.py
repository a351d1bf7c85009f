"""Questions about all pods of a subject at once: what they may reach, what is shut to them.

Nothing is evaluated here that ``engine`` evaluates: these are claims about every pod that a
subject could select and every address there is, answered from the tiers' tables.
"""

from typing import NamedTuple

from knp_py.audit.cells import Ports, TierTable, port_parts
from knp_py.audit.shadows import Tables
from knp_py.audit.view import View
from knp_py.model.net import V4_BASE, V4_LAST, V6_LAST, is_v4
from knp_py.model.policy import Direction, NetworkRule, PodPeer, Tier


class _Outlook(NamedTuple):
    """What a tier makes of a cell: ``denies`` for certain, and what might come before that."""

    denies: bool
    accepts: bool  # may, or does
    passes: bool  # may


class _Question(NamedTuple):
    """One tier asked about one port: rules that match it, for certain and perhaps."""

    table: TierTable
    must: int
    may: int
    perhaps: int  # rules whose peers could match wherever the address is

    @property
    def relevant(self) -> int:
        """Rules whose networks matter."""
        return self.must | self.may

    def outlook(self, by_address: int) -> _Outlook:
        """The answer for addresses that these rules' networks hold."""
        chain = self.table.chain
        certain = by_address & self.must & ~chain.pass_bits
        low = certain & -certain
        before = (by_address | self.perhaps) & self.may
        if low:
            before &= low - 1
        accepts = bool(before & self.table.accepting)
        denies = False
        if low:
            allowed = chain.rulings[low.bit_length() - 1].allowed
            accepts, denies = accepts or allowed, not allowed
        return _Outlook(denies, accepts, bool(before & chain.pass_bits))


def shut(table: TierTable, subject: PodPeer, address: int, ports: Ports) -> bool:
    """Whether the tier certainly denies the subject this address, unless a name opens it.

    The address is taken as no pod's and no node's.
    """
    mask = next(iter(table.port_masks(ports)))
    question = _Question(table, mask & table.must(subject), mask & table.may(subject), 0)
    outlook = question.outlook(table.address_mask(address))
    return outlook.denies and not outlook.accepts and not outlook.passes


class Reach:
    """Whether pods may reach one port of any server at all, by their own egress."""

    def __init__(self, view: View, tabs: Tables, protocol: int, port: int) -> None:
        self._view = view
        self._admin = tabs[Tier.ADMIN, Direction.EGRESS]
        self._baseline = tabs[Tier.BASELINE, Direction.EGRESS]
        self._ports = Ports(protocol, port, port)
        # NetworkPolicies with a rule about the port.
        self._policies = {
            policy.key
            for policy in view.network
            if any(_may_match(r, protocol, port) for r in policy.rules[Direction.EGRESS] or ())
        }
        starts = self._starts()
        four = {start for start in starts if is_v4(start)}
        # (cells, whether it counts that nothing denies them) of each family that pods have.
        self._cells: list[tuple[set[tuple[int, int]], bool]] = []
        if view.ipv4:
            self._cells.append((self._pairs(four), True))
        if view.ipv6:
            self._cells.append((self._pairs(starts - four), not view.ipv4))

    def may(self, subject: PodPeer) -> bool:
        """Whether some pod of the subject may, without learned names. When in doubt, yes.

        That nothing denies IPv6 is no way out for a subject to which IPv4 is shut: most
        such policies are of clusters without IPv6.
        """
        view = self._view
        by_policy = any(
            policy.key in self._policies for policy in view.may_isolate(subject, Direction.EGRESS)
        )
        isolated = view.isolates(subject, Direction.EGRESS)
        admin = self._ask(self._admin, subject)
        baseline = self._ask(self._baseline, subject)
        for pairs, by_default in self._cells:
            cells = {(one & admin.relevant, other & baseline.relevant) for one, other in pairs}
            for by_admin, by_baseline in cells:
                first = admin.outlook(by_admin)
                if first.accepts:
                    return True
                if first.denies and not first.passes:
                    continue
                if by_policy:
                    return True
                if isolated:
                    continue
                last = baseline.outlook(by_baseline)
                if last.accepts or ((last.passes or not last.denies) and by_default):
                    return True
        return False

    def _ask(self, table: TierTable, subject: PodPeer) -> _Question:
        sure = next(iter(table.port_masks(self._ports)))
        possible = next(iter(table.port_masks(self._ports, may=True)))
        return _Question(
            table,
            sure & table.must(subject),
            possible & table.may(subject),
            table.any_pod | table.any_node,
        )

    def _starts(self) -> set[int]:
        """Where something changes, over all addresses."""
        bounds = (*self._admin.chain.bounds, *self._baseline.chain.bounds)
        return {0, V4_BASE, V4_LAST + 1, *(bound for bound in bounds if bound <= V6_LAST)}

    def _pairs(self, starts: set[int]) -> set[tuple[int, int]]:
        """The distinct pairs of rule sets."""
        return {
            (self._admin.address_mask(start), self._baseline.address_mask(start))
            for start in starts
        }


def _may_match(rule: NetworkRule, protocol: int, port: int) -> bool:
    if rule.ports is None:
        return True
    return any(
        part.protocol == protocol and (part.name is not None or part.first <= port <= part.last)
        for entry in rule.ports
        for part in port_parts(entry)
    )
