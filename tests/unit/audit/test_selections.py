import pytest
from helpers import builders as b
from helpers.findings import findings_of, ids, paths

from knp_py.audit.findings import Severity
from knp_py.model.changes import ClusterObject
from knp_py.model.policy import ClusterRule, NetworkPolicy

WEB = {"app": "web"}
POD = b.pod("shop/web", "10.0.0.1", labels=WEB, ports=[b.container_port("http", 8080)])


def policy(**labels: str) -> NetworkPolicy:
    return b.netpol("shop/p", b.select(labels), ingress=[b.allow()])


# Subjects.


def test_a_label_that_is_a_slip() -> None:
    assert ids([POD, policy(app="web")]) == []
    [finding] = findings_of("selects-nothing", POD, policy(app="wbe"))
    assert finding.severity is Severity.WARNING
    assert finding.path == "spec.podSelector"
    assert "in namespace shop no pod has app=wbe, did you mean 'web'?" in finding.message
    [finding] = findings_of("selects-nothing", POD, policy(aap="web"))
    assert "no pod has the label aap, did you mean 'app'?" in finding.message


def test_labels_that_exist_but_not_together() -> None:
    other = b.pod("shop/api", "10.0.0.2", labels={"tier": "back"})
    [finding] = findings_of("selects-nothing", POD, other, policy(app="web", tier="back"))
    assert "all of these labels" in finding.message


def test_of_a_namespace_without_pods_in_the_input_no_selector_is_judged() -> None:
    policy = b.netpol("bank/p", b.select(WEB), ingress=[b.allow()])
    assert ids([b.namespace("bank"), POD, policy]) == []


def test_finished_pods_are_pods_that_were_meant() -> None:
    done = b.pod("shop/job", "10.0.0.2", labels={"app": "job"}, phase="Succeeded")
    assert ids([POD, done, policy(app="job")]) == []


def test_subject_of_a_cluster_policy() -> None:
    known: list[ClusterObject] = [b.namespace("shop", {"env": "prod"}), POD]
    rules = [b.deny(b.pods())]
    prod = b.namespaces(b.select({"env": "prod"}))
    assert ids([*known, b.cnp("c", subject=prod, egress=rules)]) == []
    test = b.namespaces(b.select({"env": "test"}))
    [finding] = findings_of("selects-nothing", *known, b.cnp("c", subject=test, egress=rules))
    assert finding.path == "spec.subject"
    assert "no namespace of the input has such labels" in finding.message
    # Without Namespace objects nobody knows their labels.
    assert ids([POD, b.cnp("c", subject=test, egress=rules)]) == []


def test_without_pods_it_is_said_once() -> None:
    policies = [policy(app="nobody"), b.netpol("bank/p", ingress=[b.allow()])]
    [finding] = findings_of("no-pods", *policies)
    assert finding.severity is Severity.INFO
    assert ids(policies) == []
    assert not paths("no-pods", POD, policy(app="web"))


# Host-network pods.


def test_host_network_pods_only() -> None:
    host = b.pod("shop/agent", "192.168.0.1", labels={"app": "agent"}, host_network=True)
    [finding] = findings_of("host-network-subject", POD, host, policy(app="agent"))
    assert finding.severity is Severity.WARNING
    assert "shop/agent" in finding.message
    assert not paths("selects-nothing", POD, host, policy(app="agent"))


def test_host_network_pods_among_others() -> None:
    host = b.pod("shop/agent", "192.168.0.1", labels=WEB, host_network=True)
    [finding] = findings_of("host-network-subject", POD, host, policy(app="web"))
    assert finding.severity is Severity.INFO
    assert not paths("host-network-subject", POD, policy(app="web"))


def test_host_network_pods_as_peers() -> None:
    host = b.pod("shop/agent", "192.168.0.1", labels={"app": "agent"}, host_network=True)
    rule = b.allow(b.own_pods(b.select({"app": "agent"})))
    [finding] = findings_of("peer-matches-nothing", POD, host, b.netpol("shop/p", ingress=[rule]))
    assert "their node" in finding.message


# Peers.


def test_a_peer_that_matches_no_pod() -> None:
    rule = b.allow(b.own_pods(b.select(WEB)), b.own_pods(b.select({"app": "wbe"})))
    [finding] = findings_of("peer-matches-nothing", POD, b.netpol("shop/p", ingress=[rule]))
    assert finding.path == "spec.ingress[0].from[1]"
    assert "did you mean 'web'" in finding.message


def test_a_peer_in_namespaces_that_the_input_does_not_have() -> None:
    dns = b.allow(b.in_namespace("kube-system", b.select({"k8s-app": "kube-dns"})))
    assert ids([POD, b.netpol("shop/p", egress=[dns])]) == []
    assert ids([b.namespace("shop"), POD, b.netpol("shop/p", egress=[dns])]) == []


def test_in_a_whole_cluster_absence_is_certain() -> None:
    whole: list[ClusterObject] = [b.namespace("kube-system"), b.namespace("shop"), POD]
    wrong = b.allow(b.namespaces(b.select({"name": "kube-system"})))
    [finding] = findings_of("peer-matches-nothing", *whole, b.netpol("shop/p", egress=[wrong]))
    assert finding.severity is Severity.WARNING
    empty = b.allow(b.in_namespace("kube-system"))
    [finding] = findings_of("peer-matches-nothing", *whole, b.netpol("shop/p", egress=[empty]))
    assert finding.severity is Severity.INFO
    assert "there are none in namespace kube-system" in finding.message
    subject = b.cnp("c", subject=b.in_namespace("kube-system"), egress=[b.deny(b.pods())])
    [finding] = findings_of("selects-nothing", *whole, subject)
    assert finding.severity is Severity.INFO


