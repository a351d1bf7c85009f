"""klog's entries as klog writes them."""

import json

import pytest

from knp_py.verdicts.klog import from_json, parse_text
from knp_py.verdicts.klogentry import duration, entry, head, pairs, remark

NS = 1_795_984_680_123_456_789  # 2026-11-29T20:38:00.123456789Z


def test_the_header_has_time_and_process() -> None:
    assert head("text", NS, 1) == "I1129 20:38:00.123456       1 "
    assert head("text", NS, 12_345_678) == "I1129 20:38:00.123456 12345678 "
    assert head("json", NS, 1) == '{"ts":1795984680123.456,'
    assert head("json", 5_000, 1) == '{"ts":0.005,'
    assert head("text", 10**24, 1).startswith("I0101 00:00:00.")  # no year has it


def test_an_entry_in_both_formats() -> None:
    fields = [("tier", "Admin"), ("npolicies", 4), ("again", True), ("names", ("a", "b c"))]
    before, after = entry("text", "x/y.go", "Said", fields)
    text = f"{head('text', NS, 7)}{before}303{after}"
    assert text == (
        'I1129 20:38:00.123456       7 y.go:1] "Said" id=303 tier="Admin" npolicies=4 again=true'
        ' names=["a","b\\u0020c"]\n'
    )
    read = parse_text(text.rstrip("\n"), NS)
    assert read is not None
    assert (read.ts, read.caller, read.message) == (NS // 1000 * 1000, "y.go", "Said")
    assert read.fields["names"] == '["a","b\\u0020c"]'
    before, after = entry("json", "x/y.go", "Said", fields, level=0)
    document = json.loads(f"{head('json', NS, 7)}{before}303{after}")
    assert document == {
        "ts": 1795984680123.456,
        "caller": "x/y.go:1",
        "msg": "Said",
        "v": 0,
        "id": 303,
        "tier": "Admin",
        "npolicies": 4,
        "again": True,
        "names": ["a", "b c"],
    }
    line = from_json(document)
    assert line is not None
    assert line.ts == NS // 1000 * 1000


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain/name", '"plain/name"'),
        ('a "b" \\', '"a \\"b\\" \\\\"'),
        ("a\nb\tc\r", '"a\\nb\\tc\\r"'),
        ("\x00\x1b\u2028", '"\\u0000\\u001b\\u2028"'),
        ("\U000e0001", '"\\U000e0001"'),
        ("größe µ", '"größe µ"'),
    ],
)
def test_texts_are_quoted_as_go_does(text: str, quoted: str) -> None:
    assert pairs("text", [("k", text)]) == f" k={quoted}"


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (999, "999ns"),
        (1000, "1µs"),
        (171_516, "171.516µs"),
        (1_500_000, "1.5ms"),
        (999_999_999, "999.999999ms"),
        (1_000_000_000, "1s"),
        (2_050_000_000, "2.05s"),
        (60_500_000_000, "1m0.5s"),
        (3_600_000_000_000, "60m0s"),
    ],
)
def test_durations_are_gos(ns: int, text: str) -> None:
    assert duration(ns) == text


def test_a_remark_is_one_line_of_json() -> None:
    line = remark(NS, "knp agent", 'it says "hello"\nand goes')
    assert line.count("\n") == 1
    assert json.loads(line) == {
        "ts": 1795984680123.456,
        "logger": "knp agent",
        "msg": 'it says "hello"\nand goes',
        "v": 0,
    }
