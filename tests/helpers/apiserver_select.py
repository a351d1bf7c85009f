"""Field and label selectors of a request."""

import re
from collections.abc import Callable, Mapping
from typing import Protocol

from helpers.apiserver_types import PODS, Resource, bad_request


class Selectable(Protocol):
    """What selectors look at."""

    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def fields(self) -> Mapping[str, str]: ...


Matches = Callable[[Selectable], bool]

_SET = re.compile(r"^([^\s!=,()]+)\s+(in|notin)\s+\(([^()]*)\)$")
_EQUAL = re.compile(r"^([^\s!=,()]+)\s*(==|=|!=)\s*([^\s!=,()]*)$")
_EXISTS = re.compile(r"^(!?)\s*([^\s!=,()]+)$")
_OUTSIDE = re.compile(r",(?![^()]*\))")  # a comma that is not in parentheses


def selector(resource: Resource, fields: str, labels: str) -> Matches | None:
    """Whether an object is meant; None when every one is."""
    tests = [*_fields(resource, fields), *_labels(labels)]
    if not tests:
        return None
    return lambda item: all(test(item) for test in tests)


def exact_name(fields: str) -> str:
    """The one name that can match, for who may list that object only."""
    for part in fields.split(","):
        found = _EQUAL.match(part.strip())
        if found and found[1] == "metadata.name" and found[2] != "!=":
            return found[3]
    return ""


def _fields(resource: Resource, text: str) -> list[Matches]:
    known = ["metadata.name", "metadata.namespace"]
    if resource == PODS:
        known += ["spec.nodeName", "status.phase", "status.podIP"]
    tests: list[Matches] = []
    for part in filter(None, map(str.strip, text.split(","))):
        found = _EQUAL.match(part)
        if found is None:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        if found[1] not in known:
            raise bad_request(
                f'Unable to find "{resource.group}/{resource.version}, Resource='
                f'{resource.plural}" that match label selector "", field selector "{text}": '
                f"field label not supported: {found[1]}"
            )
        tests.append(_field(found[1], found[3], found[2] == "!="))
    return tests


def _field(key: str, value: str, other: bool) -> Matches:
    return lambda item: (item.fields.get(key, "") == value) != other


def _labels(text: str) -> list[Matches]:
    return [_label(part.strip()) for part in _OUTSIDE.split(text) if part.strip()]


def _label(part: str) -> Matches:
    if found := _SET.match(part):
        key, values = found[1], {value.strip() for value in found[3].split(",")}
        if found[2] == "in":
            return lambda item: item.labels.get(key) in values
        return lambda item: item.labels.get(key) not in values
    if found := _EQUAL.match(part):
        key, value = found[1], found[3]
        if found[2] == "!=":
            return lambda item: item.labels.get(key) != value
        return lambda item: item.labels.get(key) == value
    if found := _EXISTS.match(part):
        key, absent = found[2], bool(found[1])
        return lambda item: (key not in item.labels) == absent
    raise bad_request(f"unable to parse requirement: found '{part}'")
