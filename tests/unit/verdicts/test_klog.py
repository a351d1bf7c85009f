import pytest

from knp_py.verdicts.klog import from_json, has_header, parse_text

NOW = 1_795_984_680_000_000_000  # 2026-11-29T20:38:00Z
HEADER = "I0712 09:53:52.257809       1 logging.go:67] "


def test_an_entry_with_header_message_and_pairs() -> None:
    line = parse_text(
        HEADER + '"Finished syncing packet" id=9 duration="171.516µs" verdict="drop"', NOW
    )
    assert line is not None
    assert line.ts == 1_783_850_032_257_809_000
    assert (line.caller, line.message, line.open) == ("logging.go", "Finished syncing packet", "")
    assert line.fields == {"id": "9", "duration": "171.516µs", "verdict": "drop"}


def test_a_value_of_several_lines_is_announced() -> None:
    line = parse_text('"Evaluating packet" id=9 srcPod="a/b" packet=<', NOW)
    assert line is not None
    assert line.ts is None
    assert (line.open, line.fields) == ("packet", {"id": "9", "srcPod": "a/b"})


@pytest.mark.parametrize(
    ("pairs", "fields"),
    [
        ("err=<nil> n=0", {"err": "<nil>", "n": "0"}),
        ("list=[a b c] n=1", {"list": "[a b c]", "n": "1"}),
        ('object={"a":1,"b":"x y"} n=1', {"object": '{"a":1,"b":"x y"}', "n": "1"}),
        (r'text="say \"hi\" \\ \x41\u00e9\t."', {"text": 'say "hi" \\ A\u00e9\t.'}),
        ('empty= n="="', {"empty": "", "n": "="}),
        (r'bad="\U00ffffff"', {"bad": r"\U00ffffff"}),
    ],
)
def test_values(pairs: str, fields: dict[str, str]) -> None:
    line = parse_text(f'"m" {pairs}', NOW)
    assert line is not None
    assert line.fields == fields


def test_a_header_that_only_says_where() -> None:
    line = parse_text('controller.go:567] "Evaluating packet" id=1', NOW)
    assert line is not None
    assert (line.caller, line.message) == ("controller.go", "Evaluating packet")


@pytest.mark.parametrize("text", [HEADER + "Starting up", "Starting up", "", '"unterminated'])
def test_what_is_no_structured_entry(text: str) -> None:
    assert parse_text(text, NOW) is None


def test_has_header() -> None:
    assert has_header(HEADER + "anything")
    assert not has_header("\t[9] 10.0.0.1:1 10.0.0.2:2 TCP")


def test_json() -> None:
    line = from_json(
        {"ts": 1720777151838.3552, "caller": "networkpolicy/logging.go:67", "msg": "m", "id": 9}
    )
    assert line is not None
    assert line.ts == 1_720_777_151_838_355_000
    assert (line.caller, line.message, line.fields["id"]) == ("logging.go", "m", 9)


@pytest.mark.parametrize("document", [{}, {"msg": 1}, {"message": "m"}])
def test_json_that_is_not_klogs(document: dict[str, object]) -> None:
    assert from_json(document) is None


@pytest.mark.parametrize("ts", [None, "soon", -1, 1e300, True])
def test_json_with_a_strange_time(ts: object) -> None:
    line = from_json({"msg": "m", "ts": ts})
    assert line is not None
    assert line.ts in {None, 1_000_000}  # True is 1 ms to JSON's reader
