"""What stays open although somebody shut something.

The other address family, the metadata server, the pods that a second NetworkPolicy opens.
"""

from collections.abc import Iterable

from knp_py.audit.cells import Placed, Rule, TierTable, fails_closed, ports_of, ranges_of
from knp_py.audit.dns import denied_ranges
from knp_py.audit.findings import Collector, Severity, listing, peer_path, rule_path
from knp_py.audit.reach import shut
from knp_py.audit.rules import numbered_rules
from knp_py.audit.shadows import Tables
from knp_py.audit.view import IPV4, Ranges, View
from knp_py.engine.policies import subject_of
from knp_py.model.net import parse_address, parse_cidr, subtract
from knp_py.model.packet import Proto
from knp_py.model.policy import (
    Action,
    ClusterNetworkPolicy,
    ClusterRule,
    Direction,
    NetworkPeer,
    NetworkPolicy,
    NetworkRule,
    Policy,
    Tier,
)

# What clouds answer instance metadata on, credentials among them.
METADATA = parse_address("169.254.169.254")
_LINK_LOCAL = 1 << 16  # a network wider than 169.254.0.0/16 was not written for it
_HTTP = 80
# All unicast that is routed between networks today (RFC 4291 §2.4, IANA).
_GLOBAL_IPV6 = parse_cidr("2000::/3").ranges


def check(view: View, tabs: Tables, found: Collector) -> None:
    """Every policy's egress, and NetworkPolicies against each other."""
    egress = {tier: tabs[tier, Direction.EGRESS] for tier in (Tier.ADMIN, Tier.BASELINE)}
    for table in egress.values():
        if found.wants("one-family-deny"):
            _check_families(view, egress, table, found)
    for policy in view.policies:
        _check_metadata(egress, policy, found)
    if found.wants("opened-elsewhere"):
        _check_opened(view, found)


# -- families -------------------------------------------------------------------------------


def _check_families(
    view: View, egress: dict[Tier, TierTable], table: TierTable, found: Collector
) -> None:
    done: set[int] = set()  # one finding a policy
    for placed in table.rules:
        if table.accepting & placed.bit or table.chain.pass_bits & placed.bit:
            continue
        if fails_closed(placed.rule, placed.direction) or id(placed.policy) in done:
            continue
        spans = denied_ranges(placed)
        four, six = _covers(spans, IPV4), _covers(spans, _GLOBAL_IPV6)
        if four == six or view.isolates(subject_of(placed.policy), Direction.EGRESS):
            continue
        if _covers(_all_denied(egress, placed), _GLOBAL_IPV6 if four else IPV4):
            continue
        done.add(id(placed.policy))
        _report_family(view, placed, found, four=four)


def _report_family(view: View, placed: Placed, found: Collector, *, four: bool) -> None:
    if four:
        message = "denies all of IPv4, but nothing does the same for IPv6: where pods have "
        message += "IPv6 addresses, everything is reachable over it"
        severity = Severity.WARNING if view.ipv6 else Severity.INFO
    else:
        message = "denies all of IPv6, but nothing does the same for IPv4"
        severity = Severity.INFO
    found.about(
        "one-family-deny",
        placed.policy,
        rule_path(placed.direction, placed.number),
        message,
        f'add "{"::/0" if four else "0.0.0.0/0"}" to its networks'
        + (", also if the cluster has no IPv6 yet" if four else ", unless IPv4 shall stay open"),
        severity,
    )


def _all_denied(egress: dict[Tier, TierTable], placed: Placed) -> list[tuple[int, int]]:
    """What Deny rules of either tier deny to the subject on all the rule's ports."""
    subject = subject_of(placed.policy)
    ranges: list[tuple[int, int]] = []
    for table in egress.values():
        on_all = -1
        for ports in ports_of(placed):
            for mask in table.port_masks(ports):
                on_all &= mask
        deny = on_all & table.must(subject) & ~table.accepting & ~table.chain.pass_bits
        for other in table.rules:
            if other.bit & deny:
                ranges += denied_ranges(other)
    return ranges


