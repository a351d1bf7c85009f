"""Learned names: which address a pod may reach because it looked a name up (semantics §6).

Everything that costs happens when an answer arrives: the patterns that its name satisfies
are found once, in a trie of reversed labels, and the address is stored under each. A
decision is then two dictionary lookups, whatever the cache holds.

Bounds, since a pod decides what it asks and often what it is answered: per client a quota
of addresses that some pattern wants and a smaller one of addresses that none does (kept so
that a policy which arrives after the lookup works), a limit of clients, and a total beyond
which every client is held to its fair share. A full client loses what expires soonest, never
the newcomer and never another client's.

Times are the caller's clock, in seconds. A grant is valid at ``now`` iff ``now < expires``.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from knp_py.engine.grants import ClientNames, Held
from knp_py.engine.patterns import PatternTrie, canonical_name, canonical_pattern
from knp_py.model.decision import NameGrant
from knp_py.model.objects import Pod

Scope = Literal["pod", "node"]

MIN_LIFETIME = 30.0
MAX_LIFETIME = 300.0


class SavedName(NamedTuple):
    """One held address as plain values, for keeping over a restart."""

    uid: str
    node: str
    name: str
    address: int
    source: int | None
    expires: float


class DomainCache:
    """Addresses that pods learned for names, and the patterns they satisfy.

    ``scope`` "pod": what a pod learned opens nothing for another; "node": pods of one node
    share (a pod whose node is unknown shares with none). Identity is the pod's UID, so a
    pod that returns under the same name or address starts empty.

    ``max_addresses_per_client`` bounds the addresses of one pod that a pattern wants,
    ``max_unwanted_per_client`` the others, ``max_clients`` the pods, and once
    ``max_addresses`` are held in all no pod may grow beyond its share of that.

    ``version`` grows whenever ``lookup`` could answer differently for a reason other than
    time passing; ``evicted`` counts what went before its time for want of room.

    ``on_learn`` is called for every address that was learned or lives longer from now on,
    but not for what ``restore`` takes back.
    """

    def __init__(
        self,
        *,
        scope: Scope = "pod",
        max_addresses_per_client: int = 4096,
        max_unwanted_per_client: int = 1024,
        max_clients: int = 16384,
        max_addresses: int = 131_072,
        on_learn: Callable[[SavedName], object] | None = None,
    ) -> None:
        if min(max_addresses_per_client, max_clients, max_addresses) < 1:
            raise ValueError("a name cache needs room for one address of one client")
        self.version = 0
        self.evicted = 0
        self._by_node = scope == "node"
        self._quotas = (max_unwanted_per_client, max_addresses_per_client)
        self._max_clients = max_clients
        self._max_addresses = max_addresses
        self._on_learn = on_learn
        self._patterns: frozenset[str] = frozenset()
        self._trie = PatternTrie()
        self._clients: dict[str, ClientNames] = {}  # longest without an answer first
        self._nodes: dict[str, dict[int, dict[str, ClientNames]]] = {}
        self._held = 0
        self._order = 0

    def __len__(self) -> int:
        """How many (pod, name, address) are held, those that no pattern wants included."""
        return self._held

    def set_patterns(self, patterns: frozenset[str]) -> None:
        """The ``domainNames`` patterns of all rules that may use names; re-indexes what is held.

        A pattern that ``canonical_pattern`` refuses never matches.
        """
        wanted = frozenset(filter(None, map(canonical_pattern, patterns)))
        if wanted == self._patterns:
            return
        self._patterns = wanted
        self._trie = PatternTrie(wanted)
        matches: dict[str, tuple[str, ...]] = {}
        for client in self._clients.values():
            client.reindex(self._trie, matches)
            for kind in (False, True):
                self._make_room(client, wanted=kind, spare=0)
        self.version += 1

    def learn(
        self, pod: Pod, name: str, address: int, *, ttl: int, now: float, source: int | None
    ) -> bool:
        """Record that ``pod`` was told ``name`` is at ``address``; whether it is held now.

        It is not when the name can be no host's, or no pattern wants it and nothing
        unwanted may be kept. ``ttl`` in seconds, clamped to [30, 300]; one with the top bit
        set counts as 0 (RFC 2181 §8). A grant is only ever extended. ``source`` is the
        resolver's address, None when given by hand.
        """
        known = canonical_name(name)
        if known is None:
            return False
        lifetime = MIN_LIFETIME if ttl >= 1 << 31 else min(max(ttl, MIN_LIFETIME), MAX_LIFETIME)
        client = self._client(pod.uid, pod.node, now)
        order = self._order
        expires = now + lifetime
        held = self._put(client, known, address, expires, source)
        if self._on_learn is not None and self._order != order:
            self._on_learn(SavedName(pod.uid, pod.node, known, address, source, expires))
        return held

    def lookup(self, pod: Pod, address: int, now: float) -> tuple[NameGrant, ...]:
        """Grants that open ``address`` to ``pod`` at ``now``: at most one a pattern."""
        if self._by_node and pod.node:
            return self._lookup_shared(pod.node, address, now)
        client = self._clients.get(pod.uid)
        if client is None:
            return ()
        grants = client.grants.get(address)
        if grants is None:
            return ()
        return self._valid(client, grants, now)

    def names(self, pod: Pod, address: int, now: float) -> tuple[str, ...]:
        """Names this pod itself learned the address for, whether or not a pattern wants them."""
        client = self._clients.get(pod.uid)
        if client is None:
            return ()
        return tuple(sorted(held.name for held in client.at(address) if now < held.expires))

    def forget(self, uid: str) -> None:
        """Drop all that the pod of this UID learned."""
        client = self._clients.pop(uid, None)
        if client is not None:
            self._held -= sum(client.sizes)
            client.clear()
            self.version += 1

    def clear(self) -> None:
        """Drop all that any pod learned."""
        for uid in list(self._clients):
            self.forget(uid)

    def dump(self, now: float) -> list[SavedName]:
        """All that is valid at ``now`` as plain values, soonest expiry first."""
        return sorted(self.saved(now), key=lambda s: (s.expires, s.uid, s.name, s.address))

    def saved(self, now: float) -> Iterator[SavedName]:
        """As ``dump``, in no order and without ever doing much at once.

        The cache may change between two of them: what was held before the first and still
        is after the last is among them.
        """
        for uid in list(self._clients):
            client = self._clients.get(uid)
            if client is None:
                continue
            for held in list(client):
                if now < held.expires:
                    yield SavedName(
                        uid, client.node, held.name, held.address, held.source, held.expires
                    )

    def restore(self, saved: Iterable[SavedName], now: float) -> int:
        """Take back what ``dump`` gave; how many were still of use at ``now``.

        To be called once the patterns are set: what no pattern wants has less room. Nothing
        is extended: an expiry stays what it was, and one that lies further ahead
        than any lifetime reaches is cut to that.
        """
        taken = 0
        for uid, node, name, address, source, expires in saved:
            known = canonical_name(name)
            if known is None or not now < expires:
                continue
            client = self._client(uid, node, now)
            taken += self._put(client, known, address, min(expires, now + MAX_LIFETIME), source)
        return taken

    def _lookup_shared(self, node: str, address: int, now: float) -> tuple[NameGrant, ...]:
        holders = self._nodes.get(node, {}).get(address)
        if holders is None:
            return ()
        best: dict[str, NameGrant] = {}
        for client in list(holders.values()):
            for grant in self._valid(client, client.grants[address], now):
                other = best.get(grant.pattern)
                if other is None or other.expires < grant.expires:
                    best[grant.pattern] = grant
        return tuple(best.values())

    def _valid(
        self, client: ClientNames, grants: tuple[NameGrant, ...], now: float
    ) -> tuple[NameGrant, ...]:
        for grant in grants:
            if grant.expires <= now:
                # Removed rather than skipped: what was seen to be over stays over, also
                # for a packet whose time stamp goes back.
                self._held -= client.expire(now)
                return client.grants.get(grant.address, ())
        return grants

    def _client(self, uid: str, node: str, now: float) -> ClientNames:
        """The client, made if new, freed of what is over and moved behind all others."""
        client = self._clients.pop(uid, None)
        if client is None:
            shared = self._nodes.setdefault(node, {}) if self._by_node and node else None
            client = ClientNames(uid, node, shared)
        else:
            self._held -= client.expire(now)
        # Every answer pays for one step of sweeping: the client longest without one.
        oldest = next(iter(self._clients.values()), None)
        if oldest is not None:
            self._held -= oldest.expire(now)
            if not any(oldest.sizes):
                del self._clients[oldest.uid]
            elif len(self._clients) >= self._max_clients:
                self.evicted += sum(oldest.sizes)
                self.forget(oldest.uid)
        self._clients[uid] = client
        return client

    def _put(
        self, client: ClientNames, name: str, address: int, expires: float, source: int | None
    ) -> bool:
        held = client.find(name, address)
        if held is None:
            held = Held(name, address, self._trie.satisfied(name))
            if not held.patterns and self._quotas[False] < 1:
                return False
            self._make_room(client, wanted=bool(held.patterns), spare=1)
            self._held += 1
        elif expires <= held.expires:
            return True
        self._order += 1
        client.put(held, expires, self._order, source)
        if held.patterns:
            self.version += 1
        return True

    def _make_room(self, client: ClientNames, *, wanted: bool, spare: int) -> None:
        """Evict until ``spare`` more entries of this kind fit into the client's quota."""
        quota = self._quotas[wanted]
        if self._held >= self._max_addresses:
            quota = min(quota, max(1, self._max_addresses // len(self._clients)))
        while client.sizes[wanted] + spare > quota and client.evict(wanted=wanted):
            self._held -= 1
            self.evicted += 1
            self.version += wanted
