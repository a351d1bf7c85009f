"""From a packet with a question to the mark that is its verdict: one, on every path."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from helpers import ip_bytes
from helpers.builders import accept, address, cnp, deny, domains, networks, node, pods, tcp, udp
from helpers.dns import KUBE_DNS, P, Q, Rr, answer_bytes, ask_bytes, cluster_dns
from helpers.fakes import FakeQueue, FakeTimer
from helpers.judging import snapshot_of
from hypothesis import given
from hypothesis import strategies as st

from knp_py.agent import judge
from knp_py.agent.connections import NamedConnections
from knp_py.agent.judge import Judge, Mode, World
from knp_py.agent.marks import KUBE_PROXY, Ask, Deed, Marks
from knp_py.agent.metrics import Metrics
from knp_py.agent.packetlog import PacketLog
from knp_py.agent.shadow import Shadow, SharedNames
from knp_py.agent.verdictlog import VerdictLog, Which
from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.live import LiveDatapath
from knp_py.engine.names import DomainCache
from knp_py.engine.resolvers import Trust
from knp_py.engine.snoop import DnsSnooper
from knp_py.errors import KernelError
from knp_py.model.changes import ClusterObject
from knp_py.model.net import format_address, parse_cidr
from knp_py.model.packet import ACK, RST
from knp_py.model.packet import SYN as SYN_FLAG
from knp_py.verdicts.logs import LogReader

POD, OTHER = "10.1.0.5", "10.1.0.6"
ALLOWED, DENIED, NAMED = "1.1.1.1", "9.9.9.9", "5.5.5.5"
N1 = node("n1", "192.168.0.1", pod_cidrs=["10.1.0.0/24", "fd00:1::/64"])
N2 = node("n2", "192.168.0.2", pod_cidrs=["10.2.0.0/24"])
OWN = (*parse_cidr("10.1.0.0/24").ranges, *parse_cidr("fd00:1::/64").ranges)

FIREWALL = cnp(
    "firewall",
    egress=[
        accept(pods(), ports=[udp(53), tcp(53)]),
        accept(networks("1.1.1.0/24", "2001:db8:1::/64")),
        deny(networks("0.0.0.0/0", "::/0")),
    ],
)
BY_NAME = cnp(
    "by-name",
    egress=[
        accept(pods(), ports=[udp(53), tcp(53)]),
        accept(networks("1.1.1.0/24")),
        accept(domains("*.ex"), ports=[tcp(443)]),
        deny(networks("0.0.0.0/0")),
    ],
)
SYN = ip_bytes.tcp(POD, 40000, ALLOWED, 443)
REFUSED = ip_bytes.tcp(POD, 40000, DENIED, 443)
TO_NAME = ip_bytes.tcp(POD, 40000, NAMED, 443)
QUERY = ip_bytes.udp(POD, 40000, KUBE_DNS, 53, ask_bytes("a.ex"))
REPLY = ip_bytes.udp(KUBE_DNS, 53, POD, 40000, answer_bytes("a.ex", [Rr("a.ex", "A", NAMED)]))
UNREADABLE = [b"", b"\x45", b"\x75" + bytes(60), b"\x60" + bytes(10), b"\x42" + bytes(40)]
QUESTIONS_OF_NEW = [Ask.JUDGE, Ask.JUDGE_DNS, Ask.UNTRACKED, Ask.AGAIN]


class Court:
    """A judge with everything that it needs, and what came of it."""

    def __init__(
        self,
        *policies: ClusterObject,
        fail_open: bool = True,
        dry_run: bool = False,
        remember: bool = True,
        strict: bool = False,
        candidates: ClusterObject | None = None,
        logged: Which = "all",
        marks: Marks = Marks(),  # noqa: B008  immutable
        loaded: bool = True,
        packets: bool = False,
        seen: bool = False,
    ) -> None:
        self.marks = marks
        self.timer = FakeTimer()
        self.metrics = Metrics(version="test", mode="test")
        self.complaints: list[Exception] = []
        self.adopted: list[tuple[str, int, str, int, int]] = []
        self.refusal: Exception | None = None
        self.cache = DomainCache()
        shared = SharedNames(self.cache)
        names = self.cache if candidates is None else shared.part()
        self.shadow = None if candidates is None else Shadow(shared.part())
        snooper = DnsSnooper(self.cache, trust=Trust())
        self.path = LiveDatapath(PolicyEngine(names), snooper, judge_midstream=True)
        self.connections = NamedConnections() if strict else None
        self._written: list[bytes] = []
        self._log = VerdictLog(
            self._written.append, which="all" if candidates is not None else logged
        )
        self.entries: list[bytes] = []
        self.packets = PacketLog(self.entries.append)
        self.judge = Judge(
            self.path,
            marks,
            Mode(fail_open, dry_run, remember, strict),
            metrics=self.metrics,
            log=self._log,
            timer=self.timer,
            complain=self.complaints.append,
            adopt=self._adopt,
            shadow=self.shadow,
            connections=self.connections,
            logged=logged,
            packets=self.packets if packets else None,
            seen=seen,
        )
        self.generation = 0
        if loaded:
            self.load(*(policies or (FIREWALL,)))
        if self.shadow is not None and candidates is not None:
            self.shadow.load(snapshot_of([P, Q, *cluster_dns(), candidates]))

    def _adopt(self, src: int, sport: int, dst: int, dport: int, *, mark: int) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.adopted.append((format_address(src), sport, format_address(dst), dport, mark))

    def load(self, *objects: ClusterObject) -> None:
        self.generation += 1
        snapshot = snapshot_of([P, Q, N1, N2, *cluster_dns(), *objects])
        self.judge.load(World(snapshot, self.generation, OWN))

    def deed(self, ask: int, data: bytes) -> int:
        """The deed in the verdict; its generation is checked, and that nothing else is set."""
        mark = self.judge.answer(self.marks.bits(ask), data)
        assert mark & self.marks.keep == 0
        deed = self.marks.value(mark)
        number = mark & self.marks.generation
        assert number == (self.marks.packet_generation(max(1, self.generation)) if deed else 0)
        return deed

    def look_up(self) -> None:
        """The pod asks for a.ex and is told."""
        assert self.deed(Ask.JUDGE_DNS, QUERY) == Deed.ACCEPT_REMEMBER
        assert self.deed(Ask.DNS_ANSWER, REPLY) == 0

    def records(self) -> list[dict[str, Any]]:
        self._log.flush(self.timer.time)
        lines = b"".join(self._written).splitlines()
        self._written.clear()
        return [json.loads(line) for line in lines]

    def verdicts(self) -> dict[tuple[str, str], float]:
        """How many verdicts were counted, by verdict and tier."""
        found: dict[tuple[str, str], float] = {}
        for family in self.metrics.families():
            if family.name == "knp_verdicts_total":
                for sample in family.samples:
                    labels = dict(sample.labels)
                    key = labels["verdict"], labels["tier"]
                    found[key] = found.get(key, 0) + sample.value
        return found


# -- what policy says ------------------------------------------------------------------------


@pytest.mark.parametrize("fail_open", [True, False])
@pytest.mark.parametrize(
    ("data", "deed"),
    [
        (SYN, Deed.ACCEPT_REMEMBER),
        (ip_bytes.udp(POD, 1, ALLOWED, 2, b""), Deed.ACCEPT_REMEMBER),
        (ip_bytes.sctp(POD, 1, ALLOWED, 2), Deed.ACCEPT_REMEMBER),
        (ip_bytes.ping(POD, ALLOWED), Deed.ACCEPT),
        (ip_bytes.ip(POD, ALLOWED, 50, bytes(20)), Deed.ACCEPT),  # ESP: no ports to be found by
        (ip_bytes.ip(POD, ALLOWED, 6, b"\0\1\2"), Deed.ACCEPT),  # a TCP header cut short
        (REFUSED, Deed.DENY_REMEMBER),
        (ip_bytes.udp(POD, 1, DENIED, 2, b""), Deed.DENY_REMEMBER),
        (ip_bytes.sctp(POD, 1, DENIED, 2), Deed.DENY_REMEMBER),
        (ip_bytes.ping(POD, DENIED), Deed.DENY),
        (ip_bytes.ip(POD, DENIED, 50, bytes(20)), Deed.DENY),
        (ip_bytes.ip(POD, DENIED, 17, b"\0"), Deed.DENY),
    ],
)
def test_what_is_judged_is_done_and_remembered(data: bytes, deed: Deed, fail_open: bool) -> None:
    assert Court(fail_open=fail_open).deed(Ask.JUDGE, data) == deed
    court = Court(fail_open=fail_open, remember=False)
    assert court.deed(Ask.JUDGE, data) == (Deed.ACCEPT if deed < Deed.DENY else Deed.DENY)


def test_packets_longer_than_what_is_read_of_them() -> None:
    """The queue hands over the first bytes; the header is all that policy needs."""
    whole = ip_bytes.udp(POD, 1, ALLOWED, 2, bytes(60_000))
    assert Court().deed(Ask.JUDGE, whole[:2048]) == Deed.ACCEPT_REMEMBER
    whole = ip_bytes.tcp(POD, 1, DENIED, 2, bytes(60_000))
    assert Court().deed(Ask.JUDGE, whole[:2048]) == Deed.DENY_REMEMBER


def test_untracked_packets_are_judged_and_never_remembered() -> None:
    """Conntrack keeps no mark of theirs, and the rules do not know their direction."""
    court = Court()
    assert court.deed(Ask.UNTRACKED, SYN) == Deed.ACCEPT
    assert court.deed(Ask.UNTRACKED, REFUSED) == Deed.DENY
    # The reply to what was allowed belongs to it.
    assert court.deed(Ask.UNTRACKED, ip_bytes.tcp(ALLOWED, 443, POD, 40000)) == Deed.ACCEPT


def test_dns_is_judged_as_anything_else() -> None:
    court = Court()
    assert court.deed(Ask.JUDGE_DNS, QUERY) == Deed.ACCEPT_REMEMBER
    elsewhere = ip_bytes.udp(POD, 1, DENIED, 53, ask_bytes("a.ex"))
    assert court.deed(Ask.JUDGE_DNS, elsewhere) == Deed.DENY_REMEMBER


# -- names -----------------------------------------------------------------------------------


def test_what_is_accepted_by_name_is_not_remembered_in_the_kernel() -> None:
    court = Court(BY_NAME)
    court.look_up()
    assert court.deed(Ask.JUDGE, TO_NAME) == Deed.ACCEPT
    assert court.deed(Ask.JUDGE, SYN) == Deed.ACCEPT_REMEMBER
    court.timer.pass_by(60)
    assert court.deed(Ask.JUDGE, TO_NAME) == Deed.DENY


def test_a_denial_that_a_name_could_undo_is_not_remembered() -> None:
    """A pod that looks the name up and connects at once must not meet yesterday's answer."""
    court = Court(BY_NAME)
    assert court.deed(Ask.JUDGE, TO_NAME) == Deed.DENY
    court.look_up()
    assert court.deed(Ask.JUDGE, TO_NAME) == Deed.ACCEPT


