"""Which path means what: who may, and who answers."""

import threading
from collections.abc import Callable
from typing import Any

from helpers.apiserver_crd import Channel, Schema, definition
from helpers.apiserver_http import Request, Response, Stream
from helpers.apiserver_rbac import Ask, Authorizer
from helpers.apiserver_reads import list_objects, open_watch
from helpers.apiserver_select import exact_name
from helpers.apiserver_store import Store, Watch, decode, encode, line, stored
from helpers.apiserver_types import (
    BUILT_IN,
    CLUSTER_POLICIES,
    REVIEWS,
    ApiError,
    Doc,
    Resource,
    bad_request,
)
from helpers.apiserver_writes import Writer

VERSION = {
    "major": "1",
    "minor": "34",
    "gitVersion": "v1.34.0",
    "gitCommit": "0" * 40,
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "go1.24",
    "compiler": "gc",
    "platform": "linux/amd64",
}
_FOR_ALL = {"/healthz", "/livez", "/readyz", "/version"}


class Rest:
    """The API, without connections and faults."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.writer = Writer(store)
        self.authorizer = Authorizer()
        self.channel: Channel | None = None
        self.watch_list = False
        self.gone_as_http = False
        self._lock = threading.Lock()

    def resources(self) -> tuple[Resource, ...]:
        """What is served now."""
        return BUILT_IN if self.channel is None else (*BUILT_IN, CLUSTER_POLICIES)

    def install(self, channel: Channel) -> None:
        """The CRD is there, or another channel of it: what was stored is read through it."""
        with self.store.lock:
            self.channel = channel
            schema = Schema(
                definition(channel)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            )
            self.writer.schema = schema
            collection = self.store.collection(CLUSTER_POLICIES)
            for watch in collection.watches:
                watch.end("close")
            for key, item in collection.objects.items():
                pruned = schema.prune(item.doc())
                collection.objects[key] = stored(CLUSTER_POLICIES, pruned, item.version)
            self.store.compact_one(CLUSTER_POLICIES)

    def uninstall(self) -> None:
        """The CRD goes, its objects first."""
        with self.store.lock:
            for key in list(self.store.collection(CLUSTER_POLICIES).objects):
                self.store.remove(CLUSTER_POLICIES, key)
            for watch in self.store.collection(CLUSTER_POLICIES).watches:
                watch.end("close")
            self.store.compact_one(CLUSTER_POLICIES)
            self.channel = None
            self.writer.schema = None

    def answer(self, request: Request) -> Response | Stream:
        """What the server says; ApiError what it says when it does not want to."""
        parts = [part for part in request.path.split("/") if part]
        if request.path.rstrip("/") in _FOR_ALL:
            if parts == ["version"]:
                return _json(VERSION)
            return Response(200, b"ok", "text/plain; charset=utf-8")
        if parts[:1] == ["api"] and len(parts) > 2:
            return self._resource(request, "", parts[1], parts[2:])
        if parts[:1] == ["apis"] and len(parts) > 3:
            return self._resource(request, parts[1], parts[2], parts[3:])
        found = self._discovery(parts) if parts[:1] in (["api"], ["apis"]) else None
        if found is None:
            return _no_such_path()
        if request.user == "system:anonymous":
            raise ApiError(
                403,
                "Forbidden",
                f'forbidden: User "{request.user}" cannot get path "{request.path}"',
            )
        return _json(found)

    def _resource(
        self, request: Request, group: str, version: str, parts: list[str]
    ) -> Response | Stream:
        namespace, parts = _namespaced(parts)
        plural, name, sub = (*parts, "", "", "")[:3]
        verb = _verb(request, name)
        resource = self._find(group, version, plural)
        asked = plural + (f"/{sub}" if sub else "")
        told = name or exact_name(request.query.get("fieldSelector", ""))
        self.authorizer.check(Ask(request.user, verb, group, asked, namespace, told))
        if resource is None or (sub and not (sub == "status" and resource.status)):
            return _no_such_path()
        if resource == REVIEWS and verb == "create":
            return self._review(request)
        if verb not in resource.verbs or (resource.namespaced and not namespace and name):
            message = "the server does not allow this method on the requested resource"
            raise ApiError(405, "MethodNotAllowed", message)
        if verb == "watch":
            return self._watch(resource, namespace, request, name)
        if verb == "list":
            return list_objects(self.store, resource, namespace, request)
        key = namespace if resource.namespaced else "", name
        answers: dict[str, Callable[[], Response]] = {
            "get": lambda: Response(200, self.store.get(resource, key).whole + b"\n"),
            "create": lambda: self.writer.create(resource, namespace, request),
            "update": lambda: self.writer.replace(resource, key, request, status=bool(sub)),
            "patch": lambda: self.writer.patch(resource, key, request, status=bool(sub)),
            "delete": lambda: self.writer.delete(resource, key),
        }
        return answers[verb]()

    def _find(self, group: str, version: str, plural: str) -> Resource | None:
        for resource in self.resources():
            if (resource.group, resource.version, resource.plural) == (group, version, plural):
                return resource
        return None

    def _watch(
        self, resource: Resource, namespace: str, request: Request, name: str
    ) -> Response | Stream:
        if name:
            request.query["fieldSelector"] = f"metadata.name={name}"
        try:
            return open_watch(self.store, resource, namespace, request, watch_list=self.watch_list)
        except ApiError as error:
            if error.code != 410 or self.gone_as_http:
                raise
            stream = Stream(Watch(resource, namespace, None), None)  # found out inside of it
            stream.watch.say(line("ERROR", encode(error.status())))
            stream.watch.end("close")
            return stream

    def _review(self, request: Request) -> Response:
        doc = decode(request.body)
        asked = doc.get("spec", {}).get("resourceAttributes")
        if asked is None:
            raise bad_request("spec.resourceAttributes: Required value")
        resource = asked.get("resource", "")
        if asked.get("subresource"):
            resource += f"/{asked['subresource']}"
        ask = Ask(
            request.user,
            asked.get("verb", ""),
            asked.get("group", ""),
            resource,
            asked.get("namespace", ""),
            asked.get("name", ""),
        )
        allowed = self.authorizer.allows(ask)
        answer: Doc = {
            "kind": REVIEWS.kind,
            "apiVersion": REVIEWS.api_version,
            "metadata": {"creationTimestamp": None},
            "spec": doc["spec"],
            "status": {"allowed": allowed},
        }
        return Response(201, encode(answer) + b"\n")

    def _discovery(self, parts: list[str]) -> Doc | None:
        served = self.resources()
        groups = sorted({(r.group, r.version) for r in served if r.group})
        if parts == ["api"]:
            address = {"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}
            return {
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [address],
            }
        if parts == ["apis"]:
            found = [_group(*group) for group in groups]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}
        if len(parts) == 2 and parts[0] == "apis":
            for group in groups:
                if group[0] == parts[1]:
                    return {"kind": "APIGroup", "apiVersion": "v1"} | _group(*group)
            return None
        base = "/" + "/".join(parts)
        listed = [entry for r in served if r.base == base for entry in _entries(r)]
        if not listed:
            return None
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": base.removeprefix("/apis/").removeprefix("/api/"),
            "resources": listed,
        }


def _group(name: str, version: str) -> Doc:
    entry = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [entry], "preferredVersion": entry}


def _entries(resource: Resource) -> list[Doc]:
    entry: Doc = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": sorted(resource.verbs),
    }
    if not resource.status:
        return [entry]
    verbs = ["get", "patch", "update"]
    return [entry, entry | {"name": f"{resource.plural}/status", "verbs": verbs}]


def _namespaced(parts: list[str]) -> tuple[str, list[str]]:
    """The namespace and what is in it; namespaces themselves are in their own."""
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in {"status", "finalize"}:
        return parts[1], parts[2:]
    if parts[0] == "namespaces" and len(parts) > 1:
        return parts[1], parts
    return "", parts


def _verb(request: Request, name: str) -> str:
    if request.method == "GET":
        if request.is_watch:
            return "watch"
        return "get" if name else "list"
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    verb = verbs.get(request.method, request.method.lower())
    return "deletecollection" if verb == "delete" and not name else verb


def _json(doc: Any, code: int = 200) -> Response:
    return Response(code, encode(doc) + b"\n")


def _no_such_path() -> Response:
    """What nobody serves: not a Status, as nobody is there to make one."""
    return Response(404, b"404 page not found\n", "text/plain; charset=utf-8")
