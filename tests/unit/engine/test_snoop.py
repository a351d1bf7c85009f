"""Overheard DNS: what counts, what is only counted, and what it may cost.

The rules one by one are in test_fqdn_rules.py; here is what they leave open.
"""

import pytest
from helpers.builders import pod
from helpers.dns import (
    Q_NAME,
    P,
    Q,
    R,
    Rr,
    World,
    answer_bytes,
    ask_bytes,
    ip,
    raw_message,
    raw_record,
    rr,
    wire,
)

from knp_py.engine import snoop
from knp_py.engine.resolvers import Trust
from knp_py.engine.snoop import DnsEvent
from knp_py.model.net import parse_address, parse_cidr
from knp_py.model.objects import Pod
from knp_py.model.packet import ACK, RST, SYN

SERVER = parse_address(R)
FLOW = "tcp"


# Queries.


def test_a_repeated_query_is_owed_two_answers() -> None:
    world = World("a.ex")
    for now in (0.0, 5.0):
        world.ask(P, "a.ex", now=now)
    for address in ("1.1.1.1", "2.2.2.2", "3.3.3.3"):
        world.ans(P, "a.ex", f"a.ex A {address}", now=12.0)
    assert world.ok(P, "a.ex", "1.1.1.1", 12.0)
    assert world.ok(P, "a.ex", "2.2.2.2", 12.0)
    assert not world.ok(P, "a.ex", "3.3.3.3", 12.0)
    assert world.counts["unsolicited"] == 1


def test_an_old_query_asked_again_starts_anew() -> None:
    world = World("a.ex")
    world.ask(P, "a.ex", now=0.0)
    world.ask(P, "a.ex", now=100.0)
    world.ans(P, "a.ex", "a.ex A 1.1.1.1", now=100.1)
    world.ans(P, "a.ex", "a.ex A 2.2.2.2", now=100.2)
    assert world.counts["unsolicited"] == 1


@pytest.mark.parametrize(
    "payload",
    [
        answer_bytes("a.ex"),
        raw_message(wire("a.ex"), flags=0x0100, rclass=3),
        raw_message(wire("a.ex"), flags=4 << 11),
        raw_message(b"\x04a.ex\0", flags=0x0100),
    ],
    ids=["response", "class", "opcode", "name"],
)
def test_what_is_no_ordinary_query_is_not_outstanding(payload: bytes) -> None:
    world = World("a.ex")
    world.send(P, payload)
    assert not world.snooper._talk(P.uid).outstanding
    assert world.counts == {}


def test_malformed_queries_are_counted() -> None:
    world = World("a.ex")
    world.send(P, b"\0")
    assert world.counts == {"malformed-query": 1}
    assert world.snooper.events == [
        DnsEvent("malformed-query", "x/p", SERVER, detail="shorter than a header")
    ]


def test_queries_to_strangers_are_not_remembered() -> None:
    world = World("a.ex")
    world.ask(P, "a.ex", server="8.8.8.8")
    assert P.uid not in world.snooper._talks


def test_outstanding_queries_are_bounded_for_each_pod() -> None:
    world = World("*.ex")
    world.ask(Q, "a.ex")
    for number in range(2000):
        world.ask(P, f"h{number}.ex", ident=number)
    assert len(world.snooper._talk(P.uid).outstanding) == snoop._OUTSTANDING_PER_POD
    world.ans(P, "h0.ex", "h0.ex A 1.1.1.1", ident=0)
    world.ans(P, "h1999.ex", "h1999.ex A 2.2.2.2", ident=1999)
    world.ans(Q, "a.ex", "a.ex A 3.3.3.3")
    assert not world.ok(P, "*.ex", "1.1.1.1")
    assert world.ok(P, "*.ex", "2.2.2.2")
    assert world.ok(Q, "*.ex", "3.3.3.3")


# Answers.


def test_a_failure_uses_the_query_up() -> None:
    world = World("a.ex")
    world.ask(P, "a.ex")
    world.ans(P, "a.ex", rcode=3)
    world.ans(P, "a.ex", "a.ex A 1.1.1.1")
    assert world.counts == {"negative": 1, "unsolicited": 1}


