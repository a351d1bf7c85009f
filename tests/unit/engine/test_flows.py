from knp_py.engine.flows import (
    TCP_CLOSING,
    TCP_ESTABLISHED,
    TCP_OPENING,
    TCP_RESET,
    FlowKey,
    FlowTable,
    first_idle,
    key_of,
    tcp_begins,
    tcp_flags,
)
from knp_py.model.packet import ACK, FIN, RST, SYN, Packet, Proto

KEY = FlowKey(0, Proto.TCP, 1, 2, 1000, 80)


def test_replies_carry_the_tuple_turned_round() -> None:
    assert KEY.reversed() == FlowKey(0, Proto.TCP, 2, 1, 80, 1000)
    assert KEY.reversed().reversed() == KEY


def test_only_an_answer_is_the_reply_to_an_icmp_request() -> None:
    ping = key_of(Packet(1, 2, Proto.ICMP, sport=7, icmp_type=8))
    pong = key_of(Packet(2, 1, Proto.ICMP, sport=7, icmp_type=0))
    assert ping.reversed() == pong
    assert pong.reversed() != ping
    solicit = key_of(Packet(1, 2, Proto.ICMPV6, icmp_type=135))
    assert solicit.reversed() != key_of(Packet(2, 1, Proto.ICMPV6, icmp_type=135))


def test_protocols_that_are_not_known_are_told_apart_by_number() -> None:
    gre = Packet(1, 2, Proto.UNKNOWN, number=47)
    assert key_of(gre) != key_of(gre._replace(number=50))


def test_a_flow_lives_as_long_as_its_state_allows() -> None:
    table = FlowTable()
    flow = table.begin(KEY, 0.0)
    flow.idle = first_idle(Proto.TCP)
    assert flow.idle == TCP_OPENING
    tcp_flags(flow.reply, SYN | ACK)
    assert flow.idle == TCP_ESTABLISHED
    tcp_flags(flow.original, FIN | ACK)
    assert flow.idle == TCP_ESTABLISHED
    tcp_flags(flow.reply, FIN | ACK)
    assert flow.idle == TCP_CLOSING
    tcp_flags(flow.reply, RST)
    assert flow.idle == TCP_RESET
    assert table.find(KEY, TCP_RESET) is flow.original
    assert table.find(KEY, TCP_RESET + 1) is None
    assert table.ended == [flow]


def test_a_syn_ack_begins_nothing() -> None:
    assert tcp_begins(Packet(1, 2, Proto.TCP, flags=SYN))
    assert not tcp_begins(Packet(1, 2, Proto.TCP, flags=SYN | ACK))


def test_sweeping_and_ending_tell_the_listener() -> None:
    told: list[int] = []
    table = FlowTable(on_end=lambda flow: told.append(flow.number))
    first = table.begin(KEY, 0.0)
    first.idle = 5.0
    table.remember_raw(first.original, 4, b"r" * 12)
    second = table.begin(KEY._replace(sport=1001), 100.0)
    assert told == [1]
    assert not table.quick4[Proto.TCP]
    table.end_all()
    assert told == [1, 2]
    assert table.ended == [first, second]
    assert len(table) == 0


def test_a_flow_to_oneself_has_one_tuple() -> None:
    table = FlowTable()
    flow = table.begin(FlowKey(0, Proto.UDP, 1, 1, 5, 5), 0.0)
    assert table.find(flow.key, 0.0) is flow.original
    table.end(flow)
    assert table.find(flow.key, 0.0) is None
