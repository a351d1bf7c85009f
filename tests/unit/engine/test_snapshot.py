"""What a snapshot answers to those who are not the evaluator."""

from helpers import builders as b
from helpers.builders import accept, allow, cnp, deny, netpol
from helpers.judging import snapshot_of, state_of

from knp_py.model.changes import Change, Verb
from knp_py.model.net import parse_address
from knp_py.model.policy import Tier

DNS = b.pod("kube-system/coredns", "10.0.3.53", "fd00::53", labels={"k8s-app": "kube-dns"})
NODE_LOCAL = parse_address("169.254.20.10")


def test_objects_by_their_keys() -> None:
    pod, job = b.pod("x/a", "10.0.1.10"), b.pod("x/job", phase="Succeeded")
    policy, cluster = netpol("x/np", ingress=[]), cnp("c")
    node, service, namespace = b.node("n1"), b.service("x/s"), b.namespace("x")
    snapshot = snapshot_of((pod, job, policy, cluster, node, service, namespace))
    assert snapshot.pods == {"uid-x/a": pod, "uid-x/job": job}
    assert snapshot.pod_by_key("x/a") == pod
    assert snapshot.pod_by_key("x/job") == job
    assert snapshot.pod_by_key("x/nobody") is None
    assert snapshot.namespaces == {"x": namespace}
    assert snapshot.nodes == {"n1": node}
    assert snapshot.services == {"x/s": service}
    assert snapshot.network_policies == {"x/np": policy}
    assert snapshot.cluster_policies == {"c": cluster}


def test_policies_of_one_name_in_two_namespaces_are_two() -> None:
    one, other = netpol("x/np", ingress=[]), netpol("y/np", ingress=[])
    assert set(snapshot_of((one, other)).network_policies) == {"x/np", "y/np"}


def test_keys_do_not_run_together() -> None:
    # "ab" + "c" is not "a" + "bc".
    one, other = netpol("ab/c", ingress=[]), netpol("a/bc", egress=[])
    pods = b.pod("ab/c", "10.0.0.1"), b.pod("a/bc", "10.0.0.2")
    snapshot = snapshot_of((one, other, *pods))
    assert [snapshot.pod_by_key(pod.key) for pod in pods] == list(pods)
    assert len(snapshot.network_policies) == 2


def test_a_pod_network_is_what_nodes_say() -> None:
    nodes = (
        b.node("n1", pod_cidrs=["10.0.1.0/24", "fd00:1::/64"]),
        b.node("n2", pod_cidrs=["10.0.2.0/24"]),
    )
    state = state_of(nodes)
    snapshot = state.snapshot()
    inside = ("10.0.1.0", "10.0.1.255", "10.0.2.7", "fd00:1::", "fd00:1::ffff:ffff:ffff:ffff")
    outside = ("10.0.0.255", "10.0.3.0", "fd00:2::", "fd00::ffff", "::")
    assert all(snapshot.in_pod_network(parse_address(text)) for text in inside)
    assert not any(snapshot.in_pod_network(parse_address(text)) for text in outside)
    state.apply(Change(Verb.DELETED, nodes[0]))
    assert not state.snapshot().in_pod_network(parse_address("10.0.1.7"))
    assert state.snapshot().in_pod_network(parse_address("10.0.2.7"))
    assert snapshot.in_pod_network(parse_address("10.0.1.7")), "the old one stays as it was"


def test_pod_networks_that_overlap_are_one() -> None:
    nodes = (
        b.node("n1", pod_cidrs=["10.0.0.0/16"]),
        b.node("n2", pod_cidrs=["10.0.2.0/24", "10.1.0.0/16"]),
        b.node("n3", pod_cidrs=["10.0.2.0/24"]),
    )
    snapshot = snapshot_of(nodes)
    for text in ("10.0.0.0", "10.0.2.0", "10.0.2.255", "10.0.3.0", "10.1.255.255"):
        assert snapshot.in_pod_network(parse_address(text))
    assert not snapshot.in_pod_network(parse_address("10.2.0.0"))


def test_services_by_cluster_and_external_address() -> None:
    web = b.service("x/web", "10.96.0.7", "fd00:96::7", external_ips=["198.51.100.7"])
    snapshot = snapshot_of((web,))
    for text in ("10.96.0.7", "fd00:96::7", "198.51.100.7"):
        assert snapshot.service_at(parse_address(text)) == web
    assert snapshot.service_at(parse_address("10.96.0.8")) is None


def test_patterns_are_those_of_accept_rules_in_both_tiers_in_one_spelling() -> None:
    objects = (
        cnp("a", egress=[accept(b.domains("Example.COM.", "*.Example.com"))]),
        cnp("b", Tier.BASELINE, egress=[accept(b.domains("*.base.test."))]),
        cnp("c", egress=[deny(b.domains("denied.test"))]),
        cnp("d", ingress=[accept(b.domains("ingress.test"))]),
    )
    state = state_of(objects)
    snapshot = state.snapshot()
    assert snapshot.patterns == {"example.com", "*.example.com", "*.base.test"}
    state.apply(Change(Verb.DELETED, objects[1]))
    assert state.snapshot().patterns == {"example.com", "*.example.com"}


def test_the_clusters_resolvers() -> None:
    service = b.service("kube-system/kube-dns", "10.96.0.10", port=53, protocol="UDP")
    fakes = (
        b.pod("x/dns", "10.0.1.53", labels={"k8s-app": "kube-dns"}),
        b.pod("kube-system/other", "10.0.3.54", labels={"k8s-app": "other"}),
        b.service("x/kube-dns", "10.96.0.66"),
        b.service("kube-system/other", "10.96.0.67"),
    )
    state = state_of((DNS, service, *fakes))
    expected = {*DNS.ips, *service.cluster_ips, NODE_LOCAL}
    assert state.snapshot().cluster_resolvers == expected
    state.apply(Change(Verb.DELETED, DNS))
    assert state.snapshot().cluster_resolvers == {*service.cluster_ips, NODE_LOCAL}
    assert snapshot_of(()).cluster_resolvers == {NODE_LOCAL}


def test_a_pod_that_lost_its_address_is_no_resolver() -> None:
    gone = b.pod("kube-system/old", "10.0.3.99", labels=dict(DNS.labels), phase="Failed")
    host = b.pod("kube-system/host", "192.168.0.1", labels=dict(DNS.labels), host_network=True)
    resolvers = snapshot_of((gone, host)).cluster_resolvers
    assert parse_address("10.0.3.99") not in resolvers


def test_generations_grow_with_changes() -> None:
    state = state_of((DNS,))
    first = state.snapshot()
    state.apply(Change(Verb.APPLIED, netpol("x/np", ingress=[allow()])))
    assert state.snapshot().generation > first.generation


def test_a_clash_of_addresses_ends_with_its_cause() -> None:
    one, two = b.pod("x/one", "10.0.1.20", uid="1"), b.pod("x/two", "10.0.1.20", uid="2")
    state = state_of((one, two))
    assert any("10.0.1.20" in text for text in state.snapshot().warnings)
    assert state.snapshot().pod_at(one.ips[0]) == two
    state.apply(Change(Verb.DELETED, two))
    assert state.snapshot().pod_at(one.ips[0]) == one
    assert not any("10.0.1.20" in text for text in state.snapshot().warnings)
