"""A DNS question and its answer as bytes, for the snooper to overhear (RFC 1035 §4)."""

from collections.abc import Sequence
from struct import pack

from knp_py.wire.dns import AAAA, CLASS_IN, A

_QUERY, _RESPONSE = 0x0100, 0x8180  # RD; QR with RD and RA
_QUESTION_NAME = 0xC00C  # a pointer to the name behind the header
_MOST = 0xFFFF


def question_and_answer(
    identifier: int, name: str, addresses: Sequence[int], *, ttl: int, v6: bool = False
) -> tuple[bytes, bytes]:
    """The query for ``name`` (canonical) and a response with these addresses of one family."""
    rtype = AAAA if v6 else A
    size = 16 if v6 else 4
    labels = b"".join(bytes((len(label),)) + label.encode() for label in name.split("."))
    asked = labels + b"\0" + pack("!HH", rtype, CLASS_IN)
    number = identifier & _MOST
    records = b"".join(
        pack("!HHHIH", _QUESTION_NAME, rtype, CLASS_IN, ttl, size)
        + (address & ((1 << 8 * size) - 1)).to_bytes(size, "big")
        for address in addresses[:_MOST]
    )
    question = pack("!6H", number, _QUERY, 1, 0, 0, 0) + asked
    answer = pack("!6H", number, _RESPONSE, 1, min(len(addresses), _MOST), 0, 0) + asked + records
    return question, answer
