"""Files in memory for a source to follow, stamped as coarsely as a kernel stamps them."""

from collections.abc import Iterator

from knp_py.adapters.documents import decode_documents
from knp_py.errors import InputError
from knp_py.manifests.document import Document
from knp_py.manifests.listing import Listing, Stamp, printable

TICK = 4_000_000  # ns
START = 1_800_000_000_000_000_000


class MemoryFiles:
    """A ``Reader`` whose files tests write. ``now`` is the clock, in ns; it stands still.

    ``unreadable`` and ``torn`` are paths that fail to be read, or change meanwhile; ``read_ones``
    and ``decoded`` count what was done.
    """

    def __init__(self, **files: str) -> None:
        self.now = START
        self.contents: dict[str, bytes] = {}
        self.unseen: dict[str, str] = {}
        self.barren: tuple[str, ...] = ()
        self.warnings: tuple[str, ...] = ()
        self.unfinished: set[str] = set()
        self.named: set[str] = set()
        self.unreadable: set[str] = set()
        self.torn: set[str] = set()
        self.read_ones: list[str] = []
        self.decoded: list[str] = []
        self._stamps: dict[str, Stamp] = {}
        self._inodes = 0
        for name, text in files.items():
            self.write(f"{name}.yaml", text)
        self.later()

    def clock(self) -> int:
        return self.now

    def later(self, seconds: float = 1.0) -> None:
        self.now += int(seconds * 1e9)

    def write(self, path: str, data: str | bytes, *, renamed: bool = True) -> None:
        """Put another file in its place, or write into the one that is there."""
        content = data.encode() if isinstance(data, str) else data
        if renamed or path not in self._stamps:
            self._inodes += 1
            inode = self._inodes
        else:
            inode = self._stamps[path].inode
        self.contents[path] = content
        self._stamps[path] = Stamp(1, inode, len(content), self.now // TICK * TICK)

    def delete(self, path: str) -> None:
        del self.contents[path], self._stamps[path]

    def rename(self, path: str, other: str) -> None:
        self.contents[other] = self.contents.pop(path)
        self._stamps[other] = self._stamps.pop(path)

    # -- what a Reader does --------------------------------------------------------------

    def look(self) -> Listing:
        below = tuple(f"{path}/" for path in self.unseen)
        files = {
            path: self._stamps[path]
            for path in sorted(self._stamps)
            if path not in self.unseen and not path.startswith(below)
        }
        return Listing(
            files, self.named, self.unseen, self.barren, self.warnings, frozenset(self.unfinished)
        )

    def read(self, path: str) -> bytes | None:
        self.read_ones.append(path)
        if path in self.unreadable:
            raise InputError(f"{printable(path)}: cannot be read: permission denied")
        return None if path in self.torn else self.contents[path]

    def decode(self, path: str, data: bytes) -> Iterator[Document]:
        self.decoded.append(path)
        return decode_documents(path, data)
