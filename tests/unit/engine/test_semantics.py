"""semantics.md §1 to §4, a test a sentence: the verdict and what decides it."""

from collections.abc import Callable

import pytest
from helpers import builders as b
from helpers.builders import accept, allow, cnp, deny, netpol, node, pass_on, select
from helpers.judging import snapshot_of
from helpers.oracle import Learned
from helpers.world import World

from knp_py.model.decision import Verdict
from knp_py.model.objects import Pod
from knp_py.model.packet import Proto
from knp_py.model.policy import ClusterRule, NetworkRule, Peer, Port, Tier
from knp_py.model.selectors import LabelSelector

A = b.pod("x/a", "10.0.1.10", "fd00:1::10", labels={"app": "a"}, node="n1")
A2 = b.pod("x/a2", "10.0.1.11", labels={"app": "a2"}, node="n1")
B = b.pod("y/b", "10.0.2.10", labels={"app": "b"}, node="n2", ports=[b.container_port("http", 80)])
N1 = node("n1", "192.168.0.1", "198.51.100.1", labels={"zone": "east"})
N2 = node("n2", "192.168.0.2", labels={"zone": "west"}, pod_cidrs=["10.0.2.0/24"])
X = b.namespace("x", {"team": "red"})
Y = b.namespace("y", {"team": "blue"})
EXT = "203.0.113.5"
CLUSTER = (X, Y, N1, N2, A, A2, B)
OPEN = "allow: Default"


Rule = Callable[..., ClusterRule]  # builders' accept, deny, pass_on, unknown_action
Ends = dict[str, str | Pod]
BY_NAME = cnp(
    "names",
    egress=[accept(b.domains("example.com")), deny(b.networks("0.0.0.0/0", "::/0"))],
)


class TestEndpoints:
    """§1."""

    def test_a_service_address_never_appears_its_backend_does(self) -> None:
        # A flow to the virtual address was not translated: it is no pod's, whoever backs it.
        web = b.service("y/web", "10.96.0.7", selector={"app": "b"})
        policy = netpol("x/to-b", egress=[allow(b.pods(select({"app": "b"})))])
        world = World(*CLUSTER, web, policy)
        assert world.ask(A, "10.96.0.7") == "deny: egress NetworkPolicy, isolated by x/to-b"
        assert world.ask(A, B) == "allow: egress NetworkPolicy x/to-b[0]"

    @pytest.mark.parametrize("source", ["10.0.1.10", "fd00:1::10"])
    def test_a_pod_is_any_ip_of_its_status(self, source: str) -> None:
        world = World(*CLUSTER, netpol("x/none", egress=[]))
        assert world.ask(source, EXT) == "deny: egress NetworkPolicy, isolated by x/none"

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_finished_pods_never_resolve(self, phase: str) -> None:
        job = b.pod("x/job", "10.0.1.20", phase=phase)
        world = World(*CLUSTER, job, netpol("x/none", ingress=[], egress=[]))
        assert world.ask(EXT, job) == OPEN
        assert world.decide(EXT, job).ingress is None

    @pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
    def test_pods_of_other_phases_do(self, phase: str) -> None:
        pod = b.pod("x/p", "10.0.1.20", phase=phase)
        world = World(*CLUSTER, pod, netpol("x/none", ingress=[]))
        assert world.ask(EXT, pod) == "deny: ingress NetworkPolicy, isolated by x/none"

    def test_a_finished_pod_keeps_its_ip_after_another_pod_has_it(self) -> None:
        job = b.pod("x/job", "10.0.1.20", phase="Succeeded", created="2026-05-05T00:00:00Z")
        web = b.pod("y/web", "10.0.1.20")
        world = World(
            *CLUSTER, job, web, netpol("x/none", ingress=[]), netpol("y/ok", ingress=[allow()])
        )
        assert world.ask(EXT, "10.0.1.20") == "allow: ingress NetworkPolicy y/ok[0]"

    def test_of_two_live_pods_with_one_ip_the_later_one_wins(self) -> None:
        old = b.pod("x/old", "10.0.1.20", uid="2", created="2026-01-01T00:00:00Z")
        new = b.pod("y/new", "10.0.1.20", uid="1", created="2026-01-01T00:00:01Z")
        for objects in ((old, new), (new, old)):
            snapshot = snapshot_of((*CLUSTER, *objects))
            assert snapshot.pod_at(new.ips[0]) == new
            clashes = [text for text in snapshot.warnings if "10.0.1.20" in text]
            assert len(clashes) == 1, "and the clash is told once"

    def test_ties_go_by_uid(self) -> None:
        one, two = (b.pod(f"x/p{uid}", "10.0.1.20", uid=uid) for uid in "12")
        assert snapshot_of((one, two)).pod_at(one.ips[0]) == two
        assert snapshot_of((two, one)).pod_at(one.ips[0]) == two

    def test_identity_is_the_uid(self) -> None:
        first = b.pod("x/web-0", "10.0.1.30", uid="1", labels={"app": "web"})
        again = b.pod("x/web-0", "10.0.1.31", uid="2", labels={"app": "web"})
        grant = Learned("1", "example.com", b.address(EXT), 60.0)
        by_name = cnp(
            "names", egress=[accept(b.domains("example.com")), deny(b.networks("0.0.0.0/0"))]
        )
        assert (
            World(first, by_name, learned=[grant]).ask(first, EXT)
            == "allow: egress Admin names[0]"
        )
        assert (
            World(again, by_name, learned=[grant]).ask(again, EXT) == "deny: egress Admin names[1]"
        )

    @pytest.mark.parametrize("address", ["192.168.0.1", "198.51.100.1"])
    def test_a_node_is_its_internal_and_external_addresses(self, address: str) -> None:
        snapshot = snapshot_of(CLUSTER)
        assert snapshot.node_at(b.address(address)) == N1
        assert snapshot.pod_at(b.address(address)) is None

    def test_everything_else_is_external(self) -> None:
        snapshot = snapshot_of(CLUSTER)
        assert snapshot.node_at(b.address(EXT)) is None
        assert snapshot.pod_at(b.address(EXT)) is None

    def test_an_address_in_a_pod_cidr_of_no_known_pod_is_external_and_unidentified(self) -> None:
        stranger = "10.0.2.99"
        world = World(*CLUSTER, netpol("x/pods", ingress=[allow(b.namespaces())]))
        decision = world.decide(stranger, A)
        assert world.ask(stranger, A) == "deny: ingress NetworkPolicy, isolated by x/pods"
        assert decision.unidentified == (b.address(stranger),)
        assert world.decide(B, A).unidentified == ()
        assert world.decide(EXT, A).unidentified == ()

    def test_an_ipv4_mapped_address_is_the_ipv4_address(self) -> None:
        world = World(*CLUSTER, netpol("x/none", ingress=[]))
        assert world.ask("::ffff:203.0.113.5", "::ffff:10.0.1.10") == world.ask(EXT, A)
        assert world.decide(EXT, "::ffff:10.0.1.10").verdict is Verdict.DENY


