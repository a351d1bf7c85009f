"""ClusterNetworkPolicy v1alpha2: values, and what fails closed. test_crd has the rest."""

import pytest
from helpers.manifests import (
    clean,
    cluster_policies,
    cluster_policy,
    lines,
    load_raw,
    load_values,
)

from knp_py.model.net import parse_cidr
from knp_py.model.policy import (
    Action,
    ClusterNetworkPolicy,
    ClusterRule,
    Direction,
    DomainPeer,
    NamedPort,
    NetworkPeer,
    NodePeer,
    PodPeer,
    PortRange,
    Tier,
    UnknownPeer,
    UnknownPort,
)
from knp_py.model.selectors import EVERYTHING, LabelSelector

PREFIX = "ClusterNetworkPolicy c: spec."
ALL: dict[str, object] = {"namespaces": {}}


def policy(**spec: object) -> ClusterNetworkPolicy:
    found = cluster_policies(clean(load_values(cluster_policy(**spec))))["c"]
    raw = cluster_policies(clean(load_raw(cluster_policy(**spec))))["c"]
    assert (raw.subject, raw.rules) == (found.subject, found.rules)
    return found


def egress(**fields: object) -> ClusterRule:
    return policy(egress=[{"action": "Accept", "to": [ALL], **fields}]).rules[Direction.EGRESS][0]


def problems(**spec: object) -> list[str]:
    result = load_values(cluster_policy(**spec))
    assert not result.objects
    return [line.removeprefix(PREFIX) for line in lines(result.problems)]


def kept(**fields: object) -> tuple[ClusterRule, list[str]]:
    """An egress rule that is loaded with warnings."""
    result = load_values(cluster_policy(egress=[{"action": "Deny", "to": [ALL], **fields}]))
    assert not result.problems
    rule = cluster_policies(result)["c"].rules[Direction.EGRESS][0]
    return rule, [line.removeprefix(f"{PREFIX}egress[0].") for line in lines(result.warnings)]


def test_tier_priority_and_subject() -> None:
    found = policy(tier="Baseline", priority=1000)
    assert (found.tier, found.priority, found.kind) == (
        Tier.BASELINE,
        1000,
        "ClusterNetworkPolicy",
    )
    assert found.subject == PodPeer()
    assert policy(priority=0).priority == 0
    pods = {"podSelector": {"matchLabels": {"a": "b"}}}
    assert policy(subject={"pods": pods}).subject == PodPeer(pods=LabelSelector((("a", "b"),)))
    assert policy(
        subject={"pods": {**pods, "namespaceSelector": {"matchLabels": {"c": "d"}}}}
    ).subject == PodPeer(LabelSelector((("c", "d"),)), LabelSelector((("a", "b"),)))
    assert policy(subject={"namespaces": {}, "pods": None}).subject == PodPeer()


def test_rules_keep_their_order_and_names() -> None:
    found = policy(
        ingress=[
            {"name": "one", "action": "Accept", "from": [ALL]},
            {"action": "Pass", "from": [ALL]},
            {"name": "n" * 100, "action": "Deny", "from": [ALL]},
        ]
    )
    assert [(r.name, r.action) for r in found.rules[Direction.INGRESS]] == [
        ("one", Action.ACCEPT),
        ("", Action.PASS),
        ("n" * 100, Action.DENY),
    ]
    assert found.rules[Direction.EGRESS] == ()
    assert policy(egress=[], ingress=None).rules == ((), ())


def test_peers() -> None:
    selector = {"matchLabels": {"a": "b"}}
    label = LabelSelector((("a", "b"),))
    assert egress(
        to=[
            {"namespaces": selector},
            {"pods": {"podSelector": selector}},
            {"pods": {"podSelector": {}, "namespaceSelector": selector}},
            {"networks": ["10.0.0.0/8", "fd00::/8", "10.1.2.3/32"]},
            {"nodes": {}},
            {"domainNames": ["*.Example.com.", "example.com"]},
        ]
    ).peers == (
        PodPeer(namespaces=label),
        PodPeer(pods=label),
        PodPeer(namespaces=label, pods=EVERYTHING),
        NetworkPeer((parse_cidr("10.0.0.0/8"), parse_cidr("fd00::/8"), parse_cidr("10.1.2.3/32"))),
        NodePeer(EVERYTHING),
        DomainPeer(("*.Example.com.", "example.com")),
    )


