"""Marks of real connections, cleared: every protocol, both families, our bits only."""

import re
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from helpers.netspace import alone, needs, run

from knp_py.adapters.conntrack import clear_marks, forget_connections
from knp_py.model.net import parse_address

TABLE = Path("/proc/net/nf_conntrack")
pytestmark = [
    *needs("nft"),
    pytest.mark.skipif(
        not TABLE.exists(), reason="needs CONFIG_NF_CONNTRACK_PROCFS to see marks by"
    ),
]

MASK = 0x00FF_FF00
BEFORE, AFTER = 0x1234_5678, 0x1200_0078
RULES = """\
table inet marking {
  chain out {
    type filter hook output priority 0;
    ct state new ct mark set 0x12345678
  }
}
"""
SCTP_INIT = struct.pack("!HHII", 4000, 5000, 0, 0) + struct.pack(
    "!BBHIIHHI", 1, 0, 20, 7, 65536, 1, 1, 1
)
ESP = struct.pack("!II", 7, 1) + bytes(32)
ECHO, ECHO6 = struct.pack("!BBHHH", 8, 0, 0xF7FC, 3, 0), struct.pack("!BBHHH", 128, 0, 0, 3, 0)


@pytest.fixture(autouse=True)
def _space() -> Iterator[None]:
    with alone():
        run("nft", "-f", "-", text=RULES)
        yield


def marks() -> dict[tuple[str, str], set[int]]:
    """Marks of all connections, by family and protocol number."""
    found: dict[tuple[str, str], set[int]] = {}
    for line in TABLE.read_text().splitlines():
        family, _, _, number, *_ = line.split()
        mark = re.search(r" mark=(\d+)", line)
        assert mark is not None
        found.setdefault((family, number), set()).add(int(mark[1]))
    return found


def raw(family: int, protocol: int, data: bytes) -> None:
    with socket.socket(family, socket.SOCK_RAW, protocol) as sock:
        sock.sendto(data, ("127.0.0.1" if family == socket.AF_INET else "::1", 0))


def connect_all(stack: ExitStack) -> None:
    """One connection of every kind."""
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        server = stack.enter_context(socket.create_server((host, 4000), family=family))
        client = stack.enter_context(socket.create_connection((host, 4000), timeout=60))
        stack.enter_context(server.accept()[0])
        client.sendall(b"x")
        udp = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        udp.bind((host, 5000))
        udp.sendto(b"x", (host, 5001))
        raw(family, 132, SCTP_INIT)
        raw(family, 50, ESP)
    raw(socket.AF_INET, socket.IPPROTO_ICMP, ECHO)
    raw(socket.AF_INET6, socket.IPPROTO_ICMPV6, ECHO6)


KINDS = {
    *(("ipv4", number) for number in ("1", "6", "17", "50", "132")),
    *(("ipv6", number) for number in ("58", "6", "17", "50", "132")),
}


def test_our_bits_go_and_no_other() -> None:
    with ExitStack() as stack:
        connect_all(stack)
        assert marks() == {kind: {BEFORE} for kind in KINDS}
        entries = len(TABLE.read_text().splitlines())
        assert clear_marks(MASK) == entries
        assert marks() == {kind: {AFTER} for kind in KINDS}
        assert clear_marks(MASK) == 0  # they have none any more
        assert clear_marks(0x3000_0000) == entries
        assert marks() == {kind: {0x0200_0078} for kind in KINDS}
        assert len(TABLE.read_text().splitlines()) == entries


def test_a_connection_goes_on_whose_mark_is_cleared() -> None:
    with (
        socket.create_server(("127.0.0.1", 4000)) as server,
        socket.create_connection(("127.0.0.1", 4000), timeout=60) as client,
    ):
        peer, _ = server.accept()
        with peer:
            peer.settimeout(20)
            assert clear_marks(MASK) == 1
            client.sendall(b"still here")
            assert peer.recv(64) == b"still here"
            assert marks() == {("ipv4", "6"): {AFTER}}


def test_what_has_none_of_our_bits_is_left_alone() -> None:
    run("nft", "-f", "-", text="flush ruleset\n" + RULES.replace("0x12345678", "0x120000ff"))
    with ExitStack() as stack:
        connect_all(stack)
        assert clear_marks(MASK) == 0
        assert marks() == {kind: {0x1200_00FF} for kind in KINDS}


def test_connections_of_another_zone_are_found_again() -> None:
    """Some CNIs put every pod's connections into a zone of their own."""
    chain = "chain out { type filter hook output priority -300; ct zone set 7; }"
    zone = f"table inet zone {{\n{chain}\n}}\n"
    run("nft", "-f", "-", text=zone)
    with ExitStack() as stack:
        connect_all(stack)
        assert all(" zone=7 " in line for line in TABLE.read_text().splitlines())
        assert clear_marks(MASK) == len(TABLE.read_text().splitlines())
        assert marks() == {kind: {AFTER} for kind in KINDS}


def test_thousands_at_once() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 5000))
        for port in range(10_000, 13_000):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.bind(("127.0.0.1", port))
                sender.sendto(b"x", ("127.0.0.1", 5000))
    assert clear_marks(MASK) == 3000
    assert marks() == {("ipv4", "17"): {AFTER}}


def test_no_connections_at_all() -> None:
    assert clear_marks(MASK) == 0


def test_connections_of_an_address_end_and_no_others() -> None:
    """Both ends, both families, and what destination NAT has sent there."""
    run("ip", "addr", "add", "10.0.0.1/32", "dev", "lo")
    run("ip", "addr", "add", "10.0.0.2/32", "dev", "lo")
    run("ip", "route", "add", "10.0.0.9", "dev", "lo")
    nat = "type nat hook output priority -100; ip daddr 10.0.0.9 dnat to 10.0.0.1;"
    run("nft", "-f", "-", text=f"table ip nat9 {{\nchain out {{ {nat} }}\n}}\n")

    def send(source: str, target: str) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((source, 0))
            sock.sendto(b"x", (target, 999))

    for source, target in (
        ("10.0.0.1", "10.0.0.2"),
        ("10.0.0.2", "10.0.0.1"),
        ("10.0.0.2", "10.0.0.9"),
        ("10.0.0.2", "10.0.0.2"),
    ):
        send(source, target)
    with ExitStack() as stack:
        connect_all(stack)
        before = len(TABLE.read_text().splitlines())
        assert forget_connections([parse_address("10.0.0.1")]) == 3
        assert len(TABLE.read_text().splitlines()) == before - 3
        assert "10.0.0.1 " not in TABLE.read_text()
        six = sum(line.startswith("ipv6") for line in TABLE.read_text().splitlines())
        assert forget_connections([parse_address("::1")]) == six
        assert "ipv6" not in TABLE.read_text()
        assert forget_connections([]) == 0