class TestHostNetwork:
    """§1: host-network pods are their node, as an address, and nobody else."""

    API = b.pod(
        "kube-system/api", "192.168.0.1", labels={"component": "api"}, node="n1", host_network=True
    )

    def test_never_a_subject(self) -> None:
        everything = cnp(
            "all", egress=[deny(b.networks("0.0.0.0/0"))], ingress=[deny(b.namespaces())]
        )
        world = World(*CLUSTER, self.API, netpol("kube-system/none", ingress=[], egress=[]))
        assert world.both(EXT, self.API) == (None, None)
        assert world.both(self.API, EXT) == (None, None)
        assert World(*CLUSTER, self.API, everything).both(self.API, EXT) == (None, None)

    def test_never_a_pod_or_namespace_peer(self) -> None:
        both = [b.namespaces(), b.pods(select({"component": "api"}))]
        world = World(
            *CLUSTER,
            self.API,
            netpol("y/pods", ingress=[allow(*both)]),
            netpol("x/pods", egress=[allow(*both)]),
        )
        assert world.ask(self.API, B) == "deny: ingress NetworkPolicy, isolated by y/pods"
        assert world.ask(A, self.API) == "deny: egress NetworkPolicy, isolated by x/pods"

    def test_as_an_address_it_is_its_node(self) -> None:
        world = World(
            *CLUSTER,
            self.API,
            cnp("n", egress=[deny(b.nodes(select({"zone": "east"})), ports=[b.tcp(6443)])]),
            netpol("y/block", ingress=[allow(b.ip_block("192.168.0.1/32"))]),
        )
        assert world.ask(A, self.API, 6443) == "deny: egress Admin n[0]"
        assert world.ask(self.API, B) == "allow: ingress NetworkPolicy y/block[0]"


class TestDirections:
    """§2."""

    def test_egress_is_the_sources_and_ingress_the_destinations(self) -> None:
        world = World(*CLUSTER, netpol("x/none", ingress=[]))
        assert world.both(A, B) == (OPEN, OPEN)
        assert world.both(B, A) == (OPEN, "deny: ingress NetworkPolicy, isolated by x/none")

    def test_a_direction_whose_endpoint_is_not_a_pod_allows(self) -> None:
        world = World(*CLUSTER)
        assert world.both(EXT, A) == (None, OPEN)
        assert world.both(A, EXT) == (OPEN, None)
        assert world.both("192.168.0.2", A) == (None, OPEN)
        assert world.both(EXT, "192.168.0.2") == (None, None)
        assert world.decide(EXT, "192.168.0.2").verdict is Verdict.ALLOW

    def test_allowed_only_when_both_allow(self) -> None:
        out = netpol("x/out", egress=[allow()])
        closed = netpol("y/none", ingress=[])
        assert World(*CLUSTER, out, closed).both(A, B) == (
            "allow: egress NetworkPolicy x/out[0]",
            "deny: ingress NetworkPolicy, isolated by y/none",
        )
        assert World(*CLUSTER, out, closed).decide(A, B).verdict is Verdict.DENY

    def test_when_egress_denies_ingress_is_not_judged(self) -> None:
        world = World(*CLUSTER, netpol("x/none", egress=[]), netpol("y/none", ingress=[]))
        assert world.both(A, B) == ("deny: egress NetworkPolicy, isolated by x/none", None)

    @pytest.mark.parametrize(
        ("src", "dst"), [("10.0.1.10", "10.0.1.10"), ("10.0.1.10", "fd00:1::10")]
    )
    def test_a_pods_traffic_to_its_own_ips_is_always_allowed(self, src: str, dst: str) -> None:
        floor = cnp(
            "floor",
            egress=[deny(b.networks("0.0.0.0/0", "::/0"))],
            ingress=[deny(b.unknown_peer())],
        )
        world = World(*CLUSTER, floor, netpol("x/none", ingress=[], egress=[]))
        assert world.decide(src, dst).verdict is Verdict.ALLOW
        assert world.decide(A, A2).verdict is Verdict.DENY


