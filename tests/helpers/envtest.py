"""The real etcd and kube-apiserver, where KUBEBUILDER_ASSETS says their directory.

``RealServer`` answers to the same calls as ``apiserver.ApiServer`` as far as a real server can:
``kubeconfig``, ``service_account``, ``apply``, ``delete``, ``patch``, ``terminate``, ``get``,
``state``, ``install_crd``, ``remove_crd``, ``use_rbac``, ``churn``, ``drop_watches``,
``frozen_for_now``, ``outage``, ``restart``, ``backup``, ``compact``. Clients reach it through
``tcpproxy``, which is what is cut, frozen and stopped; it passes TLS on as it is. Both programs
listen on 127.0.0.1 only, their certificates, tokens and data last as long as the test.

What differs: a kubelet and controllers are not there, so a pod stays as it was written and a
namespace that is going never goes by itself; a restart always forgets what can be watched; and
``compact`` is etcd's, so that pages expire, while watches go on from the server's memory.
"""

import contextlib
import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

import pytest
from helpers.apiserver import USER, Auth, find_resource
from helpers.apiserver_access import ServiceAccountFiles, certificate_user, write_kubeconfig
from helpers.apiserver_certs import Authority
from helpers.apiserver_crd import CLUSTER_POLICY_CRD, Channel, definition
from helpers.apiserver_load import Churn, namespace_names
from helpers.apiserver_pods import managed_fields, node
from helpers.apiserver_store import Key
from helpers.apiserver_types import (
    CLUSTER_POLICIES,
    LEASES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PODS,
    SERVICES,
    ApiError,
    Doc,
)
from helpers.envtest_programs import MISSING, Programs
from helpers.tcpproxy import Proxy

needs_real_server = pytest.mark.skipif(bool(MISSING), reason=MISSING)

_ADMIN = "admin-token"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_MERGE = "application/merge-patch+json"


