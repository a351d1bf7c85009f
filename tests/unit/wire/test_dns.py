"""The DNS cursor: what it reads, where it stops, and that it agrees with dnslib."""

import struct
from pathlib import Path

import pytest
from dnslib import DNSRecord
from helpers.captures import dns_payloads
from helpers.dns import (
    Q_NAME,
    answer_bytes,
    ask_bytes,
    ip,
    labels,
    raw_message,
    raw_record,
    rr,
    service_data,
    wire,
)

from knp_py.errors import DnsError
from knp_py.model.net import format_address, parse_address
from knp_py.wire import dns

A_1 = raw_record(Q_NAME, "A", ip("1.1.1.1"))
A_2 = raw_record(Q_NAME, "A", ip("2.2.2.2"))


def folded(text: str) -> bytes:
    return wire(text)[:-1]


def shown(message: dns.Message) -> list[str]:
    """Addresses of a message as text, in order."""
    return [format_address(a) for record in message.answers for a in record.v4 + record.v6]


# Queries and responses as others encode them.


def test_query() -> None:
    message = dns.parse_query(ask_bytes("WWW.Example.com", "AAAA", ident=4711))
    assert message == dns.Message(
        4711, False, 0, 0, False, dns.Question(folded("www.example.com"), dns.AAAA, 1)
    )


def test_response_with_a_chain() -> None:
    data = answer_bytes(
        "www.ex", [rr("www.ex CNAME cdn.ex", 40), rr("cdn.ex A 1.1.1.1", 200)], ident=7
    )
    message = dns.parse_response(data)
    assert message.id == 7
    assert message.answers == (
        dns.Record(folded("www.ex"), dns.CNAME, 40, target=folded("cdn.ex")),
        dns.Record(folded("cdn.ex"), dns.A, 200, (parse_address("1.1.1.1"),)),
    )
    assert message.damage is None


def test_aaaa() -> None:
    message = dns.parse_response(answer_bytes("a.ex", [rr("a.ex AAAA 2001:db8::1")], "AAAA"))
    assert message.answers[0].v6 == (parse_address("2001:db8::1"),)
    assert message.answers[0].v4 == ()


def test_header_bits() -> None:
    message = dns.parse_message(raw_message(wire("a.ex"), flags=0x8000 | 5 << 11 | 0x0200 | 3))
    assert (message.opcode, message.rcode, message.truncated) == (5, 3, True)


def test_query_where_a_response_should_be() -> None:
    with pytest.raises(DnsError, match="a query where"):
        dns.parse_response(ask_bytes("a.ex"))
    with pytest.raises(DnsError, match="a response where"):
        dns.parse_query(answer_bytes("a.ex"))


def test_answers_of_a_failure_are_not_read() -> None:
    assert dns.parse_message(raw_message(wire("a.ex"), [A_1], flags=0x8183)).answers == ()


def test_other_sections_are_never_read() -> None:
    data = raw_message(wire("a.ex"), [A_1], arcount=1) + b"\xff\xff\xff"
    message = dns.parse_response(data)
    assert (shown(message), message.damage) == (["1.1.1.1"], None)


def test_other_classes_and_types_are_passed_over() -> None:
    records = [
        raw_record(Q_NAME, "A", ip("9.9.9.9"), rclass=3),
        raw_record(Q_NAME, 16, b"\x03txt"),
        raw_record(Q_NAME, "A", b"", rclass=254),
        A_1,
    ]
    assert shown(dns.parse_response(raw_message(wire("a.ex"), records))) == ["1.1.1.1"]


def test_ttl_with_the_top_bit_is_zero() -> None:
    record = raw_record(Q_NAME, "A", ip("1.1.1.1"), ttl=(1 << 31) + 1)
    assert dns.parse_response(raw_message(wire("a.ex"), [record])).answers[0].ttl == 0


