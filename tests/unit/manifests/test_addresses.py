"""Made-up addresses."""

from knp_py.manifests.addresses import RANGE, Addresses, fnv1a
from knp_py.model.net import format_address, parse_address

((FIRST, LAST),) = RANGE.ranges


def test_fnv_1a_of_known_texts() -> None:
    assert fnv1a(b"") == 0x811C9DC5
    assert fnv1a(b"a") == 0xE40C292C
    assert fnv1a(b"foobar") == 0xBF9CF968
    assert fnv1a(b"", 64) == 0xCBF29CE484222325
    assert fnv1a(b"foobar", 64) == 0x85944171F73967E8
    assert f"{fnv1a(b'agent-runtime'):08x}" == "5f52e237"


def test_an_address_depends_only_on_who_it_is_for() -> None:
    first = Addresses(()).give("Deployment", "x", "web", 0)
    many = Addresses(())
    for ordinal in range(100):
        many.give("Pod", "y", "other", ordinal)
    assert many.give("Deployment", "x", "web", 0) == first
    assert FIRST <= first <= LAST
    assert first != Addresses(()).give("Deployment", "x", "web", 1)
    assert first != Addresses(()).give("Job", "x", "web", 0)


def test_no_address_is_given_twice() -> None:
    addresses = Addresses(())
    given = {addresses.give("Pod", "x", "p", ordinal) for ordinal in range(20_000)}
    assert len(given) == 20_000
    assert all(FIRST <= address <= LAST for address in given)
    assert not any(format_address(address).endswith((".0", ".255")) for address in given)


def test_addresses_of_documents_are_kept_clear_of() -> None:
    first = Addresses(()).give("Pod", "x", "p", 0)
    second = Addresses([first, parse_address("192.0.2.1")]).give("Pod", "x", "p", 0)
    assert second != first
    assert FIRST <= second <= LAST
