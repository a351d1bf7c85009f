"""The cache of learned names against a model that searches everything every time."""

from helpers.builders import pod
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from knp_py.engine.names import DomainCache, Scope
from knp_py.model.decision import NameGrant
from knp_py.model.objects import Pod

PODS = [
    pod("x/a", "10.1.0.1", node="n1", uid="a"),
    pod("x/b", "10.1.0.2", node="n1", uid="b"),
    pod("x/c", "10.1.0.3", node="n2", uid="c"),
    pod("x/d", "10.1.0.4", uid="d"),
]
NAMES = ["a.ex", "b.ex", "c.b.ex", "ex", "a.org", "b.org"]
PATTERNS = ["*.ex", "a.ex", "*.b.ex", "b.ex", "*.org", "ex"]
ADDRESSES = [1, 2, 3]
WANTED, UNWANTED = 3, 2


def matches(pattern: str, name: str) -> bool:
    return name.endswith(pattern[1:]) if pattern.startswith("*.") else name == pattern


class CacheMachine(RuleBasedStateMachine):
    """Any order of what may happen, time going on."""

    scope: Scope = "pod"

    def __init__(self) -> None:
        super().__init__()
        self.cache = DomainCache(
            scope=self.scope, max_addresses_per_client=WANTED, max_unwanted_per_client=UNWANTED
        )
        self.now = 0.0
        self.order = 0
        self.patterns: frozenset[str] = frozenset()
        # (uid, name, address) -> (expires, order)
        self.held: dict[tuple[str, str, int], tuple[float, int]] = {}
        self.before = self.cache.version
        self.shown: dict[tuple[str, int], set[NameGrant]] = {}

    def wanted(self, name: str) -> bool:
        return any(matches(pattern, name) for pattern in self.patterns)

    def make_room(self, uid: str, wanted: bool, spare: int) -> None:
        kind = [k for k in self.held if k[0] == uid and self.wanted(k[1]) is wanted]
        kind.sort(key=lambda k: self.held[k])
        for key in kind[: max(0, len(kind) + spare - (WANTED if wanted else UNWANTED))]:
            del self.held[key]

    @initialize(patterns=st.frozensets(st.sampled_from(PATTERNS)))
    def begin(self, patterns: frozenset[str]) -> None:
        self.set_patterns(patterns)

    @rule(patterns=st.frozensets(st.sampled_from(PATTERNS)))
    def set_patterns(self, patterns: frozenset[str]) -> None:
        self.cache.set_patterns(patterns)
        self.patterns = patterns
        self.held = {k: v for k, v in self.held.items() if self.now < v[0]}
        for client in PODS:
            for wanted in (False, True):
                self.make_room(client.uid, wanted, 0)

    @rule(
        client=st.sampled_from(PODS),
        name=st.sampled_from(NAMES),
        address=st.sampled_from(ADDRESSES),
        ttl=st.integers(0, 400),
    )
    def learn(self, client: Pod, name: str, address: int, ttl: int) -> None:
        assert self.cache.learn(client, name, address, ttl=ttl, now=self.now, source=None)
        self.held = {k: v for k, v in self.held.items() if self.now < v[0]}
        key = (client.uid, name, address)
        expires = self.now + min(max(ttl, 30), 300)
        if key not in self.held:
            self.make_room(client.uid, self.wanted(name), 1)
        elif expires <= self.held[key][0]:
            return
        self.order += 1
        self.held[key] = (expires, self.order)

    @rule(step=st.sampled_from([0.5, 10.0, 29.5, 30.0, 150.0, 300.0]))
    def wait(self, step: float) -> None:
        self.now += step
        self.shown = {}

    @rule(client=st.sampled_from(PODS))
    def forget(self, client: Pod) -> None:
        self.cache.forget(client.uid)
        self.held = {k: v for k, v in self.held.items() if k[0] != client.uid}

    def expected(self, client: Pod, address: int) -> dict[str, float]:
        """Pattern -> latest expiry, over all whose answers count for the client."""
        shares = [client]
        if self.scope == "node" and client.node:
            shares = [other for other in PODS if other.node == client.node]
        found: dict[str, float] = {}
        for (uid, name, where), (expires, _) in self.held.items():
            if where != address or self.now >= expires or uid not in {p.uid for p in shares}:
                continue
            for pattern in self.patterns:
                if matches(pattern, name):
                    found[pattern] = max(found.get(pattern, 0.0), expires)
        return found

    @rule()
    def look(self) -> None:
        """Not after every step: what is over must also be right while nobody looked."""
        shown: dict[tuple[str, int], set[NameGrant]] = {}
        for client in PODS:
            for address in ADDRESSES:
                grants = self.cache.lookup(client, address, self.now)
                assert {g.pattern: g.expires for g in grants} == self.expected(client, address)
                assert len({g.pattern for g in grants}) == len(grants)
                assert all(matches(g.pattern, g.name) and g.address == address for g in grants)
                shown[client.uid, address] = set(grants)
        if self.shown and shown != self.shown:
            assert self.cache.version > self.before
        self.shown = shown
        self.before = self.cache.version

    def teardown(self) -> None:
        self.look()

    @invariant()
    def books_are_balanced(self) -> None:
        clients = self.cache._clients.values()
        assert len(self.cache) == sum(sum(c.sizes) for c in clients)
        for client in clients:
            assert client.sizes[True] <= WANTED
            assert client.sizes[False] <= UNWANTED
            assert sum(client.sizes) == len(list(client))
            assert all(grants for grants in client.grants.values())


class NodeCacheMachine(CacheMachine):
    """The same with the answers of a node's pods shared."""

    scope: Scope = "node"


TestPodScope = CacheMachine.TestCase
TestPodScope.settings = settings(stateful_step_count=40)
TestNodeScope = NodeCacheMachine.TestCase
TestNodeScope.settings = settings(stateful_step_count=40)
