from helpers import builders as b
from helpers.findings import findings_of, ids, paths

from knp_py.audit.findings import Severity
from knp_py.model.changes import ClusterObject
from knp_py.model.policy import ClusterNetworkPolicy, ClusterRule, Peer, Tier

ALL = b.networks("0.0.0.0/0", "::/0")
GITHUB = b.accept(b.domains("github.com"), ports=[b.tcp(443)])
DNS = b.accept(b.namespaces(), b.networks("8.8.8.8/32"), ports=[b.udp(53), b.tcp(53)])
SANDBOX = b.pods(b.select({"sandbox": "yes"}))
DNS_POD = b.pod("kube-system/dns", "10.0.3.53", labels={"k8s-app": "kube-dns"})
LABELS = {"sandbox": "yes"}


def names(*rules: ClusterRule, tier: Tier = Tier.ADMIN) -> ClusterNetworkPolicy:
    return b.cnp("names", tier, 5, SANDBOX, egress=rules)


# Without pods.


def test_names_with_dns_and_a_deny_are_fine() -> None:
    assert ids([names(DNS, GITHUB, b.deny(ALL))]) == []


def test_nothing_lets_dns_out() -> None:
    [finding] = findings_of("names-without-dns", names(GITHUB, b.deny(ALL)))
    assert finding.path == "spec.egress[0]"
    assert finding.severity is Severity.WARNING
    # An Accept by name is no way to learn the name.
    by_name = b.accept(b.domains("dns.google"), ports=[b.udp(53)])
    assert paths("names-without-dns", names(by_name, GITHUB, b.deny(ALL)))


def test_dns_by_another_policy_or_no_deny_at_all() -> None:
    dns = b.cnp("dns", priority=1, egress=[DNS])
    assert not paths("names-without-dns", dns, names(GITHUB, b.deny(ALL)))
    late = b.cnp("dns", priority=9, egress=[DNS])
    assert paths("names-without-dns", late, names(GITHUB, b.deny(ALL)))
    other = b.cnp("dns", priority=1, subject=b.pods(b.select({"sandbox": "no"})), egress=[DNS])
    assert paths("names-without-dns", other, names(GITHUB, b.deny(ALL)))
    assert not paths("names-without-dns", names(GITHUB, b.deny(b.networks("10.0.0.0/8"))))


def test_dns_passed_on_to_the_next_tiers() -> None:
    passing = b.pass_on(b.namespaces(), ports=[b.udp(53), b.tcp(53)])
    policy = names(passing, GITHUB, b.deny(ALL))
    assert not paths("names-without-dns", policy)
    shut = b.netpol("a/p", b.select(LABELS), egress=[b.allow(b.own_pods(), ports=[b.tcp(80)])])
    floor = b.cnp("floor", Tier.BASELINE, egress=[b.deny(ALL)])
    assert paths("names-without-dns", policy, floor)
    assert paths("names-without-dns", policy, floor, shut)
    # Pods that the NetworkPolicy does not select go on to the default, which allows.
    assert not paths("names-without-dns", policy, shut)
    opened = b.netpol("a/p", b.select(LABELS), egress=[b.allow(ports=[b.udp(53), b.tcp(53)])])
    assert not paths("names-without-dns", policy, floor, opened)


def test_udp_only() -> None:
    udp = b.accept(b.namespaces(), ports=[b.udp(53)])
    [finding] = findings_of("dns-over-tcp", names(udp, GITHUB, b.deny(ALL)))
    assert finding.severity is Severity.INFO


def test_names_in_baseline() -> None:
    assert paths("names-without-dns", names(GITHUB, b.deny(ALL), tier=Tier.BASELINE))
    assert ids([names(DNS, GITHUB, b.deny(ALL), tier=Tier.BASELINE)]) == []


# With pods.


def test_a_pod_that_cannot_reach_its_resolver() -> None:
    pod = b.pod("a/sandbox", "10.0.0.1", labels=LABELS)
    wrong = b.accept(b.networks("1.1.1.1/32"), ports=[b.udp(53), b.tcp(53)])
    policy = names(wrong, GITHUB, b.deny(ALL))
    # Where it asks is not known: the static answer is yes.
    assert not paths("names-without-dns", policy, pod)
    [finding] = findings_of("names-without-dns", policy, pod, DNS_POD)
    assert finding.severity is Severity.WARNING
    assert "a/sandbox" in finding.message
    own = b.pod("a/sandbox", "10.0.0.1", labels=LABELS, dns_policy="None", nameservers=["1.1.1.1"])
    assert not paths("names-without-dns", policy, own, DNS_POD)


def test_some_pods_can_and_some_cannot() -> None:
    pod = b.pod("a/one", "10.0.0.1", labels=LABELS)
    other = b.pod("b/two", "10.0.0.2", labels=LABELS)
    passing = b.pass_on(b.namespaces(), ports=[b.udp(53), b.tcp(53)])
    policies: list[ClusterObject] = [
        names(passing, GITHUB, b.deny(ALL)),
        b.netpol("a/p", egress=[b.allow(b.namespaces(), ports=[b.udp(53), b.tcp(53)])]),
        b.netpol("b/p", egress=[]),
    ]
    [finding] = findings_of("names-without-dns", *policies, pod, other, DNS_POD)
    assert finding.severity is Severity.INFO
    assert "b/two" in finding.message


