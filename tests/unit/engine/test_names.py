"""The cache of learned names: lives, quotas, scopes, versions."""

from collections.abc import Callable

import pytest
from helpers.builders import pod

from knp_py.engine.names import DomainCache, SavedName, Scope
from knp_py.model.decision import NameGrant
from knp_py.model.net import parse_address
from knp_py.model.objects import Pod

P = pod("x/p", "10.1.0.5", node="n1", uid="uid-p")
Q = pod("x/q", "10.1.0.6", node="n1", uid="uid-q")
ELSEWHERE = pod("x/r", "10.2.0.5", node="n2", uid="uid-r")
ONE, TWO, THREE = (parse_address(f"1.1.1.{n}") for n in (1, 2, 3))
SERVER = parse_address("10.96.0.10")


def cache(
    *patterns: str,
    scope: Scope = "pod",
    on_learn: Callable[[SavedName], object] | None = None,
    **limits: int,
) -> DomainCache:
    made = DomainCache(scope=scope, on_learn=on_learn, **limits)
    made.set_patterns(frozenset(patterns or ("*.ex",)))
    return made


def learn(
    names: DomainCache,
    name: str,
    address: int = ONE,
    *,
    who: Pod = P,
    ttl: int = 60,
    now: float = 0.0,
) -> bool:
    return names.learn(who, name, address, ttl=ttl, now=now, source=SERVER)


def held(names: DomainCache, *addresses: int, who: Pod = P, now: float = 0.0) -> list[bool]:
    return [bool(names.lookup(who, address, now)) for address in addresses]


def test_grant_says_everything() -> None:
    names = cache("*.ex", "a.ex")
    learn(names, "A.ex.", now=5.0)
    assert set(names.lookup(P, ONE, 5.0)) == {
        NameGrant("*.ex", "a.ex", ONE, SERVER, 65.0),
        NameGrant("a.ex", "a.ex", ONE, SERVER, 65.0),
    }


def test_one_grant_a_pattern() -> None:
    names = cache()
    learn(names, "a.ex", ttl=60)
    learn(names, "b.ex", ttl=90)
    assert names.lookup(P, ONE, 0.0) == (NameGrant("*.ex", "b.ex", ONE, SERVER, 90.0),)


@pytest.mark.parametrize(
    ("ttl", "lifetime"),
    [
        (-1, 30), (0, 30), (1, 30), (29, 30), (30, 30), (31, 31), (299, 299), (300, 300),
        (301, 300), (86400, 300), ((1 << 31) - 1, 300), (1 << 31, 30), ((1 << 31) + 1, 30),
    ],
)  # fmt: skip
def test_lifetimes_are_clamped(ttl: int, lifetime: int) -> None:
    names = cache()
    learn(names, "a.ex", ttl=ttl, now=100.0)
    assert names.lookup(P, ONE, 100.0)[0].expires == 100.0 + lifetime


def test_valid_iff_before_expiry() -> None:
    names = cache()
    learn(names, "a.ex", ttl=30)
    assert held(names, ONE, now=29.999) == [True]
    assert held(names, ONE, now=30.0) == [False]


def test_hearing_again_only_extends() -> None:
    names = cache()
    learn(names, "a.ex", ttl=300)
    learn(names, "a.ex", ttl=30, now=10.0)
    assert names.lookup(P, ONE, 299.0)[0].expires == 300.0
    learn(names, "a.ex", ttl=300, now=20.0)
    assert names.lookup(P, ONE, 319.0)[0].expires == 320.0


def test_over_and_heard_again() -> None:
    names = cache()
    learn(names, "a.ex", ttl=30)
    learn(names, "a.ex", ttl=30, now=50.0)
    assert held(names, ONE, now=79.0) == [True]


@pytest.mark.parametrize("name", ["", ".", "*.ex", "a b.ex", "\u212a.ex", "a." * 127 + "ex"])
def test_names_no_host_has(name: str) -> None:
    names = cache()
    assert not learn(names, name)
    assert len(names) == 0


