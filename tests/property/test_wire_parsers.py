"""Whatever the bytes: a value or our own error, nothing else, in bounded time.

Real packets, made by scapy and taken from the shared captures, are cut everywhere,
changed anywhere and given to every parser of ``knp_py.wire`` that packets reach first.
"""

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from helpers.capture_bytes import (
    EPOCH,
    Rec,
    block,
    enhanced,
    interface,
    obsolete,
    pcap,
    reader,
    section,
    simple,
)
from hypothesis import example, given
from hypothesis import strategies as st
from scapy.compat import raw
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_RR, fragment
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoRequest,
    ICMPv6ND_NS,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    Jumbo,
    fragment6,
)
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.layers.ppp import PPP, PPPoE
from scapy.layers.sctp import SCTP, SCTPChunkInit

from knp_py.errors import CaptureError, PacketError
from knp_py.model.packet import Packet, Proto
from knp_py.wire.capture import read_capture
from knp_py.wire.fragments import Datagram, Reassembler
from knp_py.wire.link import locate, reason
from knp_py.wire.packet import parse_ip
from knp_py.wire.source import CHUNK, MAX_RECORD, CaptureProblem

V4 = IP(src="10.0.0.1", dst="10.0.0.2")
V6 = IPv6(src="fd00::1", dst="fd00::2")
LINKS = (0, 1, 9, 12, 14, 50, 51, 101, 104, 108, 113, 166, 204, 228, 229, 239, 276)

PACKETS = [
    raw(packet)
    for packet in (
        V4 / TCP(dport=443, options=[("MSS", 1400), ("WScale", 7)]) / b"hello",
        V4 / UDP(dport=53) / b"question",
        V4 / ICMP(id=7) / b"ping",
        V4 / ICMP(type=3, code=4) / V4 / TCP(dport=443),
        V4 / ICMP(type=11) / V4 / ICMP(type=3) / V4 / UDP(),
        V4 / SCTP(dport=38412) / SCTPChunkInit(),
        V4 / AH(nh=6, payloadlen=4, icv=b"i" * 12) / raw(TCP(dport=443)),
        IP(options=[IPOption_RR()]) / TCP(dport=22),
        IP(proto=47) / b"0123456789",
        IP(len=0) / TCP() / (b"x" * 100),
        *fragment(V4 / UDP(dport=53) / bytes(600), 200),
        V6 / TCP(dport=443) / b"hello",
        V6 / UDP(dport=53) / b"question",
        V6 / ICMPv6EchoRequest(id=7, data=b"ping"),
        V6 / ICMPv6ND_NS(),
        V6 / ICMPv6DestUnreach() / V6 / IPv6ExtHdrDestOpt() / UDP(dport=53),
        V6 / SCTP(dport=38412),
        V6 / IPv6ExtHdrHopByHop(options=[Jumbo(jumboplen=1 << 17)]) / UDP(dport=53),
        V6 / IPv6ExtHdrHopByHop() / IPv6ExtHdrRouting(addresses=["fd00::9"]) / TCP(dport=80),
        V6 / IPv6ExtHdrFragment() / IPv6ExtHdrDestOpt() / TCP(dport=80),
        *fragment6(V6 / IPv6ExtHdrFragment(id=9) / UDP(dport=53) / bytes(3000), 1300),
        IPv6(nh=59),
    )
]
FRAMES = [
    (1, raw(Ether() / Dot1AD(vlan=3) / Dot1Q(vlan=4) / V4 / TCP())),
    (1, raw(Ether() / PPPoE() / PPP() / V4 / TCP())),
    (1, raw(Ether() / ARP())),
    *((101, packet) for packet in PACKETS),
]
CAPTURES = [
    pcap([Rec(packet, EPOCH + n) for n, packet in enumerate(PACKETS)]),
    pcap([Rec(packet) for packet in PACKETS], order=">"),
    section()
    + interface(1)
    + enhanced(PACKETS[0])
    + block(5, bytes(12))
    + simple(PACKETS[1])
    + obsolete(PACKETS[2])
    + section(order=">")
    + interface(101, order=">")
    + enhanced(PACKETS[3], order=">"),
]


