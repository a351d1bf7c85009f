"""Reading on: as much as needed, joined once, and in bounded steps."""

from helpers.capture_bytes import reader

from knp_py.wire.source import CHUNK, CaptureProblem, cut, refill


def test_refill_adds_to_what_is_left_until_there_is_enough() -> None:
    assert refill(reader(b"cdefgh", at_most=2), b"ab", 5) == b"abcdef"


def test_refill_gives_what_there_is_when_the_input_ends() -> None:
    assert refill(reader(b"c"), b"ab", 100) == b"abc"
    assert refill(reader(b""), b"", 1) == b""


def test_refill_does_not_read_when_there_is_enough() -> None:
    def read(_size: int) -> bytes:
        raise AssertionError

    assert refill(read, b"abc", 3) == b"abc"


def test_refill_never_asks_for_more_than_a_chunk() -> None:
    asked: list[int] = []

    def read(size: int) -> bytes:
        asked.append(size)
        return bytes(size)

    assert len(refill(read, b"", 10 * CHUNK)) == 10 * CHUNK
    assert set(asked) == {CHUNK}


def test_a_cut_says_where_the_file_ends_and_what_was_expected() -> None:
    problem = cut("record", 1000, 80, 30)
    assert problem == CaptureProblem(
        "cut",
        1000,
        "capture ends mid-record at byte 1030: the record at byte 1000 has 30 of 80 bytes",
    )
    assert str(problem) == problem.message
