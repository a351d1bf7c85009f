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

import re
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Literal, NamedTuple

from knp_py.model.decision import NameGrant
from knp_py.model.objects import Pod

Scope = Literal["pod", "node"]

MIN_LIFETIME = 30.0
MAX_LIFETIME = 300.0

_HOST_NAME = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")


def canonical_name(text: str) -> str | None:
    """The name as it is compared: ASCII lower case, one trailing dot gone.

    None when it can be no host's name: empty, longer than 253, or with a label that holds
    anything but letters, digits, hyphen and underscore (RFC 1123 §2.1; underscore because
    service names use it). Only ASCII folds: U+212A is no "k" (RFC 4343 §3).
    """
    if not text.isascii():
        return None
    name = text.lower().removesuffix(".")
    return name if len(name) <= 253 and _HOST_NAME.fullmatch(name) else None


def canonical_pattern(text: str) -> str | None:
    """A ``domainNames`` entry in the form of ``canonical_name``, ``*.`` only in front."""
    name = canonical_name(text.removeprefix("*."))
    if name is None:
        return None
    return f"*.{name}" if text.startswith("*.") else name


class SavedName(NamedTuple):
    """One held address as plain values, for keeping over a restart."""

    uid: str
    node: str
    name: str
    address: int
    source: int | None
    expires: float


class _Labels:
    """A node of the trie: what is below it, and the patterns that end here."""

    __slots__ = ("below", "exact", "wildcard")

    def __init__(self) -> None:
        self.below: dict[str, _Labels] = {}
        self.exact: str | None = None
        self.wildcard: str | None = None


def _build(patterns: Iterable[str]) -> _Labels:
    root = _Labels()
    for pattern in sorted(patterns):
        at = root
        for label in reversed(pattern.removeprefix("*.").split(".")):
            at = at.below.setdefault(label, _Labels())
        if pattern.startswith("*."):
            at.wildcard = pattern
        else:
            at.exact = pattern
    return root


def _satisfied(root: _Labels, name: str) -> tuple[str, ...]:
    """Patterns that ``name`` satisfies; walks no deeper than the patterns go."""
    found: list[str] = []
    at = root
    for label in reversed(name.split(".")):
        if at.wildcard is not None:  # and at least this one label before it
            found.append(at.wildcard)
        below = at.below.get(label)
        if below is None:
            return tuple(found)
        at = below
    if at.exact is not None:
        found.append(at.exact)
    return tuple(found)


class _Held:
    """An address that a client learned for a name. ``order`` is -1 once it is gone."""

    __slots__ = ("address", "expires", "name", "order", "patterns", "source")

    def __init__(self, name: str, address: int, patterns: tuple[str, ...]) -> None:
        self.name = name
        self.address = address
        self.patterns = patterns
        self.expires = float("-inf")
        self.order = -1
        self.source: int | None = None


