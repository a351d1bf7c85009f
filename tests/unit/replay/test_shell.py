"""Through whole scenarios: a shell means little without a cluster around it."""

import pytest
from helpers.scenarios import (
    ALLOW_DNS,
    ALLOW_GITHUB,
    CLUSTER,
    DENY_ALL,
    act,
    check,
    cluster_policy,
    network_policy,
)

from knp_py.model.decision import Verdict
from knp_py.model.net import format_address
from knp_py.replay.performance import Check
from knp_py.replay.shell import Outcome

RESOLVE = "resolve: {github.com: [140.82.121.3, 140.82.121.4], v6.example: '2001:db8::1'}"


def outcome(
    expectation: str, *, apply: str = "", head: str = RESOLVE, cluster: str = CLUSTER
) -> Outcome:
    found = check(f"{{{expectation}, verdict: allow}}", apply=apply, head=head, cluster=cluster)
    assert found.outcome is not None, str(found.problem)
    return found.outcome


def problem(expectation: str, *, head: str = RESOLVE, cluster: str = CLUSTER) -> str:
    found = check(f"{{{expectation}, verdict: allow}}", head=head, cluster=cluster)
    assert found.outcome is None
    return str(found.problem).removeprefix('s.yaml: step "s": steps[0].expect[0].')


def sent_to(found: Outcome) -> tuple[str, int]:
    assert found.trial.attempt is not None
    packet = found.trial.attempt.packet
    return format_address(packet.dst), packet.dport


def decider(found: Outcome) -> str | None:
    assert found.trial.attempt is not None
    ruling = found.trial.attempt.decision.decided_by
    assert ruling is not None
    return ruling.policy or ",".join(ruling.isolated_by) or ruling.tier.text


# -- names -----------------------------------------------------------------------------


def test_connecting_to_a_name_looks_it_up_first() -> None:
    found = outcome("from: a/public, connect: github.com")
    assert (found.verdict, found.stage) == (Verdict.ALLOW, "connect")
    assert [lookup.resolver for lookup in found.lookups] == ["8.8.8.8"]
    assert sent_to(found) == ("140.82.121.3", 443)


def test_a_lookup_that_policy_denies_is_the_outcome() -> None:
    found = outcome("from: a/public, connect: github.com", apply=DENY_ALL)
    assert (found.verdict, found.stage, decider(found)) == (Verdict.DENY, "lookup", "deny")
    assert [lookup.resolver for lookup in found.lookups] == ["8.8.8.8", "1.1.1.1"]


def test_the_next_resolver_is_asked_when_one_does_not_answer() -> None:
    only_second = cluster_policy("dns", 10, "{action: Accept, to: [{networks: [1.1.1.1/32]}]}")
    found = outcome("from: a/public, lookup: github.com", apply=f"{DENY_ALL}, {only_second}")
    assert found.verdict is Verdict.ALLOW
    assert [(each.resolver, each.trial.verdict.value) for each in found.lookups] == [
        ("8.8.8.8", "deny"),
        ("1.1.1.1", "allow"),
    ]


def test_what_was_looked_up_counts_for_policy_by_name() -> None:
    policies = f"{DENY_ALL}, {ALLOW_DNS}, {ALLOW_GITHUB}"
    found = outcome("from: a/public, connect: github.com", apply=policies)
    assert (found.verdict, decider(found)) == (Verdict.ALLOW, "github")
    assert found.trial.attempt is not None
    assert found.trial.attempt.decision.grants[0].name == "github.com"


def test_an_answer_of_a_resolver_that_is_not_trusted_opens_nothing() -> None:
    policies = f"{DENY_ALL}, {ALLOW_DNS}, {ALLOW_GITHUB}"
    found = check(
        "{from: a/public, connect: github.com, verdict: allow}",
        apply=policies,
        head=f"{RESOLVE}\ntrusted-resolvers: 1.1.1.1",
    )
    assert found.outcome is not None
    assert (found.outcome.verdict, decider(found.outcome)) == (Verdict.DENY, "deny")
    assert found.outcome.lookups[0].untaught == "untrusted"
    assert found.why[0] == "the answer of 8.8.8.8 opens nothing: untrusted"


