"""Reassembly: any order, both IP versions, and the bounds on what fragments may cost."""

from itertools import permutations
from pathlib import Path

import pytest
from helpers.capture_bytes import reader
from scapy.compat import raw
from scapy.layers.inet import IP, TCP, UDP, IPOption_RR, fragment
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    fragment6,
)

from knp_py.model.packet import Proto
from knp_py.wire.capture import read_capture
from knp_py.wire.fragments import MAX_BYTES, TIMEOUT, Datagram, Reassembler
from knp_py.wire.link import locate
from knp_py.wire.packet import parse_ip

PAYLOAD = bytes(range(256)) * 8
WHOLE4 = IP(src="10.0.0.1", dst="10.0.0.2", id=77) / UDP(sport=53, dport=4000) / PAYLOAD
PARTS4 = [raw(part) for part in fragment(WHOLE4, 800)]
WHOLE6 = IPv6(src="fd00::1", dst="fd00::2") / UDP(sport=53, dport=4000) / PAYLOAD
PARTS6 = [
    raw(part)
    for part in fragment6(
        IPv6(src="fd00::1", dst="fd00::2")
        / IPv6ExtHdrFragment(id=99)
        / UDP(sport=53, dport=4000)
        / PAYLOAD,
        800,
    )
]
VERSIONS = pytest.mark.parametrize(
    ("parts", "whole"), [(PARTS4, WHOLE4), (PARTS6, WHOLE6)], ids=["IPv4", "IPv6"]
)


def add_all(reassembler: Reassembler, parts: list[bytes], now: float = 0.0) -> list[Datagram]:
    found = [reassembler.add(part, now=now) for part in parts]
    return [datagram for datagram in found if datagram is not None]


