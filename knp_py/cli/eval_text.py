"""How ``knp eval`` prints answers for people."""

from knp_py.cli.render import (
    GAP,
    WIDTH,
    Cell,
    Column,
    StreamTable,
    clean,
    print_table,
    print_wrapped,
    verdict_cell,
)
from knp_py.engine.explain import DirectionSteps, Outcome
from knp_py.model.decision import Ruling
from knp_py.verdicts.probe import Asked, Failure
from knp_py.verdicts.record import Answer, End
from knp_py.verdicts.summary import end_name
from knp_py.verdicts.words import decision_text, ruling_text

_RULES = (Column("", 12), Column("", 6), Column("", 36), Column(""))
_LONGEST_ID = 20  # of a probe, that a column is made for


def as_expected(answer: Answer) -> bool:
    """Whether the verdict is the one that was expected, or none was."""
    return not answer.expect or answer.expect == answer.verdict


def _end_text(end: End) -> str:
    address = end.ip or ""
    if end.name:
        return f"{end.name} ({address})"
    if end.pod:
        return f"{end.pod} ({address}, made up)" if end.assumed else f"{end.pod} ({address})"
    if end.service:
        return f"Service {end.service} ({address})" if address else f"Service {end.service}"
    return f"{address} (node {end.node})" if end.node else address


def _destination_text(asked: Asked) -> str:
    end = asked.answer.destination
    text = _end_text(end)
    if not asked.backends:
        return text
    if asked.backends == 1:
        return f"{text}, the only backend of Service {end.service}"
    if end.pod:
        return f"{text}, first of {asked.backends} backends of Service {end.service}"
    return f"{text}, {asked.backends} backends"


def _port_text(answer: Answer) -> str:
    return answer.protocol if answer.port is None else f"{answer.protocol} {answer.port}"


def _decided(asked: Asked) -> str:
    answer = asked.answer
    if asked.decision is None:
        return answer.reason or "-"
    text = decision_text(asked.decision)
    if answer.unidentified:
        text += f"; unidentified: {', '.join(answer.unidentified)}"
    return text


def _ruling(ruling: Ruling) -> str:
    """The ruling without its direction, which the line already names."""
    word = "allow" if ruling.allowed else "deny"
    return f"{word}: {ruling_text(ruling).removeprefix(f'{ruling.direction.text}: ')}"


def _verdict(result: Asked | Failure) -> Cell:
    if isinstance(result, Failure):
        return Cell("error", "error")
    answer = result.answer
    if as_expected(answer):
        return verdict_cell(answer.verdict)
    return Cell(f"{answer.verdict}, not {answer.expect}", "error")


def print_results(results: list[tuple[str, Asked | Failure]]) -> None:
    """Probes by their labels: the connection, and below it who decided.

    Names may be as long as Kubernetes has them, so there is no column for each end.
    """
    verdicts = [_verdict(result) for _, result in results]
    longest = max((len(clean(label)) for label, _ in results), default=0)
    table = StreamTable(
        (
            Column("ID", max(len("ID"), min(longest, _LONGEST_ID))),
            Column("VERDICT", max(map(len, ["VERDICT", *(cell.text for cell in verdicts)]))),
            Column("CONNECTION"),
        )
    )
    for (label, result), verdict in zip(results, verdicts, strict=True):
        if isinstance(result, Failure):
            table.entry(label, verdict, result.error)
            continue
        answer = result.answer
        ends = f"{end_name(answer.source)} → {end_name(answer.destination)}"
        table.entry(label, verdict, f"{ends} {_port_text(answer)}")
        table.below(_decided(result), style="dim")
    for _, result in results:
        if isinstance(result, Asked) and result.steps:
            print()
            print_answer(result)


def print_answer(asked: Asked) -> None:
    """One answer in full, with every policy considered if that was asked for."""
    answer = asked.answer
    rows: list[tuple[Cell | str, ...]] = [
        ("verdict", verdict_cell(answer.verdict)),
        (
            "flow",
            f"{_end_text(answer.source)} to {_destination_text(asked)}, {_port_text(answer)}",
        ),
        ("decided by", _decided(asked)),
    ]
    if asked.decision is not None:
        egress, ingress = asked.decision.egress, asked.decision.ingress
        rows.append(("egress", _ruling(egress) if egress else "the source is no pod"))
        if egress is not None and not egress.allowed:
            rows.append(("ingress", "not judged, since egress denies"))
        else:
            rows.append(("ingress", _ruling(ingress) if ingress else "the destination is no pod"))
    rows += [("note", text) for text in answer.notes or ()]
    print_table((Column(""), Column("")), rows)
    for steps in asked.steps:
        print()
        _print_steps(steps)


def _print_steps(steps: DirectionSteps) -> None:
    """A line for each policy and under it one for each rule, so that long names fit."""
    title = f"{steps.direction.text} of {steps.pod}, every policy considered:"
    print_wrapped(title if steps.policies else f"{title} none selects it", 0)
    for policy in steps.policies:
        priority = "" if policy.priority is None else f" {policy.priority}"
        note = "" if policy.rules else f": {policy.note or 'has no rules in this direction'}"
        print_wrapped(f"{policy.tier.text}{priority} {policy.policy}{note}", 2, hang=2)
        table = StreamTable(_RULES, header=False)
        for rule in policy.rules:
            decided = rule.outcome is Outcome.DECIDED
            name = f'"{rule.name}"' if rule.name else ""
            fits = len(clean(name)) <= WIDTH - table.indent
            table.row(
                f"    rule {rule.rule}",
                rule.action,
                Cell(rule.outcome.value, "bold" if decided else "dim"),
                name if fits else "",
            )
            if not fits:
                print_wrapped(name, _RULES[0].width + len(GAP))
