"""The rules of shared/fqdn-rules.md, one test each, in its notation.

Where a rule and semantics.md differ, semantics.md is tested and the comment says so. What
belongs to the agent (readiness, verdict order, files) is tested there; here is the pure part.
"""

import random
import re
import sys
from pathlib import Path

import pytest
from helpers.builders import (
    accept,
    cnp,
    deny,
    domains,
    networks,
    node,
    packet,
    pass_on,
    pod,
    service,
)
from helpers.captures import dns_payloads, ip_packets, parsed
from helpers.dns import (
    KUBE_DNS,
    NODE_LOCAL,
    PORT,
    Q_NAME,
    P,
    Q,
    R,
    World,
    answer_bytes,
    ask_bytes,
    cluster_dns,
    ip,
    labels,
    raw_message,
    raw_record,
    rr,
    service_data,
    wire,
)
from helpers.ip_bytes import fragments, tcp, udp
from helpers.judging import snapshot_of

from knp_py.engine.datapath import Datapath
from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.names import DomainCache
from knp_py.engine.patterns import PatternTrie, canonical_pattern
from knp_py.engine.resolvers import Trust
from knp_py.engine.snoop import DnsSnooper
from knp_py.model.changes import ClusterObject
from knp_py.model.decision import NameGrant, Verdict
from knp_py.model.net import parse_address
from knp_py.model.objects import Pod
from knp_py.model.packet import ACK, SYN
from knp_py.model.policy import Tier

ONE, TWO = "1.1.1.1", "2.2.2.2"
P_IP, Q_IP = "10.1.0.5", "10.1.0.6"


class Node:
    """Everything between an IP packet and a verdict, with one policy.

    The pods may ask their resolvers, reach ``*.ex`` and ``a.ex``, and nothing else.
    """

    def __init__(self, *objects: ClusterObject, trust: Trust | None = None) -> None:
        self.names = DomainCache()
        self.snooper = DnsSnooper(self.names, trust=Trust() if trust is None else trust)
        self.datapath = Datapath(PolicyEngine(self.names), self.snooper)
        self.datapath.load(snapshot_of([P, Q, *cluster_dns(), *(objects or (only_names(),))]))

    def send(self, data: bytes, now: float = 0.0) -> Verdict | None:
        flow = self.datapath.ingest(data, now=now)
        return None if flow is None else flow.decision.verdict

    def look_up(self, name: str, *records: str, now: float = 0.0, server: str = KUBE_DNS) -> None:
        self.send(udp(P_IP, PORT, server, 53, ask_bytes(name)), now)
        payload = answer_bytes(name, [rr(record, 30) for record in records])
        self.send(udp(server, 53, P_IP, PORT, payload), now)

    def connect(self, to: str, now: float = 0.0, sport: int = 50000) -> Verdict | None:
        return self.send(tcp(P_IP, sport, to, 443), now)


def only_names() -> ClusterObject:
    return cnp(
        "only-names",
        egress=[
            accept(networks(f"{KUBE_DNS}/32", f"{R}/32", f"{NODE_LOCAL}/32")),
            accept(domains("*.ex", "a.ex"), name="the names"),
            deny(networks("0.0.0.0/0", "::/0")),
        ],
    )


def learned(world: World) -> int:
    return len(world.names)


# Whom to believe.


def test_r01_only_trusted_servers_teach() -> None:
    world = World("a.ex")
    world.look_up(P, "a.ex", f"a.ex A {ONE}", server="8.8.8.8")
    assert not world.ok(P, "a.ex", ONE)
    assert world.counts == {"untrusted": 1}


def test_r02_a_pod_is_no_resolver() -> None:
    world = World("a.ex")
    world.look_up(Q, "a.ex", f"a.ex A {ONE}", server=P_IP)
    world.look_up(P, "a.ex", f"a.ex A {ONE}", server=P_IP)
    assert learned(world) == 0
    assert world.counts == {"untrusted": 2}


def test_r02_whatever_is_trusted_not_itself() -> None:
    world = World("a.ex", trust=Trust("any"))
    world.look_up(P, "a.ex", f"a.ex A {ONE}", server=P_IP)
    assert learned(world) == 0


def test_r02_a_datagram_from_port_53_is_no_answer() -> None:
    there = Node()
    payload = answer_bytes("a.ex", [rr(f"a.ex A {ONE}")])
    for to in (P_IP, Q_IP, KUBE_DNS, R):
        there.send(udp(P_IP, 53, to, PORT, payload))
        there.send(udp(P_IP, 53, to, 53, payload))
    assert len(there.names) == 0


def test_r03_no_query_no_learning() -> None:
    world = World("a.ex")
    world.ans(P, "a.ex", f"a.ex A {ONE}")
    assert not world.ok(P, "a.ex", ONE)
    assert world.counts == {"unsolicited": 1}


