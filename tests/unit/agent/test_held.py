"""Names that opened a connection count for it once more, after they have ended."""

import pytest
from helpers.builders import address, pod

from knp_py.agent.held import HeldNames
from knp_py.engine.evaluate import NoNames
from knp_py.engine.names import DomainCache
from knp_py.model.decision import NameGrant

P = pod("x/p", "10.1.0.5", node="n1", uid="uid-p")
ONE, TWO = address("1.1.1.1"), address("1.1.1.2")
EX = frozenset({"*.ex"})
GRANT = NameGrant("*.ex", "a.ex", ONE, None, 9.0)


def held(*patterns: str) -> HeldNames:
    names = HeldNames(NoNames())
    names.set_patterns(frozenset(patterns))
    return names


@pytest.fixture
def cache() -> DomainCache:
    names = DomainCache()
    names.set_patterns(EX)
    return names


def test_outside_the_block_they_are_the_learned_names(cache: DomainCache) -> None:
    cache.learn(P, "b.ex", ONE, ttl=60, now=0.0, source=None)
    names = HeldNames(cache)
    names.set_patterns(EX)
    with names.granting([GRANT]):
        pass
    assert names.lookup(P, ONE, 0.0) == cache.lookup(P, ONE, 0.0) != ()
    assert names.names(P, ONE, 0.0) == ("b.ex",)
    assert names.lookup(P, ONE, 100.0) == ()


def test_a_name_that_has_ended_counts_within_it() -> None:
    names = held("*.ex")
    with names.granting([GRANT]):
        assert names.lookup(P, ONE, 1000.0) == (GRANT,)
        assert names.lookup(P, TWO, 1000.0) == ()
        assert names.names(P, ONE, 1000.0) == ()  # what is said about it stays true
    assert names.lookup(P, ONE, 1000.0) == ()


def test_it_is_the_name_that_counts_not_how_policy_called_it() -> None:
    """The rule may say it in other words now: a live name would be accepted by them."""
    names = held("a.ex", "*.other")
    with names.granting([GRANT]):
        assert names.lookup(P, ONE, 1000.0) == (GRANT._replace(pattern="a.ex"),)


def test_a_name_that_no_policy_wants_any_more_opens_nothing() -> None:
    names = held("*.other")
    with names.granting([GRANT]):
        assert names.lookup(P, ONE, 1000.0) == ()


def test_a_live_name_goes_before_an_ended_one(cache: DomainCache) -> None:
    cache.learn(P, "b.ex", ONE, ttl=60, now=1000.0, source=None)
    names = HeldNames(cache)
    names.set_patterns(EX)
    with names.granting([GRANT]):
        assert names.lookup(P, ONE, 1000.0) == (NameGrant("*.ex", "b.ex", ONE, None, 1060.0),)


def test_one_grant_a_pattern() -> None:
    names = held("*.ex", "a.ex")
    other = NameGrant("*.ex", "b.ex", ONE, None, 9.0)
    with names.granting([GRANT, GRANT._replace(pattern="a.ex"), other]):
        found = names.lookup(P, ONE, 1000.0)
    assert sorted(grant.pattern for grant in found) == ["*.ex", "a.ex"]


def test_the_block_ends_also_when_it_fails() -> None:
    names = held("*.ex")
    with pytest.raises(ZeroDivisionError), names.granting([GRANT]):
        raise ZeroDivisionError
    assert names.lookup(P, ONE, 0.0) == ()


def test_the_learned_names_are_not_its_to_change(cache: DomainCache) -> None:
    cache.learn(P, "a.ex", ONE, ttl=60, now=0.0, source=None)
    names = HeldNames(cache)
    version = cache.version
    names.clear()
    names.set_patterns(frozenset({"*.other"}))
    assert len(cache) == 1
    assert names.version == cache.version == version
    assert cache.lookup(P, ONE, 0.0) != ()