@pytest.mark.parametrize(
    "payload",
    [b"junk", raw_message(wire("a.ex"), qdcount=2), ask_bytes("a.ex"), answer_bytes("b.ex")],
    ids=["junk", "two questions", "query", "other name"],
)
def test_what_is_no_answer_leaves_the_query_outstanding(payload: bytes) -> None:
    world = World("a.ex")
    world.ask(P, "a.ex")
    world.receive(P, payload)
    world.ans(P, "a.ex", "a.ex A 1.1.1.1")
    assert world.ok(P, "a.ex", "1.1.1.1")


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"junk", "malformed"),
        (raw_message(wire("a.ex"), flags=0x0100), "not-a-response"),
        (raw_message(wire("a.ex"), flags=0x8180 | 4 << 11), "not-a-query"),
        (raw_message(wire("a.ex"), rclass=3), "not-internet"),
        (raw_message(b"\x04a.ex\0"), "unusable-name"),
        (raw_message(wire("b.ex")), "unsolicited"),
        (raw_message(wire("a.ex"), flags=0x8182), "negative"),
        (raw_message(wire("a.ex")), "empty"),
    ],
)
def test_every_answer_is_counted_by_its_reason(payload: bytes, reason: str) -> None:
    world = World("a.ex")
    world.ask(P, "a.ex")
    world.receive(P, payload)
    assert world.counts == {reason: 1}


def test_counts_of_a_good_answer() -> None:
    world = World("a.ex")
    world.look_up(P, "a.ex", "a.ex A 1.1.1.1", "a.ex A 2.2.2.2", "z.ex A 3.3.3.3")
    assert world.counts == {"learned": 1, "addresses": 2, "orphan": 1}


def test_damage_is_counted_and_what_came_before_is_learned() -> None:
    world = World("a.ex")
    world.ask(P, "a.ex")
    records = [raw_record(Q_NAME, "A", ip("1.1.1.1")), raw_record(Q_NAME, "A", b"\1")]
    world.receive(P, raw_message(wire("a.ex"), records))
    assert world.ok(P, "a.ex", "1.1.1.1")
    assert world.counts == {"damaged": 1, "learned": 1, "addresses": 1}
    assert world.snooper.events[0] == DnsEvent(
        "damaged", "x/p", SERVER, "a.ex", detail="A record of 1 bytes"
    )


def test_addresses_of_one_answer_are_bounded() -> None:
    world = World("a.ex")
    world.ask(P, "a.ex")
    every = [raw_record(Q_NAME, "A", (0x14000000 + n).to_bytes(4, "big")) for n in range(3000)]
    world.receive(P, raw_message(wire("a.ex"), every))
    assert world.counts == {"overfull": 1, "learned": 1, "addresses": 1024}
    assert world.ok(P, "a.ex", "20.0.3.255")


def test_nothing_in_it() -> None:
    world = World("a.ex")
    world.look_up(P, "a.ex")
    assert world.counts == {"empty": 1}


def test_an_answer_whose_time_stamp_is_before_the_query() -> None:
    world = World("a.ex")
    world.ask(P, "a.ex", now=100.0)
    world.ans(P, "a.ex", "a.ex A 1.1.1.1", now=99.9)
    assert world.ok(P, "a.ex", "1.1.1.1", 100.0)


# What is said about it.


def test_hints() -> None:
    world = World("a.ex", trust=Trust(), objects=[])
    world.look_up(P, "a.ex", "a.ex A 1.1.1.1", server="8.8.8.8")
    world.ans(P, "b.ex", "b.ex A 1.1.1.1")
    world.look_up(P, "a.ex", "a.ex A 169.254.169.254", "a.ex A 10.96.0.10", "a.ex A 10.1.0.6")
    said = [(event.reason, event.name, event.hint) for event in world.snooper.events]
    assert said == [
        ("untrusted", "a.ex", "--trusted-resolvers 8.8.8.8/32"),
        ("unsolicited", "b.ex", "--assume-queried"),
        ("special-address", "a.ex", "--allow-special 169.254.169.254/32"),
        ("service-address", "a.ex", None),
        ("pod-address", "a.ex", "--allow-special 10.1.0.6/32"),
    ]
    assert world.snooper.events[2].address == parse_address("169.254.169.254")


