"""Interfaces behind which addresses are, by the routes of a kernel that is there."""

from collections.abc import Iterator

import pytest
from helpers.netspace import alone, needs, run

from knp_py.adapters.links import links_of, own_addresses
from knp_py.model.net import parse_address

pytestmark = needs()


@pytest.fixture(autouse=True)
def space() -> Iterator[str]:
    with alone() as name:
        yield name


def test_only_what_is_directly_behind_an_interface_counts() -> None:
    for name in ("pod1", "pod2", "uplink"):
        run("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}-far")
        run("ip", "link", "set", name, "up")
        run("ip", "link", "set", f"{name}-far", "up")
    run("ip", "addr", "add", "192.0.2.1/24", "dev", "uplink")
    run("ip", "route", "add", "default", "via", "192.0.2.254")
    run("ip", "route", "add", "10.0.0.1", "dev", "pod1")
    run("ip", "route", "add", "10.0.0.2", "dev", "pod2")
    run("ip", "-6", "route", "add", "fd00::1", "dev", "pod1")

    def links(*addresses: str) -> set[str]:
        return set(links_of(map(parse_address, addresses)))

    assert links("10.0.0.1", "10.0.0.2", "fd00::1") == {"pod1", "pod2"}
    assert links("fd00::1") == {"pod1"}
    assert links("8.8.8.8", "127.0.0.1") == set()  # by a gateway; the loopback
    assert links("2001:db8::1") == set()  # no way at all
    assert links() == set()


def test_the_nodes_own_addresses() -> None:
    loopback = {parse_address("127.0.0.1"), parse_address("::1")}
    run("ip", "link", "set", "lo", "up")
    before = own_addresses()
    assert before <= loopback
    run("ip", "link", "add", "br0", "type", "veth", "peer", "name", "far0")
    run("ip", "link", "set", "br0", "up")
    added = ["10.0.0.1/24", "10.0.0.9/32", "fd00::1/64"]
    for each in added:
        run("ip", "addr", "add", each, "dev", "br0")
    # The other end of a link is not ours.
    run("ip", "addr", "add", "10.1.0.1", "peer", "10.1.0.2", "dev", "br0")
    found = own_addresses() - before
    assert {parse_address(each.split("/")[0]) for each in [*added, "10.1.0.1"]} <= found
    assert parse_address("10.1.0.2") not in found
    for number in range(500):  # more than one message holds
        run("ip", "addr", "add", f"10.2.{number >> 8}.{number & 255}/32", "dev", "br0")
    assert len(own_addresses()) >= 504
