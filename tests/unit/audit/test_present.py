import msgspec
from helpers import builders as b
from helpers.findings import findings_of, ids, paths

from knp_py.model.policy import Tier

WEB, API = {"app": "web"}, {"app": "api"}
NAMED = b.pods(b.select(WEB))
TEAM = b.pods(b.select({"team": "blue"}))


def test_shadowed_only_by_the_labels_that_pods_happen_to_have() -> None:
    policy = b.cnp("c", egress=[b.deny(NAMED), b.accept(TEAM)])
    client = b.pod("a/client", "10.0.0.1")
    blue = b.pod("a/web", "10.0.0.2", labels={**WEB, "team": "blue"})
    [finding] = findings_of("shadowed-now", policy, client, blue)
    assert finding.path == "spec.egress[1]"
    assert "spec.egress[0] denies" in finding.message
    other = b.pod("a/api", "10.0.0.3", labels={**API, "team": "blue"})
    assert ids([policy, client, blue, other]) == []


def test_a_rule_that_matches_nothing_here_is_not_called_shadowed() -> None:
    policy = b.cnp("c", egress=[b.deny(NAMED), b.accept(TEAM)])
    pods = [b.pod("a/client", "10.0.0.1"), b.pod("a/web", "10.0.0.2", labels=WEB)]
    assert ids([policy, *pods]) == ["peer-matches-nothing"]


def test_several_rules_together() -> None:
    rules = [b.deny(NAMED), b.deny(b.pods(b.select(API))), b.accept(TEAM)]
    pods = [
        b.pod("a/web", "10.0.0.2", labels={**WEB, "team": "blue"}),
        b.pod("a/api", "10.0.0.3", labels={**API, "team": "blue"}),
    ]
    [finding] = findings_of("shadowed-now", b.cnp("c", egress=rules), *pods)
    assert "spec.egress[0] and spec.egress[1] together take" in finding.message


def test_real_addresses_of_pods_bound_where_pods_are() -> None:
    policy = b.cnp("c", egress=[b.deny(b.networks("10.0.0.0/8")), b.accept(TEAM)])
    inside = b.pod("a/web", "10.0.0.2", labels={"team": "blue"})
    assert paths("shadowed-rule", policy, inside) == ["c spec.egress[1]"]
    outside = b.pod("a/api", "100.64.0.3")
    assert ids([policy, inside, outside]) == ["shadowed-now"]


def test_made_up_addresses_bound_nothing() -> None:

    policy = b.cnp("c", egress=[b.deny(b.networks("10.0.0.0/8")), b.accept(TEAM)])
    pod = b.pod("a/web", "10.0.0.2", labels={"team": "blue"})
    assert ids([policy, msgspec.structs.replace(pod, made_up=True)]) == []


def test_pod_networks_of_nodes_are_where_pods_may_come() -> None:
    policy = b.cnp("c", egress=[b.deny(b.networks("10.0.0.0/8")), b.accept(TEAM)])
    pod = b.pod("a/web", "10.0.0.2", labels={"team": "blue"})
    node = b.node("n", "192.168.0.1", pod_cidrs=["10.0.0.0/24", "100.64.0.0/24"])
    assert ids([policy, pod, node]) == ["shadowed-now"]


def test_an_address_that_is_a_pod_is_nothing_else() -> None:
    one = b.networks("10.0.0.2/32")
    policy = b.cnp("c", egress=[b.deny(NAMED), b.accept(one)])
    web = b.pod("a/web", "10.0.0.2", labels=WEB)
    assert paths("shadowed-now", policy, web) == ["c spec.egress[1]"]
    assert (
        ids([b.cnp("c", egress=[b.deny(NAMED), b.accept(b.networks("10.0.0.2/31"))]), web]) == []
    )


def test_ingress_asks_for_the_ports_of_the_subject() -> None:
    rules = [b.deny(NAMED, ports=[b.named("http")]), b.accept(TEAM, ports=[b.named("web")])]
    policy = b.cnp("c", subject=b.pods(b.select(API)), ingress=rules)
    client = b.pod("a/web", "10.0.0.2", labels={**WEB, "team": "blue"})
    ports = [b.container_port("http", 80), b.container_port("web", 80)]
    server = b.pod("a/api", "10.0.0.3", labels=API, ports=ports)
    assert paths("shadowed-now", policy, client, server) == ["c spec.ingress[1]"]
    ports = [b.container_port("http", 80), b.container_port("web", 81)]
    server = b.pod("a/api", "10.0.0.3", labels=API, ports=ports)
    assert ids([policy, client, server]) == []


def test_nodes_are_ends_too() -> None:
    edge = b.nodes(b.select({"role": "edge"}))
    policy = b.cnp("c", egress=[b.deny(b.networks("192.168.0.0/16")), b.accept(edge)])
    pod = b.pod("a/web", "10.0.0.2")
    node = b.node("n", "192.168.0.1", labels={"role": "edge"})
    assert paths("shadowed-rule", policy, pod, node) == ["c spec.egress[1]"]
    far = b.node("m", "203.0.113.1", labels={"role": "edge"})
    assert ids([policy, pod, node, far]) == []


def test_a_name_can_be_any_address() -> None:
    rules = [b.deny(NAMED), b.accept(b.domains("example.com"))]
    policy = b.cnp("c", Tier.ADMIN, egress=[*rules, b.deny(b.networks("0.0.0.0/0", "::/0"))])
    web = b.pod("a/web", "10.0.0.2", labels=WEB)
    assert not paths("shadowed-now", policy, web)
