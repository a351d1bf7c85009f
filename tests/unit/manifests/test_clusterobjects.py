"""Namespaces, Nodes and Services from documents."""

import pytest
from helpers.manifests import clean, lines, load_raw, load_values

from knp_py.model.net import parse_address
from knp_py.model.objects import Namespace, Node, Service, ServicePort

NAME = "kubernetes.io/metadata.name"


def one(kind: str, **fields: object) -> object:
    document = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "n"}, **fields}
    (found,) = clean(load_values(document)).objects
    (raw,) = clean(load_raw(document)).objects
    assert type(raw) is type(found)
    return found


def namespace(**fields: object) -> Namespace:
    found = one("Namespace", **fields)
    assert isinstance(found, Namespace)
    return found


def node(**fields: object) -> Node:
    found = one("Node", **fields)
    assert isinstance(found, Node)
    return found


def service(**spec: object) -> Service:
    found = one("Service", spec=spec)
    assert isinstance(found, Service)
    return found


def problems(kind: str, **fields: object) -> list[str]:
    document = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "n"}, **fields}
    result = load_values(document)
    assert not result.objects
    return [line.partition(": ")[2] for line in lines(result.problems)]


def addresses(*texts: str) -> tuple[int, ...]:
    return tuple(parse_address(text) for text in texts)


def test_every_namespace_carries_its_name() -> None:
    assert namespace().labels == {NAME: "n"}
    labelled = namespace(metadata={"name": "n", "labels": {"team": "t"}})
    assert labelled.labels == {"team": "t", NAME: "n"}
    wrong = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
    wrong["metadata"] = {"name": "n", "labels": {NAME: "other"}}
    result = load_values(wrong)
    assert lines(result.warnings) == [
        (
            f"Namespace n: metadata.labels[{NAME}]: found 'other'; "
            "the API server sets it to the namespace's name"
        )
    ]
    (found,) = result.objects
    assert isinstance(found, Namespace)
    assert found.labels == {NAME: "n"}


def test_a_namespace_that_terminates() -> None:
    assert not namespace(status={"phase": "Active"}).terminating
    assert namespace(status={"phase": "Terminating"}).terminating
    assert namespace(
        metadata={"name": "n", "deletionTimestamp": "2026-11-29T10:00:00Z"}
    ).terminating


def test_equal_labels_do_not_make_namespaces_share_a_map() -> None:
    documents = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"team": "t"}},
        }
        for name in ("a", "b")
    ]
    found = [obj for obj in load_values(*documents).objects if isinstance(obj, Namespace)]
    assert [obj.labels[NAME] for obj in found] == ["a", "b"]


def test_node_addresses() -> None:
    found = node(
        spec={"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24", "fd00:1::/64"]},
        status={
            "addresses": [
                {"type": "InternalIP", "address": "192.168.0.1"},
                {"type": "InternalIP", "address": "fd01::1"},
                {"type": "ExternalIP", "address": "203.0.113.1"},
                {"type": "Hostname", "address": "n"},
                {"type": "Hostname", "address": "192.168.0.9"},
                {"type": "ExternalDNS", "address": "n.example.com"},
            ]
        },
    )
    assert found.ips == addresses("192.168.0.1", "fd01::1", "203.0.113.1")
    assert found.all_ips == addresses("192.168.0.1", "fd01::1", "203.0.113.1", "192.168.0.9")
    assert found.pod_cidrs == ("10.1.0.0/24", "fd00:1::/64")
    assert node(spec={"podCIDR": "10.1.0.0/24"}).pod_cidrs == ("10.1.0.0/24",)
    assert node(metadata={"name": "n", "labels": {"pool": "one"}}).labels == {"pool": "one"}


def test_a_node_address_that_is_none() -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"addresses": [{"type": "InternalIP", "address": "node-1"}]},
    }
    result = load_values(document)
    assert lines(result.warnings) == [
        (
            "Node n: status.addresses[0].address: found 'node-1', expected an IP address; "
            "it is ignored"
        )
    ]


