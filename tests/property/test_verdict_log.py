"""The agent's log and the record: two ways to the same bytes, whatever the decision."""

from hypothesis import given
from hypothesis import strategies as st

from knp_py.agent.verdictlog import VerdictLog
from knp_py.model.decision import Decision, NameGrant, Ruling, Verdict
from knp_py.model.net import V4_BASE, V4_LAST, V6_LAST
from knp_py.model.packet import Proto
from knp_py.model.policy import Direction, Tier
from knp_py.verdicts.read import parse_record
from knp_py.verdicts.record import FlowFacts, encode, record

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
maybe = st.none() | texts
keys = st.tuples(texts, texts).map("/".join)
addresses = st.integers(V4_BASE, V4_LAST) | st.integers(0, V6_LAST)
few_addresses = st.sampled_from([0, 1, V4_BASE + 7, V4_LAST, V6_LAST]) | addresses
names = st.lists(texts, max_size=3).map(tuple)

rulings = st.builds(
    Ruling,
    st.booleans(),
    st.sampled_from(Direction),
    st.sampled_from(Tier),
    maybe,
    st.none() | st.integers(0, 9),
    maybe,
    st.sampled_from([None, "Accept", "Deny"]),
    maybe,
    st.lists(keys, max_size=2).map(tuple),
)


@st.composite
def decisions(draw: st.DrawFn, pool: list[Ruling]) -> Decision:
    ruling = draw(st.none() | st.sampled_from(pool))
    reason = draw(maybe if ruling is None else st.one_of(maybe, st.just(ruling.reason)))
    grants = draw(
        st.lists(
            st.builds(NameGrant, texts, texts, few_addresses, st.none(), st.just(9.0)), max_size=2
        )
    )
    return Decision(
        draw(st.sampled_from(Verdict)),
        ruling,
        None,
        ruling,
        reason,
        tuple(grants),
        unidentified=draw(st.lists(few_addresses, max_size=2).map(tuple)),
    )


flows = st.builds(
    FlowFacts,
    ts_ns=st.integers(0, 4_102_444_800_000_000_000) | st.integers(-(10**24), 10**24),
    id=st.integers(-(2**63), 2**63 - 1),
    src=few_addresses,
    dst=few_addresses,
    protocol=st.sampled_from([int(each) for each in Proto]) | st.integers(-1, 255),
    sport=st.integers(0, 65535),
    dport=st.integers(0, 65535),
    src_pod=st.none() | keys | st.just(""),
    dst_pod=st.none() | keys,
    packets=st.integers(0, 2**40),
    octets=st.integers(0, 2**60),
    names=names,
    note=st.none() | texts,
    service=st.none() | keys,
)


@st.composite
def histories(
    draw: st.DrawFn,
) -> list[tuple[Decision, FlowFacts, bool, bool, Decision | None, int]]:
    pool = draw(st.lists(rulings, min_size=1, max_size=3))
    some = draw(st.lists(flows, min_size=1, max_size=3))
    return draw(
        st.lists(
            st.tuples(
                decisions(pool),
                # Twice as often one that was seen before: that is what is remembered.
                st.one_of(st.sampled_from(some), st.sampled_from(some), flows),
                st.booleans(),
                st.booleans(),
                st.one_of(st.none(), st.none(), decisions(pool)),
                st.integers(0, 1),
            ),
            max_size=12,
        )
    )


@given(histories())
def test_the_log_writes_what_the_record_says(
    history: list[tuple[Decision, FlowFacts, bool, bool, Decision | None, int]],
) -> None:
    written: list[bytes] = []
    log = VerdictLog(written.append)
    expected = []
    for decision, flow, enforced, again, shadow, generation in history:
        log.log(
            decision, flow, enforced=enforced, again=again, shadow=shadow, generation=generation
        )
        if shadow is None or shadow.verdict is not decision.verdict:
            told = record(decision, flow, enforced=enforced, again=again, shadow=shadow)
            expected.append(encode(told))
    log.flush(0.0)
    lines = b"".join(written).split(b"\n")
    assert lines == [*expected, b""]
    for line in expected:
        assert encode(parse_record(line)) == line
        assert min(line, default=32) >= 32  # control characters stay escaped
