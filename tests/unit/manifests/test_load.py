"""Lists, kinds that are not read, and objects that stand twice."""

from pathlib import Path

import msgspec
import pytest
from helpers.manifests import (
    clean,
    cluster_policy,
    lines,
    load_raw,
    load_values,
    network_policy,
    pods,
)

from knp_py.adapters.documents import load_manifests
from knp_py.manifests.document import Document
from knp_py.manifests.load import LoadResult, load
from knp_py.model.objects import Origin, Pod


def pod(name: str, address: str = "10.0.0.1", **metadata: object) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "x", **metadata},
        "status": {"phase": "Running", "podIP": address},
    }


def other(kind: str, name: str = "n", version: str = "v1") -> dict[str, object]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def listed(*items: object, kind: str = "List") -> dict[str, object]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {}, "items": list(items)}


def both(value: object) -> LoadResult:
    """The result of both ways in, which must say the same."""
    found, raw = load_values(value), load_raw(value)
    assert lines(found.problems) == lines(raw.problems)
    assert lines(found.warnings) == lines(raw.warnings)
    assert len(found.objects) == len(raw.objects)
    return found


def test_lists() -> None:
    assert len(both(listed(pod("a"), pod("b"), network_policy({"podSelector": {}}))).objects) == 3
    assert both(listed()) == LoadResult([], [], [], [])
    assert both({**listed(), "items": None}).objects == []
    assert list(pods(both(listed(listed(pod("a")), pod("b"))))) == ["x/a", "x/b"]


def test_a_typed_list_need_not_repeat_its_kind() -> None:
    bare = pod("a")
    del bare["apiVersion"], bare["kind"]
    assert list(pods(both(listed(bare, kind="PodList")))) == ["x/a"]
    assert lines(both(listed(bare)).problems) == [
        "a: items[0]: no apiVersion and kind: expected a Kubernetes object"
    ]


def test_items_are_named_in_the_path() -> None:
    bad = pod("b", "not-an-address")
    policy = network_policy({"podSelector": {}, "ingress": [{"ports": [{"port": 0}]}]})
    assert lines(both(listed(pod("a"), bad, policy, 7, None, {"kind": 1})).problems) == [
        "Pod x/b: items[1].status.podIP: found 'not-an-address', expected an IP address",
        (
            "NetworkPolicy x/p: items[2].spec.ingress[0].ports[0].port: found the number 0, "
            "expected a number from 1 to 65535"
        ),
        "items[3]: found the number 7, expected a Kubernetes object",
        "items[4]: found null, expected a Kubernetes object",
        "items[5].kind: found the number 1, expected text",
    ]
    assert lines(both(listed(listed(bad))).problems)[0].startswith("Pod x/b: items[0].items[0].")


def test_lists_that_are_none() -> None:
    assert lines(both({**listed(), "items": {}}).problems) == [
        "items: found an object, expected a list"
    ]
    deep: object = pod("a")
    for _ in range(20):
        deep = listed(deep)
    (problem,) = both(deep).problems
    assert "Lists inside Lists, too deep" in str(problem)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (7, "found the number 7, expected a Kubernetes object"),
        ("text", "found the text 'text', expected a Kubernetes object"),
        ([], "found a list, expected a Kubernetes object"),
        ({}, "no apiVersion and kind: expected a Kubernetes object"),
        ({"kind": "Pod"}, "Pod: no apiVersion: expected a Kubernetes object"),
        ({"apiVersion": "v1"}, "no kind: expected a Kubernetes object"),
        ({"apiVersion": 1, "kind": "Pod"}, "apiVersion: found the number 1, expected text"),
        ({"apiVersion": "v1", "kind": ["Pod"]}, "kind: found a list, expected text"),
        ({"apiVersion": "", "kind": ""}, "no apiVersion and kind: expected a Kubernetes object"),
    ],
)
def test_what_is_no_object(value: object, what: str) -> None:
    assert lines(both(value).problems) == [what]


def test_kinds_that_are_not_read_are_counted() -> None:
    result = both(
        listed(
            *[other("ConfigMap", f"c{i}") for i in range(3)],
            other("CiliumNetworkPolicy", "cnp", "cilium.io/v2"),
            other("GlobalNetworkPolicy", "g", "projectcalico.org/v3"),
            other("NetworkPolicy", "calico", "crd.projectcalico.org/v1"),
            other("ClusterNetworkPolicy", "old", "policy.networking.k8s.io/v1alpha1"),
            other("NetworkPolicy", "old", "extensions/v1beta1"),
            other("NetworkPolicy", "wrong", "v1"),
            other("Service", "knative", "serving.knative.dev/v1"),
            other("pod", "p"),
            other("AuthorizationPolicy", "a", "security.istio.io/v1"),
        )
    )
    assert not result.problems
    assert not result.objects
    policy = "is another product's policy: it is not judged, and verdicts leave it out"
    ignored = "has this kind, which network policy does not read; ignored"
    assert lines(result.warnings) == [
        (
            "ClusterNetworkPolicy old: policy.networking.k8s.io/v1alpha1 is not read for "
            "this kind and has no effect; read is policy.networking.k8s.io/v1alpha2"
        ),
        (
            "NetworkPolicy old: extensions/v1beta1 is not read for this kind and has no effect; "
            "read is networking.k8s.io/v1"
        ),
        (
            "NetworkPolicy wrong: v1 is not read for this kind and has no effect; "
            "read is networking.k8s.io/v1"
        ),
        f"AuthorizationPolicy a: security.istio.io/v1 {policy}",
        f"CiliumNetworkPolicy cnp: cilium.io/v2 {policy}",
        f"GlobalNetworkPolicy g: projectcalico.org/v3 {policy}",
        f"NetworkPolicy calico: crd.projectcalico.org/v1 {policy}",
        f"ConfigMap c0: v1 {ignored} (3 such objects, this is the first)",
        f"Service knative: serving.knative.dev/v1 {ignored}",
        f"pod p: v1 {ignored}, did you mean 'Pod'?",
    ]