def test_protocols() -> None:
    assert egress().ports is None
    assert egress(protocols=None).ports is None
    assert egress(
        protocols=[
            {"tcp": {"destinationPort": {"number": 443}}},
            {"udp": {"destinationPort": {"range": {"start": 1, "end": 65535}}}},
            {"sctp": {"destinationPort": {"number": 1}}},
            {"destinationNamedPort": "http"},
        ]
    ).ports == (
        PortRange(6, 443, 443),
        PortRange(17, 1, 65535),
        PortRange(132, 1, 1),
        NamedPort("http"),
    )


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"egress": [{"action": "Accept", "to": [ALL]}] * 26}, "egress: found 26 items"),
        ({"egress": [{"action": "Accept", "to": [ALL] * 26}]}, "egress[0].to: found 26 items"),
        ({"egress": [{"action": "Accept", "to": []}]}, "egress[0].to: found an empty list"),
        ({"egress": [{"action": "Accept"}]}, "egress[0].to: missing, expected a list of at"),
        ({"egress": [{"to": [ALL]}]}, "egress[0].action: missing, expected Accept, Deny or Pass"),
        ({"egress": [{"to": [ALL], "action": 1}]}, "egress[0].action: found the number 1"),
        (
            {"egress": [{"to": [ALL], "action": "Deny", "name": "n" * 101}]},
            "egress[0].name: found 101 characters, expected at most 100",
        ),
        (
            {"egress": [{"to": [ALL], "action": "Deny", "protocols": []}]},
            "egress[0].protocols: found an empty list, expected at least 1",
        ),
        ({"subject": {}}, "subject: found neither of namespaces and pods"),
        ({"subject": None}, "subject: missing"),
        ({"subject": {"namespaces": {}, "pods": {"podSelector": {}}}}, "subject: found both of"),
        ({"subject": {"pods": {}}}, "subject.pods.podSelector: missing"),
        ({"tier": "NetworkPolicy"}, "tier: found 'NetworkPolicy', expected Admin or Baseline"),
        ({"tier": "admin"}, "tier: found 'admin', expected Admin or Baseline, did you mean"),
        ({"tier": None}, "tier: missing, expected Admin or Baseline"),
        ({"priority": None}, "priority: missing"),
        ({"priority": 1001}, "priority: found the number 1001, expected a number from 0 to 1000"),
        ({"priority": -1}, "priority: found the number -1"),
        ({"priority": "1"}, "priority: found the text '1', expected a number from 0 to 1000 with"),
        ({"priority": True}, "priority: found true"),
        ({"priority": 1.5}, "priority: found the number 1.5"),
    ],
)
def test_bad_policies(fields: dict[str, object], what: str) -> None:
    (found,) = problems(**fields)
    assert found.startswith(what)


@pytest.mark.parametrize(
    ("peer", "what"),
    [
        ({"namespaces": {}, "nodes": {}}, ": found namespaces and nodes, expected exactly one"),
        ({"namespaces": []}, ".namespaces: found a list, expected an object"),
        ({"pods": {"namespaceSelector": {}}}, ".pods.podSelector: missing"),
        ({"networks": []}, ".networks: found an empty list, expected at least 1"),
        ({"networks": ["10.0.0.0/8"] * 2}, ".networks[1]: '10.0.0.0/8' stands twice"),
        ({"networks": [f"10.0.{i}.0/24" for i in range(26)]}, ".networks: found 26 items"),
        ({"networks": ["10.0.0.0"]}, ".networks[0]: found '10.0.0.0', expected a CIDR"),
        ({"networks": ["010.0.0.0/8"]}, ".networks[0]: found '010.0.0.0/8', expected a CIDR"),
        ({"networks": ["::ffff:10.0.0.0/104"]}, ".networks[0]: found ::ffff:10.0.0.0/104, expec"),
        ({"networks": ["::ffff:a00:0/104"]}, ".networks[0]: found ::ffff:a00:0/104, expected"),
        ({"networks": ["fe80::1%eth0/64"]}, ".networks[0]: found 'fe80::1%eth0/64', expected"),
        ({"domainNames": []}, ".domainNames: found an empty list, expected at least 1"),
        ({"domainNames": ["a.b"] * 2}, ".domainNames[1]: 'a.b' stands twice"),
        ({"domainNames": [f"a{i}.b" for i in range(26)]}, ".domainNames: found 26 items"),
        ({"domainNames": ["com"]}, ".domainNames[0]: found 'com', expected a domain name of at"),
        ({"domainNames": ["*"]}, ".domainNames[0]: found '*', expected a domain name; '*' stands"),
        ({"domainNames": ["*.com"]}, ".domainNames[0]: found '*.com', expected a domain name of"),
        (
            {"domainNames": ["a.*.com"]},
            ".domainNames[0]: found 'a.*.com', expected a domain name",
        ),
        ({"domainNames": ["*a.b.com"]}, ".domainNames[0]: found '*a.b.com', expected a domain na"),
        ({"domainNames": ["a..b"]}, ".domainNames[0]: found 'a..b', expected a domain name"),
        ({"domainNames": ["a.b\n"]}, ".domainNames[0]: found 'a.b\\n', expected a domain name"),
        ({"domainNames": ["bücher.ex"]}, ".domainNames[0]: found 'bücher.ex', expected a domain"),
    ],
)
def test_bad_peers(peer: object, what: str) -> None:
    prefix = "egress[0].to[0]"
    found = problems(egress=[{"action": "Accept", "to": [peer]}])
    assert [line.removeprefix(prefix)[: len(what)] for line in found] == [what]


