"""Lists in pages and watches, with resourceVersion and all that is said about it."""

import base64
import binascii
import json
from bisect import bisect_left
from collections.abc import Mapping

from helpers.apiserver_http import Request, Response, Stream
from helpers.apiserver_select import selector
from helpers.apiserver_store import Store, Stored, encode
from helpers.apiserver_types import (
    ApiError,
    Doc,
    Resource,
    bad_request,
    expired,
    invalid,
    too_large,
)

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results."
)
_NOW = -1  # a token's version when the rest is to be as it is now


def list_objects(store: Store, resource: Resource, namespace: str, request: Request) -> Response:
    """One page (or all) of a collection."""
    query = request.query
    limit = _number(query, "limit")
    matches = selector(resource, query.get("fieldSelector", ""), query.get("labelSelector", ""))
    with store.lock:
        start = ""
        if token := query.get("continue"):
            if query.get("resourceVersion", "0") != "0":
                raise bad_request("specifying resource version is not allowed when using continue")
            wanted, start = _opened(token)
            version = store.revision if wanted == _NOW else wanted
            items = store.sorted_at(resource, None if wanted == _NOW else wanted)
            if items is None:
                raise expired(_TOO_OLD, **{"continue": _token(_NOW, start)})
        else:
            version, items = _snapshot(store, resource, query)
            if query.get("resourceVersion") == "0":
                limit = 0  # answered from the watch cache, which knows no pages
    chosen: list[Stored] = []
    position = bisect_left(items, start, key=lambda item: item.order)
    more = False
    for position in range(position, len(items)):  # noqa: B020  where it stopped is what we want
        item = items[position]
        if (namespace and item.namespace != namespace) or (matches and not matches(item)):
            continue
        if limit and len(chosen) == limit:
            more = True
            break
        chosen.append(item)
    metadata: Doc = {"resourceVersion": str(version)}
    if more:
        metadata["continue"] = _token(version, chosen[-1].order + "\0")
        if matches is None:
            metadata["remainingItemCount"] = sum(
                1 for item in items[position:] if not namespace or item.namespace == namespace
            )
    return Response(200, _listed(resource, metadata, chosen))


def gone(token: str) -> ApiError:
    """The answer when a token that was good is too old."""
    return expired(_TOO_OLD, **{"continue": _token(_NOW, _opened(token)[1])})


def _snapshot(
    store: Store, resource: Resource, query: Mapping[str, str]
) -> tuple[int, list[Stored]]:
    """The version of a first page and what there was then."""
    match, text = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    asked = _number(query, "resourceVersion")
    if match and not text:
        raise _not_allowed("resourceVersionMatch", "unless resourceVersion is provided")
    if match not in {"", "Exact", "NotOlderThan"}:
        raise invalid(
            "ListOptions",
            "meta.k8s.io",
            "",
            [("resourceVersionMatch", f'Unsupported value: "{match}"')],
        )
    if match == "Exact" and text == "0":
        raise _not_allowed("resourceVersionMatch", '"Exact" for resourceVersion "0"')
    if asked > store.revision:
        raise too_large(asked, store.revision)
    legacy = not match and asked and _number(query, "limit")  # a limit makes it exact
    if match == "Exact" or legacy:
        items = store.sorted_at(resource, asked)
        if items is None:
            raise expired("The resourceVersion for the provided list is too old.")
        return asked, items
    return store.revision, store.sorted_at(resource) or []


def _listed(resource: Resource, metadata: Doc, items: list[Stored]) -> bytes:
    kind, version = f"{resource.kind}List", resource.api_version
    body = b",".join(item.item for item in items)
    if resource.custom:  # in the order of the keys, so that what the list is comes last
        head = f'{{"apiVersion":"{version}","items":['.encode()
        return head + body + f'],"kind":"{kind}","metadata":'.encode() + encode(metadata) + b"}\n"
    head = f'{{"kind":"{kind}","apiVersion":"{version}","metadata":'.encode()
    return head + encode(metadata) + b',"items":[' + body + b"]}\n"


def open_watch(
    store: Store, resource: Resource, namespace: str, request: Request, *, watch_list: bool
) -> Stream:
    """A watch. Too old: ApiError 410, which the real server says inside the stream."""
    query = request.query
    matches = selector(resource, query.get("fieldSelector", ""), query.get("labelSelector", ""))
    initial = query.get("sendInitialEvents", "").lower() == "true"
    if "sendInitialEvents" in query and not watch_list:
        raise _not_allowed(
            "sendInitialEvents", "for watch unless the WatchList feature gate is enabled"
        )
    if "resourceVersionMatch" in query and "sendInitialEvents" not in query:
        raise _not_allowed(
            "resourceVersionMatch", "for watch unless sendInitialEvents is provided"
        )
    asked = _number(query, "resourceVersion")
    watch = store.watch(
        resource,
        namespace,
        matches,
        asked or None,
        bookmarks=query.get("allowWatchBookmarks", "").lower() in {"1", "true"},
        initial=initial,
    )
    return Stream(watch, _number(query, "timeoutSeconds") or None)


def _not_allowed(field: str, why: str) -> ApiError:
    found = [(field, f"Forbidden: {field} is forbidden {why}")]
    return invalid("ListOptions", "meta.k8s.io", "", found)


def _number(query: Mapping[str, str], key: str) -> int:
    text = query.get(key) or "0"
    if not text.isdecimal():
        raise bad_request(f'{key}: Invalid value: "{text}": strconv.ParseUint: parsing "{text}"')
    return int(text)


def _token(version: int, start: str) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _opened(token: str) -> tuple[int, str]:
    try:
        found = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(found["rv"]), str(found["start"])
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        raise bad_request(f"continue key is not valid: {error}") from error