def test_nodes() -> None:
    edge = b.cnp("c", egress=[b.deny(b.nodes(b.select({"role": "edge"})))])
    assert ids([edge]) == []
    assert paths("peer-matches-nothing", edge, b.node("n", labels={"role": "worker"})) == [
        "c spec.egress[0].to[0]"
    ]
    assert not paths("peer-matches-nothing", edge, b.node("n", labels={"role": "edge"}))


def test_a_namespace_asked_for_by_a_name_that_is_not_there() -> None:
    rule = b.allow(b.in_namespace("monitorin"), b.in_namespace("kube-system"))
    objects: list[ClusterObject] = [
        b.namespace("shop"),
        b.namespace("monitoring"),
        b.netpol("shop/p", ingress=[rule]),
    ]
    [finding] = findings_of("unknown-namespace", *objects)
    assert finding.path == "spec.ingress[0].from[0]"
    assert "did you mean 'monitoring'" in finding.message
    # Where no namespace is declared, none is missing.
    assert not paths("unknown-namespace", objects[-1])
    subject = b.cnp("c", subject=b.in_namespace("shpo"), egress=[b.deny(b.pods())])
    assert paths("unknown-namespace", b.namespace("shop"), subject) == ["c spec.subject"]


def test_a_namespace_of_another_directory_is_not_missing() -> None:
    for declared, name in (("shop", "monitoring"), ("team-a", "team-b")):
        policy = b.netpol(f"{declared}/p", ingress=[b.allow(b.in_namespace(name))])
        assert not paths("unknown-namespace", b.namespace(declared), policy)
        whole: list[ClusterObject] = [b.namespace(declared), b.namespace("kube-system"), policy]
        assert paths("unknown-namespace", *whole) == [f"{declared}/p spec.ingress[0].from[0]"]


@pytest.mark.parametrize("known", [[b.namespace("shop")], [POD], [b.namespace("shop"), POD]])
def test_a_policy_in_a_namespace_that_is_a_slip(known: list[ClusterObject]) -> None:
    policy = b.netpol("shpo/p", b.select(WEB), ingress=[b.allow()])
    [finding] = findings_of("unknown-namespace", *known, policy)
    assert finding.path == "metadata.namespace"
    assert finding.severity is Severity.WARNING
    assert "is in namespace shpo" in finding.message
    assert "did you mean 'shop'" in finding.message


def test_a_policy_in_a_namespace_that_the_input_does_not_have() -> None:
    policy = b.netpol("bank/p", b.select(WEB), ingress=[b.allow()])
    whole = [b.namespace("shop"), b.namespace("kube-system")]
    [finding] = findings_of("unknown-namespace", *whole, policy)
    assert finding.severity is Severity.WARNING
    assert "did you mean" not in finding.message
    # Else what is there is often a few namespaces of many.
    for known in (b.namespace("shop"), POD):
        [finding] = findings_of("unknown-namespace", known, policy)
        assert finding.severity is Severity.INFO


def test_a_policy_in_a_namespace_that_is_there_or_of_which_nothing_is_known() -> None:
    policy = b.netpol("bank/p", b.select(WEB), ingress=[b.allow()])
    for known in ([], [b.namespace("bank")], [POD, b.pod("bank/web", "10.0.0.9")]):
        assert not paths("unknown-namespace", *known, policy)
    default = b.netpol("default/p", b.select(WEB), ingress=[b.allow()])
    assert not paths("unknown-namespace", b.namespace("shop"), default)
    service = b.service("bank/web", "10.96.0.1")
    assert not paths("unknown-namespace", b.namespace("shop"), service, policy)


# Port names.


def test_ingress_port_names_are_the_subjects() -> None:
    def named(name: str, protocol: str = "TCP") -> NetworkPolicy:
        port = b.named(name, protocol)
        return b.netpol("shop/p", ingress=[b.allow(ports=[b.tcp(80), port])])

    assert not paths("named-port-nowhere", POD, named("http"))
    [finding] = findings_of("named-port-nowhere", POD, named("htp"))
    assert finding.path == "spec.ingress[0].ports[1]"
    assert "did you mean 'http'" in finding.message
    [finding] = findings_of("named-port-nowhere", POD, named("http", "UDP"))
    assert "for TCP, not for UDP" in finding.message


def test_egress_port_names_are_the_peers() -> None:
    client = b.pod("shop/client", "10.0.0.2")
    for peers in ([b.own_pods(b.select(WEB))], []):
        fine = b.netpol("shop/p", egress=[b.allow(*peers, ports=[b.named("http")])])
        wrong = b.netpol("shop/p", egress=[b.allow(*peers, ports=[b.named("grpc")])])
        assert not paths("named-port-nowhere", POD, client, fine)
        assert paths("named-port-nowhere", POD, client, wrong) == [
            "shop/p spec.egress[0].ports[0]"
        ]


def test_without_destinations_port_names_are_not_judged() -> None:
    rule = b.allow(b.in_namespace("elsewhere"), ports=[b.named("grpc")])
    assert not paths("named-port-nowhere", POD, b.netpol("shop/p", egress=[rule]))


def test_a_cluster_policy_names_ports_of_any_protocol() -> None:
    def rule(name: str) -> list[ClusterRule]:
        return [b.deny(b.pods(), ports=[b.named(name, None)])]

    assert not paths("named-port-nowhere", POD, b.cnp("c", egress=rule("http")))
    assert paths("named-port-nowhere", POD, b.cnp("c", egress=rule("grpc"))) == [
        "c spec.egress[0].protocols[0]"
    ]
