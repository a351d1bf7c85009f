"""Manifests from files, directories and standard input to decoded documents.

The only place that opens manifest files. What cannot be read becomes one line a file;
what is read goes to ``knp_py.manifests.load``.
"""

import codecs
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec

from knp_py.adapters.filetree import FileId, Search, reason
from knp_py.errors import InputError, ManifestError
from knp_py.manifests.document import Document
from knp_py.manifests.listing import EMPTY, printable
from knp_py.manifests.load import LoadResult, load
from knp_py.model.objects import Origin

STANDARD_INPUT = "-"
# Files that tools keep beside manifests; being no Kubernetes object is no error there.
_OPTIONAL = re.compile(r"(?i)(?:kustomization|chart|values[^/]*)\.ya?ml").fullmatch
_CHUNK = 1 << 24  # bytes checked to be UTF-8 at a time
# The next step where a path has nothing to read.
PATHS = "a file, a directory or - for standard input"
NEXT = f"give --manifests {PATHS}"
_FOREIGN = (
    (
        b"\x1f\x8b",
        "is gzip, not text: unpack it first, as in gunzip -c FILE | knp …, and read -",
    ),
    (b"\xd4\xc3\xb2\xa1", "is a packet capture, not manifests"),
    (b"\xa1\xb2\xc3\xd4", "is a packet capture, not manifests"),
    (b"\x4d\x3c\xb2\xa1", "is a packet capture, not manifests"),
    (b"\xa1\xb2\x3c\x4d", "is a packet capture, not manifests"),
    (b"\x0a\x0d\x0d\x0a", "is a packet capture, not manifests"),
)
_MARKS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_trailing = re.compile(r"trailing characters \(byte ([0-9]+)\)").search
_at_byte = re.compile(r"(?:JSON is malformed: )?(.*?) \(byte ([0-9]+)\)$").fullmatch
_spaces = re.compile(rb"[ \t\r\n]*").match
_RAW = msgspec.json.Decoder(msgspec.Raw)


def load_manifests(
    paths: Iterable[str], *, stdin: BinaryIO | None = None, hint: str = NEXT
) -> LoadResult:
    """All objects of the paths. Raises ``ManifestError`` with every problem found.

    ``hint`` ends messages about paths with nothing to read: what to give, and by which option.
    """
    problems: list[str] = []
    result = load(iter_documents(paths, problems, stdin=stdin, hint=hint))
    problems.extend(str(problem) for problem in result.problems)
    if problems:
        raise ManifestError(problems)
    return result


def read_documents(
    paths: Iterable[str], *, stdin: BinaryIO | None = None, hint: str = NEXT
) -> list[Document]:
    """All documents of the paths. Raises ``ManifestError`` with every file that fails.

    ``hint`` as for ``load_manifests``.
    """
    problems: list[str] = []
    documents = list(iter_documents(paths, problems, stdin=stdin, hint=hint))
    if problems:
        raise ManifestError(problems)
    return documents


def iter_documents(
    paths: Iterable[str],
    problems: list[str],
    *,
    stdin: BinaryIO | None = None,
    hint: str = NEXT,
) -> Iterator[Document]:
    """Documents one by one, in the paths' order and sorted within a directory.

    Each file that cannot be read (on) adds one line to ``problems``; what was read of it
    before, and the other files, still come. ``hint`` as for ``load_manifests``.
    """
    for source, data in _read_all(paths, problems, stdin, hint):
        try:
            yield from decode_documents(source, data)
        except InputError as error:
            problems.append(str(error))


def decode_documents(source: str, data: bytes) -> Iterator[Document]:
    """The documents in the bytes of one file. Raises ``InputError``, one line."""
    text = _utf8(source, data)
    start = _skip_space(text, 0)
    first = text[start : start + 1]
    if source.endswith(".json"):
        yield from _json(source, text)
    elif first in {b"{", b"["}:
        try:
            # All or nothing: YAML may begin with a brace as well.
            documents = list(_json(source, text))
        except _JsonError:
            yield from _yaml(source, text)
        else:
            yield from documents
    else:
        yield from _yaml(source, text)


class _JsonError(InputError):
    """Not JSON; perhaps it is YAML."""