def test_a_resolver_whose_own_ingress_is_shut() -> None:
    pod = b.pod("a/sandbox", "10.0.0.1", labels=LABELS)
    shut = b.netpol("kube-system/p", ingress=[])
    assert paths("names-without-dns", names(DNS, GITHUB, b.deny(ALL)), shut, pod, DNS_POD)


def test_the_node_local_cache_will_do() -> None:
    pod = b.pod("a/sandbox", "10.0.0.1", labels=LABELS)
    local = b.accept(b.networks("169.254.20.10/32"), ports=[b.udp(53), b.tcp(53)])
    assert not paths("names-without-dns", names(local, GITHUB, b.deny(ALL)), pod, DNS_POD)


def test_tcp_to_the_resolver() -> None:
    pod = b.pod("a/sandbox", "10.0.0.1", labels=LABELS)
    rules = [
        b.accept(b.in_namespace("kube-system"), ports=[b.udp(53)]),
        b.accept(b.networks("1.1.1.1/32"), ports=[b.tcp(53)]),
    ]
    assert not paths("dns-over-tcp", names(*rules, GITHUB, b.deny(ALL)), pod)
    assert paths("dns-over-tcp", names(*rules, GITHUB, b.deny(ALL)), pod, DNS_POD)


def test_a_server_must_be_of_a_family_that_pods_have() -> None:
    policy = names(GITHUB, b.deny(b.networks("0.0.0.0/0")))
    assert paths("names-without-dns", policy)
    assert paths("names-without-dns", policy, b.pod("a/sandbox", "10.0.0.1", labels=LABELS))
    assert not paths("names-without-dns", policy, b.pod("a/sandbox", "fd00::1", labels=LABELS))
    six = b.accept(b.networks("fd00::53/128"), ports=[b.udp(53), b.tcp(53)])
    assert not paths("names-without-dns", names(six, GITHUB, b.deny(ALL)))


# Names that restrict nothing.


def test_nothing_denies_the_rest() -> None:
    [finding] = findings_of("names-without-deny", names(DNS, GITHUB))
    assert finding.path == "spec.egress[1]"
    assert paths("names-without-deny", names(GITHUB, b.deny(b.networks("10.0.0.0/8"))))
    assert paths("names-without-deny", names(GITHUB, b.deny(ALL, ports=[b.tcp(80)])))


def test_any_deny_of_the_rest_will_do() -> None:
    halves = b.networks("0.0.0.0/1", "128.0.0.0/1")
    assert not paths("names-without-deny", names(GITHUB, b.deny(halves)))
    assert not paths("names-without-deny", names(GITHUB, b.deny(ALL, ports=[b.tcp()])))
    floor = b.cnp("floor", Tier.BASELINE, egress=[b.deny(ALL)])
    assert not paths("names-without-deny", names(GITHUB), floor)
    isolated = b.netpol("a/p", egress=[])
    assert not paths("names-without-deny", names(GITHUB), isolated)
    closed = b.deny(b.unknown_peer("futurePeer"))
    assert not paths("names-without-deny", names(GITHUB, closed))


# DNS to anyone.


def test_dns_to_any_server() -> None:
    anyone = b.allow(ports=[b.udp(53), b.tcp(53)])
    assert paths("dns-anywhere", b.netpol("a/p", egress=[anyone])) == ["a/p spec.egress[0]"]
    internet = b.ip_block("0.0.0.0/0", "10.0.0.0/8")
    assert paths("dns-anywhere", b.netpol("a/p", egress=[b.allow(internet, ports=[b.udp(53)])]))
    assert paths("dns-anywhere", names(b.accept(ALL, ports=[b.udp(53)]), GITHUB, b.deny(ALL)))


def test_dns_to_some_servers_or_rules_about_more_than_dns() -> None:
    servers: list[Peer] = [b.in_namespace("kube-system"), b.ip_block("8.8.8.8/32")]
    rules = [b.allow(peer, ports=[b.udp(53)]) for peer in servers]
    rules += [b.allow(), b.allow(b.ip_block("0.0.0.0/0")), b.allow(ports=[b.udp(1, 65535)])]
    for rule in rules:
        assert not paths("dns-anywhere", b.netpol("a/p", egress=[rule]))
    assert not paths("dns-anywhere", b.netpol("a/p", ingress=[b.allow(ports=[b.udp(53)])]))
    assert not paths("dns-anywhere", b.cnp("c", egress=[b.deny(ALL, ports=[b.udp(53)])]))


def test_dns_to_any_server_that_admin_shuts() -> None:
    policy = b.netpol("a/p", egress=[b.allow(ports=[b.udp(53)])])
    admin = b.cnp("c", egress=[b.accept(b.networks("8.8.8.8/32")), b.deny(ALL)])
    assert not paths("dns-anywhere", policy, admin)
    baseline = b.cnp("c", Tier.BASELINE, egress=[b.accept(ALL, ports=[b.udp(53)]), b.deny(ALL)])
    assert paths("dns-anywhere", baseline)
    shut = b.cnp("c", Tier.BASELINE, egress=[b.deny(ALL), b.accept(ALL, ports=[b.udp(53)])])
    assert not paths("dns-anywhere", shut)
