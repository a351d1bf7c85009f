import pytest
from scapy.layers.sctp import SCTP, SCTPChunkInit, SCTPChunkInitAck

from knp_py.lab.sctp import INIT, INIT_ACK, Start, checksum, init, init_ack, read_start


def test_checksum_of_the_rfc() -> None:
    # RFC 3720 appendix B.4 has test vectors for the same polynomial.
    assert checksum(bytes(32)) == 0x8A9136AA
    assert checksum(b"\xff" * 32) == 0x62A8AB43
    assert checksum(bytes(range(32))) == 0x46DD794E


def test_another_implementation_reads_it() -> None:
    packet = init(40000, 5000)
    seen = SCTP(packet)
    assert (seen.sport, seen.dport, seen.tag) == (40000, 5000, 0)
    chunk = seen[SCTPChunkInit]
    assert (chunk.type, chunk.len) == (INIT, 20)
    assert chunk.init_tag != 0
    seen.chksum = None
    assert bytes(SCTP(bytes(seen))) == packet


def test_the_answer_is_to_the_question() -> None:
    asked = read_start(init(40000, 5000))
    assert asked is not None
    assert asked[:3] == (40000, 5000, INIT)
    packet = init_ack(asked)
    assert SCTP(packet).tag == asked.tag
    assert SCTP(packet)[SCTPChunkInitAck].n_out_streams == 1
    assert read_start(packet) == Start(
        5000, 40000, INIT_ACK, SCTP(packet)[SCTPChunkInitAck].init_tag
    )


@pytest.mark.parametrize("length", [0, 11, 31])
def test_half_a_packet_is_no_beginning(length: int) -> None:
    assert read_start(init(1, 2)[:length]) is None