class TestClusterTiers:
    """§3: Admin, then NetworkPolicies, then Baseline, then allow."""

    EGRESS_ANY = b.networks("0.0.0.0/0", "::/0")

    def test_after_baseline_allow(self) -> None:
        assert World(*CLUSTER).ask(A, B) == OPEN

    def test_only_policies_whose_subject_selects_the_pod(self) -> None:
        policy = cnp(
            "red", subject=b.namespaces(select({"team": "red"})), egress=[deny(self.EGRESS_ANY)]
        )
        world = World(*CLUSTER, policy)
        assert world.ask(A, EXT) == "deny: egress Admin red[0]"
        assert world.ask(B, EXT) == OPEN

    def test_a_subject_of_pods_needs_both_selectors(self) -> None:
        subject = b.pods(select({"app": "a"}), select({"team": "red"}))
        twin = b.pod("y/twin", "10.0.2.11", labels={"app": "a"})
        world = World(*CLUSTER, twin, cnp("p", subject=subject, egress=[deny(self.EGRESS_ANY)]))
        assert world.ask(A, EXT) == "deny: egress Admin p[0]"
        assert world.ask(A2, EXT) == OPEN
        assert world.ask(twin, EXT) == OPEN

    def test_ordered_by_priority_zero_first(self) -> None:
        world = World(
            *CLUSTER,
            cnp("a-late", Tier.ADMIN, 1000, egress=[deny(self.EGRESS_ANY)]),
            cnp("b-early", Tier.ADMIN, 0, egress=[accept(self.EGRESS_ANY)]),
        )
        assert world.ask(A, EXT) == "allow: egress Admin b-early[0]"

    def test_priorities_are_numbers(self) -> None:
        world = World(
            *CLUSTER,
            cnp("hundred", Tier.ADMIN, 100, egress=[deny(self.EGRESS_ANY)]),
            cnp("nine", Tier.ADMIN, 9, egress=[accept(self.EGRESS_ANY)]),
        )
        assert world.ask(A, EXT) == "allow: egress Admin nine[0]"

    def test_ties_by_name(self) -> None:
        world = World(
            *CLUSTER,
            cnp("b-deny", Tier.ADMIN, 10, egress=[deny(self.EGRESS_ANY)]),
            cnp("a-accept", Tier.ADMIN, 10, egress=[accept(self.EGRESS_ANY)]),
        )
        assert world.ask(A, EXT) == "allow: egress Admin a-accept[0]"

    def test_the_first_rule_that_matches_decides(self) -> None:
        policy = cnp(
            "p",
            egress=[
                deny(b.in_namespace("y"), ports=[b.tcp(443)]),
                accept(b.in_namespace("y")),
                deny(b.in_namespace("y")),
            ],
        )
        world = World(*CLUSTER, policy)
        assert world.ask(A, B, 443) == "deny: egress Admin p[0]"
        assert world.ask(A, B, 80) == "allow: egress Admin p[1]"

    def test_rules_of_the_other_direction_do_not_count(self) -> None:
        world = World(*CLUSTER, cnp("in", ingress=[deny(b.namespaces())]))
        assert world.both(A, EXT) == (OPEN, None)
        assert world.both(A, B) == (OPEN, "deny: ingress Admin in[0]")

    def test_accept_is_final_for_this_direction_only(self) -> None:
        world = World(
            *CLUSTER,
            cnp("yes", egress=[accept(b.namespaces())]),
            netpol("x/none", egress=[]),
            netpol("y/none", ingress=[]),
        )
        assert world.both(A, B) == (
            "allow: egress Admin yes[0]",
            "deny: ingress NetworkPolicy, isolated by y/none",
        )

    def test_deny_is_final(self) -> None:
        world = World(
            *CLUSTER, cnp("no", egress=[deny(b.namespaces())]), netpol("x/all", egress=[allow()])
        )
        assert world.ask(A, B) == "deny: egress Admin no[0]"

    def test_pass_leaves_the_tier_not_only_the_policy(self) -> None:
        world = World(
            *CLUSTER,
            cnp("one", Tier.ADMIN, 1, egress=[pass_on(b.namespaces()), deny(b.namespaces())]),
            cnp("two", Tier.ADMIN, 2, egress=[deny(b.namespaces())]),
            netpol("x/all", egress=[allow()]),
        )
        assert world.ask(A, B) == "allow: egress NetworkPolicy x/all[0]"

    def test_pass_in_baseline_ends_in_allow(self) -> None:
        rules = [pass_on(b.in_namespace("y")), deny(b.namespaces())]
        world = World(*CLUSTER, cnp("base", Tier.BASELINE, egress=rules))
        assert world.ask(A, B) == OPEN
        assert world.ask(A, A2) == "deny: egress Baseline base[1]"

    def test_no_match_goes_on_as_pass_does(self) -> None:
        world = World(
            *CLUSTER,
            cnp("adm", egress=[deny(b.in_namespace("z"))]),
            cnp("base", Tier.BASELINE, egress=[deny(b.in_namespace("y"))]),
        )
        assert world.ask(A, B) == "deny: egress Baseline base[0]"

    def test_tiers_do_not_mix_priorities(self) -> None:
        world = World(
            *CLUSTER,
            cnp("base", Tier.BASELINE, 0, egress=[accept(b.namespaces())]),
            cnp("adm", Tier.ADMIN, 1000, egress=[deny(b.namespaces())]),
        )
        assert world.ask(A, B) == "deny: egress Admin adm[0]"