def test_r03_the_second_answer_is_unsolicited(shared: Path) -> None:
    world = World("*.dropbox.com")
    query, first, second = dns_payloads(shared / "captures/dns-response-2x.pcap")
    world.send(P, query)
    world.receive(P, first)
    world.receive(P, second)
    assert (world.counts["learned"], world.counts["unsolicited"]) == (1, 1)


@pytest.mark.parametrize(
    "flip", [{"ident": 2}, {"port": PORT + 1}, {"name": "b.ex"}, {"rtype": "AAAA"}], ids=str
)
def test_r04_id_port_name_and_type_match_the_query(flip: dict[str, object]) -> None:
    world = World("a.ex", "b.ex")
    world.ask(P, "a.ex")
    name = str(flip.get("name", "a.ex"))
    ident, port = flip.get("ident", 1), flip.get("port", PORT)
    assert isinstance(ident, int)
    assert isinstance(port, int)
    rtype = str(flip.get("rtype", "A"))
    world.ans(P, name, f"{name} A {ONE}", ident=ident, port=port, rtype=rtype)
    assert learned(world) == 0


@pytest.mark.parametrize(("age", "fine"), [(0.0, True), (10.0, True), (10.1, False)])
def test_r05_late_answers(age: float, fine: bool) -> None:
    world = World("a.ex")
    world.ask(P, "a.ex", now=0.0)
    world.ans(P, "a.ex", f"a.ex A {ONE}", now=age)
    assert world.ok(P, "a.ex", ONE, age) is fine
    assert world.counts.get("late", 0) == (not fine)


def test_r06_other_pods_gain_nothing() -> None:
    world = World("a.ex")
    world.look_up(P, "a.ex", f"a.ex A {ONE}")
    assert world.ok(P, "a.ex", ONE)
    assert not world.ok(Q, "a.ex", ONE)


def test_r07_the_next_pod_of_an_address_starts_empty() -> None:
    world = World("a.ex")
    world.look_up(P, "a.ex", f"a.ex A {ONE}")
    assert not world.ok(pod("x/p", P_IP, uid="uid-p2"), "a.ex", ONE)


def test_r08_trusting_nobody() -> None:
    # NotReady is the agent's. In auto mode semantics §6 trusts what the pod's spec names.
    world = World("a.ex", trust=Trust("listed", ()))
    world.look_up(P, "a.ex", f"a.ex A {ONE}")
    assert learned(world) == 0
    assert world.counts == {"untrusted": 1}


@pytest.mark.parametrize("server", [R, KUBE_DNS, NODE_LOCAL])
def test_r09_every_face_of_the_resolver(server: str) -> None:
    world = World("a.ex")
    world.look_up(P, "a.ex", f"a.ex A {ONE}", server=server)
    assert world.ok(P, "a.ex", ONE)


# What an answer is.

ANSWER = raw_record(Q_NAME, "A", ip(ONE))


@pytest.mark.parametrize(
    ("payload", "fine"),
    [
        (raw_message(wire("a.ex"), [ANSWER]), True),
        (raw_message(wire("a.ex"), [ANSWER], flags=0x0180), False),
        (raw_message(wire("a.ex"), [ANSWER], flags=0x8180 | 2 << 11), False),
        *((raw_message(wire("a.ex"), [ANSWER], flags=0x8180 | code), False) for code in (2, 3, 5)),
        (raw_message(wire("a.ex"), [ANSWER], qdcount=0), False),
        (raw_message(wire("a.ex"), [ANSWER], qdcount=2), False),
        (raw_message(wire("a.ex"), [ANSWER], rclass=3), False),
        (raw_message(wire("a.ex"), [ANSWER], rclass=255), False),
        (raw_message(wire("a.ex"), [raw_record(Q_NAME, "A", ip(ONE), rclass=3)]), False),
    ],
)
def test_r10_a_response_without_error_to_one_question(payload: bytes, fine: bool) -> None:
    world = World("a.ex")
    world.ask(P, "a.ex")
    world.receive(P, payload)
    assert world.ok(P, "a.ex", ONE) is fine


def test_r10_a_query_that_holds_answers(shared: Path) -> None:
    world = World("oisf.net", trust=Trust("any"))
    for payload in dns_payloads(shared / "captures/dns-udp-request-with-answer.pcap"):
        if not payload[2] & 0x80:
            world.receive(P, payload)
    assert learned(world) == 0


# Names and patterns.


@pytest.mark.parametrize("name", ["x.a.ex", "xa.ex", "ex"])
def test_r11_exact_means_exact(name: str) -> None:
    world = World("a.ex")
    world.look_up(P, name, f"{name} A {ONE}")
    assert learned(world) == 1
    assert not world.ok(P, "a.ex", ONE)