def test_what_the_crd_pattern_accepts() -> None:
    names = ("a.b", "*.a.b.", "_dmarc.example.com", "xn--bcher-kva.ex", "a-b_c.Example.COM", "1.2")
    assert egress(to=[{"domainNames": list(names)}]).peers == (DomainPeer(names),)


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ({"tcp": {}, "udp": {}}, ": found tcp and udp, expected exactly one field"),
        ({"tcp": {"destinationPort": {"number": 0}}}, ".tcp.destinationPort.number: found the"),
        ({"tcp": {"destinationPort": {"number": 65536}}}, ".tcp.destinationPort.number: found"),
        ({"tcp": {"destinationPort": {"number": "80"}}}, ".tcp.destinationPort.number: found the"),
        (
            {"tcp": {"destinationPort": {"number": 1, "range": {"start": 1, "end": 2}}}},
            ".tcp.destinationPort: found number and range, expected exactly one field",
        ),
        (
            {"udp": {"destinationPort": {"range": {"start": 2, "end": 2}}}},
            ".udp.destinationPort.range.end: found 2, expected more than start, which is 2",
        ),
        (
            {"udp": {"destinationPort": {"range": {"start": 2}}}},
            ".udp.destinationPort.range.end: missing, expected a number from 1 to 65535",
        ),
        ({"tcp": 80}, ".tcp: found the number 80, expected an object"),
        ({"tcp": {"destinationPort": 80}}, ".tcp.destinationPort: found the number 80, expected"),
        (
            {"destinationNamedPort": 80},
            ".destinationNamedPort: found the number 80, expected text",
        ),
    ],
)
def test_bad_protocols(entry: object, what: str) -> None:
    prefix = "egress[0].protocols[0]"
    found = problems(egress=[{"action": "Accept", "to": [ALL], "protocols": [entry]}])
    # A range that is no object is told of once, however it is wrong.
    assert found[0].removeprefix(prefix)[: len(what)] == what


@pytest.mark.parametrize(
    "peer", [{"networks": ["10.0.0.0/8"]}, {"nodes": {}}, {"domainNames": ["a.b"]}]
)
def test_addresses_have_no_named_ports(peer: object) -> None:
    named = [{"tcp": {"destinationPort": {"number": 1}}}, {"destinationNamedPort": "x"}]
    (found,) = problems(egress=[{"action": "Accept", "to": [ALL, peer], "protocols": named}])
    assert found.startswith("egress[0].protocols: found destinationNamedPort beside a networks")
    egress(to=[ALL], protocols=named)


@pytest.mark.parametrize(
    ("fields", "peers", "warning"),
    [
        (
            {"to": [{}]},
            (UnknownPeer(),),
            (
                "to[0]: empty peer: the rule denies everything; "
                "expected namespaces, pods, networks, nodes or domainNames"
            ),
        ),
        (
            {"to": [{"namespaces": None}]},
            (UnknownPeer(),),
            (
                "to[0]: empty peer: the rule denies everything; "
                "expected namespaces, pods, networks, nodes or domainNames"
            ),
        ),
        (
            {"to": [{"futurePeer": {}}], "action": "Accept"},
            (UnknownPeer(("futurePeer",)),),
            (
                "to[0]: unknown field futurePeer: the rule matches nothing; "
                "known here: namespaces, pods, networks, nodes or domainNames"
            ),
        ),
        (
            {"to": [{"namespace": {}}], "action": "Pass"},
            (UnknownPeer(("namespace",)),),
            (
                "to[0]: unknown field namespace: the rule denies everything; "
                "did you mean 'namespaces'?"
            ),
        ),
        (
            {"to": [{"namespaces": {}, "port": 1}]},
            (UnknownPeer(("port",)),),
            (
                "to[0]: unknown field port: the rule denies everything; "
                "known here: namespaces, pods, networks, nodes or domainNames"
            ),
        ),
        (
            {"to": [{"domainNames": ["a.b"]}]},
            (DomainPeer(("a.b",)),),
            "to: domainNames is for Accept rules only: the rule denies everything",
        ),
    ],
)
def test_unknown_peers_are_kept(
    fields: dict[str, object], peers: tuple[object, ...], warning: str
) -> None:
    rule, warnings = kept(**fields)
    assert rule.peers == peers
    assert warnings == [warning]


