"""DNS under bad input: a value or a ``DnsError``, and nothing learned by accident."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from helpers.captures import dns_payloads
from helpers.dns import (
    Q_NAME,
    P,
    R,
    World,
    answer_bytes,
    ask_bytes,
    ip,
    raw_message,
    raw_record,
    rr,
    service_data,
    wire,
)
from hypothesis import given
from hypothesis import strategies as st

from knp_py.errors import DnsError
from knp_py.model.net import format_address, is_v4, parse_address
from knp_py.wire import dns
from knp_py.wire.dns_stream import MessageStream

CHAIN = answer_bytes(
    "www.example.com",
    [
        rr("www.example.com CNAME cdn.example.net"),
        rr("cdn.example.net CNAME edge.example.net"),
        rr("edge.example.net A 192.0.2.1"),
        rr("edge.example.net A 192.0.2.2"),
        rr("edge.example.net AAAA 2001:db8::1"),
    ],
    authority=[rr("example.net A 192.0.2.53")],
    additional=[rr("ns.example.net A 192.0.2.54")],
)
SERVICE = raw_message(
    wire("a.ex"),
    [
        raw_record(
            Q_NAME,
            "HTTPS",
            service_data(
                1, wire("b.ex"), (1, b"\x02h2\x02h3"), (4, ip("192.0.2.1")), (6, ip("::2"))
            ),
        ),
        raw_record(Q_NAME, 16, b"\x04text"),
        raw_record(Q_NAME, "A", ip("192.0.2.9")),
    ],
    rtype="HTTPS",
    arcount=1,
) + raw_record(b"\0", "OPT", b"")
MESSAGES = [ask_bytes("www.example.com"), answer_bytes("a.ex", rcode=3), CHAIN, SERVICE]


def examined(data: bytes) -> dns.Message | None:
    """The message, if there is one, looked at from every side."""
    try:
        message = dns.parse_message(data)
    except DnsError:
        return None
    for name in (message.question.name, *(record.owner for record in message.answers)):
        assert len(name) <= 254
        assert dns.show_name(name)
        text = dns.host_name(name)
        assert text is None or (text.isascii() and len(text) <= 253 and wire(text)[:-1] == name)
    for record in message.answers:
        assert 0 <= record.ttl < 1 << 31
        assert all(is_v4(address) for address in record.v4)
        assert all(0 <= address < 1 << 128 for address in record.v6)
    return message


def all_prefixes(data: bytes) -> None:
    whole = examined(data)
    for size in range(len(data)):
        part = examined(data[:size])
        if part is not None and whole is not None:
            assert part.question == whole.question
            assert part.answers == whole.answers[: len(part.answers)]


def edits(messages: list[bytes]) -> st.SearchStrategy[bytes]:
    """A message with some bytes changed, cut off at some place, and something behind it."""

    def edit(message: bytes, changes: list[tuple[int, int]], keep: int, more: bytes) -> bytes:
        made = bytearray(message)
        for at, byte in changes:
            made[at % len(made)] = byte
        return bytes(made[: max(0, len(made) - keep)]) + more

    return st.builds(
        edit,
        st.sampled_from(messages),
        st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=6),
        st.integers(0, 40),
        st.binary(max_size=20),
    )


@pytest.mark.parametrize("data", MESSAGES)
def test_prefixes(data: bytes) -> None:
    all_prefixes(data)


def test_prefixes_of_captures(shared: Path) -> None:
    for path in sorted((shared / "captures").glob("*dns*.pcap")):
        for payload in list(dns_payloads(path))[:12]:
            all_prefixes(payload)


@given(edits(MESSAGES))
def test_mutations(data: bytes) -> None:
    examined(data)


@given(st.binary(max_size=300))
def test_noise(data: bytes) -> None:
    examined(data)
    examined(CHAIN[:12] + data)


LABEL = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True)
NAME = st.lists(LABEL, min_size=1, max_size=5).map(".".join)
V4 = st.integers(1, 0xFFFFFFFF).map(lambda n: format_address(0xFFFF_0000_0000 | n))


@given(
    NAME,
    st.lists(
        st.tuples(NAME, st.sampled_from(["A", "CNAME"]), V4, NAME, st.integers(0, 9999)),
        max_size=5,
    ),
)
def test_reads_what_dnslib_writes(
    name: str, records: list[tuple[str, str, str, str, int]]
) -> None:
    made = [
        rr(f"{owner} {kind} {target if kind == 'CNAME' else address}", ttl)
        for owner, kind, address, target, ttl in records
    ]
    message = dns.parse_response(answer_bytes(name, made))
    assert message.question.name == wire(name.lower())[:-1]
    assert message.damage is None
    assert [(record.owner, record.ttl) for record in message.answers] == [
        (wire(one.owner.lower())[:-1], one.ttl) for one in made
    ]
    for record, one in zip(message.answers, made, strict=True):
        if one.rtype == "A":
            assert record.v4 == (parse_address(one.data),)
        else:
            assert record.target == wire(one.data.lower())[:-1]


PAYLOADS = st.one_of(edits(MESSAGES), st.binary(max_size=60))


@given(st.lists(PAYLOADS, max_size=8))
def test_snooper_never_raises(payloads: list[bytes]) -> None:
    world = World("*.example.com", "*.ex")
    for payload in payloads:
        world.send(P, payload)
        world.receive(P, payload)
        world.snooper.unsolicited("unsolicited", None, parse_address(R), payload, 0.0)
    assert len(world.snooper.events) < 100


@given(edits([CHAIN, SERVICE]), st.integers(0, 2))
def test_what_was_not_asked_teaches_nothing(payload: bytes, difference: int) -> None:
    world = World("*.example.com", "*.ex")
    # The right id and another name, the right name and another id, another client's port.
    world.ask(P, "other.example.org", ident=1)
    world.ask(P, "www.example.com", ident=40_000 + difference, rtype="MX")
    world.receive(P, payload, port=50_000)
    assert len(world.names) == 0


SEGMENT = st.tuples(
    st.booleans(),
    st.integers(0, (1 << 32) - 1) | st.integers(95, 120),
    st.sampled_from([0, 2, 4, 16, 18, 17]),
    st.binary(max_size=30) | st.sampled_from([len(CHAIN).to_bytes(2, "big") + CHAIN, b"\0\x20"]),
)


@given(st.lists(SEGMENT, max_size=20), st.booleans())
def test_segments_never_raise(
    segments: list[tuple[bool, int, int, bytes]], assume_queried: bool
) -> None:
    world = World("*.example.com", assume_queried=assume_queried)
    for from_server, seq, flags, payload in segments:
        world.snooper.segment(
            "flow",
            P,
            parse_address(R),
            from_server=from_server,
            seq=seq,
            flags=flags,
            payload=payload,
            now=0.0,
        )
    talk = world.snooper._talks.get(P.uid)
    if talk is not None:
        assert talk.held == sum(c.held for c in talk.conversations.values())


@given(
    st.lists(st.binary(max_size=40), max_size=8),
    st.integers(0, (1 << 32) - 1),
    st.data(),
)
def test_streams_in_any_cut_and_order(
    messages: list[bytes], start: int, data: st.DataObject
) -> None:
    whole = b"".join(len(m).to_bytes(2, "big") + m for m in messages)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)))) | {0, len(whole)})
    parts = [(at, whole[at:end]) for at, end in pairwise(cuts)]
    parts += [(at, whole[at : at + 9]) for at in data.draw(st.lists(st.integers(0, len(whole))))]
    stream = MessageStream()
    stream.begin(start)
    feed: Callable[[int, bytes], list[bytes]] = stream.feed
    found: list[bytes] = []
    for at, part in data.draw(st.permutations(parts)):
        found += feed((start + at) & 0xFFFFFFFF, part)
    assert found == messages
    assert stream.held == 0