def test_unsolicited_datagrams_are_only_counted() -> None:
    world = World("a.ex")
    payload = answer_bytes("a.ex", [rr("a.ex A 1.1.1.1")])
    world.snooper.unsolicited("unsolicited", P, SERVER, payload, 0.0)
    world.snooper.unsolicited("unsolicited", None, SERVER, b"junk", 0.0)
    assert world.counts == {"unsolicited": 2}
    assert world.snooper.events == [
        DnsEvent("unsolicited", "x/p", SERVER, "a.ex", "--assume-queried"),
        DnsEvent("unsolicited", None, SERVER, detail="shorter than a header"),
    ]
    assert not world.ok(P, "a.ex", "1.1.1.1")


def test_events_are_first_occurrences_and_bounded() -> None:
    world = World("a.ex")
    for number in range(100):
        for name in ("a.ex", f"h{number}.ex"):
            world.ans(P, name)
    assert world.counts == {"unsolicited": 200}
    assert len(world.snooper.events) == snoop._EVENTS_PER_KIND
    for number in range(1000):
        who = pod(f"x/p{number}", "10.1.7.7")
        world.snooper.unsolicited("unsolicited", who, SERVER, b"", 0.0)
    assert len(world.snooper.events) == snoop._MAX_EVENTS


def test_assume_queried() -> None:
    world = World("a.ex", assume_queried=True)
    world.ans(P, "a.ex", "a.ex A 1.1.1.1")
    world.ans(P, "a.ex", "a.ex A 2.2.2.2", server="8.8.8.8")
    assert world.ok(P, "a.ex", "1.1.1.1")
    assert not world.ok(P, "a.ex", "2.2.2.2")
    assert world.counts == {"learned": 1, "addresses": 1, "untrusted": 1}


def test_autopath_credits_both_names() -> None:
    world = World("g.ex", "*.cluster.local", autopath=True)
    name = "g.ex.x.svc.cluster.local"
    world.look_up(P, name, f"{name} CNAME g.ex", "g.ex A 1.1.1.1")
    assert world.ok(P, "g.ex", "1.1.1.1")
    assert world.ok(P, "*.cluster.local", "1.1.1.1")


@pytest.mark.parametrize("namespace", ["y", "svc"])
def test_autopath_takes_only_the_pods_own_search_path(namespace: str) -> None:
    world = World("g.ex", autopath=True)
    name = f"g.ex.{namespace}.svc.cluster.local"
    world.look_up(P, name, f"{name} CNAME g.ex", "g.ex A 1.1.1.1")
    assert not world.ok(P, "g.ex", "1.1.1.1")


def test_pods_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snoop, "_MAX_PODS", 3)
    world = World("a.ex")
    tcp = Tcp(world)
    tcp.open()
    for number in range(5):
        world.ask(pod(f"x/p{number}", "10.1.7.7"), "a.ex")
    assert len(world.snooper._talks) == 3
    assert world.snooper._owners == {}


# TCP.


class Tcp:
    """A TCP conversation of a pod with a resolver, segment by segment."""

    def __init__(self, world: World, client: Pod = P, flow: str = FLOW) -> None:
        self.world = world
        self.client = client
        self.flow = flow
        self.seq = {False: 1000, True: 5000}

    def segment(
        self,
        payload: bytes = b"",
        *,
        server: bool = False,
        seq: int,
        flags: int = ACK,
        now: float = 0.0,
    ) -> None:
        self.world.snooper.segment(
            self.flow,
            self.client,
            SERVER,
            from_server=server,
            seq=seq,
            flags=flags,
            payload=payload,
            now=now,
        )

    def open(self) -> "Tcp":
        self.segment(seq=self.seq[False], flags=SYN)
        self.segment(seq=self.seq[True], flags=SYN | ACK, server=True)
        self.seq = {side: (seq + 1) & 0xFFFFFFFF for side, seq in self.seq.items()}
        return self

    def stream(self, data: bytes, *, server: bool = False, size: int = 1460) -> None:
        for at in range(0, len(data), size):
            part = data[at : at + size]
            self.segment(part, server=server, seq=self.seq[server])
            self.seq[server] = (self.seq[server] + len(part)) & 0xFFFFFFFF


