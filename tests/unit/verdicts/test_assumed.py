from collections.abc import Sequence

import msgspec
import pytest
from helpers.builders import (
    accept,
    allow,
    cnp,
    deny,
    ip_block,
    namespaces,
    netpol,
    networks,
    own_pods,
    packet,
    pass_on,
    pod,
    select,
    tcp,
)
from helpers.builders import namespace as ns
from helpers.judging import engine_of

from knp_py.model.policy import Policy, Tier
from knp_py.verdicts.assumed import made_up_notes

WEB = pod("shop/web", "10.0.0.1", labels={"app": "web"})
DB = msgspec.structs.replace(pod("shop/db", "10.210.0.2", labels={"app": "db"}), made_up=True)
WEB_ONLY = select({"app": "web"})
DB_ONLY = select({"app": "db"})
EVERYTHING = networks("0.0.0.0/0", "::/0")


def notes(*policies: Policy, src: object = WEB, dst: object = DB, port: int = 80) -> list[str]:
    engine = engine_of([ns("shop"), WEB, DB, *policies])
    asked = packet(src, dst, port)  # type: ignore[arg-type]
    return made_up_notes(engine.snapshot, asked, engine.evaluate(asked, now=0.0))


def judged(rules: Sequence[str]) -> list[str]:
    return [
        "the address of shop/db is made up, and rules about networks judge it: " + "; ".join(rules)
    ]


def test_nothing_is_said_where_no_rule_looks_at_addresses() -> None:
    assert notes() == []
    assert notes(cnp("all", egress=[deny(EVERYTHING)])) == []
    assert notes(netpol("shop/np", WEB_ONLY, egress=[allow(own_pods(DB_ONLY))])) == []
    assert notes(netpol("shop/np", WEB_ONLY, egress=[allow()])) == []


def test_a_network_that_decided_or_might_have() -> None:
    some = cnp("some", egress=[accept(networks("10.0.0.0/8"), name="ten")])
    assert notes(some) == judged(['egress: Admin some, rule 0 "ten"'])
    other = cnp("other", egress=[accept(networks("192.168.0.0/16")), deny(namespaces())])
    assert notes(other) == judged(["egress: Admin other, rule 0"])
    hole = netpol("shop/np", WEB_ONLY, egress=[allow(ip_block("0.0.0.0/0", "10.210.0.0/16"))])
    assert notes(hole) == judged(["egress: NetworkPolicy shop/np, rule 0"])


def test_rules_that_are_not_reached_do_not_matter() -> None:
    decided = cnp("a", egress=[accept(namespaces()), deny(networks("10.0.0.0/8"))])
    below = netpol("shop/np", WEB_ONLY, egress=[allow(networks("10.0.0.0/8"))])
    assert notes(decided, below) == []
    passed = cnp("a", egress=[pass_on(namespaces())])
    assert notes(passed, below) == judged(["egress: NetworkPolicy shop/np, rule 0"])
    baseline = cnp("b", Tier.BASELINE, egress=[deny(networks("10.0.0.0/8"))])
    assert notes(baseline) == judged(["egress: Baseline b, rule 0"])
    assert notes(below, baseline) == judged(["egress: NetworkPolicy shop/np, rule 0"])


def test_rules_that_match_anyway_or_never_do_not_matter() -> None:
    anyway = cnp("a", egress=[accept(networks("10.0.0.0/8"), namespaces())])
    assert notes(anyway) == []
    ports = cnp("a", egress=[accept(networks("10.0.0.0/8"), ports=[tcp(443)])])
    assert notes(ports) == []
    assert notes(ports, port=443) == judged(["egress: Admin a, rule 0"])
    six = cnp("a", egress=[accept(networks("fd00::/8"))])
    assert notes(six) == []


def test_a_union_that_allows_stays_so_whatever_else_matches() -> None:
    union = netpol("shop/np", WEB_ONLY, egress=[allow(own_pods()), allow(networks("10.0.0.0/8"))])
    assert notes(union) == []


def test_ingress_is_about_the_source() -> None:
    policy = netpol("shop/np", WEB_ONLY, ingress=[allow(ip_block("10.0.0.0/8"))])
    assert notes(policy, src=DB, dst=WEB) == judged(["ingress: NetworkPolicy shop/np, rule 0"])
    assert notes(policy) == []
    assert notes(policy, src=DB, dst=DB) == []
    assert notes(policy, src="203.0.113.9", dst=WEB) == []


@pytest.mark.parametrize("count", [3, 5])
def test_only_the_first_rules_are_named(count: int) -> None:
    rules = [accept(networks(f"192.168.{n}.0/24")) for n in range(count)]
    (note,) = notes(cnp("a", egress=rules))
    assert note.count("Admin a, rule") == 3
    assert note.endswith("; ...") is (count > 3)