class RealServer:
    """etcd and kube-apiserver, while it is entered. ``token`` is that of ``user``."""

    def __init__(self, *, token: str = "token-1", user: str = USER) -> None:
        self.token = token
        self.user = user
        self._lock = threading.Lock()
        self._connection: http.client.HTTPSConnection | None = None
        self._programs = Programs({_ADMIN: ("admin", "system:masters"), token: (user, "")})
        self.proxy = Proxy(self._programs.port)

    def __enter__(self) -> Self:
        try:
            self._programs.prepare()
            self._context = ssl.create_default_context(cafile=self.ca)
            self._start(etcd=True)
            self._allow_all()
            self.apply(_named("v1", "Namespace", "default"))
            self.proxy.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.close()
        self._stop(etcd=True)
        self._programs.remove()

    def _start(self, *, etcd: bool = False) -> None:
        if etcd:
            self._programs.start_etcd()
        self._programs.start_server(lambda: self._ask("GET", "/readyz")[0] == 200)

    def _stop(self, *, etcd: bool = False) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
        self._programs.stop("kube-apiserver")
        if etcd:
            self._programs.stop("etcd")

    @property
    def authority(self) -> Authority:
        """Who signed its certificate."""
        return self._programs.authority

    # How to reach it

    @property
    def port(self) -> int:
        """Where clients connect."""
        return self.proxy.port

    @property
    def url(self) -> str:
        """Without a slash at the end."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca(self) -> str:
        """The file of who signed its certificate."""
        return str(self.authority.pair.cert)

    def kubeconfig(self, path: Path, *, auth: Auth = "token", inline: bool = True) -> Path:
        """Write one; see ``ApiServer``."""
        user: Doc = {}
        if auth == "token":
            user["token"] = self.token
        elif auth == "token-file":
            file = path.with_name(path.name + ".token")
            file.write_text(self.token)
            user["tokenFile"] = str(file)
        elif auth == "certificate":
            user = certificate_user(self.authority.client(self.user), inline=inline)
        return write_kubeconfig(path, self.url, user, self.authority.pair.cert, inline=inline)

    def service_account(self, directory: Path, namespace: str = "kube-system") -> dict[str, str]:
        """Write what a pod has mounted; the environment that it has."""
        ServiceAccountFiles(directory, self.authority.pair.cert, namespace).write(self.token)
        host = {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}
        return host | {"KUBERNETES_SERVICE_PORT": str(self.port)}

    # Asking it as an administrator, not through the proxy

    def _ask(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {_ADMIN}", "Content-Type": kind}
        with self._lock:
            if self._connection is None:
                self._connection = http.client.HTTPSConnection(
                    "127.0.0.1", self._programs.port, timeout=60, context=self._context
                )
            try:
                text = None if body is None else json.dumps(body)
                self._connection.request(method, path, text, headers)
                answer = self._connection.getresponse()
                raw = answer.read()
            except (OSError, http.client.HTTPException):
                self._connection.close()
                self._connection = None
                raise
        if answer.getheader("Content-Type", "").startswith("application/json"):
            return answer.status, json.loads(raw)
        return answer.status, raw.decode(errors="replace")

    def _done(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> Any:
        code, answer = self._ask(method, path, body, kind)
        if code < 300:
            return answer
        if isinstance(answer, dict):
            raise ApiError(
                code,
                answer.get("reason", ""),
                answer.get("message", ""),
                answer.get("details", {}),
            )
        raise ApiError(code, "", str(answer))

    def _there(self, path: str) -> Doc | None:
        code, answer = self._ask("GET", path)
        return answer if code == 200 else None

    # Objects

    def apply(self, doc: Doc, *, bulk: bool = False) -> Doc:
        """Create or change it so that it is this, with its status; as it is served."""
        resource = find_resource(doc["kind"])
        metadata = {
            key: value
            for key, value in doc["metadata"].items()
            if key
            not in {"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"}
            and not key.startswith("deletion")
        }
        if bulk:
            metadata["managedFields"] = managed_fields(doc)
        namespace = metadata.setdefault("namespace", "default") if resource.namespaced else ""
        if namespace and self._there(NAMESPACES.path(name=namespace)) is None:
            self._done("POST", NAMESPACES.path(), _named("v1", "Namespace", namespace))
        path = resource.path(namespace, metadata["name"])
        wanted = {**doc, "metadata": metadata}
        if resource == PODS and not wanted.get("spec", {}).get("containers"):
            containers = [{"name": "main", "image": "registry.example.com/main"}]
            wanted["spec"] = {**wanted.get("spec", {}), "containers": containers}
        before = self._there(path)
        if before is None:
            made: Doc = self._done("POST", resource.path(namespace), wanted)
        elif resource == PODS:
            made = self._change_pod(path, before, wanted)
        else:
            metadata["resourceVersion"] = before["metadata"]["resourceVersion"]
            made = self._done("PUT", path, {**before, **wanted})
        if doc.get("status") and resource.status:
            status = {"status": doc["status"]}
            made = self._done("PATCH", f"{path}/status", status, _MERGE)
        if "deletionTimestamp" in doc["metadata"] and "deletionTimestamp" not in made["metadata"]:
            made = self.terminate(doc["kind"], namespace, metadata["name"])
        return made

    def _change_pod(self, path: str, before: Doc, wanted: Doc) -> Doc:
        """Of a pod that is there only labels, annotations and (once) the node can change."""
        place = wanted["spec"].get("nodeName")
        if place and not before["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": place}
            binding = _named("v1", "Binding", wanted["metadata"]["name"]) | {"target": target}
            self._done("POST", f"{path}/binding", binding)
        patch: Doc = {}
        for key in ("labels", "annotations"):
            old = before["metadata"].get(key) or {}
            new = wanted["metadata"].get(key) or {}
            patch[key] = dict.fromkeys(old) | new
        made: Doc = self._done("PATCH", path, {"metadata": patch}, _MERGE)
        return made

    def delete(self, kind: str, namespace: str, name: str) -> Doc:
        """Delete it at once."""
        resource = find_resource(kind)
        path = resource.path(namespace, name)
        answer: Doc = self._done("DELETE", path, _now(0))
        if resource == NAMESPACES:
            self._done("PUT", f"{path}/finalize", _named("v1", "Namespace", name) | {"spec": {}})
        return answer

    def patch(self, kind: str, namespace: str, name: str, patch: Doc) -> Doc:
        """Merge into it, status too."""
        resource = find_resource(kind)
        path = resource.path(namespace, name)
        made: Doc = self._done("PATCH", path, patch, _MERGE)
        if "status" in patch and resource.status:
            made = self._done("PATCH", f"{path}/status", {"status": patch["status"]}, _MERGE)
        return made

    def terminate(self, kind: str, namespace: str, name: str, seconds: int = 30) -> Doc:
        """It is going: a pod needs a node for that."""
        made: Doc = self._done("DELETE", find_resource(kind).path(namespace, name), _now(seconds))
        return made

    def get(self, kind: str, namespace: str, name: str) -> Doc:
        """The object as it is served."""
        made: Doc = self._done("GET", find_resource(kind).path(namespace, name))
        return made

    def state(self, kind: str) -> dict[Key, Doc]:
        """All of a kind, by namespace ("" for none) and name."""
        items = self._done("GET", find_resource(kind).path())["items"]
        return {(i["metadata"].get("namespace", ""), i["metadata"]["name"]): i for i in items}

    @property
    def revision(self) -> int:
        """The newest resourceVersion."""
        page = self._done("GET", f"{LEASES.path()}?{urlencode({'limit': 1})}")
        return int(page["metadata"]["resourceVersion"])

    def install_crd(self, channel: Channel) -> None:
        """ClusterNetworkPolicy is there from now on, or changes to this channel."""
        doc = definition(channel)
        path = f"{_CRDS}/{CLUSTER_POLICY_CRD}"
        before = self._there(path)
        if before is None:
            self._done("POST", _CRDS, doc)
        else:
            doc["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
            self._done("PUT", path, doc)
        _until(lambda: self._ask("GET", CLUSTER_POLICIES.path())[0] == 200)

    def remove_crd(self) -> None:
        """It is there no more, and neither are its objects."""
        self._done("DELETE", f"{_CRDS}/{CLUSTER_POLICY_CRD}")
        _until(lambda: self._ask("GET", CLUSTER_POLICIES.path())[0] == 404)

    def wipe(self) -> None:
        """Nothing of what tests make is left; the CRD neither."""
        for resource in (PODS, SERVICES, NETWORK_POLICIES, LEASES, NODES):
            for namespace, name in self.state(resource.plural):
                if (namespace, name) != ("default", "kubernetes"):
                    self.delete(resource.plural, namespace, name)
        for _, name in self.state("namespaces"):
            if name != "default" and not name.startswith("kube-"):
                self.delete("namespaces", "", name)
        if self._there(f"{_CRDS}/{CLUSTER_POLICY_CRD}") is not None:
            self.remove_crd()
        self._allow_all()

    def new_churn(
        self,
        rate: float | None = None,
        seconds: float | None = None,
        seed: int = 0,
        *,
        events: int | None = None,
        living: int = 40,
    ) -> Churn:
        """Pods that come and go; not started."""
        places = [node(index)[1] for index in range(3)]
        return Churn(
            self,
            places,
            namespace_names(3),
            rate=rate,
            seconds=seconds,
            events=events,
            seed=seed,
            living=living,
        )

    def churn(
        self,
        rate: float | None = None,
        seconds: float | None = None,
        seed: int = 0,
        *,
        events: int | None = None,
    ) -> int:
        """The same, waited for; how many events there were."""
        return self.new_churn(rate, seconds, seed, events=events).run()

    # Who may do what

    def _allow_all(self) -> None:
        rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        self.use_rbac([*_role("everything", rules, self.user)])

    def use_rbac(self, documents: Iterable[Doc], user: str | None = None) -> None:
        """Only what these Roles, ClusterRoles and their bindings give to the client."""
        assert user in {None, self.user}, "the user is chosen when the server starts"
        mark = "tests.example/rbac"
        for doc in documents:
            kind = doc["kind"].lower() + "s"
            where = doc["metadata"].get("namespace", "") if doc["kind"].startswith("Role") else ""
            base = f"{_RBAC}/namespaces/{where}/{kind}" if where else f"{_RBAC}/{kind}"
            made = {"apiVersion": "rbac.authorization.k8s.io/v1", **doc}
            made["metadata"] = {**doc["metadata"], "labels": {mark: "new"}}
            path = f"{base}/{doc['metadata']['name']}"
            if self._there(path) is not None:
                self._done("DELETE", path)
            self._done("POST", base, made)
        for kind in ("clusterrolebindings", "rolebindings", "clusterroles", "roles"):
            for item in self._done("GET", f"{_RBAC}/{kind}?labelSelector={mark}%3Dold")["items"]:
                self._done("DELETE", _rbac_path(kind, item))
            for item in self._done("GET", f"{_RBAC}/{kind}?labelSelector={mark}%3Dnew")["items"]:
                labels = {"metadata": {"labels": {mark: "old"}}}
                self._done("PATCH", _rbac_path(kind, item), labels, _MERGE)

    # Faults

    def drop_watches(self) -> None:
        """Reset every client's connection, in the middle of whatever is being said."""
        self.proxy.drop()

    @contextlib.contextmanager
    def frozen_for_now(self) -> Iterator[None]:
        """Silent inside of this."""
        self.proxy.freeze()
        try:
            yield
        finally:
            self.proxy.thaw()

    @contextlib.contextmanager
    def outage(self, *, history: bool = True) -> Iterator[None]:
        """Away inside of this; without ``history`` the server is started anew."""
        self.proxy.stop()
        try:
            yield
        finally:
            if not history:
                self._stop()
                self._start()
            self.proxy.start()

    def compact(self) -> None:
        """Have etcd forget what was before now."""
        self._programs.compact()

    def backup(self) -> Path:
        """Of etcd's files; the server is away for it."""
        self.proxy.stop()
        self._stop(etcd=True)
        copy = self._programs.backup()
        self._start(etcd=True)
        self.proxy.start()
        return copy

    def restart(self, *, backup: Path | None = None) -> None:
        """Away and back; with a backup as it was then: versions are lower and come again."""
        self.proxy.stop()
        self._stop(etcd=backup is not None)
        if backup is not None:
            self._programs.restore(backup)
        self._start(etcd=backup is not None)
        self.proxy.start()


def _now(seconds: int) -> Doc:
    return {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": seconds}


def _named(version: str, kind: str, name: str) -> Doc:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def _role(name: str, rules: list[Doc], user: str) -> list[Doc]:
    group = "rbac.authorization.k8s.io"
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": group, "kind": "User", "name": user}
    metadata = {"metadata": {"name": name}}
    return [
        {"kind": "ClusterRole", **metadata, "rules": rules},
        {"kind": "ClusterRoleBinding", **metadata, "roleRef": reference, "subjects": [subject]},
    ]


def _rbac_path(kind: str, item: Doc) -> str:
    where = item["metadata"].get("namespace", "")
    middle = f"/namespaces/{where}" if where else ""
    return f"{_RBAC}{middle}/{kind}/{item['metadata']['name']}"


def _until(check: Any) -> None:
    end = time.monotonic() + 30
    while not check():
        assert time.monotonic() < end, "the server did not take it within 30 s"
        time.sleep(0.02)