def test_dns_packets_are_released_whatever_they_are() -> None:
    for fail_open in (True, False):
        court = Court(BY_NAME, fail_open=fail_open)
        for data in (QUERY, REPLY, SYN, *UNREADABLE):
            assert court.deed(Ask.DNS_QUERY, data) == 0
            assert court.deed(Ask.DNS_ANSWER, data) == 0


def test_queries_on_a_connection_that_is_known_count() -> None:
    court = Court(BY_NAME)
    court.deed(Ask.DNS_QUERY, QUERY)
    court.deed(Ask.DNS_ANSWER, REPLY)
    assert court.deed(Ask.JUDGE, TO_NAME) == Deed.ACCEPT


def test_forged_answers_teach_nothing() -> None:
    court = Court(BY_NAME)
    for ask in (Ask.DNS_ANSWER, Ask.DNS_QUERY, Ask.JUDGE, Ask.JUDGE_DNS, Ask.UNTRACKED):
        court.deed(ask, REPLY)
    forged = ip_bytes.udp(OTHER, 53, POD, 40000, answer_bytes("a.ex", [Rr("a.ex", "A", NAMED)]))
    court.deed(Ask.JUDGE, forged)
    court.deed(Ask.DNS_ANSWER, forged)
    assert court.deed(Ask.JUDGE, TO_NAME) == Deed.DENY


