from enum import StrEnum
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from knp_py.cli.light import lighten


class Word(StrEnum):
    YES = "yes"
    NO = "no"


def parameter(annotation: Any, *, low: float | None = None, high: float | None = None) -> Any:
    """What of typer's parameter is used."""
    return SimpleNamespace(
        _runtime_param=None,
        type_descriptor=SimpleNamespace(
            annotation=annotation, parameter_info=SimpleNamespace(min=low, max=high)
        ),
    )


def coerce(param: Any, value: Any) -> Any:
    lighten([param])
    return param._runtime_param.coerce(value, param=None, ctx=None)


@pytest.mark.parametrize(
    ("annotation", "value", "result"),
    [
        (str, "x", "x"),
        (bool, True, True),
        (int, "12", 12),
        (int, None, None),
        (Word, "yes", Word.YES),
        (Word, Word.NO, Word.NO),
        (list[str], ("a", "b"), ["a", "b"]),
        (list[Word], ("no",), [Word.NO]),
        (list[str], None, ()),
    ],
)
def test_values(annotation: Any, value: Any, result: Any) -> None:
    assert coerce(parameter(annotation), value) == result


@pytest.mark.parametrize(
    ("param", "value", "complaint"),
    [
        (parameter(int), "x", "'x' is not a whole number"),
        (parameter(int, low=1, high=9), "10", "10 is more than 9"),
        (parameter(int, low=1, high=9), "0", "0 is less than 1"),
        (parameter(int, low=1), "0", "0 is less than 1"),
        (parameter(int, high=9), "10", "10 is more than 9"),
        (parameter(Word), "maybe", "'maybe' is not one of yes, no"),
        (parameter(list[Word]), ("yes", "maybe"), "'maybe' is not one of yes, no"),
    ],
)
def test_values_that_are_wrong(param: Any, value: Any, complaint: str) -> None:
    with pytest.raises(typer.BadParameter, match=complaint):
        coerce(param, value)


def test_other_types_are_left_to_typer() -> None:
    param = parameter(float)
    lighten([param])
    assert param._runtime_param is None


def test_what_is_converted_already_stays_and_other_typers_are_left_alone() -> None:
    param = parameter(str)
    param._runtime_param = "something"
    lighten([param, SimpleNamespace()])
    assert param._runtime_param == "something"
