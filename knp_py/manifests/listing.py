"""What adapters hand over to whoever follows files: which there are, and how they were seen."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

EMPTY = "is empty, expected YAML or JSON; did the command that wrote it fail?"


class Stamp(NamedTuple):
    """A file as it was seen: another stamp, another content. ``written_ns`` is its mtime."""

    device: int
    inode: int
    size: int
    written_ns: int


class Listing(NamedTuple):
    """The manifest files there are, in the order in which they are read.

    ``named`` are the paths among them that were asked for by themselves. ``unseen`` has a
    line for each path that could not be looked at; nobody knows what is below it now.
    ``barren`` has one for each directory without manifests. ``unfinished`` are the files that
    somebody is writing at this moment.
    """

    files: Mapping[str, Stamp]
    named: AbstractSet[str] = frozenset()
    unseen: Mapping[str, str] = {}
    barren: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unfinished: AbstractSet[str] = frozenset()


def printable(path: str) -> str:
    """A path fit for one line of output, whatever is in its name."""
    return path if path.isprintable() else repr(path)
