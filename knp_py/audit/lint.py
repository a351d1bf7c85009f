"""Problems in policies: every check over one input, findings out. No cluster needed."""

import re
from collections.abc import Iterable, Sequence

from knp_py.audit import dns, exposure, priorities, rules, selections, services, shadows
from knp_py.audit.cells import tables
from knp_py.audit.findings import Collector, Finding
from knp_py.audit.view import View
from knp_py.manifests.fields import UNKNOWN_FIELD
from knp_py.manifests.problems import Problem
from knp_py.model.changes import ClusterObject

# Cells that shadowing may look at in all; some seconds of work.
CELLS = 20_000_000

# How the loader says that a document is none of its business; with a hint it may be one.
_unread = re.compile(r"; ignored(?: \(|$)").search


def lint(
    objects: Sequence[ClusterObject],
    problems: Iterable[Problem] = (),
    warnings: Iterable[Problem] = (),
    *,
    ignore: Iterable[str] = (),
    cells: int = CELLS,
) -> list[Finding]:
    """Every finding, sorted by place. Never raises for what the objects are.

    ``problems`` and ``warnings`` are the loader's. ``ignore`` are check ids to leave out;
    ``cells`` bounds the costly checks.
    """
    found = Collector(ignore)
    for problem in problems:
        found.add(
            "invalid-object",
            problem.object,
            problem.origin,
            problem.path,
            problem.message,
            "correct the field; until then the object is left out of all other checks",
        )
    view = View(objects)
    tabs = tables(view)
    budget = shadows.Budget(cells)
    rules.check(view, found)
    _add_warnings(warnings, found)
    priorities.check(view, tabs, found, budget)
    selections.check(view, found)
    services.check(view, found)
    dns.check(view, tabs, found)
    exposure.check(view, tabs, found)
    shadows.check(view, tabs, found, budget)
    if budget.unchecked:
        found.overall(
            "not-checked",
            f"{budget.unchecked} rules were not compared with the rules before them: "
            "the input is too large",
            "lint parts of it, a namespace or a tier at a time",
        )
    if not view.policies and not problems:
        found.overall("no-policies", "no policy in the input", "check the paths")
    return found.sorted()


def _within(path: str, top: str) -> bool:
    """Whether a field is another or inside it; spec.ingress is not inside spec.ingres."""
    return path == top or path.startswith((f"{top}.", f"{top}["))


def _add_warnings(warnings: Iterable[Problem], found: Collector) -> None:
    """What the loader said, unless a check has said it better about the same place."""
    said = found.places()
    for problem in warnings:
        if any(
            name == problem.object and _within(path, problem.path)
            for name, path in said
            if problem.path
        ):
            continue
        unread = not problem.path and _unread(problem.message) is not None
        unknown = problem.message.startswith(UNKNOWN_FIELD)
        found.add(
            "ignored-object" if unread else "unknown-field" if unknown else "suspicious-input",
            problem.object,
            problem.origin,
            problem.path,
            problem.message,
            "nothing, if it is not meant to be policy"
            if unread
            else "write the field as the API has it, or leave it out: kubectl refuses it"
            if unknown
            else "see that this is what you mean",
        )