class _Client:
    """What one pod learned.

    ``held[address][name]`` is everything, ``grants[address][pattern]`` the grant of latest
    (expires, order) among them. Removal goes through the queues in ascending order of that
    pair (expiry and eviction alike, and a newcomer is added only afterwards), so the grant
    that is shown for a pattern is always the last of its kind to go and never has to be
    searched for again.

    ``queues`` are two heaps, [unwanted, wanted], of (expires, order, held); an extended
    entry leaves a stale item behind, which is skipped and now and then swept out.
    """

    __slots__ = ("grants", "held", "node", "queues", "shared", "sizes", "uid")

    def __init__(
        self, uid: str, node: str, shared: dict[int, dict[str, "_Client"]] | None
    ) -> None:
        self.uid = uid
        self.node = node
        self.held: dict[int, dict[str, _Held]] = {}
        self.grants: dict[int, dict[str, NameGrant]] = {}
        self.queues: tuple[list[tuple[float, int, _Held]], list[tuple[float, int, _Held]]]
        self.queues = ([], [])
        self.sizes = [0, 0]
        self.shared = shared  # scope node: address -> uid -> client that has a grant for it

    def add(self, held: _Held, expires: float, order: int, source: int | None) -> None:
        """Put in a new entry, or one that lives longer from now on."""
        wanted = bool(held.patterns)
        if held.order < 0:
            self.held.setdefault(held.address, {})[held.name] = held
            self.sizes[wanted] += 1
        held.expires = expires
        held.order = order
        held.source = source
        queue = self.queues[wanted]
        if len(queue) > 2 * self.sizes[wanted] + 64:
            queue[:] = [item for item in queue if item[2].order == item[1]]
            heapify(queue)
        heappush(queue, (expires, order, held))
        self._show(held)

    def _show(self, held: _Held) -> None:
        if not held.patterns:
            return
        cell = self.grants.get(held.address)
        if cell is None:
            cell = self.grants[held.address] = {}
            if self.shared is not None:
                self.shared.setdefault(held.address, {})[self.uid] = self
        for pattern in held.patterns:
            shown = cell.get(pattern)
            if shown is None or shown.expires <= held.expires:
                cell[pattern] = NameGrant(
                    pattern, held.name, held.address, held.source, held.expires
                )

    def _drop(self, held: _Held) -> None:
        names = self.held[held.address]
        del names[held.name]
        if not names:
            del self.held[held.address]
        self.sizes[bool(held.patterns)] -= 1
        held.order = -1
        cell = self.grants.get(held.address)
        if cell is None:
            return
        for pattern in held.patterns:
            shown = cell.get(pattern)
            if shown is not None and shown.name == held.name:
                del cell[pattern]
        if not cell:
            self._hide(held.address)

    def _hide(self, address: int) -> None:
        del self.grants[address]
        if self.shared is not None:
            holders = self.shared[address]
            del holders[self.uid]
            if not holders:
                del self.shared[address]

    def expire(self, now: float) -> int:
        """Remove all that is over at ``now``; how many. Each entry costs this only once."""
        gone = 0
        for queue in self.queues:
            while queue and queue[0][0] <= now:
                _, order, held = heappop(queue)
                if held.order == order:
                    self._drop(held)
                    gone += 1
        return gone

    def evict(self, wanted: bool) -> bool:
        """Remove the entry of this kind that expires soonest; False if there is none."""
        queue = self.queues[wanted]
        while queue:
            _, order, held = heappop(queue)
            if held.order == order:
                self._drop(held)
                return True
        return False

    def reindex(self, matches: dict[str, tuple[str, ...]], patterns: _Labels) -> None:
        """Show everything again under other patterns; ``matches`` remembers names."""
        entries = sorted(
            (held for names in self.held.values() for held in names.values()),
            key=lambda held: (held.expires, held.order),
        )
        for address in list(self.grants):
            self._hide(address)
        self.queues = ([], [])
        self.sizes = [0, 0]
        for held in entries:
            found = matches.get(held.name)
            if found is None:
                found = matches[held.name] = _satisfied(patterns, held.name)
            held.patterns = found
            self.sizes[bool(found)] += 1
            # Appended in ascending order, so each list is a heap as it is.
            self.queues[bool(found)].append((held.expires, held.order, held))
            self._show(held)

    def clear(self) -> int:
        """Forget everything; how many entries that were."""
        for address in list(self.grants):
            self._hide(address)
        gone = sum(self.sizes)
        self.held.clear()
        self.queues = ([], [])
        self.sizes = [0, 0]
        return gone


