from collections.abc import Iterable

import msgspec
from helpers.scenarios import decoded

from knp_py.manifests.document import Document
from knp_py.model.changes import Change, Verb
from knp_py.model.objects import Origin
from knp_py.replay.scenario import Removal
from knp_py.replay.timeline import Timeline, key_of, split

NAMESPACE = "{apiVersion: v1, kind: Namespace, metadata: {name: a}}"
TEMPLATE = """\
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata: {namespace: a, name: t}
spec: {podTemplate: {spec: {containers: [{name: c}]}}}
---
apiVersion: extensions.agents.x-k8s.io/v1alpha1
kind: SandboxClaim
metadata: {namespace: a, name: agent}
spec: {sandboxTemplateRef: {name: t}}
"""


def pod(name: str, *, app: str = "x", ip: str = "10.244.1.6") -> str:
    return (
        f"{{apiVersion: v1, kind: Pod, metadata: {{namespace: a, name: {name},"
        f" labels: {{app: {app}}}}}, spec: {{containers: [{{name: c}}]}},"
        f" status: {{phase: Running, podIPs: [{{ip: {ip}}}]}}}}"
    )


def removal(kind: str, namespace: str, name: str) -> Removal:
    return Removal("", kind, namespace, name)


def told(timeline: Timeline) -> list[str]:
    """What changed, as ``+Kind name`` and ``-Kind name``."""
    changes, problems, _ = timeline.changes()
    assert not problems, [str(problem) for problem in problems]
    return sorted(map(_text, changes))


def _text(change: Change) -> str:
    sign = "+" if change.verb is Verb.APPLIED else "-"
    obj = change.obj
    return f"{sign}{type(obj).__name__} {getattr(obj, 'key', None) or obj.name}"


def begun(*texts: str) -> Timeline:
    timeline = Timeline()
    timeline.begin(each for text in texts for each in decoded(text))
    told(timeline)
    return timeline


def test_only_what_is_different_changes() -> None:
    timeline = Timeline()
    timeline.begin([*decoded(NAMESPACE), *decoded(pod("p"))])
    assert told(timeline) == ["+Namespace a", "+Pod a/p"]
    assert told(timeline) == []
    timeline.apply(decoded(pod("p")))
    assert told(timeline) == []
    timeline.apply(decoded(pod("p", app="other")))
    assert told(timeline) == ["+Pod a/p"]


def test_delete_by_document_and_by_name() -> None:
    timeline = begun(NAMESPACE, pod("p"), pod("q", ip="10.244.1.7"))
    assert list(timeline.delete(decoded(pod("p")))) == []
    assert timeline.remove(removal("Pod", "a", "q"))
    assert told(timeline) == ["-Pod a/p", "-Pod a/q"]


def test_deleting_what_is_not_there_is_told() -> None:
    timeline = begun(NAMESPACE)
    assert list(timeline.delete(decoded(pod("p")))) == ["Pod a/p"]
    assert not timeline.remove(removal("Pod", "a", "p"))


def test_a_namespace_takes_its_contents_along() -> None:
    timeline = begun(NAMESPACE, TEMPLATE, pod("p"))
    assert timeline.remove(removal("Namespace", "", "a"))
    assert told(timeline) == [
        "-Namespace a",
        "-NetworkPolicy a/t-network-policy",
        "-Pod a/agent",
        "-Pod a/p",
    ]


def test_what_follows_from_a_template_goes_with_it() -> None:
    timeline = begun(NAMESPACE, TEMPLATE)
    timeline.remove(removal("SandboxTemplate", "a", "t"))
    assert "-NetworkPolicy a/t-network-policy" in told(timeline)


def test_a_derived_object_can_be_deleted_by_itself_and_come_back() -> None:
    timeline = begun(NAMESPACE, TEMPLATE)
    policy = removal("NetworkPolicy", "a", "t-network-policy")
    assert timeline.remove(policy)
    assert told(timeline) == ["-NetworkPolicy a/t-network-policy"]
    assert not timeline.remove(policy)
    timeline.apply(decoded(NAMESPACE))
    assert told(timeline) == []
    timeline.apply(decoded(TEMPLATE))
    assert told(timeline) == ["+NetworkPolicy a/t-network-policy"]