# -- what cannot be read, and what goes wrong ------------------------------------------------


@pytest.mark.parametrize("data", UNREADABLE)
@pytest.mark.parametrize("ask", QUESTIONS_OF_NEW)
def test_no_readable_header_is_dropped_in_both_modes(ask: Ask, data: bytes) -> None:
    for fail_open in (True, False):
        court = Court(fail_open=fail_open)
        assert court.deed(ask, data) == Deed.DENY
        assert court.metrics.unreadable == [1]
        assert court.metrics.internal_errors == [0]


class _Broken:
    """An engine that has a bug."""

    def __call__(self, *_: object, **__: object) -> Any:
        raise ZeroDivisionError("a bug")

    log = judge = __call__


def broken(**options: Any) -> Court:
    court = Court(**options)
    for name in ("first", "told"):
        setattr(court.path, name, _Broken())
    return court


# -- from the midst of a connection ----------------------------------------------------------

CLOSED = cnp("closed", ingress=[deny(networks("0.0.0.0/0"))])
LATE = ip_bytes.tcp(ALLOWED, 443, POD, 40000, b"late", flags=ACK)


@pytest.mark.parametrize("strict", [False, True])
def test_a_reply_whose_beginning_nobody_saw_makes_its_connection_known(strict: bool) -> None:
    court = Court(CLOSED, FIREWALL, strict=strict, fail_open=False)
    assert court.deed(Ask.JUDGE, LATE) == Deed.DENY  # sent again, it is a reply; not remembered
    seal = Marks().seal(court.generation, strict=strict)
    assert court.adopted == [(POD, 40000, ALLOWED, 443, seal)]
    (record,) = court.records()
    assert (record["verdict"], record["src"]["ip"], record["dst"]["port"]) == ("allow", POD, 443)


