"""What leads from one set of objects to another."""

import msgspec
from helpers import builders as b

from knp_py.model.changes import Change, ClusterObject, Key, Verb, changes_between
from knp_py.model.objects import Origin, Pod

KEY = ("Pod", "a", "p")
POD = b.pod("a/p", "10.0.0.1", uid="1")


def between(before: dict[Key, ClusterObject], after: dict[Key, ClusterObject]) -> list[Change]:
    return changes_between(before, after)


def test_what_comes_and_goes() -> None:
    other = b.namespace("a")
    assert between({}, {KEY: POD}) == [Change(Verb.APPLIED, POD)]
    assert between({KEY: POD}, {}) == [Change(Verb.DELETED, POD)]
    assert between({KEY: POD}, {("Namespace", "", "a"): other}) == [
        Change(Verb.DELETED, POD),
        Change(Verb.APPLIED, other),
    ]


def test_what_says_the_same_is_no_change() -> None:
    moved = msgspec.structs.replace(POD, origin=Origin("elsewhere.yaml", 3))
    assert between({KEY: POD}, {KEY: POD}) == []
    assert between({KEY: POD}, {KEY: moved}) == []


def test_what_says_something_else_is_applied() -> None:
    relabelled = msgspec.structs.replace(POD, labels={"app": "x"})
    assert between({KEY: POD}, {KEY: relabelled}) == [Change(Verb.APPLIED, relabelled)]


def test_a_pod_that_comes_back_as_another_goes_first() -> None:
    other: Pod = msgspec.structs.replace(POD, uid="2")
    assert between({KEY: POD}, {KEY: other}) == [
        Change(Verb.DELETED, POD),
        Change(Verb.APPLIED, other),
    ]