# Damage: the records before it stay.


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (A_2[:-1], "run over the end"),
        (A_2[:8], "record cut short"),
        (b"", "name runs over the end"),
        (raw_record(Q_NAME, "A", ip("2.2.2.2"), length=400), "run over the end"),
        (raw_record(Q_NAME, "A", ip("2.2.2.2") + b"\0"), "A record of 5 bytes"),
        (raw_record(Q_NAME, "A", b""), "A record of 0 bytes"),
        (raw_record(Q_NAME, "AAAA", ip("2.2.2.2")), "AAAA record of 4 bytes"),
        (raw_record(Q_NAME, "CNAME", wire("b.ex") + b"\0"), "CNAME record longer"),
        (raw_record(Q_NAME, "CNAME", wire("b.ex"), length=1) + A_2, "CNAME record longer"),
        (raw_record(b"\xc0\xff", "A", ip("2.2.2.2")), "not point backwards"),
        (raw_record(b"\xc0\x00", "A", ip("2.2.2.2")), "not point backwards"),
        (raw_record(b"\x41" + b"a" * 65 + b"\0", "A", ip("2.2.2.2")), "unknown label type"),
        (raw_record(b"\x80\0", "A", ip("2.2.2.2")), "unknown label type"),
        (raw_record(labels(*[b"a" * 63] * 4), "A", ip("2.2.2.2")), "longer than 255"),
        (raw_record(b"\x02a", "A", b""), None),  # reads on into its own fields, and must not
    ],
)
def test_reading_stops_at_damage(bad: bytes, why: str | None) -> None:
    message = dns.parse_response(raw_message(wire("a.ex"), [A_1, bad], ancount=3))
    assert shown(message) == ["1.1.1.1"]
    assert message.damage is not None
    assert why is None or why in message.damage


def test_data_are_never_read_as_records() -> None:
    # A length of 16 takes in what follows; a reader that takes 4 bytes anyway would go on
    # in the middle and find a stranger's record.
    inner = raw_record(Q_NAME, "A", ip("6.6.6.6"))
    data = raw_message(wire("a.ex"), [raw_record(Q_NAME, "A", ip("1.1.1.1") + inner)], ancount=2)
    assert shown(dns.parse_response(data)) == []
    assert "6.6.6.6" in str(DNSRecord.parse(data))


def test_answer_count_beyond_the_message() -> None:
    message = dns.parse_response(raw_message(wire("a.ex"), [A_1, A_2], ancount=65535))
    assert shown(message) == ["1.1.1.1", "2.2.2.2"]
    assert message.damage == "name runs over the end"


# Nothing at all.


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "shorter than a header"),
        (b"\0" * 11, "shorter than a header"),
        (raw_message(wire("a.ex"), qdcount=0), "no question"),
        (raw_message(wire("a.ex") + b"\0\1\0\1" + wire("b.ex"), qdcount=2), "more than one"),
        (raw_message(b"\xc0\x20"), "not point backwards"),
        (raw_message(b"\xc0\x0c"), "not point backwards"),
        (raw_message(b"\x01a\xc0\x0c"), "not point backwards"),
        (raw_message(wire("a.ex"))[:-1], "question cut short"),
        (raw_message(wire("a.ex"))[:15], "runs over the end"),
        (raw_message(labels(b"a" * 63, b"a" * 63, b"a" * 63, b"a" * 62)), "longer than 255"),
        (raw_message(b"\x40" + b"a" * 64 + b"\0"), "unknown label type"),
    ],
)
def test_broken_header_or_question(data: bytes, why: str) -> None:
    with pytest.raises(DnsError, match=why):
        dns.parse_message(data)


def test_name_of_255_bytes() -> None:
    name = labels(b"a" * 63, b"a" * 63, b"a" * 63, b"a" * 61)
    assert len(name) == 255
    text = dns.host_name(dns.parse_message(raw_message(name)).question.name)
    assert text is not None
    assert len(text) == 253


# Pointers.


