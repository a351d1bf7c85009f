"""Packets through the byte door: connections, replies, names, and what cannot be read."""

from collections.abc import Iterable

import pytest
from helpers.builders import (
    accept,
    address,
    allow,
    cnp,
    deny,
    domains,
    ip_block,
    netpol,
    networks,
    node,
    own_pods,
    pod,
    pods,
    select,
    service,
    tcp,
)
from helpers.builders import udp as udp_port
from scapy.layers.dns import DNS, DNSQR, DNSRR
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import ICMPv6EchoRequest, ICMPv6ND_NS, IPv6
from scapy.packet import Packet as Layer
from scapy.packet import Raw

from knp_py.engine.datapath import Datapath
from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.flows import Flow
from knp_py.engine.names import DomainCache
from knp_py.engine.resolvers import parse_trust
from knp_py.engine.snoop import DnsSnooper
from knp_py.engine.state import ClusterState
from knp_py.model.changes import Change, ClusterObject, Verb
from knp_py.model.decision import Verdict
from knp_py.model.packet import Proto

A, B, OUT, DNS_POD = "10.0.1.10", "10.0.2.10", "203.0.113.5", "10.0.3.53"
PODS: list[ClusterObject] = [
    pod("x/a", A, "fd00::a", labels={"app": "a"}, node="n1"),
    pod("y/b", B, "fd00::b", labels={"app": "b"}, node="n2"),
    pod("kube-system/dns", DNS_POD, labels={"k8s-app": "kube-dns"}),
    node("n1", "192.168.0.1"),
]
A_ISOLATED_INGRESS = netpol("x/closed", select({"app": "a"}), ingress=[])
ONLY_NAME = cnp(
    "names",
    subject=pods(select({"app": "a"})),
    egress=[
        accept(pods(select({"k8s-app": "kube-dns"}))),
        accept(domains("www.example.com"), ports=[tcp(443)]),
        deny(networks("0.0.0.0/0", "::/0")),
    ],
)


class Wire:
    """A datapath, packets written by scapy, and a clock that the test moves."""

    def __init__(self, objects: Iterable[ClusterObject], **settings: bool) -> None:
        state = ClusterState()
        for obj in (*PODS, *objects):
            state.apply(Change(Verb.APPLIED, obj))
        names = DomainCache()
        self.snooper = DnsSnooper(
            names,
            trust=parse_trust("auto"),
            assume_queried=settings.get("assume_queried", False),
        )
        self.path = Datapath(PolicyEngine(names), self.snooper, **settings)
        self.path.load(state.snapshot())
        self.now = 1000.0

    def send(self, packet: Layer, *, after: float = 0.001, vlan: int = 0) -> Flow:
        flow = self.pass_on(bytes(packet), after=after, vlan=vlan)
        assert flow is not None
        return flow

    def pass_on(self, data: bytes, *, after: float = 0.001, vlan: int = 0) -> Flow | None:
        self.now += after
        return self.path.ingest(data, now=self.now, vlan=vlan)


def tcp_packet(src: str, dst: str, sport: int, dport: int, flags: str, seq: int = 1) -> Layer:
    return IP(src=src, dst=dst) / TCP(sport=sport, dport=dport, flags=flags, seq=seq)


def udp(src: str, dst: str, sport: int, dport: int, payload: bytes = b"x") -> Layer:
    return IP(src=src, dst=dst) / UDP(sport=sport, dport=dport) / Raw(payload)


def handshake(wire: Wire, src: str, dst: str, sport: int, dport: int) -> Flow:
    flow = wire.send(tcp_packet(src, dst, sport, dport, "S"))
    wire.send(tcp_packet(dst, src, dport, sport, "SA"))
    wire.send(tcp_packet(src, dst, sport, dport, "A", 2))
    return flow


def test_a_reply_belongs_to_its_connection_and_is_not_judged() -> None:
    wire = Wire([A_ISOLATED_INGRESS])
    flow = wire.send(tcp_packet(A, B, 40000, 80, "S"))
    reply = wire.send(tcp_packet(B, A, 80, 40000, "SA"))
    assert reply is flow
    assert flow.decision.verdict is Verdict.ALLOW
    assert (flow.original.packets, flow.reply.packets) == (1, 1)


