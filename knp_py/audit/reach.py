"""Questions about all pods of a subject at once: what they may reach, what is shut to them.

Nothing is evaluated here that ``engine`` evaluates: these are claims about every pod that a
subject could select and every address there is, answered from the tiers' tables.
"""

from typing import NamedTuple

from knp_py.audit.cells import Ports, TierTable, port_parts
from knp_py.audit.shadows import Tables
from knp_py.audit.view import View
from knp_py.model.net import V4_BASE, V6_LAST, is_v4
from knp_py.model.policy import Direction, NetworkRule, PodPeer, Tier


class _Outlook(NamedTuple):
    """What a tier makes of a cell: ``denies`` for certain, and what might come before that."""

    denies: bool
    accepts: bool  # may, or does
    passes: bool  # may


def shut(table: TierTable, subject: PodPeer, address: int, ports: Ports) -> bool:
    """Whether the tier certainly denies the subject this address, unless a name opens it.

    The address is taken as no pod's and no node's.
    """
    mask = next(iter(table.port_masks(ports)))
    outlook = _outlook(table, subject, table.address_mask(address), mask, mask, 0)
    return outlook.denies and not outlook.accepts and not outlook.passes


def may_reach(view: View, tabs: Tables, subject: PodPeer, protocol: int, port: int) -> bool:
    """Whether some pod of the subject may reach the port of any server at all.

    Without learned names, and as far as its own egress goes. When in doubt, yes.
    """
    admin, baseline = tabs[Tier.ADMIN, Direction.EGRESS], tabs[Tier.BASELINE, Direction.EGRESS]
    policies = view.may_isolate(subject, Direction.EGRESS)
    by_policy = any(
        _may_match(rule, protocol, port)
        for policy in policies
        for rule in policy.rules[Direction.EGRESS] or ()
    )
    isolated = view.isolates(subject, Direction.EGRESS)
    for address in _address_pairs(view, admin, baseline):
        first = _at(admin, subject, address[0], protocol, port)
        if first.accepts:
            return True
        if first.denies and not first.passes:
            continue
        if by_policy:
            return True
        if isolated:
            continue
        last = _at(baseline, subject, address[1], protocol, port)
        if last.accepts or last.passes or not last.denies:
            return True
    return False


def _at(table: TierTable, subject: PodPeer, by_address: int, protocol: int, port: int) -> _Outlook:
    ports = Ports(protocol, port, port)
    sure = next(iter(table.port_masks(ports)))
    possible = next(iter(table.port_masks(ports, may=True)))
    return _outlook(table, subject, by_address, sure, possible, table.any_pod | table.any_node)


def _outlook(
    table: TierTable, subject: PodPeer, by_address: int, sure: int, possible: int, perhaps: int
) -> _Outlook:
    chain = table.chain
    certain = by_address & sure & table.must(subject) & ~chain.pass_bits
    low = certain & -certain
    before = (by_address | perhaps) & possible & table.may(subject)
    if low:
        before &= low - 1
    accepts = bool(before & table.accepting)
    denies = False
    if low:
        allowed = chain.rulings[low.bit_length() - 1].allowed
        accepts, denies = accepts or allowed, not allowed
    return _Outlook(denies, accepts, bool(before & chain.pass_bits))


def _address_pairs(view: View, one: TierTable, other: TierTable) -> set[tuple[int, int]]:
    """The distinct pairs of rule sets, over all addresses of families that pods have."""
    starts = {V4_BASE, *one.chain.bounds, *other.chain.bounds}
    if view.dual_stack:
        starts = {0, *(start for start in starts if start <= V6_LAST)}
    else:
        starts = {start for start in starts if is_v4(start)}
    return {(one.address_mask(start), other.address_mask(start)) for start in starts}


def _may_match(rule: NetworkRule, protocol: int, port: int) -> bool:
    if rule.ports is None:
        return True
    return any(
        part.protocol == protocol and (part.name is not None or part.first <= port <= part.last)
        for entry in rule.ports
        for part in port_parts(entry)
    )