class TestNetworkPolicyTier:
    """§3."""

    BASE = cnp(
        "base",
        Tier.BASELINE,
        egress=[deny(b.networks("0.0.0.0/0"))],
        ingress=[deny(b.namespaces())],
    )

    def test_none_selects_the_pod_continue_with_baseline(self) -> None:
        world = World(
            *CLUSTER, self.BASE, netpol("x/other", select({"app": "z"}), egress=[allow()])
        )
        assert world.ask(A, EXT) == "deny: egress Baseline base[0]"

    def test_another_namespaces_policies_select_nothing_here(self) -> None:
        world = World(*CLUSTER, netpol("y/none", egress=[]))
        assert world.ask(A, EXT) == OPEN
        assert world.ask(B, EXT) == "deny: egress NetworkPolicy, isolated by y/none"

    def test_allowed_if_any_rule_of_any_of_them_matches(self) -> None:
        world = World(
            *CLUSTER,
            netpol("x/a-none", egress=[]),
            netpol(
                "x/b-some",
                egress=[allow(b.in_namespace("z")), allow(b.in_namespace("y"), ports=[b.tcp(80)])],
            ),
        )
        assert world.ask(A, B) == "allow: egress NetworkPolicy x/b-some[1]"
        assert world.ask(A, B, 81) == "deny: egress NetworkPolicy, isolated by x/a-none, x/b-some"

    @pytest.mark.parametrize("rules", [[allow()], []])
    def test_final_either_way_baseline_is_not_consulted(self, rules: list[NetworkRule]) -> None:
        decision = World(*CLUSTER, self.BASE, netpol("x/np", egress=rules)).decide(A, EXT)
        assert decision.decided_by is not None
        assert decision.decided_by.tier is Tier.NETWORK_POLICY
        assert decision.decided_by.allowed is bool(rules)

    def test_a_policy_that_isolates_only_ingress_says_nothing_about_egress(self) -> None:
        world = World(*CLUSTER, self.BASE, netpol("x/in", ingress=[allow()]))
        assert world.ask(A, EXT) == "deny: egress Baseline base[0]"

    def test_a_policy_that_isolates_only_egress_says_nothing_about_ingress(self) -> None:
        world = World(*CLUSTER, self.BASE, netpol("y/out", egress=[allow()]))
        assert world.both(EXT, B) == (None, OPEN)
        assert World(*CLUSTER, self.BASE, netpol("x/in", egress=[allow()])).both(A2, A) == (
            "allow: egress NetworkPolicy x/in[0]",
            "deny: ingress Baseline base[0]",
        )

    @pytest.mark.parametrize("source", ["192.168.0.1", "198.51.100.1"])
    def test_traffic_from_the_pods_own_node_is_always_allowed(self, source: str) -> None:
        world = World(*CLUSTER, netpol("x/none", ingress=[]))
        assert world.ask(source, A) == "allow: ingress NetworkPolicy, from its own node"

    def test_status_host_ips_are_the_own_node_too(self) -> None:
        lonely = b.pod("x/p", "10.0.1.20", host_ips=["192.168.0.77"])
        world = World(*CLUSTER, lonely, netpol("x/none", ingress=[]))
        assert world.ask("192.168.0.77", lonely) == (
            "allow: ingress NetworkPolicy, from its own node"
        )

    def test_other_nodes_traffic_is_not(self) -> None:
        world = World(*CLUSTER, netpol("x/none", ingress=[]))
        assert world.ask("192.168.0.2", A) == "deny: ingress NetworkPolicy, isolated by x/none"

    def test_an_admin_deny_cannot_match_the_node_ingress_peers_select_pods_only(self) -> None:
        everyone = cnp("all", ingress=[deny(b.namespaces())])
        world = World(*CLUSTER, everyone, netpol("x/none", ingress=[]))
        assert world.ask("192.168.0.1", A) == "allow: ingress NetworkPolicy, from its own node"

    def test_an_admin_rule_that_fails_closed_denies_the_node_too(self) -> None:
        # "denies everything in that direction" comes before the tier that would allow it.
        closed = cnp("closed", ingress=[deny(b.unknown_peer())])
        world = World(*CLUSTER, closed, netpol("x/none", ingress=[]))
        assert world.ask("192.168.0.1", A) == "deny: ingress Admin closed[0]"

    def test_traffic_from_a_pod_to_its_node_is_judged_as_any_other(self) -> None:
        world = World(*CLUSTER, netpol("x/none", egress=[]))
        assert world.ask(A, "192.168.0.1") == "deny: egress NetworkPolicy, isolated by x/none"


