"""Results as JUnit XML, the form that CI systems collect.

There is no standard. This is what the readers of Jenkins, GitLab, GitHub actions and Azure
have in common: ``testsuites/testsuite/testcase`` with ``failure`` and ``error``, counts on
every level, and a time, which is 0 because a scenario's time is not the clock's.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable

from knp_py.replay.performance import Check, Result
from knp_py.replay.report import Counts, counts_of, title
from knp_py.replay.wording import outcome_text

# What XML 1.0 §2.2 does not allow, however it is written; lone surrogates included.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(results: Iterable[Result]) -> str:
    """The whole document: one suite a scenario, one case an expectation."""
    root = ET.Element("testsuites", name="knp test")
    total = Counts()
    for result in results:
        counts = counts_of(result)
        total.add(counts)
        _suite(root, result, counts)
    _count(root, total)
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _suite(root: ET.Element, result: Result, counts: Counts) -> None:
    scenario = result.scenario
    suite = _element(root, "testsuite", name=scenario.name, file=scenario.origin.source)
    _count(suite, counts)
    for step in result.steps:
        for check in step.checks:
            group = f"{scenario.name}.{step.step.name}"
            case = _element(
                suite, "testcase", classname=group, name=title(check.expectation), time="0"
            )
            _outcome(case, check)
    for problem in result.problems:
        where = problem.path or problem.object or "manifests"
        case = _element(suite, "testcase", classname=scenario.name, name=where, time="0")
        _element(case, "error", message=problem.message, type="scenario").text = _legal(
            str(problem)
        )


def _outcome(case: ET.Element, check: Check) -> None:
    if check.problem is not None:
        error = _element(case, "error", message=check.problem.message, type="scenario")
        error.text = _legal(str(check.problem))
    elif check.faults:
        failure = _element(case, "failure", message=check.faults[0], type="verdict")
        failure.text = _legal("\n".join((*check.faults, *check.why)))
    elif check.outcome is not None:
        out = _element(case, "system-out")
        out.text = _legal(outcome_text(check.expectation, check.outcome))


def _count(element: ET.Element, counts: Counts) -> None:
    # A case more for each problem that cut a scenario short.
    element.set("tests", str(counts.met + counts.unmet + counts.errors))
    element.set("failures", str(counts.unmet))
    element.set("errors", str(counts.errors))
    element.set("skipped", "0")
    element.set("time", "0")


def _element(parent: ET.Element, tag: str, **attributes: str) -> ET.Element:
    legal = {key: _legal(value) for key, value in attributes.items()}
    return ET.SubElement(parent, tag, legal)


def _legal(text: str) -> str:
    """The text with what XML cannot hold made visible."""
    return _FORBIDDEN.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