@pytest.mark.parametrize(
    ("name", "fine"),
    [("a.ex", True), ("a.b.ex", True), ("ex", False), ("aex", False), ("a.ex.evil", False)],
)
def test_r12_a_wildcard_is_one_or_more_whole_labels(name: str, fine: bool) -> None:
    world = World("*.ex")
    world.look_up(P, name, f"{name} A {ONE}")
    assert world.ok(P, "*.ex", ONE) is fine


def test_r13_case_folds_on_both_sides() -> None:
    world = World("www.EX")
    world.ask(P, "WwW.eX")
    world.ans(P, "wWw.Ex", f"WWW.ex A {ONE}")
    assert world.ok(P, "www.ex", ONE)


def test_r13_only_ascii_folds() -> None:
    world = World("\u212a.ex", "k.ex")
    assert canonical_pattern("\u212a.ex") is None
    kelvin = labels("\u212a".encode(), b"ex")
    world.send(P, raw_message(kelvin, flags=0x0100))
    world.receive(P, raw_message(kelvin, [ANSWER]))
    assert learned(world) == 0


def test_r14_one_trailing_dot() -> None:
    world = World("a.ex.", "*.ex.")
    world.look_up(P, "a.ex.", f"a.ex. A {ONE}")
    assert world.ok(P, "a.ex", ONE)
    assert world.ok(P, "*.ex", ONE)


@pytest.mark.parametrize(
    "name",
    [labels(b"www.ex"), labels(b"www.ex", b"ex"), labels(b"ww\0", b"ex"), labels(b"w w", b"ex")],
)
def test_r15_labels_that_no_host_has(name: bytes) -> None:
    world = World("www.ex", "*.ex")
    world.send(P, raw_message(name, flags=0x0100))
    world.receive(P, raw_message(name, [ANSWER]))
    assert learned(world) == 0
    assert world.counts == {"unusable-name": 1}


def test_r16_a_labels_are_bytes() -> None:
    world = World("xn--bcher-kva.ex")
    world.look_up(P, "XN--bcher-kva.ex", f"xn--bcher-kva.ex A {ONE}")
    assert world.ok(P, "xn--bcher-kva.ex", ONE)
    assert canonical_pattern("b\u00fccher.ex") is None  # whoever loads it says so


# Chains.


@pytest.mark.parametrize("turn", [0, 1])
def test_r17_a_chain_in_any_order_credits_the_question(turn: int) -> None:
    world = World("a.ex", "b.ex")
    records = [f"b.ex A {ONE}", "a.ex CNAME b.ex"]
    world.look_up(P, "a.ex", *records[turn:], *records[:turn])
    assert world.ok(P, "a.ex", ONE)
    assert not world.ok(P, "b.ex", ONE)


def test_r18_loops_and_long_chains() -> None:
    world = World("a.ex")
    world.look_up(P, "a.ex", "a.ex CNAME b.ex", "b.ex CNAME a.ex", f"a.ex A {ONE}")
    hops = [f"h{n}.ex CNAME h{n + 1}.ex" for n in range(17)]
    world.look_up(P, "a.ex", "a.ex CNAME h0.ex", *hops, f"h17.ex A {ONE}")
    assert learned(world) == 0
    assert world.counts == {"endless-chain": 2}


def test_r19_orphans_are_not_credited() -> None:
    # Semantics §6 knows no lenient mode: a name is learned only from its own question.
    world = World("a.ex", "z.ex")
    world.look_up(P, "a.ex", "z.ex A 6.6.6.6")
    assert learned(world) == 0
    assert world.counts == {"orphan": 1, "empty": 1}


def test_r20_a_chain_over_two_answers_is_not_stitched() -> None:
    world = World("a.ex", "b.ex")
    world.look_up(P, "a.ex", "a.ex CNAME b.ex")
    world.look_up(P, "b.ex", f"b.ex A {ONE}")
    assert not world.ok(P, "a.ex", ONE)
    assert world.ok(P, "b.ex", ONE)


def test_r21_autopath_is_closed() -> None:
    # Optional, and off unless asked for: semantics §6 credits only the question's name.
    name = "g.ex.x.svc.cluster.local"
    for autopath, target, fine in (
        (True, "g.ex", True),
        (True, "h.ex", False),
        (False, "g.ex", False),
    ):
        world = World("g.ex", "h.ex", autopath=autopath)
        world.look_up(P, name, f"{name} CNAME {target}", f"{target} A {ONE}")
        assert world.ok(P, target, ONE) is fine


def test_r22_answer_section_only() -> None:
    world = World("a.ex")
    world.ask(P, "a.ex")
    world.ans(P, "a.ex", authority=[rr(f"a.ex A {ONE}")], additional=[rr(f"a.ex A {TWO}")])
    assert learned(world) == 0


