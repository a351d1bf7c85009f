"""DNS over TCP: framing and order, and when to give up."""

import random

import pytest

from knp_py.wire.dns_stream import MessageStream

MESSAGES = [bytes((i,)) * (12 + 7 * i) for i in range(20)]
START = 1000


def framed(*messages: bytes) -> bytes:
    return b"".join(len(m).to_bytes(2, "big") + m for m in messages)


def stream(start: int = START, **limits: int) -> MessageStream:
    made = MessageStream(**limits)
    made.begin(start)
    return made


def fed(made: MessageStream, *segments: tuple[int, bytes]) -> list[bytes]:
    return [message for seq, payload in segments for message in made.feed(seq, payload)]


def cut(data: bytes, size: int, start: int = START) -> list[tuple[int, bytes]]:
    return [((start + at) & 0xFFFFFFFF, data[at : at + size]) for at in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 17, 1460, 100_000])
def test_any_segmentation(size: int) -> None:
    made = stream()
    assert fed(made, *cut(framed(*MESSAGES), size)) == MESSAGES
    assert made.held == 0


def test_sequence_numbers_wrap() -> None:
    start = 0xFFFFFFFF - 20
    assert fed(stream(start), *cut(framed(*MESSAGES), 13, start)) == MESSAGES


@pytest.mark.parametrize("seed", range(5))
def test_any_order_with_repeats(seed: int) -> None:
    segments = cut(framed(*MESSAGES), 11)
    mixed = segments + segments[::3]
    random.Random(seed).shuffle(mixed)
    assert fed(stream(), *mixed) == MESSAGES


def test_overlaps_keep_the_first_copy() -> None:
    data = framed(b"a" * 20)
    segments = [(START, data[:10]), (START + 4, b"X" * 6 + data[10:15]), (START + 12, data[12:])]
    assert fed(stream(), *segments) == [b"a" * 20]


def test_a_message_as_long_as_they_get() -> None:
    longest = bytes(65535)
    made = stream()
    assert fed(made, *cut(framed(longest), 1460)) == [longest]
    assert made.held == 0


def test_nothing_before_the_beginning_is_known() -> None:
    made = MessageStream()
    assert not made.begun
    assert made.feed(START, framed(b"a" * 12)) == []
    assert made.held == 0


def test_a_gap_that_closes() -> None:
    first, second, third = cut(framed(b"a" * 30), 11)
    made = stream()
    assert fed(made, first, third) == []
    assert made.held == 11 + 10
    assert fed(made, second) == [b"a" * 30]


def test_a_gap_that_does_not_close() -> None:
    made = stream(max_ahead=100)
    segments = cut(framed(*MESSAGES), 11)
    assert fed(made, *segments[1:]) == []
    assert (made.broken, made.held) == ("gap", 0)
    assert fed(made, *segments) == []


def test_too_many_segments_ahead() -> None:
    made = stream(max_segments=4)
    fed(made, *((START + 2 * at, b"x") for at in range(1, 6)))
    assert (made.broken, made.held) == ("gap", 0)


def test_a_longer_message_than_expected() -> None:
    made = stream(max_message=40)
    assert fed(made, (START, framed(b"a" * 40, b"b" * 41))) == [b"a" * 40]
    assert (made.broken, made.held) == ("oversize", 0)


def test_empty_messages_and_segments() -> None:
    assert fed(stream(), (START, b""), (START, framed(b"", b"a"))) == [b"", b"a"]


def test_old_and_far_segments() -> None:
    made = stream()
    assert fed(made, (START - 5, b"12345"), (START + (1 << 30), b"x")) == []
    assert made.held == 1
    assert fed(made, (START, framed(b"a"))) == [b"a"]
