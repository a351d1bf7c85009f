import msgspec
import pytest
from helpers import builders as b

from knp_py.audit.findings import CATALOGUE, Collector, Severity, describe, listing
from knp_py.model.objects import Origin


def test_ids_are_kebab_case_and_titles_fit_a_table() -> None:
    for check in CATALOGUE.values():
        assert check.id == check.id.lower().replace("_", "-")
        assert len(check.title) <= 66
        assert not check.title.endswith(".")


def test_findings_come_by_place_and_the_input_last() -> None:
    found = Collector()
    found.overall("no-pods", "m", "f")
    for source, document, path in (
        ("b.yaml", 0, ""),
        ("a.yaml", 10, ""),
        ("a.yaml", 9, "spec.egress[10]"),
        ("a.yaml", 9, "spec.egress[9]"),
    ):
        found.add("no-rules", "NetworkPolicy a/p", Origin(source, document), path, "m", "f")
    assert [(f.origin.source, f.origin.document, f.path) for f in found.sorted()] == [
        ("a.yaml", 9, "spec.egress[9]"),
        ("a.yaml", 9, "spec.egress[10]"),
        ("a.yaml", 10, ""),
        ("b.yaml", 0, ""),
        ("", 0, ""),
    ]


def test_ignored_checks_are_left_out() -> None:
    found = Collector(ignore=["no-pods"])
    found.overall("no-pods", "m", "f")
    assert not found.wants("no-pods")
    assert not found.sorted()


def test_an_id_must_be_in_the_catalogue() -> None:
    with pytest.raises(KeyError):
        Collector().overall("never-heard-of", "m", "f")


def test_record() -> None:
    found = Collector()
    found.about("inert-rules", b.netpol("a/p"), "spec.egress", "m", "f", Severity.INFO)
    assert found.sorted()[0].record() == {
        "id": "inert-rules",
        "severity": "info",
        "object": "NetworkPolicy a/p",
        "file": None,
        "document": None,
        "derived_from": None,
        "path": "spec.egress",
        "message": "m",
        "fix": "f",
    }


def test_words() -> None:
    assert describe(b.cnp("c")) == "ClusterNetworkPolicy c"
    old = msgspec.structs.replace(b.cnp("AdminNetworkPolicy/a"), kind="AdminNetworkPolicy")
    assert describe(old) == "AdminNetworkPolicy a"
    assert [listing("abcde"[:n]) for n in range(6)] == [
        "",
        "a",
        "a and b",
        "a, b and c",
        "a, b, c and 1 more",
        "a, b, c and 2 more",
    ]