class TestClusterPeers:
    """§4, the table of peers."""

    @pytest.mark.parametrize(
        ("peer", "matches"),
        [
            (b.namespaces(), "abt"),
            (b.namespaces(select({"team": "blue"})), "bt"),
            (b.namespaces(select({"team": "green"})), ""),
            (b.in_namespace("x"), "a"),
            (b.pods(), "abt"),
            (b.pods(select({"app": "b"})), "b"),
            (b.pods(select({"app": "b"}), select({"team": "red"})), ""),
            (b.pods(select({"app": "t"}), select({"team": "blue"})), "t"),
            (b.networks("10.0.0.0/8"), "abt"),
            (b.networks("10.0.2.0/24", "203.0.113.5/32"), "bte"),
            (b.networks("192.168.0.0/24"), "12"),
            (b.networks("0.0.0.0/0"), "abt129e"),
            (b.networks("::/0"), ""),
            (b.networks("::ffff:0:0/96"), "abt129e"),
            (b.networks("::ffff:10.0.0.0/104"), "abt"),
            (b.nodes(), "129"),
            (b.nodes(select({"zone": "west"})), "29"),
        ],
    )
    def test_what_egress_peers_match(self, peer: Peer, matches: str) -> None:
        west = node("n2", "192.168.0.2", labels={"zone": "west"}, other_ips=["198.51.100.9"])
        target = b.pod("y/t", "10.0.2.20", labels={"app": "t"})
        source = b.pod("z/source", "10.0.9.9")
        ends: Ends = {"a": A, "b": B, "t": target, "e": EXT, "9": "198.51.100.9"}
        ends |= {"1": "192.168.0.1", "2": "192.168.0.2"}
        policy = cnp("p", subject=b.in_namespace("z"), egress=[deny(peer)])
        world = World(X, Y, N1, west, A, B, target, source, policy)
        denied = {key for key, end in ends.items() if world.ask(source, end) != OPEN}
        assert denied == set(matches)

    @pytest.mark.parametrize(
        ("peer", "matches"),
        [
            (b.namespaces(), "ab"),
            (b.in_namespace("y"), "b"),
            (b.pods(select({"app": "a"})), "a"),
            (b.pods(select({"app": "a"}), select({"team": "blue"})), ""),
        ],
    )
    def test_what_ingress_peers_match(self, peer: Peer, matches: str) -> None:
        target = b.pod("z/t", "10.0.9.9")
        ends: Ends = {"a": A, "b": B, "e": EXT, "1": "192.168.0.1"}
        world = World(*CLUSTER, target, cnp("p", ingress=[deny(peer)]))
        denied = {key for key, end in ends.items() if world.ask(end, target) != OPEN}
        assert denied == set(matches)

    def test_any_one_peer_matching_is_enough(self) -> None:
        rule = deny(b.in_namespace("z"), b.networks(f"{EXT}/32"), b.in_namespace("y"))
        world = World(*CLUSTER, cnp("p", egress=[rule]))
        assert world.ask(A, B) == world.ask(A, EXT) == "deny: egress Admin p[0]"
        assert world.ask(A, A2) == OPEN

    def test_a_pod_in_a_namespace_without_an_object_has_its_name(self) -> None:
        # Every namespace carries kubernetes.io/metadata.name, also when no manifest says so.
        world = World(A, B, cnp("p", egress=[deny(b.in_namespace("y"))]))
        assert world.ask(A, B) == "deny: egress Admin p[0]"


class TestDomainNames:
    """§4, domainNames, and the matching of §6."""

    FLOOR = deny(b.networks("0.0.0.0/0", "::/0"))

    def world(self, *patterns: str, name: str = "www.example.com", **kwargs: float) -> World:
        grant = Learned(A.uid, name, b.address(EXT), kwargs.get("expires", 60.0))
        policy = cnp("names", egress=[accept(b.domains(*patterns)), self.FLOOR])
        return World(*CLUSTER, policy, learned=[grant])

    @pytest.mark.parametrize(
        ("pattern", "name", "matches"),
        [
            ("example.com", "example.com", True),
            ("example.com", "www.example.com", False),
            ("example.com", "notexample.com", False),
            ("*.example.com", "www.example.com", True),
            ("*.example.com", "a.b.c.example.com", True),
            ("*.example.com", "example.com", False),
            ("*.example.com", "notexample.com", False),
            ("*.example.com", "www.example.com.evil.test", False),
            ("Example.COM.", "example.com", True),
            ("example.com", "EXAMPLE.com.", True),
            ("*.Example.com.", "WWW.example.COM", True),
        ],
    )
    def test_patterns(self, pattern: str, name: str, matches: bool) -> None:
        expected = "allow: egress Admin names[0]" if matches else "deny: egress Admin names[1]"
        assert self.world(pattern, name=name).ask(A, EXT) == expected

    def test_any_of_several_names_is_enough(self) -> None:
        assert self.world("a.test", "*.example.com").ask(A, EXT) == "allow: egress Admin names[0]"

    def test_the_decision_says_which_name_and_until_when(self) -> None:
        decision = self.world("*.example.com").decide(A, EXT, now=1.0)
        (grant,) = decision.grants
        assert (grant.pattern, grant.name) == ("*.example.com", "www.example.com")
        assert grant.address == b.address(EXT)
        assert grant.expires == decision.valid_until == 60.0

    def test_currently_learned_means_not_expired(self) -> None:
        world = self.world("*.example.com")
        assert world.ask(A, EXT, now=59.9) == "allow: egress Admin names[0]"
        assert world.ask(A, EXT, now=60.0) == "deny: egress Admin names[1]"

    def test_what_one_pod_learned_opens_nothing_for_another(self) -> None:
        assert self.world("*.example.com").ask(A2, EXT) == "deny: egress Admin names[1]"

    def test_another_address_is_not_learned(self) -> None:
        assert self.world("*.example.com").ask(A, "203.0.113.6") == "deny: egress Admin names[1]"

    def test_protocols_of_the_rule_hold_too(self) -> None:
        rule = accept(b.domains("example.com"), ports=[b.tcp(443)])
        grant = Learned(A.uid, "example.com", b.address(EXT), 60.0)
        world = World(*CLUSTER, cnp("n", egress=[rule, self.FLOOR]), learned=[grant])
        assert world.ask(A, EXT, 443) == "allow: egress Admin n[0]"
        assert world.ask(A, EXT, 80) == "deny: egress Admin n[1]"

    def test_baseline_may_accept_by_name(self) -> None:
        grant = Learned(A.uid, "example.com", b.address(EXT), 60.0)
        policy = cnp("n", Tier.BASELINE, egress=[accept(b.domains("example.com")), self.FLOOR])
        assert (
            World(*CLUSTER, policy, learned=[grant]).ask(A, EXT) == "allow: egress Baseline n[0]"
        )

    @pytest.mark.parametrize("rule", [deny, pass_on, b.unknown_action])
    def test_in_a_rule_that_is_not_accept_it_counts_as_an_unknown_peer(self, rule: Rule) -> None:
        world = World(*CLUSTER, cnp("n", egress=[rule(b.domains("example.com"))]))
        assert world.ask(A, EXT) == world.ask(A, B) == "deny: egress Admin n[0]"
        assert world.both(EXT, A) == (None, OPEN), "ingress is another direction"


