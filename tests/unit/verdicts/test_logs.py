import json

import pytest
from helpers.knp_logs import Flow, json_lines, text_lines

from knp_py.verdicts.kube_network_policies import OTHER
from knp_py.verdicts.logs import UNREADABLE, LogReader, read_log
from knp_py.verdicts.read import VerdictEntry
from knp_py.verdicts.record import Omission

NOW = 1_795_984_680_000_000_000  # 2026-11-29T20:38:00Z
RECORD = (
    '{"ts":"2026-11-29T20:38:00.123456Z","id":303,"verdict":"deny","direction":"egress",'
    '"src":{"ip":"10.244.1.6","port":37368,"pod":"a/b"},"dst":{"ip":"172.66.147.243","port":443,'
    '"names":[]},"family":"IPv4","protocol":"TCP","decided_by":null,"packets":3,"bytes":180,'
    '"reason":null}'
)


def read(reader: LogReader, *lines: str) -> list[VerdictEntry]:
    return [entry for line in lines for entry in reader.line(f"{line}\n".encode())]


def test_our_records_and_foreign_entries_may_be_mixed() -> None:
    reader = LogReader(NOW)
    text, js = text_lines(Flow(1)), json_lines(Flow(2))
    entries = read(reader, *text[:5], RECORD, *text[5:], *js)
    assert [entry.id for entry in entries] == [303, 1, 2]
    assert (reader.ours, reader.foreign, reader.counts) == (1, 2, {})


def test_what_could_be_read_is_counted_whatever_it_says() -> None:
    reader = LogReader(NOW)
    read(reader, "", "rubbish", "{", "  ")
    assert (reader.understood, reader.counts) == (0, {UNREADABLE: 2})
    read(reader, '{"msg": "hello"}', RECORD)
    assert (reader.understood, reader.counts) == (2, {UNREADABLE: 2, OTHER: 1})


def test_what_kubectl_puts_in_front_tells_streams_apart() -> None:
    reader = LogReader(NOW)
    prefixes = ["[pod/knp-aaaaa/knp] ", "[pod/knp-bbbbb/knp] "]
    one, two = (
        [prefix + line for line in text_lines(Flow(1, src=f"10.0.0.{n}:1"))]
        for n, prefix in enumerate(prefixes)
    )
    entries = read(reader, *(line for turn in zip(one, two, strict=True) for line in turn))
    assert [(e.source, e.id, e.src.ip) for e in entries] == [
        ("knp-aaaaa/knp", 1, "10.0.0.0"),
        ("knp-bbbbb/knp", 1, "10.0.0.1"),
    ]
    assert reader.counts == {}


@pytest.mark.parametrize(
    "front",
    [
        "2026-11-28T01:02:03.123456789Z ",
        "[pod/x/y] 2026-11-28T01:02:03.123456789Z ",
        "2026-11-28T01:02:03.123456789Z stderr F ",
    ],
)
def test_a_time_in_front_wins_over_one_without_a_year(front: str) -> None:
    (entry,) = read(LogReader(NOW), *(front + line for line in text_lines(Flow(1))))
    assert entry.ts == "2026-11-28T01:02:03.123456Z"


def test_lines_that_a_container_runtime_cut_are_put_together() -> None:
    front = "2026-11-28T01:02:03Z stdout"
    reader = LogReader(NOW)
    assert read(reader, f"{front} P {RECORD[:50]}", f"{front} P {RECORD[50:90]}") == []
    assert len(read(reader, f"{front} F {RECORD[90:]}")) == 1


def test_a_json_file_of_docker() -> None:
    lines = [
        json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-11-28T01:02:03.5Z"})
        for line in [*text_lines(Flow(1)), RECORD]
    ]
    assert [e.id for e in read(LogReader(NOW), *lines)] == [1, 303]


def test_broken_lines_are_counted_and_the_first_is_kept() -> None:
    reader = LogReader(NOW)
    for raw in (b"\xff\xfe\x00rubbish\n", b"{not json}\n", b'{"verdict":"deny","src":1}\n', b"\n"):
        assert reader.line(raw) == []
    assert reader.counts == {UNREADABLE: 3}
    assert reader.first_problem is not None
    assert reader.first_problem.line == 1


def test_json_too_deep_to_read_is_a_broken_line() -> None:
    reader = LogReader(NOW)
    assert reader.line(b'{"a":' * 200_000) == []
    assert reader.counts == {UNREADABLE: 1}


def test_the_middle_of_a_value_is_no_broken_line() -> None:
    reader = LogReader(NOW)
    read(reader, *text_lines(Flow(1), payload=True)[3:])
    assert UNREADABLE not in reader.counts
    read(
        reader,
        'I0712 09:53:52.257809       1 x.go:1] "dump" text=<',
        "\tanything",
        " at all",
        " >",
    )
    assert UNREADABLE not in reader.counts
    assert reader.counts[OTHER] > 0


def test_a_value_that_is_never_closed_ends_with_the_next_entry() -> None:
    reader = LogReader(NOW)
    read(reader, 'I0712 09:53:52.257809       1 x.go:1] "dump" text=<', "\tanything")
    assert len(read(reader, *text_lines(Flow(1)))) == 1
    read(reader, "garbage")
    assert reader.counts[UNREADABLE] == 1


def test_many_streams_do_not_fill_the_memory() -> None:
    reader = LogReader(NOW)
    for number in range(5000):
        reader.line(f'[pod/x-{number}/y] "dump" text=<'.encode())
        reader.line(f"[pod/x-{number}/y] 2026-11-28T01:02:03Z stdout P part".encode())
    assert len(reader._blocks) <= 1024
    assert len(reader._parts) <= 1024


OMISSION = '{"ts":null,"omitted":{"allow":9},"seconds":1.5,"reason":"blocked"}'
LEFT_OUT = Omission(ts=None, omitted={"allow": 9}, seconds=1.5, reason="blocked")


def test_what_was_left_out_is_told_in_its_place() -> None:
    reader = LogReader(NOW)
    lines = [f"{line}\n".encode() for line in (RECORD, OMISSION, RECORD)]
    first, omission, last = read_log(lines, reader)
    assert omission == LEFT_OUT
    assert isinstance(first, VerdictEntry)
    assert first == last
    assert (reader.ours, reader.understood, reader.counts, reader.omissions) == (2, 3, {}, [])


def test_an_omission_keeps_its_stream_and_has_a_form() -> None:
    reader = LogReader(NOW)
    read(reader, f"[pod/knp-a/knp] {OMISSION}", json.dumps({"log": f"{OMISSION}\n"}))
    assert [each.source or "" for each in reader.omissions] == ["knp-a/knp", ""]
    read(reader, '{"omitted":{"allow":"many"},"seconds":1}')
    assert (len(reader.omissions), reader.counts) == (2, {UNREADABLE: 1})
