"""What users of such systems ran into, by the number in field-notes.md."""

from collections.abc import Callable

import pytest
from helpers import builders as b
from helpers.builders import accept, allow, cnp, deny, netpol, node, pass_on, select
from helpers.judging import snapshot_of
from helpers.world import World, loaded

from knp_py.model.changes import ClusterObject
from knp_py.model.decision import Verdict
from knp_py.model.policy import ClusterRule, Tier

A = b.pod("x/a", "10.0.1.10", labels={"app": "a"}, node="n1")
B = b.pod("y/b", "10.0.2.10", labels={"app": "b"}, node="n2", ports=[b.container_port("http", 80)])
D = b.pod("kube-system/dns", "10.0.3.53", labels={"k8s-app": "kube-dns"})
N1 = node("n1", "192.168.0.1")
N2 = node("n2", "192.168.0.2")
EXT = "203.0.113.5"
CLUSTER: tuple[ClusterObject, ...] = (
    *(b.namespace(name) for name in ("x", "y", "kube-system")),
    N1,
    N2,
    A,
    B,
    D,
)
OPEN = "allow: Default"
APP_A, APP_B = select({"app": "a"}), select({"app": "b"})
EVERYWHERE = b.networks("0.0.0.0/0", "::/0")


Rule = Callable[..., ClusterRule]


def test_8_a_policy_for_one_direction_leaves_baseline_the_other() -> None:
    base = cnp(
        "base",
        Tier.BASELINE,
        subject=b.in_namespace("x"),
        egress=[deny(EVERYWHERE)],
        ingress=[deny(b.namespaces())],
    )
    ingress_only = netpol("x/np", APP_A, ingress=[allow()])
    egress_only = netpol("x/np", APP_A, egress=[allow()])
    assert World(*CLUSTER, ingress_only, base).ask(A, EXT) == "deny: egress Baseline base[0]"
    assert World(*CLUSTER, egress_only, base).ask(B, A) == "deny: ingress Baseline base[0]"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (deny, "deny: egress Admin p[0]"),
        (pass_on, "deny: egress Admin p[0]"),
        (accept, "deny: egress NetworkPolicy, isolated by x/np"),
    ],
)
def test_9_e2_an_unknown_peer_fails_closed(rule: Rule, expected: str) -> None:
    policy = cnp("p", Tier.ADMIN, 1, b.in_namespace("x"), egress=[rule(b.unknown_peer("f"))])
    assert World(*CLUSTER, policy, netpol("x/np", egress=[])).ask(A, EXT) == expected


@pytest.mark.parametrize(
    ("ingress", "verdict"),
    [
        ("ingress: []", Verdict.DENY),
        ("ingress: null", Verdict.DENY),
        ("", Verdict.DENY),
        ("ingress: [{}]", Verdict.ALLOW),
    ],
)
def test_10_e9_an_empty_rule_list_allows_nothing(ingress: str, verdict: Verdict) -> None:
    (policy,) = loaded(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"
        "metadata: {name: np, namespace: x}\n"
        f"spec: {{podSelector: {{}}, policyTypes: [Ingress], {ingress}}}\n"
    )
    assert World(*CLUSTER, policy).decide(B, A).verdict is verdict