def test_a_connection_the_other_way_is_another_one() -> None:
    wire = Wire([A_ISOLATED_INGRESS])
    wire.send(tcp_packet(A, B, 40000, 80, "S"))
    other = wire.send(tcp_packet(B, A, 40000, 80, "S"))
    assert other.decision.verdict is Verdict.DENY


@pytest.mark.parametrize("judge", [False, True])
def test_a_tcp_connection_without_its_syn_is_unknown_unless_asked(judge: bool) -> None:
    wire = Wire([A_ISOLATED_INGRESS], judge_midstream=judge)
    flow = wire.send(tcp_packet(B, A, 80, 40000, "A"))
    assert flow.midstream
    assert flow.decision.verdict is (Verdict.DENY if judge else Verdict.UNKNOWN)
    assert wire.send(tcp_packet(A, B, 40000, 80, "A")) is flow


def test_a_syn_ack_alone_is_unknown_never_a_plain_ingress_denial() -> None:
    wire = Wire([A_ISOLATED_INGRESS])
    assert wire.send(tcp_packet(B, A, 80, 40000, "SA")).decision.verdict is Verdict.UNKNOWN


def test_a_syn_again_repeats_and_another_syn_begins_anew() -> None:
    wire = Wire([])
    first = wire.send(tcp_packet(A, B, 40000, 80, "S", 7))
    assert wire.send(tcp_packet(A, B, 40000, 80, "S", 7)) is first
    assert wire.send(tcp_packet(A, B, 40000, 80, "S", 8)) is not first


def test_a_port_used_again_after_the_end_is_another_connection() -> None:
    wire = Wire([])
    first = handshake(wire, A, B, 40000, 80)
    for src, dst, sport, dport in ((A, B, 40000, 80), (B, A, 80, 40000)):
        wire.send(tcp_packet(src, dst, sport, dport, "FA", 2))
    last = wire.send(tcp_packet(A, B, 40000, 80, "A", 3))
    assert last is first
    assert wire.send(tcp_packet(A, B, 40000, 80, "S", 1)) is not first
    assert first in wire.path.flows.ended


@pytest.mark.parametrize(("silence", "same"), [(100.0, True), (4000.0, False)])
def test_an_established_connection_may_be_silent_for_a_while(silence: float, same: bool) -> None:
    wire = Wire([], judge_midstream=True)
    flow = handshake(wire, A, B, 40000, 80)
    for _ in range(3):  # so that the short road is taken too
        assert wire.send(tcp_packet(A, B, 40000, 80, "A", 3)) is flow
    assert (wire.send(tcp_packet(A, B, 40000, 80, "A", 4), after=silence) is flow) is same


def test_the_short_road_counts_what_the_long_one_counts() -> None:
    wire = Wire([])
    flow = handshake(wire, A, B, 40000, 80)
    sent = [len(tcp_packet(A, B, 40000, 80, "A"))] * 3
    for size in (0, 10, 1000, 0, 5):
        for pair in ((A, B, 40000, 80), (B, A, 80, 40000)):
            data = bytes(tcp_packet(*pair, "PA", 9) / Raw(b"z" * size))
            sent.append(len(data))
            assert wire.pass_on(data) is flow
    assert wire.path.flows.quick4[6], "nothing took the short road"
    assert (flow.packets, flow.bytes) == (len(sent), sum(sent))
    six = IPv6(src="fd00::a", dst="fd00::b") / TCP(sport=5, dport=6, flags="S", seq=1)
    back = IPv6(src="fd00::b", dst="fd00::a") / TCP(sport=6, dport=5, flags="SA", seq=1)
    more = IPv6(src="fd00::a", dst="fd00::b") / TCP(sport=5, dport=6, flags="A", seq=2)
    flows = {id(wire.send(p)) for p in (six, back, more, more, more)}
    assert len(flows) == 1
    assert wire.path.flows.quick6[6]


def test_a_udp_conversation_goes_on_while_it_is_answered() -> None:
    wire = Wire([])
    flow = wire.send(udp(A, B, 5000, 6000))
    assert wire.send(udp(B, A, 6000, 5000)) is flow
    assert wire.send(udp(A, B, 5000, 6000), after=100) is flow
    assert wire.send(udp(A, B, 5000, 6000), after=200) is not flow


