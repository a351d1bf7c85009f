"""What the rules ask, and what they do with an answer: real packets, a daemon that is scripted."""

import random
import re
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count

import pytest
from helpers.labs import topology_of
from helpers.netspace import needs, run

from knp_py.agent.layout import Queues
from knp_py.agent.marks import Ask, Deed
from knp_py.lab.topology import Topology

pytest.importorskip("netfilterqueue", reason="needs netfilterqueue (the extra agent)")
from helpers.scripted import (
    A6,
    B6,
    INTERNET,
    NODE,
    OBJECTS,
    PATIENCE,
    A,
    Asked,
    B,
    C,
    Stage,
    eventually,
    is_open,
)

pytestmark = needs("nft", "iptables-nft", "ip6tables-nft")

TCP, UDP, ICMP, ICMPV6 = 6, 17, 1, 58
_ports = count(20_000)


@pytest.fixture(scope="module")
def topology() -> Iterator[Topology]:
    with topology_of(OBJECTS) as made:
        yield made


@pytest.fixture
def stage(topology: Topology) -> Iterator[Stage]:
    with ExitStack() as stack:
        made = Stage(topology, stack)
        try:
            yield made
        finally:
            made.end()


@pytest.fixture
def port() -> int:
    """One that no other test has used: conntrack remembers."""
    return next(_ports)


# -- asked once ------------------------------------------------------------------------------


@pytest.mark.parametrize("v6", [False, True])
def test_what_is_remembered_is_asked_once(stage: Stage, port: int, *, v6: bool) -> None:
    stage.start()
    stage.listen("x/b", port, v6=v6)
    target = B6 if v6 else B
    for _ in range(50):
        stage.connect("x/a", target, port).close()
    assert stage.asked == [Asked(Ask.JUDGE, A6 if v6 else A, target, TCP, port)]
    assert stage.learned("learned6" if v6 else "learned4") == 1
    assert stage.counter("remembered") == 49
    assert stage.counter("judged") == 1


def test_what_is_not_remembered_is_asked_each_time(stage: Stage, port: int) -> None:
    stage.start()
    stage.deed = lambda _: Deed.ACCEPT
    stage.listen("x/b", port)
    for _ in range(5):
        stage.connect("x/a", B, port).close()
    assert stage.questions(port) == [Ask.JUDGE] * 5
    assert stage.learned() == 0


def test_without_memory_every_connection_is_asked_about(stage: Stage, port: int) -> None:
    stage.start(remember=False)
    stage.listen("x/b", port)
    for _ in range(5):
        stage.connect("x/a", B, port).close()
    assert stage.questions(port) == [Ask.JUDGE] * 5


def test_a_pair_and_a_port_are_remembered_not_a_pod(stage: Stage, port: int) -> None:
    stage.start()
    other = next(_ports)
    for place in ("x/b", "internet"):
        stage.listen(place, port)
        stage.listen(place, other)
    for target, at in ((B, port), (B, other), (INTERNET, port)):
        stage.connect("x/a", target, at).close()
    assert len(stage.asked) == 3
    assert stage.learned() == 3


def test_a_denial_drops_and_is_not_answered(stage: Stage, port: int) -> None:
    stage.start()
    stage.deed = lambda _: Deed.DENY
    stage.listen("x/b", port)
    sock = stage.dial("x/a", B, port)
    eventually(lambda: stage.counter("denied") >= 2)  # tried again, asked again
    assert not is_open(sock)
    assert len(stage.questions(port)) >= 2
    assert stage.learned("denied4") == 0


def test_a_denial_that_is_remembered_is_asked_once_for_a_while(stage: Stage, port: int) -> None:
    stage.start()
    stage.deed = lambda _: Deed.DENY_REMEMBER
    stage.listen("x/b", port)
    first = stage.dial("x/a", B, port)
    eventually(lambda: stage.learned("denied4") == 1)
    others = [stage.dial("x/a", B, port) for _ in range(10)]
    eventually(lambda: stage.counter("refused") >= 10)
    assert not any(map(is_open, (first, *others)))
    assert stage.questions(port) == [Ask.JUDGE]
    # And no longer than that: the pod may learn a name.
    stage.deed = lambda _: Deed.ACCEPT
    eventually(lambda: is_open(first))


