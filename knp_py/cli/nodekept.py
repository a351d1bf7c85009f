"""What an agent knows from the one before it, and writes down for the one after it."""

from collections.abc import Callable
from itertools import chain

from knp_py.adapters.clocks import BootClock
from knp_py.adapters.namefile import NameFile, boot_id
from knp_py.adapters.ownerfile import OwnerFile
from knp_py.cli.nodeparts import Parts
from knp_py.cli.nodewords import say
from knp_py.engine.names import SavedName
from knp_py.errors import NotPermittedError

_NOT_KEPT = "warning: learned names will not survive a restart: "


class Kept:
    """Learned names with what they opened, and whose the node's addresses are.

    Nothing is kept where there is no ``state_dir``; that something cannot be is no reason not to
    enforce. ``forget`` ends the connections of addresses. ``names`` is None without their file.
    """

    def __init__(
        self,
        state_dir: str,
        table: str,
        clock: BootClock,
        forget: Callable[[frozenset[int]], object],
    ) -> None:
        self.names: NameFile | None = None
        self._clock = clock
        self._forget = forget
        self._owners: OwnerFile | None = None
        self._inherited = True  # connections of pods that went while nobody was here
        if not state_dir:
            return
        self._owners = OwnerFile(state_dir, f"{table}.owners")
        try:
            self.names = NameFile(state_dir, f"{table}.names", boot=boot_id())
        except NotPermittedError as error:
            say(f"{_NOT_KEPT}{error}")

    def restore(self, parts: Parts) -> None:
        """Have what pods had learned before the agent went away, and keep what they learn."""
        if self.names is None:
            return
        now = self._clock.now()
        found = self.names.load(now)
        if found.remark:
            say(found.remark)
        parts.names.restore(found.names, now)
        opened = parts.connections
        if opened is not None:
            opened.restore(found.connections)
        try:
            self.names.begin(
                lambda at: chain(parts.names.saved(at), () if opened is None else opened.dump()),
                now,
            )
        except NotPermittedError as error:
            say(f"{_NOT_KEPT}{error}")

    def learned(self, saved: SavedName) -> None:
        """A pod has learned it. It is kept once ``commit`` is back."""
        if self.names is not None:
            self.names.add(saved)

    def commit(self) -> None:
        """Write what was learned."""
        if self.names is not None:
            self.names.commit(self._clock.now())

    def note_owners(self, owners: dict[int, str]) -> None:
        """Note whose this node's addresses are, once everything is known.

        At first, what those had who are not there any more ends: whoever has an address now, or
        next, inherits nothing (semantics §1).
        """
        if self._owners is None:
            return
        if self._inherited:
            self._inherited = False
            before = self._owners.read().items()
            gone = frozenset(address for address, uid in before if owners.get(address) != uid)
            if gone:
                self._forget(gone)
        self._owners.write(owners)

    def close(self) -> None:
        """The agent ends."""
        if self.names is not None:
            self.names.close(self._clock.now())
