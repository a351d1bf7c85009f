"""Candidate policies beside those in force: the same names, their own patterns."""

from helpers.builders import accept, address, cnp, deny, domains, networks, packet, pod, tcp
from helpers.judging import snapshot_of

from knp_py.agent.shadow import Shadow, SharedNames
from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.names import DomainCache
from knp_py.engine.snapshot import Snapshot
from knp_py.model.decision import Verdict

P = pod("x/p", "10.1.0.5", node="n1", uid="uid-p")
WEB = "1.1.1.1"
REST = deny(networks("0.0.0.0/0"))


def by_name(pattern: str) -> Snapshot:
    return snapshot_of(
        [P, cnp("names", egress=[accept(domains(pattern), ports=[tcp(443)]), REST])]
    )


def test_both_find_the_names_that_they_want() -> None:
    cache = DomainCache()
    shared = SharedNames(cache)
    engine, shadow = PolicyEngine(shared.part()), Shadow(shared.part())
    engine.load(by_name("a.ex"))
    shadow.load(by_name("*.ex"))
    question = packet(P, WEB, 443)
    assert shadow.judge(question, 0.0).verdict is Verdict.DENY
    cache.learn(P, "b.ex", address(WEB), ttl=60, now=0.0, source=None)
    assert engine.evaluate(question, now=0.0).verdict is Verdict.DENY
    assert shadow.judge(question, 0.0).verdict is Verdict.ALLOW
    cache.learn(P, "a.ex", address(WEB), ttl=60, now=0.0, source=None)
    assert engine.evaluate(question, now=0.0).verdict is Verdict.ALLOW
    assert shadow.judge(question, 59.0).verdict is Verdict.ALLOW
    assert shadow.judge(question, 60.0).verdict is Verdict.DENY


def test_loading_one_takes_no_pattern_from_the_other() -> None:
    cache = DomainCache()
    shared = SharedNames(cache)
    engine, shadow = PolicyEngine(shared.part()), Shadow(shared.part())
    engine.load(by_name("a.ex"))
    shadow.load(by_name("b.ex"))
    shadow.load(by_name("c.ex"))
    for name in ("a.ex", "b.ex", "c.ex"):
        cache.learn(P, name, address(WEB), ttl=60, now=0.0, source=None)
    assert {grant.pattern for grant in cache.lookup(P, address(WEB), 0.0)} == {"a.ex", "c.ex"}
    engine.load(by_name("b.ex"))
    assert {grant.pattern for grant in cache.lookup(P, address(WEB), 0.0)} == {"b.ex", "c.ex"}


def test_a_part_is_the_cache_for_everything_else() -> None:
    cache = DomainCache()
    part = SharedNames(cache).part()
    part.set_patterns(frozenset({"*.ex"}))
    cache.learn(P, "a.ex", address(WEB), ttl=60, now=0.0, source=None)
    assert part.version == cache.version
    assert part.names(P, address(WEB), 0.0) == ("a.ex",)
    assert part.lookup(P, address(WEB), 0.0) == cache.lookup(P, address(WEB), 0.0)
    part.clear()
    assert len(cache) == 0
