import pytest
from helpers import builders as b
from helpers.findings import findings_of, ids, paths

from knp_py.audit.lint import lint
from knp_py.model.changes import ClusterObject
from knp_py.model.policy import ClusterRule, Port, Tier

ALL = b.networks("0.0.0.0/0", "::/0")
WEB = b.pods(b.select({"app": "web"}))
DB = b.pods(b.select({"app": "db"}))


def egress(*rules: ClusterRule) -> list[str]:
    """What is dead among the rules of one policy, no pods given: ``id number``."""
    found = lint([b.cnp("c", egress=rules)])
    dead = {"shadowed-rule", "redundant-rule"}
    return [f"{f.id} {f.path.removeprefix('spec.egress')}" for f in found if f.id in dead]


# One policy.


def test_a_catch_all_deny_shadows_what_follows() -> None:
    later = b.accept(b.networks("192.0.2.0/24"), b.networks("2001:db8::/32"))
    assert egress(b.deny(ALL), later) == ["shadowed-rule [1]"]
    assert egress(later, b.deny(ALL)) == []


def test_of_one_family_it_does_not_shadow_the_other() -> None:
    later = b.accept(b.networks("192.0.2.0/24", "2001:db8::/32"))
    assert egress(b.deny(b.networks("0.0.0.0/0")), later) == []


def test_pods_have_addresses_too() -> None:
    assert egress(b.deny(ALL), b.accept(WEB)) == ["shadowed-rule [1]"]
    assert egress(b.deny(b.networks("10.0.0.0/8")), b.accept(WEB)) == []


def test_halves_make_a_whole() -> None:
    halves = [b.deny(b.networks("10.0.0.0/9")), b.deny(b.networks("10.128.0.0/9"))]
    whole = b.accept(b.networks("10.0.0.0/8"))
    assert egress(*halves, whole) == ["shadowed-rule [2]"]
    assert egress(halves[0], whole) == []


def test_the_same_action_is_redundant_not_shadowed() -> None:
    assert egress(b.deny(ALL), b.deny(b.networks("10.0.0.0/8"))) == ["redundant-rule [1]"]


def test_ports() -> None:
    def web(*ports: Port) -> ClusterRule:
        return b.accept(WEB, ports=ports)

    assert egress(b.deny(b.pods(), ports=[b.tcp(1, 1024)]), web(b.tcp(80), b.tcp(443))) == [
        "shadowed-rule [1]"
    ]
    assert egress(b.deny(b.pods(), ports=[b.tcp(1, 1024)]), web(b.tcp(80), b.tcp(8080))) == []
    assert egress(b.deny(b.pods(), ports=[b.tcp(80)]), web(b.udp(80))) == []
    # Without ports a rule matches ICMP as well, which no rule with ports does.
    assert egress(b.deny(b.pods(), ports=[b.tcp(), b.udp(), b.sctp()]), b.accept(WEB)) == []


def test_named_ports_may_be_any_port() -> None:
    http = b.accept(WEB, ports=[b.named("http", None)])
    assert egress(b.deny(b.pods(), ports=[b.named("http", None)]), http) == ["shadowed-rule [1]"]
    assert egress(b.deny(b.pods(), ports=[b.tcp(80)]), http) == []
    assert egress(b.deny(b.pods(), ports=[b.tcp(), b.udp(), b.sctp()]), http) == [
        "shadowed-rule [1]"
    ]
    assert (
        egress(b.deny(b.pods(), ports=[b.named("http")]), b.accept(WEB, ports=[b.tcp(80)])) == []
    )


def test_peers_by_label() -> None:
    prod = b.pods(b.select({"app": "web"}), b.select({"env": "prod"}))
    assert egress(b.deny(WEB), b.accept(prod)) == ["shadowed-rule [1]"]
    assert egress(b.deny(prod), b.accept(WEB)) == []
    assert egress(b.deny(WEB), b.accept(WEB, DB)) == []


def test_nodes() -> None:
    old, linux = b.select({"zone": "a", "os": "linux"}), b.select({"os": "linux"})
    assert egress(b.deny(b.nodes(linux)), b.accept(b.nodes(old))) == ["shadowed-rule [1]"]
    assert egress(b.deny(b.nodes(old)), b.accept(b.nodes(linux))) == []
    assert egress(b.deny(b.namespaces()), b.accept(b.nodes())) == []


