"""Rules that never decide: shadowed, redundant, overruled.

A rule is dead when in every cell that it matches some rule before it matches as well.
That is first asked of the possible world (``audit.view``), whose answer holds for whatever
pods there are, and then of the input's own pods (``audit.present``).
"""

from knp_py.audit.cells import Placed, TierTable, ends_of, least, ports_of
from knp_py.audit.findings import Collector, describe, listing, rule_path
from knp_py.audit.present import Present
from knp_py.audit.view import View
from knp_py.engine.policies import subject_of
from knp_py.model.policy import ClusterNetworkPolicy, Direction, Policy, Tier

Tables = dict[tuple[Tier, Direction], TierTable]

_VERB = {"Accept": "accepts", "Deny": "denies", "Pass": "passes on"}


class Budget:
    """Bounds the work: cells that may still be looked at, and rules left unchecked."""

    def __init__(self, cells: int) -> None:
        self._left = cells
        self.unchecked = 0

    def spend(self, cells: int) -> bool:
        """Whether there is room for so much more; counts it."""
        self._left -= cells
        return self._left >= 0


def check(view: View, tabs: Tables, found: Collector, budget: Budget) -> None:
    """Every ClusterNetworkPolicy rule, then every NetworkPolicy rule."""
    for (tier, direction), table in tabs.items():
        if not table.rules:
            continue
        admin = tabs[Tier.ADMIN, direction] if tier is Tier.BASELINE else None
        present = Present(view, table) if view.pods else None
        for placed in table.rules:
            _check_cluster_rule(view, table, placed, admin, present, found, budget)
    for direction in Direction:
        for table in _namespace_tables(view, direction):
            _check_union(table, found, budget)
            _check_overruled(table, tabs[Tier.ADMIN, direction], found, budget)


def _namespace_tables(view: View, direction: Direction) -> list[TierTable]:
    homes: dict[str, list[Policy]] = {}
    for policy in view.network:
        if policy.rules[direction]:
            homes.setdefault(policy.namespace, []).append(policy)
    return [
        TierTable(view, policies, Tier.NETWORK_POLICY, direction) for policies in homes.values()
    ]


# -- one tier -------------------------------------------------------------------------------


def covered(table: TierTable, placed: Placed, others: int, budget: Budget) -> int | None:
    """Who takes the rule's flows, if some of ``others`` matches in each of its cells.

    0 when a cell is left to the rule; None when the budget ends first.
    """
    takers = 0
    ports = least(table.ports_must(placed))
    for end in ends_of(table.view, placed):
        fixed = table.end_must(end)
        for mask in table.fewest(end.ranges):
            for port_mask in ports:
                bits = (mask | fixed) & others & port_mask
                if not bits:
                    return 0
                takers |= bits & -bits
            if not budget.spend(len(ports)):
                return None
    return takers


def _check_cluster_rule(
    view: View,
    table: TierTable,
    placed: Placed,
    admin: TierTable | None,
    present: Present | None,
    found: Collector,
    budget: Budget,
) -> None:
    policy = placed.policy
    subject = subject_of(policy)
    if table.chain.skipped & placed.bit or not view.overlap.possible(subject):
        return  # said by other checks
    earlier = _before(table, placed)
    takers = covered(table, placed, earlier & table.must(subject), budget)
    if takers is None:
        budget.unchecked += 1
        return
    if takers:
        _report(table, placed, takers, found)
        return
    if admin is not None:
        takers = _overruled(admin, placed, budget)
        if takers is None:
            budget.unchecked += 1
            return
        if takers:
            _report_overruled(admin, placed, takers, found)
            return
    if present is not None and found.wants("shadowed-now"):
        now = present.takers(placed, earlier, budget)
        if now is None:
            budget.unchecked += 1
        elif now:
            found.about(
                "shadowed-now",
                policy,
                rule_path(placed.direction, placed.number),
                f"with the pods of the input it never decides: {_by(table, placed, now)} first",
                "nothing, if pods that only this rule matches may come; else it can go",
            )


def _before(table: TierTable, placed: Placed) -> int:
    """Rules that the API certainly asks before this one: equal priorities have no order."""
    bits = 0
    for other, mask in table.of_policy:
        if other is placed.policy:
            return bits | (mask & (placed.bit - 1))
        if _priority(other) < _priority(placed.policy):
            bits |= mask
    return bits


def _priority(policy: Policy) -> int:
    return policy.priority if isinstance(policy, ClusterNetworkPolicy) else 0


def _report(table: TierTable, placed: Placed, takers: int, found: Collector) -> None:
    policy = placed.policy
    path = rule_path(placed.direction, placed.number)
    own = table.chain.rulings[placed.bit.bit_length() - 1].action
    same = all(table.chain.rulings[n].action == own for n in _numbers(takers))
    if same:
        found.about(
            "redundant-rule",
            policy,
            path,
            f"changes nothing: {_by(table, placed, takers)} already",
            "delete it, or keep it as documentation",
        )
        return
    first = table.rule(takers & -takers)
    if first.policy is policy:
        fix = f"move it before {rule_path(first.direction, first.number)}, or delete it"
    else:
        priority = _priority(first.policy)
        fix = (
            f"give the policy a priority below {priority}, or delete the rule"
            if priority
            else f"make {describe(first.policy)} narrower, or delete the rule"
        )
    found.about(
        "shadowed-rule", policy, path, f"never decides: {_by(table, placed, takers)} first", fix
    )


