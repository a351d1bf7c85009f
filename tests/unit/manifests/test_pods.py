"""Pods from documents."""

import pytest
from helpers.manifests import clean, lines, load_raw, load_values, pods

from knp_py.engine.state import ClusterState
from knp_py.model.changes import Change, Verb
from knp_py.model.net import parse_address
from knp_py.model.objects import ContainerPort, Pod


def document(**fields: object) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "x"},
        "spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
        **fields,
    }


def pod(**fields: object) -> Pod:
    """The pod of a document that has nothing wrong, the same by both ways in."""
    (found,) = pods(clean(load_values(document(**fields)))).values()
    (raw,) = pods(clean(load_raw(document(**fields)))).values()
    assert (raw.uid, raw.ips, raw.labels, raw.ports, raw.made_up) == (
        found.uid,
        found.ips,
        found.labels,
        found.ports,
        found.made_up,
    )
    return found


def problems(**fields: object) -> list[str]:
    results = [load_values(document(**fields)), load_raw(document(**fields))]
    assert not any(result.objects for result in results)
    found, raw = (lines(result.problems) for result in results)
    assert found == raw
    return [line.removeprefix("Pod x/p: ") for line in found]


def addresses(*texts: str) -> tuple[int, ...]:
    return tuple(parse_address(text) for text in texts)


def test_identity() -> None:
    assert pod().uid == "x/p"
    found = pod(metadata={"name": "p", "uid": "u-1", "creationTimestamp": "2026-11-29T10:00:00Z"})
    assert (found.uid, found.key, found.created) == (
        "u-1/default/p",
        "default/p",
        "2026-11-29T10:00:00Z",
    )


def test_a_copy_under_another_name_is_another_pod() -> None:
    """With the UID of the first one, as who copied it left it; neither may push the other out."""
    shared = {"namespace": "x", "uid": "u-1"}
    documents = [
        document(metadata={"name": name, **shared}, status={"phase": "Running", "podIP": ip})
        for name, ip in (("p", "10.0.0.1"), ("copy", "10.0.0.2"))
    ]
    for order in (documents, documents[::-1]):
        state = ClusterState()
        state.apply_all(Change(Verb.APPLIED, each) for each in clean(load_values(*order)).objects)
        snapshot = state.snapshot()
        found = [snapshot.pod_at(parse_address(ip)) for ip in ("10.0.0.1", "10.0.0.2")]
        assert [each and each.name for each in found] == ["p", "copy"]


def test_addresses() -> None:
    assert pod().ips == addresses("10.0.0.1")
    assert pod(status={"podIP": "10.0.0.1"}).phase == "Running"
    dual = {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}
    assert pod(status={"phase": "Running", **dual}).ips == addresses("10.0.0.1", "fd00::1")
    assert pod(status={"phase": "Running", "podIPs": [{"ip": "10.0.0.2"}]}).ips == addresses(
        "10.0.0.2"
    )
    mapped = pod(status={"phase": "Running", "podIP": "::ffff:10.0.0.1"})
    assert mapped.ips == addresses("10.0.0.1")
    hosts = pod(status={"phase": "Running", "podIP": "10.0.0.1", "hostIP": "192.168.0.1"})
    assert hosts.host_ips == addresses("192.168.0.1")
    hosts = pod(
        status={
            "phase": "Running",
            "podIP": "10.0.0.1",
            "hostIP": "192.168.0.1",
            "hostIPs": [{"ip": "192.168.0.1"}, {"ip": "fd01::1"}],
        }
    )
    assert hosts.host_ips == addresses("192.168.0.1", "fd01::1")


@pytest.mark.parametrize("status", [{}, None, {"conditions": []}])
def test_a_pod_without_status_is_made_up(status: object) -> None:
    found = pod(status=status)
    assert found.made_up
    assert found.phase == "Running"
    assert len(found.ips) == 1