def test_pointers_into_the_middle_of_names() -> None:
    question = wire("www.cdn.ex")
    cdn = b"\xc0\x10"  # 12 + 1 + len("www")
    records = [
        raw_record(Q_NAME, "CNAME", b"\x01b" + cdn),
        raw_record(b"\x01B" + cdn, "A", ip("1.1.1.1")),
    ]
    first, second = dns.parse_response(raw_message(question, records)).answers
    assert dns.show_name(first.target) == "b.cdn.ex"
    assert second.owner == first.target


def test_pointer_to_a_pointer() -> None:
    # The second record's owner points at the first's, which is a pointer itself.
    question = wire("a.ex")
    first_owner = struct.pack("!H", 0xC000 | 12 + len(question) + 4)
    data = raw_message(question, [A_1, raw_record(first_owner, "A", ip("2.2.2.2"))])
    assert {record.owner for record in dns.parse_response(data).answers} == {folded("a.ex")}


def test_remembered_names_do_not_lengthen_names() -> None:
    # Each owner adds 63 bytes to the one before it, by a pointer to a name read before.
    question = wire("ex")
    records: list[bytes] = []
    at = 12 + len(question) + 4
    pointer = 12
    for _ in range(6):
        record = raw_record(
            bytes((62,)) + b"a" * 62 + struct.pack("!H", 0xC000 | pointer), "A", ip("1.1.1.1")
        )
        records.append(record)
        pointer = at
        at += len(record)
    message = dns.parse_response(raw_message(question, records))
    assert [len(record.owner) for record in message.answers] == [66, 129, 192]
    assert message.damage == "name is longer than 255 bytes"


def test_many_pointers_in_a_row() -> None:
    chain = b""
    at = 12 + len(wire("a.ex")) + 4 + 12
    previous = 12
    for _ in range(3000):
        chain += struct.pack("!H", 0xC000 | previous)
        previous = at
        at += 2
    last = struct.pack("!H", 0xC000 | previous)
    data = raw_message(
        wire("a.ex"),
        [raw_record(Q_NAME, 10, chain), raw_record(last, "A", ip("1.1.1.1"))],
    )
    assert dns.parse_response(data).answers[0].owner == folded("a.ex")
    with pytest.raises(RecursionError):
        DNSRecord.parse(data)


def test_work_is_bounded() -> None:
    # Owners of 127 labels each, none of which can be remembered for another.
    long = b"\x01a" * 126 + b"\0"
    data = raw_message(wire("a.ex"), [raw_record(long, 10, b"")] * 600)
    assert dns.parse_response(data).damage == "too many labels and pointers"
    ordinary = raw_message(wire("a.ex"), [A_1] * 4000)
    assert len(dns.parse_response(ordinary).answers) == 4000


# Names as text.


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (folded("www.ex"), "www.ex"),
        (labels(b"_sip", b"xn--bcher-kva", b"ex")[:-1], "_sip.xn--bcher-kva.ex"),
        (b"", None),
        (labels(b"www.ex")[:-1], None),
        (labels(b"ww\0", b"ex")[:-1], None),
        (labels(b"*", b"ex")[:-1], None),
        (labels("b\u00fccher".encode(), b"ex")[:-1], None),
        (labels(b"a b", b"ex")[:-1], None),
        (b"\x31" + b"a" * 0x31, "a" * 0x31),  # a length byte that is a digit
        (b"\x2d" + b"a" * 0x2D, "a" * 0x2D),  # and one that is a hyphen
        (b"\x02\x01a", None),
    ],
)
def test_host_name(name: bytes, text: str | None) -> None:
    assert dns.host_name(name) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"", "."),
        (folded("www.ex"), "www.ex"),
        (labels(b"www.ex")[:-1], r"www\.ex"),
        (labels(b"a\0\\", b"ex")[:-1], r"a\000\\.ex"),
        (labels(b"\xfc", b"ex")[:-1], r"\252.ex"),
    ],
)
def test_show_name(name: bytes, text: str) -> None:
    assert dns.show_name(name) == text