def test_an_object_that_stands_twice() -> None:
    one = load_values(pod("a"), pod("a", resourceVersion="2"))
    assert not one.problems
    assert lines(one.warnings) == ["Pod x/a: stands twice and is the same; first in m.yaml"]
    assert len(one.objects) == 1
    two = load_values(pod("a"), pod("a", "10.0.0.2"))
    assert lines(two.problems) == ["Pod x/a: stands twice and differs; first in m.yaml"]
    in_list = both(listed(pod("b"), pod("a"), pod("a", "10.0.0.2")))
    assert lines(in_list.problems) == [
        "Pod x/a: items[2]: stands twice and differs; first in m.yaml items[1]"
    ]
    assert not load_values(pod("a"), {**pod("a"), "metadata": {"name": "a"}}).problems


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (cluster_policy(), cluster_policy(priority=2)),
        (network_policy({"podSelector": {}}), network_policy({"podSelector": {}, "egress": [{}]})),
        (other("Namespace"), {**other("Namespace"), "status": {"phase": "Terminating"}}),
    ],
)
def test_every_kind_that_stands_twice(first: object, second: object) -> None:
    assert not load_values(first, first).problems
    assert len(load_values(first, first).warnings) == 1
    assert len(load_values(first, second).problems) == 1


def test_what_is_wrong_is_not_loaded_and_the_rest_is() -> None:
    result = load_values(pod("a"), pod("B"), pod("c"))
    assert list(pods(result)) == ["x/a", "x/c"]
    assert len(result.problems) == 1


def test_a_problem_is_one_line_whatever_is_in_the_document() -> None:
    nasty = "a\nb\u2028c\x85" + "x" * 500
    documents = [
        network_policy({"podSelector": {"matchLabels": {nasty: nasty}}, nasty: 1}),
        {"apiVersion": nasty, "kind": nasty, "metadata": {"name": nasty}},
        pod(nasty),
        cluster_policy(tier=nasty, egress=[{"action": nasty, "to": [{nasty: 1}], nasty: 1}]),
        network_policy({"podSelector": {}, "ingress": [{"ports": [{"port": 10**5000}]}]}),
    ]
    result = load_values(*documents)
    for line in [*lines(result.problems), *lines(result.warnings)]:
        assert len(line.splitlines()) == 1
        assert len(line) < 1000
        line.encode()
    assert len(result.problems) >= 4


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"[1", "truncated"),
        (b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "\\ud800"}}', "m.json: "),
        (b'{"apiVersion": "v1", "kind": "Pod", "spec": ' + b"[" * 5000, "nested too deeply"),
        (
            (
                b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": 1},'
                b'"spec": {"x": 1e999}}'
            ),
            "m.json: Number out of range",
        ),
        (
            b'{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata":'
            b'{"name": "p"}, "spec": {"podSelector": {}, "x": ' + b"9" * 5000 + b"}}",
            "m.json: Integer value out of range",
        ),
    ],
)
def test_json_that_only_shows_its_fault_when_it_is_decoded(raw: bytes, what: str) -> None:
    (problem,) = load([Document(Origin("m.json"), raw=raw)]).problems
    assert what in str(problem)


def test_an_optional_file_with_an_object_is_read_like_any() -> None:
    document = Document(Origin("values.yaml"), value=pod("a"), optional=True)
    assert len(clean(load([document])).objects) == 1


def test_origins_are_shared_and_strings_too() -> None:
    raw = msgspec.json.encode(
        listed(*[pod(f"p{i}", labels={"app": "a", "tier": "b"}) for i in range(10)])
    )
    found = list(pods(load([Document(Origin("m.json"), raw=raw)])).values())
    assert len({id(pod.origin) for pod in found}) == 1
    assert len({id(pod.labels) for pod in found}) == 1
    assert len({id(pod.namespace) for pod in found}) == 1
    assert len({id(pod.ports) for pod in found}) == 1


def test_the_order_of_documents_does_not_matter() -> None:
    documents = [pod("a", "10.0.0.1"), pod("b", "10.0.0.2"), network_policy({"podSelector": {}})]
    forward = {getattr(obj, "key", ""): obj for obj in load_values(*documents).objects}
    reverse = load_values(*reversed(documents))
    backward = {getattr(obj, "key", ""): obj for obj in reverse.objects}
    assert forward == backward


def test_every_case_of_the_corpus_loads(shared: Path) -> None:
    found = sorted((shared / "cases").glob("*/*/manifests.yaml"))
    assert found
    for path in found:
        result = load_manifests([str(path)])
        assert any(isinstance(obj, Pod) for obj in result.objects)
        assert bool(result.warnings) == ("api-text-fail-closed" in path.parts), path