class DomainCache:
    """Addresses that pods learned for names, and the patterns they satisfy.

    ``scope`` "pod": what a pod learned opens nothing for another; "node": pods of one node
    share (a pod whose node is unknown shares with none). Identity is the pod's UID, so a
    pod that returns under the same name or address starts empty.

    ``max_addresses_per_client`` bounds the addresses of one pod that a pattern wants,
    ``max_unwanted_per_client`` the others, ``max_clients`` the pods, and beyond
    ``max_addresses`` in all no pod may hold more than its share.

    ``version`` grows whenever ``lookup`` could answer differently for a reason other than
    time passing; ``evicted`` counts what went before its time for want of room.
    """

    def __init__(
        self,
        *,
        scope: Scope = "pod",
        max_addresses_per_client: int = 4096,
        max_unwanted_per_client: int = 1024,
        max_clients: int = 16384,
        max_addresses: int = 262_144,
    ) -> None:
        if min(max_addresses_per_client, max_clients, max_addresses) < 1:
            raise ValueError("a name cache needs room for one address of one client")
        self.version = 0
        self.evicted = 0
        self._by_node = scope == "node"
        self._quotas = (max_unwanted_per_client, max_addresses_per_client)
        self._max_clients = max_clients
        self._max_addresses = max_addresses
        self._patterns: frozenset[str] = frozenset()
        self._trie = _Labels()
        self._clients: dict[str, _Client] = {}  # longest without an answer first
        self._nodes: dict[str, dict[int, dict[str, _Client]]] = {}
        self._held = 0
        self._order = 0

    def __len__(self) -> int:
        """How many (pod, name, address) are held, those that nobody asked for since included."""
        return self._held

    def set_patterns(self, patterns: frozenset[str]) -> None:
        """The ``domainNames`` patterns of all rules that may use names; re-indexes what is held.

        A pattern that ``canonical_pattern`` refuses never matches.
        """
        wanted = frozenset(filter(None, map(canonical_pattern, patterns)))
        if wanted == self._patterns:
            return
        self._patterns = wanted
        self._trie = _build(wanted)
        matches: dict[str, tuple[str, ...]] = {}
        for client in self._clients.values():
            client.reindex(matches, self._trie)
            self._make_room(client, spare=0)
        self.version += 1

    def learn(
        self, pod: Pod, name: str, address: int, *, ttl: int, now: float, source: int | None
    ) -> bool:
        """Record that ``pod`` was told ``name`` is at ``address``; whether it is held now.

        It is not when the name can be no host's, or no pattern wants it and nothing
        unwanted may be kept.

        ``ttl`` in seconds, clamped to [30, 300], one with the top bit set counts as 0 (RFC
        2181 §8). A grant is only ever extended. ``source`` is the resolver's address, None
        when given by hand.
        """
        known = canonical_name(name)
        if known is None:
            return False
        lifetime = MIN_LIFETIME if ttl >= 1 << 31 else min(max(ttl, MIN_LIFETIME), MAX_LIFETIME)
        client = self._client(pod.uid, pod.node, now)
        return self._put(client, known, address, now + lifetime, source)

    def lookup(self, pod: Pod, address: int, now: float) -> tuple[NameGrant, ...]:
        """Grants that open ``address`` to ``pod`` at ``now``: at most one a pattern."""
        if self._by_node and pod.node:
            return self._lookup_shared(pod.node, address, now)
        client = self._clients.get(pod.uid)
        if client is None:
            return ()
        cell = client.grants.get(address)
        if cell is None:
            return ()
        return self._live(client, address, cell, now)

    def names(self, pod: Pod, address: int, now: float) -> tuple[str, ...]:
        """Names this pod itself learned the address for, whether or not a pattern wants them."""
        client = self._clients.get(pod.uid)
        if client is None or address not in client.held:
            return ()
        held = client.held[address].values()
        return tuple(sorted(entry.name for entry in held if now < entry.expires))

    def forget(self, uid: str) -> None:
        """Drop all that the pod of this UID learned."""
        client = self._clients.pop(uid, None)
        if client is not None:
            self._held -= client.clear()
            self.version += 1

    def dump(self, now: float) -> list[SavedName]:
        """All that is valid at ``now`` as plain values, soonest expiry first."""
        return sorted(
            (
                SavedName(
                    client.uid, client.node, held.name, held.address, held.source, held.expires
                )
                for client in self._clients.values()
                for names in client.held.values()
                for held in names.values()
                if now < held.expires
            ),
            key=lambda saved: (saved.expires, saved.uid, saved.name, saved.address),
        )

    def restore(self, saved: Iterable[SavedName], now: float) -> int:
        """Take back what ``dump`` gave; how many were still of use at ``now``.

        Nothing is extended: an expiry stays what it was, and one that lies further ahead
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
            for grant in self._live(client, address, client.grants[address], now):
                shown = best.get(grant.pattern)
                if shown is None or shown.expires < grant.expires:
                    best[grant.pattern] = grant
        return tuple(best.values())

    def _live(
        self, client: _Client, address: int, cell: dict[str, NameGrant], now: float
    ) -> tuple[NameGrant, ...]:
        for grant in cell.values():
            if grant.expires <= now:
                # Removed rather than skipped: what was seen to be over stays over, also
                # for a packet whose time stamp goes back.
                self._held -= client.expire(now)
                return tuple(client.grants.get(address, {}).values())
        return tuple(cell.values())

    def _client(self, uid: str, node: str, now: float) -> _Client:
        """The client, made if new, freed of what is over and moved behind all others."""
        client = self._clients.pop(uid, None)
        if client is None:
            shared = self._nodes.setdefault(node, {}) if self._by_node and node else None
            client = _Client(uid, node, shared)
        else:
            self._held -= client.expire(now)
        # One step of sweeping for every answer: the client longest without one.
        oldest = next(iter(self._clients.values()), None)
        if oldest is not None:
            self._held -= oldest.expire(now)
            if not oldest.held:
                del self._clients[oldest.uid]
            elif len(self._clients) >= self._max_clients:
                self.evicted += sum(oldest.sizes)
                self.forget(oldest.uid)
        self._clients[uid] = client
        return client

    def _put(
        self, client: _Client, name: str, address: int, expires: float, source: int | None
    ) -> bool:
        held = client.held.get(address, {}).get(name)
        if held is None:
            held = _Held(name, address, _satisfied(self._trie, name))
            if not held.patterns and self._quotas[False] < 1:
                return False
            self._make_room(client, spare=1, kinds=(bool(held.patterns),))
            self._held += 1
        elif expires <= held.expires:
            return True
        self._order += 1
        client.add(held, expires, self._order, source)
        if held.patterns:
            self.version += 1
        return True

    def _make_room(
        self, client: _Client, *, spare: int, kinds: tuple[bool, ...] = (False, True)
    ) -> None:
        """Evict until ``spare`` entries of each kind fit into the client's quota."""
        for wanted in kinds:
            quota = self._quotas[wanted]
            if self._held >= self._max_addresses:
                quota = min(quota, max(1, self._max_addresses // len(self._clients)))
            while client.sizes[wanted] + spare > quota and client.evict(wanted):
                self._held -= 1
                self.evicted += 1
                self.version += wanted