class TestFailClosed:
    """§4: what this version does not know, for the whole rule."""

    UNKNOWN = (
        [b.unknown_peer("futurePeer")],
        [b.unknown_peer()],
        [b.in_namespace("y"), b.unknown_peer()],
    )

    @pytest.mark.parametrize("peers", UNKNOWN)
    def test_an_accept_rule_matches_nothing(self, peers: list[Peer]) -> None:
        policy = cnp("p", egress=[accept(*peers), deny(b.in_namespace("y"))])
        world = World(*CLUSTER, policy)
        assert world.ask(A, B) == "deny: egress Admin p[1]"
        assert world.ask(A, EXT) == OPEN

    @pytest.mark.parametrize("peers", UNKNOWN)
    @pytest.mark.parametrize("rule", [deny, pass_on])
    def test_a_deny_or_pass_rule_denies_everything_in_that_direction(
        self, rule: Rule, peers: list[Peer]
    ) -> None:
        world = World(*CLUSTER, cnp("p", egress=[rule(*peers)]))
        for end in (B, EXT, "192.168.0.1", A2):
            assert world.ask(A, end) == "deny: egress Admin p[0]"
        assert world.both(EXT, A) == (None, OPEN)

    def test_the_ruling_says_deny_for_a_pass_that_fails_closed(self) -> None:
        decision = World(*CLUSTER, cnp("p", egress=[pass_on(b.unknown_peer())])).decide(A, B)
        assert decision.decided_by is not None
        assert decision.decided_by.action == "Deny"
        assert decision.decided_by.reason

    @pytest.mark.parametrize("rule", [deny, pass_on])
    def test_traffic_from_outside_the_cluster_included(self, rule: Rule) -> None:
        world = World(*CLUSTER, cnp("p", ingress=[rule(b.unknown_peer())]))
        assert world.ask(EXT, A) == "deny: ingress Admin p[0]"

    @pytest.mark.parametrize(
        "peer", [b.networks(f"{EXT}/32"), b.nodes(), b.domains("example.com")]
    )
    def test_ingress_peers_have_no_networks_nodes_or_domain_names(self, peer: Peer) -> None:
        no = World(*CLUSTER, cnp("p", ingress=[deny(peer)]))
        yes = World(*CLUSTER, cnp("p", ingress=[accept(peer), deny(b.namespaces())]))
        assert no.ask(EXT, A) == no.ask(B, A) == "deny: ingress Admin p[0]"
        assert yes.ask(B, A) == "deny: ingress Admin p[1]"
        assert yes.ask(EXT, A) == OPEN

    def test_earlier_rules_still_decide(self) -> None:
        policy = cnp("p", egress=[accept(b.in_namespace("y")), deny(b.unknown_peer())])
        world = World(*CLUSTER, policy)
        assert world.ask(A, B) == "allow: egress Admin p[0]"
        assert world.ask(A, EXT) == "deny: egress Admin p[1]"

    def test_ports_do_not_narrow_a_rule_that_fails_closed(self) -> None:
        world = World(*CLUSTER, cnp("p", egress=[deny(b.unknown_peer(), ports=[b.tcp(443)])]))
        assert world.ask(A, B, 80) == "deny: egress Admin p[0]"
        assert world.ask(A, B, protocol="ICMP") == "deny: egress Admin p[0]"

    @pytest.mark.parametrize("ports", [[b.unknown_port()], [b.tcp(80), b.unknown_port("x")]])
    def test_the_same_holds_for_a_protocol_entry_with_no_known_field(
        self, ports: list[Port]
    ) -> None:
        yes = cnp("p", egress=[accept(b.in_namespace("y"), ports=ports)])
        no = cnp("q", Tier.BASELINE, egress=[deny(b.in_namespace("y"), ports=ports)])
        passes = cnp("r", Tier.BASELINE, egress=[pass_on(b.in_namespace("y"), ports=ports)])
        assert World(*CLUSTER, yes).ask(A, B) == OPEN
        assert World(*CLUSTER, no).ask(A, EXT, 9, "UDP") == "deny: egress Baseline q[0]"
        assert World(*CLUSTER, passes).ask(A, EXT, 9, "UDP") == "deny: egress Baseline r[0]"

    def test_an_unknown_action_denies(self) -> None:
        policy = cnp("p", egress=[b.unknown_action(b.in_namespace("y"))])
        world = World(*CLUSTER, policy, netpol("x/all", egress=[allow()]))
        assert world.ask(A, B) == "deny: egress Admin p[0]"

    def test_a_port_object_with_no_known_field_in_a_networkpolicy(self) -> None:
        world = World(*CLUSTER, netpol("x/np", egress=[allow(ports=[b.unknown_port("future")])]))
        assert world.ask(A, B) == "deny: egress NetworkPolicy, isolated by x/np"