def test_what_is_a_peer_only_of_egress_is_unknown_in_ingress() -> None:
    peers: list[dict[str, object]] = [
        {"networks": ["10.0.0.0/8"]},
        {"nodes": {}},
        {"domainNames": ["a.b"]},
    ]
    for peer in peers:
        result = load_values(cluster_policy(ingress=[{"action": "Deny", "from": [peer]}]))
        assert not result.problems
        rules = cluster_policies(result)["c"].rules[Direction.INGRESS]
        assert rules[0].peers == (UnknownPeer(tuple(peer)),)
        assert len(result.warnings) == 1


@pytest.mark.parametrize(
    ("entry", "port", "warning"),
    [
        ({}, UnknownPort(), ": empty protocol: the rule denies everything; expected tcp, udp,"),
        ({"icmp": {}}, UnknownPort(("icmp",)), ": unknown field icmp: the rule denies everything"),
        ({"TCP": {}}, UnknownPort(("TCP",)), ": unknown field TCP: the rule denies everything; "),
        (
            {"tcp": {"flags": 1}},
            UnknownPort(("flags",)),
            ".tcp: unknown field flags: the rule denies everything; known here: destinationPort",
        ),
        (
            {"tcp": {"destinationPort": {"number": 1}, "sourcePort": {"number": 1}}},
            UnknownPort(("sourcePort",)),
            ".tcp: unknown field sourcePort: the rule denies everything",
        ),
        (
            {"tcp": {"destinationPort": {}}},
            UnknownPort(),
            ".tcp.destinationPort: empty port: the rule denies everything; expected number or",
        ),
        (
            {"tcp": {"destinationPort": {"list": [1]}}},
            UnknownPort(("list",)),
            ".tcp.destinationPort: unknown field list: the rule denies everything; known here",
        ),
        ({"tcp": {}}, PortRange(6), ".tcp: empty, taken as every TCP port; the API server would"),
        ({"udp": {"destinationPort": None}}, PortRange(17), ".udp: empty, taken as every UDP"),
    ],
)
def test_unknown_protocols_are_kept(entry: object, port: object, warning: str) -> None:
    rule, warnings = kept(protocols=[entry])
    assert rule.ports == (port,)
    (found,) = warnings
    assert found.startswith(f"protocols[0]{warning}")


def test_an_unknown_action_is_kept() -> None:
    rule, warnings = kept(action="Allow")
    assert (rule.action, rule.action_text) == (Action.UNKNOWN, "Allow")
    assert warnings == [
        "action: unknown action 'Allow': the rule denies; expected Accept, Deny or Pass"
    ]
    rule, warnings = kept(action="deny")
    assert (rule.action, rule.action_text) == (Action.UNKNOWN, "deny")
    assert warnings[0].endswith("did you mean 'Deny'?")


def test_unknown_fields_are_named() -> None:
    document = cluster_policy(ingres=[], egress=[{"action": "Deny", "to": [ALL], "port": 1}])
    document["metadata"] = {"name": "c", "namespace": "x"}
    result = load_values(document)
    assert not result.problems
    assert lines(result.warnings) == [
        (
            "ClusterNetworkPolicy c: metadata.namespace: the kind is cluster-wide; "
            "the namespace is ignored"
        ),
        (
            "ClusterNetworkPolicy c: spec.ingres: unknown field, it is ignored; "
            "did you mean 'ingress'?"
        ),
        (
            "ClusterNetworkPolicy c: spec.egress[0].port: unknown field, it is ignored, "
            "which can only make the rule match more; "
            "known: action, name, protocols, to"
        ),
    ]


def test_a_policy_without_spec() -> None:
    document = cluster_policy()
    del document["spec"]
    assert lines(load_values(document).problems) == [
        "ClusterNetworkPolicy c: spec: missing, expected an object with tier, priority and subject"
    ]
