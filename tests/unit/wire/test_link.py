"""Link layers: where IP begins, on which VLANs, and why there is none."""

import struct
from collections import Counter
from pathlib import Path

import pytest
from helpers.capture_bytes import reader
from scapy.compat import raw
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, LLC, SNAP, Dot1AD, Dot1Q, Dot3, Ether
from scapy.layers.ppp import HDLC, PPP, PPPoE, PPPoED

from knp_py.errors import PacketError
from knp_py.wire.capture import read_capture
from knp_py.wire.link import Place, locate, not_supported, reason
from knp_py.wire.packet import parse_ip

V4 = raw(IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1, dport=53))
V6 = raw(IPv6(src="fd00::1", dst="fd00::2") / UDP(sport=1, dport=53))
BOTH = pytest.mark.parametrize("ip", [V4, V6], ids=["IPv4", "IPv6"])
MAC = bytes(12)


def found(link: int, frame: bytes, ip: bytes) -> int:
    """The VLAN stack of a frame in which ``ip`` is found where it is."""
    offset, vlan = locate(link, frame)
    assert offset >= 0, reason(offset)
    assert frame[offset : offset + len(ip)] == ip
    return vlan


def why(link: int, frame: bytes) -> str:
    """The reason why no IP is found."""
    offset, _ = locate(link, frame)
    assert offset < 0
    return reason(offset)


def ethertype(ip: bytes) -> bytes:
    return b"\x08\x00" if ip is V4 else b"\x86\xdd"


def ppp_protocol(ip: bytes) -> bytes:
    return b"\x00\x21" if ip is V4 else b"\x00\x57"


# Ethernet.


@BOTH
def test_plain_ethernet(ip: bytes) -> None:
    assert locate(1, MAC + ethertype(ip) + ip) == (14, 0)


def test_what_follows_the_ethertype_may_be_missing() -> None:
    assert locate(1, MAC + b"\x08\x00") == (14, 0)
    with pytest.raises(PacketError):
        parse_ip(MAC + b"\x08\x00", 14)


@pytest.mark.parametrize(
    ("tags", "vlan"),
    [
        ([Dot1Q(vlan=42)], 42),
        ([Dot1AD(vlan=10), Dot1Q(vlan=20)], 10 << 12 | 20),
        ([Dot1Q(vlan=20), Dot1Q(vlan=10)], 20 << 12 | 10),
        ([Dot1Q(vlan=1, prio=7)], 1),
        ([Dot1Q(vlan=0, prio=5)], 0),
        ([Dot1AD(vlan=7), Dot1Q(vlan=0)], 7),
        ([Dot1Q(vlan=4095)] * 8, int("fff" * 8, 16)),
    ],
)
@BOTH
def test_vlan_tags_are_stepped_over_and_told(tags: list[object], vlan: int, ip: bytes) -> None:
    frame = Ether()
    for tag in tags:
        frame /= tag
    assert found(1, raw(frame / (IP(V4) if ip is V4 else IPv6(V6))), ip) == vlan


@pytest.mark.parametrize("tag", [b"\x91\x00", b"\x92\x00", b"\x88\xa8"])
def test_older_tag_types(tag: bytes) -> None:
    assert found(1, MAC + tag + b"\x00\x05\x81\x00\x00\x06\x08\x00" + V4, V4) == 5 << 12 | 6


def test_the_number_of_tags_is_bounded() -> None:
    assert why(1, MAC + b"\x81\x00\x00\x01" * 9 + b"\x08\x00" + V4) == (
        "more than 8 tags before the IP header"
    )
    assert locate(1, MAC + b"\x81\x00\xff\xff" * 10_000)[1].bit_length() <= 12 * 9


@BOTH
def test_snap(ip: bytes) -> None:
    frame = raw(Dot3() / LLC(dsap=0xAA, ssap=0xAA, ctrl=3) / SNAP(OUI=0) / ip)
    frame = frame[:20] + ethertype(ip) + frame[22:]
    assert found(1, frame, ip) == 0


@BOTH
def test_pppoe_session(ip: bytes) -> None:
    frame = raw(Ether() / Dot1Q(vlan=5) / PPPoE(sessionid=9) / PPP() / ip)
    frame = frame.replace(b"\x00\x21" + ip, ppp_protocol(ip) + ip)
    assert found(1, frame, ip) == 5