def test_r22_additionals_of_a_capture(shared: Path) -> None:
    world = World("*.com", trust=Trust("any"))
    query, answer = dns_payloads(shared / "captures/20250224-dns-additionals-with-cname.pcap")
    world.send(P, query)
    world.receive(P, answer)
    assert [saved.name for saved in world.names.dump(0.0)] == ["example.com"]
    assert world.ok(P, "*.com", "192.168.1.1")


# How long.


@pytest.mark.parametrize(
    ("ttl", "lifetime"),
    [
        (0, 30), (1, 30), (29, 30), (30, 30), (299, 299), (300, 300), (301, 300), (86400, 300),
        ((1 << 31) + 1, 30),
    ],
)  # fmt: skip
def test_r23_lifetimes_are_clamped(ttl: int, lifetime: int) -> None:
    world = World("a.ex")
    world.look_up(P, "a.ex", f"a.ex A {ONE}", ttl=ttl)
    assert world.ok(P, "a.ex", ONE, lifetime - 0.1)
    assert not world.ok(P, "a.ex", ONE, lifetime)


def test_r24_the_shortest_of_the_chain() -> None:
    world = World("a.ex")
    world.look_up(P, "a.ex", rr("a.ex CNAME b.ex", 40), rr(f"b.ex A {ONE}", 200))
    assert world.ok(P, "a.ex", ONE, 39.9)
    assert not world.ok(P, "a.ex", ONE, 40.0)


def test_r25_renewals_only_extend() -> None:
    world = World("a.ex")
    world.look_up(P, "a.ex", f"a.ex A {ONE}", ttl=300, now=0.0)
    world.look_up(P, "a.ex", f"a.ex A {ONE}", ttl=30, now=10.0)
    assert world.ok(P, "a.ex", ONE, 299.0)


def test_r26_every_address_has_its_own_clock() -> None:
    world = World("a.ex")
    world.look_up(P, "a.ex", rr(f"a.ex A {ONE}", 40), rr(f"a.ex A {TWO}", 50))
    world.look_up(P, "a.ex", rr("a.ex A 3.3.3.3", 60))
    for text, expires in ((ONE, 40.0), (TWO, 50.0), ("3.3.3.3", 60.0)):
        assert world.ok(P, "a.ex", text, expires - 0.1)
        assert not world.ok(P, "a.ex", text, expires)


def test_r27_families_do_not_age_each_other() -> None:
    world = World("a.ex")
    world.look_up(P, "a.ex", "a.ex AAAA 2001:db8::1", rtype="AAAA", ttl=60)
    world.look_up(P, "a.ex", f"a.ex A {ONE}", ttl=30)
    world.look_up(P, "a.ex", f"a.ex A {ONE}", ttl=300, now=20.0)
    assert world.ok(P, "a.ex", "2001:db8::1", 59.9)
    assert not world.ok(P, "a.ex", "2001:db8::1", 60.0)


@pytest.mark.parametrize("rcode", [0, 2, 3, 5])
def test_r28_failures_change_nothing(rcode: int) -> None:
    world = World("a.ex")
    world.look_up(P, "a.ex", f"a.ex A {ONE}")
    world.ask(P, "a.ex")
    world.ans(P, "a.ex", rcode=rcode)
    assert world.ok(P, "a.ex", ONE)
    world.ask(P, "a.ex")
    world.ans(P, "a.ex", f"a.ex A {TWO}", rcode=3)
    assert not world.ok(P, "a.ex", TWO)


# How much.