@pytest.mark.parametrize("flags", [SYN_FLAG, SYN_FLAG | ACK, RST, RST | ACK, 0])
def test_a_beginning_or_an_end_is_no_such_reply(flags: int) -> None:
    court = Court(CLOSED, FIREWALL)
    data = ip_bytes.tcp(ALLOWED, 443, POD, 40000, flags=flags)
    assert court.deed(Ask.JUDGE, data) == Deed.DENY_REMEMBER
    assert court.adopted == []


def test_nor_is_one_whose_receiver_may_not_open_the_connection() -> None:
    court = Court(CLOSED, FIREWALL)
    for data in (
        ip_bytes.tcp(DENIED, 443, POD, 40000, flags=ACK),
        ip_bytes.udp(ALLOWED, 443, POD, 40000, b""),
    ):
        assert court.deed(Ask.JUDGE, data) == Deed.DENY_REMEMBER
    assert court.adopted == []


def test_once_conntrack_sees_all_that_begin_a_pod_cannot_invent_one() -> None:
    court = Court(CLOSED, FIREWALL)
    court.timer.pass_by(61.0)
    assert court.deed(Ask.JUDGE, LATE) == Deed.DENY_REMEMBER
    assert court.adopted == []
    court = Court(CLOSED, FIREWALL, seen=True)
    assert court.deed(Ask.JUDGE, LATE) == Deed.DENY_REMEMBER
    assert court.adopted == []


def test_a_segment_that_may_begin_one_is_judged_as_that() -> None:
    court = Court(FIREWALL)
    assert court.deed(Ask.JUDGE, LATE) == Deed.ACCEPT_REMEMBER
    assert court.adopted == []


def test_a_dry_run_lets_it_pass_and_changes_nothing() -> None:
    court = Court(CLOSED, FIREWALL, dry_run=True)
    assert court.deed(Ask.JUDGE, LATE) == Deed.ACCEPT
    assert court.adopted == []
    assert [record["verdict"] for record in court.records()] == ["allow"]


@pytest.mark.parametrize("fail_open", [True, False])
def test_a_kernel_that_does_not_take_it_opens_nothing(fail_open: bool) -> None:
    court = Court(CLOSED, FIREWALL, fail_open=fail_open)
    court.refusal = KernelError("the table is full")
    assert court.deed(Ask.JUDGE, LATE) == Deed.DENY_REMEMBER
    assert court.complaints == [court.refusal]


# -- errors inside ---------------------------------------------------------------------------


@pytest.mark.parametrize("ask", [Ask.JUDGE, Ask.JUDGE_DNS, Ask.UNTRACKED])
def test_an_error_inside_goes_the_way_of_the_fail_mode(ask: Ask) -> None:
    for options, deed in (
        ({"fail_open": True}, Deed.ACCEPT),
        ({"fail_open": False}, Deed.DENY),
        ({"fail_open": False, "dry_run": True}, Deed.ACCEPT),
    ):
        court = broken(**options)
        assert court.deed(ask, SYN) == deed  # and not remembered
        assert court.metrics.internal_errors == [1]
        assert [str(error) for error in court.complaints] == ["a bug"]


def test_an_error_inside_ends_no_established_connection() -> None:
    for fail_open in (True, False):
        court = broken(fail_open=fail_open, strict=True)
        assert court.deed(Ask.AGAIN, SYN) == 0  # passes unstamped: judged again next time
        assert court.metrics.internal_errors == [1]


@pytest.mark.parametrize("ask", [Ask.DNS_QUERY, Ask.DNS_ANSWER])
def test_an_error_inside_keeps_no_dns_packet(ask: Ask) -> None:
    court = broken(fail_open=False)
    assert court.deed(ask, QUERY) == 0
    assert court.metrics.internal_errors == [1]


@pytest.mark.parametrize("fail_open", [True, False])
def test_an_error_behind_the_verdict_changes_nothing_about_it(fail_open: bool) -> None:
    """Least of all in fail-open, where what is denied would pass because a log is broken."""
    court = Court(fail_open=fail_open)
    court.judge._log = _Broken()  # type: ignore[assignment]
    assert court.deed(Ask.JUDGE, SYN) == Deed.ACCEPT_REMEMBER
    assert court.deed(Ask.JUDGE, REFUSED) == Deed.DENY_REMEMBER
    assert court.metrics.internal_errors == [2]
    assert len(court.complaints) == 2


def test_a_question_that_nobody_asks_is_an_error_and_no_verdict() -> None:
    for value in {*range(16)} - {int(ask) for ask in Ask}:
        court = Court(fail_open=False)
        assert court.deed(value, SYN) == 0
        assert court.metrics.internal_errors == [1]


