"""The tests' API server and the real one answer alike.

Every test here runs against both, so that what other tests learn from the first is true; the
second is there where KUBEBUILDER_ASSETS says so.
"""

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from helpers.apiserver import ApiServer
from helpers.apiserver_store import decode
from helpers.apiserver_types import PODS, ApiError
from helpers.envtest import RealServer, needs_real_server
from helpers.kubehttp import (
    CNPS,
    LEASES,
    Client,
    cluster_policy,
    condition,
    lease,
    names,
    namespace,
    once,
    pod,
    watching,
)
from helpers.tcpproxy import Proxy

MERGE = "application/merge-patch+json"
GOING = (OSError, http.client.HTTPException)

Server = ApiServer | RealServer


@pytest.fixture(scope="module")
def real() -> Iterator[RealServer]:
    with RealServer() as server:
        yield server


@pytest.fixture(params=["fake", pytest.param("real", marks=needs_real_server)])
def api(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param == "real":
        server: RealServer = request.getfixturevalue("real")
        server.wipe()
        for name in "ab":
            server.apply(namespace(name))
        yield server
        return
    with ApiServer(tls=True) as fake:
        for name in ("default", "kube-system", "a", "b"):
            fake.apply(namespace(name))
        yield fake


@pytest.fixture
def client(api: Server) -> Iterator[Client]:
    made = Client(api)
    yield made
    made.close()


def fill(api: Server, count: int = 5) -> None:
    for index in range(count):
        api.apply(pod(f"a/p{index}"))


def refused(api: Server, doc: dict[str, Any]) -> ApiError:
    with pytest.raises(ApiError) as raised:
        api.apply(doc)
    return raised.value


# Lists


def test_shapes_of_lists(api: Server, client: Client) -> None:
    api.install_crd("experimental")
    fill(api, 1)
    api.apply(cluster_policy("open"))
    _, pods = client.get("/api/v1/pods")
    assert list(pods) == ["kind", "apiVersion", "metadata", "items"]
    assert (pods["kind"], "kind" in pods["items"][0]) == ("PodList", False)
    _, policies = client.get(CNPS)
    assert list(policies) == ["apiVersion", "items", "kind", "metadata"]
    item = policies["items"][0]
    assert (item["kind"], item["metadata"]["generation"]) == ("ClusterNetworkPolicy", 1)
    assert "note" not in item["spec"]["egress"][0], "pruned"


def test_pages_show_what_there_was_at_the_first(api: Server, client: Client) -> None:
    fill(api)
    path = "/api/v1/namespaces/a/pods"
    _, first = client.get(path, limit=2)
    assert first["metadata"]["remainingItemCount"] == 3
    api.delete("Pod", "a", "p3")
    api.apply(pod("a/p2b"))
    _, second = client.get(path, limit=2, continue_=first["metadata"]["continue"])
    _, third = client.get(path, limit=2, continue_=second["metadata"]["continue"])
    assert [names(page) for page in (first, second, third)] == [["p0", "p1"], ["p2", "p3"], ["p4"]]
    assert len({page["metadata"]["resourceVersion"] for page in (first, second, third)}) == 1
    assert "continue" not in third["metadata"]


def test_a_page_that_comes_too_late(api: Server, client: Client) -> None:
    fill(api)
    path = "/api/v1/namespaces/a/pods"
    _, first = client.get(path, limit=2)
    api.delete("Pod", "a", "p3")
    api.compact()
    code, status = client.get(path, limit=2, continue_=first["metadata"]["continue"])
    assert (code, status["reason"], status["code"]) == (410, "Expired", 410)
    _, rest = client.get(path, continue_=status["metadata"]["continue"])
    assert names(rest) == ["p2", "p4"]


def test_the_cache_knows_no_pages(api: Server, client: Client) -> None:
    fill(api, 3)
    end = time.monotonic() + 10
    while True:  # a real cache may lag a little behind
        _, page = client.get("/api/v1/namespaces/a/pods", limit=2, resourceVersion=0)
        if len(page["items"]) == 3 or time.monotonic() > end:
            break
    assert sorted(names(page)) == ["p0", "p1", "p2"], "a cache need not keep an order"


def test_versions_of_a_list(api: Server, client: Client) -> None:
    path = "/api/v1/namespaces/a/pods"
    version = int(api.apply(pod("a/p"))["metadata"]["resourceVersion"])
    api.apply(pod("a/q"))
    exact = {"resourceVersionMatch": "Exact"}
    assert names(client.get(path, resourceVersion=version, limit=9, **exact)[1]) == ["p"]
    assert names(client.get(path, resourceVersion=version, limit=9)[1]) == ["p"], "as of old"
    assert sorted(names(client.get(path, resourceVersion=version)[1])) == ["p", "q"]
    code, status = client.get(path, resourceVersion=version + 100_000)
    assert (code, status["reason"]) == (504, "Timeout")
    assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert "Too large resource version" in status["message"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"fieldSelector": "spec.nodeName=n1"}, ["p1", "p2"]),
        ({"fieldSelector": "spec.nodeName!=n1,metadata.namespace=b"}, ["p3"]),
        ({"fieldSelector": "metadata.name=p2"}, ["p2"]),
        ({"labelSelector": "app!=x,app"}, ["p2"]),
        ({"labelSelector": "app in (x,y),!gone"}, ["p1", "p2"]),
        ({"labelSelector": "app notin (x, y)"}, ["p3"]),
    ],
)
def test_selectors(api: Server, client: Client, query: dict[str, str], found: list[str]) -> None:
    api.apply(pod("a/p1", "n1", app="x"))
    api.apply(pod("a/p2", "n1", app="y"))
    api.apply(pod("b/p3", "n2"))
    assert names(client.get("/api/v1/pods", **query)[1]) == found


