import json

import msgspec
import pytest
from helpers.builders import address
from msgspec import UNSET

from knp_py.model.decision import Decision, NameGrant, Ruling, Verdict
from knp_py.model.packet import Proto
from knp_py.model.policy import Direction, Tier
from knp_py.verdicts.record import (
    Answer,
    End,
    FlowFacts,
    Omission,
    answer,
    as_dict,
    decider,
    direction_answer,
    encode,
    record,
)

DENY = Ruling(
    False, Direction.EGRESS, Tier.ADMIN, "default-deny", 0, "deny-everything-else", "Deny"
)
ISOLATED = Ruling(
    False,
    Direction.INGRESS,
    Tier.NETWORK_POLICY,
    action="Deny",
    reason="no rule of the policies that isolate it matches",
    isolated_by=("shop/deny", "shop/web"),
)
ACCEPT = Ruling(True, Direction.EGRESS, Tier.NETWORK_POLICY, "shop/web", 2, None, "Accept")
DEFAULT = Ruling(True, Direction.EGRESS, Tier.DEFAULT, action="Accept")

FLOW = FlowFacts(
    ts_ns=1_795_984_680_123_456_000,
    id=303,
    src=address("10.244.1.6"),
    dst=address("172.66.147.243"),
    protocol=Proto.TCP,
    sport=37368,
    dport=443,
    src_pod="sandbox-team-a/agent",
    packets=3,
    octets=180,
)


def test_a_record_is_the_contracts_to_the_letter() -> None:
    decision = Decision(Verdict.DENY, DENY, None, DENY)
    assert encode(record(decision, FLOW)).decode() == (
        '{"ts":"2026-11-29T20:38:00.123456Z","id":303,"verdict":"deny","direction":"egress",'
        '"src":{"ip":"10.244.1.6","port":37368,"pod":"sandbox-team-a/agent"},'
        '"dst":{"ip":"172.66.147.243","port":443,"names":[]},'
        '"family":"IPv4","protocol":"TCP",'
        '"decided_by":{"direction":"egress","tier":"Admin","policy":"default-deny","rule":0,'
        '"rule_name":"deny-everything-else","action":"Deny"},'
        '"packets":3,"bytes":180,"reason":null}'
    )


def test_an_answer_is_the_contracts_to_the_letter() -> None:
    decision = Decision(Verdict.DENY, DENY, None, DENY)
    result = answer(
        decision,
        id="p1",
        source=End("10.244.1.6", pod="a/client"),
        destination=End("10.0.0.7"),
        protocol="TCP",
        port=443,
    )
    rule = (
        '"direction":"egress","tier":"Admin","policy":"default-deny","rule":0,'
        '"rule_name":"deny-everything-else","action":"Deny"'
    )
    assert encode(result).decode() == (
        '{"id":"p1","verdict":"deny","from":{"ip":"10.244.1.6","pod":"a/client"},'
        '"to":{"ip":"10.0.0.7"},"protocol":"TCP","port":443,'
        f'"decided_by":{{{rule}}},"egress":{{{rule},"allowed":false}},"ingress":null}}'
    )


def test_isolation_names_the_policies_and_the_reason() -> None:
    document = msgspec.to_builtins(direction_answer(ISOLATED))
    assert document == {
        "direction": "ingress",
        "tier": "NetworkPolicy",
        "policy": None,
        "rule": None,
        "rule_name": None,
        "action": "Deny",
        "allowed": False,
        "reason": "no rule of the policies that isolate it matches",
        "isolated_by": ("shop/deny", "shop/web"),
    }
    denied = as_dict(record(Decision(Verdict.DENY, ACCEPT, ISOLATED, ISOLATED), FLOW))
    assert denied["reason"] == ISOLATED.reason
    assert denied["isolated_by"] == ["shop/deny", "shop/web"]
    assert denied["direction"] == "ingress"


@pytest.mark.parametrize(
    ("ruling", "document"),
    [
        (ACCEPT, ("egress", "NetworkPolicy", "shop/web", 2, None, "Accept")),
        (DEFAULT, ("egress", "Default", None, None, None, "Accept")),
    ],
)
def test_decided_by_has_six_keys(ruling: Ruling, document: tuple[object, ...]) -> None:
    assert msgspec.structs.astuple(decider(ruling)) == document


