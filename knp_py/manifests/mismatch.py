"""Why a document does not fit its type: every place, not only the first.

msgspec stops at the first value of a wrong type. When it does, the document is decoded
again without types and compared with them here; this is the slow path of bad input only.
"""

import types
from typing import Any, Union, get_args, get_origin

import msgspec

from knp_py.manifests.fields import under
from knp_py.manifests.problems import show

_NAMES = {str: "text", int: "a whole number", bool: "true or false"}


def mismatches(value: object, kind: Any, path: str = "") -> list[tuple[str, str]]:
    """(path, message) of every value whose type is wrong for ``kind``."""
    options = get_args(kind) if get_origin(kind) in {Union, types.UnionType} else (kind,)
    if any(_fits(value, option) for option in options):
        return []
    for option in options:
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            if isinstance(value, dict):
                return _in_struct(value, option, path)
        elif get_origin(option) is list and isinstance(value, list):
            return [
                found
                for index, item in enumerate(value)
                for found in mismatches(item, get_args(option)[0], f"{path}[{index}]")
            ]
        elif get_origin(option) is dict and isinstance(value, dict):
            return [
                found
                for key, item in value.items()
                for found in mismatches(item, get_args(option)[1], under(path, key))
            ]
    expected = " or ".join(_name(option) for option in options if option is not type(None))
    hint = " (put it in quotes)" if str in options and not isinstance(value, (dict, list)) else ""
    return [(path, f"found {show(value)}, expected {expected}{hint}")]


def _fits(value: object, option: Any) -> bool:
    if option is Any:
        return True
    return option in {str, int, bool, type(None)} and type(value) is option


def _in_struct(value: dict[str, object], kind: type[Any], path: str) -> list[tuple[str, str]]:
    return [
        found
        for field in msgspec.structs.fields(kind)
        if field.encode_name in value
        for found in mismatches(
            value[field.encode_name],
            field.type,
            f"{path}.{field.encode_name}" if path else field.encode_name,
        )
    ]


def _name(option: Any) -> str:
    if option in _NAMES:
        return _NAMES[option]
    return "a list" if get_origin(option) is list else "an object"


def repeated_keys(raw: bytes) -> list[str]:
    """Keys that stand twice in one object of a JSON text; decoders keep the last of them.

    Asked for policies only, where two ``egress`` are two opinions.
    """
    import json  # noqa: PLC0415  # 2 ms that a directory of YAML need not pay

    found: list[str] = []

    def note(pairs: list[tuple[str, object]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                found.append(key)
            seen.add(key)

    try:
        json.loads(raw, object_pairs_hook=note)
    except (ValueError, RecursionError):
        return []  # the decoder proper has said so
    return list(dict.fromkeys(found))