def test_an_unknown_field_cannot_select(client: Client) -> None:
    code, status = client.get("/api/v1/pods", fieldSelector="spec.color=red")
    assert (code, status["reason"]) == (400, "BadRequest")
    assert "field label not supported: spec.color" in status["message"]


def test_defaults_of_network_policies(api: Server) -> None:
    port = {"port": 80}
    made = api.apply(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "np", "namespace": "a"},
            "spec": {"podSelector": {}, "egress": [{"ports": [port]}]},
        }
    )
    assert made["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert made["spec"]["egress"][0]["ports"] == [port | {"protocol": "TCP"}]
    assert made["metadata"]["generation"] == 1


# Watches


def test_a_watch_goes_on_where_a_list_ended(api: Server, client: Client) -> None:
    path = "/api/v1/namespaces/a/pods"
    api.apply(pod("a/before"))
    _, page = client.get(path)
    api.apply(pod("a/between"))
    with watching(api, path, resourceVersion=page["metadata"]["resourceVersion"]) as watch:
        assert watch.answer.getheader("Transfer-Encoding") == "chunked"
        last = api.apply(pod("a/between", app="x"))
        same = api.apply(pod("a/between", app="x"))
        assert same["metadata"]["resourceVersion"] == last["metadata"]["resourceVersion"]
        api.apply(pod("b/elsewhere"))
        api.delete("Pod", "a", "between")
        assert watch.names(2) == [("ADDED", "between"), ("MODIFIED", "between")]
        going = watch.event()
        assert going is not None
        assert (going[0], going[1]["metadata"]["deletionGracePeriodSeconds"]) == ("MODIFIED", 0)
        event = watch.event()
        assert event is not None
        assert (event[0], event[1]["kind"]) == ("DELETED", "Pod")
        version = int(event[1]["metadata"]["resourceVersion"])
        assert version > int(last["metadata"]["resourceVersion"]), "that of its end"


def test_a_watch_from_nowhere_begins_with_what_there_is(api: Server) -> None:
    api.apply(pod("a/p"))
    for start in ({}, {"resourceVersion": "0"}):
        with watching(api, "/api/v1/namespaces/a/pods", **start) as watch:
            assert watch.names(1) == [("ADDED", "p")]


def test_leaving_a_selection_is_being_deleted(api: Server) -> None:
    start = {"resourceVersion": api.revision, "labelSelector": "app=x"}
    with watching(api, "/api/v1/pods", **start) as watch:
        for app in ("y", "x", "y"):
            last = api.apply(pod("a/p", app=app))
        assert watch.names(1) == [("ADDED", "p")]
        event = watch.event()
        assert event is not None
        assert event[0] == "DELETED"
        assert event[1]["metadata"]["labels"] == {"app": "x"}, "as it was while it was selected"
        assert event[1]["metadata"]["resourceVersion"] == last["metadata"]["resourceVersion"]


def test_a_watch_that_is_too_old(api: Server) -> None:
    start = api.revision
    fill(api)
    with api.outage(history=False):
        pass
    with watching(api, "/api/v1/pods", resourceVersion=start) as watch:
        assert watch.answer.status == 200
        event = watch.event()
        assert event is not None
        kind, status = event
        assert (kind, status["kind"], status["code"]) == ("ERROR", "Status", 410)
        assert status["reason"] == "Expired"
        assert status["message"].startswith(f"too old resource version: {start} (")
        assert watch.event() is None


def test_a_watch_from_a_version_not_reached_yet_is_silent(api: Server) -> None:
    ahead = api.revision + 3
    with watching(api, "/api/v1/pods", resourceVersion=ahead) as watch:
        assert watch.answer.status == 200
        for index in range(4):
            api.apply(namespace(f"x{index}"))
        api.apply(pod("a/p"))
        assert watch.names(1) == [("ADDED", "p")]
    with watching(api, "/api/v1/pods", resourceVersion=api.revision + 2) as watch:
        fill(api, 4)
        first = watch.event()
        assert first is not None
        assert first[1]["metadata"]["name"] != "p0", "who asks for the future misses the present"


NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}


