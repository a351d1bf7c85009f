import msgspec
import pytest

from knp_py.engine.chains import ISOLATED
from knp_py.model.decision import Decision, NameGrant, Ruling, Verdict
from knp_py.model.policy import Direction, Tier
from knp_py.verdicts.read import VerdictEntry
from knp_py.verdicts.record import Candidate, Decider, End, FlowFacts, Omission, record
from knp_py.verdicts.words import (
    connection_text,
    decider_text,
    decision_text,
    end_text,
    omission_text,
    record_text,
    remarks_text,
    ruling_text,
)

ADMIN = Ruling(False, Direction.EGRESS, Tier.ADMIN, "default-deny", 0, "rest", "Deny")
ISOLATES = Ruling(
    False,
    Direction.INGRESS,
    Tier.NETWORK_POLICY,
    "shop/a",
    action="Deny",
    reason=ISOLATED,
    isolated_by=("shop/a", "shop/b"),
)
OWN_NODE = Ruling(
    True, Direction.INGRESS, Tier.NETWORK_POLICY, action="Accept", reason="its own node"
)
CLOSED = Ruling(False, Direction.EGRESS, Tier.BASELINE, "b", 2, None, "Deny", "unknown field")
NOBODY = Ruling(True, Direction.EGRESS, Tier.DEFAULT, action="Accept")
NO_END = Ruling(True, Direction.EGRESS, Tier.DEFAULT, action="Accept", reason="no pod")

RULINGS = [
    (ADMIN, 'egress: Admin default-deny, rule 0 "rest"'),
    (ISOLATES, "ingress: NetworkPolicy shop/a, shop/b: isolates, no rule matches"),
    (OWN_NODE, "ingress: NetworkPolicy: its own node"),
    (CLOSED, "egress: Baseline b, rule 2: unknown field"),
    (NOBODY, "default: no policy decided"),
    (NO_END, "default: no pod"),
]
ENTRY = VerdictEntry(
    ts=None,
    id=1,
    verdict="deny",
    direction="egress",
    src=End("10.244.1.6", 37368, pod="a/b"),
    dst=End("1.2.3.4", 443, names=("x.example", "y.example")),
    family="IPv4",
    protocol="TCP",
    decided_by=Decider("egress", "Admin", "default-deny", 0, "deny-all", "Deny"),
    packets=1,
    bytes=60,
    reason=None,
)


@pytest.mark.parametrize(("ruling", "text"), RULINGS)
def test_a_record_says_what_the_ruling_said(ruling: Ruling, text: str) -> None:
    verdict = Verdict.ALLOW if ruling.allowed else Verdict.DENY
    decision = Decision(verdict, ruling, None, ruling, ruling.reason)
    flow = FlowFacts(id=1, ts_ns=0, src=1, dst=2, protocol=6, sport=1, dport=2)
    assert ruling_text(ruling) == decision_text(decision) == text
    assert record_text(record(decision, flow)) == text
    assert record_text(record(decision, flow), direction=False) == text.partition("gress: ")[
        2
    ] or (text.startswith("default"))


def test_what_a_record_says_besides() -> None:
    decision = Decision(Verdict.DENY, None, ISOLATES, ISOLATES, ISOLATED)
    flow = FlowFacts(id=1, ts_ns=0, src=1, dst=2, protocol=6, sport=1, dport=2, note="a Service")
    assert record_text(record(decision, flow)).endswith("isolates, no rule matches: a Service")


def replaced(**changes: object) -> VerdictEntry:
    return msgspec.structs.replace(ENTRY, **changes)


@pytest.mark.parametrize(
    ("entry", "text", "decider"),
    [
        (replaced(decided_by=None), "not said in the log", "not said in the log"),
        (replaced(decided_by=None, verdict="unknown"), "undecided", "undecided"),
        (replaced(decided_by=None, reason="mid-stream"), "mid-stream", "not said in the log"),
        (replaced(decided_by=Decider("ingress", "Admin")), "ingress: Admin", "Admin"),
        (replaced(decided_by=Decider(None, None), direction=None), "?", "?"),
        (
            replaced(decided_by=Decider("ingress", "Default"), reason="no pod"),
            "default: no pod",
            "default: no pod",
        ),
    ],
)
def test_records_of_others_say_less(entry: VerdictEntry, text: str, decider: str) -> None:
    assert record_text(entry) == text
    assert decider_text(entry) == decider


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (End("10.0.0.1", 53, pod="a/b"), "a/b:53"),
        (End("10.0.0.1", None, pod="a/b"), "a/b"),
        (End("10.0.0.1", 53), "10.0.0.1:53"),
        (End("fd00::1", 53), "[fd00::1]:53"),
        (End("fd00::1"), "fd00::1"),
        (End("fd00::1", 53, node="n1"), "node n1:53"),
        (End(None), "?"),
    ],
)
def test_ends(end: End, text: str) -> None:
    assert end_text(end) == text


def test_connections() -> None:
    assert connection_text(ENTRY) == "a/b:37368 → 1.2.3.4:443 TCP (x.example, y.example)"
    assert connection_text(replaced(dst=End("1.2.3.4")), "->") == "a/b:37368 -> 1.2.3.4 TCP"
    service = replaced(dst=End("10.96.0.1", 80, service="shop/web"))
    assert connection_text(service) == "a/b:37368 → Service shop/web (10.96.0.1:80) TCP"


def test_names_that_opened_the_way_are_part_of_a_decision() -> None:
    grant = NameGrant("*.x.example", "a.x.example", 1, None, 0.0)
    allowed = Ruling(True, Direction.EGRESS, Tier.ADMIN, "names", 1)
    decision = Decision(Verdict.ALLOW, allowed, None, allowed, grants=(grant, grant))
    assert decision_text(decision) == (
        "egress: Admin names, rule 1 (a.x.example matches *.x.example)"
    )
    assert decision_text(Decision(Verdict.UNKNOWN, None, None, None)) == "unknown"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, ""),
        ({"enforced": False}, "dry run: not dropped"),
        ({"enforced": False, "verdict": "allow"}, ""),
        ({"enforced": True, "again": False}, ""),
        ({"again": True}, "judged again"),
        ({"unidentified": ()}, ""),
        (
            {"unidentified": ("10.244.1.9", "fd00::9"), "enforced": False},
            (
                "unidentified: 10.244.1.9, fd00::9 (in a pod network, no known pod's);"
                " dry run: not dropped"
            ),
        ),
        (
            {"shadow": Candidate("allow", Decider("egress", "Default", action="Accept"))},
            "shadow: allow by default: no policy decided",
        ),
        (
            {
                "enforced": False,
                "again": True,
                "shadow": Candidate(
                    "deny", Decider("ingress", "NetworkPolicy", "a/b"), ("a/b", "a/c")
                ),
            },
            (
                "dry run: not dropped; judged again; shadow: deny by ingress:"
                " NetworkPolicy a/b, a/c: isolates, no rule matches"
            ),
        ),
        ({"shadow": Candidate("unknown", None)}, "shadow: unknown by undecided"),
    ],
)
def test_what_a_record_says_besides_its_verdict(changes: dict[str, object], text: str) -> None:
    assert remarks_text(replaced(**changes)) == text


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("limit", "more lines a second than the log may have"),
        ("blocked", "whatever reads the log was too slow"),
        ("cosmic rays", "cosmic rays"),
    ],
)
def test_what_was_left_out_in_words(reason: str, why: str) -> None:
    omission = Omission(ts=None, omitted={"deny": 4, "allow": 123}, seconds=1.0, reason=reason)
    assert omission_text(omission) == f"123 allow, 4 deny left out in 1 s: {why}"
