"""Creating, changing and deleting objects as the server does."""

import itertools
import time
from collections.abc import Mapping
from typing import Any

import yaml
from helpers.apiserver_crd import Schema
from helpers.apiserver_http import Request, Response
from helpers.apiserver_patch import Owners, apply, merge, took_over
from helpers.apiserver_store import Key, Store, Stored, decode, encode, stored
from helpers.apiserver_types import (
    LEASES,
    NAMESPACES,
    NETWORK_POLICIES,
    PODS,
    ApiError,
    Doc,
    Resource,
    already_exists,
    bad_request,
    invalid,
    modified,
    not_found,
)

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"

_SET_HERE = ("uid", "creationTimestamp", "generation")  # what a client cannot change


def now() -> str:
    """As in creationTimestamp."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Writer:
    """The store, written to. ``schema``: of the custom resource, while its CRD is there."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.schema: Schema | None = None
        self._owners: dict[tuple[Resource, Key], Owners] = {}
        self._names = itertools.count(1)

    def save(self, resource: Resource, doc: Mapping[str, Any], *, managed: Any = None) -> Stored:
        """Create or replace, whatever was there: status too."""
        with self.store.lock:
            made, before = self._prepare(resource, doc)
            if managed is not None:
                made["metadata"]["managedFields"] = managed
            return self.store.put(resource, self._generation(resource, made, before))

    def create(self, resource: Resource, namespace: str, request: Request) -> Response:
        """POST to a collection."""
        doc = _body(request)
        metadata = doc.setdefault("metadata", {})
        if metadata.get("namespace", namespace) != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on "
                "the request"
            )
        with self.store.lock:
            if resource.namespaced:
                metadata["namespace"] = namespace
                self.store.get(NAMESPACES, ("", namespace))
            if "name" not in metadata and "generateName" in metadata:
                metadata["name"] = f"{metadata['generateName']}{next(self._names):05x}"
            if not metadata.get("name"):
                found = [("metadata.name", "Required value: name or generateName is required")]
                raise invalid(resource.kind, resource.group, "", found)
            key = namespace if resource.namespaced else "", metadata["name"]
            if key in self.store.collection(resource).objects:
                raise already_exists(resource, metadata["name"])
            if resource.custom:
                doc.pop("status", None)
            made, _ = self._prepare(resource, doc)
            self._took(resource, key, {}, made, request)
            return Response(201, self._commit(resource, made, None, request).whole + b"\n")

    def replace(self, resource: Resource, key: Key, request: Request, *, status: bool) -> Response:
        """PUT; a resourceVersion in the body must be the current one."""
        doc = _body(request)
        with self.store.lock:
            before = self.store.collection(resource).objects.get(key)
            if before is None and resource == LEASES:  # the one that an update may create
                return self.create(resource, key[0], request)
            if before is None:
                raise not_found(resource, key[1])
            asked = doc.get("metadata", {}).get("resourceVersion")
            if asked not in {None, "", str(before.version)}:
                raise modified(resource, key[1])
            if not asked and resource.custom:
                found = [("metadata.resourceVersion", "Invalid value: 0x0: must be specified")]
                raise invalid(resource.kind, resource.group, key[1], found)
            return self._changed(resource, before, doc, request, status=status)

    def patch(self, resource: Resource, key: Key, request: Request, *, status: bool) -> Response:
        """PATCH: merge, apply, and for built-in types what strategic does to plain fields."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind not in {MERGE, APPLY} and (kind != STRATEGIC or resource.custom):
            raise ApiError(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types "
                f"include: {MERGE}, {APPLY}" + ("" if resource.custom else f", {STRATEGIC}"),
            )
        with self.store.lock:
            before = self.store.collection(resource).objects.get(key)
            if kind == APPLY:
                return self._apply(resource, key, before, request, status=status)
            if before is None:
                raise not_found(resource, key[1])
            patch = _body(request)
            asked = patch.get("metadata", {}).get("resourceVersion")
            if asked not in {None, "", str(before.version)}:
                raise modified(resource, key[1])
            doc = merge(before.doc(), patch)
            return self._changed(resource, before, doc, request, status=status)

    def _apply(
        self,
        resource: Resource,
        key: Key,
        before: Stored | None,
        request: Request,
        *,
        status: bool,
    ) -> Response:
        manager = request.query.get("fieldManager", "")
        if not manager:
            raise invalid(
                "PatchOptions",
                "meta.k8s.io",
                "",
                [("fieldManager", "Required value: is required for apply patch")],
            )
        patch = yaml.safe_load(request.body)
        if patch.get("apiVersion") != resource.api_version or patch.get("kind") != resource.kind:
            raise bad_request("an applied object says its apiVersion and kind")
        if "managedFields" in patch.get("metadata", {}):
            raise bad_request("metadata.managedFields must be nil")
        force = request.query.get("force", "").lower() == "true"
        owners = {k: set(v) for k, v in self._owners.get((resource, key), {}).items()}
        if before is None:
            if status:
                raise not_found(resource, key[1])
            target: Doc = {"metadata": {"name": key[1]}}
            if key[0]:
                target["metadata"]["namespace"] = key[0]
            doc = apply(resource, target, patch, manager, owners, force=force)
            made, _ = self._prepare(resource, doc)
            answer = Response(201, self._commit(resource, made, None, request).whole + b"\n")
        else:
            if status or resource.status:
                patch.pop("spec" if status else "status", None)
            doc = apply(resource, before.doc(), patch, manager, owners, force=force)
            answer = self._changed(resource, before, doc, request, status=status, took=False)
        self._owners[resource, key] = owners
        return answer

    def _changed(
        self,
        resource: Resource,
        before: Stored,
        doc: Doc,
        request: Request,
        *,
        status: bool,
        took: bool = True,
    ) -> Response:
        """Of ``doc`` only what this end point may change: status, or all but status."""
        old = before.doc()
        if status:
            doc = old | {"status": doc.get("status")} if "status" in doc else old
        elif resource.status:
            doc = {k: v for k, v in doc.items() if k != "status"}
            if "status" in old:
                doc["status"] = old["status"]
        doc["metadata"] = {
            **old["metadata"],
            **({} if status else doc.get("metadata", {})),
            **{key: old["metadata"][key] for key in _SET_HERE if key in old["metadata"]},
        }
        if doc["metadata"]["name"] != before.name:
            raise bad_request("the name of the object does not match the name on the URL")
        made, _ = self._prepare(resource, doc)
        if took:
            self._took(resource, before.key, old, made, request)
        return Response(200, self._commit(resource, made, before, request).whole + b"\n")

    def remove(self, resource: Resource, key: Key) -> Stored:
        """Delete at once; a pod is said to be going first, as by the real server."""
        with self.store.lock:
            item = self.store.get(resource, key)
            if resource == PODS and "deletionTimestamp" not in item.doc()["metadata"]:
                doc = item.doc()
                doc["metadata"] |= {"deletionTimestamp": now(), "deletionGracePeriodSeconds": 0}
                self.store.put(resource, doc)
            self._owners.pop((resource, key), None)
            return self.store.remove(resource, key)

    def delete(self, resource: Resource, key: Key) -> Response:
        """DELETE."""
        last = self.remove(resource, key)
        if resource.custom or resource == LEASES:
            uid = last.doc()["metadata"]["uid"]
            found = {"name": key[1], "group": resource.group, "kind": resource.plural, "uid": uid}
            head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
            return Response(200, encode(head | {"details": found}) + b"\n")
        return Response(200, last.whole + b"\n")

    def _took(self, resource: Resource, key: Key, old: Doc, new: Doc, request: Request) -> None:
        agent = request.headers.get("user-agent", "unknown").partition("/")[0]
        manager = request.query.get("fieldManager") or agent
        owners = self._owners.setdefault((resource, key), {})
        took_over(_without_metadata(old), _without_metadata(new), manager, owners)

    def _commit(
        self, resource: Resource, made: Doc, before: Stored | None, request: Request
    ) -> Stored:
        made = self._generation(resource, made, before)
        if "dryRun" in request.query:
            return stored(resource, made, before.version if before else 0)
        return self.store.put(resource, made)

    def _prepare(self, resource: Resource, doc: Mapping[str, Any]) -> tuple[Doc, Stored | None]:
        """A complete object, checked, with defaults and the metadata that the server sets."""
        metadata = dict(doc["metadata"])
        name = metadata["name"]
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
        else:
            metadata.pop("namespace", None)
        key = metadata.get("namespace", ""), name
        before = self.store.collection(resource).objects.get(key)
        if before is not None:
            old = before.doc()["metadata"]
            metadata |= {k: old[k] for k in _SET_HERE if k in old}
        metadata.setdefault("uid", self.store.uid() if before is None else "")
        metadata.setdefault("creationTimestamp", now())
        for key_of_map in ("labels", "annotations"):
            if not metadata.get(key_of_map, True):
                del metadata[key_of_map]
        made = {**doc, "metadata": metadata}
        if resource.custom and self.schema is not None:
            made = self.schema.prune(made)
            if problems := self.schema.problems(made):
                raise invalid(resource.kind, resource.group, name, problems)
        _default(resource, made)
        return made, before

    @staticmethod
    def _generation(resource: Resource, made: Doc, before: Stored | None) -> Doc:
        if resource.custom or resource == NETWORK_POLICIES:
            number = 1
            if before is not None:
                old = before.doc()
                number = old["metadata"].get("generation", 1) + (
                    old.get("spec") != made.get("spec")
                )
            made["metadata"]["generation"] = number
        return made


def _without_metadata(doc: Doc) -> Doc:
    return {key: value for key, value in doc.items() if key != "metadata"}


def _default(resource: Resource, doc: Doc) -> None:
    """The defaults that matter to who reads policies."""
    if resource == NAMESPACES:
        labels = doc["metadata"].get("labels") or {}
        name = doc["metadata"]["name"]
        doc["metadata"]["labels"] = labels | {"kubernetes.io/metadata.name": name}
        doc.setdefault("spec", {"finalizers": ["kubernetes"]})
        doc.setdefault("status", {"phase": "Active"})
    if resource == NETWORK_POLICIES:
        spec = doc["spec"] = dict(doc.get("spec") or {})
        spec.setdefault("podSelector", {})
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress"] + ["Egress"] * bool(spec.get("egress"))
        for side in ("ingress", "egress"):
            if side in spec:
                spec[side] = [_with_protocols(rule or {}) for rule in spec[side] or []]


def _with_protocols(rule: Doc) -> Doc:
    if not rule.get("ports"):
        return rule
    return {**rule, "ports": [{"protocol": "TCP", **port} for port in rule["ports"]]}


def _body(request: Request) -> Doc:
    try:
        found = decode(request.body)
    except ValueError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(found, dict):
        raise bad_request("the object provided is unrecognized (must be of type Object)")
    return found