class TestNetworkPolicyPeers:
    """§4."""

    def test_no_peers_is_every_peer(self) -> None:
        world = World(*CLUSTER, netpol("x/np", ingress=[allow()], egress=[allow()]))
        for end in (B, EXT, "192.168.0.2"):
            assert world.decide(A, end).verdict is Verdict.ALLOW
            assert world.decide(end, A).verdict is Verdict.ALLOW

    @pytest.mark.parametrize(
        ("peer", "matches"),
        [
            (b.ip_block("10.0.0.0/8"), "2b"),
            (b.ip_block("10.0.0.0/8", "10.0.2.0/24"), "2"),
            (b.ip_block("0.0.0.0/0"), "2beN"),
            (b.ip_block("0.0.0.0/0", "10.0.0.0/8", "192.168.0.0/16"), "e"),
            (b.ip_block("0.0.0.0/0", "0.0.0.0/0"), ""),
            (b.ip_block("::/0"), "6"),
            (b.ip_block("::/0", "fc00::/7"), ""),
            (b.ip_block("0.0.0.0/0", "::/0"), "2beN"),
            (b.ip_block("::ffff:0:0/96", "::ffff:10.0.0.0/104"), "eN"),
            (b.own_pods(), "2"),
            (b.own_pods(select({"app": "a2"})), "2"),
            (b.own_pods(select({"app": "b"})), ""),
            (b.namespaces(), "2b6"),
            (b.namespaces(select({"team": "blue"})), "b6"),
            (b.pods(select({"app": "b"}), select({"team": "blue"})), "b6"),
            (b.pods(select({"app": "b"}), select({"team": "red"})), ""),
            (b.unknown_peer(), ""),
        ],
    )
    def test_what_peers_match(self, peer: Peer, matches: str) -> None:
        six = b.pod("y/b6", "fd00:2::10", labels={"app": "b"})
        ends: Ends = {"2": A2, "b": B, "e": EXT, "N": "192.168.0.2", "6": six}
        policies = (
            netpol("x/out", select({"app": "a"}), egress=[allow(peer)]),
            netpol("x/in", select({"app": "a"}), ingress=[allow(peer)]),
        )
        world = World(*CLUSTER, six, *policies)
        out = {key for key, end in ends.items() if world.decide(A, end).verdict is Verdict.ALLOW}
        into = {key for key, end in ends.items() if world.decide(end, A).verdict is Verdict.ALLOW}
        assert out == into == set(matches)

    def test_a_peer_with_no_known_field_leaves_the_others(self) -> None:
        rule = allow(b.unknown_peer(), b.in_namespace("y"))
        world = World(*CLUSTER, netpol("x/np", egress=[rule]))
        assert world.ask(A, B) == "allow: egress NetworkPolicy x/np[0]"
        assert world.ask(A, EXT) == "deny: egress NetworkPolicy, isolated by x/np"


class TestPorts:
    """§4, protocols and ports."""

    @pytest.mark.parametrize("protocol", ["TCP", "UDP", "SCTP", "ICMP", "ICMPv6", "unknown"])
    def test_a_rule_without_them_matches_every_protocol(self, protocol: str) -> None:
        world = World(
            *CLUSTER,
            cnp("p", egress=[deny(b.in_namespace("y"))]),
            netpol("y/np", ingress=[allow()]),
        )
        assert world.ask(A, B, protocol=protocol) == "deny: egress Admin p[0]"
        assert world.ask(EXT, B, protocol=protocol) == "allow: ingress NetworkPolicy y/np[0]"

    @pytest.mark.parametrize("protocol", ["ICMP", "ICMPv6", "unknown"])
    def test_with_them_only_tcp_udp_and_sctp_can_match(self, protocol: str) -> None:
        ports: list[Port] = [b.tcp(), b.udp(), b.sctp(), b.named("http", None)]
        world = World(
            *CLUSTER,
            cnp("p", egress=[deny(b.in_namespace("y"), ports=ports)]),
            netpol("y/np", ingress=[allow(ports=ports)]),
        )
        assert world.both(A, B, protocol=protocol) == (
            OPEN,
            "deny: ingress NetworkPolicy, isolated by y/np",
        )

    def test_a_protocol_number_nobody_knows_is_not_a_port_either(self) -> None:
        world = World(*CLUSTER, netpol("y/np", ingress=[allow(ports=[b.tcp()])]))
        gre = b.packet(A, B)._replace(protocol=int(Proto.UNKNOWN), number=47, dport=0, sport=0)
        assert world.engine.evaluate(gre, now=0.0).verdict is Verdict.DENY

    @pytest.mark.parametrize(
        ("port", "matches"),
        [
            (b.tcp(), {"TCP/0", "TCP/1", "TCP/79", "TCP/80", "TCP/81", "TCP/65535"}),
            (b.tcp(80), {"TCP/80"}),
            (b.tcp(80, 81), {"TCP/80", "TCP/81"}),
            (b.tcp(0, 0), {"TCP/0"}),
            (b.tcp(1, 79), {"TCP/1", "TCP/79"}),
            (b.tcp(65535), {"TCP/65535"}),
            (b.udp(80), {"UDP/80"}),
            (b.sctp(81, 65535), {"SCTP/81", "SCTP/65535"}),
        ],
    )
    def test_ranges_are_inclusive_and_of_one_protocol(self, port: Port, matches: set[str]) -> None:
        world = World(*CLUSTER, netpol("y/np", ingress=[allow(ports=[port])]))
        allowed = {
            f"{protocol}/{number}"
            for protocol in ("TCP", "UDP", "SCTP")
            for number in (0, 1, 79, 80, 81, 65535)
            if world.decide(A, B, number, protocol).verdict is Verdict.ALLOW
        }
        assert allowed == matches

    def test_source_ports_never_matter(self) -> None:
        world = World(*CLUSTER, netpol("y/np", ingress=[allow(ports=[b.tcp(80)])]))
        for sport in (0, 53, 80, 65535):
            from_port = b.packet(A, B, 80, sport=sport)
            assert world.engine.evaluate(from_port, now=0.0).verdict is Verdict.ALLOW
            to_other = b.packet(A, B, 81, sport=80)
            assert world.engine.evaluate(to_other, now=0.0).verdict is Verdict.DENY


