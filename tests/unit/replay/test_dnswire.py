from dnslib import DNSRecord

from knp_py.model.net import format_address, parse_address
from knp_py.replay.dnswire import question_and_answer
from knp_py.wire.dns import parse_query, parse_response


def test_a_and_our_own_parser_agree() -> None:
    addresses = [parse_address("192.0.2.1"), parse_address("192.0.2.2")]
    question, answer = question_and_answer(7, "www.example.com", addresses, ttl=60)
    asked, answered = parse_query(question), parse_response(answer)
    assert (asked.id, asked.question) == (answered.id, answered.question)
    assert [record.v4 for record in answered.answers] == [(a,) for a in addresses]
    assert [record.ttl for record in answered.answers] == [60, 60]
    assert answered.damage is None


def test_dnslib_reads_the_same() -> None:
    address = parse_address("2001:db8::1")
    question, answer = question_and_answer(0x1_0007, "www.example.com", [address], ttl=0, v6=True)
    asked, answered = DNSRecord.parse(question), DNSRecord.parse(answer)
    assert asked.header.id == answered.header.id == 7
    assert str(asked.q.qname) == "www.example.com."
    assert str(answered.rr[0].rdata) == format_address(address)
    assert answered.rr[0].ttl == 0
