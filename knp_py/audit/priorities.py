"""Policies of one tier and priority: the API leaves open which of them is asked first."""

from knp_py.audit.cells import Placed, TierTable, ends_of, ports_of
from knp_py.audit.findings import Collector, listing
from knp_py.audit.shadows import Budget, Tables
from knp_py.audit.view import View
from knp_py.engine.policies import subject_of
from knp_py.model.policy import ClusterNetworkPolicy, Direction, Tier


def check(view: View, tabs: Tables, found: Collector, budget: Budget) -> None:
    """Pairs that select the same pods and can disagree about a flow."""
    if not found.wants("equal-priority"):
        return
    for tier, policies in view.cluster.items():
        groups: dict[int, list[ClusterNetworkPolicy]] = {}
        for policy in policies:
            groups.setdefault(policy.priority, []).append(policy)
        for priority, group in sorted(groups.items()):
            if len(group) > 1:
                _check_group(view, tabs, tier, priority, group, found, budget)


def _check_group(
    view: View,
    tabs: Tables,
    tier: Tier,
    priority: int,
    group: list[ClusterNetworkPolicy],
    found: Collector,
    budget: Budget,
) -> None:
    for position, policy in enumerate(group):
        rivals = [
            other.name
            for other in group[:position]
            if _same_pods(view, policy, other)
            and any(_disagree(tabs[tier, d], policy, other, budget) for d in Direction)
        ]
        if rivals:
            found.about(
                "equal-priority",
                policy,
                "spec.priority",
                f"{tier.text} tier, priority {priority}, like {listing(rivals)}, which "
                "decides some of its flows otherwise: the API does not say who is asked first "
                "(knp asks by name)",
                "give each of them a priority of its own",
            )


def _same_pods(view: View, one: ClusterNetworkPolicy, other: ClusterNetworkPolicy) -> bool:
    """Whether both select a pod: one of the input, if it has any, else a possible one."""
    if not view.pods:
        return view.overlap.meets(one.subject, other.subject)
    number = view.selectors.number(other.subject)
    return any(number in view.identity(pod).matched for pod in view.live(subject_of(one)))


def _disagree(
    table: TierTable, one: ClusterNetworkPolicy, other: ClusterNetworkPolicy, budget: Budget
) -> bool:
    """Whether a flow could match rules of both that do different things."""
    of = {id(policy): mask for policy, mask in table.of_policy}
    theirs = of[id(other)]
    for placed in table.rules:
        if placed.policy is one and not table.chain.skipped & placed.bit:
            different = theirs & ~_like(table, placed)
            if different and _touches(table, placed, different, budget):
                return True
    return False


def _like(table: TierTable, placed: Placed) -> int:
    """Rules that do what this one does."""
    action = table.chain.rulings[placed.bit.bit_length() - 1].action
    return sum(1 << n for n, ruling in enumerate(table.chain.rulings) if ruling.action == action)


def _touches(table: TierTable, placed: Placed, others: int, budget: Budget) -> bool:
    """Whether a flow that the rule matches may match one of the others; when in doubt, no."""
    masks = {mask for ports in ports_of(placed) for mask in table.port_masks(ports, may=True)}
    for end in ends_of(table.view, placed):
        spans = set(table.spans(end))
        if end.pods is not None:
            # Names and node addresses that are pods' exist, but nobody means them.
            perhaps = table.pods_may(end.pods)
            spans = {(mask, perhaps) for mask, _ in spans}
        hits = {(span | perhaps) & others for span, perhaps in spans} - {0}
        if not budget.spend(len(hits) * len(masks)):
            return False
        if any(hit & mask for hit in hits for mask in masks):
            return True
    return False