def test_a_pod_that_waits_for_its_address_has_none() -> None:
    found = pod(status={"phase": "Pending"})
    assert (found.ips, found.made_up, found.phase) == ((), False, "Pending")


def test_a_host_network_pod_gets_no_address_of_its_own() -> None:
    spec = {"hostNetwork": True, "nodeName": "n1"}
    found = pod(spec=spec, status=None)
    assert (found.ips, found.host_network, found.made_up) == ((), True, False)
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.168.0.1"}]},
    }
    (on_node,) = pods(clean(load_values(document(spec=spec, status=None), node))).values()
    assert on_node.ips == on_node.host_ips == addresses("192.168.0.1")


def test_ports() -> None:
    def ports(*found: dict[str, object]) -> list[object]:
        return [{"ports": list(found)}]

    http = {"name": "http", "containerPort": 80}
    assert pod(spec={"containers": ports(http)}).ports == (ContainerPort("http", 6, 80),)
    dns = {"name": "dns", "containerPort": 53, "protocol": "UDP"}
    assert pod(spec={"containers": ports(dns, {"containerPort": 1})}).ports == (
        ContainerPort("dns", 17, 53),
    )
    sidecar = {"restartPolicy": "Always", "ports": [http]}
    assert pod(spec={"initContainers": [sidecar]}).ports == (ContainerPort("http", 6, 80),)
    assert pod(spec={"initContainers": [{"ports": [http]}]}).ports == ()
    assert pod(spec={"containers": [*ports(http), *ports(http)]}).ports[1:] == (
        ContainerPort("http", 6, 80),
    )


def test_resolvers() -> None:
    assert pod().dns_policy == "ClusterFirst"
    found = pod(spec={"dnsPolicy": "None", "dnsConfig": {"nameservers": ["8.8.8.8", "fd00::53"]}})
    assert found.dns_policy == "None"
    assert found.nameservers == addresses("8.8.8.8", "fd00::53")


def test_fields_that_policy_does_not_read_are_not_looked_at() -> None:
    pod(spec={"volumes": 7, "containers": [{"env": "x"}]}, status={"podIP": "10.0.0.1", "x": []})


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"metadata": {"name": "p", "namespace": "x", "labels": {"a": 1}}}, "metadata.labels[a]"),
        ({"metadata": {"name": "p", "namespace": "x", "labels": []}}, "metadata.labels: found a"),
        ({"metadata": {"name": "p", "namespace": "x", "labels": {"a": "b c"}}}, "metadata.labels"),
        ({"metadata": {"name": "p", "namespace": "x", "uid": 1}}, "metadata.uid: found the numbe"),
        ({"spec": []}, "spec: found a list, expected an object"),
        ({"spec": {"hostNetwork": "true"}}, "spec.hostNetwork: found the text 'true', expected t"),
        ({"spec": {"hostNetwork": 1}}, "spec.hostNetwork: found the number 1, expected true or"),
        ({"spec": {"nodeName": 1}}, "spec.nodeName: found the number 1, expected text (put it"),
        ({"spec": {"dnsPolicy": "none"}}, "spec.dnsPolicy: found 'none', expected ClusterFirst,"),
        ({"spec": {"dnsPolicy": "None"}}, "spec.dnsConfig.nameservers: missing, expected at leas"),
        (
            {"spec": {"dnsConfig": {"nameservers": ["dns"]}}},
            "spec.dnsConfig.nameservers[0]: found 'dns', expected an IP address",
        ),
        ({"spec": {"containers": {}}}, "spec.containers: found an object, expected a list"),
        (
            {"spec": {"containers": [{"ports": [{"name": "http"}]}]}},
            "spec.containers[0].ports[0].containerPort: missing, expected a number from 1 to",
        ),
        (
            {"spec": {"containers": [{"ports": [{"containerPort": 0}]}]}},
            "spec.containers[0].ports[0].containerPort: found 0, expected a number from 1 to",
        ),
        (
            {"spec": {"containers": [{"ports": [{"containerPort": "80"}]}]}},
            "spec.containers[0].ports[0].containerPort: found the text '80', expected a whole",
        ),
        (
            {"spec": {"containers": [{"ports": [{"containerPort": 80, "protocol": "tcp"}]}]}},
            "spec.containers[0].ports[0].protocol: found 'tcp', expected TCP, UDP or SCTP, did",
        ),
        (
            {"spec": {"containers": [{"ports": [{"containerPort": 80, "name": "HTTP"}]}]}},
            "spec.containers[0].ports[0].name: found 'HTTP', expected a port name",
        ),
        (
            {"spec": {"containers": [{"ports": [{"containerPort": 80, "name": "a"}] * 2}]}},
            "spec.containers[0].ports[1].name: 'a' stands twice",
        ),
        ({"status": {"phase": "Completed", "podIP": "10.0.0.1"}}, "status.phase: found 'Complet"),
        ({"status": {"phase": "running", "podIP": "10.0.0.1"}}, "status.phase: found 'running'"),
        ({"status": {"podIP": "10.0.0"}}, "status.podIP: found '10.0.0', expected an IP address"),
        ({"status": {"podIPs": [{"ip": "x"}]}}, "status.podIPs[0].ip: found 'x', expected an IP"),
        ({"status": {"podIP": "1.2.3.4", "hostIP": "n1"}}, "status.hostIP: found 'n1', expected"),
    ],
)
def test_bad_pods(fields: dict[str, object], what: str) -> None:
    (found,) = problems(**fields)
    assert found.startswith(what)


