"""Interfaces behind which addresses are, by the routes of a kernel that is there."""

from collections.abc import Iterator

import pytest
from helpers.netspace import alone, needs, run

from knp_py.adapters.links import links_of
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