# -- generations -----------------------------------------------------------------------------


def test_a_change_forgets(stage: Stage, port: int) -> None:
    stage.start()
    stage.listen("x/b", port)
    stage.connect("x/a", B, port).close()
    assert stage.learned() == 1
    stage.generation = 2
    stage.change(2)
    assert stage.learned() == 0
    stage.connect("x/a", B, port).close()
    assert stage.questions(port) == [Ask.JUDGE] * 2
    assert stage.learned() == 1


@pytest.mark.parametrize("deed", [Deed.ACCEPT_REMEMBER, Deed.DENY_REMEMBER])
def test_a_verdict_of_the_old_world_is_done_once_and_not_remembered(
    stage: Stage, port: int, deed: Deed
) -> None:
    """The kernel has the new world, the packet thread not yet: exactly the time between."""
    stage.start()
    stage.listen("x/b", port)
    stage.deed = lambda _: deed
    stage.change(2)
    sock = stage.dial("x/a", B, port)
    eventually(lambda: stage.counter("stale") == 1)
    assert stage.learned("learned4") == stage.learned("denied4") == 0
    if deed is Deed.ACCEPT_REMEMBER:
        eventually(lambda: is_open(sock))
    else:
        assert stage.counter("denied") == 1
    stage.generation = 2
    stage.dial("x/a", B, port)
    eventually(lambda: stage.learned("learned4") + stage.learned("denied4") == 1)


# -- nobody there ----------------------------------------------------------------------------


def test_fail_closed_without_a_daemon(stage: Stage, port: int) -> None:
    stage.start()
    stage.listen("x/b", port)
    server = stage.listen("x/b", next(_ports))
    kept = stage.connect("x/a", B, server.getsockname()[1])
    peer, _ = server.accept()
    stage.stop_daemon()
    sock = stage.dial("x/a", B, port)
    eventually(lambda: stage.counter("unanswered") >= 1 or _dropped(stage) >= 1)
    assert not is_open(sock)
    # Established ones go on, and what is remembered still begins.
    with peer:
        peer.settimeout(PATIENCE)
        kept.sendall(b"still here")
        assert peer.recv(64) == b"still here"
        peer.sendall(b"me too")
        assert kept.recv(64) == b"me too"
    stage.connect("x/a", B, server.getsockname()[1]).close()
    # Once it is back, so is the connection that tried meanwhile.
    stage.start_daemon()
    eventually(lambda: is_open(sock))


def _dropped(stage: Stage) -> int:
    """Packets that NFQUEUE found nobody for; a drop there comes to no rule of ours."""
    with stage.on_node():
        listed = run("iptables-nft", "-t", "mangle", "-nvxL", "KNP")
    return sum(int(line.split()[0]) for line in listed.splitlines()[2:])


def test_fail_open_without_a_daemon(stage: Stage, port: int) -> None:
    stage.start(fail_open=True, daemon=False)
    stage.listen("x/b", port)
    stage.connect("x/a", B, port).close()
    assert stage.counter("bypassed") == 1
    assert stage.asked == []


# -- who is asked about ----------------------------------------------------------------------


def test_the_nodes_own_connections_are_nobodys_business(stage: Stage, port: int) -> None:
    stage.start(daemon=False)
    stage.listen("x/b", port)
    stage.listen("node", port)
    stage.listen("internet", port)
    for target in (B, NODE, INTERNET):
        stage.connect("node", target, port).close()
    stage.connect("internet", NODE, port).close()
    assert stage.counter("judged") == 0


