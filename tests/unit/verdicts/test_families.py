"""Probes between ends that have both address families."""

import json
from typing import Any

import pytest
from helpers.builders import cnp, deny, networks, pod, service
from helpers.judging import snapshot_of

from knp_py.engine.snapshot import Snapshot
from knp_py.errors import ProbeError
from knp_py.verdicts.probe import Prober, parse_probe
from knp_py.verdicts.record import as_dict


@pytest.fixture(scope="module")
def cluster() -> Snapshot:
    """IPv4 is denied to everybody, IPv6 has been forgotten."""
    return snapshot_of(
        [
            pod("x/a", "10.0.1.10", "fd00::10"),
            pod("y/b", "10.0.2.10", "fd00::20", labels={"app": "b"}),
            pod("y/six", "fd00::30"),
            service("y/web", "10.96.0.5", "fd00:96::5", selector={"app": "b"}, port=80),
            cnp("v4", egress=[deny(networks("0.0.0.0/0"))]),
        ]
    )


def ask(cluster: Snapshot, source: str, to: str, *, resolve: bool = False) -> dict[str, Any]:
    line = json.dumps({"from": source, "to": to, "port": 80})
    return as_dict(Prober(cluster, resolve_services=resolve).ask(parse_probe(line)).answer)


@pytest.mark.parametrize("to", ["y/b", "github.com"])
def test_what_is_open_over_one_family_is_open(cluster: Snapshot, to: str) -> None:
    document = ask(cluster, "x/a", to)
    assert document["verdict"] == "allow"
    assert document["from"]["ip"] == "fd00::10"
    assert document["notes"][0].startswith("over IPv4 (10.0.1.10 to ")
    assert "the verdict is deny: egress: Admin v4, rule 0" in document["notes"][0]


def test_addresses_are_judged_as_they_are(cluster: Snapshot) -> None:
    assert ask(cluster, "10.0.1.10", "10.0.2.10")["verdict"] == "deny"
    assert ask(cluster, "fd00::10", "fd00::20")["verdict"] == "allow"
    assert ask(cluster, "x/a", "y/six")["verdict"] == "allow"


def test_a_services_family_is_its_backends(cluster: Snapshot) -> None:
    document = ask(cluster, "x/a", "fd00:96::5", resolve=True)
    assert (document["verdict"], document["to"]["ip"]) == ("allow", "fd00::20")
    document = ask(cluster, "x/a", "10.96.0.5", resolve=True)
    assert (document["verdict"], document["to"]["ip"]) == ("deny", "10.0.2.10")


@pytest.mark.parametrize("to", ["10.0.0.256", "10.244.1", "10.0.0.07", "1.2.3.4.5"])
def test_a_mistyped_address_is_no_name(cluster: Snapshot, to: str) -> None:
    with pytest.raises(ProbeError, match="neither an IP address nor a domain name"):
        ask(cluster, "x/a", to)


@pytest.mark.parametrize("key", ["expct", "Expect", "expects"])
def test_an_expectation_is_not_lost_to_a_typo(key: str) -> None:
    with pytest.raises(ProbeError, match="did you mean 'expect'"):
        parse_probe(json.dumps({"from": "a/b", "to": "c/d", key: "deny"}))
    assert parse_probe(json.dumps({"from": "a/b", "to": "c/d", "source": "x"})).expect is None
