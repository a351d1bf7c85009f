"""NetworkPolicy: the API server's defaults and every validation, by its own rules."""

import pytest
from helpers.manifests import (
    clean,
    lines,
    load_raw,
    load_text,
    load_values,
    network_policies,
    network_policy,
)

from knp_py.model.net import parse_cidr
from knp_py.model.policy import (
    Direction,
    NamedPort,
    NetworkPeer,
    NetworkPolicy,
    NetworkRule,
    PodPeer,
    PortRange,
    UnknownPeer,
    UnknownPort,
)
from knp_py.model.selectors import EVERYTHING, LabelSelector

EGRESS, INGRESS = Direction.EGRESS, Direction.INGRESS
APP_A = LabelSelector((("app", "a"),))


def policy(spec: object) -> NetworkPolicy:
    """The policy of a spec that has nothing wrong, the same by both ways in."""
    found = network_policies(clean(load_values(network_policy(spec))))["x/p"]
    raw = network_policies(clean(load_raw(network_policy(spec))))["x/p"]
    assert (raw.pods, raw.rules, raw.inert) == (found.pods, found.rules, found.inert)
    return found


def rule(**fields: object) -> NetworkRule:
    """The one ingress rule with these fields."""
    rules = policy({"podSelector": {}, "ingress": [fields]}).rules[INGRESS]
    assert rules is not None
    return rules[0]


def problems(spec: object) -> list[str]:
    """What is wrong with a spec; then nothing is loaded."""
    result = load_values(network_policy(spec))
    assert not result.objects
    return [line.removeprefix("NetworkPolicy x/p: ") for line in lines(result.problems)]


def peer_problems(peer: object) -> list[str]:
    prefix = "spec.ingress[0].from[0]"
    found = problems({"podSelector": {}, "ingress": [{"from": [peer]}]})
    assert all(line.startswith(prefix) for line in found)
    return [line.removeprefix(prefix) for line in found]


def port_problems(port: object) -> list[str]:
    prefix = "spec.ingress[0].ports[0]"
    found = problems({"podSelector": {}, "ingress": [{"ports": [port]}]})
    assert all(line.startswith(prefix) for line in found)
    return [line.removeprefix(prefix) for line in found]


@pytest.mark.parametrize(
    ("spec", "isolated", "inert"),
    [
        ({}, {INGRESS}, ()),
        ({"ingress": []}, {INGRESS}, ()),
        ({"ingress": None}, {INGRESS}, ()),
        ({"ingress": [{}]}, {INGRESS}, ()),
        ({"egress": []}, {INGRESS}, ()),
        ({"egress": None}, {INGRESS}, ()),
        ({"egress": [{}]}, {INGRESS, EGRESS}, ()),
        ({"policyTypes": [], "egress": [{}]}, {INGRESS, EGRESS}, ()),
        ({"policyTypes": None, "egress": [{}]}, {INGRESS, EGRESS}, ()),
        ({"policyTypes": ["Egress"]}, {EGRESS}, ()),
        ({"policyTypes": ["Egress"], "egress": []}, {EGRESS}, ()),
        ({"policyTypes": ["Ingress", "Egress"]}, {INGRESS, EGRESS}, ()),
        ({"policyTypes": ["Ingress", "Ingress"]}, {INGRESS}, ()),
        ({"policyTypes": ["Egress"], "ingress": [{}]}, {EGRESS}, (INGRESS,)),
        ({"policyTypes": ["Ingress"], "egress": [{}]}, {INGRESS}, (EGRESS,)),
        ({"policyTypes": ["Ingress"], "egress": []}, {INGRESS}, ()),
    ],
)
def test_policy_types(
    spec: dict[str, object], isolated: set[Direction], inert: tuple[Direction, ...]
) -> None:
    found = policy({"podSelector": {}, **spec})
    assert {d for d in Direction if found.rules[d] is not None} == isolated
    assert found.inert == inert