# Service bindings.

HINT4 = (4, ip("1.1.1.1") + ip("2.2.2.2"))
HINT6 = (6, ip("2001:db8::1"))


def service(data: bytes) -> dns.Message:
    return dns.parse_response(
        raw_message(wire("a.ex"), [raw_record(Q_NAME, "HTTPS", data), A_1], rtype="HTTPS")
    )


def test_hints() -> None:
    message = service(service_data(1, wire("b.ex"), (1, b"\x02h2"), HINT4, HINT6))
    record = message.answers[0]
    assert record.rtype == dns.HTTPS
    assert [format_address(a) for a in record.v4] == ["1.1.1.1", "2.2.2.2"]
    assert [format_address(a) for a in record.v6] == ["2001:db8::1"]


def test_alias_mode_has_no_hints() -> None:
    record = service(service_data(0, wire("b.ex"), HINT4)).answers[0]
    assert (record.v4, record.v6) == ((), ())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\0\1",
        b"\0\1" + b"\x05b",
        b"\0\1" + b"\xc0\xff",
        service_data(1, b"\0", (4, b"")),
        service_data(1, b"\0", (4, b"\1\1\1")),
        service_data(1, b"\0", (6, ip("1.1.1.1"))),
        service_data(1, b"\0", HINT6, HINT4),
        service_data(1, b"\0", HINT4, HINT4),
        service_data(1, b"\0", HINT4) + b"\0",
        service_data(1, b"\0") + struct.pack("!HH", 4, 400) + ip("1.1.1.1"),
        service_data(1, b"\0", (1, b"\x09h2"), HINT4),
        service_data(1, b"\0", (1, b""), HINT4),
    ],
)
def test_malformed_service_records_are_left_out(data: bytes) -> None:
    message = service(data)
    assert shown(message) == ["1.1.1.1"]
    assert [record.rtype for record in message.answers] == [dns.A]
    assert (message.skipped, message.damage) == (1, None)


# Captures, and dnslib's opinion of them.


def test_agrees_with_dnslib_on_what_it_encodes() -> None:
    records = [
        rr("www.example.com CNAME a.b.example.net"),
        rr("a.b.example.net A 192.0.2.1"),
        rr("a.b.example.net AAAA 2001:db8::5"),
    ]
    data = answer_bytes("www.example.com", records)
    theirs = [
        (str(record.rname).lower().removesuffix("."), record.rtype, record.ttl)
        for record in DNSRecord.parse(data).rr
    ]
    ours = [(dns.show_name(r.owner), r.rtype, r.ttl) for r in dns.parse_response(data).answers]
    assert ours == theirs


NO_MORE = "question: name runs over the end"


@pytest.mark.parametrize(
    ("capture", "found"),
    [
        ("dns_fwdptr.pcap", ["more than one question"]),
        ("max-compression-depth.pcap", ["7 records"]),
        ("dns-corrupt.pcap", ["0 records", "2 records"]),  # the damage is in the additional
        (
            "dns-invalid-names.pcap",
            [NO_MORE, "question: compression pointer does not point backwards", NO_MORE],
        ),
        ("svcb-alpn-malformed-len-too-long.pcap", ["0 records", "0 records, 1 skipped"]),
        ("mdns.pcap", ["more than one question"] * 12 + ["no question"] * 6),
    ],
)
def test_malformed_captures(shared: Path, capture: str, found: list[str]) -> None:
    said = []
    for payload in dns_payloads(shared / "captures" / capture):
        try:
            message = dns.parse_message(payload)
        except DnsError as error:
            said.append(str(error))
        else:
            said.append(f"{len(message.answers)} records")
            said[-1] += f", {message.skipped} skipped" if message.skipped else ""
            assert message.damage is None
    assert sorted(said) == sorted(found)
