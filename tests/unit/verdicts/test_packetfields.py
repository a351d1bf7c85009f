"""What is added to the entries of kube-network-policies, read back; what is odd is left out."""

import msgspec
import pytest

from knp_py.verdicts.klog import LogLine
from knp_py.verdicts.logs import LogReader
from knp_py.verdicts.packetfields import left_out, told
from knp_py.verdicts.record import Decider, End, Record

ENTRY = Record(
    ts=None,
    id=1,
    verdict="deny",
    direction="egress",
    src=End("10.0.0.1", 1),
    dst=End("10.0.0.2", 2, names=()),
    family="IPv4",
    protocol="TCP",
    decided_by=Decider("egress", "NetworkPolicy", action="Deny"),
    packets=None,
    bytes=None,
    reason=None,
)


def test_nothing_is_added_where_nothing_is_said() -> None:
    assert told(ENTRY, {"id": "1"}) is ENTRY
    assert told(ENTRY, {"decidedIn": "Egress"}) is ENTRY


def test_who_decided_is_what_the_entry_says() -> None:
    fields = {"decidedIn": "Egress", "decidedTier": "Admin", "policy": "p", "rule": "3"}
    assert told(ENTRY, fields).decided_by == Decider("egress", "Admin", "p", 3, None, "Deny")


@pytest.mark.parametrize(
    ("name", "value"),
    [("names", "[1]"), ("names", '["x'), ("names", [1]), ("names", 7), ("names", "[" * 5000)],
)
def test_a_list_that_is_none_is_none(name: str, value: object) -> None:
    assert told(ENTRY, {name: value}) == ENTRY


@pytest.mark.parametrize("rule", ["x", "-1", "", "9" * 30, True, -1, 1 << 62, 1.5])
def test_a_rule_that_is_no_number_is_none(rule: object) -> None:
    fields = {"decidedIn": "Egress", "decidedTier": "Admin", "rule": rule}
    decider = told(ENTRY, fields).decided_by
    assert decider is not None
    assert decider.rule is None


def test_both_ways_to_write_a_list() -> None:
    for value in ('["a","b"]', ["a", "b"]):
        entry = told(ENTRY, {"isolatedBy": value, "names": value})
        assert (entry.isolated_by, entry.dst.names) == (("a", "b"), ("a", "b"))


def test_omissions_that_make_no_sense_still_say_that_something_is_missing() -> None:
    line = LogLine(None, "", "Packets left out of the log", {"deny": -3, "seconds": "soon"})
    omission = left_out(line)
    assert omission is not None
    assert (omission.omitted, omission.seconds, omission.reason) == ({}, 0.0, "limit")
    nan = left_out(line._replace(fields={"seconds": "nan", "allow": 2}))
    assert nan is not None
    assert (nan.omitted, nan.seconds) == ({"allow": 2}, 0.0)
    assert left_out(line._replace(message="Evaluating packet")) is None


def test_what_the_agent_says_of_itself_is_no_broken_line() -> None:
    reader = LogReader(0)
    assert reader.line(b"knp agent: enforcing for every pod\n") == []
    assert reader.line(b'{"ts":1.5,"logger":"knp agent","msg":"enforcing","v":0}\n') == []
    assert reader.first_problem is None
    assert reader.understood == 2


def test_a_stream_is_named() -> None:
    line = (
        b'[pod/knp-1/knp] I1129 20:38:00.123456 1 controller.go:1] "Packets left out of the log"'
    )
    reader = LogReader(0)
    reader.line(line + b' deny=1 seconds=1 reason="limit"\n')
    assert [msgspec.structs.asdict(each)["source"] for each in reader.omissions] == ["knp-1/knp"]
