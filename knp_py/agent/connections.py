"""Connections that a learned name opened: which grants, for judging them again (strict mode).

A name's end does not cut what it opened (semantics §5), so the grants outlive the names here:
by the connection's own tuple, the longest unused going first when there are too many.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

from knp_py.model.decision import NameGrant

Tuple = tuple[int, int, int, int, int]
"""Source and destination address, protocol, source and destination port."""

MOST = 65_536


class NamedConnections:
    """A bounded map from tuple to grants.

    ``on_put`` is called for every connection put in, and without grants for one forgotten, not
    for what ``restore`` takes back.
    """

    def __init__(
        self,
        most: int = MOST,
        *,
        on_put: Callable[[Tuple, tuple[NameGrant, ...]], object] | None = None,
    ) -> None:
        self._most = most
        self.on_put = on_put
        self._grants: OrderedDict[Tuple, tuple[str, tuple[NameGrant, ...]]] = OrderedDict()

    def __len__(self) -> int:
        """How many connections are known."""
        return len(self._grants)

    def put(self, connection: Tuple, grants: tuple[NameGrant, ...], owner: str = "") -> None:
        """This connection of the pod with the UID ``owner`` was accepted by these."""
        self._keep(connection, grants, owner)
        if self.on_put is not None:
            self.on_put(connection, grants)

    def forget(self, connection: Tuple) -> None:
        """This tuple is another connection now, that no name opened."""
        if self._grants.pop(connection, None) and self.on_put is not None:
            self.on_put(connection, ())

    def get(self, connection: Tuple, owner: str = "") -> tuple[NameGrant, ...]:
        """The grants that opened it; none when no name did or it is not known any more.

        Nor when it was another pod's: addresses are given again, and ports with them. Whose it
        was is not known of what ``restore`` took back.
        """
        whose, grants = self._grants.get(connection, ("", ()))
        if whose and owner and whose != owner:
            return ()
        if grants:
            self._grants.move_to_end(connection)
        return grants

    def dump(self) -> Iterator[tuple[Tuple, tuple[NameGrant, ...]]]:
        """Everything, longest unused first."""
        return iter([(connection, grants) for connection, (_, grants) in self._grants.items()])

    def restore(self, entries: Iterable[tuple[Tuple, tuple[NameGrant, ...]]]) -> None:
        """Take back what ``dump`` gave."""
        for connection, grants in entries:
            if grants:
                self._keep(connection, grants, "")
            else:
                self._grants.pop(connection, None)

    def _keep(self, connection: Tuple, grants: tuple[NameGrant, ...], owner: str) -> None:
        self._grants[connection] = owner, grants
        self._grants.move_to_end(connection)
        if len(self._grants) > self._most:
            self._grants.popitem(last=False)