def part4(start: int, data: bytes, *, more: bool = True, ident: int = 7) -> bytes:
    head = IP(src="10.0.0.1", dst="10.0.0.2", id=ident, proto=17, flags=int(more), frag=start // 8)
    return bytes(raw(head / data))


def part6(start: int, data: bytes, *, more: bool = True, ident: int = 7) -> bytes:
    head = IPv6(src="fd00::1", dst="fd00::2") / IPv6ExtHdrFragment(
        id=ident, offset=start // 8, m=int(more), nh=17
    )
    return bytes(raw(head / data))


@VERSIONS
def test_any_order_gives_what_was_fragmented(parts: list[bytes], whole: IP | IPv6) -> None:
    assert len(parts) == 3
    for order in permutations(parts):
        reassembler = Reassembler()
        assert [reassembler.add(part, now=5.0) for part in order[:-1]] == [None, None]
        assert len(reassembler) == 1
        assert reassembler.add(order[-1], now=6.0) == Datagram(raw(whole), 3, 5.0)
        assert len(reassembler) == 0
        assert reassembler.counts == {"reassembled": 1}
        assert reassembler.expire(float("inf")) == []


@VERSIONS
def test_the_result_parses_as_if_it_had_never_been_in_pieces(
    parts: list[bytes], whole: IP | IPv6
) -> None:
    (datagram,) = add_all(Reassembler(), parts)
    found = parse_ip(datagram.data, want_payload=True)
    assert found == parse_ip(raw(whole), want_payload=True)
    assert (found.sport, found.payload, found.fragment) == (53, PAYLOAD, 0)


def test_an_offset_and_what_lies_behind_the_packet_do_not_matter() -> None:
    reassembler = Reassembler()
    found = [
        reassembler.add(b"frame header" + part + b"padding", now=0, offset=12) for part in PARTS4
    ]
    assert found[-1] == Datagram(raw(WHOLE4), 3, 0)


@pytest.mark.parametrize(
    "packet",
    [
        WHOLE4,
        WHOLE6,
        IPv6() / IPv6ExtHdrFragment(offset=0, m=0) / UDP(),
        IPv6() / IPv6ExtHdrHopByHop() / TCP(),
        IPv6(nh=60) / (b"\x3c\x00" + bytes(6)) / ((b"\x3c\x00" + bytes(6)) * 100),
        IPv6(nh=0) / b"\x2c",
    ],
)
def test_what_is_no_fragment_is_whole_at_once(packet: IP | IPv6) -> None:
    reassembler = Reassembler()
    assert reassembler.add(b"x" + raw(packet), now=3, offset=1) == Datagram(raw(packet), 1, 3)
    assert not reassembler.counts


def test_headers_before_the_fragment_header_are_kept() -> None:
    upper = UDP(sport=1, dport=2) / (b"x" * 992)
    before = IPv6(src="fd00::1", dst="fd00::2") / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt()
    whole = raw(before / upper)
    data = whole[-1000:]
    parts = [
        raw(before / IPv6ExtHdrFragment(id=1, offset=0, m=1, nh=17) / data[:504]),
        raw(before / IPv6ExtHdrFragment(id=1, offset=63, m=0, nh=17) / data[504:]),
    ]
    (datagram,) = add_all(Reassembler(), parts)
    assert datagram.data == whole


def test_options_of_the_first_fragment_are_kept_and_the_checksum_is_right() -> None:
    whole = IP(src="10.0.0.1", dst="10.0.0.2", id=5, options=[IPOption_RR()]) / UDP() / PAYLOAD
    (datagram,) = add_all(Reassembler(), [raw(part) for part in fragment(whole, 800)])
    assert datagram.data == raw(whole)


@pytest.mark.parametrize(
    "change",
    [
        {"src": "10.0.0.9"},
        {"dst": "10.0.0.9"},
        {"id": 78},
        {"proto": 6},
    ],
)
def test_fragments_of_different_datagrams_do_not_mix(change: dict[str, object]) -> None:
    other = IP(PARTS4[1])
    for name, value in change.items():
        setattr(other, name, value)
    reassembler = Reassembler()
    assert not add_all(reassembler, [PARTS4[0], raw(other), PARTS4[2]])
    assert len(reassembler) == 2


def test_fragments_on_different_vlans_do_not_mix() -> None:
    reassembler = Reassembler()
    for vlan in (0, 5):
        for part in PARTS4[:2]:
            assert reassembler.add(part, now=0, vlan=vlan) is None
    assert reassembler.add(PARTS4[2], now=0, vlan=5) is not None
    (left,) = reassembler.expire(float("inf"))
    assert left.vlan == 0


def test_in_ipv6_the_first_fragment_alone_names_what_follows() -> None:
    """RFC 8200 §4.5: next headers may differ, and those of later fragments say nothing."""
    data = raw(UDP(sport=1, dport=2) / bytes(100))
    later = bytearray(part6(56, data[56:], more=False))
    later[40] = 59
    (datagram,) = add_all(Reassembler(), [part6(0, data[:56]), bytes(later)])
    assert parse_ip(datagram.data).protocol == Proto.UDP


# Bounds in time and memory.


@VERSIONS
def test_a_datagram_expires_as_a_whole(parts: list[bytes], whole: IP | IPv6) -> None:
    reassembler = Reassembler()
    assert not add_all(reassembler, parts[:2], now=100.0)
    assert reassembler.expire(100.0 + TIMEOUT - 0.001) == []
    (gone,) = reassembler.expire(100.0 + TIMEOUT)
    assert (gone.first, gone.parts, gone.received) == (parts[0], 2, 100.0)
    assert gone.reason == "timeout"
    assert parse_ip(gone.first).dport == 4000
    assert reassembler.counts == {"timeout": 1}
    assert not add_all(reassembler, parts[2:], now=131.0)
    assert len(reassembler) == 1
    assert len(raw(whole)) > 2000


def test_adding_expires_too_and_time_may_step_back() -> None:
    reassembler = Reassembler(timeout=10)
    reassembler.add(part4(0, bytes(8), ident=1), now=100)
    reassembler.add(part4(0, bytes(8), ident=2), now=50)
    assert reassembler.add(part4(8, bytes(8), more=False, ident=2), now=61) is None  # too late
    assert reassembler.counts == {"timeout": 1}
    reassembler.add(part4(0, bytes(8), ident=3), now=110)
    assert reassembler.counts["timeout"] == 3
    assert [gone.received for gone in reassembler.expire(110)] == [50, 100, 61]


def test_a_datagram_without_its_first_fragment_has_addresses_to_judge() -> None:
    reassembler = Reassembler()
    reassembler.add(PARTS4[1], now=0)
    (gone,) = reassembler.expire(float("inf"))
    assert gone.first == PARTS4[1][:128]
    assert parse_ip(gone.first).fragment == 2
    reassembler.add(PARTS4[1], now=100)
    reassembler.add(PARTS4[0], now=100)  # the real first takes its place
    assert reassembler.expire(float("inf"))[0].first.startswith(PARTS4[0][:40])


def test_the_number_of_datagrams_is_bounded_oldest_first() -> None:
    reassembler = Reassembler(max_datagrams=3)
    for ident in range(5):
        reassembler.add(part4(0, bytes(8), ident=ident), now=ident)
    assert len(reassembler) == 3
    assert reassembler.counts == {"no room": 2}
    assert [gone.received for gone in reassembler.expire(5)] == [0, 1]
    assert reassembler.add(part4(8, bytes(8), more=False, ident=4), now=5) is not None


def test_the_number_of_bytes_is_bounded() -> None:
    reassembler = Reassembler(max_bytes=20_000)
    for ident in range(100):
        reassembler.add(part4(8, bytes(1000), ident=ident), now=ident)
    assert len(reassembler) == 13  # 1000 bytes, a sample, and what two objects cost
    assert reassembler.counts == {"no room": 87}


def test_bytes_are_given_back() -> None:
    reassembler = Reassembler(max_bytes=10_000)
    for ident in range(200):
        assert add_all(reassembler, PARTS4, now=ident)
        assert not add_all(reassembler, [part6(0, bytes(16)), part6(8, bytes(16))], now=ident)
        reassembler.expire(float("inf"))
    assert reassembler.counts == {"reassembled": 200, "overlap": 200}
    assert reassembler._bytes == 0


def test_the_tiniest_fragments_of_the_largest_datagram_stay_within_bounds() -> None:
    reassembler = Reassembler()
    tiny = part4(0, b"12345678")
    for units in range(65_000 // 8):
        field = (0x2000 | units).to_bytes(2, "big")
        assert reassembler.add(tiny[:6] + field + tiny[8:], now=0) is None
        assert reassembler._bytes <= MAX_BYTES
    found = reassembler.add(part4(65_000, b"end", more=False), now=0)
    assert found is not None
    assert len(found.data) == 20 + 65_003


# What fragments may do wrong.


@pytest.mark.parametrize("part", [part4, part6])
def test_duplicates_change_nothing(part: type) -> None:
    reassembler = Reassembler()
    first = part(0, b"a" * 16)
    assert not add_all(reassembler, [first, first])
    found = add_all(reassembler, [part(16, b"b" * 8, more=False)])
    assert found[0].data.endswith(b"a" * 16 + b"b" * 8)
    assert found[0].parts == 3
    assert reassembler.counts == {"duplicate": 1, "reassembled": 1}


@pytest.mark.parametrize(
    ("start", "size", "reason"),
    [
        (8, 16, "overlap"),
        (24, 16, "overlap"),
        (0, 24, "overlap"),
        (0, 48, "overlap"),
        (16, 8, "overlap"),
        (24, 8, "overlap"),
        (40, 8, "overlap"),
        (0, 64, "contradiction"),
    ],
)
def test_overlaps_lose_an_ipv6_datagram_and_all_that_follows_of_it(
    start: int, size: int, reason: str
) -> None:
    reassembler = Reassembler()
    add_all(reassembler, [part6(16, b"a" * 16), part6(40, b"a" * 8, more=False)])
    add_all(reassembler, [part6(start, b"b" * size)])
    assert reassembler.counts == {reason: 1}
    assert not add_all(reassembler, [part6(0, b"a" * 16), part6(32, b"a" * 8)])
    assert [gone.reason for gone in reassembler.expire(1.0)] == [reason]
    assert reassembler.expire(float("inf")) == []
    assert reassembler.counts == {reason: 1}


def test_a_duplicate_with_other_bytes_is_an_overlap_in_ipv6() -> None:
    reassembler = Reassembler()
    add_all(reassembler, [part6(0, b"a" * 16), part6(0, b"b" * 16)])
    assert reassembler.counts == {"overlap": 1}


def test_in_ipv4_what_is_there_already_does_no_harm_and_an_overlap_does() -> None:
    reassembler = Reassembler()
    parts = [
        part4(8, b"a" * 32),
        part4(16, b"c" * 16),  # nothing new
        part4(0, b"d" * 8),
        part4(40, b"e" * 3, more=False),
    ]
    (datagram,) = add_all(reassembler, parts)
    assert datagram.data[20:] == b"d" * 8 + b"a" * 32 + b"e" * 3
    assert reassembler.counts == {"duplicate": 1, "reassembled": 1}
    reassembler = Reassembler()
    assert not add_all(reassembler, [part4(8, b"a" * 32), part4(0, b"d" * 16)])
    assert reassembler.counts == {"overlap": 1}


@pytest.mark.parametrize("part", [part4, part6])
@pytest.mark.parametrize(
    "pieces",
    [
        [(8, 8, False), (16, 8, True)],
        [(8, 8, False), (24, 8, True)],
        [(24, 8, True), (8, 8, False)],
        [(8, 8, False), (16, 8, False)],
    ],
)
def test_two_different_ends_are_a_contradiction(
    part: type, pieces: list[tuple[int, int, bool]]
) -> None:
    reassembler = Reassembler()
    for start, size, more in pieces:
        assert reassembler.add(part(start, bytes(size), more=more), now=0) is None
    assert reassembler.counts == {"contradiction": 1}


def test_only_the_last_fragment_may_have_an_odd_length() -> None:
    reassembler = Reassembler()
    odd = [part6(0, b"a" * 9), part6(0, b""), part6(8, b"", more=False), part4(0, b"a" * 7)]
    assert not add_all(reassembler, odd)
    assert reassembler.counts == {"odd length": 4}
    assert len(reassembler) == 0


def test_an_ipv4_fragment_of_odd_length_loses_the_rest() -> None:
    reassembler = Reassembler()
    (datagram,) = add_all(reassembler, [part4(0, b"a" * 13), part4(8, b"b" * 3, more=False)])
    assert datagram.data[20:] == b"a" * 8 + b"b" * 3


@pytest.mark.parametrize("part", [part4, part6])
def test_a_datagram_beyond_the_longest_possible(part: type) -> None:
    reassembler = Reassembler()
    parts = [part(start, bytes(8184)) for start in range(0, 65_472, 8184)]
    assert not add_all(reassembler, [*parts, part(65_472, bytes(100), more=False)])
    assert reassembler.counts == {"too long": 1}
    assert [gone.reason for gone in reassembler.expire(0)] == ["too long"]


def test_what_cannot_be_read_is_counted() -> None:
    reassembler = Reassembler()
    bad = [b"", b"\x45", PARTS4[0][:19], PARTS6[0][:39], b"\x55" * 60]
    bad.append(b"\x44" + PARTS4[0][1:])  # header length below 5
    bad.append(PARTS4[0][:2] + b"\x00\x10" + PARTS4[0][4:])  # total length below the header's
    bad.append(b"\x4f" + PARTS4[0][1:30])  # options cut short
    assert not add_all(reassembler, bad)
    assert reassembler.counts == {"unreadable": len(bad)}


@VERSIONS
def test_fragments_cut_by_the_capture_keep_ports_and_length(
    parts: list[bytes], whole: IP | IPv6
) -> None:
    for order in permutations([part[:100] for part in parts]):
        (datagram,) = add_all(Reassembler(), list(order))
        assert raw(whole).startswith(datagram.data)
        found = parse_ip(datagram.data, want_payload=True)
        assert (found.dport, found.wire_len) == (4000, len(raw(whole)))
        assert PAYLOAD.startswith(found.payload)
        assert 0 < len(found.payload) < 100


# Captures.


def reassembled(path: Path) -> tuple[list[Datagram], Reassembler]:
    reassembler = Reassembler()
    found = []
    for time, link, data, _ in read_capture(reader(path.read_bytes())):
        offset, vlan = locate(link, data)
        if offset >= 0:
            datagram = reassembler.add(data, now=time / 1e9, offset=offset, vlan=vlan)
            if datagram is not None and datagram.parts > 1:
                found.append(datagram)
    return found, reassembler


def test_shared_captures_with_fragments(shared: Path) -> None:
    found, reassembler = reassembled(shared / "captures/dns-edns-ecs.pcap")
    assert len(found) == 4
    for datagram in found:
        packet = parse_ip(datagram.data, want_payload=True)
        assert (packet.protocol, packet.sport) == (Proto.UDP, 53)
        assert len(packet.payload) > 1400
    assert reassembler.expire(float("inf")) == []
    # Of this datagram the capture lacks the end; its first fragment still has the ports.
    found, reassembler = reassembled(shared / "captures/fragmented-3.pcap")
    assert not found
    (gone,) = reassembler.expire(float("inf"))
    assert gone.parts == 5
    first = parse_ip(gone.first)
    assert (first.protocol, first.fragment) == (Proto.TCP, 1)
    assert (first.sport, first.dport) != (0, 0)