def test_echo_replies_and_errors_about_a_connection_are_its_own() -> None:
    wire = Wire([A_ISOLATED_INGRESS])
    ping = wire.send(IP(src=A, dst=B) / ICMP(type=8, id=77))
    assert wire.send(IP(src=B, dst=A) / ICMP(type=0, id=77)) is ping
    syn = tcp_packet(A, OUT, 40000, 443, "S")
    flow = wire.send(syn)
    error = IP(src="198.51.100.1", dst=A) / ICMP(type=3, code=4) / Raw(bytes(syn))
    assert wire.send(error) is flow
    assert flow.reply.packets == 1


def test_an_error_must_go_to_whoever_sent_what_it_quotes() -> None:
    wire = Wire([A_ISOLATED_INGRESS])
    syn = tcp_packet(B, OUT, 40000, 443, "S")
    wire.send(syn)
    forged = wire.send(IP(src=OUT, dst=A) / ICMP(type=3, code=4) / Raw(bytes(syn)))
    assert forged.decision.verdict is Verdict.DENY


def test_an_echo_reply_that_nobody_asked_for_opens_no_way_back() -> None:
    wire = Wire([netpol("y/closed", select({"app": "b"}), ingress=[])])
    assert wire.send(IP(src=B, dst=A) / ICMP(type=0, id=7)).decision.verdict is Verdict.ALLOW
    assert wire.send(IP(src=A, dst=B) / ICMP(type=8, id=7)).decision.verdict is Verdict.DENY


def test_an_error_about_no_known_connection_is_judged() -> None:
    wire = Wire([A_ISOLATED_INGRESS])
    about = bytes(tcp_packet(A, OUT, 1, 2, "S"))
    flow = wire.send(IP(src="198.51.100.1", dst=A) / ICMP(type=3, code=4) / Raw(about))
    assert flow.decision.verdict is Verdict.DENY


def test_what_ipv6_needs_passes_and_echo_does_not() -> None:
    wire = Wire([A_ISOLATED_INGRESS])
    solicit = IPv6(src="fd00::b", dst="fd00::a") / ICMPv6ND_NS(tgt="fd00::a")
    echo = IPv6(src="fd00::b", dst="fd00::a") / ICMPv6EchoRequest()
    assert wire.send(solicit).decision.verdict is Verdict.ALLOW
    assert wire.send(echo).decision.verdict is Verdict.DENY


def test_the_same_tuple_on_another_vlan_is_another_connection() -> None:
    wire = Wire([])
    syn = tcp_packet(A, B, 40000, 80, "S")
    assert wire.send(syn, vlan=7) is not wire.send(syn)
    assert wire.send(syn, vlan=7) is not wire.send(syn, vlan=8)


def test_fragments_become_one_packet_of_one_connection() -> None:
    wire = Wire([netpol("y/web", select({"app": "b"}), ingress=[allow(ports=[tcp(80)])])])
    whole = tcp_packet(A, B, 40000, 80, "S") / Raw(b"q" * 3000)
    pieces = [bytes(p) for p in fragment(whole, 1000)]
    results = [wire.pass_on(piece) for piece in reversed(pieces)]
    assert results[:-1] == [None] * (len(pieces) - 1)
    flow = results[-1]
    assert flow is not None
    assert flow.key.dport == 80
    assert flow.packets == len(pieces)
    assert flow.decision.verdict is Verdict.ALLOW


def test_half_a_datagram_is_judged_by_its_first_fragment_and_counted() -> None:
    wire = Wire([netpol("y/closed", select({"app": "b"}), ingress=[])])
    pieces = fragment(udp(A, B, 1, 2, b"q" * 3000), 1000)
    assert wire.pass_on(bytes(pieces[0])) is None
    assert wire.pass_on(bytes(pieces[1])) is None
    began = wire.now
    wire.path.finish()
    [flow] = wire.path.flows.ended
    assert (flow.key.dport, flow.packets) == (2, 2)
    assert flow.first <= began
    assert flow.decision.verdict is Verdict.DENY
    assert wire.path.fragments.counts["timeout"] == 1


def test_half_a_datagram_without_its_beginning_is_judged_on_its_addresses() -> None:
    wire = Wire([netpol("y/web", select({"app": "b"}), ingress=[allow(ports=[udp_port(2)])])])
    pieces = fragment(udp(A, B, 1, 2, b"q" * 3000), 1000)
    assert wire.pass_on(bytes(pieces[1])) is None
    wire.path.finish()
    [flow] = wire.path.flows.ended
    assert flow.key.protocol == Proto.UNKNOWN
    assert flow.decision.verdict is Verdict.DENY
    assert wire.path.fragments.counts["timeout"] == 1


