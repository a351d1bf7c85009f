"""One object as an API server sends it."""

import json
from typing import Any

import msgspec
import pytest

from knp_py.manifests.single import Single, SingleReader
from knp_py.model.net import parse_address
from knp_py.model.objects import Pod, Service
from knp_py.model.policy import ClusterNetworkPolicy


def raw(value: Any) -> bytes:
    return json.dumps(value).encode()


def pod_document(**more: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "a",
            "namespace": "x",
            "uid": "u1",
            "resourceVersion": "7",
            "managedFields": [{"manager": "kubelet"}],
        },
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.1.0.5"}]},
    } | more


def read(kind: str, document: Any, version: str = "v1") -> Single:
    return SingleReader(version, kind, "cluster").read(raw(document))


def test_an_item_of_a_list_need_not_say_its_kind() -> None:
    single = read("Pod", pod_document())
    assert single.key == ("Pod", "x", "a")
    assert (single.uid, single.version, single.problems) == ("u1", "7", ())
    assert isinstance(single.found, Pod)
    assert single.found.ips == (parse_address("10.1.0.5"),)
    assert single.found.uid == "u1/x/a"


def test_a_pod_without_an_address_gets_none() -> None:
    for status in ({"phase": "Pending"}, None):
        found = read("Pod", pod_document(status=status)).found
        assert isinstance(found, Pod)
        assert not found.ips
        assert not found.made_up


def test_what_is_wrong_names_the_source_and_the_object() -> None:
    single = read("Pod", pod_document(status={"phase": "Flying"}))
    assert single.found is None
    assert str(single.problems[0]).startswith("cluster: Pod x/a: status.phase: found ")


def test_what_this_version_does_not_know_is_said_and_kept() -> None:
    document = {
        "metadata": {"name": "guard", "generation": 3},
        "spec": {
            "tier": "Admin",
            "priority": 1,
            "subject": {"namespaces": {}},
            "egress": [{"action": "Deny", "to": [{"futurePeer": {}}]}],
        },
    }
    single = read("ClusterNetworkPolicy", document, "policy.networking.k8s.io/v1alpha2")
    assert isinstance(single.found, ClusterNetworkPolicy)
    assert single.generation == 3
    assert "spec.egress[0].to[0]" in str(single.warnings[0])


def test_a_service_is_one() -> None:
    document = {
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"clusterIPs": ["10.96.0.10"], "ports": [{"port": 53, "protocol": "UDP"}]},
    }
    assert isinstance(read("Service", document).found, Service)


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"metadata": {"name": 7}}'])
def test_what_does_not_say_who_it_is_raises(text: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        SingleReader("v1", "Pod", "cluster").read(text)


def test_what_pods_share_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knp_py.manifests.single._SHARED", 10)
    reader = SingleReader("v1", "Pod", "cluster")
    labels = []
    for number in range(25):
        document = pod_document()
        document["metadata"] |= {"labels": {"app": "web"}, "uid": str(number)}
        found = reader.read(raw(document)).found
        assert isinstance(found, Pod)
        labels.append(found.labels)
    assert len({id(each) for each in labels}) == 3


def test_a_bug_met_by_one_object_keeps_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = SingleReader("v1", "Pod", "cluster")

    def fail(*_: object) -> None:
        raise ZeroDivisionError("oh")

    with monkeypatch.context() as patch:
        patch.setattr("knp_py.manifests.reading.PartReader.read_one", fail)
        single = reader.read(raw(pod_document()))
    assert single.found is None
    assert str(single.problems[0]) == (
        "cluster: Pod x/a: internal error, please report it: ZeroDivisionError: oh"
    )
    assert reader.read(raw(pod_document())).found is not None
