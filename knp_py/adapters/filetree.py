"""Which files are manifests: one rule for whoever reads them once and whoever follows them."""

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from knp_py.manifests.listing import printable

SUFFIXES = (".yaml", ".yml", ".json")
FileId = tuple[int, int]  # device and inode


class Found(NamedTuple):
    """A file: its path as it is reached, and what ``os.stat`` says of it."""

    path: str
    status: os.stat_result

    @property
    def file_id(self) -> FileId:
        """Equal for all paths that lead to the file."""
        return (self.status.st_dev, self.status.st_ino)


class Search:
    """Looks for manifest files and notes what it meets; ``hint`` ends lines about bad paths.

    ``unseen`` has a line for each path that cannot be looked at, ``barren`` one for each given
    directory without manifests; ``special`` are paths in directories that are called like
    manifests and are pipes, sockets or devices. ``reached_again`` says that links lead to a
    directory by more than one way; the first one counts.
    """

    def __init__(self, hint: str) -> None:
        self.unseen: dict[str, str] = {}
        self.barren: list[str] = []
        self.special: list[str] = []
        self.reached_again = False
        self._hint = hint

    def files(self, path: str) -> list[Found]:
        """The file itself, whatever it is, or the manifests of the directory."""
        try:
            status = os.stat(path)
        except (OSError, ValueError) as error:
            self.unseen[path] = f"{printable(path)}: {reason(error)}; {self._hint}"
            return []
        top = Found(path, status)
        if not stat.S_ISDIR(status.st_mode):
            return [top]
        before = len(self.unseen)
        files = list(self._walk(path, {top.file_id}))
        if not files and len(self.unseen) == before:
            kinds = ", ".join(f"*{suffix}" for suffix in SUFFIXES)
            self.barren.append(f"{printable(path)}: no {kinds} file in it; {self._hint}")
        return files

    def _walk(self, top: str, entered: set[FileId]) -> Iterator[Found]:
        """Manifest files below a directory, sorted; links are followed, no directory twice."""
        try:
            with os.scandir(top) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self.unseen[top] = f"{printable(top)}: {reason(error)}"
            return
        for entry in found:
            # Dot files are tools' own; a mounted ConfigMap keeps its real files in one.
            if entry.name.startswith("."):
                continue
            wanted = entry.name.endswith(SUFFIXES)
            try:
                file = Found(entry.path, entry.stat())
            except OSError as error:
                if wanted:
                    self.unseen[entry.path] = f"{printable(entry.path)}: {reason(error)}"
                continue
            mode = file.status.st_mode
            if stat.S_ISDIR(mode):
                if file.file_id in entered:
                    self.reached_again = True
                    continue
                entered.add(file.file_id)
                yield from self._walk(entry.path, entered)
            elif wanted and stat.S_ISREG(mode):
                yield file
            elif wanted:
                self.special.append(entry.path)


def reason(error: OSError | ValueError) -> str:
    """Why a file cannot be read, as the end of a line."""
    if isinstance(error, FileNotFoundError):
        return "no such file or directory"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror.lower()}"
    return "cannot be read"