def test_a_transport_header_cut_short_is_judged_on_addresses() -> None:
    rules = [allow(ports=[tcp(80)])]
    wire = Wire([netpol("y/web", select({"app": "b"}), ingress=rules)])
    data = bytearray(bytes(tcp_packet(A, B, 40000, 80, "S"))[:24])
    data[2:4] = (24).to_bytes(2, "big")
    flow = wire.pass_on(bytes(data))
    assert flow is not None
    assert flow.decision.verdict is Verdict.DENY
    assert sum(wire.path.unparsed.values()) == 1


@pytest.mark.parametrize("data", [b"", b"\x45", b"\x00" * 40, b"\x65" + bytes(10)])
def test_no_readable_header_belongs_to_no_connection_and_is_counted(data: bytes) -> None:
    wire = Wire([])
    assert wire.pass_on(data) is None
    assert sum(wire.path.unreadable.values()) == 1


def answer(query: Layer, ip: str = "203.0.113.9", ttl: int = 60) -> Layer:
    dns = DNS(
        id=query[DNS].id,
        qr=1,
        qd=query[DNS].qd,
        an=DNSRR(rrname="www.example.com", ttl=ttl, rdata=ip),
    )
    return IP(src=query[IP].dst, dst=query[IP].src) / UDP(sport=53, dport=query[UDP].sport) / dns


def ask(server: str = DNS_POD, sport: int = 5353, ident: int = 9) -> Layer:
    dns = DNS(id=ident, qd=DNSQR(qname="www.example.com"))
    return IP(src=A, dst=server) / UDP(sport=sport, dport=53) / dns


def connect(wire: Wire, ip: str = "203.0.113.9", sport: int = 40000) -> Flow:
    return wire.send(tcp_packet(A, ip, sport, 443, "S", sport))


def test_a_name_opens_its_address_for_the_pod_that_asked() -> None:
    wire = Wire([ONLY_NAME])
    assert connect(wire).decision.verdict is Verdict.DENY
    query = ask()
    wire.send(query)
    wire.send(answer(query))
    flow = connect(wire, sport=40001)
    assert flow.decision.verdict is Verdict.ALLOW
    assert flow.names == ("www.example.com",)
    assert flow.decision.grants[0].learned_from == address(DNS_POD)
    wire.now += 61
    assert connect(wire, sport=40002).decision.verdict is Verdict.DENY


def test_an_answer_that_nobody_asked_for_teaches_nothing() -> None:
    wire = Wire([ONLY_NAME])
    wire.send(answer(ask()))
    assert connect(wire).decision.verdict is Verdict.DENY
    assert wire.snooper.counts["unsolicited"] == 1


def test_an_answer_without_its_query_counts_when_assumed() -> None:
    wire = Wire([ONLY_NAME], assume_queried=True)
    flow = wire.send(answer(ask()))
    assert flow.key.dport == 53
    assert connect(wire).decision.verdict is Verdict.ALLOW


def test_a_pod_that_sends_from_port_53_teaches_nobody() -> None:
    wire = Wire([ONLY_NAME])
    forged = answer(ask())
    for src, dst in ((A, A), (A, DNS_POD), (B, A)):
        forged[IP].src, forged[IP].dst = src, dst
        wire.send(forged)
    assert connect(wire).decision.verdict is Verdict.DENY


def test_a_query_that_policy_denies_teaches_nothing() -> None:
    wire = Wire([ONLY_NAME])
    query = ask("8.8.8.8")
    assert wire.send(query).decision.verdict is Verdict.DENY
    wire.send(answer(query))
    assert connect(wire).decision.verdict is Verdict.DENY


def test_dns_over_tcp_teaches_too() -> None:
    wire = Wire([ONLY_NAME])
    message = bytes(ask()[DNS])
    reply = bytes(answer(ask())[DNS])
    wire.send(tcp_packet(A, DNS_POD, 4444, 53, "S", 100))
    wire.send(tcp_packet(DNS_POD, A, 53, 4444, "SA", 500))
    framed = len(message).to_bytes(2, "big") + message
    wire.send(tcp_packet(A, DNS_POD, 4444, 53, "PA", 101) / Raw(framed))
    framed = len(reply).to_bytes(2, "big") + reply
    for n, piece in enumerate((framed[:1], framed[1:9], framed[9:])):
        seq = 501 + (0, 1, 9)[n]
        wire.send(tcp_packet(DNS_POD, A, 53, 4444, "PA", seq) / Raw(piece))
    assert connect(wire).decision.verdict is Verdict.ALLOW


