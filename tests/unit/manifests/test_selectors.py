"""Label selectors and labels."""

import pytest
from helpers.manifests import clean, lines, load_values, network_policies, network_policy

from knp_py.model.selectors import LabelSelector, Operator, Requirement

PREFIX = "NetworkPolicy x/p: spec.podSelector"


def selector(value: object) -> LabelSelector:
    result = clean(load_values(network_policy({"podSelector": value})))
    return network_policies(result)["x/p"].pods


def problems(value: object) -> list[str]:
    result = load_values(network_policy({"podSelector": value}))
    assert not result.objects
    found = lines(result.problems)
    assert all(line.startswith(PREFIX) for line in found)
    return [line.removeprefix(PREFIX) for line in found]


def expression(**fields: object) -> dict[str, object]:
    return {"matchExpressions": [fields]}


def test_selectors() -> None:
    assert selector({}) == LabelSelector()
    assert selector({"matchLabels": None, "matchExpressions": None}) == LabelSelector()
    assert selector({"matchLabels": {"b": "", "a.io/b": "1"}}).match_labels == (
        ("a.io/b", "1"),
        ("b", ""),
    )
    assert selector(
        {
            "matchExpressions": [
                {"key": "k", "operator": "NotIn", "values": ["b", "a", "b"]},
                {"key": "k", "operator": "Exists"},
                {"key": "j", "operator": "DoesNotExist", "values": []},
                {"key": "k", "operator": "In", "values": [""]},
                {"key": "k", "operator": "Exists", "values": None},
            ]
        }
    ).match_expressions == (
        Requirement("j", Operator.DOES_NOT_EXIST),
        Requirement("k", Operator.EXISTS),
        Requirement("k", Operator.IN, ("",)),
        Requirement("k", Operator.NOT_IN, ("a", "b")),
    )


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"matchLabels": []}, ".matchLabels: found a list, expected an object"),
        ({"matchLabels": {"a": 1}}, ".matchLabels[a]: found the number 1, expected text (put"),
        ({"matchLabels": {"a": None}}, ".matchLabels[a]: found null, expected text"),
        ({"matchLabels": {"a": "x y"}}, ".matchLabels[a]: found 'x y', expected a label value"),
        ({"matchLabels": {"a": "-x"}}, ".matchLabels[a]: found '-x', expected a label value"),
        ({"matchLabels": {"a": "x" * 64}}, ".matchLabels[a]: found 'xxx"),
        ({"matchLabels": {"": "x"}}, ".matchLabels: found the key '', expected a label key"),
        ({"matchLabels": {"a b": "x"}}, ".matchLabels: found the key 'a b', expected a label"),
        ({"matchLabels": {"/a": "x"}}, ".matchLabels: found the key '/a', expected a label key"),
        ({"matchLabels": {"a/": "x"}}, ".matchLabels: found the key 'a/', expected a label key"),
        ({"matchLabels": {"A/b": "x"}}, ".matchLabels: found the key 'A/b', expected a label"),
        ({"matchLabels": {"a/b/c": "x"}}, ".matchLabels: found the key 'a/b/c', expected"),
        ({"matchLabels": {"a" * 64: "x"}}, ".matchLabels: found the key 'aaa"),
        ({"matchExpressions": {}}, ".matchExpressions: found an object, expected a list"),
        ({"matchExpressions": ["a"]}, ".matchExpressions[0]: found the text 'a', expected an"),
        (expression(operator="Exists"), ".matchExpressions[0].key: missing, expected a label key"),
        (expression(key="k"), ".matchExpressions[0].operator: missing, expected In, NotIn,"),
        (
            expression(key="k", operator="in", values=["a"]),
            (
                ".matchExpressions[0].operator: found 'in', expected In, NotIn, Exists or "
                "DoesNotExist, did you mean 'In'?"
            ),
        ),
        (
            expression(key="k", operator="Equals"),
            ".matchExpressions[0].operator: found 'Equals', expected In, NotIn, Exists or",
        ),
        (
            expression(key="k", operator="In"),
            ".matchExpressions[0].values: missing, expected at least one value for In",
        ),
        (
            expression(key="k", operator="NotIn", values=[]),
            ".matchExpressions[0].values: missing, expected at least one value for NotIn",
        ),
        (
            expression(key="k", operator="Exists", values=["a"]),
            ".matchExpressions[0].values: found a list, expected none for Exists",
        ),
        (
            expression(key="k", operator="DoesNotExist", values=["a"]),
            ".matchExpressions[0].values: found a list, expected none for DoesNotExist",
        ),
        (
            expression(key="k", operator="In", values=["a b"]),
            ".matchExpressions[0].values[0]: found 'a b', expected a label value",
        ),
        (
            expression(key="k", operator="In", values=[True]),
            ".matchExpressions[0].values[0]: found true, expected text",
        ),
        (
            expression(key="k k", operator="Exists"),
            ".matchExpressions[0].key: found 'k k', expected a label key",
        ),
    ],
)
def test_bad_selectors(value: object, what: str) -> None:
    (found,) = problems(value)
    assert found.startswith(what)


def test_the_longest_labels() -> None:
    key = "a" * 253 + "/" + "b" * 63
    assert selector({"matchLabels": {key: "c" * 63}}).match_labels == ((key, "c" * 63),)