def test_it_still_answers_when_nobody_takes_the_complaint() -> None:
    """Standard error may be a pipe that nobody reads any more."""
    court = broken(fail_open=False)
    court.judge._complain = _Broken()
    assert court.deed(Ask.JUDGE, SYN) == Deed.DENY
    assert court.deed(Ask.DNS_QUERY, QUERY) == 0


@given(
    st.integers(min_value=0, max_value=0xFFFF_FFFF),
    st.sampled_from([Marks(), Marks(0xF << 24, 0x7 << 20, 0xFF)]),
    st.sampled_from([SYN, REFUSED, QUERY, REPLY, b""]),
)
def test_other_users_bits_come_back_as_they_came(mark: int, marks: Marks, data: bytes) -> None:
    court = Court(marks=marks)
    for ask in range(16):
        given_mark = mark & ~marks.verdict | marks.bits(ask)
        answer = court.judge.answer(given_mark, data)
        assert answer & marks.keep == mark & marks.keep
        assert 0 <= answer <= 0xFFFF_FFFF


def test_kube_proxys_bits_survive() -> None:
    court = Court()
    for data in (SYN, REFUSED):
        answer = court.judge.answer(KUBE_PROXY | court.marks.bits(Ask.JUDGE), data)
        assert answer & KUBE_PROXY == KUBE_PROXY


def test_one_verdict_for_every_packet_of_a_queue() -> None:
    court = Court(fail_open=False)
    queue = FakeQueue(100, court.judge.answer)
    for ask in range(16):
        for data in (SYN, REFUSED, QUERY, REPLY, *UNREADABLE):
            queue.put(data, court.marks.bits(ask))
    while queue.waiting:
        queue.drain()
    assert queue.missing() == []
    assert len(queue.verdicts) == 16 * 9


def test_before_any_world_there_is_no_policy() -> None:
    """What fail-closed does then is that no rules send packets yet, or nobody reads them."""
    court = Court(loaded=False)
    assert court.deed(Ask.JUDGE, SYN) == Deed.ACCEPT_REMEMBER


# -- modes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fail_open", [True, False])
def test_a_dry_run_drops_nothing_and_says_what_it_would_have(fail_open: bool) -> None:
    court = Court(fail_open=fail_open, dry_run=True)
    assert court.deed(Ask.JUDGE, SYN) == Deed.ACCEPT_REMEMBER
    assert court.deed(Ask.JUDGE, REFUSED) == Deed.ACCEPT
    assert court.deed(Ask.UNTRACKED, REFUSED) == Deed.ACCEPT
    for data in UNREADABLE:
        assert court.deed(Ask.JUDGE, data) == Deed.ACCEPT  # counted, not logged: no addresses
    allowed, denied, again = court.records()
    assert allowed["verdict"] == "allow"
    assert "enforced" not in allowed
    assert (denied["verdict"], denied["enforced"]) == ("deny", False)
    assert (again["verdict"], again["enforced"]) == ("deny", False)


NOBODY, NOBODY6 = "10.1.0.77", "fd00:1::77"
ELSEWHERE = "10.2.0.77"  # in another node's pod network


@pytest.mark.parametrize(
    "data",
    [
        ip_bytes.tcp(NOBODY, 1, ALLOWED, 443),
        ip_bytes.tcp(ALLOWED, 1, NOBODY, 443),
        ip_bytes.tcp(NOBODY6, 1, "2001:db8::1", 443),
        ip_bytes.ping(NOBODY, ALLOWED),
    ],
)
def test_an_address_of_ours_that_is_nobodys_fails_closed(data: bytes) -> None:
    """A pod whose object has not come yet: its identity is unknown (semantics §7)."""
    court = Court(fail_open=False)
    assert court.deed(Ask.JUDGE, data) == Deed.DENY
    (record,) = court.records()
    assert record["verdict"] == "deny"
    assert "no known pod has it" in record["reason"]
    assert court.verdicts() == {("deny", "Default"): 1}
    court = Court(fail_open=True)
    assert court.deed(Ask.JUDGE, data) == Deed.ACCEPT  # until somebody knows whose it is
    (record,) = court.records()
    assert record["verdict"] == "allow"


def test_an_unknown_address_of_another_node_is_that_nodes_business() -> None:
    court = Court(fail_open=False)
    to_us = ip_bytes.tcp(ELSEWHERE, 1, POD, 80)
    assert court.deed(Ask.JUDGE, to_us) == Deed.ACCEPT
    assert court.deed(Ask.JUDGE, ip_bytes.tcp(POD, 1, ELSEWHERE, 80)) == Deed.DENY  # by policy
    first, second = court.records()
    assert first["verdict"] == "allow"
    assert second["decided_by"]["policy"] == "firewall"


def test_a_known_address_is_not_an_unknown_one() -> None:
    court = Court(cnp("open", egress=[accept(networks("0.0.0.0/0"))]), fail_open=False)
    assert court.deed(Ask.JUDGE, ip_bytes.tcp(POD, 1, OTHER, 80)) == Deed.ACCEPT_REMEMBER


