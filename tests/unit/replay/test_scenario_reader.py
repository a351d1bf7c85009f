import pytest
from helpers.scenarios import complaints, decoded, read

from knp_py.manifests.document import Document
from knp_py.model.decision import Verdict
from knp_py.model.net import parse_address
from knp_py.model.packet import Proto
from knp_py.model.policy import Tier
from knp_py.replay.scenario import DEFAULT_TTL, Removal, Resolved
from knp_py.replay.scenario_reader import is_scenario, read_scenario


def addresses(*texts: str) -> tuple[int, ...]:
    return tuple(map(parse_address, texts))


def test_a_whole_scenario() -> None:
    scenario = read(
        """\
        name: all of it
        description: whatever
        manifests: m.yaml
        resolve:
          GitHub.com.: 140.82.121.4
          pypi.org: [151.101.0.223, "2a04:4e42::223"]
          short.example.com: {addresses: 203.0.113.1, ttl: 300}
        node-resolvers: [192.0.2.53]
        trusted-resolvers: [10.0.0.0/8, 8.8.8.8]
        fqdn-scope: node
        steps:
          - name: first
            apply: [a.yaml, {kind: Pod}]
            delete: [netpol/a/p, ns/a, old/, Pod/b]
            wait: 1.5
            expect:
              - from: a/client
                connect: a/server
                port: 8080
                protocol: UDP
                verdict: deny
                policy: a/p
                tier: NetworkPolicy
                name: why
              - {from: 10.0.0.1, lookup: github.com, via: svc:a/dns, verdict: unknown}
        """
    )
    assert scenario.name == "all of it"
    assert scenario.resolve == {
        "github.com": Resolved(addresses("140.82.121.4"), DEFAULT_TTL),
        "pypi.org": Resolved(addresses("151.101.0.223", "2a04:4e42::223"), DEFAULT_TTL),
        "short.example.com": Resolved(addresses("203.0.113.1"), 300),
    }
    assert scenario.node_resolvers == addresses("192.0.2.53")
    assert scenario.trust is not None
    assert [cidr.text for cidr in scenario.trust.cidrs] == ["10.0.0.0/8", "8.8.8.8/32"]
    assert scenario.scope == "node"
    (step,) = scenario.steps
    assert (step.name, step.wait) == ("first", 1.5)
    assert step.apply[0] == "a.yaml"
    assert isinstance(step.apply[1], Document)
    assert str(step.apply[1].origin) == "s.yaml steps[0].apply[1]"
    assert step.delete == (
        Removal("netpol/a/p", "NetworkPolicy", "a", "p"),
        Removal("ns/a", "Namespace", "", "a"),
        "old/",
        Removal("Pod/b", "Pod", "default", "b"),
    )
    first, second = step.expect
    assert (first.protocol, first.port, first.verdict) == (Proto.UDP, 8080, Verdict.DENY)
    assert (first.policy, first.tier, first.name) == ("a/p", Tier.NETWORK_POLICY, "why")
    assert second.lookup
    assert (second.protocol, second.port) == (Proto.UDP, 53)
    assert second.via is not None
    assert (second.via.key, second.via.kind) == ("a/dns", "Service")


def test_defaults() -> None:
    scenario = read("steps: [{expect: [{from: a/c, connect: b.example, verdict: allow}]}]")
    assert scenario.name == "s.yaml"
    assert scenario.trust is None
    assert scenario.scope is None
    assert scenario.steps[0].name == "step 1"
    expectation = scenario.steps[0].expect[0]
    assert (expectation.protocol, expectation.port) == (Proto.TCP, 443)


def test_a_path_may_begin_like_a_kind() -> None:
    scenario = read("steps: [{delete: [pods/x.yaml, ./pod/x, pod/a/b/c, ns/a/b]}]")
    assert scenario.steps[0].delete == ("pods/x.yaml", "./pod/x", "pod/a/b/c", "ns/a/b")


