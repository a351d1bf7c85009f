"""pcapng: byte orders, sections, interfaces, clocks, packet blocks, and all that can be wrong."""

import struct
from pathlib import Path

import pytest
from helpers.capture_bytes import (
    EPOCH,
    block,
    enhanced,
    interface,
    obsolete,
    option,
    reader,
    section,
    simple,
)
from scapy.layers.l2 import Ether
from scapy.utils import PcapNgWriter, RawPcapNgReader

from knp_py.errors import CaptureError
from knp_py.wire.capture import read_capture
from knp_py.wire.source import CHUNK, MAX_RECORD, CaptureProblem, Record

NOW = EPOCH * 10**9
TSRESOL, TSOFFSET = 9, 14


def read(*parts: bytes, at_most: int | None = None) -> tuple[list[Record], list[CaptureProblem]]:
    problems: list[CaptureProblem] = []
    records = read_capture(reader(b"".join(parts), at_most=at_most), on_problem=problems.append)
    return list(records), problems


def sound(*parts: bytes) -> list[Record]:
    records, problems = read(*parts)
    assert not problems
    return records


def payloads(*parts: bytes) -> list[bytes]:
    return [data for _, _, data, _ in sound(*parts)]


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_three_packet_blocks(order: str) -> None:
    ticks = EPOCH * 10**6 + 7
    assert sound(
        section(order=order),
        interface(1, order=order),
        interface(101, order=order),
        enhanced(b"first", ticks=ticks, number=1, wire_length=99, order=order),
        simple(b"second", order=order),
        obsolete(b"third", ticks=ticks + 1, number=1, order=order),
        enhanced(b"fourth", ticks=ticks + 2, order=order, options=option(1, b"why", order=order)),
    ) == [
        (NOW + 7000, 101, b"first", 99),
        (NOW + 7000, 1, b"second", 6),
        (NOW + 8000, 101, b"third", 5),
        (NOW + 9000, 1, b"fourth", 6),
    ]


@pytest.mark.parametrize(
    ("resolution", "ticks", "time"),
    [
        (0, EPOCH, NOW),
        (3, EPOCH * 10**3 + 1, NOW + 1_000_000),
        (6, EPOCH * 10**6 + 1, NOW + 1000),
        (9, NOW + 1, NOW + 1),
        (12, 5 * 10**12 + 1999, 5 * 10**9 + 1),
        (0x80 | 10, EPOCH * 1024 + 512, NOW + 500_000_000),
        (0x80 | 20, (EPOCH << 20) + 1, NOW + 953),
        (0x80, EPOCH, NOW),
        (0xFF, 1 << 63, 0),
        (127, 1 << 63, 0),
    ],
)
def test_clock_resolutions(resolution: int, ticks: int, time: int) -> None:
    options = option(2, b"eth0") + option(TSRESOL, bytes([resolution])) + option(0, b"")
    assert sound(section(), interface(options=options), enhanced(b"x", ticks=ticks))[0][0] == time


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_clock_offset_is_in_seconds_and_signed(order: str) -> None:
    for offset in (-3, 1000):
        options = option(TSOFFSET, struct.pack(order + "q", offset), order=order)
        (record,) = sound(
            section(order=order),
            interface(options=options, order=order),
            enhanced(b"x", order=order),
        )
        assert record[0] == NOW + offset * 10**9


def test_interfaces_have_their_own_link_type_and_clock() -> None:
    nano = interface(113, options=option(TSRESOL, b"\x09"))
    records = sound(
        section(), interface(1), nano, enhanced(b"a"), enhanced(b"b", ticks=NOW + 5, number=1)
    )
    assert [(time, link) for time, link, _, _ in records] == [(NOW, 1), (NOW + 5, 113)]


def test_a_section_begins_with_no_interfaces_and_its_own_byte_order() -> None:
    records, problems = read(
        section(order="<"),
        interface(1),
        enhanced(b"a"),
        section(order=">"),
        enhanced(b"lost", order=">"),
        interface(101, order=">"),
        enhanced(b"b", order=">"),
        section(order="<"),
        interface(228),
        enhanced(b"c"),
    )
    assert [(link, data) for _, link, data, _ in records] == [(1, b"a"), (101, b"b"), (228, b"c")]
    assert [p.kind for p in problems] == ["unknown interface"]


