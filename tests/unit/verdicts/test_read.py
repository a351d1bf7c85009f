import json

import pytest

from knp_py.verdicts.read import parse_omission, parse_record
from knp_py.verdicts.record import encode

LINE = (
    '{"ts":"2026-11-29T20:38:00.123456Z","id":303,"verdict":"deny","direction":"egress",'
    '"src":{"ip":"10.244.1.6","port":37368,"pod":"a/b"},"dst":{"ip":"172.66.147.243","port":443,'
    '"names":["x.example"]},"family":"IPv4","protocol":"TCP","decided_by":{"direction":"egress",'
    '"tier":"Admin","policy":"p","rule":0,"rule_name":null,"action":"Deny"},"packets":3,'
    '"bytes":180,"reason":null}'
)


def test_what_is_read_is_written_again_as_it_was() -> None:
    assert encode(parse_record(LINE)).decode() == LINE


def test_keys_of_later_versions_are_left_out() -> None:
    later = json.loads(LINE) | {"node": "n1"}
    assert encode(parse_record(json.dumps(later))).decode() == LINE


@pytest.mark.parametrize(
    ("ts", "kept"),
    [
        ("2026-11-29T21:38:00+01:00", "2026-11-29T20:38:00.000000Z"),
        ("2026-11-29T20:38:00.123456789Z", "2026-11-29T20:38:00.123456Z"),
        ("some time ago", None),
        (None, None),
    ],
)
def test_times_are_brought_to_one_form(ts: str | None, kept: str | None) -> None:
    assert parse_record(json.dumps(json.loads(LINE) | {"ts": ts})).ts == kept


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"verdict": "maybe"}, "unknown verdict 'maybe'"),
        ({"verdict": 1}, "verdict"),
        ({"src": None}, "src"),
        ({"dst": {"ip": 7}}, "dst"),
        ({"enforced": "no"}, "enforced"),
        ({"shadow": None}, "shadow"),
        ({"shadow": {"verdict": "maybe", "decided_by": None}}, "unknown verdict 'maybe'"),
    ],
)
def test_what_is_no_record(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_record(json.dumps(json.loads(LINE) | change))


@pytest.mark.parametrize("line", ["", "null", "[]", "{", "[" * 200_000])
def test_what_is_no_json_object(line: str) -> None:
    with pytest.raises(ValueError):
        parse_record(line)


def test_what_the_agent_says_besides_is_read() -> None:
    said = {"enforced": False, "again": True, "shadow": {"verdict": "allow", "decided_by": None}}
    line = LINE[:-1] + "," + json.dumps(said, separators=(",", ":"))[1:]
    assert encode(parse_record(line)).decode() == line


OMISSION = (
    '{"ts":"2026-11-29T20:38:00.123456Z","omitted":{"deny":4},"seconds":1.0,"reason":"limit"}'
)


def test_an_omission_is_written_again_as_it_was() -> None:
    assert encode(parse_omission(OMISSION)).decode() == OMISSION
    other = json.dumps(json.loads(OMISSION) | {"ts": "2026-11-29T21:38:00+01:00"})
    assert parse_omission(other).ts == "2026-11-29T20:38:00.000000Z"
    assert parse_omission(json.dumps(json.loads(OMISSION) | {"ts": "once"})).ts is None


@pytest.mark.parametrize(
    "change", [{"omitted": [4]}, {"omitted": {"deny": "4"}}, {"seconds": "1"}]
)
def test_what_is_no_omission(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        parse_omission(json.dumps(json.loads(OMISSION) | change))
