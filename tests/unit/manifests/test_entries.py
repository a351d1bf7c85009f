"""Lists unpacked, and documents that hold no object."""

import pytest
from helpers.manifests import both, lines, listed, network_policy, pods
from helpers.manifests import pod_document as pod

from knp_py.manifests.document import Document
from knp_py.manifests.load import LoadResult, load
from knp_py.model.objects import Origin


def test_lists() -> None:
    assert len(both(listed(pod("a"), pod("b"), network_policy({"podSelector": {}}))).objects) == 3
    assert both(listed()) == LoadResult({}, [], [], [])
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


def test_kinds_that_only_end_like_lists() -> None:
    result = both({"apiVersion": "x.io/v1", "kind": "AllowList", "items": ["a", 1]})
    assert not result.problems
    assert len(result.warnings) == 1
    result = both({"apiVersion": "x.io/v1", "kind": "AllowList", "items": {"a": "b"}})
    assert not result.problems