def test_a_deleted_pod_does_not_come_back_as_a_made_up_one() -> None:
    timeline = begun(NAMESPACE, TEMPLATE, pod("agent"))
    timeline.remove(removal("Pod", "a", "agent"))
    assert told(timeline) == ["-Pod a/agent"]
    timeline.apply(decoded(pod("agent")))
    assert told(timeline) == ["+Pod a/agent"]


def test_problems_leave_everything_as_it_was() -> None:
    timeline = begun(NAMESPACE, pod("p"))
    timeline.apply(decoded("{apiVersion: v1, kind: Pod, metadata: {}}"))
    changes, problems, _ = timeline.changes()
    assert changes == []
    assert "Pod: metadata.name: missing" in str(problems[0])


def test_objects_that_stand_twice_at_first_are_reported() -> None:
    timeline = Timeline()
    timeline.begin([*decoded(pod("p")), *decoded(pod("p", app="other"))])
    _, problems, _ = timeline.changes()
    assert "stands twice and differs" in str(problems[0])


def keys(documents: Iterable[Document]) -> list[object]:
    return [key_of(document) for document in documents]


def test_lists_are_split() -> None:
    (items,) = decoded(
        """\
        apiVersion: v1
        kind: List
        items:
          - {apiVersion: v1, kind: Pod, metadata: {namespace: a, name: p}}
          - {apiVersion: v1, kind: PodList, items: [{metadata: {name: q}}, 3]}
        """
    )
    raw = Document(Origin("x.json"), raw=msgspec.json.encode(items.value))
    for document in (items, raw):
        assert keys(split([document])) == [("Pod", "a", "p"), ("Pod", "default", "q"), None]


def test_undecodable_json_is_left_to_the_loader() -> None:
    document = Document(Origin("x.json"), raw=b'{"kind": ')
    assert list(split([document])) == [document]


def test_endless_lists_are_left_to_the_loader() -> None:
    value: object = {"kind": "Pod"}
    for _ in range(40):
        value = {"kind": "List", "items": [value]}
    assert keys(split([Document(Origin("x"), value=value)])) == [None]


def test_keys() -> None:
    def key(**fields: object) -> object:
        return key_of(Document(Origin("x"), value=fields))

    assert key(kind="Pod", metadata={"name": "p"}) == ("Pod", "default", "p")
    assert key(kind="Node", metadata={"name": "n", "namespace": "x"}) == ("Node", "", "n")
    assert key(kind="Secret", metadata={"name": "s"}) == ("Secret", "", "s")
    assert key(kind="Pod", metadata={"generateName": "p-"}) is None
    assert key(kind="Pod") is None
    assert key_of(Document(Origin("x"), value=3)) is None


def test_what_was_deleted_and_still_follows_from_others_is_suppressed() -> None:
    timeline = begun(NAMESPACE, TEMPLATE)
    key = ("NetworkPolicy", "a", "t-network-policy")
    assert timeline.remove(removal(*key))
    told(timeline)
    assert timeline.suppressed == {key}
    assert timeline.remove(removal("SandboxTemplate", "a", "t"))
    told(timeline)
    assert timeline.suppressed == set()


def test_every_document_is_completed_when_it_comes() -> None:
    def complete(document: Document) -> Document:
        assert isinstance(document.value, dict)
        labels = {"labels": {"completed": "yes"}}
        metadata = {**document.value["metadata"], **labels}
        return Document(document.origin, value={**document.value, "metadata": metadata})

    timeline = Timeline(complete)
    timeline.begin(decoded(NAMESPACE))
    timeline.apply(decoded(NAMESPACE.replace("name: a", "name: b")))
    assert list(timeline.documents) == [("Namespace", "", "a"), ("Namespace", "", "b")]
    changes, _, _ = timeline.changes()
    assert [change.obj.labels["completed"] for change in changes] == ["yes", "yes"]  # type: ignore[union-attr]