def test_every_mistake_at_once() -> None:
    found = complaints(
        """\
        manifests: [1, "-"]
        resolve: {x.example: [], 10.0.0.1: 10.0.0.2, y.example: nowhere}
        trusted-resolvers: everybody
        fqdn-scope: cluster
        stepz: []
        steps:
          - name: one
            wait: -1
            delete: [7]
            expect:
              - {from: a/c, connect: x.example, verdict: alow}
              - {from: x.example, connect: x.example, verdict: allow}
              - {connect: x.example, lookup: x.example, via: 8.8.8.8}
          - {name: two, expects: []}
          - 3
        """
    )
    one, two = 'step "one": steps[0]', 'step "two": steps[1]'
    assert found == [
        "stepz: unknown field, did you mean 'steps'?",
        "manifests[0]: found the number 1, expected a path or an object",
        "manifests[1]: found -, expected a path: a scenario does not read standard input",
        "resolve.x.example: found nothing, expected an address or a list of addresses",
        "resolve.10.0.0.1: found the key '10.0.0.1', expected a host name",
        "resolve.y.example: found the text 'nowhere', expected an IP address",
        "trusted-resolvers: found 'everybody', expected auto, any or CIDRs like 10.96.0.10/32",
        "fqdn-scope: found 'cluster', expected pod or node",
        (
            f"{one}.delete[0]: found the number 7, expected a path or"
            " KIND/NAMESPACE/NAME or KIND/NAME"
        ),
        f"{one}.wait: found the number -1, expected seconds, a number of at least 0",
        (
            f"{one}.expect[0].verdict: found 'alow', expected allow, deny or unknown,"
            " did you mean 'allow'?"
        ),
        f"{one}.expect[1].from: found 'x.example', expected NAMESPACE/POD or an IP address",
        f"{one}.expect[2].from: missing, expected NAMESPACE/POD or an IP address",
        f"{one}.expect[2].lookup: stands together with connect, expected one of them",
        f"{one}.expect[2].verdict: missing, expected allow, deny or unknown",
        f"{two}.expects: unknown field, did you mean 'expect'?",
        "step 3: steps[2]: found the number 3, expected an object",
    ]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ("connect: x, verdict: allow, port: 0", "port: found the number 0, expected a number"),
        ("connect: x, verdict: allow, port: http", "port: found the text 'http'"),
        ("connect: x, verdict: allow, port: 80, protocol: ICMP", "port: found a port"),
        ("connect: x, verdict: allow, protocol: GRE", "protocol: found 'GRE'"),
        ("connect: x, verdict: allow, via: 8.8.8.8", "via: goes with lookup"),
        ("lookup: x, verdict: allow, port: 53", "port: goes with connect"),
        ("lookup: 10.0.0.1, verdict: allow", "lookup: found '10.0.0.1', expected a host name"),
        ("lookup: x, verdict: allow, via: dns.example", "via: found 'dns.example'"),
        ("connect: 10.0.0.256, verdict: allow", "connect: found '10.0.0.256', expected a name"),
        ("connect: x, verdict: allow, tier: admin", "tier: found 'admin'"),
        ("verdict: allow", "connect: missing"),
        ("connect: x, verdict: [allow]", "verdict: found a list, expected text"),
    ],
)
def test_bad_expectations(fields: str, complaint: str) -> None:
    (found,) = complaints(f"steps: [{{name: s, expect: [{{from: a/c, {fields}}}]}}]")
    assert found.startswith(f'step "s": steps[0].expect[0].{complaint}')


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "found a list, expected an object"),
        ("name: x", "steps: missing, expected a list of steps"),
        ("steps: []", "steps: found an empty list, expected at least 1 item"),
        ("{steps: [{}], resolve: {A.b: 10.0.0.1, a.b.: 10.0.0.1}}", "resolve.a.b.: stands twice"),
        ("{steps: [{}], resolve: {a.b: {ttl: 5}}}", "resolve.a.b.addresses: missing"),
        ("{steps: [{}], resolve: {a.b: {addresses: 10.0.0.1, tll: 5}}}", "resolve.a.b.tll: unkno"),
    ],
)
def test_bad_scenarios(text: str, complaint: str) -> None:
    (found,) = complaints(text)
    assert found.startswith(complaint)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("steps: []", True),
        ("{apiVersion: argoproj.io/v1alpha1, steps: []}", False),
        ("name: x", False),
        ("[steps]", False),
    ],
)
def test_what_looks_like_a_scenario(text: str, expected: bool) -> None:
    (document,) = decoded(text)
    assert is_scenario(document.value) is expected


def test_reading_never_raises_for_odd_values() -> None:
    values: list[object] = [None, 1, "x", [[]], {"steps": {"a": 1}}, {"steps": [None]}]
    for value in values:
        scenario, problems = read_scenario(Document(decoded("a: 1")[0].origin, value=value))
        assert scenario is None
        assert problems
