"""Manifests that are followed: files that change in, changes of objects out.

Only what changed is read again, and nothing is taken half-done:

- A file that cannot be read or understood any more keeps its last good version, loudly, and so
  does everything below a path that cannot be looked at. So does a file that was cut down to
  nothing: whoever means that deletes it. A file that is deleted takes its objects along.
- A given directory in which no manifest is left at all keeps its last good objects, loudly: a
  volume that fell off and a checkout that is being made anew look like that, and an agent that
  believed them would open everything. Whoever means it leaves a file there with a comment.
- A file that somebody is writing is left for later, as far as the reader can tell. It cannot
  always: the beginning of a list in YAML is a shorter list in YAML. Who writes files for us
  should write another name and rename it.
- An object that stands in two files and differs there is in force as it was, until one of them
  gives way: the file that brought it in second keeps its last good version.

What follows from several files (a sandbox's pod from its template) is what the offline loader
makes of the good versions, always.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from knp_py.errors import InputError, ManifestError
from knp_py.manifests.document import Document
from knp_py.manifests.listing import EMPTY, Listing, Stamp, printable
from knp_py.manifests.load import Assembly, LoadResult, merge
from knp_py.manifests.reading import Part, PartReader
from knp_py.model.changes import Change, ClusterObject, Key, changes_between

# A file can change twice within one tick of the clock that stamps it, unseen. A stamp younger
# than this is not trusted; ticks are 1 to 10 ms.
_YOUNG_NS = 50_000_000
_EMPTIED = (
    "no manifest is left in it; to take its objects out of force delete them while a file stays"
    " there, if only one with a comment in it, or stop the agent and run knp agent cleanup"
)


class Reader(Protocol):
    """Where the files are."""

    def look(self) -> Listing:
        """The files there are now. Need not look at what it knows to be as it was."""
        ...

    def read(self, path: str) -> bytes | None:
        """The bytes of one file; None when it changes meanwhile. Raises ``InputError``."""
        ...

    def decode(self, path: str, data: bytes) -> Iterable[Document]:
        """The documents in such bytes. Raises ``InputError`` where they go wrong."""
        ...


class Batch(NamedTuple):
    """What one scan found. ``changes`` lead from the objects before to those now.

    ``problems`` and ``warnings`` are lines, all that hold now, whether they were said before
    or not. What was written before ``scan_started_ns`` (the clock's) is taken into account.
    ``objects`` counts what is in force, by kind.
    """

    changes: list[Change]
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    scan_started_ns: int
    objects: Counter[str]


class _File:
    """What is known of one file.

    ``stamp`` is None until it was read, and again when it must be read anew; ``content`` is
    the hash of what was read. ``newest`` is None when that was not understood; ``problems``
    says why. ``good`` is what is in force.
    """

    __slots__ = ("content", "good", "newest", "problems", "stamp")

    def __init__(self) -> None:
        self.stamp: Stamp | None = None
        self.content: int | None = None
        self.newest: Part | None = None
        self.good: Part | None = None
        self.problems: tuple[str, ...] = ()

    @property
    def candidate(self) -> Part | None:
        """What should be in force."""
        return self.good if self.newest is None else self.newest


class ManifestSource:
    """Follows the files of a reader. ``clock`` gives the time in ns, as files are stamped."""

    def __init__(self, reader: Reader, clock: Callable[[], int]) -> None:
        self._reader = reader
        self._clock = clock
        self._files: dict[str, _File] = {}
        self._assembly = Assembly()
        self._objects: dict[Key, ClusterObject] = {}
        self._begun = False

    def scan(self) -> Batch:
        """Read what has changed.

        The first one raises ``ManifestError`` with every problem there is, and the next one is
        a first one again.
        """
        started = self._clock()
        listing = self._reader.look()
        files, emptied = self._files_of(listing)
        self._read_changed(files, listing, started)
        result, clashes = self._choose(files)
        problems = [*listing.unseen.values(), *emptied.values()]
        for file in files.values():
            problems += file.problems
        problems += clashes
        warnings = [*listing.warnings, *map(str, result.warnings)]
        if not self._begun:
            problems += listing.barren
            if problems:
                raise ManifestError(problems)
            self._begun = True
        else:
            warnings += (line for line in listing.barren if line not in emptied)
        self._files = files
        changes = changes_between(self._objects, result.by_key)
        self._objects = result.by_key
        objects = Counter(kind for kind, _, _ in result.by_key)
        return Batch(changes, tuple(problems), tuple(warnings), started, objects)

    def _files_of(self, listing: Listing) -> tuple[dict[str, _File], dict[str, str]]:
        """The files to go on with, and what there is to say of directories that were emptied.

        That is the files there are, those that may still be there, and those of an emptied
        directory; what the listing says of it leads to what is said instead.
        """
        known = self._files
        emptied: dict[str, str] = {}
        if listing.files.keys() == known.keys():
            return known, emptied
        files = {path: known.get(path) or _File() for path in listing.files}
        hidden = tuple(f"{path.rstrip('/')}/" for path in listing.unseen)
        for path, file in known.items():
            if path in listing.unseen or path.startswith(hidden):
                files.setdefault(path, file)
            if path in files or file.good is None or not file.good.things:
                continue
            for line in listing.barren:
                directory = _directory_of(path, line)
                if directory is not None:
                    files[path] = file
                    emptied[line] = f"{printable(directory)}: {_EMPTIED}"
        return files, emptied

    def _read_changed(self, files: dict[str, _File], listing: Listing, started: int) -> None:
        parts = PartReader()  # a new one each time: it would keep what nobody has any more
        unfinished = listing.unfinished if self._begun else ()
        for path, stamp in listing.files.items():
            file = files[path]
            if file.stamp == stamp or path in unfinished:
                continue
            try:
                data = self._reader.read(path)
            except InputError as error:
                file.stamp = file.content = file.newest = None
                file.problems = (str(error),)
                continue
            if data is None:
                file.stamp = None
                if not self._begun:
                    file.problems = (f"{printable(path)}: changes while it is read; try again",)
                continue
            young = abs(started - stamp.written_ns) < _YOUNG_NS
            file.stamp = None if young else stamp
            content = hash(data)
            if file.content != content:
                file.content = content
                self._understand(file, path, data, parts, named=path in listing.named)

    def _understand(
        self, file: _File, path: str, data: bytes, parts: PartReader, *, named: bool
    ) -> None:
        lines: list[str] = []
        # In a directory, an empty file that was never more is nobody's business.
        expected = named or (file.good is not None and file.good.things)
        if expected and (not data or data.isspace()):
            lines.append(f"{printable(path)}: {EMPTY}")
        documents: list[Document] = []
        try:
            documents.extend(self._reader.decode(path, data))
        except InputError as error:
            lines.append(str(error))
        part = parts.read(documents)
        lines += map(str, part.problems)
        lines += (str(repeat.line) for repeat in merge([part])[1] if repeat.differs)
        file.newest = None if lines else part
        file.problems = tuple(lines)

    def _choose(self, files: dict[str, _File]) -> tuple[LoadResult, list[str]]:
        """The newest good versions that go together, put in force, and lines about the others."""
        parts = {
            path: file.candidate for path, file in files.items() if file.candidate is not None
        }
        lines: list[str] = []
        while True:
            result = self._assembly.assemble(list(parts.values()))
            if not result.problems:
                break
            # Each by itself is good: what is left is what stands in two of them.
            lines += self._hold_back(files, parts)
        for path, file in files.items():
            file.good = parts.get(path)
        return result, lines

    def _hold_back(self, files: dict[str, _File], parts: dict[str, Part]) -> list[str]:
        """Let files that bring in what another one has keep their last good version.

        What was in force together before goes together now, so this comes to an end.
        """
        paths = list(parts)
        lines: list[str] = []
        held: set[str] = set()
        for repeat in merge(list(parts.values()))[1]:
            one, two = paths[repeat.first], paths[repeat.again]
            if not repeat.differs or one in held or two in held:
                continue
            key = repeat.later.key
            brings = {path: _brings(files[path], parts[path], key) for path in (two, one)}
            path = max(brings, key=lambda path: brings[path])  # of equals the later one
            held.add(path)
            lines.append(str((repeat if path == two else repeat.turned).line))
        for path in held:
            good = files[path].good
            if good is None:
                del parts[path]
            else:
                parts[path] = good
        return lines


def _directory_of(path: str, line: str) -> str | None:
    """The directory that ``line``, one of ``Listing.barren``, is about; None if not above."""
    for at, letter in enumerate(path):
        if letter == "/":
            for above in (path[:at], path[: at + 1]):  # as it was given
                if above and line.startswith(f"{printable(above)}: "):
                    return above
    return None


def _brings(file: _File, part: Part, key: Key) -> int:
    """0 when the part is in force already, 1 when it changes the object, 2 when it adds it."""
    if part is file.good:
        return 0
    return 1 if file.good is not None and key in file.good.things else 2