@pytest.mark.parametrize(
    ("path", "doc"),
    [("/api/v1/pods", pod("a/p")), ("/api/v1/nodes", NODE), (CNPS, cluster_policy("open"))],
)
def test_the_last_bookmark_of_a_watch(api: Server, path: str, doc: dict[str, Any]) -> None:
    api.install_crd("experimental")
    seconds = 4 if isinstance(api, RealServer) else 1
    asked = {"allowWatchBookmarks": "true", "timeoutSeconds": seconds}
    for attempt in range(3):  # a real server promises none
        with watching(api, path, resourceVersion=api.revision, **asked) as watch:
            doc["metadata"]["labels"] = {"attempt": str(attempt)}
            made = api.apply(doc)
            events = list(iter(watch.event, None))
            watch.answer.read()
            assert watch.client.get("/healthz") == (200, "ok"), "the connection goes on"
        if len(events) == 2:
            break
    assert [kind for kind, _ in events][1:] == ["BOOKMARK"]
    found = events[-1][1]
    assert found["metadata"].pop("resourceVersion") == made["metadata"]["resourceVersion"]
    if path == CNPS:
        assert found["metadata"] == {}
    else:
        assert found["metadata"] == {"creationTimestamp": None}
        assert {"spec", "status"} <= found.keys()
    if path == "/api/v1/pods":
        assert found["spec"] == {"containers": None}


# Writes


def test_leases_are_held_by_one(client: Client) -> None:
    code, made = client.ask("POST", LEASES, lease("knp", "one"))
    assert code == 201
    code, status = client.ask("POST", LEASES, lease("knp", "two"))
    assert (code, status["reason"]) == (409, "AlreadyExists")
    assert status["message"] == 'leases.coordination.k8s.io "knp" already exists'
    version = made["metadata"]["resourceVersion"]
    code, renewed = client.ask("PUT", f"{LEASES}/knp", lease("knp", "one again", version))
    assert (code, renewed["metadata"]["uid"]) == (200, made["metadata"]["uid"])
    code, status = client.ask("PUT", f"{LEASES}/knp", lease("knp", "two", version))
    assert (code, status["reason"]) == (409, "Conflict")
    assert status["message"] == (
        'Operation cannot be fulfilled on leases.coordination.k8s.io "knp": the object has been '
        "modified; please apply your changes to the latest version and try again"
    )
    assert status["details"] == {
        "name": "knp",
        "group": "coordination.k8s.io",
        "kind": "leases",
    }
    assert client.ask("PUT", f"{LEASES}/new", lease("new", "x"))[0] == 201, "an update may create"
    code, answer = client.ask("DELETE", f"{LEASES}/new")
    assert (code, answer["kind"], answer["status"]) == (200, "Status", "Success")
    code, status = client.get(f"{LEASES}/new")
    assert (code, status["message"]) == (404, 'leases.coordination.k8s.io "new" not found')


def test_nothing_is_created_in_a_namespace_that_is_not_there(client: Client) -> None:
    code, status = client.ask("POST", LEASES.replace("/a/", "/absent/"), lease("knp", "one"))
    assert (code, status["message"]) == (404, 'namespaces "absent" not found')