class TestNamedPorts:
    """§4: a container port's name on the destination pod."""

    ONE = b.pod("y/one", "10.0.2.21", ports=[b.container_port("web", 80)])
    TWO = b.pod(
        "y/two",
        "10.0.2.22",
        ports=[b.container_port("web", 8080), b.container_port("web", 53, "UDP")],
    )
    CLUSTER = (*CLUSTER, ONE, TWO)

    def allowed(self, world: World, *, protocol: str = "TCP") -> set[str]:
        return {
            f"{end.name}/{port}"
            for end in (self.ONE, self.TWO, B)
            for port in (0, 53, 80, 8080)
            if world.decide(A, end, port, protocol).verdict is Verdict.ALLOW
        }

    def test_ingress_looks_at_the_subject(self) -> None:
        world = World(*self.CLUSTER, netpol("y/np", ingress=[allow(ports=[b.named("web")])]))
        assert self.allowed(world) == {"one/80", "two/8080"}
        assert self.allowed(world, protocol="UDP") == set()

    def test_egress_looks_at_the_other_end(self) -> None:
        world = World(*self.CLUSTER, netpol("x/np", egress=[allow(ports=[b.named("web")])]))
        assert self.allowed(world) == {"one/80", "two/8080"}

    def test_by_name_and_protocol(self) -> None:
        world = World(*self.CLUSTER, netpol("x/np", egress=[allow(ports=[b.named("web", "UDP")])]))
        assert self.allowed(world, protocol="UDP") == {"two/53"}
        assert self.allowed(world) == set()

    def test_without_a_protocol_any_that_the_pod_names(self) -> None:
        rule = accept(b.namespaces(), ports=[b.named("web", None)])
        world = World(*self.CLUSTER, cnp("p", egress=[rule, deny(b.namespaces())]))
        assert self.allowed(world) == {"one/80", "two/8080"}
        assert self.allowed(world, protocol="UDP") == {"two/53"}

    def test_on_a_destination_that_is_not_a_pod_it_matches_nothing(self) -> None:
        world = World(*self.CLUSTER, netpol("x/np", egress=[allow(ports=[b.named("web", None)])]))
        for end in (EXT, "192.168.0.1"):
            assert world.ask(A, end) == "deny: egress NetworkPolicy, isolated by x/np"

    def test_a_pass_or_deny_by_a_name_nobody_has_matches_nothing(self) -> None:
        world = World(
            *self.CLUSTER, cnp("p", egress=[deny(b.namespaces(), ports=[b.named("no")])])
        )
        assert world.ask(A, self.ONE) == OPEN


class TestLabelSelectors:
    """§4."""

    @pytest.mark.parametrize(
        ("selector", "matches"),
        [
            (select(), {"none", "a", "ab", "b"}),
            (select({"k": "a"}), {"a", "ab"}),
            (select({"k": "a", "l": "b"}), {"ab"}),
            (select({"k": ""}), set()),
            (select(None, b.is_in("k", "a", "z")), {"a", "ab"}),
            (select(None, b.not_in("k", "a")), {"none", "b"}),
            (select(None, b.exists("k")), {"a", "ab", "b"}),
            (select(None, b.absent("k")), {"none"}),
            (select({"l": "b"}, b.is_in("k", "a")), {"ab"}),
            (select(None, b.exists("k"), b.not_in("k", "a")), {"b"}),
            (select(None, b.is_in("k", "a"), b.is_in("k", "b")), set()),
        ],
    )
    def test_all_parts_are_anded(self, selector: LabelSelector, matches: set[str]) -> None:
        texts = {"none": {}, "a": {"k": "a"}, "ab": {"k": "a", "l": "b"}, "b": {"k": "b"}}
        pods = [
            b.pod(f"x/{name}", f"10.0.5.{i}", labels=labels)
            for i, (name, labels) in enumerate(texts.items(), 1)
        ]
        world = World(*pods, netpol("x/np", selector, egress=[]))
        isolated = {pod.name for pod in pods if world.decide(pod, EXT).verdict is Verdict.DENY}
        assert isolated == matches
