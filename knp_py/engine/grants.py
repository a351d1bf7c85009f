"""What one client learned by name, in the order in which it goes.

Only ``engine.names`` uses this; it decides about quotas, this about structure.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from knp_py.engine.patterns import PatternTrie
from knp_py.model.decision import NameGrant


class Held:
    """An address that a client learned for a name. ``order`` is -1 while it is not held."""

    __slots__ = ("address", "expires", "name", "order", "patterns", "source")

    def __init__(self, name: str, address: int, patterns: tuple[str, ...]) -> None:
        self.name = name
        self.address = address
        self.patterns = patterns
        self.expires = float("-inf")
        self.order = -1
        self.source: int | None = None


_Queue = list[tuple[float, int, Held]]


class ClientNames:
    """The names of one client: everything held, and the grants that follow from it.

    ``grants[address]`` holds one grant a pattern: that of the latest (expires, order) among
    the held entries that satisfy it. Removal, by expiry or for want of room, goes in
    ascending order of that pair and a newcomer is only put in afterwards, so the grant that
    stands for a pattern is always the last of its kind to go and no other has to be
    searched for in its place.

    ``sizes`` count the entries [that no pattern wants, that one does]; each kind has its
    own heap of (expires, order, held). An extended entry leaves a stale item behind, which
    is skipped when it surfaces and swept out when such items outnumber the others.

    ``shared`` is the index of all clients of a node (scope node), address → uid → client
    with a grant for it; None when nothing is shared.
    """

    __slots__ = ("_held", "_queues", "grants", "node", "shared", "sizes", "uid")

    def __init__(
        self, uid: str, node: str, shared: dict[int, dict[str, "ClientNames"]] | None
    ) -> None:
        self.uid = uid
        self.node = node
        self.shared = shared
        self.grants: dict[int, tuple[NameGrant, ...]] = {}
        self.sizes = [0, 0]
        # Most addresses have one name, which then needs no dictionary of its own.
        self._held: dict[int, Held | dict[str, Held]] = {}
        self._queues: tuple[_Queue, _Queue] = ([], [])

    def __iter__(self) -> Iterator[Held]:
        """Everything held, in no useful order."""
        for cell in self._held.values():
            if isinstance(cell, Held):
                yield cell
            else:
                yield from cell.values()

    def at(self, address: int) -> tuple[Held, ...]:
        """Everything held for an address."""
        cell = self._held.get(address)
        if cell is None:
            return ()
        return (cell,) if isinstance(cell, Held) else tuple(cell.values())

    def find(self, name: str, address: int) -> Held | None:
        """The entry for this name and address."""
        cell = self._held.get(address)
        if isinstance(cell, Held):
            return cell if cell.name == name else None
        return None if cell is None else cell.get(name)

    def put(self, held: Held, expires: float, order: int, source: int | None) -> None:
        """Put in a new entry, or one that lives longer from now on.

        ``order`` must be larger than any before it, so that no two entries are equal.
        """
        wanted = bool(held.patterns)
        if held.order < 0:
            cell = self._held.get(held.address)
            if cell is None:
                self._held[held.address] = held
            elif isinstance(cell, Held):
                self._held[held.address] = {cell.name: cell, held.name: held}
            else:
                cell[held.name] = held
            self.sizes[wanted] += 1
        held.expires = expires
        held.order = order
        held.source = source
        queue = self._queues[wanted]
        if len(queue) > 2 * self.sizes[wanted] + 64:
            queue[:] = [item for item in queue if item[2].order == item[1]]
            heapify(queue)
        heappush(queue, (expires, order, held))
        self._show(held)

    def expire(self, now: float) -> int:
        """Remove all that is over at ``now``; how many. An entry costs this once in its life."""
        gone = 0
        for queue in self._queues:
            while queue and queue[0][0] <= now:
                _, order, held = heappop(queue)
                if held.order == order:
                    self._drop(held)
                    gone += 1
        return gone

    def evict(self, *, wanted: bool) -> bool:
        """Remove the entry of this kind that expires soonest; False if there is none."""
        queue = self._queues[wanted]
        while queue:
            _, order, held = heappop(queue)
            if held.order == order:
                self._drop(held)
                return True
        return False

    def clear(self) -> None:
        """Forget everything."""
        for address in list(self.grants):
            self._hide(address)
        self._held.clear()
        self._queues = ([], [])
        self.sizes = [0, 0]

    def reindex(self, trie: PatternTrie, matches: dict[str, tuple[str, ...]]) -> None:
        """Find the patterns of everything again; ``matches`` remembers names over clients."""
        entries = sorted(self, key=lambda held: (held.expires, held.order))
        for address in list(self.grants):
            self._hide(address)
        self._queues = ([], [])
        self.sizes = [0, 0]
        for held in entries:
            found = matches.get(held.name)
            if found is None:
                found = matches[held.name] = trie.satisfied(held.name)
            held.patterns = found
            self.sizes[bool(found)] += 1
            # In ascending order, and a sorted list is a heap.
            self._queues[bool(found)].append((held.expires, held.order, held))
            self._show(held)

    def _show(self, held: Held) -> None:
        if not held.patterns:
            return
        shown = self.grants.get(held.address)
        if shown is None:
            shown = ()
            if self.shared is not None:
                self.shared.setdefault(held.address, {})[self.uid] = self
        later = {grant.pattern for grant in shown if grant.expires > held.expires}
        mine = [pattern for pattern in held.patterns if pattern not in later]
        self.grants[held.address] = (
            *(grant for grant in shown if grant.pattern not in mine),
            *(
                NameGrant(pattern, held.name, held.address, held.source, held.expires)
                for pattern in mine
            ),
        )

    def _drop(self, held: Held) -> None:
        cell = self._held[held.address]
        if isinstance(cell, dict) and len(cell) > 1:
            del cell[held.name]
        else:
            del self._held[held.address]
        self.sizes[bool(held.patterns)] -= 1
        held.order = -1
        if not held.patterns:
            return
        left = tuple(grant for grant in self.grants[held.address] if grant.name != held.name)
        if left:
            self.grants[held.address] = left
        else:
            self._hide(held.address)

    def _hide(self, address: int) -> None:
        del self.grants[address]
        if self.shared is not None:
            holders = self.shared[address]
            del holders[self.uid]
            if not holders:
                del self.shared[address]