def test_events_are_posted_and_counted(client: Client) -> None:
    path = "/api/v1/namespaces/default/events"
    about = {"kind": "ClusterNetworkPolicy", "name": "open", "namespace": "default"}
    event = {"kind": "Event", "apiVersion": "v1", "count": 1, "reason": "Refused"}
    event |= {"involvedObject": about, "metadata": {"generateName": "policy."}}
    code, made = client.ask("POST", path, event)
    assert code == 201, made
    name = made["metadata"]["name"]
    for kind in (MERGE, "application/strategic-merge-patch+json"):
        code, patched = client.ask("PATCH", f"{path}/{name}", {"count": 2}, kind)
        assert (code, patched["count"], patched["reason"]) == (200, 2, "Refused")
    assert client.ask("DELETE", f"{path}/{name}")[0] == 200


def test_status_is_written_apart_from_the_rest(api: Server, client: Client) -> None:
    api.install_crd("experimental")
    api.apply(cluster_policy("open"))
    patch = {"status": {"conditions": [condition("Accepted", "True")]}, "spec": {"priority": 9}}
    code, found = client.ask("PATCH", f"{CNPS}/open/status", patch, MERGE)
    assert (code, found["spec"]["priority"]) == (200, 5)
    assert found["status"]["conditions"][0]["status"] == "True"
    assert found["metadata"]["generation"] == 1
    code, found = client.ask("PATCH", f"{CNPS}/open", patch | {"status": None}, MERGE)
    assert (code, found["spec"]["priority"], found["metadata"]["generation"]) == (200, 9, 2)
    assert found["status"]["conditions"]
    strategic = "application/strategic-merge-patch+json"
    code, status = client.ask("PATCH", f"{CNPS}/open", patch, strategic)
    assert (code, status["reason"]) == (415, "UnsupportedMediaType")
    broken = {"status": {"conditions": [{"type": "Accepted"}]}}
    code, status = client.ask("PATCH", f"{CNPS}/open/status", broken, MERGE)
    assert (code, status["reason"]) == (422, "Invalid")
    code, status = client.ask("PATCH", f"{CNPS}/absent/status", patch, MERGE)
    assert (code, status["reason"]) == (404, "NotFound")


def test_applied_status_belongs_to_who_applied_it(api: Server, client: Client) -> None:
    api.install_crd("experimental")
    api.apply(cluster_policy("open"))

    def apply(manager: str, *conditions: dict[str, Any], force: bool = False) -> tuple[int, Any]:
        body = {key: cluster_policy("open")[key] for key in ("apiVersion", "kind", "metadata")}
        body["status"] = {"conditions": list(conditions)}
        query = {"force": str(force).lower()} | ({"fieldManager": manager} if manager else {})
        path = f"{CNPS}/open/status?{urlencode(query)}"
        return client.ask("PATCH", path, body, "application/apply-patch+yaml")

    def types() -> list[str]:
        status = api.get("clusternetworkpolicies", "", "open")["status"]
        return sorted(entry["type"] for entry in status["conditions"])

    assert apply("one", condition("Accepted", "True"), condition("Partial", "False"))[0] == 200
    assert apply("two", condition("Other", "True"))[0] == 200
    assert types() == ["Accepted", "Other", "Partial"]
    code, status = apply("two", condition("Accepted", "False"))
    assert (code, status["reason"]) == (409, "Conflict")
    assert '.status.conditions[type="Accepted"].status' in status["message"]
    assert apply("one", condition("Accepted", "True"))[0] == 200
    assert types() == ["Accepted", "Other"], "what is applied no more is gone"
    assert apply("two", condition("Accepted", "False"), force=True)[0] == 200
    found = api.get("clusternetworkpolicies", "", "open")["status"]["conditions"]
    assert [entry["status"] for entry in found] == ["False"]
    code, status = apply("", condition("Accepted", "True"))
    assert 400 <= code < 500
    assert "fieldManager" in status["message"]


# Who may


def test_tokens(api: Server) -> None:
    assert once(api, "/api/v1/pods")[0] == 200
    code, status = once(api, "/api/v1/pods", "wrong")
    assert (code, status["reason"], status["message"]) == (401, "Unauthorized", "Unauthorized")
    code, status = once(api, "/api/v1/pods", "")
    assert (code, status["reason"]) == (403, "Forbidden")
    assert 'User "system:anonymous" cannot list resource "pods"' in status["message"]
    assert once(api, "/healthz", "") == (200, "ok")
    assert once(api, "/version", "")[0] == 200