def test_a_pods_connection_to_the_node_is_asked_about(stage: Stage, port: int) -> None:
    stage.start()
    stage.listen("node", port)
    for _ in range(3):
        stage.connect("x/a", NODE, port).close()
    assert stage.asked == [Asked(Ask.JUDGE, A, NODE, TCP, port)]
    stage.deed = lambda _: Deed.DENY
    other = next(_ports)
    stage.listen("node", other)
    sock = stage.dial("x/a", NODE, other)
    eventually(lambda: stage.counter("denied") >= 1)
    assert not is_open(sock)


def test_a_pod_that_no_policy_selects_is_left_alone(stage: Stage, port: int) -> None:
    stage.start(daemon=False)
    stage.listen("x/c", port)
    stage.listen("node", port)
    stage.listen("internet", port)
    for target in (NODE, INTERNET):
        stage.connect("x/c", target, port).close()
    stage.connect("internet", C, port).close()
    assert stage.counter("judged") == 0


def test_either_end_is_enough(stage: Stage, port: int) -> None:
    stage.start()
    stage.listen("x/c", port)
    stage.listen("x/a", port)
    stage.connect("x/a", C, port).close()
    stage.connect("x/c", A, port).close()
    stage.connect("internet", A, port).close()
    assert [(each.ask, each.dst) for each in stage.asked] == [
        (Ask.JUDGE, C),
        (Ask.JUDGE, A),
        (Ask.JUDGE, A),
    ]


def test_an_address_of_ours_that_nobody_has_yet_is_asked_about(stage: Stage, port: int) -> None:
    """A pod whose object has not come: it sends before anybody knows who it is."""
    stage.start()
    stage.listen("internet", port)
    with stage.on_node():
        run("nft", "delete element inet knp open4 {", C, "}")
    stage.connect("x/c", INTERNET, port).close()
    assert stage.asked == [Asked(Ask.JUDGE, C, INTERNET, TCP, port)]
    with stage.on_node():
        run("nft", "flush set inet knp local4")
    stage.connect("x/c", INTERNET, port).close()
    assert len(stage.asked) == 1  # of another node's network, or of none that is known


def test_replies_are_never_asked_about(stage: Stage, port: int) -> None:
    """Nor what belongs to a connection: bytes of both sides, its end, an error about it."""
    stage.start()
    server = stage.listen("x/b", port)
    client = stage.connect("x/a", B, port)
    peer, _ = server.accept()
    with peer:
        for _ in range(20):
            client.sendall(b"x" * 5000)
            peer.settimeout(PATIENCE)
            assert peer.recv(65536)
            peer.sendall(b"y")
            assert client.recv(64)
    client.close()
    assert len(stage.asked) == 1
    # Nobody listens: the error belongs to what was asked.
    sock = stage.open("x/a", socket.SOCK_DGRAM)
    sock.connect((B, port))
    sock.send(b"x")
    with pytest.raises(ConnectionRefusedError):
        sock.recv(64)
    assert stage.questions(port) == [Ask.JUDGE] * 2


# -- other protocols -------------------------------------------------------------------------


def test_pings_are_asked_about_and_not_remembered(stage: Stage) -> None:
    stage.start()
    echo = struct.pack("!HHHH", 0, 0, 0, 0) + b"are you there"
    for target, protocol, kind, reply in ((B, ICMP, 8, 0), (B6, ICMPV6, 128, 129)):
        # A ping socket: the kernel fills in identifier and checksum, and hands over replies.
        sock = stage.open("x/a", socket.SOCK_DGRAM, protocol=protocol)
        for _ in range(2):
            sock.sendto(bytes([kind]) + echo[1:], (target, 0))
            assert sock.recv(1024)[0] == reply
        found = [each for each in stage.asked if each.protocol == protocol]
        assert [(each.ask, each.dst) for each in found] == [(Ask.JUDGE, target)]
    assert stage.learned("learned4") == stage.learned("learned6") == 0


