import pytest
from helpers.scenarios import (
    ALLOW_DNS,
    ALLOW_GITHUB,
    CLUSTER,
    DENY_ALL,
    act,
    check,
    network_policy,
)

from knp_py.engine.resolvers import parse_trust
from knp_py.replay.performance import Result

RESOLVE = "resolve: {github.com: 140.82.121.4}"


def verdicts(result: Result) -> list[str]:
    """The verdicts in order; ``error`` where there is none."""
    assert not result.problems, [str(problem) for problem in result.problems]
    return ["error" if c.outcome is None else c.outcome.verdict.value for c in result.checks]


def test_policies_come_and_go() -> None:
    result = act(
        f"""\
        steps:
          - {{expect: [&e {{from: a/client, connect: a/server, verdict: allow}}]}}
          - {{apply: {DENY_ALL}, expect: [*e]}}
          - {{delete: ClusterNetworkPolicy/deny, expect: [*e]}}
          - {{apply: p.yaml, expect: [*e]}}
          - {{delete: p.yaml, expect: [*e]}}
        """,
        p_yaml=network_policy("p", "server", "policyTypes: [Ingress]"),
    )
    assert verdicts(result) == ["allow", "deny", "allow", "deny", "allow"]
    assert [c.met for c in result.checks] == [True, False, True, False, True]


def test_relabelling_changes_what_selects_a_pod() -> None:
    policy = network_policy("p", "locked", "policyTypes: [Egress]")
    relabelled = (
        "{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: client,"
        " labels: {app: locked}}, spec: {containers: [{name: c}]},"
        " status: {phase: Running, podIPs: [{ip: 10.244.1.6}]}}"
    )
    result = act(
        f"""\
        steps:
          - {{apply: {policy}, expect: [&e {{from: a/client, connect: a/server, verdict: deny}}]}}
          - {{apply: {relabelled}, expect: [*e]}}
        """
    )
    assert verdicts(result) == ["allow", "deny"]


def test_names_live_for_scenario_time() -> None:
    result = act(
        f"""\
        resolve:
          github.com: 140.82.121.4
          api.github.com: {{addresses: 140.82.121.6, ttl: 300}}
        steps:
          - apply: [{DENY_ALL}, {ALLOW_DNS}, {ALLOW_GITHUB}]
            expect:
              - {{from: a/public, connect: 140.82.121.4, verdict: deny}}
              - {{from: a/public, connect: github.com, verdict: allow}}
              - {{from: a/public, lookup: api.github.com, verdict: allow}}
              - &four {{from: a/public, connect: 140.82.121.4, verdict: allow}}
              - &six {{from: a/public, connect: 140.82.121.6, verdict: allow}}
          - {{wait: 59, expect: [*four, *six]}}
          - {{wait: 1, expect: [*four, *six]}}
          - {{wait: 239.5, expect: [*six]}}
          - {{wait: 0.5, expect: [*six]}}
        """
    )
    assert verdicts(result) == [
        *["deny", "allow", "allow", "allow", "allow"],
        *["allow", "allow"],
        *["deny", "allow"],
        "allow",
        "deny",
    ]
    assert [step.at for step in result.steps] == [0, 59, 60, 299.5, 300]


def test_what_one_pod_learned_opens_nothing_for_another_unless_the_scope_is_the_node() -> None:
    one_node = CLUSTER.replace("spec: {containers", "spec: {nodeName: one, containers").replace(
        "dnsPolicy: None\n", "dnsPolicy: None\n  nodeName: one\n"
    )
    text = f"""\
        {RESOLVE}
        SCOPE
        steps:
          - apply: [{DENY_ALL}, {ALLOW_DNS}, {ALLOW_GITHUB}]
            expect:
              - {{from: a/public, connect: github.com, verdict: allow}}
              - {{from: a/client, connect: 140.82.121.4, verdict: deny}}
        """
    shared = text.replace("SCOPE", "fqdn-scope: node")
    assert verdicts(act(text.replace("SCOPE", ""), cluster=one_node)) == ["allow", "deny"]
    assert verdicts(act(shared, cluster=one_node)) == ["allow", "allow"]
    # Pods that do not say which node they are on share none.
    assert verdicts(act(shared)) == ["allow", "deny"]


def test_a_pod_that_returns_under_its_name_starts_without_names() -> None:
    again = (
        "{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: public},"
        " spec: {dnsPolicy: None, dnsConfig: {nameservers: [8.8.8.8]}, containers: [{name: c}]},"
        " status: {phase: Running, podIPs: [{ip: 10.244.1.7}]}}"
    )
    result = act(
        f"""\
        {RESOLVE}
        steps:
          - apply: [{DENY_ALL}, {ALLOW_DNS}, {ALLOW_GITHUB}]
            expect: [{{from: a/public, connect: github.com, verdict: allow}}]
          - delete: pod/a/public
          - apply: {again}
            expect: [{{from: a/public, connect: 140.82.121.4, verdict: deny}}]
        """
    )
    assert verdicts(result) == ["allow", "deny"]