def check_packet(data: bytes, offset: int = 0) -> Packet | None:
    """The invariant of ``parse_ip``, and what must hold of its answer."""
    try:
        packet = parse_ip(data, offset, True)
    except PacketError as error:
        assert str(error)  # noqa: PT017 - either outcome is right
        return None
    assert parse_ip(data, offset) == packet._replace(payload=b"")
    assert 0 <= packet.src < 1 << 128
    assert 0 <= packet.dst < 1 << 128
    for part in (packet, packet.inner):
        if part is None:
            continue
        unknown = part.protocol == Proto.UNKNOWN
        assert unknown == bool(part.problem)
        assert unknown or part.protocol == part.number
        assert 0 <= part.number <= 255
        if unknown:
            assert (part.sport, part.dport, part.flags, part.icmp_type) == (0, 0, 0, -1)
        assert part.fragment < 2 or unknown
    assert packet.payload in data
    assert packet.inner is None or packet.inner.inner is None
    return packet


def check_frame(link: int, data: bytes) -> None:
    """The invariant of ``locate``: an offset that may be parsed from, or a reason."""
    offset, vlan = locate(link, data)
    assert vlan >= 0
    if offset < 0:
        words = reason(offset)
        assert words
        assert "\n" not in words
    else:
        assert offset <= len(data)
        check_packet(data, offset)


