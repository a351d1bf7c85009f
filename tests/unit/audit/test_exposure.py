import pytest
from helpers import builders as b
from helpers.findings import findings_of, ids, paths

from knp_py.audit.findings import Severity
from knp_py.model.policy import ClusterNetworkPolicy, NetworkRule, Peer, Tier

V4, V6 = b.networks("0.0.0.0/0"), b.networks("::/0")
EVERYTHING_ELSE = b.deny(b.networks("0.0.0.0/0", "::/0"))


def deny(*peers: Peer) -> ClusterNetworkPolicy:
    return b.cnp("c", egress=[b.deny(peer) for peer in peers])


# Families.


def test_ipv4_only() -> None:
    [finding] = findings_of("one-family-deny", deny(V4))
    assert finding.path == "spec.egress[0]"
    assert finding.severity is Severity.WARNING
    assert "::/0" in finding.fix
    [finding] = findings_of("one-family-deny", deny(V4), b.pod("a/p", "10.0.0.1"))
    assert finding.severity is Severity.INFO
    [finding] = findings_of("one-family-deny", deny(V4), b.pod("a/p", "10.0.0.1", "fd00::1"))
    assert finding.severity is Severity.WARNING


def test_ipv6_only_is_often_meant() -> None:
    [finding] = findings_of("one-family-deny", deny(V6))
    assert finding.severity is Severity.INFO
    assert "0.0.0.0/0" in finding.fix


@pytest.mark.parametrize(
    "peers",
    [
        (V4, V6),
        (b.networks("0.0.0.0/0", "::/0"),),
        (V4, b.networks("2000::/3")),
        (b.networks("0.0.0.0/1"), V6, b.networks("128.0.0.0/1")),
        (b.networks("10.0.0.0/8"),),
    ],
)
def test_both_or_neither(peers: tuple[Peer, ...]) -> None:
    assert not paths("one-family-deny", deny(*peers))


def test_the_other_family_in_another_policy() -> None:
    other = b.cnp("six", Tier.BASELINE, egress=[b.deny(V6)])
    assert not paths("one-family-deny", deny(V4), other)
    of_some = b.cnp("six", subject=b.pods(b.select({"app": "x"})), egress=[b.deny(V6)])
    assert paths("one-family-deny", deny(V4), of_some) == ["c spec.egress[0]"]
    isolated = b.netpol("a/p", egress=[])
    own = b.cnp("c", subject=b.in_namespace("a"), egress=[b.deny(V4)])
    assert not paths("one-family-deny", own, isolated)


def test_ports_must_match() -> None:
    web = b.cnp("c", egress=[b.deny(V4), b.deny(V6, ports=[b.tcp(80)])])
    assert paths("one-family-deny", web) == ["c spec.egress[0]"]
    all_of_it = b.cnp("c", egress=[b.deny(V4, ports=[b.tcp(80)]), b.deny(V6)])
    assert [f.severity for f in findings_of("one-family-deny", all_of_it)] == [Severity.INFO]


# The metadata server.


def test_a_wide_allow_includes_the_metadata_server() -> None:
    policy = b.netpol("a/p", egress=[b.allow(b.ip_block("0.0.0.0/0", "10.0.0.0/8"))])
    [finding] = findings_of("metadata-server-open", policy)
    assert finding.path == "spec.egress[0].to[0]"
    assert "169.254.0.0/16 to its except" in finding.fix
    assert paths("metadata-server-open", b.cnp("c", egress=[b.accept(V4)])) == [
        "c spec.egress[0].to[0]"
    ]


@pytest.mark.parametrize(
    "rule",
    [
        b.allow(b.ip_block("0.0.0.0/0", "169.254.0.0/16")),
        b.allow(b.ip_block("0.0.0.0/0", "169.254.169.254/32")),
        b.allow(b.ip_block("10.0.0.0/8"), b.ip_block("::/0")),
        b.allow(b.ip_block("169.254.169.254/32")),  # wanted
        b.allow(b.ip_block("0.0.0.0/0"), ports=[b.tcp(443), b.udp()]),
        b.allow(),  # no attempt to restrict
    ],
)
def test_rules_that_do_not_open_it_by_mistake(rule: NetworkRule) -> None:
    assert not paths("metadata-server-open", b.netpol("a/p", egress=[rule]))


def test_an_admin_deny_shuts_it() -> None:
    policy = b.netpol("a/p", egress=[b.allow(b.ip_block("0.0.0.0/0"))])
    link_local = b.networks("169.254.0.0/16")
    assert not paths("metadata-server-open", policy, deny(link_local))
    passing = b.cnp("c", egress=[b.pass_on(V4), b.deny(link_local)])
    assert paths("metadata-server-open", policy, passing)
    some = b.cnp("c", subject=b.in_namespace("z"), egress=[b.deny(link_local)])
    assert paths("metadata-server-open", policy, some)
    rules = [b.deny(link_local), b.accept(V4)]
    assert not paths("metadata-server-open", b.cnp("c", egress=rules))
    assert not paths("metadata-server-open", b.cnp("c", Tier.BASELINE, egress=rules))
    assert paths("metadata-server-open", b.cnp("c", egress=rules[::-1]))


# NetworkPolicies are a union.


def test_an_allow_list_beside_an_allow_all() -> None:
    listed = b.netpol("a/listed", egress=[b.allow(b.own_pods())])
    wide = b.netpol("a/wide", egress=[b.allow()])
    [finding] = findings_of("opened-elsewhere", listed, wide)
    assert finding.object == "NetworkPolicy a/listed"
    assert finding.path == "spec.egress"
    assert finding.severity is Severity.WARNING
    assert "wide allows all of it" in finding.message
    assert ids([listed, wide]) == ["opened-elsewhere"]


def test_all_addresses_are_everything() -> None:
    listed = b.netpol("a/listed", egress=[b.allow(b.own_pods())])
    both = b.allow(b.ip_block("0.0.0.0/0"), b.ip_block("::/0"))
    assert paths("opened-elsewhere", listed, b.netpol("a/wide", egress=[both]))
    four = b.allow(b.ip_block("0.0.0.0/0"))
    assert not paths("opened-elsewhere", listed, b.netpol("a/wide", egress=[four]))


def test_a_default_deny_that_is_opened_on_purpose_is_worth_a_note() -> None:
    shut = b.netpol("a/shut", ingress=[], egress=[])
    wide = b.netpol("a/wide", egress=[b.allow()])
    [finding] = findings_of("opened-elsewhere", shut, wide)
    assert finding.severity is Severity.INFO
    assert finding.path == "spec.policyTypes"


def test_other_pods_namespaces_and_directions_open_nothing() -> None:
    listed = b.netpol("a/listed", egress=[b.allow(b.own_pods())])
    web = b.select({"app": "web"})
    for other in (
        b.netpol("z/wide", egress=[b.allow()]),
        b.netpol("a/wide", ingress=[b.allow()]),
        b.netpol("a/wide", web, egress=[b.allow()]),
        b.netpol("a/wide", egress=[b.allow(ports=[b.tcp()])]),
    ):
        assert not paths("opened-elsewhere", listed, other)
    # All pods that it selects here are the other's too.
    pod = b.pod("a/web", "10.0.0.1", labels={"app": "web"})
    assert paths("opened-elsewhere", pod, listed, b.netpol("a/wide", web, egress=[b.allow()]))


def test_an_allow_all_by_itself_is_fine() -> None:
    assert ids([b.netpol("a/wide", egress=[b.allow()])]) == []
