"""Scenario files of ``knp test``: found, read, and the manifests they name read with them."""

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from knp_py.adapters.documents import decode_documents, iter_documents
from knp_py.errors import InputError, reason_of
from knp_py.manifests.document import Document
from knp_py.manifests.problems import Problem, plain
from knp_py.replay.scenario import Scenario
from knp_py.replay.scenario_reader import is_scenario

SUFFIXES = (".yaml", ".yml")
# A file below a directory that has no such line is no scenario, whatever else it is.
_steps = re.compile(rb"^[\"']?steps[\"']?[ \t]*:", re.MULTILINE).search


class Found(NamedTuple):
    """``ignored`` are the YAML files below directories that are no scenarios."""

    documents: list[Document]
    ignored: list[str]


def find_scenarios(paths: Iterable[str], problems: list[str]) -> Found:
    """Every scenario in these files and below these directories, each file once.

    What cannot be read, and a file given by name that is no scenario, adds a line to
    ``problems``.
    """
    found = Found([], [])
    seen: set[str] = set()
    for path in paths:
        directory = os.path.isdir(path)
        before = len(found.documents)
        for file in _walk(path) if directory else [path]:
            real = os.path.realpath(file)
            if real in seen:
                before = -1
                continue
            seen.add(real)
            _read(file, found, problems, named=not directory)
        if directory and len(found.documents) == before and not problems:
            problems.append(f"{plain(path)}: no scenario below it: no *.yaml file with steps")
    return found


def read_manifests(scenario: Scenario, problems: list[str]) -> dict[str, list[Document]]:
    """What each path that a scenario names holds; paths are relative to the scenario's file."""
    base = os.path.dirname(scenario.origin.source)
    documents: dict[str, list[Document]] = {}
    for place, path in scenario.paths():
        if path in documents:
            continue
        full = os.path.normpath(os.path.join(base, path))
        wrong: list[str] = []
        if os.path.exists(full):
            documents[path] = list(
                iter_documents([full], wrong, hint="name a file or a directory")
            )
        else:
            documents[path] = []
            wrong.append(f"{plain(full)}: no such file or directory")
        problems += [str(Problem(scenario.origin, "", place, line)) for line in wrong]
    return documents


def write_text(path: str, text: str) -> None:
    """Write a file. Raises ``InputError`` when that is not possible."""
    try:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"{plain(path)}: {reason_of(error)}") from error


def _walk(top: str) -> Iterator[str]:
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.endswith(SUFFIXES) and not name.startswith("."):
                yield os.path.join(folder, name)


def _read(file: str, found: Found, problems: list[str], *, named: bool) -> None:
    try:
        with open(file, "rb") as stream:
            data = stream.read()
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        problems.append(f"{plain(file)}: {reason}")
        return
    if not named and not _steps(data):
        found.ignored.append(file)
        return
    try:
        documents = [_decoded(document) for document in decode_documents(plain(file), data)]
    except (InputError, msgspec.DecodeError) as error:
        problems.append(str(error))
        return
    scenarios = [document for document in documents if is_scenario(document.value)]
    if named and len(scenarios) < len(documents or " "):
        others = [str(each.origin) for each in documents if not is_scenario(each.value)]
        where = others[0] if others else plain(file)
        problems.append(f"{where}: no scenario: expected an object with steps")
    elif not scenarios:
        found.ignored.append(file)
    found.documents.extend(scenarios)


def _decoded(document: Document) -> Document:
    if document.raw is None:
        return document
    return Document(document.origin, value=msgspec.json.decode(document.raw))
