"""What documents say by themselves."""

import pytest
from helpers.manifests import (
    cluster_policy,
    lines,
    network_policy,
    pod_document,
)

from knp_py.manifests.document import Document
from knp_py.manifests.reading import Part, PartReader
from knp_py.model.objects import Origin

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "x"},
    "spec": {
        "selector": {"matchLabels": {"app": "w"}},
        "template": {"metadata": {"labels": {"app": "w"}}},
    },
}
UNBORN = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "u", "namespace": "x"}}
ON_ITS_NODE = {**UNBORN, "spec": {"hostNetwork": True}, "status": {"phase": "Running"}}
TEMPLATE = {
    "apiVersion": "extensions.agents.x-k8s.io/v1beta1",
    "kind": "SandboxTemplate",
    "metadata": {"name": "t", "namespace": "x"},
    "spec": {"podTemplate": {"spec": {"containers": []}}},
}


def read(*values: object) -> Part:
    return PartReader().read([Document(Origin("m.yaml"), value=value) for value in values])


def test_things_are_by_kind_namespace_and_name() -> None:
    part = read(pod_document("a"), network_policy({"podSelector": {}}), cluster_policy())
    assert list(part.things) == [
        ("Pod", "x", "a"),
        ("NetworkPolicy", "x", "p"),
        ("ClusterNetworkPolicy", "", "c"),
    ]
    assert [thing.label for thing in part.things.values()] == [
        *("Pod x/a", "NetworkPolicy x/p", "ClusterNetworkPolicy c"),
    ]
    assert part.plain


def test_what_stands_twice_is_kept_apart() -> None:
    part = read(pod_document("a"), pod_document("a", "10.0.0.2"))
    assert len(part.things) == 1
    assert [thing.label for thing in part.repeated] == ["Pod x/a"]


def test_what_is_wrong_is_no_thing() -> None:
    part = read(pod_document("A"), pod_document("b"))
    assert list(part.things) == [("Pod", "x", "b")]
    assert len(lines(part.problems)) == 1
    assert not part.plain


@pytest.mark.parametrize("value", [DEPLOYMENT, UNBORN, ON_ITS_NODE, TEMPLATE])
def test_what_other_documents_have_a_say_in(value: object) -> None:
    part = read(value)
    assert part.unsettled
    assert not part.plain
    assert not read(pod_document("a"), cluster_policy()).unsettled


def test_what_controls_a_policy() -> None:
    owner = {"kind": "SandboxTemplate", "name": "t", "controller": True}
    part = read(network_policy({"podSelector": {}}, ownerReferences=[owner]))
    assert part.controllers == {"x/p": "SandboxTemplate t"}


def test_parts_of_one_reader_share_what_is_equal() -> None:
    reader = PartReader()
    first, second = (
        reader.read([Document(Origin("m"), value=pod_document(name, labels={"app": "a"}))])
        for name in ("a", "b")
    )
    (one,), (two,) = first.things.values(), second.things.values()
    assert one.found.labels is two.found.labels  # type: ignore[union-attr]
    assert one.key[1] is two.key[1]