def test_services() -> None:
    found = service(
        selector={"app": "a"},
        clusterIP="10.96.0.1",
        clusterIPs=["10.96.0.1", "fd02::1"],
        externalIPs=["203.0.113.7"],
        ports=[
            {"port": 80},
            {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"},
            {"port": 443, "targetPort": 8443},
            {"port": 1, "targetPort": 0},
        ],
    )
    assert found.cluster_ips == addresses("10.96.0.1", "fd02::1")
    assert found.external_ips == addresses("203.0.113.7")
    assert found.selector == {"app": "a"}
    assert not found.headless
    assert found.ports == (
        ServicePort("", 6, 80, 80),
        ServicePort("dns", 17, 53, "dns"),
        ServicePort("", 6, 443, 8443),
        ServicePort("", 6, 1, 1),
    )
    assert service(clusterIP="10.96.0.2").cluster_ips == addresses("10.96.0.2")
    headless = service(clusterIP="None", clusterIPs=["None"])
    assert (headless.headless, headless.cluster_ips) == (True, ())
    assert service(type="ExternalName", externalName="x.example.com").cluster_ips == ()


def test_a_load_balancers_address() -> None:
    found = one(
        "Service",
        spec={"clusterIP": "10.96.0.1"},
        status={"loadBalancer": {"ingress": [{"ip": "203.0.113.8"}, {"hostname": "lb.example"}]}},
    )
    assert isinstance(found, Service)
    assert found.external_ips == addresses("203.0.113.8")


@pytest.mark.parametrize(
    ("kind", "fields", "what"),
    [
        ("Namespace", {"metadata": {"name": "a.b"}}, "metadata.name: found 'a.b', expected a DNS"),
        ("Namespace", {"status": "Active"}, "status: found the text 'Active', expected an object"),
        ("Node", {"spec": {"podCIDR": "10.0.0.0"}}, "spec.podCIDR: found '10.0.0.0', expected a"),
        ("Node", {"spec": {"podCIDRs": ["x"]}}, "spec.podCIDRs: found 'x', expected a CIDR"),
        ("Service", {}, "spec: missing, expected an object"),
        ("Service", {"metadata": {"name": "a.b"}, "spec": {}}, "metadata.name: found 'a.b'"),
        ("Service", {"spec": {"clusterIP": "x"}}, "spec.clusterIP[0]: found 'x', expected an IP"),
        ("Service", {"spec": {"externalIPs": ["x"]}}, "spec.externalIPs[0]: found 'x', expected"),
        ("Service", {"spec": {"ports": [{}]}}, "spec.ports[0].port: missing, expected a number"),
        ("Service", {"spec": {"ports": [{"port": 0}]}}, "spec.ports[0].port: found 0, expected"),
        (
            "Service",
            {"spec": {"ports": [{"port": 1, "protocol": "udp"}]}},
            "spec.ports[0].protocol: found 'udp', expected TCP, UDP or SCTP, did you mean 'UDP'?",
        ),
        (
            "Service",
            {"spec": {"ports": [{"port": 1, "targetPort": "80"}]}},
            "spec.ports[0].targetPort: found '80', expected a port name",
        ),
        (
            "Service",
            {"spec": {"ports": [{"port": 1, "targetPort": 70000}]}},
            "spec.ports[0].targetPort: found 70000, expected a number from 1 to 65535",
        ),
        (
            "Service",
            {"spec": {"ports": [{"port": 1, "targetPort": []}]}},
            "spec.ports[0].targetPort: found a list, expected a whole number or text",
        ),
        ("Service", {"spec": {"selector": {"a": 1}}}, "spec.selector[a]: found the number 1, exp"),
    ],
)
def test_bad_objects(kind: str, fields: dict[str, object], what: str) -> None:
    (found,) = problems(kind, **fields)
    assert found.startswith(what)


def test_cluster_wide_kinds_have_no_namespace() -> None:
    document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "namespace": "x"}}
    result = load_values(document)
    assert lines(result.warnings) == [
        "Node n: metadata.namespace: the kind is cluster-wide; the namespace is ignored"
    ]