def test_names() -> None:
    wide, one = b.domains("*.example.com"), b.domains("API.example.com.")
    assert egress(b.accept(wide), b.accept(one)) == ["redundant-rule [1]"]
    assert egress(b.accept(one), b.accept(wide)) == []
    assert egress(b.deny(ALL), b.accept(one)) == ["shadowed-rule [1]"]
    assert egress(b.accept(one), b.deny(ALL)) == []


def test_a_pass_takes_flows_as_well() -> None:
    assert egress(b.pass_on(b.pods()), b.deny(WEB)) == ["shadowed-rule [1]"]


def test_a_rule_that_fails_closed_shadows_everything_after_it() -> None:
    rules = [b.deny(b.unknown_peer("futurePeer")), b.accept(b.networks("192.0.2.0/24"))]
    [finding] = findings_of("shadowed-rule", b.cnp("c", egress=rules))
    assert "(which fails closed)" in finding.message
    # An Accept that fails closed matches nothing: that is said, not that it is shadowed.
    assert egress(b.deny(ALL), b.accept(b.unknown_peer("futurePeer"))) == []


def test_a_rule_that_matches_nothing_is_not_called_shadowed() -> None:
    never = b.pods(b.select({"app": "x"}, b.not_in("app", "x")))
    assert egress(b.deny(ALL), b.accept(never)) == []


# Policies of one tier.


def test_an_earlier_policy_of_the_same_pods() -> None:
    first = b.cnp("first", priority=1, egress=[b.deny(ALL, name="all")])
    later = b.cnp("later", priority=2, subject=WEB, egress=[b.accept(b.networks("10.0.0.0/8"))])
    [finding] = findings_of("shadowed-rule", first, later)
    assert finding.object == "ClusterNetworkPolicy later"
    assert "'all' of ClusterNetworkPolicy first (priority 1) denies" in finding.message
    assert "below 1" in finding.fix


def test_an_earlier_policy_of_some_of_the_pods_shadows_nothing() -> None:
    first = b.cnp("first", priority=1, subject=WEB, egress=[b.deny(ALL)])
    later = b.cnp("later", priority=2, egress=[b.accept(b.networks("10.0.0.0/8"))])
    assert not paths("shadowed-rule", first, later)


def test_equal_priorities_have_no_order() -> None:
    first = b.cnp("a", priority=1, egress=[b.deny(ALL)])
    later = b.cnp("z", priority=1, egress=[b.accept(b.networks("10.0.0.0/8"))])
    assert ids([first, later]) == ["equal-priority"]


def test_priority_0_cannot_be_preceded() -> None:
    first = b.cnp("a", priority=0, egress=[b.deny(ALL)])
    later = b.cnp("z", priority=1, egress=[b.accept(b.networks("10.0.0.0/8"))])
    [finding] = findings_of("shadowed-rule", first, later)
    assert finding.fix.startswith("make ClusterNetworkPolicy a narrower")


# Tiers.


def test_a_baseline_rule_that_admin_never_leaves_anything() -> None:
    admin = b.cnp("admin", egress=[b.deny(ALL)])
    baseline = b.cnp("base", Tier.BASELINE, egress=[b.accept(b.networks("10.0.0.0/8"))])
    assert paths("overruled-rule", admin, baseline) == ["base spec.egress[0]"]
    floor = b.cnp("base", Tier.BASELINE, egress=[b.deny(ALL)])
    assert ids([admin, floor]) == []


def test_a_pass_may_leave_it_something() -> None:
    baseline = b.cnp("base", Tier.BASELINE, egress=[b.accept(ALL)])
    some = b.cnp("admin", subject=WEB, priority=0, egress=[b.pass_on(DB)])
    admin = b.cnp("deny", priority=1, egress=[b.deny(ALL)])
    assert not paths("overruled-rule", some, admin, baseline)
    # Too late: the deny comes first.
    late = b.cnp("late", subject=WEB, priority=2, egress=[b.pass_on(DB)])
    assert paths("overruled-rule", late, admin, baseline) == ["base spec.egress[0]"]