VIP = "10.96.0.7"
WEB = service("y/web", VIP, selector={"app": "b"}, port=80, target=8080)
ONLY_B = netpol(
    "x/only-b",
    select({"app": "a"}),
    egress=[allow(pods(select({"app": "b"})), ports=[tcp(8080)])],
)


def test_a_service_address_is_judged_as_it_is_and_says_so() -> None:
    wire = Wire([WEB, ONLY_B])
    flow = wire.send(tcp_packet(A, VIP, 40000, 80, "S"))
    assert flow.decision.verdict is Verdict.DENY
    assert flow.note is not None
    assert "y/web" in flow.note
    assert "--resolve-services" in flow.note


def test_a_service_address_is_judged_by_its_backends_when_asked() -> None:
    objects: list[ClusterObject] = [WEB, ONLY_B]
    wire = Wire(objects, resolve_services=True)
    flow = wire.send(tcp_packet(A, VIP, 40000, 80, "S"))
    assert flow.decision.verdict is Verdict.ALLOW
    assert flow.service is not None
    assert flow.service.key == "y/web"
    assert flow.note == "judged at y/b:8080, the pods behind the Service"


def test_backends_that_differ_give_no_verdict() -> None:
    apart = pod("y/b2", "10.0.2.11", labels={"app": "b", "role": "open"})
    closed = netpol("y/closed", select({"app": "b"}), ingress=[])
    opened = netpol("y/opened", select({"role": "open"}), ingress=[allow()])
    wire = Wire([apart, closed, opened, WEB], resolve_services=True)
    flow = wire.send(tcp_packet(A, VIP, 40000, 80, "S"))
    assert flow.decision.verdict is Verdict.UNKNOWN
    assert flow.decision.reason is not None
    assert "y/b deny" in flow.decision.reason


def test_a_flood_of_connections_is_bounded() -> None:
    state = ClusterState()
    for obj in PODS:
        state.apply(Change(Verb.APPLIED, obj))
    names = DomainCache()
    snooper = DnsSnooper(names, trust=parse_trust("auto"))
    path = Datapath(PolicyEngine(names), snooper, max_flows=64)
    path.load(state.snapshot())
    for n in range(1000):
        path.ingest(bytes(udp(A, OUT, 1 + n, 7)), now=float(n) / 1000)
    assert len(path.flows) <= 64
    assert path.flows.evicted > 0
    assert len(path.flows.ended) + len(path.flows) == 1000


def test_a_host_that_is_no_pod_gets_its_dns_answers_without_a_word() -> None:
    wire = Wire([])
    query = ask()
    query[IP].src = "192.168.0.1"
    wire.send(query)
    wire.send(answer(query))
    assert not wire.snooper.counts


def test_own_pods_builder_is_the_policys_namespace() -> None:
    policy = netpol("y/web", select({"app": "b"}), ingress=[allow(own_pods())])
    wire = Wire([policy])
    assert wire.send(tcp_packet(A, B, 40000, 80, "S")).decision.verdict is Verdict.DENY


def test_a_refusal_is_no_answer() -> None:
    wire = Wire([])
    refused = wire.send(tcp_packet(A, B, 40000, 80, "S"))
    wire.send(tcp_packet(B, A, 80, 40000, "RA"))
    silent = wire.send(tcp_packet(A, B, 40001, 80, "S"))
    about = bytes(tcp_packet(A, B, 40001, 80, "S"))
    wire.send(IP(src=B, dst=A) / ICMP(type=3, code=3) / Raw(about))
    answered = handshake(wire, A, B, 40002, 80)
    assert [f.answered for f in (refused, silent, answered)] == [False, False, True]


def test_a_late_packet_does_not_revive_a_name() -> None:
    wire = Wire([ONLY_NAME])
    query = ask()
    wire.send(query)
    wire.send(answer(query, ttl=30))
    wire.send(udp(B, OUT, 1, 2), after=40)
    late = wire.path.ingest(bytes(tcp_packet(A, "203.0.113.9", 5, 443, "S")), now=wire.now - 35)
    assert late is not None
    assert late.decision.verdict is Verdict.DENY
    assert late.first == wire.now - 35
    wire.now -= 5000  # another capture: its time is its own
    query = ask(ident=10)
    wire.send(query)
    wire.send(answer(query))
    assert connect(wire, sport=6).decision.verdict is Verdict.ALLOW