def test_an_empty_list_isolates_and_an_empty_rule_opens() -> None:
    assert policy({"podSelector": {}, "ingress": []}).rules[INGRESS] == ()
    assert policy({"podSelector": {}, "ingress": [{}]}).rules[INGRESS] == (NetworkRule(),)


def test_the_subject() -> None:
    assert policy({"podSelector": {}}).pods == EVERYTHING
    assert policy({"podSelector": None}).pods == EVERYTHING  # as the API server has it
    assert policy({"podSelector": {"matchLabels": {"app": "a"}}}).pods == APP_A
    assert problems({}) == [
        (
            "spec.podSelector: missing, expected a label selector "
            "({} selects every pod of the namespace)"
        )
    ]


@pytest.mark.parametrize("empty", [{}, {"from": []}, {"from": None}, {"ports": []}])
def test_empty_lists_of_a_rule_match_everything(empty: dict[str, object]) -> None:
    assert rule(**empty) == NetworkRule(peers=None, ports=None)


def test_peers() -> None:
    pods, namespaces = {"matchLabels": {"app": "a"}}, {"matchLabels": {"team": "t"}}
    team = LabelSelector((("team", "t"),))
    found = rule(
        **{
            "from": [
                {"podSelector": pods},
                {"podSelector": {}},
                {"namespaceSelector": namespaces},
                {"namespaceSelector": {}},
                {"namespaceSelector": namespaces, "podSelector": pods},
                {"podSelector": pods, "namespaceSelector": None},
                {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
                {"ipBlock": {"cidr": "::/0", "except": ["fc00::/7"]}},
            ]
        }
    )
    assert found.peers == (
        PodPeer(pods=APP_A, namespace="x"),
        PodPeer(namespace="x"),
        PodPeer(namespaces=team),
        PodPeer(),
        PodPeer(namespaces=team, pods=APP_A),
        PodPeer(pods=APP_A, namespace="x"),
        NetworkPeer((parse_cidr("10.0.0.0/8"),), (parse_cidr("10.1.0.0/16"),)),
        NetworkPeer((parse_cidr("::/0"),), (parse_cidr("fc00::/7"),)),
    )


def test_ports() -> None:
    found = rule(
        ports=[
            {},
            {"port": 80},
            {"port": "http"},
            {"protocol": "UDP"},
            {"protocol": "SCTP", "port": 1, "endPort": 65535},
            {"protocol": None, "port": None, "endPort": None},
            {"port": 7, "endPort": 7},
        ]
    )
    assert found.ports == (
        PortRange(6),
        PortRange(6, 80, 80),
        NamedPort("http", 6),
        PortRange(17),
        PortRange(132, 1, 65535),
        PortRange(6),
        PortRange(6, 7, 7),
    )


@pytest.mark.parametrize(
    ("port", "what"),
    [
        ({"port": "80"}, ".port: found '80', expected a port name: at most 15 of a-z, 0-9 and "),
        ({"port": 0}, ".port: found the number 0, expected a number from 1 to 65535"),
        ({"port": 65536}, ".port: found the number 65536, expected a number from 1 to 65535"),
        ({"port": -1}, ".port: found the number -1, expected a number from 1 to 65535"),
        ({"port": 1.5}, ".port: found the number 1.5, expected a number from 1 to 65535"),
        ({"port": True}, ".port: found true, expected a port number or a port name"),
        ({"port": [80]}, ".port: found a list, expected a port number or a port name"),
        ({"port": "HTTP"}, ".port: found 'HTTP', expected a port name"),
        ({"port": "a--b"}, ".port: found 'a--b', expected a port name"),
        ({"port": "-a"}, ".port: found '-a', expected a port name"),
        ({"port": "a" * 16}, f".port: found '{'a' * 16}', expected a port name"),
        ({"port": ""}, ".port: found '', expected a port name"),
        ({"protocol": "tcp"}, ".protocol: found 'tcp', expected TCP, UDP or SCTP, did you mean"),
        ({"protocol": "ICMP"}, ".protocol: found 'ICMP', expected TCP, UDP or SCTP"),
        ({"protocol": ""}, ".protocol: found '', expected TCP, UDP or SCTP"),
        ({"protocol": 6}, ".protocol: found the number 6, expected text (put it in quotes)"),
        ({"port": 80, "endPort": 79}, ".endPort: found 79, expected at least port, which is 80"),
        ({"port": 80, "endPort": 0}, ".endPort: found the number 0, expected a number from"),
        ({"port": 80, "endPort": "90"}, ".endPort: found the text '90', expected a number from"),
        ({"port": "http", "endPort": 90}, ".endPort: stands with the named port 'http'"),
        ({"endPort": 90}, ".endPort: stands without port, expected a port number beside it"),
        (80, ": found the number 80, expected an object"),
        (None, ": found null, expected an object"),
    ],
)
def test_bad_ports(port: object, what: str) -> None:
    (found,) = port_problems(port)
    assert found.startswith(what)


@pytest.mark.parametrize(
    ("peer", "what"),
    [
        (
            {"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}},
            ".ipBlock: stands together with podSelector, expected it alone",
        ),
        (
            {"ipBlock": {"cidr": "10.0.0.0/8"}, "namespaceSelector": {}},
            ".ipBlock: stands together with namespaceSelector, expected it alone",
        ),
        ({"ipBlock": {}}, ".ipBlock.cidr: missing, expected a CIDR such as 10.0.0.0/8"),
        ({"ipBlock": {"cidr": ""}}, ".ipBlock.cidr: missing, expected a CIDR"),
        (
            {"ipBlock": {"cidr": "10.0.0.1"}},
            (
                ".ipBlock.cidr: found '10.0.0.1', expected a CIDR such as 10.0.0.0/8, "
                "for one address add /32 or /128"
            ),
        ),
        ({"ipBlock": {"cidr": "10.0.0.0/33"}}, ".ipBlock.cidr: found '10.0.0.0/33', expected"),
        ({"ipBlock": {"cidr": "10.0.0.0/255.0.0.0"}}, ".ipBlock.cidr: found '10.0.0.0/255.0"),
        ({"ipBlock": {"cidr": "10.0.0.0/08"}}, ".ipBlock.cidr: found '10.0.0.0/08', expected"),
        ({"ipBlock": {"cidr": "fe80::%1/64"}}, ".ipBlock.cidr: found 'fe80::%1/64', expected"),
        ({"ipBlock": {"cidr": "example.com/8"}}, ".ipBlock.cidr: found 'example.com/8'"),
        ({"ipBlock": {"cidr": 10}}, ".ipBlock.cidr: found the number 10, expected text"),
        (
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}},
            ".ipBlock.except[0]: found 11.0.0.0/16, expected a network inside 10.0.0.0/8",
        ),
        (
            {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["fd00::/8"]}},
            ".ipBlock.except[0]: found fd00::/8, expected a network inside 0.0.0.0/0",
        ),
        (
            {"ipBlock": {"cidr": "::/0", "except": ["10.0.0.0/8"]}},
            ".ipBlock.except[0]: found 10.0.0.0/8, expected a network inside ::/0",
        ),
        (
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"]}},
            ".ipBlock.except[0]: found 10.0.0.0/8, expected a network inside 10.0.0.0/8",
        ),
        (
            {"ipBlock": {"cidr": "10.0.0.0/16", "except": ["10.0.0.0/8"]}},
            ".ipBlock.except[0]: found 10.0.0.0/8, expected a network inside 10.0.0.0/16",
        ),
        (
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.1"]}},
            ".ipBlock.except[0]: found '10.0.0.1', expected a CIDR",
        ),
        (
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": "10.0.0.0/9"}},
            ".ipBlock.except: found the text '10.0.0.0/9', expected a list",
        ),
        ({"podSelector": "app=a"}, ".podSelector: found the text 'app=a', expected an object"),
        ({"podSelector": []}, ".podSelector: found a list, expected an object"),
        ("everyone", ": found the text 'everyone', expected an object"),
        (None, ": found null, expected an object"),
    ],
)
def test_bad_peers(peer: object, what: str) -> None:
    (found,) = peer_problems(peer)
    assert found.startswith(what)


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ("all", "spec: found the text 'all', expected an object"),
        (None, "spec: missing, expected an object with a podSelector"),
        ({"podSelector": {}, "ingress": {}}, "spec.ingress: found an object, expected a list"),
        ({"podSelector": {}, "ingress": [[]]}, "spec.ingress[0]: found a list, expected an"),
        (
            {"podSelector": {}, "ingress": [{"from": {}}]},
            "spec.ingress[0].from: found an object, expected a list",
        ),
        (
            {"podSelector": {}, "egress": [{"ports": 80}]},
            "spec.egress[0].ports: found the number 80, expected a list",
        ),
        (
            {"podSelector": {}, "policyTypes": ["ingress"]},
            "spec.policyTypes[0]: found 'ingress', expected Ingress or Egress, did you mean",
        ),
        (
            {"podSelector": {}, "policyTypes": "Ingress"},
            "spec.policyTypes: found the text 'Ingress', expected a list",
        ),
        (
            {"podSelector": {}, "policyTypes": ["Ingress", "Egress", "Ingress"]},
            "spec.policyTypes: found 3 items, expected at most 2",
        ),
        (
            {"podSelector": {}, "policyTypes": [1]},
            "spec.policyTypes[0]: found the number 1, expected text",
        ),
    ],
)
def test_bad_specs(spec: object, what: str) -> None:
    (found,) = problems(spec)
    assert found.startswith(what)