def test_patterns_that_can_never_match_are_ignored() -> None:
    names = cache("*", "a*.ex", "b\u00fccher.ex", "OK.ex.")
    learn(names, "ok.ex")
    assert [grant.pattern for grant in names.lookup(P, ONE, 0.0)] == ["ok.ex"]


# Who may use what.


def test_scope_pod() -> None:
    names = cache()
    learn(names, "a.ex")
    assert held(names, ONE, who=Q) == [False]


def test_scope_node() -> None:
    names = cache(scope="node")
    learn(names, "a.ex", ttl=60)
    learn(names, "a.ex", who=Q, ttl=90)
    learn(names, "a.ex", who=pod("x/q2", node="n1"), ttl=70)
    assert [grant.expires for grant in names.lookup(P, ONE, 0.0)] == [90.0]
    assert held(names, ONE, who=ELSEWHERE) == [False]
    assert held(names, ONE, who=P, now=89.0) == [True]
    assert held(names, ONE, who=P, now=90.0) == [False]
    assert len(names) == 0


def test_scope_node_without_a_node() -> None:
    names = cache(scope="node")
    drifting, other = pod("x/d", uid="uid-d"), pod("x/e", uid="uid-e")
    learn(names, "a.ex", who=drifting)
    assert held(names, ONE, who=drifting) == [True]
    assert held(names, ONE, who=other) == [False]


def test_scope_node_keeps_quotas_apart() -> None:
    names = cache(scope="node", max_addresses_per_client=2)
    learn(names, "a.ex", ONE)
    for number in range(100):
        learn(names, "b.ex", TWO + number, who=Q)
    assert held(names, ONE, who=Q) == [True]


def test_a_pod_of_the_same_name_and_address_starts_empty() -> None:
    names = cache()
    learn(names, "a.ex")
    assert held(names, ONE, who=pod("x/p", "10.1.0.5", node="n1", uid="uid-p2")) == [False]


def test_forget() -> None:
    names = cache(scope="node")
    learn(names, "a.ex")
    learn(names, "b.ex", TWO, who=Q)
    before = names.version
    names.forget("uid-p")
    names.forget("uid-nobody")
    assert held(names, ONE, TWO) == [False, True]
    assert (len(names), names.version) == (1, before + 1)


# Bounds.


def test_quota_evicts_the_soonest_and_never_the_newcomer() -> None:
    names = cache(max_addresses_per_client=2)
    learn(names, "a.ex", ONE, ttl=300)
    learn(names, "b.ex", TWO, ttl=200)
    learn(names, "c.ex", THREE, ttl=30)
    assert held(names, ONE, TWO, THREE) == [True, False, True]
    assert (names.evicted, len(names)) == (1, 2)


def test_what_is_over_goes_before_anything_is_evicted() -> None:
    names = cache(max_addresses_per_client=2)
    learn(names, "a.ex", ONE, ttl=30)
    learn(names, "b.ex", TWO, ttl=200)
    learn(names, "c.ex", THREE, ttl=300, now=31.0)
    assert held(names, TWO, THREE, now=31.0) == [True, True]
    assert names.evicted == 0


def test_renewing_at_the_quota_evicts_nothing() -> None:
    names = cache(max_addresses_per_client=1)
    learn(names, "a.ex", ttl=30)
    learn(names, "a.ex", ttl=60)
    assert (len(names), names.evicted) == (1, 0)


def test_a_flood_evicts_nobody_else() -> None:
    names = cache(max_addresses_per_client=10)
    learn(names, "a.ex", ONE, ttl=30)
    for number in range(1000):
        learn(names, f"h{number}.ex", TWO + number, who=Q, ttl=300)
    assert held(names, ONE) == [True]
    assert len(names) == 11


def test_unwanted_names_do_not_push_out_wanted_ones() -> None:
    names = cache(max_addresses_per_client=1, max_unwanted_per_client=3)
    learn(names, "a.ex", ONE, ttl=30)
    for number in range(50):
        learn(names, f"h{number}.other", TWO + number, ttl=300)
    assert held(names, ONE) == [True]
    assert len(names) == 4


