import pytest
from helpers.scenarios import decoded

from knp_py.lab.clusterips import ClusterIps
from knp_py.manifests.addresses import RANGE
from knp_py.manifests.document import Document
from knp_py.model.net import parse_address

SERVICE = "{apiVersion: v1, kind: Service, metadata: {namespace: a, name: web}, spec: {SPEC}}"


def completed(spec: str, ips: ClusterIps | None = None) -> dict[str, object]:
    (document,) = decoded(SERVICE.replace("SPEC", spec))
    value = (ips or ClusterIps()).complete(document).value
    assert isinstance(value, dict)
    found: dict[str, object] = value["spec"]
    return found


def test_a_service_gets_the_same_address_every_time() -> None:
    ips = ClusterIps()
    first = completed("ports: [{port: 80}]", ips)
    assert RANGE.__contains__(parse_address(str(first["clusterIP"])))
    assert first["clusterIPs"] == [first["clusterIP"]]
    assert first["ports"] == [{"port": 80}]
    assert completed("ports: [{port: 81}]", ips)["clusterIP"] == first["clusterIP"]
    assert completed("ports: [{port: 80}]")["clusterIP"] == first["clusterIP"]


@pytest.mark.parametrize(
    "spec",
    ["clusterIP: 10.96.0.1", "clusterIP: None", "clusterIPs: [10.96.0.1]", "type: ExternalName"],
)
def test_what_a_service_says_stays(spec: str) -> None:
    (document,) = decoded(SERVICE.replace("SPEC", spec))
    assert ClusterIps().complete(document) is document


def test_other_objects_stay_as_they_are() -> None:
    for text in ("{kind: Pod, metadata: {name: p}, spec: {}}", "[]", "{kind: Service}"):
        (document,) = decoded(text)
        assert ClusterIps().complete(document) is document
    odd = Document(document.origin, value={"kind": "Service", "spec": {}, "metadata": "x"})
    assert ClusterIps().complete(odd) is odd
