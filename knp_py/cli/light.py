"""Command-line values without pydantic.

typer converts every value with a pydantic adapter, and importing pydantic costs more
than judging a flow does. The few types our options have are converted here instead; what
is not known here keeps typer's own conversion, so this can only make a command faster.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol, get_args, get_origin

import typer


class _Limits(Protocol):
    min: float | None
    max: float | None


class _Descriptor(Protocol):
    annotation: Any
    parameter_info: _Limits


class _Parameter(Protocol):
    """What typer's options and arguments have in common with what is needed here."""

    type_descriptor: _Descriptor
    _runtime_param: Any


Convert = Callable[[Any], Any]


class _Conversion:
    """Stands where typer keeps its adapter; a ``ValueError`` becomes a usage error."""

    def __init__(self, convert: Convert, *, many: bool) -> None:
        self._convert = convert
        self._many = many

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if self._many else None
        try:
            return [self._convert(one) for one in value] if self._many else self._convert(value)
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx=ctx, param=param) from error


def _integer(limits: _Limits) -> Convert:
    def convert(value: Any) -> int:
        try:
            number = int(value)
        except ValueError:
            raise ValueError(f"{value!r} is not a whole number") from None
        if limits.min is not None and number < limits.min:
            raise ValueError(f"{number} is less than {limits.min}")
        if limits.max is not None and number > limits.max:
            raise ValueError(f"{number} is more than {limits.max}")
        return number

    return convert


def _choice(kind: type[Enum]) -> Convert:
    def convert(value: Any) -> Enum:
        if isinstance(value, kind):
            return value
        for member in kind:
            if member.value == value:
                return member
        words = ", ".join(str(member.value) for member in kind)
        raise ValueError(f"{value!r} is not one of {words}")

    return convert


def _converter(annotation: Any, limits: _Limits) -> Convert | None:
    if annotation is str or annotation is bool:
        return lambda value: value
    if annotation is int:
        return _integer(limits)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _choice(annotation)
    return None


def lighten(parameters: list[Any]) -> None:
    """Give each parameter whose type is known here a conversion that imports nothing."""
    parameter: _Parameter
    for parameter in parameters:
        if getattr(parameter, "_runtime_param", "absent") is not None:
            continue  # a typer that does it otherwise, or done already
        annotation = parameter.type_descriptor.annotation
        many = get_origin(annotation) is list
        convert = _converter(
            get_args(annotation)[0] if many else annotation,
            parameter.type_descriptor.parameter_info,
        )
        if convert is not None:
            parameter._runtime_param = _Conversion(convert, many=many)  # noqa: SLF001
