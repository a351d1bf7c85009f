import pytest
from helpers.scenarios import ALLOW_DNS, ALLOW_GITHUB, DENY_ALL, check, network_policy

from knp_py.replay.wording import outcome_text

RESOLVE = "resolve: {github.com: [140.82.121.3, 140.82.121.4]}"
DENY = f"{DENY_ALL}, {ALLOW_DNS}"


@pytest.mark.parametrize(
    ("expectation", "apply", "text"),
    [
        ("connect: github.com", "", "default: no policy decided [140.82.121.3]"),
        ("connect: github.com", DENY, "egress: Admin deny, rule 0 [140.82.121.3 and 1 more]"),
        (
            "connect: github.com",
            f"{DENY}, {ALLOW_GITHUB}",
            "egress: Admin github, rule 0 (github.com matches github.com) [140.82.121.3]",
        ),
        (
            "connect: github.com",
            DENY_ALL,
            "could not look github.com up: egress: Admin deny, rule 0 [8.8.8.8 and 1 more]",
        ),
        ("lookup: github.com", DENY_ALL, "egress: Admin deny, rule 0 [8.8.8.8 and 1 more]"),
        ("lookup: github.com", DENY, "egress: Admin dns, rule 0 [8.8.8.8]"),
        ("lookup: github.com, via: 9.9.9.9", DENY, "egress: Admin deny, rule 0 [9.9.9.9]"),
        ("connect: 10.96.1.1, port: 80", DENY, "egress: Admin deny, rule 0"),
        ("connect: a/web", "", "the Service a/web has no port 443/TCP, only 80/TCP"),
        (
            "connect: a/server",
            network_policy("in", "server", "policyTypes: [Ingress]"),
            "ingress: NetworkPolicy a/in: isolates, no rule matches",
        ),
    ],
)
def test_outcome_text(expectation: str, apply: str, text: str) -> None:
    found = check(f"{{from: a/public, {expectation}, verdict: allow}}", apply=apply, head=RESOLVE)
    assert found.outcome is not None
    assert outcome_text(found.expectation, found.outcome) == text


def test_policies_that_say_nothing_are_one_line_each() -> None:
    found = check(
        "{from: a/client, connect: a/server, verdict: deny}",
        apply=f"{ALLOW_DNS}, {network_policy('none', 'server', 'ingress: [{}]')}",
    )
    assert list(found.why) == [
        "considered for egress of a/client:",
        "  Admin dns (priority 10): no rule matches",
        "  so default: no policy decided",
        "considered for ingress of a/server:",
        "  NetworkPolicy a/none: rule 0 Accept: decided",
        "  so ingress: NetworkPolicy a/none, rule 0",
    ]


def test_a_policy_without_rules_says_what_it_does() -> None:
    found = check(
        "{from: a/client, connect: a/server, verdict: allow}",
        apply=network_policy("shut", "server", "policyTypes: [Ingress]"),
    )
    assert "  NetworkPolicy a/shut: isolates the pod and allows nothing" in found.why


def test_where_no_pod_is_involved() -> None:
    found = check("{from: 203.0.113.1, connect: 203.0.113.2, verdict: deny}")
    assert found.why == ("default: neither end is a pod",)


def test_addresses_of_the_pod_network_that_are_nobodys() -> None:
    node = (
        "{apiVersion: v1, kind: Node, metadata: {name: node}, spec: {podCIDR: 10.244.0.0/16},"
        " status: {addresses: [{type: InternalIP, address: 172.18.0.2}]}}"
    )
    found = check("{from: a/client, connect: 10.244.9.9, verdict: deny}", apply=node)
    assert "10.244.9.9 lies in the pod network and is no known pod's" in found.why