def test_time_that_jumps_back_forgets_every_name() -> None:
    wire = Wire([ONLY_NAME])
    query = ask()
    wire.send(query)
    wire.send(answer(query, ttl=30))
    wire.send(udp(B, OUT, 1, 2), after=3600)
    wire.now -= 3599
    assert connect(wire).decision.verdict is Verdict.DENY


def test_an_address_that_passed_on_to_another_pod_is_no_resolver() -> None:
    thief = pod("y/thief", DNS_POD, created="2026-02-01T00:00:00Z")
    anything = cnp("open", subject=pods(select({"app": "a"})), egress=[
        accept(domains("www.example.com"), ports=[tcp(443)]),
        accept(ip_block(f"{DNS_POD}/32")),
        deny(networks("0.0.0.0/0")),
    ])  # fmt: skip
    wire = Wire([thief, anything])
    query = ask()
    wire.send(query)
    wire.send(answer(query))
    assert wire.snooper.counts["untrusted"] == 1
    assert connect(wire).decision.verdict is Verdict.DENY


@pytest.mark.parametrize("resolve", [False, True])
def test_a_service_that_claims_a_resolvers_address_teaches_nothing(resolve: bool) -> None:
    asker = pod("x/a", A, labels={"app": "a"}, dns_policy="None", nameservers=["8.8.8.8"])
    claim = service("y/claim", selector={"app": "b"}, port=53, protocol="UDP",
                    external_ips=["8.8.8.8"])  # fmt: skip
    rules = [accept(domains("www.example.com")), accept(pods()), accept(networks("8.8.8.8/32")),
             deny(networks("0.0.0.0/0"))]  # fmt: skip
    wire = Wire([asker, claim, cnp("p", egress=rules)], resolve_services=resolve)
    query = ask("8.8.8.8")
    assert wire.send(query).decision.verdict is Verdict.ALLOW
    wire.send(answer(query))
    assert wire.snooper.counts["untrusted"] == 1
    assert connect(wire).decision.verdict is Verdict.DENY


def test_a_cluster_ip_cannot_be_claimed_by_an_external_one() -> None:
    own = service("kube-system/kube-dns", VIP, selector={"k8s-app": "kube-dns"}, port=53)
    claim = service("y/zz", selector={"app": "b"}, external_ips=[VIP])
    for objects in ([own, claim], [claim, own]):
        found = Wire(objects).path.engine.snapshot.service_at(address(VIP))
        assert found is not None
        assert found.key == "kube-system/kube-dns"


def test_half_a_datagram_of_another_pod_costs_nobody_a_name() -> None:
    wire = Wire([ONLY_NAME])
    half = bytes(fragment(udp(B, OUT, 1, 2, b"q" * 3000), 1000)[0])
    wire.pass_on(half)
    wire.now += 90
    query = ask()
    wire.send(query)
    wire.send(answer(query))
    wire.pass_on(half, after=10)  # now the first one is overdue
    assert connect(wire).decision.verdict is Verdict.ALLOW


def test_a_busy_connection_costs_no_more_than_a_quiet_one() -> None:
    wire = Wire([])
    handshake(wire, A, B, 40000, 80)
    for n in range(50):
        wire.send(udp(A, B, 5, 6, b"x"))
        wire.send(udp(B, A, 6, 5, b"x"))
        wire.send(tcp_packet(B, A, 80, 40000, "SA", n))
    assert len(wire.path.flows.quick4[6]) == len(wire.path.flows.quick4[17]) == 2


def test_midstream_judged_connections_notice_their_answer() -> None:
    wire = Wire([netpol("y/closed", select({"app": "b"}), ingress=[])], judge_midstream=True)
    flow = wire.send(tcp_packet(A, B, 40000, 80, "PA"))
    wire.send(tcp_packet(B, A, 80, 40000, "PA"))
    assert flow.decision.verdict is Verdict.DENY
    assert flow.answered


def test_a_packet_from_the_future_does_not_stop_the_sweeping() -> None:
    wire = Wire([])
    began = wire.now
    wire.now = 4e9
    wire.send(udp(A, OUT, 9, 9))
    wire.now = began
    for n in range(300):
        wire.send(udp(A, OUT, 1000 + n, 9), after=10)
    assert len(wire.path.flows) < 20
