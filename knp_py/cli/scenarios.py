"""From paths to scenarios with the documents they name: what test and lab begin with."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from knp_py.adapters.scenarios import find_scenarios, read_manifests
from knp_py.cli.render import note
from knp_py.errors import ManifestError
from knp_py.manifests.document import Document
from knp_py.replay.scenario import Scenario
from knp_py.replay.scenario_reader import read_scenario


class Loaded(NamedTuple):
    """A scenario; ``documents`` by each path that it names."""

    scenario: Scenario
    documents: dict[str, list[Document]]


def load_scenarios(paths: Sequence[str]) -> list[Loaded]:
    """Every scenario in these files and directories, all of it readable.

    Raises ``ManifestError`` with every problem of every file.
    """
    found: list[Loaded] = []
    problems: list[str] = []
    files = find_scenarios(paths, problems)
    for document in files.documents:
        scenario, wrong = read_scenario(document)
        problems += map(str, wrong)
        if scenario is not None:
            found.append(Loaded(scenario, read_manifests(scenario, problems)))
    if problems:
        raise ManifestError(problems)
    read = {
        os.path.realpath(document.origin.source)
        for _, documents in found
        for listed in documents.values()
        for document in listed
    }
    ignored = [file for file in files.ignored if os.path.realpath(file) not in read]
    if ignored:
        rest = f" and {len(ignored) - 1} more" if len(ignored) > 1 else ""
        note(f"ignored {ignored[0]}{rest}: no steps, and no scenario names it")
    return found