def test_all_problems_are_reported() -> None:
    spec = {
        "podSelector": {"matchLabels": {"app": 1}},
        "policyTypes": ["All"],
        "egress": [{"to": [{"ipBlock": {"cidr": "x"}}], "ports": [{"port": 0}, {"port": "X"}]}],
    }
    assert len(problems(spec)) == 5


def test_unknown_peers_and_ports_are_kept_with_a_warning() -> None:
    spec = {
        "podSelector": {},
        "ingress": [
            {"from": [{}, {"podSelectors": {}}, {"podSelector": None}], "ports": [{"ports": 1}]}
        ],
    }
    result = load_values(network_policy(spec))
    assert not result.problems
    assert lines(result.warnings) == [
        (
            "NetworkPolicy x/p: spec.ingress[0].from[0]: empty peer: it matches nothing; "
            "expected podSelector, namespaceSelector or ipBlock"
        ),
        (
            "NetworkPolicy x/p: spec.ingress[0].from[1]: unknown field podSelectors: "
            "it matches nothing; did you mean 'podSelector'?"
        ),
        (
            "NetworkPolicy x/p: spec.ingress[0].from[2]: empty peer: it matches nothing; "
            "expected podSelector, namespaceSelector or ipBlock"
        ),
        (
            "NetworkPolicy x/p: spec.ingress[0].ports[0]: unknown field ports: "
            "it matches nothing; did you mean 'port'?"
        ),
    ]
    rules = network_policies(result)["x/p"].rules[INGRESS]
    assert rules == (
        NetworkRule(
            peers=(UnknownPeer(), UnknownPeer(("podSelectors",)), UnknownPeer()),
            ports=(UnknownPort(("ports",)),),
        ),
    )


