"""Lists, kinds that are not read, and objects that stand twice."""

from pathlib import Path

import msgspec
import pytest
from helpers.manifests import (
    both,
    clean,
    cluster_policy,
    lines,
    listed,
    load_values,
    network_policy,
    pods,
)
from helpers.manifests import pod_document as pod

from knp_py.adapters.documents import load_manifests
from knp_py.manifests.document import Document
from knp_py.manifests.load import Assembly, load, merge
from knp_py.manifests.reading import Part, PartReader
from knp_py.model.objects import Origin, Pod


def other(kind: str, name: str = "n", version: str = "v1") -> dict[str, object]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


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


def part(*values: object, source: str = "m.yaml") -> Part:
    return PartReader().read([Document(Origin(source), value=value) for value in values])


def deployment(name: str = "web") -> dict[str, object]:
    template = {"metadata": {"labels": {"app": name}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "x"},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    }


def test_repeats_name_both_places_and_the_line() -> None:
    things, repeats = merge(
        [part(pod("a")), part(pod("b"), pod("a", "10.0.0.2")), part(pod("b"), source="n.yaml")]
    )
    assert list(things) == [("Pod", "x", "a"), ("Pod", "x", "b")]
    assert [(r.first, r.again, r.differs, str(r.line)) for r in repeats] == [
        (0, 1, True, "m.yaml: Pod x/a: stands twice and differs; first in m.yaml"),
        (1, 2, False, "n.yaml: Pod x/b: stands twice and is the same; first in m.yaml"),
    ]


def test_problems_stand_in_the_order_of_the_parts() -> None:
    wrong = [part(pod("A")), part(pod("a")), part(pod("a", "10.0.0.2")), part(pod("B"))]
    problems = lines(Assembly().assemble(wrong).problems)
    assert [line.split(":")[0] for line in problems] == ["Pod x/A", "Pod x/a", "Pod x/B"]


def test_what_follows_is_kept_while_nothing_it_depends_on_changes() -> None:
    """Told by identity: made-up pods are made anew only when they have to be."""
    web, cluster = part(deployment()), part(cluster_policy())
    policy = part(network_policy({"podSelector": {}}))
    assembly = Assembly()

    def pod_of(*parts: Part) -> object:
        return assembly.assemble(parts).by_key["Pod", "x", "web-0"]

    first = pod_of(web, cluster, policy)
    assert pod_of(web, part(cluster_policy(priority=7)), policy) is first
    assert pod_of(web, cluster) is first
    real = part(pod("p"))
    other = pod_of(web, cluster, real)
    assert other is not first
    assert pod_of(web, real) is other
    assert pod_of(web) is not other


def test_what_follows_goes_with_what_it_follows_from() -> None:
    assembly = Assembly()
    assert len(assembly.assemble([part(deployment())]).objects) == 1
    assert assembly.assemble([part(pod("a"))]).objects == [*pods(load_values(pod("a"))).values()]
    assert len(assembly.assemble([part(deployment())]).objects) == 1


def test_a_template_looks_at_policies() -> None:
    template = {
        "apiVersion": "extensions.agents.x-k8s.io/v1beta1",
        "kind": "SandboxTemplate",
        "metadata": {"name": "t", "namespace": "x"},
        "spec": {"podTemplate": {"spec": {"containers": []}}},
    }
    metadata = {"name": "t-network-policy", "namespace": "x"}
    policy = part({**network_policy({"podSelector": {}}), "metadata": metadata})
    assembly, sandboxes = Assembly(), part(template)
    key = ("NetworkPolicy", "x", "t-network-policy")
    derived = assembly.assemble([sandboxes]).by_key[key]
    assert assembly.assemble([sandboxes, policy]).by_key[key] is policy.things[key].found
    assert assembly.assemble([sandboxes]).by_key[key] == derived