def test_an_undecided_connection_has_no_direction() -> None:
    decision = Decision(Verdict.UNKNOWN, None, None, None, "midstream")
    document = as_dict(record(decision, FLOW))
    assert (document["verdict"], document["direction"]) == ("unknown", None)
    assert (document["decided_by"], document["reason"]) == (None, "midstream")


def test_names_are_those_learned_or_those_that_opened_the_way() -> None:
    grant = NameGrant("*.github.com", "api.github.com", FLOW.dst, None, 1.0)
    decision = Decision(Verdict.ALLOW, ACCEPT, None, ACCEPT, None, (grant, grant))
    assert as_dict(record(decision, FLOW))["dst"]["names"] == ["api.github.com"]
    learned = FLOW._replace(names=("github.com", "example.com"))
    assert as_dict(record(decision, learned))["dst"]["names"] == ["github.com", "example.com"]


@pytest.mark.parametrize("protocol", [Proto.ICMP, Proto.ICMPV6, Proto.UNKNOWN, 47])
def test_what_has_no_ports_has_null_for_them(protocol: int) -> None:
    document = as_dict(
        record(Decision(Verdict.ALLOW, None, None, None), FLOW._replace(protocol=protocol))
    )
    assert (document["src"]["port"], document["dst"]["port"]) == (None, None)


def test_family_and_addresses_of_ipv6() -> None:
    flow = FLOW._replace(src=address("fd00::1"), dst=address("2001:db8:0:0::2"))
    document = as_dict(record(Decision(Verdict.ALLOW, None, None, None), flow))
    assert document["family"] == "IPv6"
    assert (document["src"]["ip"], document["dst"]["ip"]) == ("fd00::1", "2001:db8::2")


def test_unidentified_addresses_are_said() -> None:
    decision = Decision(Verdict.ALLOW, None, None, None, unidentified=(address("10.244.9.9"),))
    assert as_dict(record(decision, FLOW))["unidentified"] == ["10.244.9.9"]


def test_what_does_not_apply_is_not_in_the_document() -> None:
    decision = Decision(Verdict.ALLOW, DEFAULT, None, DEFAULT)
    result = answer(
        decision,
        id=UNSET,
        source=End("10.0.0.1"),
        destination=End("10.0.0.2"),
        protocol="ICMP",
        port=None,
    )
    assert isinstance(result, Answer)
    document = json.loads(encode(result))
    assert list(document) == [
        "verdict", "from", "to", "protocol", "port", "decided_by", "egress", "ingress",
    ]  # fmt: skip
    assert document["port"] is None


def test_what_only_the_agent_says_comes_last() -> None:
    isolated = Decision(Verdict.DENY, ACCEPT, ISOLATED, ISOLATED)
    told = record(
        Decision(Verdict.ALLOW, ACCEPT, None, ACCEPT),
        FLOW,
        enforced=False,
        again=True,
        shadow=isolated,
    )
    assert encode(told).decode().partition('"reason":null,')[2] == (
        '"enforced":false,"again":true,"shadow":{"verdict":"deny","decided_by":{'
        '"direction":"ingress","tier":"NetworkPolicy","policy":null,"rule":null,"rule_name":null,'
        '"action":"Deny"},"isolated_by":["shop/deny","shop/web"]}}'
    )


def test_an_ordinary_record_has_none_of_it() -> None:
    decision = Decision(Verdict.DENY, DENY, None, DENY)
    plain = as_dict(record(decision, FLOW))
    assert not plain.keys() & {"enforced", "again", "shadow"}
    undecided = Decision(Verdict.UNKNOWN, None, None, None, "midstream")
    shadow = as_dict(record(decision, FLOW, shadow=undecided))["shadow"]
    assert shadow == {"verdict": "unknown", "decided_by": None}


def test_an_omission_to_the_letter() -> None:
    omission = Omission(ts=None, omitted={"allow": 123, "deny": 4}, seconds=1.0, reason="limit")
    assert encode(omission) == (
        b'{"ts":null,"omitted":{"allow":123,"deny":4},"seconds":1.0,"reason":"limit"}'
    )
