"""Which addresses an answer credits to the question's name."""

import pytest
from helpers.dns import Q_NAME, answer_bytes, ip, raw_message, raw_record, rr, service_data, wire

from knp_py.engine.answers import MAX_CHAIN, Credits, credit
from knp_py.model.net import format_address
from knp_py.wire.dns import parse_response, show_name


def credited(*records: str, rtype: str = "A") -> Credits:
    """An answer to ``a.ex``; each record as ``"owner type data [ttl]"``."""
    made = []
    for text in records:
        owner, kind, data, *ttl = text.split()
        made.append(rr(f"{owner} {kind} {data}", int(ttl[0]) if ttl else 60))
    return credit(parse_response(answer_bytes("a.ex", made, rtype)))


def addresses(found: Credits) -> list[tuple[str, int]]:
    return [(format_address(c.address), c.ttl) for c in found.addresses]


def test_plain() -> None:
    found = credited("a.ex A 1.1.1.1 50", "a.ex A 2.2.2.2 70", "a.ex AAAA 2001:db8::1 90")
    assert addresses(found) == [("1.1.1.1", 50), ("2.2.2.2", 70), ("2001:db8::1", 90)]
    assert [c.v6 for c in found.addresses] == [False, False, True]
    assert (found.orphans, found.alias, found.endless) == ((), None, False)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("ttls", [(100, 40, 200), (40, 100, 200), (100, 200, 40)])
def test_chain_in_any_order(order: tuple[int, ...], ttls: tuple[int, ...]) -> None:
    texts = ["a.ex CNAME b.ex", "b.ex CNAME c.ex", "c.ex A 1.1.1.1"]
    records = [f"{text} {ttl}" for text, ttl in zip(texts, ttls, strict=True)]
    found = credited(*(records[i] for i in order))
    assert addresses(found) == [("1.1.1.1", 40)]
    assert found.alias is not None
    assert show_name(found.alias) == "b.ex"


def test_ttl_is_that_of_the_way_only() -> None:
    found = credited(
        "a.ex CNAME b.ex 100", "b.ex A 1.1.1.1 90", "b.ex CNAME c.ex 10", "c.ex A 2.2.2.2"
    )
    assert addresses(found) == [("1.1.1.1", 90), ("2.2.2.2", 10)]


def test_orphans() -> None:
    found = credited("a.ex A 1.1.1.1", "z.ex A 6.6.6.6", "y.ex CNAME a.ex", "y.ex A 7.7.7.7")
    assert addresses(found) == [("1.1.1.1", 60)]
    assert [show_name(record.owner) for record in found.orphans] == ["z.ex", "y.ex"]


def test_owner_case_does_not_matter() -> None:
    assert addresses(credited("A.eX CNAME B.Ex", "b.eX A 1.1.1.1")) == [("1.1.1.1", 60)]


@pytest.mark.parametrize(
    "loop",
    [
        ("a.ex CNAME a.ex",),
        ("a.ex CNAME b.ex", "b.ex CNAME a.ex"),
        ("a.ex CNAME b.ex", "b.ex CNAME c.ex", "c.ex CNAME b.ex"),
    ],
)
def test_loops(loop: tuple[str, ...]) -> None:
    assert credited("a.ex A 1.1.1.1", *loop, "b.ex A 2.2.2.2") == Credits(endless=True)


def test_longest_chain() -> None:
    hops = [f"h{n}.ex CNAME h{n + 1}.ex" for n in range(1, MAX_CHAIN)]
    chain = ["a.ex CNAME h1.ex", *hops]
    assert len(chain) == MAX_CHAIN
    assert addresses(credited(*chain, f"h{MAX_CHAIN}.ex A 1.1.1.1")) == [("1.1.1.1", 60)]
    longer = [*chain, f"h{MAX_CHAIN}.ex CNAME last.ex", "last.ex A 1.1.1.1"]
    assert credited(*longer).endless


def test_first_of_two_aliases_counts() -> None:
    found = credited("a.ex CNAME b.ex", "a.ex CNAME c.ex", "b.ex A 1.1.1.1", "c.ex A 2.2.2.2")
    assert addresses(found) == [("1.1.1.1", 60)]


def test_any_question_type() -> None:
    assert addresses(credited("a.ex A 1.1.1.1", "a.ex AAAA ::2", rtype="ANY")) == [
        ("1.1.1.1", 60),
        ("::2", 60),
    ]


def test_service_hints_are_the_owners_addresses() -> None:
    data = service_data(1, wire("b.ex"), (4, ip("1.1.1.1")), (6, ip("2001:db8::1")))
    message = raw_message(wire("a.ex"), [raw_record(Q_NAME, "HTTPS", data)], rtype="HTTPS")
    assert addresses(credit(parse_response(message))) == [("1.1.1.1", 60), ("2001:db8::1", 60)]


def test_no_answer() -> None:
    assert credited() == Credits()