def test_datagrams_one_way_are_one_connection(stage: Stage, port: int) -> None:
    stage.start(remember=False)
    receiver = stage.open("x/b", socket.SOCK_DGRAM)
    receiver.bind((B, port))
    sender = stage.open("x/a", socket.SOCK_DGRAM)
    sender.connect((B, port))
    for number in range(10):
        sender.send(bytes([number]))
        assert receiver.recv(64) == bytes([number])
    assert stage.questions(port) == [Ask.JUDGE]


def test_a_datagram_in_pieces_is_asked_about_whole(stage: Stage, port: int) -> None:
    stage.start()
    receiver = stage.open("x/b", socket.SOCK_DGRAM)
    receiver.bind((B, port))
    sender = stage.open("x/a", socket.SOCK_DGRAM)
    sender.sendto(bytes(10_000), (B, port))
    assert receiver.recv(65535) == bytes(10_000)
    assert stage.asked == [Asked(Ask.JUDGE, A, B, UDP, port)]


def test_behind_a_services_address_policy_sees_who_is_there(stage: Stage, port: int) -> None:
    stage.start()
    stage.nft(
        "table ip services {\n chain to {\n type nat hook prerouting priority -100;\n"
        f" ip daddr 10.96.0.9 tcp dport 80 dnat to {B}:{port}\n }}\n}}\n"
    )
    stage.listen("x/b", port)
    stage.connect("x/a", "10.96.0.9", 80).close()
    assert stage.asked == [Asked(Ask.JUDGE, A, B, TCP, port)]


def test_what_conntrack_is_told_to_leave_alone_is_asked_about_as_such(
    stage: Stage, port: int
) -> None:
    stage.start()
    stage.nft(
        "table inet raw {\n chain pre {\n type filter hook prerouting priority raw;\n"
        f" udp dport {port} notrack\n }}\n}}\n"
    )
    receiver = stage.open("x/b", socket.SOCK_DGRAM)
    receiver.bind((B, port))
    sender = stage.open("x/a", socket.SOCK_DGRAM)
    stage.deed = lambda _: Deed.ACCEPT
    for _ in range(3):
        sender.sendto(b"x", (B, port))
        assert receiver.recv(64) == b"x"
    assert stage.questions(port) == [Ask.UNTRACKED] * 3  # nobody can remember it
    stage.stop_daemon()
    sender.sendto(b"x", (B, port))
    receiver.settimeout(0.2)
    with pytest.raises(TimeoutError):
        receiver.recv(64)


# -- DNS -------------------------------------------------------------------------------------


def ask_and_answer(client: socket.socket, server: socket.socket) -> None:
    client.send(b"?")
    question, peer = server.recvfrom(64)
    server.sendto(b"!", peer)
    assert (question, client.recv(64)) == (b"?", b"!")


def test_dns_goes_by_the_daemon_both_ways(stage: Stage) -> None:
    stage.start()
    server = stage.open("internet", socket.SOCK_DGRAM)
    server.bind(("198.51.100.53", 53))
    client = stage.open("x/a", socket.SOCK_DGRAM)
    client.connect(("198.51.100.53", 53))
    ask_and_answer(client, server)
    assert stage.questions() == [Ask.JUDGE_DNS, Ask.DNS_ANSWER]
    ask_and_answer(client, server)  # established
    again = stage.open("x/a", socket.SOCK_DGRAM)
    again.connect(("198.51.100.53", 53))
    ask_and_answer(again, server)  # remembered
    assert stage.questions()[2:] == [Ask.DNS_QUERY, Ask.DNS_ANSWER] * 2
    stage.stop_daemon()
    ask_and_answer(client, server)  # answers are always delivered
    ask_and_answer(again, server)


def test_answers_of_the_nodes_own_resolver_are_heard(stage: Stage) -> None:
    stage.start()
    server = stage.open("node", socket.SOCK_DGRAM)
    server.bind((NODE, 53))
    client = stage.open("x/a", socket.SOCK_DGRAM)
    client.connect((NODE, 53))
    ask_and_answer(client, server)
    ask_and_answer(client, server)
    assert stage.questions() == [
        *(Ask.JUDGE_DNS, Ask.DNS_ANSWER),
        *(Ask.DNS_QUERY, Ask.DNS_ANSWER),
    ]