# -- worlds ----------------------------------------------------------------------------------


def test_verdicts_carry_the_generation_of_their_world() -> None:
    court = Court()
    assert court.deed(Ask.JUDGE, SYN) == Deed.ACCEPT_REMEMBER
    court.load(cnp("closed", egress=[deny(networks("0.0.0.0/0"))]))
    assert court.generation == 2
    assert court.deed(Ask.JUDGE, SYN) == Deed.DENY_REMEMBER
    court.generation = 40  # more than fit into a packet's mark
    court.load(FIREWALL)
    assert court.deed(Ask.JUDGE, SYN) == Deed.ACCEPT_REMEMBER


def test_the_same_question_has_the_same_answer_and_is_counted() -> None:
    court = Court()
    for _ in range(3):
        assert court.deed(Ask.JUDGE, SYN) == Deed.ACCEPT_REMEMBER
        assert court.deed(Ask.JUDGE, REFUSED) == Deed.DENY_REMEMBER
    assert court.verdicts() == {("allow", "Admin"): 3, ("deny", "Admin"): 3}


def test_what_is_kept_of_answers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "_MOST_ANSWERS", 8)
    court = Court()
    for _ in range(2):
        for last in range(1, 101):
            deed = court.deed(Ask.JUDGE, ip_bytes.tcp(POD, 1, f"1.1.1.{last}", 443))
            assert deed == Deed.ACCEPT_REMEMBER
        assert court.deed(Ask.JUDGE, REFUSED) == Deed.DENY_REMEMBER
    assert court.verdicts() == {("allow", "Admin"): 200, ("deny", "Admin"): 2}
    assert len(court.judge._answers) <= 8


def test_whether_to_remember_is_asked_of_each_protocol() -> None:
    """One decision serves all packets of a pod to itself, whatever they are."""
    court = Court()
    to_itself = ip_bytes.tcp(POD, 1, POD, 80)
    assert court.deed(Ask.JUDGE, ip_bytes.ping(POD, POD)) == Deed.ACCEPT
    assert court.deed(Ask.JUDGE, to_itself) == Deed.ACCEPT_REMEMBER
    assert court.deed(Ask.JUDGE, ip_bytes.ping(POD, POD)) == Deed.ACCEPT


# -- strict mode -----------------------------------------------------------------------------


@pytest.fixture
def strict() -> Iterator[Court]:
    court = Court(BY_NAME, strict=True)
    court.look_up()
    assert court.deed(Ask.JUDGE, TO_NAME) == Deed.ACCEPT
    yield court
    assert court.complaints == []


def test_again_is_judged_by_the_policies_of_now(strict: Court) -> None:
    strict.load(FIREWALL)  # knows no names
    assert strict.deed(Ask.AGAIN, SYN) == Deed.ACCEPT_REMEMBER
    assert strict.deed(Ask.AGAIN, TO_NAME) == Deed.DENY_REMEMBER
    first, second = strict.records()[-2:]
    assert (first["verdict"], first["again"]) == ("allow", True)
    assert (second["verdict"], second["again"]) == ("deny", True)


def test_the_end_of_a_name_cuts_nothing(strict: Court) -> None:
    strict.timer.pass_by(61)
    assert strict.deed(Ask.AGAIN, TO_NAME) == Deed.ACCEPT
    assert strict.deed(Ask.AGAIN, TO_NAME) == Deed.ACCEPT  # and again
    # Only of the connection that it opened.
    other = ip_bytes.tcp(POD, 40001, NAMED, 443)
    assert strict.deed(Ask.AGAIN, other) == Deed.DENY
    assert strict.deed(Ask.JUDGE, other) == Deed.DENY


def test_a_policy_that_does_not_want_the_name_any_more_cuts_it(strict: Court) -> None:
    strict.timer.pass_by(61)
    strict.load(cnp("other-name", egress=[accept(domains("*.else")), deny(networks("0.0.0.0/0"))]))
    assert strict.deed(Ask.AGAIN, TO_NAME) == Deed.DENY


def test_the_same_name_in_other_words_does_not(strict: Court) -> None:
    strict.timer.pass_by(61)
    strict.load(cnp("exactly", egress=[accept(domains("a.ex")), deny(networks("0.0.0.0/0"))]))
    assert strict.deed(Ask.AGAIN, TO_NAME) == Deed.ACCEPT


def test_another_rule_may_still_deny_it(strict: Court) -> None:
    """The name is held, not the verdict: a Deny before its rule is a change of policy."""
    strict.timer.pass_by(61)
    strict.load(
        cnp("first", priority=0, egress=[deny(networks(f"{NAMED}/32"))]),
        cnp("then", priority=1, egress=[accept(domains("*.ex"))]),
    )
    assert strict.deed(Ask.AGAIN, TO_NAME) == Deed.DENY


