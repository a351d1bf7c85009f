import msgspec
import pytest
from helpers.scenarios import ALLOW_DNS, DENY_ALL, act

from knp_py.replay.performance import Result
from knp_py.replay.report import Counts, check_document, counts_of, scenario_document, title


@pytest.fixture(scope="module")
def result() -> Result:
    return act(
        f"""\
        name: x
        resolve: {{github.com: 140.82.121.4}}
        steps:
          - name: one
            apply: [{DENY_ALL}, {ALLOW_DNS}]
            wait: 2
            expect:
              - {{from: a/client, connect: a/web, port: 80, verdict: deny, name: shut}}
              - {{from: a/public, connect: github.com, verdict: allow}}
              - {{from: a/client, lookup: github.com, via: 8.8.8.8, verdict: allow}}
              - {{from: a/nobody, connect: a/server, verdict: allow}}
              - {{from: a/client, connect: a/server, protocol: ICMP, verdict: deny}}
          - {{name: two, delete: pod/a/nobody}}
        """
    )


def documents(result: Result) -> list[dict[str, object]]:
    return [
        msgspec.to_builtins(check_document(result, step, check))
        for step in result.steps
        for check in step.checks
    ]


DENIED = {
    "direction": "egress",
    "tier": "Admin",
    "policy": "deny",
    "rule": 0,
    "rule_name": None,
    "action": "Deny",
}


def test_a_met_expectation(result: Result) -> None:
    assert documents(result)[0] == {
        "scenario": "x",
        "file": "s.yaml",
        "step": "one",
        "name": "shut",
        "at": 2.0,
        "from": "a/client",
        "connect": "a/web",
        "protocol": "TCP",
        "port": 80,
        "expected": "deny",
        "verdict": "deny",
        "met": True,
        "decided_by": DENIED,
        "ip": "10.244.1.9",
        "pod": "a/server",
        "reason": "egress: Admin deny, rule 0",
    }


def test_an_unmet_expectation_with_its_lookups(result: Result) -> None:
    found = documents(result)[1]
    assert (found["met"], found["verdict"], found["decided_by"]) == (False, "deny", DENIED)
    assert found["faults"] == (
        "expected allow, got deny: egress: Admin deny, rule 0 [140.82.121.4]",
    )
    assert found["lookups"] == (
        {
            "resolver": "8.8.8.8",
            "verdict": "allow",
            "decided_by": {**DENIED, "policy": "dns", "action": "Accept"},
        },
    )
    assert isinstance(found["why"], tuple)


def test_a_lookup(result: Result) -> None:
    found = documents(result)[2]
    assert (found["lookup"], found["via"], found["port"]) == ("github.com", "8.8.8.8", 53)
    assert "connect" not in found


def test_an_error_and_a_protocol_without_ports(result: Result) -> None:
    error, icmp = documents(result)[3:]
    assert error["verdict"] is None
    assert str(error["error"]).endswith("from: there is no pod a/nobody at this point")
    assert icmp["port"] is None


def test_counts_and_problems(result: Result) -> None:
    assert counts_of(result) == Counts(expectations=5, met=3, unmet=1, errors=2)
    document = scenario_document(result)
    assert (document.scenario, document.file, len(document.checks)) == ("x", "s.yaml", 5)
    assert document.problems == (
        's.yaml: step "two": steps[1].delete[0]: pod/a/nobody is not there',
    )
    total = Counts(1, 1)
    total.add(document.counts)
    assert total == Counts(expectations=6, met=4, unmet=1, errors=2)


def test_titles(result: Result) -> None:
    titles = [title(check.expectation) for check in result.checks]
    assert titles[:3] == [
        "shut (a/client -> a/web:80: deny)",
        "a/public -> github.com:443: allow",
        "a/client -> lookup github.com via 8.8.8.8: allow",
    ]
