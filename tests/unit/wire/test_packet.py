"""IP packets to values: each protocol, each thing that can be wrong, and scapy's view."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.capture_bytes import reader
from scapy.compat import raw
from scapy.config import conf
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP, IPOption_RR
from scapy.layers.inet6 import (
    HBHOptUnknown,
    ICMPv6DestUnreach,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6ND_NS,
    ICMPv6PacketTooBig,
    ICMPv6ParamProblem,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    Jumbo,
    PadN,
)
from scapy.layers.ipsec import AH, ESP
from scapy.layers.sctp import SCTP, SCTPChunkInit

from knp_py.errors import PacketError
from knp_py.model.net import format_address, parse_address
from knp_py.model.packet import ACK, SYN, Packet, Proto
from knp_py.wire.capture import read_capture
from knp_py.wire.link import locate
from knp_py.wire.packet import parse_ip

A4, B4 = parse_address("10.0.1.10"), parse_address("203.0.113.5")
A6, B6 = parse_address("fd00::10"), parse_address("2001:db8::5")
V4 = IP(src="10.0.1.10", dst="203.0.113.5", id=0x1234)
V6 = IPv6(src="fd00::10", dst="2001:db8::5")
HEADERS = pytest.mark.parametrize("ip", [V4, V6], ids=["IPv4", "IPv6"])


def parse(packet: object, *, cut: int | None = None) -> Packet:
    return parse_ip(raw(packet)[:cut], want_payload=True)


def problem(packet: object, *, cut: int | None = None) -> str | None:
    """The problem of a packet that must be without protocol and ports, but has addresses."""
    found = parse(packet, cut=cut)
    assert found.protocol == Proto.UNKNOWN
    assert (found.sport, found.dport, found.flags, found.payload) == (0, 0, 0, b"")
    assert (found.src, found.dst) in {(A4, B4), (A6, B6)}
    assert found.problem
    return found.problem


def patched(packet: object, at: int, value: bytes) -> bytes:
    data = bytearray(raw(packet))
    data[at : at + len(value)] = value
    return bytes(data)


# What a sound packet says.


@HEADERS
def test_tcp(ip: IP | IPv6) -> None:
    segment = TCP(sport=40000, dport=443, flags="SA", seq=0xFFFF_FFF0, options=[("MSS", 1400)])
    found = parse(ip / segment / b"hello")
    assert (found.src, found.dst) == ((A4, B4) if ip is V4 else (A6, B6))
    assert (found.protocol, found.sport, found.dport) == (Proto.TCP, 40000, 443)
    assert (found.flags, found.seq, found.number) == (SYN | ACK, 0xFFFF_FFF0, 6)
    assert found.payload == b"hello"
    assert found.wire_len == len(raw(ip / segment / b"hello"))
    assert (found.problem, found.inner, found.fragment, found.ident) == (None, None, 0, 0)


@HEADERS
def test_udp(ip: IP | IPv6) -> None:
    found = parse(ip / UDP(sport=53, dport=40000) / b"answer")
    assert (found.protocol, found.sport, found.dport) == (Proto.UDP, 53, 40000)
    assert (found.payload, found.number, found.icmp_type) == (b"answer", 17, -1)


@HEADERS
def test_sctp(ip: IP | IPv6) -> None:
    chunk = SCTPChunkInit()
    found = parse(ip / SCTP(sport=36412, dport=38412) / chunk)
    assert (found.protocol, found.sport, found.dport) == (Proto.SCTP, 36412, 38412)
    assert found.payload.startswith(b"\x01")
    assert parse(ip / SCTP(sport=1, dport=2)).payload == b""


@pytest.mark.parametrize("kind", [0, 8, 13, 14, 15, 16, 17, 18])
def test_icmp_with_an_identifier(kind: int) -> None:
    found = parse(V4 / ICMP(type=kind, id=0xBEEF))
    assert (found.protocol, found.icmp_type, found.sport) == (Proto.ICMP, kind, 0xBEEF)
    assert (found.dport, found.inner) == (0, None)


def test_icmp_without_an_identifier() -> None:
    found = parse(V4 / ICMP(type=9) / b"12345678")
    assert (found.icmp_type, found.sport, found.inner) == (9, 0, None)


def test_icmpv6() -> None:
    for message in (ICMPv6EchoRequest(id=77, data=b"ping"), ICMPv6EchoReply(id=77)):
        found = parse(V6 / message)
        assert (found.protocol, found.icmp_type, found.sport) == (Proto.ICMPV6, message.type, 77)
    neighbour = parse(V6 / ICMPv6ND_NS(tgt="fd00::1"))
    assert (neighbour.icmp_type, neighbour.sport, neighbour.inner) == (135, 0, None)


@HEADERS
def test_an_offset_and_what_lies_behind_the_packet_do_not_matter(ip: IP | IPv6) -> None:
    for layer in (TCP(sport=1, dport=2), UDP(sport=1, dport=2), SCTP(sport=1, dport=2)):
        data = raw(ip / layer / b"xy")
        framed = b"\x45" * 14 + data + b"padding"
        assert parse_ip(framed, 14, True) == parse_ip(data, want_payload=True)
        assert parse_ip(framed, offset=14) == parse_ip(data)


@HEADERS
def test_payload_only_when_asked_for(ip: IP | IPv6) -> None:
    for layer in (TCP(), UDP(), SCTP()):
        assert parse_ip(raw(ip / layer / b"xy")).payload == b""


def test_an_ipv4_mapped_address_is_the_ipv4_address() -> None:
    found = parse(IPv6(src="::ffff:10.0.1.10", dst="::ffff:203.0.113.5") / UDP())
    assert (found.src, found.dst) == (A4, B4)


def test_ipv4_options() -> None:
    options = [IPOption_RR(), IPOption_NOP()]
    for layer in (TCP(dport=22), UDP(dport=22)):
        packet = IP(src="10.0.1.10", dst="203.0.113.5", options=options) / layer / b"data"
        found = parse(packet)
        assert (found.dport, found.payload, found.problem) == (22, b"data", None)


# Lengths.


@HEADERS
def test_a_packet_cut_by_the_capture_keeps_its_ports_and_its_length(ip: IP | IPv6) -> None:
    header = 20 if ip is V4 else 40
    for layer, size in ((TCP(dport=443), 20), (UDP(dport=443), 8), (SCTP(dport=443), 12)):
        packet = ip / layer / (b"x" * 100)
        for held in (0, 1, 99):
            found = parse(packet, cut=header + size + held)
            assert (found.dport, found.payload) == (443, b"x" * held)
            assert found.wire_len == len(raw(packet))


def test_tcp_options_cut_by_the_capture_do_no_harm() -> None:
    packet = V4 / TCP(dport=443, options=[("Timestamp", (1, 2))]) / b"data"
    found = parse(packet, cut=42)
    assert (found.protocol, found.dport, found.payload) == (Proto.TCP, 443, b"")


@HEADERS
def test_a_length_of_zero_is_all_there_is(ip: IP | IPv6) -> None:
    """Segmentation offload leaves it so where a length does not fit its 16 bits."""
    at = 2 if ip is V4 else 4
    big = raw(ip / TCP(dport=443))[: 40 if ip is V4 else 60] + bytes(70_000)
    found = parse(patched(big, at, b"\0\0"))
    assert (found.protocol, found.dport, found.wire_len) == (Proto.TCP, 443, len(big))
    assert len(found.payload) == 70_000
    udp = patched(raw(ip / UDP(dport=443)) + bytes(70_000), at, b"\0\0")
    found = parse(patched(udp, 24 if ip is V4 else 44, b"\0\0"))
    assert (found.protocol, found.dport, len(found.payload)) == (Proto.UDP, 443, 70_000)


def test_a_jumbogram_says_its_length_in_an_option() -> None:
    hop = IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0"), Jumbo(jumboplen=70_028)])
    packet = raw(V6 / hop / TCP(dport=443)) + bytes(70_000)
    found = parse(patched(packet, 4, b"\0\0") + b"behind it")
    assert (found.protocol, found.dport, found.wire_len) == (Proto.TCP, 443, 40 + 70_028)
    assert len(found.payload) == 70_028 - 20 - len(raw(hop))


def test_a_jumbo_option_that_makes_no_sense_is_none() -> None:
    for option in (Jumbo(jumboplen=28), HBHOptUnknown(otype=0xC2, optdata=b"12345678")):
        packet = raw(V6 / IPv6ExtHdrHopByHop(options=[option]) / UDP(dport=53))
        found = parse(patched(packet, 4, b"\0\0"))
        assert (found.dport, found.wire_len) == (53, len(packet))
    assert parse(patched(V6 / IPv6ExtHdrHopByHop(), 4, b"\0\0"), cut=41).problem


def test_payload_of_udp_ends_where_udp_says() -> None:
    packet = V4 / UDP(sport=1, dport=2, len=10) / b"abcdef"
    assert parse(packet).payload == b"ab"


# What cannot be read: no IP header.


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no bytes"),
        (b"\x00" * 40, "version 0"),
        (b"\x55" * 40, "version 5"),
        (raw(V4 / TCP())[:19], "IPv4 header cut short"),
        (raw(V6 / TCP())[:39], "IPv6 header cut short"),
        (b"\x44" + raw(V4 / TCP())[1:], "header length below 5"),
        (patched(V4 / TCP(), 2, b"\0\x13"), "total length below"),
    ],
)
def test_no_readable_ip_header(data: bytes, words: str) -> None:
    with pytest.raises(PacketError, match=words):
        parse_ip(data)


# What is judged on its addresses.


@HEADERS
def test_a_transport_header_cut_short_has_no_ports(ip: IP | IPv6) -> None:
    header = 20 if ip is V4 else 40
    for layer, size, name in (
        (TCP(), 20, "TCP"),
        (UDP(), 8, "UDP"),
        (SCTP(), 12, "SCTP"),
        (ICMP() if ip is V4 else ICMPv6EchoRequest(), 8, "ICMP" if ip is V4 else "ICMPv6"),
    ):
        for held in range(size):
            assert problem(ip / layer, cut=header + held) == f"{name} header cut short"
            # The same when the IP header says so (field notes 3).
            lie = struct.pack(">H", (header if ip is V4 else 0) + held)
            if ip is V4 or held:
                assert problem(patched(ip / layer, 2 if ip is V4 else 4, lie)) == (
                    f"{name} header cut short"
                )
        assert parse(ip / layer, cut=header + size).problem is None


@HEADERS
def test_a_malformed_tcp_header(ip: IP | IPv6) -> None:
    for words in range(5):
        assert problem(ip / TCP(dataofs=words)) == "TCP header length below 5"
    assert problem(ip / TCP(dataofs=6)) == "TCP header longer than its packet"
    assert problem(ip / TCP(dataofs=15) / bytes(39)) == "TCP header longer than its packet"
    assert parse(ip / TCP(dataofs=15) / bytes(40)).problem is None


@HEADERS
def test_a_malformed_udp_header(ip: IP | IPv6) -> None:
    for length in range(8):
        assert problem(ip / UDP(len=length)) == "UDP length below 8"
    assert problem(ip / UDP(len=9)) == "UDP length beyond its packet"


def test_ipv4_options_cut_short() -> None:
    packet = IP(src="10.0.1.10", dst="203.0.113.5", options=[IPOption_RR()]) / TCP()
    assert problem(packet, cut=23) == "IPv4 options cut short"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (2, "protocol 2 (IGMP)"),
        (4, "protocol 4 (IPv4 in IP)"),
        (41, "protocol 41 (IPv6 in IP)"),
        (47, "protocol 47 (GRE)"),
        (50, "protocol 50 (ESP)"),
        (253, "protocol 253"),
    ],
)
@HEADERS
def test_other_protocols_keep_their_number(ip: IP | IPv6, number: int, words: str) -> None:
    packet = (
        IP(src=V4.src, dst=V4.dst, proto=number)
        if ip is V4
        else V6.__class__(src=V6.src, dst=V6.dst, nh=number)
    )
    assert problem(packet / (b"x" * 40)) == words
    assert parse(packet / (b"x" * 40)).number == number
    assert problem(packet) == words


def test_each_icmp_belongs_to_its_own_ip_version() -> None:
    """Else a message that IPv6 must let pass would pass in IPv4 too."""
    assert problem(IP(src=V4.src, dst=V4.dst, proto=58) / ICMPv6ND_NS()) == "ICMPv6 in IPv4"
    assert problem(IPv6(src=V6.src, dst=V6.dst, nh=1) / ICMP()) == "ICMP in IPv6"


def test_ipv6_headers_are_no_ipv4_protocols() -> None:
    for number in (0, 43, 44, 60, 135, 139, 140):
        packet = IP(src=V4.src, dst=V4.dst, proto=number) / b"\x06\x00\0\0\0\0\0\0" / TCP()
        assert (problem(packet) or "").startswith(f"protocol {number}")
    assert problem(IP(src=V4.src, dst=V4.dst, proto=59)) == "protocol 59"


def test_no_next_header() -> None:
    assert problem(IPv6(src=V6.src, dst=V6.dst, nh=59)) == "no next header"
    assert parse(IPv6(nh=59)).wire_len == 40


# Extension headers.


def test_extension_headers_are_walked() -> None:
    chain = (
        V6
        / IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0" * 4)])
        / IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=0x1E, optdata=b"\0" * 120)])
        / IPv6ExtHdrRouting(addresses=["fd00::99"])
        / IPv6ExtHdrDestOpt()
        / TCP(sport=1, dport=443)
        / b"data"
    )
    found = parse(chain)
    assert (found.protocol, found.dport, found.number) == (Proto.TCP, 443, 6)
    assert (found.payload, found.problem) == (b"data", None)


def test_padding_that_pushes_the_transport_out_of_the_capture_opens_nothing() -> None:
    """Field notes 4: known by its addresses only, and so matched by no rule with ports."""
    padded = V6 / IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=0x1E, optdata=b"\0" * 120)])
    assert problem(padded / TCP(dport=443), cut=128) == "extension headers cut short"
    assert parse(padded / TCP(dport=443)).dport == 443


@HEADERS
def test_authentication_header(ip: IP | IPv6) -> None:
    authenticated = ip / AH(nh=6, payloadlen=4, icv=b"i" * 12) / raw(TCP(dport=443))
    data = patched(authenticated, 9 if ip is V4 else 6, b"\x33")
    found = parse(data)
    assert (found.protocol, found.dport, found.number) == (Proto.TCP, 443, 6)
    assert problem(data, cut=50 if ip is V6 else 30) == "extension headers cut short"


def test_esp_is_an_end() -> None:
    assert problem(V4 / ESP(data=b"x" * 40)) == "protocol 50 (ESP)"


# Fragments.


def test_ipv4_fragments() -> None:
    first = parse(IP(src=V4.src, dst=V4.dst, id=77, flags="MF") / UDP(dport=53, len=3000) / b"ab")
    assert (first.protocol, first.dport, first.payload) == (Proto.UDP, 53, b"ab")
    assert (first.fragment, first.ident, first.problem) == (1, 77, None)
    for flags in ("MF", 0):
        later = IP(src=V4.src, dst=V4.dst, id=77, flags=flags, frag=5, proto=17) / UDP(dport=53)
        found = parse(later)
        assert problem(later) == "later fragment"
        assert (found.fragment, found.ident, found.number) == (2, 77, 17)


def test_ipv6_fragments() -> None:
    def fragment(offset: int, more: int, upper: object) -> Packet:
        return parse(V6 / IPv6ExtHdrFragment(id=0x12345678, offset=offset, m=more) / upper)

    first = fragment(0, 1, TCP(dport=443, dataofs=10))
    assert (first.protocol, first.dport) == (Proto.TCP, 443)
    assert (first.fragment, first.ident) == (1, 0x12345678)
    later = fragment(7, 1, UDP(dport=53))
    assert (later.protocol, later.dport, later.problem) == (Proto.UNKNOWN, 0, "later fragment")
    assert (later.fragment, later.ident, later.number) == (2, 0x12345678, 17)


def test_an_atomic_fragment_is_a_whole_packet() -> None:
    found = parse(V6 / IPv6ExtHdrFragment(id=5, offset=0, m=0) / TCP(dport=80))
    assert (found.protocol, found.dport, found.fragment, found.ident) == (Proto.TCP, 80, 0, 0)


def test_dont_fragment_is_no_fragment() -> None:
    found = parse(IP(flags="DF", id=9) / UDP(dport=53))
    assert (found.dport, found.fragment, found.ident) == (53, 0, 0)


def test_a_first_fragment_too_small_for_its_header_has_no_ports() -> None:
    tiny = IP(src=V4.src, dst=V4.dst, flags="MF", proto=6) / raw(TCP(dport=443))[:8]
    assert problem(tiny) == "TCP header cut short"
    assert parse(tiny).fragment == 1


# Quotes in ICMP errors.

QUOTED4 = IP(src="203.0.113.5", dst="10.0.1.10")
QUOTED6 = IPv6(src="2001:db8::5", dst="fd00::10")


def quote(inner: object, *, kind: int = 3) -> Packet | None:
    found = parse(V4 / ICMP(type=kind, code=1) / raw(inner))
    assert (found.protocol, found.icmp_type, found.sport) == (Proto.ICMP, kind, 0)
    return found.inner


def quote6(inner: object, message: object | None = None) -> Packet | None:
    found = parse(V6 / (message or ICMPv6DestUnreach()) / raw(inner))
    assert found.protocol == Proto.ICMPV6
    return found.inner


@pytest.mark.parametrize("kind", [3, 4, 5, 11, 12])
def test_icmp_errors_quote(kind: int) -> None:
    inner = quote(QUOTED4 / UDP(sport=1, dport=53) / b"query", kind=kind)
    assert inner is not None
    assert (inner.src, inner.dst) == (B4, A4)
    assert (inner.protocol, inner.sport, inner.dport) == (Proto.UDP, 1, 53)


@pytest.mark.parametrize(
    "message",
    [ICMPv6DestUnreach(), ICMPv6PacketTooBig(), ICMPv6TimeExceeded(), ICMPv6ParamProblem()],
)
def test_icmpv6_errors_quote(message: object) -> None:
    inner = quote6(QUOTED6 / IPv6ExtHdrDestOpt() / TCP(sport=1, dport=443), message)
    assert inner is not None
    assert (inner.src, inner.dst) == (B6, A6)
    assert (inner.protocol, inner.sport, inner.dport) == (Proto.TCP, 1, 443)


@pytest.mark.parametrize(
    "layer", [TCP(sport=7, dport=8), UDP(sport=7, dport=8), SCTP(sport=7, dport=8)]
)
def test_four_bytes_of_ports_are_enough_in_a_quote(layer: object) -> None:
    for size in range(28):
        inner = quote(raw(QUOTED4 / layer)[: 20 + size])
        assert inner is not None
        if size < 4:
            assert (inner.protocol, inner.problem) == (Proto.UNKNOWN, "quoted ports cut short")
        else:
            assert (inner.sport, inner.dport, inner.problem) == (7, 8, None)


def test_a_quoted_echo_has_its_identifier() -> None:
    inner = quote(QUOTED4 / ICMP(id=99))
    assert inner is not None
    assert (inner.protocol, inner.icmp_type, inner.sport) == (Proto.ICMP, 8, 99)
    inner = quote6(QUOTED6 / ICMPv6EchoRequest(id=98))
    assert inner is not None
    assert (inner.protocol, inner.icmp_type, inner.sport) == (Proto.ICMPV6, 128, 98)
    short = quote(raw(QUOTED4 / ICMP(id=99))[:27])
    assert short is not None
    assert short.problem == "ICMP header cut short"


def test_quotes_without_readable_addresses_are_none() -> None:
    for inner in (b"", b"\x45", raw(QUOTED4 / TCP())[:19], b"\x41" + bytes(40), b"\x75" * 60):
        assert quote(inner) is None
    assert quote6(raw(QUOTED6 / TCP())[:39]) is None


def test_quotes_of_what_has_no_ports() -> None:
    later = quote(IP(src="203.0.113.5", dst="10.0.1.10", frag=3, proto=17, id=5) / b"12345678")
    assert later is not None
    assert (later.fragment, later.ident, later.number) == (2, 5, 17)
    assert later.problem == "later fragment"
    first = quote(IP(flags="MF", id=6) / UDP(dport=53))
    assert first is not None
    assert (first.fragment, first.ident, first.dport) == (1, 6, 53)
    esp = quote(QUOTED4 / ESP(data=b"12345678"))
    assert esp is not None
    assert (esp.protocol, esp.problem) == (Proto.UNKNOWN, "protocol 50 (ESP)")
    cut = quote6(raw(QUOTED6 / IPv6ExtHdrDestOpt() / TCP())[:45])
    assert cut is not None
    assert cut.problem == "extension headers cut short"
    authenticated = quote(patched(QUOTED4 / AH(nh=17, payloadlen=4, icv=b"i" * 12), 9, b"\x33"))
    assert authenticated is not None
    assert (authenticated.number, authenticated.problem) == (17, "quoted ports cut short")


def test_a_quote_in_a_quote_is_not_followed() -> None:
    inner = quote(QUOTED4 / ICMP(type=3) / raw(V4 / TCP()))
    assert inner is not None
    assert (inner.protocol, inner.icmp_type, inner.inner) == (Proto.ICMP, 3, None)


# Against scapy's dissection.


def tuples(path: Path) -> Iterator[tuple[tuple[object, ...], tuple[object, ...]]]:
    """(ours, scapy's) of every packet that scapy finds whole TCP, UDP or SCTP in."""
    for _, link, data, _ in read_capture(reader(path.read_bytes())):
        frame = conf.l2types[link](data)
        ip = next((la for la in frame.iterpayloads() if isinstance(la, IP | IPv6)), None)
        if ip is None or (IPv6ExtHdrFragment in ip and ip[IPv6ExtHdrFragment].m):
            continue
        if isinstance(ip, IP) and (ip.frag or ip.flags.MF):
            continue
        upper = next((la for la in ip.iterpayloads() if isinstance(la, TCP | UDP | SCTP)), None)
        if upper is None or upper.name.endswith("in ICMP"):
            continue
        number = {TCP: 6, UDP: 17, SCTP: 132}[type(upper)]
        offset, _ = locate(link, data)
        ours = parse_ip(data, offset)
        yield (
            (
                format_address(ours.src),
                format_address(ours.dst),
                ours.protocol,
                ours.sport,
                ours.dport,
                ours.flags,
                ours.seq,
            ),
            (
                ip.src,
                ip.dst,
                number,
                upper.sport,
                upper.dport,
                int(upper.flags) & 0xFF if number == 6 else 0,
                upper.seq if number == 6 else 0,
            ),
        )


def test_five_tuples_of_all_shared_captures_as_scapy_sees_them(shared: Path) -> None:
    seen = 0
    for path in sorted((shared / "captures").glob("*.pcap*")):
        for ours, theirs in tuples(path):
            assert ours == theirs, path.name
            seen += 1
    assert seen > 2000


def test_known_facts_of_shared_captures(shared: Path) -> None:
    def packets(name: str) -> list[Packet]:
        records = read_capture(reader((shared / "captures" / name).read_bytes()))
        return [
            parse_ip(data, place[0])
            for _, link, data, _ in records
            if (place := locate(link, data))[0] >= 0
        ]

    (sctp,) = packets("decode-sctp-01.pcap")
    assert sctp.protocol == Proto.SCTP
    assert all(8805 in {p.sport, p.dport} for p in packets("pfcp.pcap"))
    gre = [p for p in packets("pptp.pcap") if p.number == 47]
    assert [p.problem for p in gre] == ["protocol 47 (GRE)"]
    assert [p.fragment for p in packets("fragmented-3.pcap")].count(2) == 4
    assert all(p.fragment == 0 for p in packets("ipv6-http-atomic-frag.pcap"))
    assert sum(p.protocol == Proto.TCP for p in packets("ipv6-http-atomic-frag.pcap")) == 36
    quotes = [p.inner for p in packets("smtp.pcap") + packets("icmp6.pcap") if p.inner]
    assert all(inner.protocol != Proto.UNKNOWN for inner in quotes)
    with pytest.raises(PacketError, match="IPv6 header cut short"):
        packets("ip6-trunc.pcap")