def test_unknown_fields_are_named_and_left_out() -> None:
    result = load_text("""
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata: {name: p, namespace: x, lables: {}}
        specs: {}
        spec:
          podSelector: {matchLabel: {a: b}}
          policyType: [Ingress]
          ingress:
          - from: [{podSelector: {}, podselector: {}}]
            to: []
            ports: [{port: 80, endport: 90}]
          - form: []
        """)
    assert not result.problems
    assert lines(result.warnings) == [
        "NetworkPolicy x/p: metadata.lables: unknown field, it is ignored; did you mean 'labels'?",
        "NetworkPolicy x/p: specs: unknown field, it is ignored; did you mean 'spec'?",
        (
            "NetworkPolicy x/p: spec.policyType: unknown field, it is ignored; "
            "did you mean 'policyTypes'?"
        ),
        (
            "NetworkPolicy x/p: spec.ingress[0].to: unknown field, it is ignored, which can only "
            "make the rule match more; known: from, ports"
        ),
        (
            "NetworkPolicy x/p: spec.ingress[0].from[0].podselector: unknown field, "
            "it is ignored, which can only make the rule match more; did you mean 'podSelector'?"
        ),
        (
            "NetworkPolicy x/p: spec.ingress[0].ports[0].endport: unknown field, it is ignored; "
            "did you mean 'endPort'?"
        ),
        (
            "NetworkPolicy x/p: spec.ingress[1].form: unknown field, it is ignored, which leaves "
            "a rule that allows everything; did you mean 'from'?"
        ),
        (
            "NetworkPolicy x/p: spec.podSelector.matchLabel: unknown field, it is ignored; "
            "did you mean 'matchLabels'?"
        ),
    ]


