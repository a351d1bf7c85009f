from collections.abc import Iterator
from itertools import product

import pytest
from helpers import builders as b
from helpers import clusters as c

from knp_py.audit.overlap import Overlap, compatible, implies, limits_of, names_in
from knp_py.model.objects import NAMESPACE_NAME_LABEL
from knp_py.model.policy import PodPeer
from knp_py.model.selectors import LabelSelector

VALUES = (None, "", "x", "y", "p", "q", "never", "another")


def worlds() -> Iterator[dict[str, str]]:
    """Every combination of labels that the selectors below can tell apart."""
    for app, env in product(VALUES, VALUES):
        yield {k: v for k, v in (("app", app), ("env", env)) if v is not None}


@pytest.mark.parametrize("one", c.SELECTORS)
def test_relations_of_selectors_are_exact(one: LabelSelector) -> None:
    for other in c.SELECTORS:
        pairs = [(one.matches(labels), other.matches(labels)) for labels in worlds()]
        possible = any(first for first, _ in pairs)
        a, z = limits_of(one), limits_of(other)
        assert compatible(a, z) == any(first and second for first, second in pairs)
        if possible:
            assert implies(a, z) == all(second for first, second in pairs if first)


def overlap(**namespaces: dict[str, str]) -> Overlap:
    return Overlap({n: {**text, NAMESPACE_NAME_LABEL: n} for n, text in namespaces.items()})


def test_peers_of_different_namespaces_never_meet() -> None:
    known = overlap()
    assert not known.meets(PodPeer(namespace="a"), PodPeer(namespace="b"))
    assert known.meets(PodPeer(namespace="a"), b.namespaces())
    assert known.implies(PodPeer(namespace="a"), b.in_namespace("a"))
    assert known.implies(b.in_namespace("a"), PodPeer(namespace="a"))


def test_of_an_unknown_namespace_only_the_name_is_certain() -> None:
    prod = b.namespaces(b.select({"env": "prod"}))
    unknown = overlap()
    assert unknown.meets(PodPeer(namespace="a"), prod)
    assert not unknown.implies(PodPeer(namespace="a"), prod)


def test_of_a_known_namespace_every_label_is_certain() -> None:
    prod, test = b.namespaces(b.select({"env": "prod"})), b.namespaces(b.select({"env": "test"}))
    known = overlap(a={"env": "prod"})
    assert known.implies(PodPeer(namespace="a"), prod)
    assert known.implies(b.in_namespace("a"), prod)
    assert not known.meets(PodPeer(namespace="a"), test)
    assert not known.meets(test, b.in_namespace("a"))


def test_pod_labels_and_namespaces_both_count() -> None:
    known = overlap()
    web = b.pods(b.select({"app": "web"}))
    assert known.implies(b.in_namespace("a", b.select({"app": "web"})), web)
    assert not known.implies(b.in_namespace("a"), web)
    assert not known.implies(web, b.in_namespace("a"))


def test_a_selector_that_contradicts_itself_is_impossible() -> None:
    never = b.pods(b.select({"app": "x"}, b.not_in("app", "x")))
    known = overlap()
    assert not known.possible(never)
    assert not known.meets(never, b.pods())
    # Every namespace has its name as a label.
    assert not known.possible(b.namespaces(b.select(None, b.absent(NAMESPACE_NAME_LABEL))))


def test_a_known_namespace_without_the_label_asked_for_is_impossible() -> None:
    peer = b.namespaces(b.select({NAMESPACE_NAME_LABEL: "a", "env": "test"}))
    assert not overlap(a={"env": "prod"}).possible(peer)
    assert overlap().possible(peer)


def test_names_in() -> None:
    assert list(names_in(b.select({NAMESPACE_NAME_LABEL: "a"}))) == ["a"]
    assert list(names_in(b.select(None, b.is_in(NAMESPACE_NAME_LABEL, "b", "a")))) == ["a", "b"]
    assert not list(names_in(b.select(None, b.not_in(NAMESPACE_NAME_LABEL, "a"))))
    assert not list(names_in(b.select()))
