"""Link types that only scapy knows."""

import subprocess
import sys

import pytest
from scapy.compat import raw
from scapy.layers.dot11 import Dot11, Dot11Beacon, RadioTap
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import LLC, SNAP

from knp_py.adapters.odd_links import find_ip
from knp_py.errors import PacketError

WLAN, RADIOTAP = 105, 127
FRAME = Dot11(type=2, subtype=0) / LLC() / SNAP()


@pytest.mark.parametrize("ip", [IP(src="10.0.0.1"), IPv6(src="fd00::1")])
def test_ip_in_wireless_frames(ip: IP | IPv6) -> None:
    packet = ip / UDP(dport=53) / b"data"
    assert find_ip(WLAN, raw(FRAME / packet)) == raw(packet)
    assert find_ip(RADIOTAP, raw(RadioTap() / FRAME / packet)) == raw(packet)


def test_the_outermost_ip_packet_counts() -> None:
    error = IP() / ICMP(type=3) / IP() / UDP()
    assert find_ip(WLAN, raw(FRAME / error)) == raw(error)


def test_frames_without_ip() -> None:
    assert find_ip(WLAN, raw(Dot11() / Dot11Beacon())) is None
    for cut in range(30):
        assert find_ip(RADIOTAP, raw(RadioTap() / FRAME / IP() / UDP())[:cut]) is None


def test_a_link_type_that_nobody_knows() -> None:
    with pytest.raises(PacketError, match="link type 147 is not supported"):
        find_ip(147, b"anything")


def test_scapy_is_imported_at_the_first_odd_frame_only() -> None:
    code = (
        "import sys; from knp_py.adapters.odd_links import find_ip; "
        "assert 'scapy' not in sys.modules; find_ip(105, b''); assert 'scapy' in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