def test_what_comes_from_port_53_unasked_is_no_answer(stage: Stage, port: int) -> None:
    stage.start()
    forger = stage.open("x/b", socket.SOCK_DGRAM)
    forger.bind((B, 53))
    victim = stage.open("x/a", socket.SOCK_DGRAM)
    victim.bind((A, port))
    for _ in range(3):
        forger.sendto(b"!", (A, port))
        assert victim.recv(64) == b"!"
    assert Ask.DNS_ANSWER not in stage.questions()
    assert stage.questions()[0] is Ask.JUDGE


def test_dns_of_pods_that_no_policy_selects_is_their_own(stage: Stage) -> None:
    stage.start()
    server = stage.open("internet", socket.SOCK_DGRAM)
    server.bind(("198.51.100.54", 53))
    client = stage.open("x/c", socket.SOCK_DGRAM)
    client.connect(("198.51.100.54", 53))
    ask_and_answer(client, server)
    assert stage.asked == []


# -- strict mode -----------------------------------------------------------------------------


class Talk:
    """An established connection from a to b, its two ends."""

    def __init__(self, stage: Stage, port: int) -> None:
        self.stage = stage
        server = stage.listen("x/b", port)
        self.client = stage.connect("x/a", B, port)
        self.peer, _ = server.accept()
        stage._stack.enter_context(self.peer)
        self.peer.settimeout(PATIENCE)

    def say(self) -> None:
        self.client.sendall(b"x")
        assert self.peer.recv(64) == b"x"

    def reply(self) -> None:
        self.peer.sendall(b"y")
        assert self.client.recv(64) == b"y"


def test_after_a_change_an_established_connection_is_asked_about_again(
    stage: Stage, port: int
) -> None:
    stage.start(strict=True)
    talk = Talk(stage, port)
    talk.say()
    assert stage.questions(port) == [Ask.JUDGE]
    stage.generation = 2
    stage.change(2)
    for _ in range(3):
        talk.say()
        talk.reply()
    assert stage.questions(port) == [Ask.JUDGE, Ask.AGAIN]  # once, and remembered for both
    assert stage.learned() == 1


def test_it_stops_where_the_new_world_denies_it(stage: Stage, port: int) -> None:
    stage.start(strict=True)
    talk = Talk(stage, port)
    stage.generation = 2
    stage.change(2)
    stage.deed = lambda _: Deed.DENY
    talk.client.sendall(b"x")
    eventually(lambda: stage.counter("denied") >= 1)
    talk.peer.settimeout(0.2)
    with pytest.raises(TimeoutError):
        talk.peer.recv(64)
    assert set(stage.questions(port)[1:]) == {Ask.AGAIN}


def test_an_accepted_one_stays_accepted_until_the_next_change(stage: Stage, port: int) -> None:
    stage.start(strict=True, remember=False)
    stage.deed = lambda _: Deed.ACCEPT
    talk = Talk(stage, port)
    for generation in (2, 3):
        stage.generation = generation
        stage.change(generation)
        for _ in range(5):
            talk.say()
    assert stage.questions(port) == [Ask.JUDGE, Ask.AGAIN, Ask.AGAIN]


def test_a_verdict_of_the_old_world_is_asked_for_once_more(stage: Stage, port: int) -> None:
    stage.start(strict=True)
    talk = Talk(stage, port)
    stage.change(2)
    talk.say()  # answered by the old world
    assert stage.questions(port) == [Ask.JUDGE, Ask.AGAIN]
    stage.generation = 2
    talk.say()
    talk.say()
    assert stage.questions(port)[2:] in ([Ask.AGAIN], [Ask.AGAIN, Ask.AGAIN])
    asked = len(stage.asked)
    talk.say()
    assert len(stage.asked) == asked


