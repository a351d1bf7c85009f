"""Manifest files for whoever follows them: which there are, what is in them, never blocking."""

import os
import stat
from collections.abc import Iterable, Iterator

from knp_py.adapters.documents import STANDARD_INPUT, decode_documents
from knp_py.adapters.filetree import FileId, Search, reason
from knp_py.adapters.watch import Watcher
from knp_py.errors import InputError
from knp_py.manifests.document import Document
from knp_py.manifests.listing import Listing, Stamp, printable

LARGEST = 1 << 29  # bytes; 100,000 pods as kubectl prints them


class ManifestFiles:
    """The files below ``paths``, by the rules of ``documents.load_manifests``.

    What a ``watcher`` knows to be as it was is not looked at again. ``option`` is what the
    paths were given by.
    """

    def __init__(
        self, paths: Iterable[str], watcher: Watcher | None = None, option: str = "--manifests"
    ) -> None:
        self._hint = f"give {option} files or directories"
        self._paths = tuple(paths)
        self._watcher = watcher
        self._files: dict[str, Stamp] | None = None  # None: look at everything
        self._rest = Listing({})

    def look(self) -> Listing:
        """The files there are now; every one is looked at when the watcher saw nothing."""
        paths: frozenset[str] | None = None
        unfinished: frozenset[FileId] = frozenset()
        if self._watcher is not None:
            paths, unfinished = self._watcher.take()
        files = self._files
        if files is None or not paths or not all(self._renew(files, path) for path in paths):
            files = self._look_at_all()
        return self._rest._replace(
            files=files,
            unfinished={
                path
                for path, stamp in (files.items() if unfinished else ())
                if (stamp.device, stamp.inode) in unfinished
            },
        )

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None when it changes meanwhile. Raises ``InputError``."""
        try:
            # Something else may have taken its place, and a pipe would let us wait for ever.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            with open(descriptor, "rb") as stream:
                before = os.fstat(descriptor)
                if not stat.S_ISREG(before.st_mode):
                    raise InputError(f"{printable(path)}: is no regular file")
                if before.st_size > LARGEST:
                    raise InputError(
                        f"{printable(path)}: has {before.st_size:,} bytes, at most {LARGEST:,} are"
                        " read"
                    )
                data = stream.read(LARGEST)
                after = os.fstat(descriptor)
        except FileNotFoundError:
            return None  # it was there a moment ago
        except OSError as error:
            raise InputError(f"{printable(path)}: {reason(error)}") from None
        whole = len(data) == after.st_size and _stamp(before) == _stamp(after)
        return data if whole else None

    def decode(self, path: str, data: bytes) -> Iterator[Document]:
        """The documents in the bytes of a file. Raises ``InputError``."""
        return decode_documents(printable(path), data)

    def _look_at_all(self) -> dict[str, Stamp]:
        search = Search(self._hint)
        files: dict[str, Stamp] = {}
        named: set[str] = set()
        seen: set[FileId] = set()
        others = 0  # further paths of files that are there already
        for path in self._paths:
            if path == STANDARD_INPUT:
                search.unseen[path] = f"standard input cannot be followed; {self._hint}"
                continue
            for found in search.files(path):
                if found.file_id in seen:
                    others += 1
                    continue
                seen.add(found.file_id)
                if found.path == path:
                    if not stat.S_ISREG(found.status.st_mode):
                        search.unseen[path] = (
                            f"{printable(path)}: is no regular file; {self._hint}"
                        )
                        continue
                    named.add(path)
                files[found.path] = _stamp(found.status)
        special = (f"{printable(p)}: is no regular file and is not read" for p in search.special)
        self._rest = Listing(files, named, search.unseen, tuple(search.barren), tuple(special))
        # One path at a time can be looked at again only where each file has one path.
        unclear = others or search.reached_again or search.unseen
        self._files = None if unclear else files
        return files

    def _renew(self, files: dict[str, Stamp], path: str) -> bool:
        """Look at one file of a directory again; False when that is not enough."""
        if path in self._rest.named or self._rest.barren:
            return False
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            files.pop(path, None)
            tops = (os.path.join(top, "") for top in self._paths)
            # The last one leaves a directory of which there is something to say.
            return all(
                any(file.startswith(top) for file in files) for top in tops if path.startswith(top)
            )
        except OSError:
            return False
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            return False
        files[path] = _stamp(status)
        return True


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