def test_a_simple_packet_is_as_long_as_its_interface_captures() -> None:
    whole = simple(b"12345678", wire_length=5)
    assert payloads(section(), interface(), whole) == [b"12345"]
    assert payloads(section(), interface(snaplen=3), whole) == [b"123"]
    cut = simple(b"12345678", wire_length=1500)
    assert sound(section(), interface(), cut) == [(0, 1, b"12345678", 1500)]


@pytest.mark.parametrize("size", [0, 4, 1000, CHUNK, 3 * CHUNK + 8])
@pytest.mark.parametrize("kind", [4, 5, 10, 0xBAD, 0x40000BAD, 0x8000_0001])
def test_other_blocks_are_stepped_over(kind: int, size: int) -> None:
    other = block(kind, bytes(size))
    parts = (section(), interface(), enhanced(b"a"), other, other, enhanced(b"b"), other)
    assert payloads(*parts) == [b"a", b"b"]
    assert read(*parts, at_most=1000) == read(*parts)


def test_a_huge_block_of_another_kind_is_stepped_over_without_being_held() -> None:
    head = section() + interface() + struct.pack("<II", 0xBAD, 1 << 31)
    left = 1 << 31
    asked: set[int] = set()

    def endless(size: int) -> bytes:
        nonlocal head, left
        asked.add(size)
        part, head = head[:size], head[size:]
        if not part and left > 0:
            part = bytes(min(size, left))
        left -= len(part)
        return part

    problems: list[CaptureProblem] = []
    assert not list(read_capture(endless, on_problem=problems.append))
    assert [p.kind for p in problems] == ["cut"]
    assert max(asked) <= CHUNK


@pytest.mark.parametrize("at_most", [1, 5, 31, None])
def test_however_the_input_comes_the_records_are_the_same(at_most: int | None) -> None:
    parts = [section(), interface(), *(enhanced(bytes([n]) * n) for n in range(200))]
    assert read(*parts, at_most=at_most) == read(*parts)
    assert len(read(*parts)[0]) == 200


def test_packets_across_chunks_and_larger_than_one() -> None:
    sizes = [60_000, 10, MAX_RECORD, 0, 65_500, 65_536]
    packets = [enhanced(bytes([i]) * size) for i, size in enumerate(sizes)]
    found = payloads(section(), interface(), *packets)
    assert found == [bytes([i]) * size for i, size in enumerate(sizes)]


def test_every_cut_delivers_what_is_whole_and_names_the_place() -> None:
    blocks = [section(), interface(), enhanced(b"a" * 5), block(5, bytes(20)), obsolete(b"b")]
    data = b"".join(blocks)
    starts = [sum(map(len, blocks[:n])) for n in range(len(blocks) + 1)]
    for size in range(len(blocks[0]), len(data)):
        records, problems = read(data[:size])
        whole = sum(start <= size for start in starts[1:])
        assert len(records) == (whole >= 3)
        if size in starts:
            assert not problems
        else:
            (problem,) = problems
            assert (problem.kind, problem.offset) == ("cut", starts[whole])
            assert f"ends mid-block at byte {size}:" in problem.message


@pytest.mark.parametrize("size", range(4, 28))
def test_a_cut_first_section_header_is_an_error(size: int) -> None:
    with pytest.raises(CaptureError, match="mid-header"):
        list(read_capture(reader(section()[:size])))


def test_a_first_section_of_no_byte_order_is_an_error() -> None:
    with pytest.raises(CaptureError, match="byte order"):
        list(read_capture(reader(section().replace(b"\x4d\x3c", b"\x00\x00"))))


def test_a_later_section_of_no_byte_order_stops_reading() -> None:
    broken = section().replace(b"\x4d\x3c", b"\x00\x00")
    records, problems = read(section(), interface(), enhanced(b"a"), broken, enhanced(b"b"))
    assert len(records) == 1
    assert [p.kind for p in problems] == ["section"]