class TestDefaults:
    """11, E10: what the API server fills in and a file does not."""

    @staticmethod
    def world(spec: str) -> World:
        return World(
            *CLUSTER,
            *loaded(
                "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"
                f"metadata: {{name: np, namespace: x}}\nspec: {spec}\n"
            ),
        )

    def test_without_policy_types_egress_rules_isolate_both(self) -> None:
        world = self.world(
            "{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 203.0.113.5/32}}]}]}"
        )
        assert world.ask(A, EXT) == "allow: egress NetworkPolicy x/np[0]"
        assert world.ask(A, D) == "deny: egress NetworkPolicy, isolated by x/np"
        assert world.ask(B, A) == "deny: ingress NetworkPolicy, isolated by x/np"

    @pytest.mark.parametrize("egress", ["", ", egress: []", ", egress: null"])
    def test_without_policy_types_and_egress_rules_egress_stays_open(self, egress: str) -> None:
        world = self.world(f"{{podSelector: {{}}{egress}}}")
        assert world.ask(A, EXT) == OPEN
        assert world.ask(B, A) == "deny: ingress NetworkPolicy, isolated by x/np"

    def test_an_empty_egress_with_its_policy_type_denies_all_egress(self) -> None:
        world = self.world("{podSelector: {}, policyTypes: [Egress], egress: []}")
        assert world.ask(A, EXT) == "deny: egress NetworkPolicy, isolated by x/np"
        assert world.ask(B, A) == OPEN

    def test_a_port_without_protocol_is_tcp(self) -> None:
        world = self.world("{podSelector: {}, ingress: [{ports: [{port: 80}]}]}")
        assert world.decide(B, A, 80).verdict is Verdict.ALLOW
        assert world.decide(B, A, 80, "UDP").verdict is Verdict.DENY

    @pytest.mark.parametrize("peers", ["", "from: [],", "from: null,"])
    @pytest.mark.parametrize("ports", ["", "ports: []", "ports: null"])
    def test_empty_or_missing_peers_and_ports_match_all(self, peers: str, ports: str) -> None:
        world = self.world(f"{{podSelector: {{}}, ingress: [{{{peers} {ports}}}]}}")
        assert world.ask(EXT, A, protocol="ICMP") == "allow: ingress NetworkPolicy x/np[0]"

    def test_a_namespace_selector_by_the_name_nobody_wrote(self) -> None:
        world = self.world(
            "{podSelector: {}, ingress: [{from: [{namespaceSelector: "
            "{matchLabels: {kubernetes.io/metadata.name: 'y'}}}]}]}"
        )
        assert world.decide(B, A).verdict is Verdict.ALLOW
        assert world.decide(D, A).verdict is Verdict.DENY

    def test_rules_whose_type_is_absent_are_inert(self) -> None:
        world = self.world("{podSelector: {}, policyTypes: [Egress], ingress: [{}]}")
        assert world.ask(B, A) == OPEN

    def test_a_pod_of_status_pod_ip_alone(self) -> None:
        (pod,) = loaded(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: x}\n"
            "spec: {containers: [{name: c, ports: [{name: web, containerPort: 80}]}]}\n"
            "status: {podIP: 10.0.1.77, phase: Running}\n"
        )
        named = netpol("x/np", ingress=[allow(ports=[b.named("web")])])
        world = World(*CLUSTER, pod, named)
        assert world.decide(B, "10.0.1.77", 80).verdict is Verdict.ALLOW
        assert world.decide(B, "10.0.1.77", 80, "UDP").verdict is Verdict.DENY


def test_14_e19_a_completed_pod_does_not_own_its_ip() -> None:
    job = b.pod("x/job", "10.0.1.20", labels={"app": "job"}, phase="Succeeded")
    web = b.pod("x/web", "10.0.1.20", labels={"app": "web"})
    closed = netpol("x/none", select({"app": "job"}), ingress=[])
    assert World(*CLUSTER, job, web, closed).ask(EXT, "10.0.1.20") == OPEN
    assert snapshot_of((job, web)).pod_at(job.ips[0]) == web
    assert World(*CLUSTER, job, closed).decide(EXT, "10.0.1.20").ingress is None


def test_18_e16_the_own_node_reaches_its_pods_other_nodes_do_not() -> None:
    world = World(*CLUSTER, netpol("x/none", ingress=[]))
    assert world.ask("192.168.0.1", A) == "allow: ingress NetworkPolicy, from its own node"
    assert world.ask("192.168.0.2", A) == "deny: ingress NetworkPolicy, isolated by x/none"
    everyone = cnp("all", ingress=[deny(b.namespaces())])
    assert World(*CLUSTER, everyone).ask("192.168.0.1", A) == OPEN


def test_19_host_network_pods_stay_out() -> None:
    labels = {"component": "apiserver"}
    api = b.pod("kube-system/api", "192.168.0.1", labels=labels, node="n1", host_network=True)
    closed = netpol("kube-system/none", ingress=[])
    world = World(*CLUSTER, api, closed)
    assert world.ask(A, "192.168.0.1", 6443) == OPEN
    assert world.ask("192.168.0.1", A, 6443) == OPEN
    by_label = netpol("y/in", ingress=[allow(b.pods(select(labels)))])
    by_block = netpol("y/in", ingress=[allow(b.ip_block("192.168.0.1/32"))])
    assert World(*CLUSTER, api, by_label).decide(api, B).verdict is Verdict.DENY
    assert World(*CLUSTER, api, by_block).decide(api, B).verdict is Verdict.ALLOW