def test_what_opened_a_connection_survives_a_restart(strict: Court) -> None:
    assert strict.connections is not None
    after = Court(BY_NAME, strict=True)
    assert after.connections is not None
    assert after.deed(Ask.AGAIN, TO_NAME) == Deed.DENY
    after.connections.restore(strict.connections.dump())
    assert after.deed(Ask.AGAIN, TO_NAME) == Deed.ACCEPT


def test_a_tuple_that_is_used_again_is_another_connection(strict: Court) -> None:
    """The first was opened by a name, the second by a rule that is gone now."""
    strict.timer.pass_by(61)
    strict.load(cnp("open", egress=[accept(networks("0.0.0.0/0"))]))
    assert strict.deed(Ask.JUDGE, TO_NAME) == Deed.ACCEPT_REMEMBER
    strict.load(BY_NAME)
    assert strict.deed(Ask.AGAIN, TO_NAME) == Deed.DENY


def test_without_strict_mode_nothing_is_held() -> None:
    court = Court(BY_NAME)
    court.look_up()
    court.deed(Ask.JUDGE, TO_NAME)
    court.timer.pass_by(61)
    assert court.deed(Ask.AGAIN, TO_NAME) == Deed.DENY


# -- shadow ----------------------------------------------------------------------------------


def test_only_differences_to_the_candidates_are_logged() -> None:
    closed = cnp("closed", egress=[deny(networks("0.0.0.0/0"))])
    court = Court(candidates=closed)
    assert court.deed(Ask.JUDGE, REFUSED) == Deed.DENY_REMEMBER  # both deny
    assert court.records() == []
    assert court.deed(Ask.JUDGE, SYN) == Deed.ACCEPT_REMEMBER  # what is in force is done
    (record,) = court.records()
    assert record["verdict"] == "allow"
    assert record["shadow"]["verdict"] == "deny"
    assert record["shadow"]["decided_by"]["policy"] == "closed"
    assert court.metrics.shadow_differences == [1]


def test_candidates_know_the_same_names() -> None:
    court = Court(candidates=BY_NAME)
    court.deed(Ask.JUDGE, TO_NAME)
    assert court.records() == []
    court.look_up()
    assert court.deed(Ask.JUDGE, TO_NAME) == Deed.DENY_REMEMBER
    (record,) = court.records()
    assert record["shadow"]["verdict"] == "allow"


def test_an_error_in_the_candidates_harms_nobody() -> None:
    """They are only asked, never obeyed."""
    court = Court(candidates=BY_NAME, fail_open=False)
    court.judge._shadow = _Broken()  # type: ignore[assignment]
    assert court.deed(Ask.JUDGE, SYN) == Deed.ACCEPT_REMEMBER
    assert court.metrics.internal_errors == [1]


# -- log and counts --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("logged", "verdicts"), [("all", ["allow", "deny"]), ("deny", ["deny"]), ("none", [])]
)
def test_what_is_logged(logged: Which, verdicts: list[str]) -> None:
    court = Court(logged=logged)
    court.deed(Ask.JUDGE, SYN)
    court.deed(Ask.JUDGE, REFUSED)
    assert [record["verdict"] for record in court.records()] == verdicts
    assert court.verdicts() == {("allow", "Admin"): 1, ("deny", "Admin"): 1}


def test_a_record_says_who_and_where() -> None:
    court = Court(BY_NAME)
    court.look_up()
    court.records()
    court.deed(Ask.JUDGE, TO_NAME)
    (record,) = court.records()
    assert record["src"] == {"ip": POD, "port": 40000, "pod": "x/p"}
    assert record["dst"] == {"ip": NAMED, "port": 443, "names": ["a.ex"]}
    assert record["protocol"] == "TCP"
    assert record["decided_by"]["policy"] == "by-name"
    assert record["bytes"] == len(TO_NAME)
    assert record["ts"].startswith("2026-11-30T")


def test_a_question_is_as_long_as_its_header_says() -> None:
    court = Court(logged="all")
    court.look_up()
    (record,) = court.records()
    assert (record["dst"]["port"], record["bytes"]) == (53, len(QUERY))


def test_a_record_says_why_a_packet_has_no_ports() -> None:
    court = Court()
    court.deed(Ask.JUDGE, ip_bytes.ip(POD, DENIED, 6, b"\0\1\2"))
    (record,) = court.records()
    assert record["protocol"] == "unknown"
    assert "cut short" in json.dumps(record)


def test_probes_are_handed_over_and_nothing_else() -> None:
    court = Court()
    seen: list[bytes] = []
    court.judge.on_probe = seen.append
    assert court.deed(Ask.PROBE, b"token") == 0
    assert seen == [b"token"]
    assert court.verdicts() == {}
    assert court.records() == []


