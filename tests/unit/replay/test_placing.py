from scapy.layers.inet import IP, UDP, fragment
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from knp_py.engine.flows import Flow, FlowKey
from knp_py.replay import placing
from knp_py.replay.placing import Placing
from knp_py.wire.source import Record

FLOW = Flow(1, FlowKey(0, 17, 1, 2, 3, 4), 0.0)


def records(ident: int = 1) -> list[Record]:
    whole = Ether() / IP(src="10.0.0.1", dst="10.0.0.2", id=ident) / UDP() / Raw(b"x" * 3000)
    frames = [bytes(piece) for piece in fragment(whole, 1000)]
    return [(n, 1, frame, len(frame)) for n, frame in enumerate(frames)]


def test_fragments_go_where_their_datagram_goes_in_their_order() -> None:
    placed: list[tuple[Flow, Record]] = []
    sorter = Placing(lambda flow, record: placed.append((flow, record)))
    pieces = records()
    for piece in pieces[:-1]:
        sorter.packet(None, piece)
    assert placed == []
    sorter.packet(FLOW, pieces[-1])
    assert placed == [(FLOW, piece) for piece in pieces]
    sorter.finish()
    assert sorter.unplaced == 0


def test_what_never_becomes_whole_is_counted_and_bounded() -> None:
    sorter = Placing(lambda _flow, _record: None)
    for ident in range(1, 3 * placing.MAX_HELD // 2):
        sorter.packet(None, records(1)[0] if ident == 1 else _renumbered(ident))
    assert sorter.unplaced == 3 * placing.MAX_HELD // 2 - 1 - placing.MAX_HELD
    sorter.finish()
    assert sorter.unplaced == 3 * placing.MAX_HELD // 2 - 1


def _renumbered(ident: int) -> Record:
    ts, link, data, length = FIRST
    return ts, link, data[:18] + ident.to_bytes(2, "big") + data[20:], length


FIRST = records()[0]


def test_what_is_no_packet_or_no_connection_is_not_held() -> None:
    placed: list[Record] = []
    sorter = Placing(lambda _flow, record: placed.append(record))
    for data in (b"", b"\x00" * 60, bytes(Ether() / Raw(b"\x45"))):
        sorter.packet(None, (0, 1, data, len(data)))
    plain = bytes(Ether() / IP() / UDP())
    sorter.packet(FLOW, (0, 1, plain, len(plain)))
    sorter.finish()
    assert sorter.unplaced == 0
    assert len(placed) == 1
