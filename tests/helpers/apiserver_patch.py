"""Patches: JSON merge patch (RFC 7386), and server-side apply with the owners of fields."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from helpers.apiserver_types import ApiError, Doc, Resource, details

Step = str | tuple[str, str]  # a field, or an item of a list by its key: ("type", "Ready")
Path = tuple[Step, ...]
Owners = dict[str, set[Path]]  # by manager

# Lists that are maps, as the schemas have it; all others are taken as a whole.
_KEYED = {"conditions": "type"}
_MISSING = object()


def merge(target: Any, patch: Any) -> Any:
    """The target with the patch merged in; null removes."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def took_over(
    before: Mapping[str, Any], after: Mapping[str, Any], by: str, owners: Owners
) -> None:
    """Who updates a field owns it alone."""
    was, now = dict(_leaves(before)), dict(_leaves(after))
    changed = {path for path in was | now if was.get(path, _MISSING) != now.get(path, _MISSING)}
    for paths in owners.values():
        paths.difference_update(changed)
    owners.setdefault(by, set()).update(changed & now.keys())


def apply(
    resource: Resource, target: Doc, patch: Doc, by: str, owners: Owners, *, force: bool
) -> Doc:
    """The target as it is when ``by`` applies ``patch``; ApiError 409 where another owns it."""
    wanted = {path: value for path, value in _leaves(patch) if path[0] != "metadata"}
    conflicts = [
        (manager, path)
        for manager, paths in sorted(owners.items())
        if manager != by
        for path in sorted(paths & wanted.keys(), key=str)
        if _read(target, path) != wanted[path]
    ]
    if conflicts and not force:
        raise _conflict(resource, target["metadata"]["name"], conflicts)
    for manager, path in conflicts:
        owners[manager].discard(path)
    gone = owners.get(by, set()) - wanted.keys()
    owners[by] = set(wanted)
    made: Doc = _copied(target)
    for path in sorted(gone, key=str):
        if not any(path in paths for paths in owners.values()):
            _drop(made, path)
    for path, value in wanted.items():
        _write(made, path, value)
    return made


def _leaves(value: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    for key, item in value.items():
        if not path and key in {"apiVersion", "kind"}:
            continue
        here = (*path, key)
        if isinstance(item, dict) and item:
            yield from _leaves(item, here)
        elif isinstance(item, list) and key in _KEYED:
            for entry in item:
                yield from _leaves(entry, (*here, (_KEYED[key], entry[_KEYED[key]])))
        else:
            yield here, item


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _entry(items: list[Doc], step: tuple[str, str]) -> Doc | None:
    return next((item for item in items if item.get(step[0]) == step[1]), None)


def _read(value: Any, path: Path) -> Any:
    for step in path:
        if isinstance(step, tuple):
            value = _entry(value, step) if isinstance(value, list) else None
        else:
            value = value.get(step, _MISSING) if isinstance(value, dict) else _MISSING
    return value


def _write(value: Any, path: Path, leaf: Any) -> None:
    for step, following in pairwise(path):
        if isinstance(step, tuple):
            entry = _entry(value, step)
            if entry is None:
                entry = {step[0]: step[1]}
                value.append(entry)
            value = entry
        else:
            value = value.setdefault(step, [] if isinstance(following, tuple) else {})
    value[path[-1]] = leaf


def _drop(value: Any, path: Path) -> None:
    """Without what is there; an item of a list goes with its key."""
    for index, step in enumerate(path[:-1]):
        if isinstance(step, tuple):
            entry = _entry(value, step)
            if entry is None:
                return
            if path[index + 1 :] == (step[0],):
                value.remove(entry)
                return
            value = entry
        elif step in value:
            value = value[step]
        else:
            return
    value.pop(path[-1], None)


def _conflict(resource: Resource, name: str, conflicts: list[tuple[str, Path]]) -> ApiError:
    count = len(conflicts)
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{manager}" using {resource.api_version}',
            "field": "".join(
                f".{step}" if isinstance(step, str) else f'[{step[0]}="{step[1]}"]'
                for step in path
            ),
        }
        for manager, path in conflicts
    ]
    text = ", ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    message = f"Apply failed with {count} conflict{'s' * (count > 1)}: {text}"
    return ApiError(409, "Conflict", message, details(resource, name, causes=causes))