def test_the_time_that_a_verdict_takes_is_measured() -> None:
    court = Court()
    court.deed(Ask.JUDGE, SYN)
    court.deed(Ask.DNS_QUERY, QUERY)
    histogram = next(f for f in court.metrics.families() if f.kind == "histogram")
    assert next(s.value for s in histogram.samples if s.suffix == "_count") == 2


def logged_packets(court: Court) -> list[tuple[str, str]]:
    """Of every packet in the log: its deciding tier, and what became of it."""
    court.packets.flush(0.0)
    text = b"".join(court.entries).decode()
    reader = LogReader(court.timer.wall_ns())
    found = [e for line in text.splitlines() for e in reader.line(line.encode())]
    assert not reader.counts
    ends = re.findall(r'"Finished syncing packet" id=\d+ duration="\S+" verdict="(\w+)"', text)
    tiers = [e.decided_by.tier or "" if e.decided_by else "" for e in found]
    return list(zip(tiers, ends, strict=True))


def test_every_packet_is_logged_where_that_is_wanted_and_records_as_before() -> None:
    court = Court(packets=True, logged="deny")
    assert court.deed(Ask.JUDGE, SYN) == Deed.ACCEPT_REMEMBER
    assert court.deed(Ask.JUDGE, REFUSED) == Deed.DENY_REMEMBER
    assert court.deed(Ask.JUDGE, SYN) == Deed.ACCEPT_REMEMBER
    assert logged_packets(court) == [("Admin", "accept"), ("Admin", "drop"), ("Admin", "accept")]
    (told,) = court.records()
    assert (told["id"], told["verdict"]) == (2, "deny")  # the same number in both
    quiet = Court(packets=True, logged="none")
    quiet.deed(Ask.JUDGE, REFUSED)
    assert quiet.records() == []
    assert logged_packets(quiet) == [("Admin", "drop")]


def test_a_dry_run_says_what_became_of_the_packet() -> None:
    court = Court(packets=True, dry_run=True)
    assert court.deed(Ask.JUDGE, REFUSED) == Deed.ACCEPT
    assert logged_packets(court) == [("Admin", "accept")]
    assert court.records()[0]["enforced"] is False


def test_with_candidates_records_are_of_differences_and_every_packet_is_logged() -> None:
    court = Court(packets=True, candidates=cnp("all", egress=[deny(networks("1.0.0.0/8"))]))
    court.deed(Ask.JUDGE, SYN)
    court.deed(Ask.JUDGE, ip_bytes.tcp(POD, 40000, OTHER, 53))
    assert [tier for tier, _ in logged_packets(court)] == ["Admin", "Admin"]
    assert [told["shadow"]["verdict"] for told in court.records()] == ["deny"]


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_packet_that_nobody_can_read_is_logged_too(dry_run: bool) -> None:
    court = Court(packets=True, dry_run=dry_run)
    court.deed(Ask.JUDGE, UNREADABLE[0])
    court.packets.flush(0.0)
    (entry,) = LogReader(0).line(b"".join(court.entries))
    assert entry.verdict == ("allow" if dry_run else "deny")


def test_how_long_it_took_is_measured_from_the_packets_arrival() -> None:
    court = Court(packets=True)
    times = iter(range(0, 10**9, 1500))
    court.timer.monotonic_ns = lambda: next(times)  # type: ignore[method-assign]
    court.deed(Ask.JUDGE, SYN)
    court.packets.flush(0.0)
    assert 'duration="1.5µs"' in b"".join(court.entries).decode()


@pytest.mark.parametrize(("fail_open", "expected"), [(False, "DENY"), (True, "ACCEPT")])
def test_a_pod_whose_namespace_is_not_known(fail_open: bool, expected: str) -> None:
    court = Court(fail_open=fail_open, remember=False)
    snapshot = snapshot_of([P, Q, N1, N2, FIREWALL])
    pod = address(POD)
    court.generation = 2
    court.judge.load(World(snapshot, 2, OWN, frozenset({pod})))
    assert court.deed(Ask.JUDGE, SYN) == Deed[expected]
    other_way = ip_bytes.tcp(ALLOWED, 443, POD, 40000)
    assert court.deed(Ask.JUDGE, other_way) == Deed[expected]
    reasons = [str(record.get("reason")) for record in court.records()]
    assert any("namespace" in reason for reason in reasons) is not fail_open
    # What was accepted before goes on, and nobody gets in as if it had been.
    assert court.deed(Ask.AGAIN, SYN) == Deed.ACCEPT
    data = ip_bytes.tcp(DENIED, 443, POD, 40000, flags=0x18)
    court.deed(Ask.JUDGE, data)
    assert court.adopted == [] or fail_open