GOOD = (section(), interface(), enhanced(b"good"))


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(block(6, bytes(20), length=28), id="shorter than its kind"),
        pytest.param(block(5, b"", length=8), id="shorter than any block"),
        pytest.param(block(5, b"", length=0), id="no length"),
        pytest.param(block(5, bytes(4), length=15), id="no multiple of four"),
        pytest.param(block(6, bytes(20), length=0xFFFF_FFFC), id="a packet of 4 GiB"),
        pytest.param(block(1, bytes(8), length=0x1000_0000), id="an interface of 256 MiB"),
        pytest.param(enhanced(b"1234", captured=5), id="more captured than there is"),
        pytest.param(enhanced(bytes(MAX_RECORD + 1)), id="more captured than anyone does"),
        pytest.param(simple(bytes(MAX_RECORD + 1)), id="the same in a simple packet"),
        pytest.param(enhanced(b"1234")[:-4] + b"\x28\0\0\0", id="two lengths"),
    ],
)
def test_impossible_lengths_stop_reading(bad: bytes) -> None:
    records, problems = read(*GOOD, bad, enhanced(b"never read"))
    assert [data for _, _, data, _ in records] == [b"good"]
    assert [(p.kind, p.offset) for p in problems] == [("block length", sum(map(len, GOOD)))]
    # The same when it is not the block after a packet.
    records, problems = read(*GOOD, block(5, b""), bad, enhanced(b"never read"))
    assert [p.kind for p in problems] == ["block length"]
    assert len(records) == 1


def test_a_packet_of_an_interface_nobody_described_is_left_out() -> None:
    records, problems = read(*GOOD, enhanced(b"?", number=1), simple(b"ok"), enhanced(b"ok"))
    assert [data for _, _, data, _ in records] == [b"good", b"ok", b"ok"]
    assert [p.kind for p in problems] == ["unknown interface"]
    assert read(section(), simple(b"?"))[1][0].kind == "unknown interface"


def test_damaged_interface_options_are_told_and_the_rest_is_read() -> None:
    overrun = option(TSRESOL, b"\x09") + struct.pack("<HH", 2, 500)
    records, problems = read(section(), interface(options=overrun), enhanced(b"x", ticks=NOW))
    assert records == [(NOW, 1, b"x", 1)]
    assert [p.kind for p in problems] == ["interface options"]


def test_options_of_the_wrong_size_mean_nothing() -> None:
    odd = option(TSRESOL, b"\x09\x09") + option(TSOFFSET, b"\x01")
    assert sound(section(), interface(options=odd), enhanced(b"x"))[0][0] == NOW


def test_the_number_of_interfaces_is_bounded() -> None:
    records, problems = read(section(), interface() * 65_537, enhanced(b"x"))
    assert not records
    assert [p.kind for p in problems] == ["interfaces"]


def test_what_scapy_writes(tmp_path: Path) -> None:
    path = tmp_path / "scapy.pcapng"
    with PcapNgWriter(str(path)) as writer:
        for n in range(1, 50):
            packet = Ether() / (b"x" * n)
            packet.time = EPOCH + n
            packet.sniffed_on = f"eth{n % 3}"
            packet.comment = "a comment" if n % 2 else None
            writer.write(packet)
    ours = sound(path.read_bytes())
    assert len(ours) == 49
    with RawPcapNgReader(str(path)) as theirs:
        for (time, link, data, wire), (data2, meta) in zip(ours, theirs, strict=True):
            ticks = meta.tshigh << 32 | meta.tslow
            assert time == ticks * 10**9 // meta.tsresol
            assert (link, data, wire) == (meta.linktype, data2, meta.wirelen)


def test_shared_captures_with_two_clocks_and_two_byte_orders(shared: Path) -> None:
    two_clocks = sound((shared / "captures/pcapng-multi-interface.pcapng").read_bytes())
    assert [time for time, _, _, _ in two_clocks] == sorted(time for time, _, _, _ in two_clocks)
    mixed = sound((shared / "captures/test202.pcapng").read_bytes())
    assert len({data for _, _, data, _ in mixed}) > 1
    assert {wire for _, _, _, wire in mixed} == {168, 314, 342}