def test_pppoe_with_a_compressed_protocol() -> None:
    frame = MAC + b"\x88\x64\x11\x00\x00\x01" + struct.pack(">H", len(V4) + 1) + b"\x21" + V4
    assert found(1, frame, V4) == 0


@BOTH
def test_mpls(ip: bytes) -> None:
    layer = IP(V4) if ip is V4 else IPv6(V6)
    assert found(1, raw(Ether() / MPLS(label=16, s=0) / MPLS(label=17, s=1) / layer), ip) == 0


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (Ether() / ARP(), "ARP"),
        (Ether() / Dot1Q(vlan=3) / ARP(), "ARP"),
        (Ether(type=0x88CC) / b"lldp", "LLDP"),
        (Ether(type=0x1234) / b"????", "EtherType 0x1234"),
        (Dot3() / LLC(dsap=0x42, ssap=0x42, ctrl=3) / b"spanning tree", "LLC frame (802.2)"),
        (Dot3() / LLC(dsap=0xAA, ssap=0xAA, ctrl=3) / SNAP(OUI=12) / b"CDP", "LLC frame (802.2)"),
        (Ether() / PPPoED(), "PPPoE discovery"),
        (Ether(type=0x8864) / b"\x11\xa7\x00\x01\x00\x00", "PPPoE control frame"),
        (Ether() / PPPoE() / PPP(proto=0xC021) / b"lcp", "PPP LCP"),
        (Ether() / PPPoE() / PPP(proto=0x00FD) / b"zip", "PPP protocol 0x00fd"),
        (Ether(type=0x8847) / b"\x00\x01\x01\x40\x00\x00\x00\x00", "MPLS without IP"),
        (Ether(type=0x8847) / (b"\x00\x01\x00\x40" * 9), "more than 8 tags before the IP header"),
    ],
)
def test_frames_without_ip_have_a_reason(frame: object, words: str) -> None:
    assert why(1, raw(frame)) == words


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        MAC,
        MAC + b"\x08",
        MAC + b"\x81\x00",
        MAC + b"\x81\x00\x00",
        MAC + b"\x81\x00\x00\x01\x08",
        MAC + b"\x88\x64\x11\x00\x00",
        MAC + b"\x88\x64\x11\x00\x00\x01\x00\x00",
        MAC + b"\x88\x64\x11\x00\x00\x01\x00\x00\x00",
        MAC + b"\x88\x47\x00\x00\x01",
        MAC + b"\x05\xdc\xaa\xaa\x03\x00\x00\x00\x08",
    ],
)
def test_cut_frames_have_a_reason(frame: bytes) -> None:
    assert why(1, frame) == "link header cut short"


def test_a_vlan_is_told_also_of_a_frame_without_ip() -> None:
    assert locate(1, raw(Ether() / Dot1Q(vlan=3) / ARP()))[1] == 3


# Other link types.


@BOTH
@pytest.mark.parametrize("link", [12, 14, 101, 228, 229])
def test_raw_ip(link: int, ip: bytes) -> None:
    assert locate(link, ip) == (0, 0)
    assert why(link, b"") == "link header cut short"


@pytest.mark.parametrize("link", [0, 108])
@pytest.mark.parametrize("order", ["<I", ">I"])
@pytest.mark.parametrize("family", [2, 10, 24, 28, 30])
def test_loopback_in_both_byte_orders(link: int, order: str, family: int) -> None:
    assert locate(link, struct.pack(order, family) + V6) == (4, 0)


def test_loopback_without_ip() -> None:
    assert why(0, struct.pack("<I", 7)) == "address family 7"
    assert why(0, struct.pack(">I", 7)) == "address family 7"
    assert why(0, b"\x02\x00\x00") == "link header cut short"


def sll(protocol: int, hardware: int = 1) -> bytes:
    return struct.pack(">HHH8sH", 0, hardware, 6, bytes(8), protocol)


def sll2(protocol: int, hardware: int = 1) -> bytes:
    return struct.pack(">HHIHBB8s", protocol, 0, 3, hardware, 0, 6, bytes(8))


