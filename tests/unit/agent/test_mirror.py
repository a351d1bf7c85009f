"""One resource of an API server: whatever it tells and when, the changes lead to what is there."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knp_py.agent.mirror import Mirror, Remark, lines_of, problems_of
from knp_py.manifests.problems import Problem
from knp_py.manifests.single import Head, SingleReader, head_of
from knp_py.model.changes import Change, ClusterObject, Verb
from knp_py.model.objects import Origin

FLYING = "Flying"  # no phase that a pod can have


def raw(
    name: str, app: str = "a", *, uid: str = "", version: int = 1, **status: Any
) -> msgspec.Raw:
    document = {
        "metadata": {
            "name": name,
            "namespace": "x",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "labels": {"app": app},
        },
        "status": {"phase": "Running", "podIP": "10.1.0.5"} | status,
    }
    return msgspec.Raw(json.dumps(document).encode())


def new_mirror() -> Mirror:
    return Mirror(SingleReader("v1", "Pod", "cluster"))


def told(mirror: Mirror) -> list[str]:
    return [
        f"{change.verb.value} {change.obj.name} {getattr(change.obj, 'labels', {}).get('app')}"
        for change in mirror.take()
    ]


def test_a_list_and_what_comes_after_it() -> None:
    mirror = new_mirror()
    assert mirror.listed([raw("p"), raw("q")])
    assert told(mirror) == ["applied p a", "applied q a"]
    assert mirror.event("MODIFIED", raw("p", "b", version=2))
    assert mirror.event("DELETED", raw("q", version=3))
    assert mirror.event("ADDED", raw("r", version=4))
    assert told(mirror) == ["applied p b", "deleted q a", "applied r a"]
    assert told(mirror) == []
    assert len(mirror) == 2


def test_what_does_not_decide_is_no_change() -> None:
    mirror = new_mirror()
    mirror.listed([raw("p")])
    mirror.take()
    assert not mirror.event("MODIFIED", raw("p", version=2, conditions=[{"type": "Ready"}]))
    assert not mirror.event("ADDED", raw("p", version=2))
    assert not mirror.event("DELETED", raw("never", version=3))
    assert not mirror.event("BOOKMARK", raw("", version=3))
    assert not mirror.listed([raw("p", version=9)])
    assert told(mirror) == []


def test_a_fresh_list_is_only_what_is_different() -> None:
    mirror = new_mirror()
    mirror.listed([raw("p"), raw("q"), raw("r")])
    mirror.take()
    assert mirror.listed([raw("q", "b", version=5), raw("r"), raw("s")])
    assert told(mirror) == ["deleted p a", "applied q b", "applied s a"]


def test_a_known_version_is_not_read_again() -> None:
    reads: list[bytes] = []

    class Counting(SingleReader):
        def read(self, raw: bytes | msgspec.Raw, head: Head | None = None) -> Any:
            assert head == head_of(raw)  # nor is who it is looked for twice
            reads.append(bytes(raw))
            return super().read(raw, head)

    mirror = Mirror(Counting("v1", "Pod", "cluster"))
    mirror.listed([raw("p"), raw("q")])
    mirror.listed([raw("p"), raw("q", version=2)])
    assert len(reads) == 3
    mirror.event("MODIFIED", raw("q", version=3))
    assert len(reads) == 4


def test_a_list_that_breaks_off_changes_nothing() -> None:
    mirror = new_mirror()
    mirror.listed([raw("p")])
    mirror.take()

    def broken() -> Iterator[msgspec.Raw]:
        yield raw("q")
        raise ConnectionError

    with pytest.raises(ConnectionError):
        mirror.listed(broken())
    assert told(mirror) == []
    assert not mirror.listed([raw("p")])


def test_what_is_not_understood_keeps_its_last_good_version() -> None:
    mirror = new_mirror()
    mirror.listed([raw("p"), raw("q", phase=FLYING)])
    assert told(mirror) == ["applied p a"]
    assert mirror.event("MODIFIED", raw("p", "b", version=2, phase=FLYING))
    assert told(mirror) == []
    kept = {remark.key[2]: remark.kept for remark in mirror.remarks()}
    assert kept == {"p": True, "q": False}
    assert "Flying" in str(mirror.remarks()[0].problems[0])
    p, q = lines_of(mirror.remarks(), problems_of)
    assert p.endswith("; its last good version stays in force")
    assert q.endswith("; it is not in force")
    # The same again is no news; well again is.
    assert not mirror.event("MODIFIED", raw("p", "b", version=2, phase=FLYING))
    assert mirror.event("MODIFIED", raw("p", "c", version=3))
    assert told(mirror) == ["applied p c"]
    assert mirror.event("DELETED", raw("q", version=4))
    assert mirror.remarks() == []


def test_of_another_pod_of_that_name_nothing_is_kept() -> None:
    mirror = new_mirror()
    mirror.listed([raw("p")])
    mirror.take()
    assert mirror.listed([raw("p", uid="other", version=2, phase=FLYING)])
    assert told(mirror) == ["deleted p a"]
    assert not mirror.remarks()[0].kept
    assert mirror.event("MODIFIED", raw("p", uid="other", version=3))
    assert told(mirror) == ["applied p a"]
    assert mirror.listed([raw("p", "z", uid="third", version=4)])
    assert told(mirror) == ["deleted p a", "applied p z"]


def test_what_can_wait_is_not_urgent() -> None:
    mirror = Mirror(SingleReader("v1", "Pod", "cluster"), lambda obj: obj.name == "far")
    urgent = []
    for number, (verb, name) in enumerate(
        [("ADDED", "far"), ("ADDED", "near"), ("MODIFIED", "far"), ("DELETED", "near")], 2
    ):
        mirror.event(verb, raw(name, f"{number}", version=number))
        urgent.append(mirror.urgent)
        if number > 2:
            mirror.take()
            assert mirror.urgent is False
    assert urgent == [False, True, False, True]


def test_without_history_nothing_piles_up_until_it_is_first_taken() -> None:
    """Pods come and go while another resource cannot be listed, however long."""
    mirror = Mirror(SingleReader("v1", "Pod", "cluster"), history=False)
    mirror.listed([raw("p"), raw("q")])
    for number in range(100):
        assert mirror.event("ADDED", raw(f"job-{number}", version=10 + 2 * number))
        assert mirror.event("DELETED", raw(f"job-{number}", version=11 + 2 * number))
    mirror.event("DELETED", raw("q", version=300))
    mirror.event("MODIFIED", raw("p", "b", version=301))
    assert mirror._changes == []
    assert mirror.urgent
    assert told(mirror) == ["applied p b"]
    mirror.event("ADDED", raw("r", version=302))
    mirror.event("DELETED", raw("r", version=303))
    assert told(mirror) == ["applied r a", "deleted r a"]


def test_what_there_is_to_say_is_bounded() -> None:
    problem = Problem(Origin("cluster"), "Pod x/p", "spec", "odd")
    remark = Remark(("Pod", "x", "p"), "u", 1, False, (problem,) * 150, ())
    lines = lines_of([remark], lambda each: each.problems)
    assert len(lines) == 101
    assert lines[-1] == "and 50 more such lines"


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["ADDED", "MODIFIED", "DELETED", "LIST", "TWICE"]),
        st.sampled_from("pqr"),
        st.sampled_from("ab"),
        st.sampled_from(["", "other"]),
    ),
    max_size=25,
)


@given(OPERATIONS)
def test_every_order_of_events_ends_in_what_a_fresh_list_gives(operations: list[Any]) -> None:
    """A server that tells honestly, with gaps after which it lists and lines it says twice."""
    mirror = new_mirror()
    there: dict[str, msgspec.Raw] = {}
    world: dict[str, ClusterObject] = {}
    last: tuple[str, msgspec.Raw] | None = None
    for number, (verb, name, app, uid) in enumerate(operations, 1):
        if verb == "LIST":
            mirror.listed(list(there.values()))
            last = None
        elif verb == "TWICE":
            if last is not None:
                mirror.event(*last)
        else:
            document = raw(name, app, uid=uid, version=number)
            last = ("DELETED" if verb == "DELETED" else verb, document)
            if verb == "DELETED":
                there.pop(name, None)
            else:
                there[name] = document
            if number % 5:
                mirror.event(*last)
            else:
                mirror.listed(list(there.values()))  # the watch was cut before this event
        for change in mirror.take():
            _apply(world, change)
    fresh = new_mirror()
    fresh.listed(list(there.values()))
    assert world == {obj.name: obj for _, obj in fresh.take()}


def _apply(world: dict[str, ClusterObject], change: Change) -> None:
    if change.verb is Verb.DELETED:
        assert world.pop(change.obj.name) == change.obj
    else:
        world[change.obj.name] = change.obj