def test_without_a_daemon_established_connections_go_on_unasked(stage: Stage, port: int) -> None:
    stage.start(strict=True)
    talk = Talk(stage, port)
    stage.stop_daemon()
    stage.change(2)
    talk.say()
    talk.reply()
    stage.generation = 2
    stage.start_daemon()
    talk.say()
    assert stage.questions(port)[-1] is Ask.AGAIN


def test_without_strict_mode_a_change_cuts_and_asks_nothing(stage: Stage, port: int) -> None:
    stage.start()
    talk = Talk(stage, port)
    stage.generation = 2
    stage.change(2)
    stage.deed = lambda _: Deed.DENY
    talk.say()
    talk.reply()
    assert stage.questions(port) == [Ask.JUDGE]


# -- marks -----------------------------------------------------------------------------------

WATCH = """\
table inet watching {
  counter ours { }
  counter theirs { }
  chain put {
    type filter hook prerouting priority -300;
    meta mark set %s
  }
  chain see {
    type filter hook postrouting priority 300;
    tcp dport %d meta mark and 0x1f78 != 0 counter name ours
    tcp dport %d meta mark and 0xc000 == 0xc000 counter name theirs
  }
}
"""


@pytest.mark.parametrize("theirs", ["0xc000", "0xffffe087"])
def test_others_marks_are_seen_behind_us_and_ours_are_not(
    stage: Stage, port: int, theirs: str
) -> None:
    stage.start()
    stage.nft(WATCH % (theirs, port, port))
    server = stage.listen("x/b", port)
    for _ in range(3):
        stage.connect("x/a", B, port).close()
        server.accept()[0].close()
    assert stage.questions(port) == [Ask.JUDGE]
    assert stage.counter("ours", "watching") == 0
    assert stage.counter("theirs", "watching") >= 9


@pytest.mark.parametrize("bits", [*range(1, 16)])
def test_a_mark_that_somebody_put_on_a_pods_packet_is_no_answer(
    stage: Stage, port: int, bits: int
) -> None:
    """Whatever was in our bits before us, with whatever generation, the packet is asked about."""
    stage.start()
    mark = stage.marks.bits(bits) | stage.marks.packet_generation(1)
    stage.nft(WATCH % (hex(mark), port, port))
    stage.listen("x/b", port)
    stage.connect("x/a", B, port).close()
    assert stage.questions(port) == [Ask.JUDGE]
    assert stage.learned() == 1


def test_marks_of_connections_that_are_others_stay(stage: Stage, port: int) -> None:
    stage.start(strict=True)
    stage.nft(
        "table inet watching {\n counter kept { }\n chain see {\n"
        " type filter hook postrouting priority 300;\n"
        f" tcp dport {port} ct mark and 0xf000ffff == 0x10000078 counter name kept\n }}\n"
        " chain put {\n type filter hook prerouting priority -150;\n"
        f" tcp dport {port} ct state new ct mark set 0x10000078\n }}\n}}\n"
    )
    talk = Talk(stage, port)
    stage.generation = 2
    stage.change(2)
    talk.say()
    assert stage.counter("kept", "watching") >= 3


# -- what is remembered is what was judged -----------------------------------------------------

INIT = (1, 0, 20, 7, 65536, 1, 1, 1)
AH, PADDED, ROUTE = 51, b"\1\4\0\0\0\0", b"\xfd\0\0\0\0\0"
TRANSPORTS: dict[int, Callable[[int], bytes]] = {
    6: lambda port: struct.pack("!HHIIBBHHH", 999, port, 1, 0, 5 << 4, 2, 65535, 0, 0),
    17: lambda port: struct.pack("!HHHH", 999, port, 8, 0),
    132: lambda port: struct.pack("!HHII", 999, port, 0, 0) + struct.pack("!BBHIIHHI", *INIT),
}