def check_capture(data: bytes) -> None:
    """The invariant of ``read_capture``: records, problems or ``CaptureError``."""
    problems: list[CaptureProblem] = []
    total = 0
    try:
        for time, link, packet, wire_length in read_capture(
            reader(data), on_problem=problems.append
        ):
            assert isinstance(time, int)
            assert link >= 0
            assert wire_length >= 0
            assert len(packet) <= MAX_RECORD
            total += len(packet)
    except CaptureError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either outcome is right
    assert total <= len(data)
    for problem in problems:
        assert problem.kind
        assert 0 <= problem.offset <= len(data)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """``data`` with a few bytes changed, cut or put in."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(4):
            case 0:
                changed[at : at + 1] = rng.choice([b"\0", b"\xff", rng.randbytes(1)])
            case 1:
                changed[at : at + 2] = rng.choice([b"\0\0", b"\xff\xff", rng.randbytes(2)])
            case 2:
                del changed[at : at + rng.randint(1, 8)]
            case _:
                changed[at:at] = rng.randbytes(rng.randint(1, 8))
    return bytes(changed)


@cache
def shared_frames() -> list[tuple[int, bytes]]:
    """Every frame of the shared captures, none where they are not."""
    folder = Path(__file__).resolve().parents[3] / "shared" / "captures"
    return [
        (link, data)
        for path in sorted(folder.glob("*.pcap*"))
        for _, link, data, _ in read_capture(reader(path.read_bytes()))
    ]


# Every prefix.


@pytest.mark.parametrize("packet", PACKETS)
def test_every_prefix_of_a_packet(packet: bytes) -> None:
    assert check_packet(packet)
    for size in range(len(packet)):
        cut = check_packet(packet[:size])
        if cut and cut.problem is None:  # then the ports are those of the whole
            whole = parse_ip(packet)
            assert (cut.protocol, cut.sport, cut.dport) == (
                whole.protocol,
                whole.sport,
                whole.dport,
            )


@pytest.mark.parametrize("link", LINKS)
def test_every_prefix_of_a_frame(link: int) -> None:
    for _, frame in FRAMES:
        for size in range(len(frame)):
            check_frame(link, frame[:size])


@pytest.mark.parametrize("capture", CAPTURES)
def test_every_prefix_of_a_capture(capture: bytes) -> None:
    for size in range(0, len(capture), 3):
        check_capture(capture[:size])


def test_prefixes_of_all_shared_frames() -> None:
    frames = shared_frames()
    if not frames:
        pytest.skip("the shared captures are not here: they are not part of the repository")
    assert len(frames) > 2000
    for link, data in frames:
        # All of the headers; beyond them some lengths stand for all.
        for size in (*range(min(len(data), 90)), *range(90, len(data), 101), len(data)):
            check_frame(link, data[:size])


# Any bytes, and good ones with a few wrong.


def mutated(pool: Callable[[], list[tuple[int, bytes]]]) -> st.SearchStrategy[tuple[int, bytes]]:
    def build(index: int, seed: int) -> tuple[int, bytes]:
        frames = pool()
        link, data = frames[index % len(frames)]
        return link, mutate(data, random.Random(seed))

    return st.builds(build, st.integers(0, 1 << 20), st.integers(0, 1 << 32))


@given(st.sampled_from(LINKS), st.binary(max_size=200))
def test_any_bytes_as_a_frame(link: int, data: bytes) -> None:
    check_frame(link, data)


@given(st.integers(0, 1 << 32), st.binary(max_size=20))
def test_any_link_type(link: int, data: bytes) -> None:
    check_frame(link, data)


@given(st.binary(max_size=200), st.integers(0, 40))
def test_any_bytes_as_a_packet(data: bytes, offset: int) -> None:
    check_packet(data, offset)


@given(mutated(lambda: FRAMES))
def test_mutated_frames(frame: tuple[int, bytes]) -> None:
    check_frame(*frame)


@given(st.integers(0, 1 << 32))
def test_mutated_frames_of_shared_captures(seed: int) -> None:
    rng = random.Random(seed)
    for link, data in rng.sample(shared_frames() or FRAMES, 20):
        check_frame(link, mutate(data, rng))


@given(st.sampled_from(CAPTURES), st.integers(0, 1 << 32))
def test_mutated_captures(capture: bytes, seed: int) -> None:
    check_capture(mutate(capture, random.Random(seed)))


@given(st.sampled_from([CAPTURES[0][:4], CAPTURES[1][:4], section()]), st.binary(max_size=300))
@example(section(), block(6, bytes(20), length=0xFFFFFFFC))
def test_any_bytes_behind_a_magic_number(head: bytes, data: bytes) -> None:
    check_capture(head + data)


@given(st.binary(max_size=100))
def test_any_bytes_as_a_capture(data: bytes) -> None:
    check_capture(data)


@given(st.sampled_from(CAPTURES), st.integers(1, 50), st.integers(0, 1 << 32))
def test_a_capture_reads_the_same_however_it_comes(
    capture: bytes, at_most: int, seed: int
) -> None:
    data = mutate(capture, random.Random(seed))
    outcomes = []
    for limit in (None, at_most):
        problems: list[CaptureProblem] = []
        outcome: list[object] = []
        try:
            records = read_capture(reader(data, at_most=limit), on_problem=problems.append)
            outcome.extend(records)
        except CaptureError as error:
            outcome.append(str(error))
        outcomes.append((outcome, problems))
    assert outcomes[0] == outcomes[1]


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 20), st.booleans(), st.integers(0, 2)),
        max_size=40,
    ),
    st.booleans(),
)
def test_any_fragments(parts: list[tuple[int, int, bool, int]], v6: bool) -> None:
    """Bounded, and what comes out is a packet without fragmentation."""
    reassembler = Reassembler(max_datagrams=2, max_bytes=5_000)
    for now, (start, size, more, ident) in enumerate(parts):
        if v6:
            head = V6 / IPv6ExtHdrFragment(id=ident, offset=start // 4, m=int(more), nh=17)
        else:
            head = IP(src="10.0.0.1", id=ident, flags=int(more), frag=start // 4, proto=17)
        found = reassembler.add(raw(head / bytes(size * 2)), now=float(now))
        assert len(reassembler) <= 2
        assert reassembler._bytes <= 5_000
        if found is not None:
            assert parse_ip(found.data).fragment == 0
    reassembler.expire(float("inf"))
    assert len(reassembler) == reassembler._bytes == 0


@given(st.integers(0, 1 << 32))
def test_mutated_fragments(seed: int) -> None:
    rng = random.Random(seed)
    reassembler = Reassembler()
    for packet in rng.choices(PACKETS, k=30):
        found = reassembler.add(mutate(packet, rng), now=rng.uniform(0, 100))
        if isinstance(found, Datagram):
            check_packet(found.data)


# Bounded time: what could be made long is, and must stay cheap by construction.


def test_hostile_lengths_cost_nothing() -> None:
    endless_headers = raw(V6)[:4] + b"\xff\xff\x3c\x40" + raw(V6)[8:] + b"\x3c\x00" * 30_000
    packet = check_packet(endless_headers)
    assert packet is not None
    assert packet.problem == "more than 64 extension headers"
    check_frame(1, bytes(12) + b"\x81\x00\x00\x01" * 16_000)
    check_frame(1, bytes(12) + b"\x88\x47" + bytes(60_000))
    check_frame(239, b"\x02\x00\x00\x00" + b"\x04\x00\x01\x00" * 15_000)
    assert len(pcap([Rec(bytes(MAX_RECORD))])) > CHUNK