def test_a_network_policy_rule_that_admin_denies() -> None:
    admin = b.cnp("admin", egress=[b.deny(b.in_namespace("db"))])
    policy = b.netpol(
        "shop/p",
        egress=[b.allow(b.in_namespace("db"), ports=[b.tcp(5432)]), b.allow(b.own_pods())],
    )
    [finding] = findings_of("overruled-rule", admin, policy)
    assert finding.path == "spec.egress[0]"
    assert "Admin tier" in finding.message


def test_a_network_policy_rule_that_admin_accepts_is_a_second_line() -> None:
    admin = b.cnp("admin", egress=[b.accept(b.in_namespace("db"))])
    policy = b.netpol("shop/p", egress=[b.allow(b.in_namespace("db"))])
    assert ids([admin, policy]) == []


# NetworkPolicies are a union.


def test_a_rule_that_another_one_includes() -> None:
    wide = b.allow(b.own_pods())
    narrow = b.allow(b.own_pods(b.select({"app": "web"})), ports=[b.tcp(80)])
    assert paths("redundant-rule", b.netpol("a/p", ingress=[narrow, wide])) == [
        "a/p spec.ingress[0]"
    ]
    two = [b.netpol("a/narrow", ingress=[narrow]), b.netpol("a/wide", ingress=[wide])]
    [finding] = findings_of("redundant-rule", *two)
    assert finding.object == "NetworkPolicy a/narrow"
    assert "spec.ingress[0] of NetworkPolicy a/wide already allows" in finding.message


def test_of_two_equal_rules_the_later_one_is_redundant() -> None:
    rule = b.allow(b.own_pods())
    assert paths("redundant-rule", b.netpol("a/p", ingress=[rule, rule, rule])) == [
        "a/p spec.ingress[1]",
        "a/p spec.ingress[2]",
    ]


def test_a_policy_of_other_pods_makes_nothing_redundant() -> None:
    rule = b.allow(b.own_pods())
    everyone = b.netpol("a/all", ingress=[rule])
    web = b.netpol("a/web", b.select({"app": "web"}), ingress=[rule])
    elsewhere = b.netpol("z/web", b.select({"app": "web"}), ingress=[rule])
    assert paths("redundant-rule", everyone, web, elsewhere) == ["a/web spec.ingress[0]"]


def test_holes_count() -> None:
    most = b.allow(b.ip_block("10.0.0.0/8", "10.1.0.0/16"))
    hole = b.allow(b.ip_block("10.1.2.0/24"))
    beside = b.allow(b.ip_block("10.2.0.0/16"))
    assert paths("redundant-rule", b.netpol("a/p", egress=[most, hole, beside])) == [
        "a/p spec.egress[2]"
    ]


# Bounds.


@pytest.mark.parametrize("cells", [0, 5])
def test_what_was_not_checked_is_said(cells: int) -> None:
    rules = [b.deny(b.networks(f"10.{n}.0.0/16")) for n in range(16)]
    policy = b.cnp("c", egress=[*rules, b.accept(b.networks("10.0.0.0/12"))])
    found = lint([policy, b.pod("a/p", "10.0.0.1")], cells=cells)
    assert "not-checked" in [finding.id for finding in found]
    assert "not-checked" not in ids([policy])


def test_a_smaller_bound_finds_less_and_nothing_else() -> None:
    halves = [b.networks("10.0.0.0/9"), b.networks("10.128.0.0/9")]
    objects: list[ClusterObject] = [
        b.cnp(
            "admin", priority=1, egress=[*map(b.deny, halves), b.accept(b.networks("10.0.0.0/8"))]
        ),
        b.cnp("tie", priority=1, egress=[b.accept(b.networks("10.0.0.0/8"))]),
        b.cnp("base", Tier.BASELINE, egress=[b.accept(b.networks("10.0.0.0/8"))]),
        b.cnp("now", priority=2, ingress=[b.deny(WEB), b.accept(b.pods(b.select({"x": "y"})))]),
        b.netpol(
            "a/p", egress=[b.allow(b.ip_block("10.0.0.0/8")), b.allow(b.ip_block("10.0.0.0/9"))]
        ),
        b.pod("a/web", "192.0.2.1", labels={"app": "web", "x": "y"}),
    ]
    everything = set(lint(objects))
    bounded = [lint(objects, cells=cells) for cells in range(40)]
    for found in bounded:
        assert {finding for finding in found if finding.id != "not-checked"} <= everything
    assert "not-checked" in {finding.id for finding in bounded[0]}
    assert set(bounded[-1]) == everything