def _json(source: str, text: bytes) -> Iterator[Document]:
    """JSON documents, one after another with or without line ends between them."""
    parts: list[tuple[int, int]] = []
    position, view = 0, memoryview(text)
    while True:
        position = _skip_space(text, position)
        if position == len(text):
            break
        try:
            _RAW.decode(view[position:])
            end = len(text)
        except msgspec.DecodeError as error:
            trailing = _trailing(str(error))
            if trailing is None:
                raise _JsonError(_json_problem(source, text, position, str(error))) from None
            end = position + int(trailing[1]) - 1  # the byte named is counted from 1
        except RecursionError:
            raise _JsonError(f"{source}: nested too deeply") from None
        parts.append((position, end))
        position = end
    for number, (start, end) in enumerate(parts, 1):
        raw = text[start:end]  # no copy where it is all of the text
        yield Document(Origin(source, number if len(parts) > 1 else 0), raw=raw)


def _skip_space(text: bytes, position: int) -> int:
    found = _spaces(text, position)
    return position if found is None else found.end()


def _json_problem(source: str, text: bytes, start: int, message: str) -> str:
    found = _at_byte(message)
    what, offset = (found[1], start + int(found[2])) if found else (message, len(text))
    line = text.count(b"\n", 0, offset) + 1
    column = offset - text.rfind(b"\n", 0, offset)
    return f"{source}:{line}:{column}: {what}"


def _yaml(source: str, text: bytes) -> Iterator[Document]:
    # Most input is JSON from kubectl or a few small files; yaml takes 20 ms to import.
    from knp_py.adapters.yamltext import YamlError, yaml_documents  # noqa: PLC0415

    optional = _OPTIONAL(os.path.basename(source)) is not None
    try:
        for document in yaml_documents(text):
            if document.value is not None:
                origin = Origin(source, 0 if document.alone else document.number)
                scenario = isinstance(document.value, dict) and "steps" in document.value
                yield Document(origin, value=document.value, optional=optional or scenario)
    except YamlError as error:
        where = f"{source}:{error.line}:{error.column}" if error.line else source
        hint = "; is it a Helm template? render it first: helm template" if b"{{" in text else ""
        raise InputError(f"{where}: {printable(str(error))}{hint}") from None


def _utf8(source: str, data: bytes) -> bytes:
    """The bytes as UTF-8 without a byte order mark, or an ``InputError``."""
    for magic, what in _FOREIGN:
        if data.startswith(magic):
            raise InputError(f"{source}: {what}")
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                data = data.decode(encoding).encode()
            except UnicodeError:
                raise InputError(f"{source}: begins as {encoding} but is none") from None
    data = data.removeprefix(b"\xef\xbb\xbf")
    nul = data.find(b"\0")
    if nul >= 0:
        raise InputError(f"{source}: is no text, byte {nul} is NUL; expected YAML or JSON")
    position, view = 0, memoryview(data)
    while position < len(data):
        chunk = view[position : position + _CHUNK]
        try:
            position += codecs.utf_8_decode(chunk, "strict", position + len(chunk) == len(data))[1]
        except UnicodeDecodeError as error:
            offset = position + error.start
            line = data.count(b"\n", 0, offset) + 1
            raise InputError(
                f"{source}:{line}: byte 0x{data[offset]:02x} is no UTF-8; "
                "expected YAML or JSON text"
            ) from None
    return data


def _read_all(
    paths: Iterable[str], problems: list[str], stdin: BinaryIO | None, hint: str
) -> Iterator[tuple[str, bytes]]:
    """(source, bytes) of every file once, also when links or several paths lead to it."""
    seen: set[FileId] = set()
    stdin_read = False
    for path in paths:
        if path == STANDARD_INPUT:
            if not stdin_read:
                stdin_read = True
                try:
                    data = (sys.stdin.buffer if stdin is None else stdin).read()
                except OSError as error:
                    problems.append(f"standard input: {reason(error)}")
                    continue
                if data.strip():
                    yield path, data
                else:
                    problems.append(f"standard input: {EMPTY}")
            continue
        search = Search(hint)
        files = search.files(path)
        problems += (*search.unseen.values(), *search.barren)
        for file in files:
            if file.file_id in seen:
                continue
            seen.add(file.file_id)
            try:
                with open(file.path, "rb") as stream:
                    data = stream.read()
            except OSError as error:
                problems.append(f"{printable(file.path)}: {reason(error)}")
                continue
            # In a directory an empty file is nobody's business; asked for by name, it is
            # what `kubectl get ... > file` leaves behind when it fails.
            if file.path == path and not data.strip():
                problems.append(f"{printable(path)}: {EMPTY}")
                continue
            yield printable(file.path), data
