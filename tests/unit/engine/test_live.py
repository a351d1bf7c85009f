"""The datapath that conntrack tells what a packet is: a beginning, a reply, or nobody knows."""

import struct

import pytest
from helpers import ip_bytes
from helpers.builders import accept, address, cnp, deny, domains, networks, pods, tcp, udp
from helpers.dns import KUBE_DNS, P, Q, Rr, answer_bytes, ask_bytes, cluster_dns
from helpers.judging import snapshot_of

from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.flows import Flow
from knp_py.engine.live import LiveDatapath, Said
from knp_py.engine.names import DomainCache
from knp_py.engine.resolvers import Trust
from knp_py.engine.snoop import DnsSnooper
from knp_py.model.changes import ClusterObject
from knp_py.model.decision import Verdict
from knp_py.model.packet import ACK, SYN, Proto

POD, OTHER, WEB = "10.1.0.5", "10.1.0.6", "1.1.1.1"
NAMES = cnp(
    "names",
    egress=[
        accept(pods(), ports=[udp(53), tcp(53)]),
        accept(domains("*.ex"), ports=[tcp(443)]),
        deny(networks("0.0.0.0/0", "::/0")),
    ],
)
NOTHING_PASSES = cnp("nothing", egress=[deny(networks("0.0.0.0/0"))])
PSH = 0x08


class Live:
    """A live datapath, and DNS packets in few words."""

    def __init__(self, *policies: ClusterObject) -> None:
        self.names = DomainCache()
        self.snooper = DnsSnooper(self.names, trust=Trust())
        self.path = LiveDatapath(PolicyEngine(self.names), self.snooper, judge_midstream=True)
        self.load(*(policies or (NAMES,)))

    def load(self, *policies: ClusterObject) -> None:
        self.path.load(snapshot_of([P, Q, *cluster_dns(), *policies]))

    def ask(self, said: Said, name: str = "a.ex", now: float = 1.0, *, ident: int = 1) -> Flow:
        query = ask_bytes(name, ident=ident)
        flow = self.path.told(ip_bytes.udp(POD, 40000, KUBE_DNS, 53, query), now, said)
        assert flow is not None
        return flow

    def answer(
        self, said: Said, name: str = "a.ex", now: float = 1.0, *, ident: int = 1
    ) -> Flow | None:
        reply = answer_bytes(name, [Rr(name, "A", WEB)], ident=ident)
        return self.path.told(ip_bytes.udp(KUBE_DNS, 53, POD, 40000, reply), now, said)

    def knows(self, name: str = "a.ex", now: float = 1.0) -> bool:
        return name in self.names.names(P, address(WEB), now)

    def first(self, data: bytes, now: float = 1.0) -> Verdict:
        found = self.path.first(data, now)
        assert found is not None
        return found[1].verdict


@pytest.fixture
def live() -> Live:
    return Live()


# -- first: judged, and that is all ---------------------------------------------------------


def test_the_first_packet_is_judged_and_forgotten(live: Live) -> None:
    found = live.path.first(ip_bytes.tcp(POD, 40000, WEB, 443), 1.0)
    assert found is not None
    packet, decision = found
    assert (packet.src, packet.dst, packet.protocol) == (address(POD), address(WEB), Proto.TCP)
    assert (packet.sport, packet.dport) == (40000, 443)
    assert decision.verdict is Verdict.DENY
    assert len(live.path.flows) == 0


def test_a_name_opens_it_while_it_lives(live: Live) -> None:
    live.ask(Said.BEGINS)
    live.answer(Said.BACK)
    syn = ip_bytes.tcp(POD, 40000, WEB, 443)
    assert live.first(syn, 1.0) is Verdict.ALLOW
    assert live.first(syn, 60.5) is Verdict.ALLOW
    assert live.first(syn, 61.0) is Verdict.DENY


def test_a_segment_without_syn_is_judged_by_its_own_addresses(live: Live) -> None:
    """Conntrack takes it for a beginning; whose reply it might be, nobody knows."""
    for flags in (ACK, SYN | ACK, PSH, 0):
        assert live.first(ip_bytes.tcp(POD, 443, WEB, 40000, flags=flags)) is Verdict.DENY
        assert live.first(ip_bytes.tcp(OTHER, 443, POD, 53, flags=flags)) is Verdict.ALLOW


def test_what_cannot_be_parsed_is_judged_on_its_addresses(live: Live) -> None:
    found = live.path.first(ip_bytes.ip(POD, WEB, 6, b"\0\1\2"), 1.0)
    assert found is not None
    packet, decision = found
    assert packet.protocol == Proto.UNKNOWN
    assert decision.verdict is Verdict.DENY
    assert sum(live.path.unparsed.values()) == 1


