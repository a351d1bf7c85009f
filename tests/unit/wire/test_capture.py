"""Classic pcap: every variant, every way to end early; and agreement with scapy."""

import csv
import struct
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from helpers.capture_bytes import (
    EPOCH,
    MICRO,
    MODIFIED,
    NANO,
    Rec,
    pcap,
    reader,
)
from scapy.utils import PcapWriter, RawPcapReader

from knp_py.errors import CaptureError
from knp_py.wire.capture import read_capture
from knp_py.wire.source import CHUNK, MAX_RECORD, CaptureProblem, Record

RECORDS = [Rec(b"one", EPOCH, 5), Rec(b"", EPOCH, 999_999), Rec(b"three!", EPOCH + 1, 0, 1500)]


def read(data: bytes, *, at_most: int | None = None) -> tuple[list[Record], list[CaptureProblem]]:
    problems: list[CaptureProblem] = []
    return list(read_capture(reader(data, at_most=at_most), on_problem=problems.append)), problems


def sound(data: bytes) -> list[Record]:
    records, problems = read(data)
    assert not problems
    return records


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "unit"), [(MICRO, 1000), (NANO, 1), (MODIFIED, 1000)])
def test_all_variants_give_the_same_records(order: str, magic: int, unit: int) -> None:
    assert sound(pcap(RECORDS, order=order, magic=magic, link=113)) == [
        (EPOCH * 10**9 + 5 * unit, 113, b"one", 3),
        (EPOCH * 10**9 + 999_999 * unit, 113, b"", 0),
        ((EPOCH + 1) * 10**9, 113, b"three!", 1500),
    ]


def test_a_header_alone_is_an_empty_capture() -> None:
    assert sound(pcap([])) == []


def test_frame_check_sequence_bits_are_no_part_of_the_link_type() -> None:
    assert sound(pcap([Rec(b"x")], link=0x2400_0001))[0][1] == 1


def test_times_after_2038_and_beyond_a_second() -> None:
    (record,) = sound(pcap([Rec(b"x", 0xFFFF_FFFF, 1_500_000)]))
    assert record[0] == 0xFFFF_FFFF * 10**9 + 1_500_000_000


@pytest.mark.parametrize("at_most", [1, 7, 23, None])
def test_however_the_input_comes_the_records_are_the_same(at_most: int | None) -> None:
    data = pcap([Rec(bytes([n]) * n) for n in range(200)])
    assert read(data, at_most=at_most) == read(data)
    assert len(read(data)[0]) == 200


def test_records_across_chunks_and_larger_than_one() -> None:
    sizes = [60_000, 10, 200_000, MAX_RECORD, 0, 3, 65_520, 65_536, 70_000]
    records = sound(pcap([Rec(bytes([i]) * size) for i, size in enumerate(sizes)]))
    assert [len(data) for _, _, data, _ in records] == sizes
    assert all(data == bytes([i]) * len(data) for i, (_, _, data, _) in enumerate(records))


@pytest.mark.parametrize("magic", [MICRO, MODIFIED])
def test_every_cut_delivers_what_is_whole_and_names_the_place(magic: int) -> None:
    data = pcap(RECORDS, magic=magic)
    header = 16 if magic == MICRO else 24
    starts = [24]
    for record in RECORDS:
        starts.append(starts[-1] + header + len(record.data))
    for size in range(24, len(data)):
        records, problems = read(data[:size])
        whole = sum(start <= size for start in starts[1:])
        assert len(records) == whole
        if size in starts:
            assert not problems
        else:
            (problem,) = problems
            assert (problem.kind, problem.offset) == ("cut", starts[whole])
            assert f"ends mid-record at byte {size}:" in problem.message


@pytest.mark.parametrize("length", [MAX_RECORD + 1, 0x7FFF_FFFF, 0xFFFF_FFFF])
def test_an_absurd_length_stops_reading_and_holds_nothing(length: int) -> None:
    asked = 0
    good = pcap([Rec(b"good")])
    stream = BytesIO(good + struct.pack("<IIII", 1, 2, length, length))

    def endless(size: int) -> bytes:
        nonlocal asked
        asked += size
        return stream.read(size) or bytes(size)

    problems: list[CaptureProblem] = []
    records = list(read_capture(endless, on_problem=problems.append))
    assert [data for _, _, data, _ in records] == [b"good"]
    assert [(p.kind, p.offset) for p in problems] == [("record length", len(good))]
    assert str(length) in problems[0].message
    assert asked <= 4 * CHUNK


