"""Records as lines that are never too long."""

import pytest
from helpers.builders import address

from knp_py.model.decision import Decision, NameGrant, Ruling, Verdict
from knp_py.model.policy import Direction, Tier
from knp_py.verdicts.bounded import bounded_line, fit, learned_names
from knp_py.verdicts.read import VerdictEntry, parse_record
from knp_py.verdicts.record import FlowFacts, encode, record

LONGEST = 4096
ALLOWS = Ruling(True, Direction.EGRESS, Tier.ADMIN, "names", 1, None, "Accept")
ALLOW = Decision(Verdict.ALLOW, ALLOWS, None, ALLOWS)
FLOW = FlowFacts(0, 1, address("10.244.1.6"), address("1.1.1.1"), 6, 37368, 443, "team-a/agent")
NAMES = tuple(f"{'n' * 60}.{number}.ex" for number in range(4096))
GRANTS = tuple(NameGrant("*.ex", name, FLOW.dst, None, 9.0) for name in NAMES)
BY_NAME = Decision(Verdict.ALLOW, ALLOWS, None, ALLOWS, None, GRANTS)
POLICIES = tuple(f"shop/{'p' * 60}-{number}" for number in range(200))
ISOLATES = Ruling(False, Direction.EGRESS, Tier.NETWORK_POLICY, POLICIES[0], isolated_by=POLICIES)
DENIED = Decision(Verdict.DENY, ISOLATES, None, ISOLATES)


def read(line: bytes) -> VerdictEntry:
    assert len(line) <= LONGEST
    assert line.endswith(b"\n")
    return parse_record(line)


def left_out(names: int, policies: int) -> str:
    return f"{names} names and {policies} isolating policies are left out here"


def test_what_fits_is_the_record() -> None:
    for decision in (ALLOW, Decision(Verdict.ALLOW, ALLOWS, None, ALLOWS, None, GRANTS[:9])):
        line = bounded_line(decision, FLOW, LONGEST, enforced=False, again=True, shadow=ALLOW)
        told = record(decision, FLOW, enforced=False, again=True, shadow=ALLOW)
        assert line == encode(told) + b"\n"


@pytest.mark.parametrize(
    ("decision", "flow"), [(ALLOW, FLOW._replace(names=NAMES)), (BY_NAME, FLOW)]
)
def test_names_are_left_out_from_behind(decision: Decision, flow: FlowFacts) -> None:
    entry = read(bounded_line(decision, flow, LONGEST))
    assert entry.dst.names
    shown = len(entry.dst.names)
    assert entry.dst.names == NAMES[:shown]
    assert entry.reason == left_out(4096 - shown, 0)


def test_isolating_policies_are_left_out_from_behind() -> None:
    entry = read(bounded_line(DENIED, FLOW._replace(note="a Service"), LONGEST))
    assert entry.isolated_by
    shown = len(entry.isolated_by)
    assert entry.isolated_by == POLICIES[:shown]
    assert entry.reason == f"a Service; {left_out(0, 200 - shown)}"


def test_of_the_shadow_too() -> None:
    entry = read(bounded_line(ALLOW, FLOW, LONGEST, shadow=DENIED))
    assert entry.shadow
    assert entry.shadow.isolated_by
    assert entry.reason == left_out(0, 200 - len(entry.shadow.isolated_by))


def test_free_text_goes_last_and_names_of_objects_never() -> None:
    wordy = Ruling(
        True, Direction.EGRESS, Tier.ADMIN, "p" * 253, 0, "\x01" * 2000, "Accept", "why" * 1000
    )
    entry = read(bounded_line(Decision(Verdict.ALLOW, wordy, None, wordy), FLOW, LONGEST))
    assert entry.decided_by
    assert (entry.decided_by.policy, entry.decided_by.rule_name) == ("p" * 253, None)
    assert entry.reason == left_out(0, 0)
    unknown = Decision(Verdict.UNKNOWN, None, None, None, "who knows" * 1000)
    entry = read(bounded_line(unknown, FLOW._replace(note="why" * 2000), LONGEST))
    assert (entry.verdict, entry.src.pod) == ("unknown", "team-a/agent")


def test_learned_names_are_named_once() -> None:
    assert learned_names(BY_NAME) == NAMES
    twice = Decision(Verdict.ALLOW, ALLOWS, None, ALLOWS, None, GRANTS[:1] * 2)
    assert learned_names(twice) == NAMES[:1]


def test_too_many_names_are_not_tried() -> None:
    assert fit(NAMES[:20], LONGEST)
    assert not fit(NAMES, LONGEST)