@pytest.mark.parametrize("count", [100, 1000])
def test_r29_many_addresses_of_one_name(count: int) -> None:
    world = World("a.ex")
    every = [f"20.0.{n >> 8}.{n & 255}" for n in range(count)]
    size = -(-count // 13)
    for at in range(0, count, size):
        world.look_up(P, "a.ex", *(f"a.ex A {text}" for text in every[at : at + size]))
    assert all(world.ok(P, "a.ex", text) for text in every)


def test_r30_a_flood_costs_only_who_floods() -> None:
    world = World("*.ex")
    world.look_up(P, "a.ex", f"a.ex A {ONE}", ttl=30)
    first = parse_address("20.0.0.0")
    for number in range(30_000):
        world.names.learn(Q, f"h{number}.ex", first + number, ttl=300, now=0.0, source=None)
        world.names.learn(Q, f"h{number}.other", first + number, ttl=300, now=0.0, source=None)
    assert world.ok(P, "*.ex", ONE)
    assert learned(world) == 1 + 4096 + 1024
    assert world.names.lookup(Q, first + 29_999, 0.0)


# Transport.


def test_r31_tcp_in_pieces_and_pipelined() -> None:
    there = Node()
    names = [f"h{n}.ex" for n in range(20)]
    asked = b"".join(_framed(ask_bytes(name, ident=n)) for n, name in enumerate(names))
    answered = b"".join(
        _framed(answer_bytes(name, [rr(f"{name} A 20.0.0.{n}")], ident=n))
        for n, name in enumerate(names)
    )
    there.send(tcp(P_IP, PORT, KUBE_DNS, 53, seq=99, flags=SYN))
    there.send(tcp(KUBE_DNS, 53, P_IP, PORT, seq=499, flags=SYN | ACK))
    there.send(tcp(P_IP, PORT, KUBE_DNS, 53, asked, seq=100, flags=ACK))
    for at in range(len(answered)):
        part = answered[at : at + 1]
        there.send(tcp(KUBE_DNS, 53, P_IP, PORT, part, seq=500 + at, flags=ACK))
    assert [there.connect(f"20.0.0.{n}") for n in range(20)] == [Verdict.ALLOW] * 20


def test_r31_pipelined_capture(shared: Path) -> None:
    there = _replayed(shared / "captures/dns-tcp-multirequest-buffer.pcap")
    assert there.snooper.counts["negative"] == 20  # they are all NXDOMAIN
    assert not [reason for reason in there.snooper.counts if reason.startswith("tcp-")]


@pytest.mark.parametrize("name", ["dns_tcp.pcap", "tcpdns.pcap"])
def test_r31_captures(shared: Path, name: str) -> None:
    there = _replayed(shared / "captures" / name)
    assert there.snooper.counts["learned"] >= 1


def test_r31_a_gap_ends_one_stream_only() -> None:
    there = Node()
    for port, lost in ((PORT, 1000), (PORT + 1, 0)):
        there.send(tcp(P_IP, port, KUBE_DNS, 53, seq=99, flags=SYN))
        there.send(tcp(KUBE_DNS, 53, P_IP, port, seq=499, flags=SYN | ACK))
        there.send(tcp(P_IP, port, KUBE_DNS, 53, _framed(ask_bytes("a.ex")), seq=100, flags=ACK))
        answer = _framed(answer_bytes("a.ex", [rr(f"a.ex A 20.0.0.{port - PORT}")]))
        for again in range(300):
            seq = 500 + lost + again * lost
            there.send(tcp(KUBE_DNS, 53, P_IP, port, answer, seq=seq, flags=ACK))
    assert there.connect("20.0.0.0") is Verdict.DENY
    assert there.connect("20.0.0.1") is Verdict.ALLOW
    assert there.snooper.counts["tcp-gap"] == 1


def test_r32_truncated_then_over_tcp() -> None:
    there = Node()
    there.send(udp(P_IP, PORT, KUBE_DNS, 53, ask_bytes("a.ex")))
    cut = answer_bytes("a.ex", [rr(f"a.ex A {ONE}"), rr("a.ex A 9.9.9.9")], tc=1)[:-3]
    there.send(udp(KUBE_DNS, 53, P_IP, PORT, cut))
    there.send(tcp(P_IP, PORT, KUBE_DNS, 53, seq=99, flags=SYN))
    there.send(tcp(KUBE_DNS, 53, P_IP, PORT, seq=499, flags=SYN | ACK))
    there.send(tcp(P_IP, PORT, KUBE_DNS, 53, _framed(ask_bytes("a.ex")), seq=100, flags=ACK))
    whole = _framed(answer_bytes("a.ex", [rr(f"a.ex A {TWO}")]))
    there.send(tcp(KUBE_DNS, 53, P_IP, PORT, whole, seq=500, flags=ACK))
    assert there.snooper.counts["truncated"] == 1
    assert there.connect(ONE) is Verdict.ALLOW
    assert there.connect(TWO) is Verdict.ALLOW
    assert there.connect("9.9.9.9") is Verdict.DENY


def test_r33_big_answers() -> None:
    world = World("a.ex")
    world.ask(P, "a.ex")
    every = [f"20.0.0.{n}" for n in range(60)]
    option = raw_record(b"\0", "OPT", b"\x00\x0c\x0c\x1c" + bytes(3100))
    records = [raw_record(Q_NAME, "A", ip(text)) for text in every]
    data = raw_message(wire("a.ex"), records, arcount=1) + option
    assert len(data) > 4000
    world.receive(P, data)
    assert all(world.ok(P, "a.ex", text) for text in every)


def test_r33_a_bad_option_length() -> None:
    world = World("a.ex")
    world.ask(P, "a.ex")
    option = raw_record(b"\0", "OPT", b"\0\x0a\xff\xff", length=4000)
    world.receive(P, raw_message(wire("a.ex"), [ANSWER], arcount=1) + option)
    assert world.ok(P, "a.ex", ONE)


def test_r34_fragments() -> None:
    there = Node()
    there.send(udp(P_IP, PORT, KUBE_DNS, 53, ask_bytes("a.ex")))
    every = [f"20.0.0.{n}" for n in range(200)]
    answer = answer_bytes("a.ex", [rr(f"a.ex A {text}") for text in every])
    for part in reversed(fragments(udp(KUBE_DNS, 53, P_IP, PORT, answer), 1200)):
        there.send(part)
    assert there.connect(every[0]) is Verdict.ALLOW
    assert there.connect(every[-1]) is Verdict.ALLOW


def test_r34_fragments_of_a_capture(shared: Path) -> None:
    there = _replayed(shared / "captures/dns-edns-ecs.pcap")
    assert there.snooper.counts["damaged"] == 0
    assert there.snooper.counts["learned"] > 0


# Malformed.


def test_r35_pointers_go_backwards() -> None:
    # Semantics §6 keeps records that were read before a damaged one; a question that is
    # damaged leaves nothing.
    world = World("a.ex")
    bad = raw_record(b"\xc0\xff", "A", ip(TWO))
    world.ask(P, "a.ex")
    world.receive(P, raw_message(b"\xc0\x20", [ANSWER]))
    assert learned(world) == 0
    world.receive(P, raw_message(wire("a.ex"), [bad, ANSWER]))
    assert learned(world) == 0
    world.ask(P, "a.ex")
    world.receive(P, raw_message(wire("a.ex"), [ANSWER, bad]))
    assert world.ok(P, "a.ex", ONE)
    assert not world.ok(P, "a.ex", TWO)


@pytest.mark.parametrize("name", ["dns_fwdptr.pcap", "dns-invalid-names.pcap"])
def test_r35_captures(shared: Path, name: str) -> None:
    world = World(trust=Trust("any"), assume_queried=True)
    for payload in dns_payloads(shared / "captures" / name):
        world.receive(P, payload)
    assert learned(world) == 0
    assert world.counts["malformed"] > 0


def test_r36_one_verdict_whatever_the_payload() -> None:
    there = Node()
    noise = random.Random(36)
    answer = answer_bytes("a.ex", [rr("a.ex CNAME b.ex"), rr(f"b.ex A {ONE}")])
    for _ in range(2000):
        mutated = bytearray(answer)
        for _ in range(noise.randrange(1, 6)):
            mutated[noise.randrange(len(mutated))] = noise.randrange(256)
        cut = bytes(mutated[: noise.randrange(len(mutated) + 1)])
        assert there.send(udp(P_IP, PORT, KUBE_DNS, 53, ask_bytes("a.ex"))) is Verdict.ALLOW
        assert there.send(udp(KUBE_DNS, 53, P_IP, PORT, cut)) is Verdict.ALLOW


def test_r37_learned_when_the_answer_has_been_passed_on() -> None:
    # The order of recording and releasing a held packet is the agent's; it holds because
    # ``answer`` has learned when it returns, for each of two answers in flight.
    world = World("a.ex")
    world.ask(P, "a.ex", ident=1)
    world.ask(P, "a.ex", ident=2)
    world.ans(P, "a.ex", f"a.ex A {ONE}", ident=2)
    assert world.ok(P, "a.ex", ONE)
    world.ans(P, "a.ex", f"a.ex A {TWO}", ident=1)
    assert world.ok(P, "a.ex", TWO)


def test_r38_dns_is_judged_like_anything_else() -> None:
    # Nothing here holds or changes a packet: what an answer says does not change whether
    # it passes. That the bytes stay the same is the agent's.
    there = Node()
    there.send(udp(P_IP, PORT, KUBE_DNS, 53, ask_bytes("a.ex")))
    for payload in (b"", b"junk", answer_bytes("a.ex", [rr("a.ex A 169.254.169.254")])):
        assert there.send(udp(KUBE_DNS, 53, P_IP, PORT, payload)) is Verdict.ALLOW


# Addresses.


def test_r39_hints_credit_the_question() -> None:
    world = World("a.ex", "b.ex")
    data = service_data(1, wire("b.ex"), (4, ip(ONE)))
    world.ask(P, "a.ex", "HTTPS")
    world.receive(P, raw_message(wire("a.ex"), [raw_record(Q_NAME, "HTTPS", data)], rtype="HTTPS"))
    assert world.ok(P, "a.ex", ONE)
    assert not world.ok(P, "b.ex", ONE)


def test_r39_alias_mode_and_malformed_parameters(shared: Path) -> None:
    world = World("*.ex", "example.com", trust=Trust("any"))
    data = service_data(0, wire("b.ex"), (4, ip(ONE)))
    world.ask(P, "a.ex", "HTTPS")
    world.receive(P, raw_message(wire("a.ex"), [raw_record(Q_NAME, "HTTPS", data)], rtype="HTTPS"))
    capture = shared / "captures/svcb-alpn-malformed-len-too-long.pcap"
    query, answer = dns_payloads(capture)
    world.send(P, query)
    world.receive(P, answer)
    assert learned(world) == 0
    assert world.counts == {"empty": 2, "skipped": 1}


def test_r40_mapped_addresses_are_refused() -> None:
    world = World("a.ex")
    world.ask(P, "a.ex", "AAAA")
    record = raw_record(Q_NAME, "AAAA", bytes(10) + b"\xff\xff" + ip("20.0.0.1"))
    world.receive(P, raw_message(wire("a.ex"), [record], rtype="AAAA"))
    assert learned(world) == 0
    assert world.counts == {"mapped-address": 1, "empty": 1}


def test_r41_nat64_is_looked_into() -> None:
    world = World("a.ex")
    records = ["a.ex AAAA 64:ff9b::101:101", "a.ex AAAA 64:ff9b::a9fe:a9fe"]
    world.look_up(P, "a.ex", *records, rtype="AAAA")
    assert world.ok(P, "a.ex", "64:ff9b::101:101")
    assert not world.ok(P, "a.ex", "64:ff9b::a9fe:a9fe")
    assert not world.ok(P, "a.ex", ONE)


@pytest.mark.parametrize(
    "text", ["169.254.169.254", "127.0.0.1", "0.0.0.0", "224.0.0.1", "192.168.0.1", "10.96.0.7"]
)
def test_r42_rebinding(text: str) -> None:
    objects: list[ClusterObject] = [node("n1", "192.168.0.1"), service("x/web", "10.96.0.7")]
    world = World("a.ex", objects=objects)
    world.look_up(P, "a.ex", f"a.ex A {text}", f"a.ex A {ONE}")
    assert not world.ok(P, "a.ex", text)
    assert world.ok(P, "a.ex", ONE)
    assert [event.address for event in world.snooper.events] == [parse_address(text)]


def test_r43_pods_only_under_the_cluster_domain() -> None:
    world = World("*.cluster.local", "*.ex")
    name = "web.x.svc.cluster.local"
    world.look_up(P, name, f"{name} A {Q_IP}")
    assert world.ok(P, "*.cluster.local", Q_IP)
    world.look_up(P, "ext.ex", f"ext.ex A {Q_IP}")
    assert not world.ok(P, "*.ex", Q_IP)


# Connections and time.


def test_r44_expiry_stops_only_new_connections() -> None:
    there = Node()
    there.look_up("a.ex", f"a.ex A {ONE}", now=0.0)
    assert there.connect(ONE, now=1.0) is Verdict.ALLOW
    data = tcp(P_IP, 50000, ONE, 443, b"data", seq=1, flags=ACK)
    assert there.send(data, now=31.0) is Verdict.ALLOW
    assert there.connect(ONE, now=31.0, sport=50001) is Verdict.DENY


def test_r45_midstream_is_unknown() -> None:
    there = Node()
    assert there.send(tcp(P_IP, 50000, ONE, 443, b"data", flags=ACK)) is Verdict.UNKNOWN


def test_r46_time_that_goes_back_revives_nothing() -> None:
    world = World("a.ex")
    world.look_up(P, "a.ex", f"a.ex A {ONE}", ttl=30, now=0.0)
    assert not world.ok(P, "a.ex", ONE, 31.0)
    assert not world.ok(P, "a.ex", ONE, 26.0)
    world.ask(P, "a.ex", now=100.0)
    world.ans(P, "a.ex", f"a.ex A {TWO}", ttl=30, now=95.0)
    assert world.ok(P, "a.ex", TWO, 100.0)
    assert not world.ok(P, "a.ex", TWO, 125.0)


def test_r47_a_restart_keeps_grants_and_extends_none() -> None:
    # The file, and what to do with a torn one, are the agent's.
    world = World("a.ex")
    world.look_up(P, "a.ex", f"a.ex A {ONE}", ttl=300, now=0.0)
    after = World("a.ex")
    after.names.restore(world.names.dump(0.0), 100.0)
    assert after.ok(P, "a.ex", ONE, 299.9)
    assert not after.ok(P, "a.ex", ONE, 300.1)


# Rules.


def test_r48_only_accept_rules_use_names() -> None:
    # In both tiers, as semantics §4 says; an unknown peer in Deny or Pass denies everything.
    def judge(*rules: ClusterObject) -> Verdict | None:
        there = Node(*rules)
        there.look_up("a.ex", f"a.ex A {ONE}")
        return there.connect(ONE)

    open_dns = cnp("dns", priority=0, egress=[accept(networks(f"{KUBE_DNS}/32"))])
    for tier in (Tier.ADMIN, Tier.BASELINE):
        rest = deny(networks("0.0.0.0/0"))
        yes = cnp("names", tier, 1, egress=[accept(domains("a.ex")), rest])
        assert judge(open_dns, yes) is Verdict.ALLOW
        for rule in (deny(domains("b.ex")), pass_on(domains("b.ex"))):
            assert judge(open_dns, cnp("names", tier, 1, egress=[rule])) is Verdict.DENY
    patterns = snapshot_of([cnp("names", egress=[deny(domains("b.ex"))])]).patterns
    assert patterns == frozenset()


def test_r49_a_miss_falls_through() -> None:
    rules = cnp("names", egress=[accept(domains("a.ex")), accept(networks("1.0.0.0/8"))])
    there = Node(rules, cnp("end", priority=9, egress=[deny(networks("0.0.0.0/0"))]))
    assert there.connect(ONE) is Verdict.ALLOW
    assert there.connect(TWO) is Verdict.DENY


def test_r50_why() -> None:
    there = Node()
    there.look_up("a.ex", f"a.ex A {ONE}")
    decision = there.datapath.engine.evaluate(packet(P, ONE, 443), now=1.0)
    source = parse_address(KUBE_DNS)
    assert set(decision.grants) == {
        NameGrant("a.ex", "a.ex", parse_address(ONE), source, 30.0),
        NameGrant("*.ex", "a.ex", parse_address(ONE), source, 30.0),
    }
    # What metrics will be made of: untrusted, unsolicited, orphan, truncated, malformed,
    # the guard's reasons and late are ``counts``; evicted is the cache's.
    assert there.snooper.counts["learned"] == 1
    assert there.names.evicted == 0


def test_r51_other_name_services(shared: Path) -> None:
    there = _replayed(shared / "captures/mdns.pcap")
    for port in (5353, 5355, 137):
        there.send(udp(P_IP, PORT, KUBE_DNS, port, ask_bytes("a.ex")))
        answer = answer_bytes("a.ex", [rr(f"a.ex A {ONE}")])
        there.send(udp(KUBE_DNS, port, P_IP, PORT, answer))
    assert len(there.names) == 0


def test_r52_cost_does_not_depend_on_the_size() -> None:
    def calls(size: int) -> int:
        names = DomainCache(max_addresses_per_client=size)
        names.set_patterns(frozenset({"*.ex", *(f"p{n}.ex" for n in range(size))}))
        for n in range(size):
            names.learn(P, f"h{n}.ex", n, ttl=300, now=0.0, source=None)
        return _calls(lambda: names.lookup(P, 3, 1.0))

    assert calls(10) == calls(3000)

    few = PatternTrie(["*.ex"])
    many = PatternTrie(["*.ex", *(f"*.p{n}.ex" for n in range(3000))])
    assert _calls(lambda: few.satisfied("b.a.ex")) == _calls(lambda: many.satisfied("b.a.ex"))


def test_r53_a_policy_after_the_lookup() -> None:
    world = World()
    world.look_up(P, "a.ex", f"a.ex A {ONE}", ttl=60)
    assert not world.ok(P, "a.ex", ONE)
    world.names.set_patterns(frozenset({"a.ex"}))
    assert world.ok(P, "a.ex", ONE, 59.9)
    assert not world.ok(P, "a.ex", ONE, 60.0)


def test_r54_odd_question_names() -> None:
    world = World("*.ex", "ex", "*")
    for name in (b"\0", labels(*[b"a" * 63] * 4), labels(b"ex"), labels(*[b"a"] * 125, b"ex")):
        world.send(P, raw_message(name, flags=0x0100))
        world.receive(P, raw_message(name, [ANSWER]))
    assert [grant.pattern for grant in world.names.lookup(P, parse_address(ONE), 0.0)] == [
        "ex",  # one label, by an exact pattern only, which the API would refuse
        "*.ex",
    ]
    assert world.counts["malformed"] == 1  # longer than 255 bytes
    assert world.counts["unusable-name"] == 1  # the root


def test_every_rule_has_a_test() -> None:
    found = {int(m[1]) for name in globals() if (m := re.match(r"test_r(\d\d)_", name))}
    assert found == set(range(1, 55))


def _framed(message: bytes) -> bytes:
    return len(message).to_bytes(2, "big") + message


def _calls(function: object) -> int:
    """How many calls, C functions included, a call makes."""
    count = 0

    def profile(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    assert callable(function)
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def _replayed(path: Path, *objects: ClusterObject) -> Node:
    """A capture in which whoever asks is a pod and every server is trusted."""
    clients: set[int] = set()
    for _, seen in parsed(path):
        if seen.dport == 53:
            clients.add(seen.src)
    pods: list[ClusterObject] = [
        Pod(uid=f"uid-{n}", namespace="c", name=f"c{n}", ips=(address,))
        for n, address in enumerate(sorted(clients))
    ]
    there = Node(*pods, *objects, trust=Trust("any"))
    for ts, data in ip_packets(path):
        there.send(data, ts)
    return there