@pytest.mark.parametrize("data", [b"", b"\x45", b"\x45" + bytes(18), b"\x60" + bytes(20), b"\x75"])
def test_no_readable_header_no_verdict(live: Live, data: bytes) -> None:
    assert live.path.first(data, 1.0) is None
    assert live.path.told(data, 1.0, Said.BEGINS) is None
    assert sum(live.path.unreadable.values()) == 2


def test_what_ipv6_cannot_do_without_passes() -> None:
    live = Live(cnp("nothing", egress=[deny(networks("::/0"))]))
    solicitation = ip_bytes.ping("fd00::5", "ff02::1", kind=135)
    assert live.first(solicitation) is Verdict.ALLOW


# -- told: conversations with resolvers ------------------------------------------------------


def test_an_answer_to_what_was_asked_is_learned(live: Live) -> None:
    asked = live.ask(Said.BEGINS)
    assert asked.decision.verdict is Verdict.ALLOW
    assert live.answer(Said.BACK) is asked
    assert live.knows()
    assert live.snooper.counts["learned"] == 1


def test_an_answer_counts_once(live: Live) -> None:
    live.ask(Said.BEGINS)
    live.answer(Said.BACK)
    live.answer(Said.BACK, "b.ex")
    live.answer(Said.BACK)
    assert not live.knows("b.ex")
    assert live.snooper.counts["unsolicited"] == 2


def test_an_answer_to_no_query_teaches_nothing(live: Live) -> None:
    live.path.told(ip_bytes.udp(POD, 40000, KUBE_DNS, 53, b""), 1.0, Said.BEGINS)
    assert live.answer(Said.BACK) is not None
    assert not live.knows()
    assert live.snooper.counts["unsolicited"] == 1


def test_a_reply_to_nothing_we_know_is_counted_and_begins_nothing(live: Live) -> None:
    assert live.answer(Said.BACK) is None
    assert not live.knows()
    assert live.snooper.counts["unsolicited"] == 1
    assert len(live.path.flows) == 0


def test_a_packet_is_no_reply_to_its_own_direction(live: Live) -> None:
    """Opened from port 53: what goes the same way says nothing, whatever conntrack calls it."""
    reply = answer_bytes("a.ex", [Rr("a.ex", "A", WEB)])
    data = ip_bytes.udp(OTHER, 53, POD, 40000, reply)
    opened = live.path.told(data, 1.0, Said.BEGINS)
    assert opened is not None
    assert live.path.told(data, 1.0, Said.BACK) is None
    assert not live.knows()
    assert live.snooper.counts["unsolicited"] == 2


def test_after_a_restart_the_conversation_goes_on(live: Live) -> None:
    """The kernel knows the connection still; here its flow begins with the next query."""
    asked = live.ask(Said.FORWARD)
    assert asked.decision.verdict is Verdict.ALLOW
    live.answer(Said.BACK)
    assert live.knows()


def test_an_answer_to_a_query_of_before_the_restart_is_lost(live: Live) -> None:
    assert live.answer(Said.BACK) is None
    live.ask(Said.FORWARD, ident=2)
    live.answer(Said.BACK, ident=1)
    assert not live.knows()
    live.answer(Said.BACK, ident=2)
    assert live.knows()


def test_going_on_is_the_same_flow(live: Live) -> None:
    first = live.ask(Said.BEGINS, ident=1)
    assert live.ask(Said.FORWARD, ident=2) is first
    assert live.answer(Said.BACK, "a.ex", ident=2) is first
    assert len(live.path.flows) == 1


def test_beginning_again_is_another_flow(live: Live) -> None:
    """A tuple that is used again, or a datagram sent again before there was an answer."""
    first = live.ask(Said.BEGINS)
    second = live.ask(Said.BEGINS)
    assert second is not first
    assert len(live.path.flows) == 1
    # Asked twice, answered twice.
    live.answer(Said.BACK)
    live.answer(Said.BACK)
    assert live.snooper.counts["learned"] == 2
    assert live.snooper.counts["unsolicited"] == 0


def test_what_begins_is_judged_by_the_policies_of_now(live: Live) -> None:
    allowed = live.ask(Said.BEGINS)
    live.load(NOTHING_PASSES)
    assert live.ask(Said.FORWARD, ident=2) is allowed  # established
    denied = live.ask(Said.BEGINS, ident=3)
    assert denied.decision.verdict is Verdict.DENY


def test_what_was_denied_teaches_nothing() -> None:
    live = Live(NOTHING_PASSES)
    assert live.ask(Said.BEGINS).decision.verdict is Verdict.DENY
    live.answer(Said.BACK)
    assert not live.knows()


def test_forward_replaces_what_was_the_other_way_round(live: Live) -> None:
    """The server spoke first, and its flow is over for the kernel, but not here yet."""
    reply = ip_bytes.udp(KUBE_DNS, 53, POD, 40000, b"")
    backwards = live.path.told(reply, 1.0, Said.BEGINS)
    asked = live.ask(Said.FORWARD)
    assert asked is not backwards
    live.answer(Said.BACK)
    assert live.knows()