def _covers(spans: Iterable[tuple[int, int]], whole: Ranges) -> bool:
    return not subtract(list(whole), list(spans))


# -- the metadata server --------------------------------------------------------------------


def _check_metadata(egress: dict[Tier, TierTable], policy: Policy, found: Collector) -> None:
    for direction, number, rule in numbered_rules(policy):
        if direction is Direction.INGRESS or not _allows(rule):
            continue
        placed = Placed(policy, direction, number, rule, 0)
        ports = next(
            (
                part._replace(protocol=int(Proto.TCP), first=_HTTP, last=_HTTP)
                for part in ports_of(placed)
                if part.name is None
                and part.protocol in {None, int(Proto.TCP)}
                and part.first <= _HTTP <= part.last
            ),
            None,
        )
        if ports is None or fails_closed(rule, direction):
            continue
        tiers = [Tier.ADMIN]
        if isinstance(policy, ClusterNetworkPolicy) and policy.tier is Tier.BASELINE:
            tiers.append(Tier.BASELINE)
        if any(shut(egress[tier], subject_of(policy), METADATA, ports) for tier in tiers):
            continue
        for index, peer in enumerate(rule.peers or ()):
            if isinstance(peer, NetworkPeer) and _wide(peer):
                found.about(
                    "metadata-server-open",
                    policy,
                    peer_path(direction, number, index),
                    "includes 169.254.169.254, where clouds serve instance metadata and "
                    "credentials to whoever asks",
                    "add 169.254.0.0/16 to its except"
                    if isinstance(policy, NetworkPolicy)
                    else "deny 169.254.0.0/16 before this rule",
                )
                break


def _allows(rule: Rule) -> bool:
    return not isinstance(rule, ClusterRule) or rule.action is Action.ACCEPT


def _wide(peer: NetworkPeer) -> bool:
    return any(first <= METADATA <= last for first, last in ranges_of(peer)) and any(
        first <= METADATA <= last and last - first + 1 > _LINK_LOCAL
        for cidr in peer.cidrs
        for first, last in cidr.ranges
    )


# -- the union of NetworkPolicies -----------------------------------------------------------


def _check_opened(view: View, found: Collector) -> None:
    """NetworkPolicies that restrict nothing, since another allows everything to their pods."""
    for direction in Direction:
        wide: dict[str, list[NetworkPolicy]] = {}
        for policy in view.network:
            if any(_everything(rule) for rule in policy.rules[direction] or ()):
                wide.setdefault(policy.namespace, []).append(policy)
        for policy in view.network:
            others = wide.get(policy.namespace)
            rules = policy.rules[direction]
            if not others or rules is None or policy in others:
                continue
            opening = [other.name for other in others if _all_pods(view, policy, other)]
            if not opening:
                continue
            verb = "allows" if len(opening) == 1 else "allow"
            found.about(
                "opened-elsewhere",
                policy,
                f"spec.{direction.text}" if rules else "spec.policyTypes",
                f"restricts no {direction.text}: {listing(opening)} {verb} all of it to the same "
                "pods, and what one NetworkPolicy allows no other takes back",
                "delete the rule that allows everything, if that is the mistake",
                Severity.WARNING if rules else Severity.INFO,
            )


def _everything(rule: NetworkRule) -> bool:
    if rule.ports is not None:
        return False
    if rule.peers is None:
        return True
    spans = [s for p in rule.peers if isinstance(p, NetworkPeer) for s in ranges_of(p)]
    return _covers(spans, IPV4) and _covers(spans, _GLOBAL_IPV6)


def _all_pods(view: View, policy: NetworkPolicy, other: NetworkPolicy) -> bool:
    """Whether every pod that ``policy`` selects is selected by ``other``, here or in general."""
    if view.overlap.implies(subject_of(policy), subject_of(other)):
        return True
    number = view.selectors.number(subject_of(other))
    identities = view.selected_identities(subject_of(policy))
    return bool(identities) and all(number in identity.matched for identity in identities)
