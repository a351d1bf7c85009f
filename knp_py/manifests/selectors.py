"""metav1.LabelSelector, with the API server's validation."""

from collections.abc import Iterable

from knp_py.manifests.fields import Fields, as_object, one_of, under
from knp_py.manifests.problems import Report, quote, show
from knp_py.manifests.syntax import bad_label_key, bad_label_value
from knp_py.model.selectors import LabelSelector, Operator, Requirement

_OPERATORS = {operator.value: operator for operator in Operator}


def read_selector(fields: Fields) -> LabelSelector:
    """The selector; problems are reported and what is wrong is left out."""
    fields.warn_unknown(("matchLabels", "matchExpressions"))
    labels: list[tuple[str, str]] = []
    match_labels = fields.mapping("matchLabels")
    if match_labels is not None:
        labels = check_labels(match_labels.report, match_labels.path, match_labels.data.items())
    requirements: list[Requirement] = []
    for path, item in fields.array("matchExpressions") or ():
        entry = as_object(fields.report, path, item)
        requirement = None if entry is None else _read_requirement(entry)
        if requirement is not None:
            requirements.append(requirement)
    unique = sorted(set(requirements), key=lambda r: (r.key, r.operator.value, r.values))
    return LabelSelector(tuple(sorted(set(labels))), tuple(unique))


def _read_requirement(entry: Fields) -> Requirement | None:
    entry.warn_unknown(("key", "operator", "values"))
    key = entry.text("key")
    if not entry.has("key"):
        entry.missing("key", "a label key")
    elif key is not None:
        complaint = bad_label_key(key)
        if complaint:
            entry.error("key", f"found {quote(key)}, expected {complaint}")
    if not entry.has("operator"):
        entry.missing("operator", one_of(_OPERATORS))
        return None
    operator = entry.word("operator", _OPERATORS)
    values = entry.texts("values") or []
    for path, value in values:
        complaint = bad_label_value(value)
        if complaint:
            entry.report.error(path, f"found {quote(value)}, expected {complaint}")
    if key is None or operator is None:
        return None
    given = bool(entry.data.get("values"))
    if operator in {Operator.IN, Operator.NOT_IN} and not given:
        entry.missing("values", f"at least one value for {operator.value}")
    if operator in {Operator.EXISTS, Operator.DOES_NOT_EXIST} and given:
        entry.error("values", f"found a list, expected none for {operator.value}")
    return Requirement(key, operator, tuple(sorted({value for _, value in values})))


def check_labels(
    report: Report, path: str, labels: Iterable[tuple[str, object]]
) -> list[tuple[str, str]]:
    """The pairs that are labels; the others are reported."""
    good: list[tuple[str, str]] = []
    for key, value in labels:
        complaint = bad_label_key(key)
        if complaint:
            report.error(path, f"found the key {quote(key)}, expected {complaint}")
            continue
        if not isinstance(value, str):
            report.error(
                under(path, key), f"found {show(value)}, expected text (put it in quotes)"
            )
            continue
        complaint = bad_label_value(value)
        if complaint:
            report.error(under(path, key), f"found {quote(value)}, expected {complaint}")
            continue
        good.append((key, value))
    return good
