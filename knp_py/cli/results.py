"""Results of scenarios: printed as they are asked for, and what the exit code is."""

from collections.abc import Sequence

from knp_py.adapters.scenarios import write_text
from knp_py.cli.cluster import WARNINGS_SHOWN
from knp_py.cli.options import OutputFormat
from knp_py.cli.render import (
    Cell,
    Column,
    Documents,
    StreamTable,
    clean,
    counted,
    note,
    notes,
    print_json,
    print_wrapped,
    verdict_cell,
)
from knp_py.replay.performance import Check, Result
from knp_py.replay.report import (
    Counts,
    ScenarioDocument,
    check_document,
    counts_of,
    scenario_document,
)
from knp_py.replay.wording import outcome_text

_COLUMNS = (Column("", 4), Column("", 7), Column(""))


def print_results(results: Sequence[Result], output: OutputFormat, junit: str) -> int:
    """Print them, and write the JUnit report if a file is named; the exit code."""
    if output is OutputFormat.TABLE:
        for result in results:
            _print_result(result)
    else:
        _print_documents(results, output)
    return _conclude(results, junit, tell=output is OutputFormat.TABLE)


def _conclude(results: Sequence[Result], junit: str, *, tell: bool) -> int:
    """Warnings, problems, the sum and the report; the exit code."""
    total = Counts()
    warnings: dict[str, None] = {}
    for result in results:
        total.add(counts_of(result))
        warnings.update(dict.fromkeys(result.warnings))
    if tell:
        print(_sum(total, len(results)))
    notes([f"warning: {line}" for line in warnings], WARNINGS_SHOWN, "knp lint shows all")
    if junit:
        from knp_py.replay.junit import junit_xml  # noqa: PLC0415  nobody else needs XML

        write_text(junit, junit_xml(results))
    for result in results:
        for problem in (*result.problems, *(check.problem for check in result.checks)):
            if problem is not None:
                note(clean(str(problem)))
    if not total.expectations:
        note("nothing was expected, so nothing was checked: give a step an expect list")
        return 2
    return 2 if total.errors else 1 if total.unmet else 0


def _sum(total: Counts, scenarios: int) -> str:
    parts = [f"{total.met} of {total.expectations} expectations met"]
    if total.unmet:
        parts.append(f"{total.unmet} not met")
    if total.errors:
        parts.append(counted(total.errors, "error"))
    return f"{', '.join(parts)} in {counted(scenarios, 'scenario')}"


def _print_documents(results: Sequence[Result], output: OutputFormat) -> None:
    """One JSON document a scenario in an array, or one line an expectation."""
    if output is OutputFormat.JSON:
        found: list[ScenarioDocument] = list(map(scenario_document, results))
        print_json(found)
        return
    with Documents(output) as documents:
        for result in results:
            for step in result.steps:
                for check in step.checks:
                    documents.write(check_document(result, step, check))


def _print_result(result: Result) -> None:
    """Two lines an expectation: what came of it, and who decided."""
    print_wrapped(f"{result.scenario.name} ({result.scenario.origin})", 0)
    table = StreamTable(_COLUMNS, header=False)
    for step in result.steps:
        if step.checks:
            print_wrapped(step.step.name, 0, style="bold")
        for check in step.checks:
            each, outcome = check.expectation, check.outcome
            ends = f"{each.source.text} → {each.destination}"
            if outcome is None:
                message = "" if check.problem is None else check.problem.message
                table.entry(Cell("ERR", "error"), "", ends)
                table.below(message, style="error")
                continue
            mark = Cell("ok", "allow") if check.met else Cell("FAIL", "error")
            table.entry(mark, verdict_cell(outcome.verdict.value), ends)
            table.below(outcome_text(each, outcome), style="dim")
            for line in _details(check):
                table.below(line)
    print()


def _details(check: Check) -> list[str]:
    if check.met or check.outcome is None:
        return []
    name = check.expectation.name
    return [*([name] if name else []), *check.faults, *check.why]
