from helpers import builders as b
from helpers.findings import findings_of, paths

from knp_py.model.changes import ClusterObject
from knp_py.model.policy import ClusterNetworkPolicy, PodPeer, Tier

WEB = b.pods(b.select({"app": "web"}))
DB = b.pods(b.select({"app": "db"}))
PROD = b.namespaces(b.select({"env": "prod"}))


def deny(name: str, subject: PodPeer | None = None, priority: int = 5) -> ClusterNetworkPolicy:
    return b.cnp(name, Tier.ADMIN, priority, subject, egress=[b.deny(b.namespaces())])


def accept(name: str, subject: PodPeer | None = None, priority: int = 5) -> ClusterNetworkPolicy:
    return b.cnp(name, Tier.ADMIN, priority, subject, egress=[b.accept(b.namespaces())])


def test_two_that_disagree() -> None:
    [finding] = findings_of("equal-priority", accept("a"), deny("z"))
    assert finding.object == "ClusterNetworkPolicy z"
    assert finding.path == "spec.priority"
    assert "like a" in finding.message


def test_other_priorities_tiers_and_directions_are_no_tie() -> None:
    assert not paths("equal-priority", accept("a", priority=4), deny("z"))
    baseline = b.cnp("b", Tier.BASELINE, 5, egress=[b.accept(b.namespaces())])
    assert not paths("equal-priority", baseline, deny("z"))
    ingress = b.cnp("b", Tier.ADMIN, 5, ingress=[b.accept(b.namespaces())])
    assert not paths("equal-priority", ingress, deny("z"))


def test_the_same_action_is_no_disagreement() -> None:
    assert not paths("equal-priority", accept("a"), accept("z"))


def test_rules_about_different_flows_are_no_disagreement() -> None:
    dns = b.cnp("a", Tier.ADMIN, 5, egress=[b.accept(b.namespaces(), ports=[b.udp(53)])])
    web = b.cnp("z", Tier.ADMIN, 5, egress=[b.deny(b.namespaces(), ports=[b.tcp(80)])])
    assert not paths("equal-priority", dns, web)
    inside = b.cnp("a", Tier.ADMIN, 5, egress=[b.accept(b.networks("10.0.0.0/8"))])
    outside = b.cnp("z", Tier.ADMIN, 5, egress=[b.deny(b.networks("192.0.2.0/24"))])
    assert not paths("equal-priority", inside, outside)


def test_without_pods_subjects_that_could_share_a_pod_count() -> None:
    assert not paths("equal-priority", accept("a", WEB), deny("z", DB))
    assert paths("equal-priority", accept("a", WEB), deny("z", PROD))


def test_with_pods_only_subjects_that_do_share_one_count() -> None:
    objects: list[ClusterObject] = [
        accept("a", WEB),
        deny("z", PROD),
        b.namespace("x", {"env": "prod"}),
    ]
    elsewhere = b.pod("y/web", "10.0.0.1", labels={"app": "web"})
    assert not paths("equal-priority", *objects, elsewhere)
    both = b.pod("x/web", "10.0.0.2", labels={"app": "web"})
    assert paths("equal-priority", *objects, elsewhere, both)


def test_one_finding_a_policy_names_a_few_others() -> None:
    many = [accept(f"a{n}") for n in range(6)]
    [finding] = findings_of("equal-priority", *many, deny("z"))
    assert "a0, a1, a2 and 3 more" in finding.message