def _numbers(bits: int) -> list[int]:
    return [n for n in range(bits.bit_length()) if bits >> n & 1]


def _by(table: TierTable, placed: Placed, takers: int) -> str:
    """``spec.egress[0] of X denies all its flows`` of the rules that take a rule's flows."""
    rules = [table.rules[n] for n in _numbers(takers)]
    verbs = {table.chain.rulings[n].action or "" for n in _numbers(takers)}
    verb = _VERB[next(iter(verbs))] if len(verbs) == 1 else "decides"
    if len(rules) == 1:
        return f"{_name(table, rules[0], placed)} {verb} every flow it matches"
    names = listing(_name(table, rule, placed) for rule in rules)
    return f"{names} together {'decide' if verb == 'decides' else 'take'} every flow it matches"


def _name(table: TierTable, rule: Placed, seen_from: Placed) -> str:
    text = rule_path(rule.direction, rule.number)
    ruling = table.chain.rulings[rule.bit.bit_length() - 1]
    if ruling.rule_name:
        text += f" {ruling.rule_name!r}"
    if rule.policy is not seen_from.policy:
        text += f" of {describe(rule.policy)}"
        if isinstance(rule.policy, ClusterNetworkPolicy):
            text += f" (priority {rule.policy.priority})"
    if ruling.reason:
        text += " (which fails closed)"
    return text


# -- between tiers --------------------------------------------------------------------------


def _overruled(admin: TierTable, placed: Placed, budget: Budget) -> int | None:
    """Admin rules that certainly decide every flow which the rule matches.

    0 when a flow may be left to the rule; None when the budget ends first.
    """
    subject = subject_of(placed.policy)
    must, may = admin.must(subject), admin.may(subject)
    final = must & ~admin.chain.pass_bits
    passing = may & admin.chain.pass_bits
    if not final:
        return 0
    if _left(admin, placed, final):
        return 0
    takers = 0
    ports = {
        (mask & final, possible & passing)
        for part in ports_of(placed)
        for mask, possible in zip(
            admin.port_masks(part), admin.port_masks(part, may=True), strict=True
        )
    }
    for end in ends_of(admin.view, placed):
        sure = admin.end_must(end) & final
        seen: set[tuple[int, int]] = set()
        for mask, perhaps in admin.spans(end):
            cell = (mask & final | sure, (mask | perhaps) & passing)
            if cell in seen:
                continue
            seen.add(cell)
            decides, clears = cell
            for certain, possible in ports:
                bits = decides & certain
                low = bits & -bits
                if not low or clears & possible & (low - 1):
                    return 0
                takers |= low
            if not budget.spend(len(ports)):
                return None
    return takers


def _left(admin: TierTable, placed: Placed, final: int) -> bool:
    """Whether there is a cell of the rule that no final Admin rule certainly matches."""
    for end in ends_of(admin.view, placed):
        sure = admin.end_must(end) & final
        for mask in admin.fewest(end.ranges):
            decides = mask & final | sure
            for part in ports_of(placed):
                if any(not decides & certain for certain in admin.port_masks(part)):
                    return True
    return False


def _report_overruled(admin: TierTable, placed: Placed, takers: int, found: Collector) -> None:
    own = placed.rule
    action = getattr(own, "action", None)
    wanted = "Accept" if action is None else action.value
    if all(admin.chain.rulings[n].action == wanted for n in _numbers(takers)):
        return  # the same either way: a second line of defence is no mistake
    found.about(
        "overruled-rule",
        placed.policy,
        rule_path(placed.direction, placed.number),
        f"has no effect: in the Admin tier {_by(admin, placed, takers)} before it is asked",
        "nothing, if the Admin tier is meant to win; else put a Pass before that rule",
    )


# -- NetworkPolicies ------------------------------------------------------------------------


def _check_union(table: TierTable, found: Collector, budget: Budget) -> None:
    """Rules whose flows other rules allow to the same pods: a union has no order."""
    if not found.wants("redundant-rule") or len(table.rules) < 2:
        return
    gone = 0
    for placed in reversed(table.rules):  # of two equal rules the later one is redundant
        if table.chain.skipped & placed.bit:
            continue
        subject = subject_of(placed.policy)
        others = table.must(subject) & ~gone & ~placed.bit
        takers = covered(table, placed, others, budget) if others else 0
        if takers is None:
            budget.unchecked += 1
            continue
        if not takers:
            continue
        gone |= placed.bit
        opened = f"spec.{table.direction.text}"
        if found.has("opened-elsewhere", describe(placed.policy), opened):
            continue  # said of the whole policy
        names = listing(_name(table, table.rules[n], placed) for n in _numbers(takers))
        verb = "allows" if takers.bit_count() == 1 else "allow"
        found.about(
            "redundant-rule",
            placed.policy,
            rule_path(placed.direction, placed.number),
            f"adds nothing: {names} already {verb} every flow it matches to the same pods",
            "delete it, or narrow the wider rule if that is the mistake",
        )


def _check_overruled(table: TierTable, admin: TierTable, found: Collector, budget: Budget) -> None:
    if not found.wants("overruled-rule") or not admin.rules:
        return
    for placed in table.rules:
        if table.chain.skipped & placed.bit:
            continue
        if not table.view.overlap.possible(subject_of(placed.policy)):
            continue
        takers = _overruled(admin, placed, budget)
        if takers is None:
            budget.unchecked += 1
        elif takers:
            _report_overruled(admin, placed, takers, found)