def test_leading_zeros_are_read_as_the_api_server_does() -> None:
    spec = {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "010.0.0.0/8"}}]}]}
    result = load_values(network_policy(spec))
    assert lines(result.warnings) == [
        (
            "NetworkPolicy x/p: spec.ingress[0].from[0].ipBlock.cidr: "
            "010.0.0.0/8 has leading zeros; it is read as 10.0.0.0/8"
        )
    ]
    rules = network_policies(result)["x/p"].rules[INGRESS]
    assert rules is not None
    assert rules[0].peers == (NetworkPeer((parse_cidr("10.0.0.0/8"),)),)


def test_names_and_namespaces() -> None:
    document = network_policy({"podSelector": {}})
    document["metadata"] = {"name": "a.b-c"}
    assert set(network_policies(clean(load_values(document)))) == {"default/a.b-c"}
    document["metadata"] = {"name": "a", "namespace": ""}
    assert set(network_policies(clean(load_values(document)))) == {"default/a"}
    for metadata, what in [
        ({"name": "A"}, "NetworkPolicy default/A: metadata.name: found 'A', expected a DNS name"),
        ({"name": "a" * 254}, "metadata.name: found 'aaa"),
        ({"name": ""}, "NetworkPolicy: metadata.name: missing, expected the object's name"),
        ({"name": 7}, "NetworkPolicy: metadata.name: found the number 7, expected text"),
        ({}, "NetworkPolicy: metadata.name: missing, expected the object's name"),
        (None, "NetworkPolicy: metadata: missing, expected an object with a name"),
        ("p", "NetworkPolicy: metadata: found the text 'p', expected an object"),
        (
            {"name": "a", "namespace": "a.b"},
            "NetworkPolicy a.b/a: metadata.namespace: found 'a.b', expected a DNS label",
        ),
        (
            {"name": "a", "labels": {"k": 1}},
            "NetworkPolicy default/a: metadata.labels[k]: found the number 1, expected text",
        ),
        (
            {"name": "a", "annotations": {"k": True}},
            "NetworkPolicy default/a: metadata.annotations[k]: found true, expected text",
        ),
    ]:
        (line,) = lines(load_values({**document, "metadata": metadata}).problems)
        assert what in line


def test_repeated_keys_in_json_are_an_error() -> None:
    text = (
        '{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", '
        '"metadata": {"name": "p"}, "spec": {"podSelector": {}, "egress": [{}], "egress": []}}'
    )
    result = load_text(text, "m.json")
    assert lines(result.problems) == [
        "NetworkPolicy default/p: the key 'egress' stands twice in one object"
    ]
    assert not result.objects