def test_a_name_at_an_address_the_guard_refuses_opens_nothing() -> None:
    policies = f"{DENY_ALL}, {ALLOW_DNS}, {ALLOW_GITHUB}"
    found = outcome(
        "from: a/public, connect: github.com",
        apply=policies,
        head="resolve: {github.com: 169.254.169.254}",
    )
    assert (found.verdict, found.lookups[0].untaught) == (Verdict.DENY, "special-address")


def test_one_address_that_lets_through_is_enough() -> None:
    second = cluster_policy("second", 20, "{action: Accept, to: [{networks: [140.82.121.4/32]}]}")
    found = outcome(
        "from: a/public, connect: github.com", apply=f"{DENY_ALL}, {ALLOW_DNS}, {second}"
    )
    assert (found.verdict, found.tried, sent_to(found)) == (
        Verdict.ALLOW,
        2,
        ("140.82.121.4", 443),
    )


def test_services_by_name_through_cluster_dns() -> None:
    found = outcome("from: a/client, connect: web, port: 80")
    assert sent_to(found) == ("10.244.1.9", 8080)
    assert found.lookups[0].resolver == "10.96.0.10"


def test_public_resolvers_know_no_services() -> None:
    found = outcome("from: a/client, lookup: web, via: 8.8.8.8")
    assert found.verdict is Verdict.DENY
    assert found.trial.reason == (
        "8.8.8.8 knows no web: only the cluster's own resolvers know Services"
    )


def test_a_service_that_is_gone_is_not_found() -> None:
    result = act(
        """\
        steps:
          - {delete: svc/a/web}
          - {expect: [{from: a/client, connect: web, verdict: deny}]}
        """
    )
    (found,) = result.checks
    assert found.met
    assert found.outcome is not None
    assert found.outcome.trial.reason == (
        "10.96.0.10 knows no web: there is no such Service at this point"
    )


def test_an_address_outside_resolves_without_being_judged() -> None:
    found = outcome("from: 203.0.113.9, connect: github.com", apply=DENY_ALL)
    assert (found.verdict, found.lookups) == (Verdict.ALLOW, ())


def test_an_address_of_a_pod_is_the_pod() -> None:
    found = outcome("from: 10.244.1.7, connect: github.com", apply=DENY_ALL)
    assert (found.verdict, found.stage) == (Verdict.DENY, "lookup")


def test_addresses_of_another_family_are_left_out() -> None:
    head = "resolve: {github.com: ['2001:db8::1', 140.82.121.4]}"
    found = outcome("from: a/public, connect: github.com", head=head)
    assert (found.tried, sent_to(found)) == (1, ("140.82.121.4", 443))


# -- Services and pods --------------------------------------------------------------------


@pytest.mark.parametrize("target", ["10.96.1.1", "a/web", "svc:a/web"])
def test_a_service_is_judged_at_its_backend(target: str) -> None:
    found = outcome(f"from: a/client, connect: '{target}', port: 80")
    assert found.trial.attempt is not None
    assert (found.trial.attempt.pod, sent_to(found)) == ("a/server", ("10.244.1.9", 8080))


def test_backends_that_fare_differently_are_unknown() -> None:
    second = (
        "{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: server-2,"
        " labels: {app: server, closed: 'yes'}},"
        " spec: {containers: [{name: c, ports: [{name: http, containerPort: 9090}]}]},"
        " status: {phase: Running, podIPs: [{ip: 10.244.1.10}]}}"
    )
    closed = (
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy,"
        " metadata: {namespace: a, name: closed},"
        " spec: {podSelector: {matchLabels: {closed: 'yes'}}}}"
    )
    found = outcome("from: a/client, connect: a/web, port: 80", apply=f"{second}, {closed}")
    assert found.verdict is Verdict.UNKNOWN
    assert found.trial.reason == (
        "the backends of the Service a/web differ: a/server allow, a/server-2 deny"
    )


def test_a_port_that_a_service_does_not_have_is_refused() -> None:
    found = outcome("from: a/client, connect: a/web")
    assert found.verdict is Verdict.DENY
    assert found.trial.reason == "the Service a/web has no port 443/TCP, only 80/TCP"


def test_a_service_without_pods_is_refused() -> None:
    result = act(
        """\
        steps:
          - delete: pod/a/server
            expect: [{from: a/client, connect: a/web, port: 80, verdict: deny}]
        """
    )
    (found,) = result.checks
    assert found.met
    assert found.outcome is not None
    assert found.outcome.trial.reason == "the Service a/web has no pod behind port 80/TCP"


