"""The extension header chain: each kind, fragments, and every way to end early."""

import pytest

from knp_py.wire.extensions import CUT_SHORT, LATER_FRAGMENT, MAX_HEADERS, TOO_MANY, walk

TCP = 6


def common(following: int, size: int = 8) -> bytes:
    return bytes((following, (size - 8) // 8)) + bytes(size - 2)


def ah(following: int, size: int = 24) -> bytes:
    return bytes((following, (size - 8) // 4)) + bytes(size - 2)


def fragment(following: int, offset: int, more: int, ident: int = 0xABCD) -> bytes:
    return bytes((following, 0)) + (offset | more).to_bytes(2, "big") + ident.to_bytes(4, "big")


@pytest.mark.parametrize("number", [0, 43, 60, 135, 139, 140])
@pytest.mark.parametrize("size", [8, 16, 2048])
def test_headers_of_the_common_form(number: int, size: int) -> None:
    data = b"??" + common(TCP, size)
    assert walk(data, 2, len(data), number) == (TCP, 2 + size, 0, 0, None)


@pytest.mark.parametrize("v6", [False, True])
@pytest.mark.parametrize("size", [12, 16, 24])
def test_authentication_header_counts_in_other_units(v6: bool, size: int) -> None:
    data = ah(TCP, size)
    assert walk(data, 0, size, 51, v6=v6) == (TCP, size, 0, 0, None)


def test_several_in_any_order() -> None:
    data = common(60) + common(51, 16) + ah(43) + common(135) + common(59)
    assert walk(data, 0, len(data), 0) == (59, len(data), 0, 0, None)


@pytest.mark.parametrize("number", [TCP, 17, 50, 58, 59, 132, 253])
def test_anything_else_ends_the_chain(number: int) -> None:
    assert walk(b"", 0, 0, number) == (number, 0, 0, 0, None)


@pytest.mark.parametrize("number", [0, 43, 44, 60, 135, 139, 140])
def test_ipv4_knows_none_of_them_but_authentication(number: int) -> None:
    assert walk(common(TCP), 0, 8, number, v6=False) == (number, 0, 0, 0, None)


def test_fragments() -> None:
    assert walk(fragment(TCP, 0, 0), 0, 8, 44) == (TCP, 8, 0, 0, None)
    assert walk(fragment(TCP, 0, 1), 0, 8, 44) == (TCP, 8, 1, 0xABCD, None)
    assert walk(fragment(TCP, 8, 1), 0, 8, 44) == (TCP, 8, 2, 0xABCD, LATER_FRAGMENT)
    assert walk(fragment(TCP, 8, 0), 0, 8, 44) == (TCP, 8, 2, 0xABCD, LATER_FRAGMENT)


def test_reserved_bits_of_a_fragment_header_say_nothing() -> None:
    assert walk(fragment(TCP, 6, 0), 0, 8, 44) == (TCP, 8, 0, 0, None)


def test_what_follows_a_first_fragment_header_is_walked() -> None:
    data = fragment(60, 0, 1) + common(TCP)
    assert walk(data, 0, 16, 44) == (TCP, 16, 1, 0xABCD, None)


def test_what_follows_a_later_fragment_header_is_not() -> None:
    data = fragment(60, 8, 1) + common(TCP)
    assert walk(data, 0, 16, 44) == (60, 8, 2, 0xABCD, LATER_FRAGMENT)


@pytest.mark.parametrize("number", [0, 44, 51, 60])
@pytest.mark.parametrize("size", range(8))
def test_a_header_cut_within_its_first_eight_bytes(number: int, size: int) -> None:
    assert walk(fragment(TCP, 0, 0), 0, size, number)[4] == CUT_SHORT


def test_a_header_longer_than_what_is_left() -> None:
    data = common(TCP, 24)
    assert walk(data, 0, 23, 0) == (0, 0, 0, 0, CUT_SHORT)
    assert walk(ah(TCP), 0, 23, 51) == (51, 0, 0, 0, CUT_SHORT)


def test_the_chain_is_bounded() -> None:
    fits = common(60) * (MAX_HEADERS - 2) + common(TCP)
    assert walk(fits, 0, len(fits), 60)[4] is None
    endless = common(60) * 8000
    assert walk(endless, 0, len(endless), 60)[4] == TOO_MANY
