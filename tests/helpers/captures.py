"""Packets of capture files, for tests."""

from collections.abc import Iterator
from pathlib import Path

from knp_py.errors import PacketError
from knp_py.model.packet import Packet, Proto
from knp_py.wire.capture import read_capture
from knp_py.wire.link import locate
from knp_py.wire.packet import parse_ip


def ip_packets(path: Path) -> Iterator[tuple[float, bytes]]:
    """(seconds, IP packet) of every record that holds one."""
    with path.open("rb") as file:
        for ts, link, data, _ in read_capture(file.read, on_problem=lambda _problem: None):
            offset, _ = locate(link, data)
            if offset >= 0:
                yield ts * 1e-9, data[offset:]


def parsed(path: Path) -> Iterator[tuple[float, Packet]]:
    """(seconds, packet with its payload), unreadable ones left out."""
    for ts, data in ip_packets(path):
        try:
            yield ts, parse_ip(data, want_payload=True)
        except PacketError:
            continue


def dns_payloads(path: Path) -> Iterator[bytes]:
    """Payloads of UDP datagrams from or to a DNS port, those of mDNS and LLMNR included."""
    for _, packet in parsed(path):
        if packet.protocol == Proto.UDP and {packet.sport, packet.dport} & {53, 5353, 5355}:
            yield packet.payload