# -- told nothing: untracked ----------------------------------------------------------------


def test_untracked_packets_find_their_flow_themselves(live: Live) -> None:
    asked = live.ask(Said.NOTHING)
    assert live.answer(Said.NOTHING) is asked
    assert live.knows()
    assert live.ask(Said.NOTHING, ident=2) is asked


def test_an_untracked_answer_that_nobody_asked_for_teaches_nothing(live: Live) -> None:
    forged = live.answer(Said.NOTHING)
    assert forged is not None
    assert forged.key.sport == 53
    assert not live.knows()
    assert live.snooper.counts["unsolicited"] == 1


def test_untracked_tcp_that_is_met_in_the_middle_is_judged(live: Live) -> None:
    segment = ip_bytes.tcp(POD, 40000, WEB, 443, b"x", flags=ACK)
    flow = live.path.told(segment, 1.0, Said.NOTHING)
    assert flow is not None
    assert flow.decision.verdict is Verdict.DENY


# -- DNS over TCP ---------------------------------------------------------------------------


def framed(message: bytes) -> bytes:
    return struct.pack("!H", len(message)) + message


def segments(live: Live, opening: Said, *, with_syn: bool = True) -> None:
    """A query in two segments, its answer in two."""
    query = framed(ask_bytes("a.ex"))
    reply = framed(answer_bytes("a.ex", [Rr("a.ex", "A", WEB)]))

    def send(payload: bytes, seq: int, flags: int, said: Said) -> None:
        live.path.told(
            ip_bytes.tcp(POD, 40000, KUBE_DNS, 53, payload, seq=seq, flags=flags), 1.0, said
        )

    def receive(payload: bytes, seq: int, flags: int) -> None:
        live.path.told(
            ip_bytes.tcp(KUBE_DNS, 53, POD, 40000, payload, seq=seq, flags=flags), 1.0, Said.BACK
        )

    if with_syn:
        send(b"", 99, SYN, opening)
        receive(b"", 499, SYN | ACK)
        send(b"", 100, ACK, Said.FORWARD)
    send(query[:5], 100, ACK | PSH, Said.FORWARD)
    send(query[5:], 105, ACK | PSH, Said.FORWARD)
    receive(reply[:20], 500, ACK | PSH)
    receive(reply[20:], 520, ACK | PSH)


def test_answers_over_tcp_are_learned(live: Live) -> None:
    segments(live, Said.BEGINS)
    assert live.knows()
    assert len(live.path.flows) == 1


def test_the_same_tuple_again_is_another_stream(live: Live) -> None:
    segments(live, Said.BEGINS)
    segments(live, Said.BEGINS)
    assert live.snooper.counts["learned"] == 2


def test_a_stream_of_before_the_restart_cannot_be_read_on(live: Live) -> None:
    """Where its messages begin is not known: nothing is learned, and that is counted."""
    segments(live, Said.FORWARD, with_syn=False)
    assert not live.knows()
    assert live.snooper.counts["tcp-midstream"] >= 1


# -- memory ---------------------------------------------------------------------------------


def test_nothing_waits_to_be_reported(live: Live) -> None:
    for ident in range(50):
        live.ask(Said.BEGINS, ident=ident)
    assert live.path.flows.ended == []
    assert len(live.path.flows) == 1


def test_flows_end_by_themselves(live: Live) -> None:
    live.ask(Said.BEGINS, now=1.0)
    other = ip_bytes.udp(OTHER, 40000, KUBE_DNS, 53, ask_bytes("a.ex"))
    live.path.told(other, 500.0, Said.BEGINS)
    assert len(live.path.flows) == 1
    assert live.path.flows.ended == []


def test_flows_are_bounded() -> None:
    names = DomainCache()
    path = LiveDatapath(PolicyEngine(names), DnsSnooper(names, trust=Trust()), max_flows=16)
    path.load(snapshot_of([P, Q, *cluster_dns(), NAMES]))
    for sport in range(1024, 1124):
        path.told(ip_bytes.udp(POD, sport, KUBE_DNS, 53, ask_bytes("a.ex")), 1.0, Said.BEGINS)
        assert len(path.flows) <= 16
    assert path.flows.ended == []


def test_a_pod_that_asks_from_every_port_crowds_nobody_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("knp_py.engine.live.FLOWS_PER_POD", 8)
    live = Live()
    live.ask(Said.BEGINS)
    for port in range(50_000, 50_100):
        query = ask_bytes("b.ex", ident=port & 0xFFFF)
        live.path.told(ip_bytes.udp(OTHER, port, KUBE_DNS, 53, query), 1.0, Said.BEGINS)
    assert len(live.path.flows) == 1 + 8
    assert live.answer(Said.BACK) is not None
    assert live.knows()
    live.path.flows.end_all()
    assert live.path._of_pod == {}