def test_an_absurd_length_is_one_wherever_chunks_happen_to_end() -> None:
    tail = struct.pack("<IIII", 1, 2, MAX_RECORD + 1, 0) + bytes(MAX_RECORD + 1)
    for filler in (0, 1, CHUNK - 60, CHUNK, MAX_RECORD - 1, MAX_RECORD):
        records, problems = read(pcap([Rec(bytes(filler))]) + tail)
        assert len(records) == 1
        assert [p.kind for p in problems] == ["record length"]


def test_without_a_listener_a_problem_is_an_error() -> None:
    records = read_capture(reader(pcap(RECORDS)[:-1]))
    assert next(records)[2] == b"one"
    assert next(records)[2] == b""
    with pytest.raises(CaptureError, match="mid-record"):
        next(records)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "an empty file"),
        (b"\xd4", "data d4"),
        (b"\xd4\xc3\xb2", "data d4 c3 b2"),
        (b"apiVersion: v1\nkind: Pod\n", "text beginning 'apiVersion: v1"),
        (b"\x1f\x8b\x08\x00", "gzip data"),
        (b"\x28\xb5\x2f\xfd....", "zstd data"),
        (b"PK\x03\x04", "a zip archive"),
        (b"snoop\x00\x00\x00\x00\x00", "a Solaris snoop capture"),
        (b"\x00\x01\x02\x03\x04", "data beginning 00 01 02 03"),
    ],
)
def test_what_is_no_capture_is_named(data: bytes, found: str) -> None:
    with pytest.raises(CaptureError, match="expected a pcap or pcapng capture") as caught:
        read_capture(reader(data))
    assert found in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", range(4, 24))
def test_a_cut_file_header_is_an_error(size: int) -> None:
    with pytest.raises(CaptureError, match=f"mid-header: {size} of 24 bytes"):
        list(read_capture(reader(pcap(RECORDS)[:size])))


# Against scapy, which writes and reads the same formats.


def by_scapy(path: Path) -> Iterator[tuple[int | None, int, bytes, int]]:
    """Records as scapy reads them; time None where the file has none."""
    with RawPcapReader(str(path)) as records:
        for data, meta in records:
            if hasattr(meta, "tsresol"):
                ticks = None if meta.tshigh is None else meta.tshigh << 32 | meta.tslow
                time = None if ticks is None else ticks * 10**9 // meta.tsresol
                yield time, meta.linktype, data, meta.wirelen
            else:
                time = meta.sec * 10**9 + meta.usec * (1 if records.nano else 1000)
                yield time, records.linktype, data, meta.wirelen


def assert_like_scapy(path: Path) -> None:
    ours = sound(path.read_bytes())
    theirs = list(by_scapy(path))
    assert len(ours) == len(theirs)
    for (time, link, data, wire), theirs_of_it in zip(ours, theirs, strict=True):
        if theirs_of_it[0] is None:
            # A simple packet block: scapy forgets that interfaces are a section's own, and
            # cuts the packet as an interface of the first one would.
            assert data.startswith(theirs_of_it[2])
            assert (link, wire) == (theirs_of_it[1], theirs_of_it[3])
        else:
            assert (time, link, data, wire) == theirs_of_it


@pytest.mark.parametrize("endianness", ["<", ">"])
@pytest.mark.parametrize("nano", [False, True])
def test_what_scapy_writes(tmp_path: Path, endianness: str, nano: bool) -> None:
    path = tmp_path / "scapy.pcap"
    with PcapWriter(str(path), endianness=endianness, nano=nano, linktype=101) as writer:
        writer.write_header(None)
        for n in range(50):
            writer.write_packet(bytes([n]) * n, sec=EPOCH + n, usec=n * 1000, wirelen=n * 2)
    assert_like_scapy(path)
    assert len(sound(path.read_bytes())) == 50


def index(shared: Path) -> list[dict[str, str]]:
    with (shared / "captures" / "INDEX.tsv").open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_shared_captures_hold_the_packets_their_index_says(shared: Path) -> None:
    rows = index(shared)
    assert len(rows) > 30
    for row in rows:
        records = sound((shared / "captures" / row["file"]).read_bytes())
        assert len(records) == int(row["packets"]), row["file"]
        links = {int(part.split(":")[0]) for part in row["link type"].split("+")}
        assert {link for _, link, _, _ in records} <= links, row["file"]


def test_shared_captures_read_as_scapy_reads_them(shared: Path) -> None:
    for row in index(shared):
        assert_like_scapy(shared / "captures" / row["file"])