def test_keeping_nothing_unwanted() -> None:
    names = cache(max_unwanted_per_client=0)
    assert not learn(names, "a.other")
    assert learn(names, "a.ex")
    assert len(names) == 1


def test_beyond_the_total_every_client_has_its_share() -> None:
    names = cache(max_addresses=100, max_addresses_per_client=90)
    for number in range(90):
        learn(names, f"h{number}.ex", ONE + number, ttl=300)
    for number in range(90):
        learn(names, f"h{number}.ex", ONE + number, who=Q, ttl=300)
    assert len(names) == 140  # Q stopped at its half
    learn(names, "more.ex", THREE, ttl=300)
    assert len(names) == 100  # and P is back at its own


def test_clients_are_bounded() -> None:
    names = cache(max_clients=3)
    pods = [pod(f"x/p{n}", uid=f"uid-{n}") for n in range(5)]
    for client in pods:
        learn(names, "a.ex", who=client)
    assert [held(names, ONE, who=client)[0] for client in pods] == [False, False, True, True, True]
    assert names.evicted == 2


def test_clients_leave_once_nothing_of_theirs_is_left() -> None:
    names = cache()
    learn(names, "a.ex", who=P, ttl=30)
    learn(names, "a.ex", who=Q, ttl=30, now=31.0)
    assert list(names._clients) == ["uid-q"]


def test_no_room_at_all() -> None:
    with pytest.raises(ValueError, match="room for one"):
        DomainCache(max_addresses_per_client=0)


# Time that goes back.


def test_what_was_seen_to_be_over_stays_over() -> None:
    names = cache()
    learn(names, "a.ex", ttl=30)
    learn(names, "b.ex", ttl=30)
    assert held(names, ONE, now=31.0) == [False]
    assert held(names, ONE, now=26.0) == [False]
    names.set_patterns(frozenset({"a.ex", "b.ex"}))
    assert held(names, ONE, now=26.0) == [False]


def test_an_answer_from_before_teaches_no_negative_life() -> None:
    names = cache()
    learn(names, "a.ex", ttl=30, now=100.0)
    learn(names, "b.ex", TWO, ttl=30, now=95.0)
    assert names.lookup(P, TWO, 100.0)[0].expires == 125.0


# Patterns that come later.


def test_a_pattern_that_comes_after_the_lookup() -> None:
    names = cache("*.other")
    learn(names, "a.ex")
    assert held(names, ONE) == [False]
    names.set_patterns(frozenset({"A.ex."}))
    assert names.lookup(P, ONE, 59.0) == (NameGrant("a.ex", "a.ex", ONE, SERVER, 60.0),)
    names.set_patterns(frozenset())
    assert held(names, ONE) == [False]


def test_patterns_can_fill_the_quota() -> None:
    names = cache("*.other", max_addresses_per_client=2, max_unwanted_per_client=5)
    for number in range(5):
        learn(names, "a.ex", ONE + number, ttl=60 + number)
    names.set_patterns(frozenset({"*.ex"}))
    assert [bool(names.lookup(P, ONE + number, 0.0)) for number in range(5)] == [
        False, False, False, True, True,
    ]  # fmt: skip


# Versions.


def test_version() -> None:
    names = cache()
    seen = [names.version]

    def grew() -> bool:
        seen.append(names.version)
        return seen[-1] > seen[-2]

    learn(names, "a.ex", ttl=60)
    assert grew()
    learn(names, "a.ex", ttl=50)
    learn(names, "a.ex", ttl=60)
    assert not grew()  # nothing extended
    learn(names, "a.ex", ttl=70)
    assert grew()
    learn(names, "a.other", ttl=70)
    assert not grew()  # no pattern wants it
    names.lookup(P, ONE, 1.0)
    names.lookup(P, ONE, 500.0)
    assert not grew()  # only time passed
    names.set_patterns(frozenset({"*.EX"}))
    assert not grew()  # the same pattern
    names.set_patterns(frozenset({"*.other"}))
    assert grew()