def test_every_mismatch_of_a_pod_is_reported() -> None:
    fields = {
        "spec": {"nodeName": 1, "containers": [{"ports": [{"name": 2, "containerPort": "x"}]}]},
        "status": {"podIP": 3, "podIPs": [4, {"ip": 5}]},
    }
    assert [line.split(":")[0] for line in problems(**fields)] == [
        "spec.nodeName",
        "spec.containers[0].ports[0].name",
        "spec.containers[0].ports[0].containerPort",
        "status.podIP",
        "status.podIPs[0]",
        "status.podIPs[1].ip",
    ]


def test_names() -> None:
    for metadata, what in [
        ({"name": "P"}, "Pod default/P: metadata.name: found 'P', expected a DNS name"),
        ({"namespace": "x"}, "Pod: metadata.name: missing, expected the object's name"),
        (None, "Pod: metadata: missing, expected an object with a name"),
        ({"name": "p", "namespace": "X"}, "Pod X/p: metadata.namespace: found 'X', expected a DN"),
        ({"name": 1}, "Pod: metadata.name: found the number 1, expected text (put it in quotes)"),
    ]:
        (line,) = lines(load_values(document(metadata=metadata)).problems)
        assert line.startswith(what)


def test_a_generated_name_is_made_up() -> None:
    (found,) = pods(clean(load_values(document(metadata={"generateName": "p-"})))).values()
    assert found.name.startswith("p-")
    assert len(found.name) == 7


@pytest.mark.parametrize(
    ("written", "held"),
    [
        ("2024-01-02T00:00:00Z", "2024-01-02T00:00:00Z"),
        ("2024-01-02T00:00:00+02:00", "2024-01-01T22:00:00Z"),
        ("2024-01-02T00:00:00.5Z", "2024-01-02T00:00:00Z"),
        (None, ""),
    ],
)
def test_creation_times_compare_as_times(written: str | None, held: str) -> None:
    metadata = {"name": "p", "namespace": "x", "creationTimestamp": written}
    assert pod(metadata=metadata).created == held


def test_a_creation_time_that_is_none() -> None:
    metadata = {"name": "p", "namespace": "x", "creationTimestamp": "yesterday"}
    assert problems(metadata=metadata) == [
        "metadata.creationTimestamp: found 'yesterday', expected a time (RFC 3339)"
    ]
