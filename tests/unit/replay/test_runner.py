from collections.abc import Iterator

import pytest
from helpers.builders import pod
from helpers.judging import snapshot_of
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether

from knp_py.engine.datapath import Datapath
from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.flows import Flow
from knp_py.engine.names import DomainCache
from knp_py.engine.resolvers import parse_trust
from knp_py.engine.snoop import DnsSnooper
from knp_py.errors import PacketError
from knp_py.replay import runner
from knp_py.replay.runner import Replay
from knp_py.wire.source import Record

ETHERNET, ODD = 1, 147


def new_replay(odd_link: runner.OddLink | None = None) -> Replay:
    names = DomainCache()
    path = Datapath(PolicyEngine(names), DnsSnooper(names, trust=parse_trust("auto")))
    path.load(snapshot_of([pod("x/a", "10.0.0.1")]))
    return Replay(path, odd_link=odd_link)


def datagram(seconds: float, sport: int) -> Record:
    data = bytes(Ether() / IP(src="10.0.0.1", dst="192.0.2.1") / UDP(sport=sport, dport=9))
    return round(seconds * 1e9), ETHERNET, data, len(data)


def test_connections_come_in_the_order_they_began() -> None:
    # The first goes on until the end, so it ends last.
    records = [datagram(0, 1)]
    for n in range(2, 12):
        records += [datagram(n * 9, n), datagram(n * 9, 1)]
    numbers = [flow.number for flow in new_replay().run(records)]
    assert numbers == list(range(1, 12))


def test_a_long_connection_does_not_hold_back_the_rest_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "REORDER", 8)
    monkeypatch.setattr(runner, "_BLOCK", 16)

    def records() -> Iterator[Record]:
        for n in range(400):
            yield datagram(n * 2.0, 1)
            yield datagram(n * 2.0, 2 + n)

    replay = new_replay()
    seen: list[Flow] = []
    held = 0
    for flow in replay.run(records()):
        seen.append(flow)
        held = max(held, len(replay._waiting))
    assert sorted(f.number for f in seen) == list(range(1, 402))
    assert seen[0].number != 1
    assert held <= 64


def test_what_is_no_ip_is_counted_by_reason() -> None:
    arp = bytes(Ether() / ARP())
    replay = new_replay()
    records = [(0, ETHERNET, arp, len(arp)), (0, ODD, b"x", 1), (0, ETHERNET, b"", 0)]
    assert list(replay.run(records)) == []
    assert replay.skipped == {
        "ARP": 1, "link type 147 is not supported": 1, "link header cut short": 1,
    }  # fmt: skip
    assert replay.packets == 3


def test_an_odd_link_layer_may_be_known_to_somebody_else() -> None:
    inner = bytes(IP(src="10.0.0.1", dst="192.0.2.1") / UDP(sport=1, dport=9))
    answers: list[bytes | None] = [inner, None]

    def odd(link: int, data: bytes) -> bytes | None:
        assert link == ODD
        if data == b"refuse":
            raise PacketError("link type 147 is not supported")
        return answers.pop(0)

    replay = new_replay(odd_link=odd)
    flows = list(replay.run([(0, ODD, b"a", 1), (0, ODD, b"b", 1), (0, ODD, b"refuse", 6)]))
    assert [f.key.dport for f in flows] == [9]
    assert replay.skipped == {"no IP inside link type 147": 1, "link type 147 is not supported": 1}


def test_every_packet_of_a_connection_is_shown_to_the_listener() -> None:
    shown: list[tuple[int, int]] = []
    records = [datagram(n, 1 + n % 2) for n in range(6)]
    replay = new_replay()
    list(
        replay.run(
            records, lambda flow, record: shown.append((flow.number if flow else 0, record[0]))
        )
    )
    assert shown == [(1 + n % 2, n * 10**9) for n in range(6)]
    assert (replay.first_ns, replay.last_ns) == (0, 5 * 10**9)