ROLES = """
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [pods], verbs: [list, watch]}
- apiGroups: [policy.networking.k8s.io]
  resources: [clusternetworkpolicies/status]
  verbs: [patch]
---
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, name: knp, namespace: kube-system}]
---
kind: Role
metadata: {name: dns, namespace: kube-system}
rules:
- {apiGroups: [""], resources: [services], resourceNames: [kube-dns], verbs: [list, watch]}
---
kind: RoleBinding
metadata: {name: dns, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: dns}
subjects: [{kind: ServiceAccount, name: knp, namespace: kube-system}]
"""


def test_roles_as_they_are_installed(api: Server, client: Client) -> None:
    api.use_rbac(list(yaml.safe_load_all(ROLES)))
    services = "/api/v1/namespaces/kube-system/services"
    end = time.monotonic() + 10  # a real server hears of its own roles a little later
    while client.get("/api/v1/nodes")[0] != 403 or client.get("/api/v1/pods")[0] != 200:
        assert time.monotonic() < end
    assert client.get("/api/v1/namespaces/a/pods")[0] == 200
    code, status = client.get("/api/v1/nodes")
    assert (code, status["reason"], status["details"]) == (403, "Forbidden", {"kind": "nodes"})
    assert status["message"] == (
        'nodes is forbidden: User "system:serviceaccount:kube-system:knp" cannot list resource '
        '"nodes" in API group "" at the cluster scope'
    )
    code, status = client.get(LEASES + "/knp")
    assert status["message"] == (
        'leases.coordination.k8s.io "knp" is forbidden: User '
        '"system:serviceaccount:kube-system:knp" cannot get resource "leases" in API group '
        '"coordination.k8s.io" in the namespace "a"'
    )
    assert status["details"] == {"name": "knp", "group": "coordination.k8s.io", "kind": "leases"}
    assert client.get("/api/v1/namespaces/a/pods/p")[0] == 403, "get is not list"
    assert client.get(services, fieldSelector="metadata.name=kube-dns")[0] == 200
    assert client.get(services)[0] == 403
    code, status = client.get(CNPS)
    assert code == 403, "also when there is no such thing"
    asked = {"group": "policy.networking.k8s.io", "resource": "clusternetworkpolicies"}
    for subresource, allowed in (("status", True), ("", False)):
        attributes = asked | {"verb": "patch", "subresource": subresource}
        review = {
            "kind": "SelfSubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "spec": {"resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        code, answer = client.ask("POST", path, review)
        assert (code, answer["status"]["allowed"]) == (201, allowed)


# The CRD


def test_the_definition_comes_and_goes(api: Server, client: Client) -> None:
    assert client.get(CNPS) == (404, "404 page not found\n")
    assert client.get(CNPS, watch=1) == (404, "404 page not found\n")
    api.install_crd("experimental")
    assert client.get(CNPS)[1]["items"] == []
    with watching(api, CNPS, resourceVersion=api.revision) as watch:
        api.apply(cluster_policy("open"))
        api.remove_crd()
        assert watch.names(2) == [("ADDED", "open"), ("DELETED", "open")]
        assert watch.event() is None
    assert client.get(CNPS)[0] == 404
    api.install_crd("standard")
    assert client.get(CNPS)[1]["items"] == []


def test_the_standard_channel_knows_no_names(api: Server, client: Client) -> None:
    api.install_crd("standard")
    error = refused(api, cluster_policy("names", "example.com"))
    assert (error.code, error.reason) == (422, "Invalid")
    assert "spec.egress" in error.message
    assert "in body should have at least 1 properties" in error.message
    api.install_crd("experimental")
    end = time.monotonic() + 10
    while True:  # a real server takes a moment to serve the new schema
        with contextlib.suppress(ApiError):
            api.apply(cluster_policy("names", "example.com"))
            break
        assert time.monotonic() < end
    with watching(api, CNPS, resourceVersion=api.revision) as watch:
        if isinstance(api, ApiServer):
            api.wait_watches(1)
        api.install_crd("standard")
        assert watch.event() is None, "watches of the old definition end"
    page = client.get(CNPS)[1]
    assert page["items"][0]["spec"]["egress"][0]["to"] == [{}], "as it is read now"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tier": "Low"}, "spec.tier: Unsupported value"),
        ({"priority": 1001}, "spec.priority"),
        ({"priority": "1"}, "must be of type integer"),
        ({"subject": {}}, "spec.subject in body should have at least 1 properties"),
        ({"ingress": [{"action": "Accept"}]}, "spec.ingress"),
    ],
)
def test_what_the_schema_refuses(api: Server, change: dict[str, Any], said: str) -> None:
    api.install_crd("experimental")
    policy = cluster_policy("open")
    policy["spec"] |= change
    error = refused(api, policy)
    assert (error.code, error.reason) == (422, "Invalid")
    assert said in error.message