def test_version_grows_with_evictions() -> None:
    names = cache(max_addresses_per_client=1)
    learn(names, "a.ex", ONE, ttl=60)
    before = names.version
    learn(names, "b.ex", TWO, ttl=60)
    assert names.version == before + 2


# What the rest asks.


def test_names_of_an_address() -> None:
    names = cache()
    learn(names, "b.ex", ttl=60)
    learn(names, "a.other", ttl=90)
    assert names.names(P, ONE, 0.0) == ("a.other", "b.ex")
    assert names.names(P, ONE, 60.0) == ("a.other",)
    assert names.names(P, TWO, 0.0) == ()
    assert names.names(Q, ONE, 0.0) == ()


# A restart.


def test_dump_and_restore() -> None:
    names = cache()
    learn(names, "a.ex", ONE, ttl=300)
    learn(names, "b.other", TWO, ttl=200)
    learn(names, "c.ex", THREE, who=Q, ttl=30)
    saved = names.dump(30.0)
    assert saved == [
        SavedName("uid-p", "n1", "b.other", TWO, SERVER, 200.0),
        SavedName("uid-p", "n1", "a.ex", ONE, SERVER, 300.0),
    ]
    later = cache(scope="node")
    assert later.restore(saved, 100.0) == 2
    assert held(later, ONE, who=Q, now=300.0 - 0.1) == [True]
    assert held(later, ONE, who=Q, now=300.0) == [False]


def test_restore_extends_nothing_and_trusts_nothing() -> None:
    names = cache()
    saved = [
        SavedName("uid-p", "n1", "a.ex", ONE, SERVER, 5000.0),
        SavedName("uid-p", "n1", "b.ex", TWO, SERVER, 10.0),
        SavedName("uid-p", "n1", "not a name", THREE, SERVER, 200.0),
        SavedName("uid-p", "n1", "c.ex", THREE, SERVER, float("nan")),
    ]
    assert names.restore(saved, 10.0) == 1
    assert names.lookup(P, ONE, 10.0)[0].expires == 310.0


def test_whoever_wants_to_know_is_told_what_was_learned() -> None:
    told: list[SavedName] = []
    names = cache(on_learn=told.append)
    learn(names, "A.ex", ttl=60)
    learn(names, "a.ex", ttl=60)  # nothing new
    learn(names, "a.ex", ttl=90, now=5.0)
    learn(names, "a.ex", ttl=30, now=6.0)  # extends nothing
    learn(names, "b.other", TWO)
    learn(names, "not a name")
    assert told == [
        SavedName("uid-p", "n1", "a.ex", ONE, SERVER, 60.0),
        SavedName("uid-p", "n1", "a.ex", ONE, SERVER, 95.0),
        SavedName("uid-p", "n1", "b.other", TWO, SERVER, 60.0),
    ]
    saved = names.dump(6.0)
    del told[:]
    again = cache(on_learn=told.append)
    assert again.restore(saved, 6.0) == 2
    assert told == []


def test_what_is_not_held_is_not_told() -> None:
    told: list[SavedName] = []
    names = cache(on_learn=told.append, max_unwanted_per_client=0)
    assert not learn(names, "b.other")
    assert told == []


def test_all_that_is_held_one_by_one_while_it_changes() -> None:
    names = cache("*.ex")
    for number in range(5):
        learn(names, f"a{number}.ex", ONE)
        learn(names, f"a{number}.ex", TWO, who=Q)
    learn(names, "gone.ex", who=ELSEWHERE)
    saving = names.saved(0.0)
    first = next(saving)
    names.forget("uid-r")
    names.forget("uid-p")
    learn(names, "late.ex", THREE, who=Q)
    found = {first, *saving}
    assert {each for each in found if each.uid == "uid-q"} >= {
        each for each in names.dump(0.0) if each.name != "late.ex"
    }
    assert all(each.uid != "uid-r" for each in found)
