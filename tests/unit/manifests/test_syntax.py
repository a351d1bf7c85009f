"""Names, labels, ports and networks at the edges of what the API takes."""

import pytest

from knp_py.manifests.problems import Problem, Report
from knp_py.manifests.syntax import (
    bad_domain,
    bad_label_key,
    bad_label_name,
    bad_label_value,
    bad_port_name,
    bad_subdomain,
    read_address,
    read_cidr,
)
from knp_py.model.objects import Origin


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (
            bad_label_name,
            ["a", "0", "a-b", "a" * 63],
            ["", "-a", "a-", "A", "a.b", "a_b", "a" * 64, "a\n", "ä"],
        ),
        (
            bad_subdomain,
            ["a", "a.b", "a-b.c-d", "0.1", "a" * 253],
            ["", ".a", "a.", "a..b", "a.-b", "A.b", "a" * 254, "a.b\n"],
        ),
        (
            bad_label_key,
            ["a", "A", "a_b.c-d", "x.io/a", "a" * 253 + "/" + "b" * 63],
            ["", "-a", "a-", "/a", "a/", "X.io/a", "a/b/c", "a" * 64, "a b", "a" * 254 + "/b"],
        ),
        (
            bad_label_value,
            ["", "a", "A.b_c-d", "0", "a" * 63],
            ["-a", "a-", ".a", "a b", "a" * 64, "a/b", "a\n", "é"],
        ),
        (
            bad_port_name,
            ["a", "http", "a-1", "1a", "8080-x", "a" * 15],
            ["", "80", "1-2", "-a", "a-", "a--b", "A", "a_b", "a" * 16, "a\n"],
        ),
        (
            bad_domain,
            ["a.b", "*.a.b", "a.b.", "*.a.b.", "A.B", "a_b.c", "1.2"],
            [
                "",
                "a",
                "*",
                "*.a",
                "a..b",
                ".a.b",
                "*.*.a",
                "a.*",
                "a-.b",
                "a.b/c",
                "a.b\n",
                "*a.b",
            ],
        ),
    ],
)
def test_names(check: object, good: list[str], bad: list[str]) -> None:
    assert callable(check)
    assert [text for text in good if check(text) is not None] == []
    assert [text for text in bad if check(text) is None] == []


def report() -> tuple[Report, list[Problem], list[Problem]]:
    problems: list[Problem] = []
    warnings: list[Problem] = []
    return Report(Origin("m.yaml"), "", "", problems, warnings), problems, warnings


@pytest.mark.parametrize(
    "text", ["10.0.0.0/8", "10.1.2.3/8", "0.0.0.0/0", "1.2.3.4/32", "::/0", "FD00::/8", "::1/128"]
)
def test_networks(text: str) -> None:
    found, problems, warnings = report()
    for sloppy in (False, True):
        cidr = read_cidr(found, "p", text, sloppy=sloppy)
        assert cidr is not None
        assert cidr.text == text
    assert not problems
    assert not warnings


@pytest.mark.parametrize(
    "text",
    [
        *("", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0/8", "::/129", "/8", "10.0.0.0/+8"),
        *("10.0.0.0/255.0.0.0", "10.0.0.0/0.255.255.255", "10.0.0.0/08", " 10.0.0.0/8"),
        *("fe80::%eth0/64", "10.0.0.0/8/8", "::ffff:10.0.0.0.0/8", "a.b.c.d/8", "10.0.0.256/8"),
    ],
)
def test_what_is_no_network(text: str) -> None:
    for sloppy in (False, True):
        found, problems, _ = report()
        assert read_cidr(found, "p", text, sloppy=sloppy) is None
        assert len(problems) == 1


def test_leading_zeros() -> None:
    found, problems, warnings = report()
    cidr = read_cidr(found, "p", "010.000.00.0/8", sloppy=True)
    assert cidr is not None
    assert cidr.text == "10.0.0.0/8"
    assert len(warnings) == 1
    assert read_cidr(found, "p", "010.0.0.0/8") is None
    assert len(problems) == 1


def test_addresses() -> None:
    found, problems, _ = report()
    assert read_address(found, "p", "10.0.0.1") == read_address(found, "p", "::ffff:10.0.0.1")
    for text in ("", "10.0.0", "fe80::1%eth0", "10.0.0.1/32", "x"):
        assert read_address(found, "p", text) is None
    assert len(problems) == 5