def test_discovery(api: Server, client: Client) -> None:
    group = "policy.networking.k8s.io"
    assert client.get("/api")[1]["versions"] == ["v1"]
    assert group not in [found["name"] for found in client.get("/apis")[1]["groups"]]
    assert client.get(f"/apis/{group}/v1alpha2")[0] == 404
    api.install_crd("experimental")
    end = time.monotonic() + 10
    while group not in [found["name"] for found in client.get("/apis")[1]["groups"]]:
        assert time.monotonic() < end
    _, listed = client.get(f"/apis/{group}/v1alpha2")
    assert [found["name"] for found in listed["resources"]] == [
        "clusternetworkpolicies",
        "clusternetworkpolicies/status",
    ]


# Trouble


@pytest.mark.parametrize("history", [True, False])
def test_an_outage(api: Server, *, history: bool) -> None:
    with watching(api, "/api/v1/pods", resourceVersion=api.revision) as watch:
        with api.outage(history=history):
            with pytest.raises(ConnectionRefusedError):
                once(api, "/healthz")
            with pytest.raises(GOING):
                watch.answer.read()
        assert once(api, "/healthz") == (200, "ok")


def test_a_connection_that_is_reset(api: Server) -> None:
    with watching(api, "/api/v1/pods", resourceVersion=api.revision) as watch:
        if isinstance(api, ApiServer):
            api.wait_watches(1)
        api.drop_watches()
        with pytest.raises(GOING):
            watch.answer.read()


def test_silence(api: Server, client: Client) -> None:
    assert client.get("/healthz")[0] == 200
    assert client.connection.sock is not None
    with api.frozen_for_now():
        client.connection.sock.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.get("/healthz")
    client.close()
    assert once(api, "/healthz") == (200, "ok")


def test_a_restored_backup_gives_versions_again(api: Server) -> None:
    backup = api.backup()
    fill(api)
    seen = api.revision
    if isinstance(api, RealServer):
        assert not isinstance(backup, tuple)
        api.restart(backup=backup)
    else:
        assert isinstance(backup, tuple)
        api.restart(backup=backup)
    assert api.revision < seen
    assert api.state("Pod") == {}


def test_churn_ends_in_what_a_list_gives(api: Server, client: Client) -> None:
    state: dict[str, str] = {}
    with watching(api, "/api/v1/pods", resourceVersion=api.revision) as watch:
        assert api.churn(events=120, seed=3) == 120
        last = api.apply(pod("a/last"))
        while (event := watch.event()) is not None:
            kind, doc = event
            if kind == "DELETED":
                del state[doc["metadata"]["name"]]
            else:
                state[doc["metadata"]["name"]] = doc["metadata"]["resourceVersion"]
            if doc["metadata"]["uid"] == last["metadata"]["uid"]:
                break
    _, page = client.get("/api/v1/pods")
    found = {i["metadata"]["name"]: i["metadata"]["resourceVersion"] for i in page["items"]}
    assert state == found


# The proxy that stands before the real server


def test_the_proxy_passes_everything_on_and_can_stop() -> None:
    with ApiServer() as api:
        proxy = Proxy(api.port)
        proxy.start()
        try:
            with socket.create_connection(("127.0.0.1", proxy.port)) as one:
                one.sendall(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
                text = b"".join(iter(lambda: one.recv(4096), b""))
            assert text.endswith(b"\r\n\r\nok")
            with socket.create_connection(("127.0.0.1", proxy.port)) as one:
                reader = threading.Thread(target=lambda: _reset(one))
                reader.start()
                while proxy.connections == 0:
                    time.sleep(0.001)
                proxy.stop()
                reader.join(60)
                assert not reader.is_alive()
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", proxy.port))
        finally:
            proxy.close()


def _reset(one: socket.socket) -> None:
    with contextlib.suppress(ConnectionResetError):
        assert one.recv(1) == b""


def test_objects_say_the_same_alone_and_in_a_list(api: Server, client: Client) -> None:
    api.apply(pod("a/p"))
    _, alone = client.get("/api/v1/namespaces/a/pods/p")
    _, page = client.get("/api/v1/namespaces/a/pods")
    assert {k: v for k, v in alone.items() if k not in {"kind", "apiVersion"}} == page["items"][0]
    assert alone["kind"] == PODS.kind
    assert decode(json.dumps(alone).encode()) == alone