def test_23_rules_match_the_pods_port_not_the_services() -> None:
    to_b = netpol("x/np", egress=[allow(b.pods(APP_B), ports=[b.tcp(80)])])
    web = b.service("y/web", "10.96.0.7", selector={"app": "b"}, port=80, target=8080)
    world = World(*CLUSTER, web, to_b)
    assert world.decide(A, B, 8080).verdict is Verdict.DENY
    assert world.decide(A, B, 80).verdict is Verdict.ALLOW


def test_30_e13_named_ports_of_native_sidecars_count_of_init_containers_not() -> None:
    (pod,) = loaded(
        """
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: x}
spec:
  initContainers:
  - {name: sidecar, restartPolicy: Always, ports: [{name: metrics, containerPort: 9090}]}
  - {name: setup, ports: [{name: setup, containerPort: 9091}]}
  containers: [{name: c}]
status: {podIP: 10.0.1.77}
"""
    )
    ports = [b.named("metrics"), b.named("setup")]
    world = World(*CLUSTER, pod, netpol("x/np", ingress=[allow(ports=ports)]))
    assert world.decide(B, "10.0.1.77", 9090).verdict is Verdict.ALLOW
    assert world.decide(B, "10.0.1.77", 9091).verdict is Verdict.DENY


def test_32_icmp_needs_a_rule_without_ports() -> None:
    some = netpol("x/np", ingress=[allow(ports=[b.tcp(80)])])
    assert World(*CLUSTER, some).decide(B, A, protocol="ICMP").verdict is Verdict.DENY
    every = netpol("x/np", ingress=[allow()])
    assert World(*CLUSTER, every).decide(B, A, protocol="ICMP").verdict is Verdict.ALLOW
    networks = cnp("n", egress=[deny(b.networks("0.0.0.0/0"))])
    assert World(*CLUSTER, networks).ask(A, EXT, protocol="ICMP") == "deny: egress Admin n[0]"


def test_36_equal_priorities_go_by_name_and_are_told() -> None:
    policies = (
        cnp("a-accept", Tier.ADMIN, 10, egress=[accept(EVERYWHERE)]),
        cnp("b-deny", Tier.ADMIN, 10, egress=[deny(EVERYWHERE)]),
    )
    for order in (policies, policies[::-1]):
        assert World(*CLUSTER, *order).ask(A, EXT) == "allow: egress Admin a-accept[0]"


def test_37_pass_skips_the_rest_of_the_tier() -> None:
    world = World(
        *CLUSTER,
        cnp("one", Tier.ADMIN, 1, egress=[pass_on(EVERYWHERE)]),
        cnp("two", Tier.ADMIN, 2, egress=[deny(EVERYWHERE)]),
        netpol("x/np", egress=[allow()]),
    )
    assert world.ask(A, EXT) == "allow: egress NetworkPolicy x/np[0]"


def test_38_without_its_networkpolicy_a_pod_is_baselines_again() -> None:
    base = cnp("base", Tier.BASELINE, egress=[deny(EVERYWHERE)])
    policy = netpol("x/np", egress=[allow()])
    assert World(*CLUSTER, base, policy).ask(A, EXT) == "allow: egress NetworkPolicy x/np[0]"
    assert World(*CLUSTER, base).ask(A, EXT) == "deny: egress Baseline base[0]"


def test_57_networks_match_pods_and_nodes_unless_passed_before() -> None:
    ten = deny(b.networks("10.0.0.0/8", "192.168.0.0/16"))
    assert World(*CLUSTER, cnp("n", egress=[ten])).ask(A, B) == "deny: egress Admin n[0]"
    assert World(*CLUSTER, cnp("n", egress=[ten])).ask(A, "192.168.0.2") == (
        "deny: egress Admin n[0]"
    )
    passed = cnp("n", egress=[pass_on(b.namespaces()), ten])
    assert World(*CLUSTER, passed).ask(A, B) == OPEN
    blocks = netpol("x/np", egress=[allow(b.ip_block("10.0.2.0/24"))])
    assert World(*CLUSTER, blocks).ask(A, B) == "allow: egress NetworkPolicy x/np[0]"


def test_e3_an_unknown_ingress_peer_denies_the_outside_too() -> None:
    policy = cnp("p", ingress=[deny(b.unknown_peer("futurePeer"))])
    assert World(*CLUSTER, policy).ask(EXT, A) == "deny: ingress Admin p[0]"


def test_e4_a_protocol_entry_with_no_known_field_fails_closed() -> None:
    policy = cnp("p", egress=[deny(b.in_namespace("z"), ports=[b.unknown_port()])])
    assert World(*CLUSTER, policy).ask(A, EXT) == "deny: egress Admin p[0]"


