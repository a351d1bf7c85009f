import msgspec
import pytest
from msgspec import UNSET

from knp_py.verdicts.read import VerdictEntry
from knp_py.verdicts.record import Candidate, Decider, End, Omission
from knp_py.verdicts.summary import Summary, Tally, end_name

ENTRY = VerdictEntry(
    ts=None,
    id=1,
    verdict="deny",
    direction="egress",
    src=End("10.244.1.6", 37368, pod="a/b"),
    dst=End("1.2.3.4", 443, names=("x.example",)),
    family="IPv4",
    protocol="TCP",
    decided_by=Decider("egress", "Admin", "default-deny", 0, "deny-all", "Deny"),
    packets=1,
    bytes=60,
    reason=None,
)


def replaced(**changes: object) -> VerdictEntry:
    return msgspec.structs.replace(ENTRY, **changes)


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (End("10.0.0.1", pod="a/b"), "a/b"),
        (End("10.0.0.1", names=("x", "y")), "10.0.0.1 (x)"),
        (End("10.0.0.1", name="z"), "10.0.0.1 (z)"),
        (End("10.0.0.1", node="n1"), "10.0.0.1 (node n1)"),
        (End("10.0.0.1"), "10.0.0.1"),
        (End(None), "?"),
        (End(None, service="shop/web"), "shop/web"),
    ],
)
def test_end_name(end: End, text: str) -> None:
    assert end_name(end) == text


def test_summary_counts_flows_without_their_source_port() -> None:
    counts = Summary()
    counts.add(ENTRY)
    counts.add(replaced(src=End("10.244.1.6", 40000, pod="a/b")))
    counts.add(replaced(verdict="allow", decided_by=None))
    counts.add(replaced(protocol="ICMP", dst=End("1.2.3.4", UNSET)))
    assert counts.entries == 4
    assert counts.verdicts == {"deny": 3, "allow": 1}
    assert counts.deciders.top() == [
        (("deny", "egress", 'Admin default-deny, rule 0 "deny-all"'), 3),
        (("allow", "egress", "not said in the log"), 1),
    ]
    assert counts.denied.top() == [
        (("a/b", "1.2.3.4 (x.example)", "TCP", "443"), 2),
        (("a/b", "1.2.3.4", "ICMP", ""), 1),
    ]
    assert len(counts.denied.top(1)) == 1


def test_a_tally_keeps_the_frequent_ones_and_the_total() -> None:
    tally = Tally(keys=10)
    for number in range(1000):
        tally.add("frequent")
        tally.add(str(number))
    ((key, count), *rest) = tally.top()
    assert (key, count) == (("frequent",), 1000)
    assert len(rest) <= 20
    assert count + sum(n for _, n in rest) + tally.other == 2000


def test_summary_counts_what_the_agent_says_besides() -> None:
    counts = Summary()
    differs = Candidate("allow", Decider("egress", "Admin", "next", 0))
    counts.add(replaced(enforced=False, shadow=differs))
    counts.add(replaced(enforced=False, verdict="allow", again=True))
    counts.leave_out(Omission(ts=None, omitted={"deny": 4}, seconds=1.0, reason="limit"))
    counts.leave_out(Omission(ts=None, omitted={"deny": 1}, seconds=1.0, reason="limit"))
    assert (counts.entries, counts.dry_run, counts.again) == (2, 1, 1)
    assert counts.shadows.top() == [(("deny", "allow", "egress: Admin next, rule 0"), 1)]
    assert counts.omitted == {"deny": 5}


def test_summary_counts_connections_with_an_unidentified_end_and_the_addresses_apart() -> None:
    counts = Summary()
    counts.add(ENTRY)
    counts.add(replaced(unidentified=("10.244.1.9", "10.244.1.8")))
    counts.add(replaced(unidentified=("10.244.1.9",), verdict="allow"))
    assert counts.unidentified == 2
    assert counts.strangers.top() == [(("10.244.1.9",), 2), (("10.244.1.8",), 1)]