def framed(*messages: bytes) -> bytes:
    return b"".join(len(m).to_bytes(2, "big") + m for m in messages)


def exchange(tcp: Tcp, name: str, *records: Rr, ident: int = 1, size: int = 1460) -> None:
    tcp.stream(framed(ask_bytes(name, ident=ident)), size=size)
    tcp.stream(framed(answer_bytes(name, records, ident=ident)), server=True, size=size)


@pytest.mark.parametrize("size", [1, 7, 1460])
def test_tcp(size: int) -> None:
    world = World("a.ex")
    exchange(Tcp(world).open(), "a.ex", rr("a.ex A 1.1.1.1"), size=size)
    assert world.ok(P, "a.ex", "1.1.1.1")
    assert world.snooper._talk(P.uid).held == 0


def test_tcp_data_on_the_syn() -> None:
    world = World("a.ex")
    tcp = Tcp(world)
    query = framed(ask_bytes("a.ex"))
    tcp.segment(query, seq=1000, flags=SYN)
    tcp.segment(seq=5000, flags=SYN | ACK, server=True)
    tcp.segment(query, seq=1001)  # the server did not take it and the client repeats
    tcp.segment(framed(answer_bytes("a.ex", [rr("a.ex A 1.1.1.1")])), seq=5001, server=True)
    assert world.ok(P, "a.ex", "1.1.1.1")


def test_tcp_needs_its_beginning() -> None:
    world = World("a.ex")
    exchange(Tcp(world), "a.ex", rr("a.ex A 1.1.1.1"))
    assert not world.ok(P, "a.ex", "1.1.1.1")
    assert world.counts == {"tcp-midstream": 1}
    assert world.snooper.events[0].hint == "--assume-queried"


def test_tcp_midstream_when_queries_are_assumed() -> None:
    world = World("a.ex", assume_queried=True)
    tcp = Tcp(world)
    tcp.stream(framed(answer_bytes("a.ex", [rr("a.ex A 1.1.1.1")])), server=True)
    assert world.ok(P, "a.ex", "1.1.1.1")


def test_tcp_gap() -> None:
    world = World("a.ex", "b.ex")
    tcp = Tcp(world).open()
    tcp.stream(framed(ask_bytes("a.ex")))
    tcp.seq[True] += 100  # lost
    for _ in range(300):
        tcp.stream(framed(answer_bytes("a.ex", [rr("a.ex A 1.1.1.1")])), server=True)
    assert not world.ok(P, "a.ex", "1.1.1.1")
    assert world.counts == {"tcp-gap": 1}
    assert world.snooper._talk(P.uid).held == 0
    later = Tcp(world, flow="another").open()
    exchange(later, "b.ex", rr("b.ex A 2.2.2.2"))
    assert world.ok(P, "b.ex", "2.2.2.2")


def test_tcp_same_ports_again() -> None:
    world = World("a.ex", "b.ex")
    exchange(Tcp(world).open(), "a.ex", rr("a.ex A 1.1.1.1"))
    again = Tcp(world)
    again.seq = {False: 77, True: 88}
    exchange(again.open(), "b.ex", rr("b.ex A 2.2.2.2"))
    assert world.ok(P, "a.ex", "1.1.1.1")
    assert world.ok(P, "b.ex", "2.2.2.2")


def test_tcp_given_up_and_the_same_ports_again() -> None:
    world = World("a.ex")
    exchange(Tcp(world), "a.ex", rr("a.ex A 1.1.1.1"))
    exchange(Tcp(world).open(), "a.ex", rr("a.ex A 2.2.2.2"))
    assert world.ok(P, "a.ex", "2.2.2.2")