def test_e5_an_unknown_action_denies() -> None:
    policy = cnp("p", egress=[b.unknown_action(EVERYWHERE)])
    assert World(*CLUSTER, policy).ask(A, EXT) == "deny: egress Admin p[0]"


def test_e6_names_outside_accept_fail_closed() -> None:
    policy = cnp("p", egress=[deny(b.domains("example.com"))])
    assert World(*CLUSTER, policy).ask(A, EXT) == "deny: egress Admin p[0]"


def test_e7_a_nodes_peer_matches_every_address_that_is_an_ip() -> None:
    host = node("n3", "192.168.0.3", other_ips=["192.168.0.9"])
    policy = cnp("p", egress=[deny(b.nodes())])
    world = World(*CLUSTER, host, policy)
    assert world.ask(A, "192.168.0.9") == "deny: egress Admin p[0]"
    assert world.ask(A, "192.168.0.10") == OPEN


def test_e7_as_the_loader_reads_addresses() -> None:
    objects = loaded(
        """
apiVersion: v1
kind: Node
metadata: {name: n3}
status:
  addresses:
  - {type: InternalIP, address: 192.168.0.3}
  - {type: Hostname, address: 192.168.0.9}
  - {type: Hostname, address: worker-3}
"""
    )
    world = World(*CLUSTER, *objects, cnp("p", egress=[deny(b.nodes())]))
    assert world.ask(A, "192.168.0.9") == "deny: egress Admin p[0]"
    assert snapshot_of(objects).node_at(b.address("192.168.0.9")) is None


def test_e11_a_named_port_is_not_port_zero() -> None:
    named = netpol("y/np", ingress=[allow(ports=[b.named("http")])])
    world = World(*CLUSTER, named)
    assert world.decide(A, B, 0).verdict is Verdict.DENY
    assert world.decide(A, B, 80).verdict is Verdict.ALLOW


def test_e14_a_namespace_that_was_not_told_still_has_its_name() -> None:
    lonely = (N1, A, B)
    policy = cnp("p", subject=b.in_namespace("x"), egress=[deny(EVERYWHERE)])
    assert World(*lonely, policy).ask(A, EXT) == "deny: egress Admin p[0]"


def test_e15_an_address_of_a_pod_network_that_is_no_pods_is_said_to_be() -> None:
    host = node("n1", "192.168.0.1", pod_cidrs=["10.0.1.0/24"])
    decision = World(*CLUSTER, host).decide("10.0.1.99", B)
    assert decision.unidentified == (b.address("10.0.1.99"),)


def test_e17_a_pod_reaches_itself() -> None:
    world = World(*CLUSTER, netpol("x/none", ingress=[], egress=[]))
    assert world.decide(A, A).verdict is Verdict.ALLOW


def test_e18_a_verdict_names_object_rule_and_action() -> None:
    policy = cnp("p", egress=[accept(b.namespaces()), deny(EVERYWHERE, name="the rest")])
    ruling = World(*CLUSTER, policy).decide(A, EXT).decided_by
    assert ruling is not None
    assert (ruling.tier, ruling.policy, ruling.rule) == (Tier.ADMIN, "p", 1)
    assert (ruling.rule_name, ruling.action) == ("the rest", "Deny")


def test_71_the_sandbox_default_lets_the_internet_in_reach_and_nothing_near() -> None:
    v4 = b.ip_block("0.0.0.0/0", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16")
    v6 = b.ip_block("::/0", "fc00::/7", "fe80::/10")
    router = allow(b.pods(select({"app": "sandbox-router"}), select({"n": "agents"})))
    world = World(*CLUSTER, netpol("x/default", egress=[allow(v4, v6)], ingress=[router]))
    for near in (B, D, "192.168.0.1", "169.254.169.254", "172.31.0.1", "fd00::1", "fe80::1"):
        assert world.decide(A, near).verdict is Verdict.DENY
    for far in (EXT, "2001:db8::5", "100.64.0.1"):
        assert world.decide(A, far).verdict is Verdict.ALLOW
    # An IPv4-mapped address is no way round the IPv4 exceptions.
    assert world.decide(A, "::ffff:10.0.2.10").verdict is Verdict.DENY


def test_73_an_egress_only_policy_does_not_close_ingress() -> None:
    assert World(*CLUSTER, netpol("x/np", egress=[])).ask(B, A) == OPEN