def test_icmp_of_either_family() -> None:
    deny_icmp = network_policy("egress", "client", "policyTypes: [Egress]")
    found = outcome("from: a/client, connect: a/server, protocol: ICMP", apply=deny_icmp)
    assert (found.verdict, decider(found)) == (Verdict.DENY, "a/egress")
    assert found.trial.attempt is not None
    assert found.trial.attempt.packet.icmp_type == 8


def test_a_host_network_pod_is_its_node_and_never_a_subject() -> None:
    node_agent = (
        "{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: agent},"
        " spec: {hostNetwork: true, containers: [{name: c}]},"
        " status: {phase: Running, hostIP: 172.18.0.3, podIPs: [{ip: 172.18.0.3}]}}"
    )
    found = outcome("from: a/agent, connect: github.com", apply=f"{node_agent}, {DENY_ALL}")
    assert (found.verdict, found.lookups) == (Verdict.ALLOW, ())
    found = outcome("from: a/client, connect: a/agent", apply=f"{node_agent}, {DENY_ALL}")
    assert (found.verdict, sent_to(found)) == (Verdict.DENY, ("172.18.0.3", 443))


# -- what nobody can tell -----------------------------------------------------------------

FINISHED = CLUSTER.replace(
    "status: {phase: Running, podIPs: [{ip: 10.244.1.6}]}",
    "status: {phase: Succeeded, podIPs: [{ip: 10.244.1.6}]}",
)
PENDING = CLUSTER.replace(
    "status: {phase: Running, podIPs: [{ip: 10.244.1.6}]}", "status: {phase: Pending}"
)
TAKEN = CLUSTER.replace("ip: 10.244.1.7", "ip: 10.244.1.6")
BARE = CLUSTER.replace("  selector: {app: server}\n", "")


@pytest.mark.parametrize(
    ("expectation", "message", "cluster"),
    [
        (
            "from: a/cleint, connect: a/server",
            "from: there is no pod a/cleint at this point, did you mean 'a/client'?",
            CLUSTER,
        ),
        (
            "from: a/client, connect: a/web2",
            "connect: there is no pod or Service a/web2 at this point, did you mean 'a/web'?",
            CLUSTER,
        ),
        ("from: a/client, connect: 'svc:a/server'", "connect: there is no Service a/ser", CLUSTER),
        ("from: a/client, connect: 'pod:a/web'", "connect: there is no pod a/web at t", CLUSTER),
        ("from: a/client, connect: gitlab.com", "connect: gitlab.com is neither in res", CLUSTER),
        ("from: a/client, lookup: gitlab.com", "lookup: gitlab.com is neither in reso", CLUSTER),
        ("from: a/client, lookup: github.com, via: a/dns", "via: there is no pod or S", CLUSTER),
        ("from: 203.0.113.9, lookup: github.com", "from: 203.0.113.9 is no pod", CLUSTER),
        (
            "from: a/client, connect: v6.example",
            "connect: a/client has no IPv6 address to connect from",
            CLUSTER,
        ),
        (
            "from: a/public, lookup: github.com, via: '2001:db8::53'",
            "via: a/public has no address to reach a resolver from",
            CLUSTER,
        ),
        ("from: a/client, connect: a/server", "from: the pod a/client has finis", FINISHED),
        ("from: a/client, connect: a/server", "from: the pod a/client has no ad", PENDING),
        ("from: a/server, connect: a/client", "connect: the pod a/client has fini", FINISHED),
        (
            "from: a/client, connect: a/server",
            "from: 10.244.1.6 of the pod a/client is taken by a/public",
            TAKEN,
        ),
        ("from: a/client, connect: a/web, port: 80", "connect: the Service a/web has no s", BARE),
    ],
)
def test_what_nobody_can_tell(expectation: str, message: str, cluster: str) -> None:
    assert problem(expectation, cluster=cluster).startswith(message)


def test_a_headless_service_without_pods() -> None:
    headless = (
        "{apiVersion: v1, kind: Service, metadata: {namespace: a, name: none},"
        " spec: {clusterIP: None, selector: {app: none}, ports: [{port: 80}]}}"
    )
    found: Check = check("{from: a/client, connect: a/none, verdict: deny}", apply=headless)
    assert "the headless Service a/none has no pods" in str(found.problem)