@pytest.mark.parametrize(("link", "size"), [(113, 16), (276, 20)])
def test_linux_cooked(link: int, size: int) -> None:
    head = sll if link == 113 else sll2
    assert len(head(0)) == size
    assert locate(link, head(0x0800) + V4) == (size, 0)
    assert locate(link, head(0x86DD, hardware=772) + V6) == (size, 0)
    assert found(link, head(0x8100) + b"\x00\x2a\x08\x00" + V4, V4) == 42
    assert found(link, head(0x88A8) + b"\x00\x01\x81\x00\x00\x02\x86\xdd" + V6, V6) == 4098
    assert why(link, head(0x0806) + b"arp") == "ARP"
    assert why(link, head(4) + b"\x42\x42\x03") == "LLC frame (802.2)"
    assert why(link, head(0, hardware=824)) == "Linux cooked frame of hardware type 824"
    assert why(link, head(0x8100) + b"\x00") == "link header cut short"
    for cut in range(size):
        assert why(link, head(0x0800)[:cut]) == "link header cut short"


@BOTH
def test_ppp(ip: bytes) -> None:
    protocol = ppp_protocol(ip)
    for link in (9, 50):
        assert found(link, protocol + ip, ip) == 0
        assert found(link, b"\xff\x03" + protocol + ip, ip) == 0
        assert found(link, protocol[1:] + ip, ip) == 0
    assert found(50, b"\x0f\x00" + ethertype(ip) + ip, ip) == 0
    assert found(51, b"\x11\x00\x00\x01\x00\x00" + protocol + ip, ip) == 0
    assert found(104, b"\x8f\x00" + ethertype(ip) + ip, ip) == 0
    assert found(166, b"\x01\x03" + protocol + ip, ip) == 0
    assert found(204, b"\x00\xff\x03" + protocol + ip, ip) == 0
    assert why(204, b"\x00\xff\x03\xc0\x23") == "PPP PAP"
    assert why(9, b"\xff\x03") == "link header cut short"
    assert why(9, b"\xff\x03\x00") == "link header cut short"


def test_ppp_with_mpls_and_as_scapy_writes_it() -> None:
    assert found(9, b"\x02\x81" + b"\x00\x01\x01\x40" + V4, V4) == 0
    assert found(9, raw(HDLC() / PPP() / IP(V4)), V4) == 0


@pytest.mark.parametrize("order", ["<", ">"])
def test_netfilter_log(order: str) -> None:
    def attribute(kind: int, value: bytes) -> bytes:
        size = len(value) + 4
        return struct.pack(order + "HH", size, kind) + value + bytes(-size % 4)

    head = b"\x02\x00\x00\x01" + attribute(1, b"\x08\x00\x03\x00") + attribute(10, b"prefix\x00")
    assert found(239, head + attribute(9, V4), V4) == 0
    assert why(239, head) == "NFLOG message without a packet"
    assert why(239, b"\x02\x00\x00\x01\x00\x00\x00\x00") == "NFLOG message without a packet"
    assert why(239, b"\x02") == "link header cut short"


def test_a_link_type_that_nobody_knows_says_so() -> None:
    place, vlan = locate(105, V4)
    assert not_supported(place)
    assert vlan == 0
    assert reason(place) == "link type 105 is not supported"
    assert not not_supported(locate(1, MAC + b"\x08\x06")[0])
    assert not not_supported(locate(1, MAC + b"\x08\x00")[0])


def places(path: Path) -> list[Place]:
    records = read_capture(reader(path.read_bytes()))
    return [locate(link, data) for _, link, data, _ in records]


def test_shared_captures_with_vlans_and_pppoe(shared: Path) -> None:
    vlans = Counter(vlan for _, vlan in places(shared / "captures/vlan-collisions.pcap"))
    assert vlans == {0: 14, 42: 14, 10 << 12 | 20: 14}
    offsets = Counter(places(shared / "captures/pppoe-over-qinq.pcap"))
    assert set(offsets) == {(14 + 4 + 4 + 8, 0xE78 << 12 | 0x9AA)}


def test_shared_captures_without_surprise(shared: Path) -> None:
    reasons: Counter[str] = Counter()
    for path in (shared / "captures").glob("*.pcap*"):
        reasons.update(reason(place) for place, _ in places(path) if place < 0)
    assert reasons == {"ARP": 137, "LLC frame (802.2)": 4, "RARP": 1}