def odd_v4(chance: random.Random, protocol: int, port: int) -> bytes:
    """IPv4 with options of any length, and perhaps an authentication header."""
    body, number = TRANSPORTS[protocol](port), protocol
    if chance.random() < 0.3:
        body, number = struct.pack("!BBHII", protocol, 1, 0, 7, 1) + body, AH
    options = b"\1" * 4 * chance.randrange(11)
    header = struct.pack(
        "!BBHHHBBH",
        0x45 + len(options) // 4,
        0,
        20 + len(options) + len(body),
        1,
        0,
        64,
        number,
        0,
    )
    return header + socket.inet_aton(A) + socket.inet_aton(B) + options + body


def odd_v6(chance: random.Random, protocol: int, port: int) -> bytes:
    """IPv6 with extension headers in any order and number, of sound and odd lengths."""
    body, number = TRANSPORTS[protocol](port), protocol
    for _ in range(chance.randrange(5)):
        kind = chance.choice([43, 44, AH, 60, 60, 135, 139, 140, 253])
        more = chance.randrange(3)
        if kind == AH:
            header = struct.pack("!BBHI", number, more, 0, 7) + bytes(4 * more)
        elif kind == 44:  # an atomic fragment
            header = struct.pack("!BBHI", number, chance.choice([0, 255]), 0, 9)
        else:
            filler = ROUTE if kind == 43 else PADDED
            header = struct.pack("!BB", number, more) + filler + b"\1\6\0\0\0\0\0\0" * more
        body, number = header + body, kind
    if chance.random() < 0.3:
        body, number = struct.pack("!BB", number, 0) + PADDED + body, 0  # hop by hop
    ends = socket.inet_pton(socket.AF_INET6, A6) + socket.inet_pton(socket.AF_INET6, B6)
    return struct.pack("!IHBB", 6 << 28, len(body), number, 64) + ends + body


@pytest.mark.parametrize("v6", [False, True])
def test_what_is_remembered_is_what_was_judged(stage: Stage, port: int, *, v6: bool) -> None:
    """Where daemon and kernel read a packet differently, a port nobody judged would be open."""
    chance = random.Random(port)
    stage.start()
    stage.deed = lambda asked: (
        Deed.ACCEPT_REMEMBER if asked.protocol in TRANSPORTS else Deed.ACCEPT
    )
    family = socket.AF_INET6 if v6 else socket.AF_INET
    raw = stage.topology.call(
        "x/a", lambda: socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)
    )
    with raw:
        for number in range(400):
            protocol = chance.choice(list(TRANSPORTS))
            made = (odd_v6 if v6 else odd_v4)(chance, protocol, 30_000 + number)
            raw.sendto(made, (B6 if v6 else B, 0))
    stage.open("x/a", socket.SOCK_DGRAM, v6=v6).sendto(b"", (B6 if v6 else B, port))
    eventually(lambda: bool(stage.questions(port)))
    judged = {(each.protocol, each.dport) for each in stage.asked if each.protocol in TRANSPORTS}
    assert len(judged) > 150

    def remembered() -> set[tuple[int, int]]:
        name = "learned6b" if v6 else "learned4b"
        with stage.on_node():
            listed = run("nft", "-nn", "list", "set", "inet", "knp", name)
        found = re.findall(r"\S+ \. \S+ \. (\d+) \. (\d+) expires", listed)
        return {(int(protocol), int(dport)) for protocol, dport in found}

    # What was asked is remembered when its answer has gone, a moment later.
    eventually(lambda: len(judged - remembered()) < len(judged) / 2)
    judged = {(each.protocol, each.dport) for each in stage.asked if each.protocol in TRANSPORTS}
    assert remembered() <= judged


# -- several queues --------------------------------------------------------------------------


def test_several_queues_share_the_work(stage: Stage, port: int) -> None:
    stage.start(queues=Queues((110, 112), 110, 113))
    stage.deed = lambda _: Deed.ACCEPT
    stage.listen("x/b", port)
    for _ in range(40):
        stage.connect("x/a", B, port).close()
    assert stage.questions(port) == [Ask.JUDGE] * 40