def test_tcp_a_forged_syn_puts_nothing_out_of_step() -> None:
    # A stranger's text, framed as an answer inside the answer, must never be read as one.
    world = World("victim.ex", "text.evil")
    inner = framed(answer_bytes("victim.ex", [rr("victim.ex A 6.6.6.6")], ident=2))
    records = [raw_record(Q_NAME, 16, inner)]
    answer = framed(raw_message(wire("text.evil"), records, rtype=16))
    tcp = Tcp(world).open()
    tcp.stream(framed(ask_bytes("text.evil", "TXT"), ask_bytes("victim.ex", ident=2)))
    cut = answer.index(inner)
    tcp.stream(answer[:cut], server=True)
    tcp.segment(seq=424242, flags=SYN)  # forged by the pod
    tcp.stream(answer[cut:], server=True)
    assert not world.ok(P, "victim.ex", "6.6.6.6")
    assert world.counts == {"tcp-midstream": 1}


def test_tcp_reset_and_forget() -> None:
    world = World("a.ex")
    tcp = Tcp(world).open()
    tcp.stream(b"\x10")
    assert world.snooper._talk(P.uid).held == 1
    tcp.segment(seq=0, flags=RST)
    assert world.snooper._talk(P.uid).held == 0
    assert not world.snooper._owners
    world.snooper.forget("never seen")
    Tcp(world).open()
    world.snooper.forget(FLOW)
    assert not world.snooper._talk(P.uid).conversations


def test_tcp_queries_are_short() -> None:
    world = World("a.ex")
    Tcp(world).open().stream(b"\xff\xff" + bytes(10))
    assert world.counts == {"tcp-oversize": 1}


def test_tcp_conversations_are_bounded() -> None:
    world = World("a.ex")
    for number in range(1000):
        Tcp(world, flow=f"flow {number}").open()
    limit = snoop._CONVERSATIONS_PER_POD
    assert len(world.snooper._talk(P.uid).conversations) == limit
    assert len(world.snooper._owners) == limit
    assert world.counts == {"tcp-overflow": 1000 - limit}


def test_tcp_the_longest_silent_conversation_goes_first() -> None:
    world = World("a.ex")
    first = Tcp(world, flow="first").open()
    Tcp(world, flow="second").open()
    first.stream(b"\0")
    for number in range(snoop._CONVERSATIONS_PER_POD - 1):
        Tcp(world, flow=f"flow {number}").open()
    kept = world.snooper._talk(P.uid).conversations
    assert "first" in kept
    assert "second" not in kept


def test_tcp_bytes_are_bounded_for_each_pod() -> None:
    world = World("a.ex")
    other = Tcp(world, Q, "q").open()
    other.stream(b"\x00")
    for number in range(20):
        tcp = Tcp(world, flow=f"flow {number}").open()
        tcp.stream(b"\xff\xff" + bytes(50_000), server=True)
        assert world.snooper._talk(P.uid).held <= snoop._BYTES_PER_POD
    assert world.counts["tcp-overflow"] > 0
    assert world.snooper._talk(Q.uid).held == 1


def test_tcp_untrusted() -> None:
    world = World("a.ex", trust=Trust("listed"))
    exchange(Tcp(world).open(), "a.ex", rr("a.ex A 1.1.1.1"))
    assert world.counts == {"untrusted": 1}
    assert world.snooper.events[0].name == "a.ex"


# Special addresses, allowed.


def test_allow_special() -> None:
    world = World("a.ex", allow_special=(parse_cidr("169.254.169.254/32"),))
    world.look_up(P, "a.ex", "a.ex A 169.254.169.254")
    assert world.ok(P, "a.ex", "169.254.169.254")


def test_before_any_snapshot() -> None:
    world = World("a.ex")
    fresh = snoop.DnsSnooper(world.names, trust=Trust("any"))
    fresh.query(FLOW, P, SERVER, ask_bytes("a.ex"), 0.0)
    fresh.answer(FLOW, P, SERVER, answer_bytes("a.ex", [rr("a.ex A 1.1.1.1")]), 0.0)
    assert world.ok(P, "a.ex", "1.1.1.1")
