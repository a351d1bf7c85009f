"""Lint findings in few words: ``check-id path`` texts of one check or of all."""

from collections.abc import Iterable, Sequence

from knp_py.audit.findings import CATALOGUE, Finding
from knp_py.audit.lint import lint
from knp_py.manifests.problems import Problem
from knp_py.model.changes import ClusterObject


def findings_of(check: str, *objects: ClusterObject) -> list[Finding]:
    """The findings of one check; all findings must be as grave as the catalogue says."""
    found = lint(objects)
    assert all(finding.severity in CATALOGUE[finding.id].severities for finding in found)
    return [finding for finding in found if finding.id == check]


def paths(check: str, *objects: ClusterObject) -> list[str]:
    """Where one check finds something: ``name path``."""
    return [at(finding) for finding in findings_of(check, *objects)]


def ids(
    objects: Sequence[ClusterObject],
    problems: Iterable[Problem] = (),
    warnings: Iterable[Problem] = (),
) -> list[str]:
    """The ids of all findings, but for the note that there are no pods."""
    found = lint(objects, problems, warnings)
    return [finding.id for finding in found if finding.id != "no-pods"]


def at(finding: Finding) -> str:
    """``name path``; the object's kind left out."""
    return f"{finding.object.partition(' ')[2]} {finding.path}".strip()
