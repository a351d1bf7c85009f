"""Mark bits: questions, deeds and generations in few of them, and nobody else's touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knp_py.agent.marks import FROM_NODE, KUBE_PROXY, Ask, Deed, Marks, parse_marks
from knp_py.errors import InputError

VALUES = [*Ask, *Deed, FROM_NODE]
PORTMAP, AWS = 0x2000, 0x80  # of packets; of connections
SHIFTED = Marks(0xF << 28, 0x3 << 18, 0xF)


def test_the_usual_bits_are_nobody_elses() -> None:
    usual = Marks()
    assert usual.ours & (KUBE_PROXY | PORTMAP) == 0
    assert usual.connection & AWS == 0
    assert usual.verdict & usual.generation == 0
    assert usual.ours ^ usual.keep == 0xFFFF_FFFF


@pytest.mark.parametrize("marks", [Marks(), SHIFTED])
def test_questions_and_deeds_come_back_from_a_mark(marks: Marks) -> None:
    for value in VALUES:
        assert marks.bits(value) & ~marks.verdict == 0
        assert marks.value(marks.bits(value) | marks.keep | marks.generation) == value
        assert marks.bits(value) >> marks.shift == value
    assert marks.value(marks.keep) == 0


def test_every_meaning_has_its_own_value() -> None:
    assert len({int(value) for value in VALUES}) == len(VALUES)
    assert 0 not in VALUES


def test_one_bit_tells_answers_from_questions() -> None:
    """The rules behind the queue go by it."""
    assert all(deed & 8 for deed in Deed)
    assert not any(ask & 8 for ask in Ask)


def test_to_remember_is_one_more_than_not_to() -> None:
    """Whoever decides that this packet is not to be remembered takes one away."""
    assert Deed.ACCEPT_REMEMBER == Deed.ACCEPT + 1
    assert Deed.DENY_REMEMBER == Deed.DENY + 1


@given(st.integers(min_value=1, max_value=1 << 40), st.sampled_from([Marks(), SHIFTED]))
def test_generations_stay_in_their_bits_and_are_never_none(generation: int, marks: Marks) -> None:
    for mask, number in (
        (marks.generation, marks.packet_generation(generation)),
        (marks.connection, marks.connection_generation(generation)),
    ):
        assert number & ~mask == 0
        assert number != 0


@given(st.integers(min_value=1, max_value=1 << 40), st.sampled_from([Marks(), SHIFTED]))
def test_a_generation_is_not_the_one_before(generation: int, marks: Marks) -> None:
    assert marks.packet_generation(generation) != marks.packet_generation(generation + 1)
    assert marks.connection_generation(generation) != marks.connection_generation(generation + 1)


@pytest.mark.parametrize("mask", [0xF, 0xF0, 0x1F << 3])
def test_the_first_number_used_again_is_known(mask: int) -> None:
    """From there on, a mark of old would look as if it were of now."""
    marks = Marks(connection=mask)
    seen: set[int] = set()
    for generation in range(1, 100):
        number = marks.connection_generation(generation)
        assert marks.wraps(generation) is (number in seen)
        if number in seen:
            seen = set()  # swept
        seen.add(number)


def test_masks_as_they_are_written() -> None:
    assert parse_marks("0x78", "0x1f00", "0x0fff0000") == Marks()
    assert parse_marks("15", "0b110000", "0xf") == Marks(0xF, 0x30, 0xF)


def test_bits_of_packets_and_connections_have_nothing_to_do_with_each_other() -> None:
    assert parse_marks("0xf0", "0xf00", "0xff0") == Marks(0xF0, 0xF00, 0xFF0)


REFUSED = [
    ("0x58", "0x1f00", "0xffff00", "--mark-mask 0x58: expected at least 4 adjacent bits"),
    ("0x7", "0x1f00", "0xffff00", "--mark-mask 0x7: expected at least 4 adjacent bits"),
    ("0xf8", "0x1f00", "0xffff00", "--mark-mask 0xf8: expected four adjacent bits"),
    ("0", "0x1f00", "0xffff00", "--mark-mask 0: "),
    ("-8", "0x1f00", "0xffff00", "--mark-mask -8: "),
    ("many", "0x1f00", "0xffff00", "--mark-mask many: "),
    ("0x1e00000000", "0x1f00", "0xffff00", "--mark-mask 0x1e00000000: "),
    ("0x3c0000000", "0x1f00", "0xffff00", "--mark-mask 0x3c0000000: "),
    ("0x78", "0x100", "0xffff00", "--generation-mask 0x100: expected at least 2 adjacent bits"),
    ("0x78", "0x1f00", "0x700", "--connmark-mask 0x700: expected at least 4 adjacent bits"),
    ("0x78", "0x3c0", "0xffff00", "--mark-mask 0x78 and --generation-mask 0x3c0 overlap"),
    ("0xf000", "0xf00", "0xffff00", "--mark-mask 0xf000 takes bits of kube-proxy's"),
    ("0x78", "0x7f00", "0xffff00", "--generation-mask 0x7f00 takes bits of kube-proxy's"),
]


@pytest.mark.parametrize(("verdict", "generation", "connection", "says"), REFUSED)
def test_masks_that_cannot_be_meant(
    verdict: str, generation: str, connection: str, says: str
) -> None:
    with pytest.raises(InputError) as refused:
        parse_marks(verdict, generation, connection)
    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)


def test_the_seal_names_the_world_in_strict_mode_only() -> None:
    marks = Marks()
    assert marks.seal(7, strict=True) == marks.connection_generation(7)
    assert marks.seal(7, strict=False) == marks.seal(8, strict=False) != marks.seal(7, strict=True)
    assert marks.seal(7, strict=False) & ~marks.connection == 0
