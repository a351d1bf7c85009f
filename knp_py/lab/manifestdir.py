"""The lab's objects as files, one each, for the agent to watch.

A file appears, changes and goes as a whole: it is written beside and renamed into place.
"""

import os
import re
import time
from collections.abc import Mapping
from hashlib import sha1

import msgspec

from knp_py.manifests.document import Document
from knp_py.model.changes import Key

_ODD = re.compile(r"[^A-Za-z0-9.-]")
_LONGEST = 200  # a file's name has 255 bytes at most; this leaves room for a hash


def file_of(key: Key) -> str:
    """The file's name for an object: ``Pod.shop.web.json``."""
    name = ".".join(filter(None, key))
    plain = _ODD.sub("_", name)[:_LONGEST]
    if plain != name:
        plain += f"-{sha1(name.encode(), usedforsecurity=False).hexdigest()[:12]}"
    return f"{plain}.json"


class ManifestDir:
    """A directory of manifests; ``beside`` is one on the same file system to write in."""

    def __init__(self, path: str, beside: str) -> None:
        self._path = path
        self._beside = beside

    def put(self, documents: Mapping[Key, Document]) -> int | None:
        """Have exactly these there; wall clock ns by when all of it was done.

        None when all of it was there already. Whoever watches is woken once more after that
        moment: what woke them before may have come when half of it was done.
        """
        wanted = {
            file_of(key): msgspec.json.encode(document.value)
            for key, document in documents.items()
            if not document.optional or "apiVersion" in _fields(document)
        }
        changed = False
        for name, data in wanted.items():
            path = os.path.join(self._path, name)
            if _content(path) != data:
                write_whole(path, data, self._beside)
                changed = True
        for name in sorted(set(os.listdir(self._path)) - wanted.keys()):
            os.unlink(os.path.join(self._path, name))
            changed = True
        if not changed:
            return None
        done = time.time_ns()
        for name, data in wanted.items():
            write_whole(os.path.join(self._path, name), data, self._beside)
            break
        return done


def write_whole(path: str, data: bytes, beside: str) -> None:
    """Write a file so that nobody ever sees half of it."""
    temporary = os.path.join(beside, f".{os.path.basename(path)}")
    with open(temporary, "wb") as file:
        file.write(data)
    os.rename(temporary, path)


def _fields(document: Document) -> Mapping[str, object]:
    return document.value if isinstance(document.value, dict) else {}


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
