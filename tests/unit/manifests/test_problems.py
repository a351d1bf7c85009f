"""Problems as lines, and slips of the pen."""

import pytest

from knp_py.manifests.problems import Problem, did_you_mean, nearest, plain, show
from knp_py.model.objects import Origin

FIELDS = ("podSelector", "namespaceSelector", "ipBlock", "policyTypes", "ingress", "egress")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("podSelectors", "podSelector"),
        ("podselector", "podSelector"),
        ("PodSelector", "podSelector"),
        ("podSelectro", "podSelector"),
        ("ipblock", "ipBlock"),
        ("ipBlocks", "ipBlock"),
        ("policyType", "policyTypes"),
        ("ingres", "ingress"),
        ("inress", "ingress"),
        ("futurePeer", None),
        ("networks", None),
        ("", None),
        ("x", None),
        ("ab", None),
        ("a" * 10_000, None),
    ],
)
def test_nearest(word: str, meant: str | None) -> None:
    assert nearest(word, FIELDS) == meant


def test_did_you_mean() -> None:
    assert did_you_mean("tcp", ("TCP", "UDP")) == ", did you mean 'TCP'?"
    assert did_you_mean("TCP", ("TCP", "UDP")) == ""
    assert did_you_mean("HTTP", ("UDP",)) == ""


def test_show() -> None:
    assert show(None) == "null"
    assert show(True) == "true"
    assert show(80) == "the number 80"
    assert show(1.5) == "the number 1.5"
    assert show("a\nb") == "the text 'a\\nb'"
    assert show("x" * 100) == f"the text '{'x' * 60}…'"
    assert show([1]) == "a list"
    assert show({}) == "an object"
    assert show(10**5000) == show(-(10**5000)) == "a very large number"


def test_plain() -> None:
    assert plain("Pod x/a") == "Pod x/a"
    assert plain("a\u2028b") == "'a\\u2028b'"


def test_a_problem_leaves_out_what_it_has_not() -> None:
    origin = Origin("m.yaml", 2)
    full = Problem(origin, "Pod x/a", "spec.y", "found z")
    assert str(full) == "m.yaml document 2: Pod x/a: spec.y: found z"
    assert str(Problem(origin, "", "", "no kind")) == "m.yaml document 2: no kind"