def test_a_policy_that_arrives_after_the_lookup_works() -> None:
    result = act(
        f"""\
        {RESOLVE}
        steps:
          - apply: [{DENY_ALL}, {ALLOW_DNS}]
            expect: [{{from: a/public, connect: github.com, verdict: deny}}]
          - apply: {ALLOW_GITHUB}
            expect: [{{from: a/public, connect: 140.82.121.4, verdict: allow}}]
        """
    )
    assert verdicts(result) == ["deny", "allow"]


def test_the_callers_trust_counts_unless_the_scenario_has_its_own() -> None:
    text = f"""\
        {RESOLVE}
        TRUST
        steps:
          - apply: [{DENY_ALL}, {ALLOW_DNS}, {ALLOW_GITHUB}]
            expect: [{{from: a/public, connect: github.com, verdict: allow}}]
        """
    nobody = parse_trust("192.0.2.0/24")
    assert verdicts(act(text.replace("TRUST", ""), trust=nobody)) == ["deny"]
    own = text.replace("TRUST", "trusted-resolvers: any")
    assert verdicts(act(own, trust=nobody)) == ["allow"]


def test_node_resolvers_are_trusted_by_pods_of_that_policy() -> None:
    on_node = (
        "{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: on-node},"
        " spec: {dnsPolicy: Default, containers: [{name: c}]},"
        " status: {phase: Running, podIPs: [{ip: 10.244.1.8}]}}"
    )
    result = act(
        f"""\
        {RESOLVE}
        node-resolvers: 8.8.8.8
        steps:
          - apply: [{DENY_ALL}, {ALLOW_DNS}, {ALLOW_GITHUB}, {on_node}]
            expect: [{{from: a/on-node, connect: github.com, verdict: allow}}]
        """
    )
    assert verdicts(result) == ["allow"]


SERVER_IN = network_policy("in", "server", "ingress: [{from: [{podSelector: {}}]}]")


@pytest.mark.parametrize(
    ("who", "met"),
    [
        ("policy: a/in", True),
        ("tier: NetworkPolicy", True),
        ("tier: NetworkPolicy, policy: a/in", True),
        # Egress was allowed by default, and either end may be meant.
        ("tier: Default", True),
        ("tier: Default, policy: a/in", False),
        ("tier: Admin", False),
        ("policy: a/out", False),
    ],
)
def test_who_decides_an_allowed_connection(who: str, met: bool) -> None:
    found = check(f"{{from: a/client, connect: a/server, verdict: allow, {who}}}", apply=SERVER_IN)
    assert found.met is met
    if not met:
        assert found.faults[0].startswith("allow as expected, but decided by another than")


@pytest.mark.parametrize(
    ("who", "met"),
    [("policy: a/in", True), ("tier: NetworkPolicy", True), ("tier: Default", False)],
)
def test_who_decides_a_denied_connection(who: str, met: bool) -> None:
    closed = network_policy("in", "server", "policyTypes: [Ingress]")
    found = check(f"{{from: a/client, connect: a/server, verdict: deny, {who}}}", apply=closed)
    assert found.met is met


def test_nobody_decides_what_was_never_sent() -> None:
    found = check("{from: a/client, connect: a/web, verdict: deny, tier: Default}")
    assert found.faults == (
        (
            "deny as expected, but decided by another than Default:"
            " the Service a/web has no port 443/TCP, only 80/TCP"
        ),
    )
    assert found.why == ()


def test_a_fault_says_which_policies_were_considered() -> None:
    found = check(
        "{from: a/public, connect: 140.82.121.4, verdict: allow}",
        apply=f"{DENY_ALL}, {ALLOW_GITHUB}",
    )
    assert found.faults == ("expected allow, got deny: egress: Admin deny, rule 0",)
    assert found.why == (
        "considered for egress of a/public:",
        "  Admin github (priority 20): rule 0 Accept: no such name is learned for it",
        "  Admin deny (priority 100): rule 0 Deny: decided",
        "  so egress: Admin deny, rule 0",
    )


def test_deleting_what_is_not_there_cuts_the_scenario_short() -> None:
    result = act(
        """\
        steps:
          - {name: one, expect: [{from: a/client, connect: a/server, verdict: allow}]}
          - name: two
            delete: [pod/a/nobody, x.yaml]
            expect: [{from: a/x, connect: a/y, verdict: deny}]
          - {name: three}
        """,
        x_yaml=network_policy("p", "server", ""),
    )
    assert [str(problem) for problem in result.problems] == [
        's.yaml: step "two": steps[1].delete[0]: pod/a/nobody is not there',
        's.yaml: step "two": steps[1].delete[1]: NetworkPolicy a/p is not there',
    ]
    assert len(result.steps) == 1


def test_a_manifest_that_is_wrong_cuts_the_scenario_short() -> None:
    result = act("steps: [{apply: {apiVersion: v1, kind: Pod, metadata: {}}}]")
    assert [str(problem) for problem in result.problems] == [
        "s.yaml steps[0].apply: Pod: metadata.name: missing, expected the object's name"
    ]
    assert result.steps == ()


def test_warnings_are_said_once() -> None:
    result = act(
        """\
        steps:
          - {apply: {apiVersion: v1, kind: Secret, metadata: {name: s}}}
          - {apply: {apiVersion: v1, kind: Namespace, metadata: {name: b}}}
          - {delete: ns/b}
        """
    )
    assert len([warning for warning in result.warnings if "Secret s" in warning]) == 1
