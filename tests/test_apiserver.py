"""The API server of the tests behaves as the real one does, and fails when it is told to."""

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from helpers.apiserver import ApiServer
from helpers.apiserver_types import ApiError
from helpers.kubehttp import (
    CNPS,
    LEASES,
    TOKEN,
    Client,
    Watcher,
    cluster_policy,
    condition,
    lease,
    names,
    namespace,
    once,
    pod,
    watching,
)


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as server:
        yield server


@pytest.fixture
def client(api: ApiServer) -> Iterator[Client]:
    made = Client(api)
    yield made
    made.close()


# Lists


def test_a_list_says_its_kind_once_and_a_custom_one_for_each(
    api: ApiServer, client: Client
) -> None:
    api.install_crd("experimental")
    api.apply(pod("a/one"))
    api.apply(cluster_policy("open"))
    _, pods = client.get("/api/v1/pods")
    assert pods["kind"] == "PodList"
    assert "kind" not in pods["items"][0]
    _, policies = client.get(CNPS)
    assert policies["items"][0]["kind"] == "ClusterNetworkPolicy"
    assert list(policies) == ["apiVersion", "items", "kind", "metadata"]
    assert policies["items"][0]["metadata"]["generation"] == 1
    assert "note" not in policies["items"][0]["spec"]["egress"][0]


def test_pages_show_what_there_was_at_the_first(api: ApiServer, client: Client) -> None:
    for index in range(5):
        api.apply(pod(f"a/p{index}"))
    _, first = client.get("/api/v1/pods", limit=2)
    assert first["metadata"]["remainingItemCount"] == 3
    api.delete("Pod", "a", "p3")
    api.apply(pod("a/p2b"))
    token = first["metadata"]["continue"]
    _, second = client.get("/api/v1/pods", limit=2, continue_=token)
    token = second["metadata"]["continue"]
    _, third = client.get("/api/v1/pods", limit=2, continue_=token)
    assert [names(page) for page in (first, second, third)] == [["p0", "p1"], ["p2", "p3"], ["p4"]]
    versions = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert len(versions) == 1
    assert "continue" not in third["metadata"]


def test_a_page_that_comes_too_late(api: ApiServer, client: Client) -> None:
    for index in range(5):
        api.apply(pod(f"a/p{index}"))
    _, first = client.get("/api/v1/pods", limit=2)
    api.delete("Pod", "a", "p3")
    api.compact()
    token = first["metadata"]["continue"]
    code, status = client.get("/api/v1/pods", limit=2, continue_=token)
    assert (code, status["reason"], status["code"]) == (410, "Expired", 410)
    again = status["metadata"]["continue"]
    _, rest = client.get("/api/v1/pods", continue_=again)
    assert names(rest) == ["p2", "p4"], "the rest, as it is now"


def test_pages_can_be_dropped_on_order(api: ApiServer, client: Client) -> None:
    for index in range(3):
        api.apply(pod(f"a/p{index}"))
    _, first = client.get("/api/v1/pods", limit=2)
    api.drop_continues()
    token = first["metadata"]["continue"]
    assert client.get("/api/v1/pods", limit=2, continue_=token)[0] == 410
    assert client.get("/api/v1/pods", limit=2, continue_=token)[0] == 200


def test_the_cache_knows_no_pages(api: ApiServer, client: Client) -> None:
    for index in range(3):
        api.apply(pod(f"a/p{index}"))
    _, page = client.get("/api/v1/pods", limit=2, resourceVersion=0)
    assert len(page["items"]) == 3


def test_versions_of_a_list(api: ApiServer, client: Client) -> None:
    api.apply(pod("a/p"))
    version = api.revision
    api.apply(pod("a/q"))
    path, exact = "/api/v1/pods", {"resourceVersionMatch": "Exact"}
    assert names(client.get(path, resourceVersion=version, **exact)[1]) == ["p"]
    older = {"resourceVersionMatch": "NotOlderThan"}
    assert names(client.get(path, resourceVersion=version, **older)[1]) == ["p", "q"]
    code, status = client.get(path, resourceVersion=version + 10, **older)
    assert (code, status["reason"]) == (504, "Timeout")
    assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert client.get(path, **exact)[0] == 422
    api.compact()
    assert client.get(path, resourceVersion=version, **exact)[0] == 410


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"fieldSelector": "spec.nodeName=n1"}, ["p1", "p2"]),
        ({"fieldSelector": "spec.nodeName!=n1"}, ["p3"]),
        ({"fieldSelector": "metadata.name=p2"}, ["p2"]),
        ({"labelSelector": "app=x"}, ["p1"]),
        ({"labelSelector": "app!=x"}, ["p2", "p3"]),
        ({"labelSelector": "app in (x,y),!gone"}, ["p1", "p2"]),
        ({"labelSelector": "app notin (x, y)"}, ["p3"]),
        ({"labelSelector": "app"}, ["p1", "p2"]),
    ],
)
def test_selectors(
    api: ApiServer, client: Client, query: dict[str, str], found: list[str]
) -> None:
    api.apply(pod("a/p1", "n1", app="x"))
    api.apply(pod("a/p2", "n1", app="y"))
    api.apply(pod("b/p3", "n2"))
    assert names(client.get("/api/v1/pods", **query)[1]) == found


def test_an_unknown_field_cannot_select(client: Client) -> None:
    code, status = client.get("/api/v1/pods", fieldSelector="spec.color=red")
    assert (code, status["reason"]) == (400, "BadRequest")
    assert "field label not supported: spec.color" in status["message"]


def test_namespaces_hold_what_is_theirs(api: ApiServer, client: Client) -> None:
    api.apply(pod("a/p"))
    api.apply(pod("b/q"))
    assert names(client.get("/api/v1/namespaces/b/pods")[1]) == ["q"]
    assert client.get("/api/v1/namespaces/b/pods/q")[1]["metadata"]["namespace"] == "b"
    assert client.get("/api/v1/namespaces/a/pods/q")[1]["message"] == 'pods "q" not found'


# Watches


def test_a_watch_goes_on_where_a_list_ended(api: ApiServer, client: Client) -> None:
    api.apply(pod("a/before"))
    _, page = client.get("/api/v1/pods")
    api.apply(pod("a/between"))
    version = page["metadata"]["resourceVersion"]
    with watching(api, "/api/v1/pods", resourceVersion=version) as watch:
        api.apply(pod("a/between", app="x"))
        api.apply(pod("a/between", app="x"))  # changes nothing: no event
        api.delete("Pod", "a", "between")
        api.apply(namespace("other"))
        found = watch.names(4)
        api.apply(pod("a/after"))
        assert watch.names(1) == [("ADDED", "after")]
    between = "between"
    kinds = ("ADDED", "MODIFIED", "MODIFIED", "DELETED")  # the second: it is going
    assert found == [(kind, between) for kind in kinds]


def test_a_deleted_object_has_the_version_of_its_end(api: ApiServer) -> None:
    api.apply(pod("a/p"))
    with watching(api, "/api/v1/pods", resourceVersion=api.revision) as watch:
        api.delete("Pod", "a", "p")
        going, event = watch.event(), watch.event()
    assert going is not None
    assert event is not None
    assert (going[0], event[0]) == ("MODIFIED", "DELETED")
    assert going[1]["metadata"]["deletionTimestamp"] == event[1]["metadata"]["deletionTimestamp"]
    assert event[1]["metadata"]["resourceVersion"] == str(api.revision)
    assert event[1]["kind"] == "Pod"


def test_a_watch_from_nowhere_begins_with_what_there_is(api: ApiServer) -> None:
    api.apply(pod("a/p"))
    for start in ({}, {"resourceVersion": "0"}):
        with watching(api, "/api/v1/pods", **start) as watch:
            assert watch.names(1) == [("ADDED", "p")]


def test_leaving_a_selection_is_being_deleted(api: ApiServer) -> None:
    start = {"resourceVersion": api.revision, "labelSelector": "app=x"}
    with watching(api, "/api/v1/pods", **start) as watch:
        for app in ("y", "x", "x", "y"):
            api.apply(pod("a/p", app=app))
        assert [kind for kind, _ in watch.names(2)] == ["ADDED", "DELETED"]


@pytest.mark.parametrize("as_http", [False, True])
def test_a_watch_that_is_too_old(api: ApiServer, *, as_http: bool) -> None:
    api.gone_as_http = as_http
    start = api.revision
    api.apply(pod("a/p"))
    api.compact()
    with watching(api, "/api/v1/pods", resourceVersion=start) as watch:
        if as_http:
            assert watch.answer.status == 410
            status = json.loads(watch.answer.read())
        else:
            assert watch.answer.status == 200
            assert watch.answer.getheader("Transfer-Encoding") == "chunked"
            event = watch.event()
            assert event is not None
            kind, status = event
            assert kind == "ERROR"
            assert watch.event() is None
        assert (status["code"], status["reason"]) == (410, "Expired")
    with watching(api, "/api/v1/pods", resourceVersion=api.revision) as watch:
        api.apply(pod("a/q"))
        assert watch.names(1) == [("ADDED", "q")]


def test_history_is_bounded() -> None:
    with ApiServer(history=3) as api:
        start = api.revision
        for index in range(4):
            api.apply(pod(f"a/p{index}"))
        with watching(api, "/api/v1/pods", resourceVersion=start) as watch:
            event = watch.event()
            assert event is not None
            assert event[0] == "ERROR"
        with watching(api, "/api/v1/pods", resourceVersion=start + 1) as watch:
            assert watch.names(3)[0] == ("ADDED", "p1")


def test_bookmarks_for_who_wants_them(api: ApiServer) -> None:
    asked = {"resourceVersion": api.revision, "allowWatchBookmarks": "true"}
    plain = {"resourceVersion": api.revision}
    with (
        watching(api, "/api/v1/pods", **asked) as one,
        watching(api, "/api/v1/pods", **plain) as two,
    ):
        api.apply(namespace("elsewhere"))
        api.send_bookmark("pods")
        event = one.event()
        assert event is not None
        assert event[0] == "BOOKMARK"
        assert event[1]["kind"] == "Pod"
        assert event[1]["metadata"] == {
            "resourceVersion": str(api.revision),
            "creationTimestamp": None,
        }
        api.send_bookmark("pods", version=7)
        api.apply(pod("a/p"))
        event = one.event()
        assert event is not None
        assert event[1]["metadata"]["resourceVersion"] == "7"
        assert one.names(1) == two.names(1) == [("ADDED", "p")]


def test_a_watch_ends_when_its_time_is_over(api: ApiServer) -> None:
    asked = {"allowWatchBookmarks": 1, "timeoutSeconds": 1, "resourceVersion": api.revision}
    with watching(api, "/api/v1/pods", **asked) as watch:
        event = watch.event()
        assert event is not None
        assert event[0] == "BOOKMARK"
        assert watch.event() is None
        watch.answer.read()
        assert watch.client.get("/api/v1/pods")[0] == 200, "the connection goes on"


def test_the_end_of_initial_events_is_marked() -> None:
    asked: dict[str, object] = {"sendInitialEvents": "true", "allowWatchBookmarks": "true"}
    asked["resourceVersionMatch"] = "NotOlderThan"
    with ApiServer(watch_list=True) as api:
        api.apply(pod("a/p"))
        with watching(api, "/api/v1/pods", **asked) as watch:
            assert watch.names(1) == [("ADDED", "p")]
            event = watch.event()
            assert event is not None
            annotations = event[1]["metadata"]["annotations"]
            assert annotations == {"k8s.io/initial-events-end": "true"}
    with ApiServer() as api, watching(api, "/api/v1/pods", **asked) as watch:
        assert watch.answer.status == 422


def test_one_object_can_be_watched(api: ApiServer) -> None:
    path = "/api/v1/namespaces/kube-system/services"
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "10.96.0.10"}}
    with watching(api, path, fieldSelector="metadata.name=kube-dns") as watch:
        for name in ("other", "kube-dns"):
            api.apply(service | {"metadata": {"name": name, "namespace": "kube-system"}})
        assert watch.names(1) == [("ADDED", "kube-dns")]


def test_who_went_away_watches_no_more(api: ApiServer) -> None:
    with watching(api, "/api/v1/pods"):
        api.wait_watches(1, "pods")
        assert api.open_watches("nodes") == []
    end = time.monotonic() + 10
    while api.open_watches() and time.monotonic() < end:
        time.sleep(0.001)
    assert api.open_watches() == []


# Faults


def test_a_watch_cut_in_the_middle_of_a_line(api: ApiServer) -> None:
    with watching(api, "/api/v1/pods", resourceVersion=api.revision) as watch:
        api.apply(pod("a/whole"))
        api.cut_watches("pods", last=lambda: api.apply(pod("a/half")))
        assert watch.names(1) == [("ADDED", "whole")]
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)) as raised:
            watch.answer.read()
        if isinstance(raised.value, http.client.IncompleteRead):
            assert b'"half"' in raised.value.partial
            assert b"\n" not in raised.value.partial
        assert api.open_watches() == []
        assert ("a", "half") in api.state("Pod")


def test_a_watch_closed_as_the_server_does(api: ApiServer) -> None:
    with watching(api, "/api/v1/pods", resourceVersion=api.revision) as watch:
        api.apply(pod("a/p"))
        api.close_watches()
        assert watch.names(1) == [("ADDED", "p")]
        assert watch.event() is None


def test_a_watch_that_is_told_it_fell_behind(api: ApiServer) -> None:
    with watching(api, "/api/v1/pods", resourceVersion=api.revision) as watch:
        api.expire_watches("pods")
        event = watch.event()
        assert event is not None
        assert (event[0], event[1]["code"]) == ("ERROR", 410)
        assert watch.event() is None


def test_lines_in_pieces_and_events_twice(api: ApiServer) -> None:
    api.chunk = 7
    api.duplicate_events()
    with watching(api, "/api/v1/pods", resourceVersion=api.revision) as watch:
        api.apply(pod("a/p"))
        api.apply(pod("a/q"))
        assert watch.names(3) == [("ADDED", "p"), ("ADDED", "p"), ("ADDED", "q")]


def test_too_many_requests(api: ApiServer, client: Client) -> None:
    api.fail(429, 2, retry_after=3, path="pods")
    for _ in range(2):
        client.connection.request("GET", "/api/v1/pods", headers=client.headers)
        answer = client.connection.getresponse()
        assert (answer.status, answer.getheader("Retry-After")) == (429, "3")
        assert answer.read() == b"Too many requests, please try again later.\n"
        assert client.get("/api/v1/nodes")[0] == 200
    assert client.get("/api/v1/pods")[0] == 200


def test_errors_of_the_server(api: ApiServer, client: Client) -> None:
    api.fail(500, watch=True)
    api.fail(503)
    code, text = client.get("/api/v1/pods")
    assert (code, text) == (503, "apiserver is shutting down\n")
    assert client.get("/api/v1/pods")[0] == 200
    code, status = client.get("/api/v1/pods", watch=1)
    assert (code, status["kind"], status["reason"]) == (500, "Status", "InternalError")


def test_silence(api: ApiServer, client: Client) -> None:
    with watching(api, "/api/v1/pods", resourceVersion=api.revision) as watch:
        with api.frozen_for_now():
            api.apply(pod("a/p"))
            client.connection.request("GET", "/api/v1/pods", headers=client.headers)
            assert client.connection.sock is not None
            client.connection.sock.settimeout(0.05)
            with pytest.raises(TimeoutError):
                client.connection.sock.recv(1)
        assert watch.names(1) == [("ADDED", "p")]
    client.connection.sock.settimeout(10)
    assert client.connection.sock.recv(12) == b"HTTP/1.1 200"


def test_a_black_hole_ends_by_itself(api: ApiServer, client: Client) -> None:
    api.black_hole(0.1)
    started = time.monotonic()
    assert client.get("/api/v1/pods")[0] == 200
    assert time.monotonic() - started > 0.05


def test_slow_pages(api: ApiServer, client: Client) -> None:
    api.page_delay = 0.05
    for index in range(3):
        api.apply(pod(f"a/p{index}"))
    started = time.monotonic()
    assert len(client.pages("/api/v1/pods", 1)) == 3
    assert time.monotonic() - started > 0.15


@pytest.mark.parametrize("history", [True, False])
def test_an_outage(api: ApiServer, *, history: bool) -> None:
    start = api.revision
    with watching(api, "/api/v1/pods", resourceVersion=start) as watch:
        api.wait_watches(1)
        with api.outage(history=history):
            api.apply(pod("a/p"))
            with pytest.raises(ConnectionRefusedError):
                once(api, "/healthz")
            with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
                watch.answer.read()
    with watching(api, "/api/v1/pods", resourceVersion=start) as watch:
        event = watch.event()
        assert event is not None
        assert event[0] == ("ADDED" if history else "ERROR")


def test_a_restored_backup_gives_versions_again(api: ApiServer) -> None:
    backup = api.backup()
    api.apply(pod("a/lost"))
    seen = api.revision
    api.restart(backup=backup)
    assert api.revision < seen
    with watching(api, "/api/v1/pods", resourceVersion=seen) as watch:
        api.wait_watches(1)
        api.apply(pod("a/one"))  # its version is the lost pod's: nobody hears of it
        api.apply(pod("a/two"))
        assert watch.names(1) == [("ADDED", "two")]
    assert set(api.state("Pod")) == {("a", "one"), ("a", "two")}


# Writes


def test_leases_are_held_by_one(api: ApiServer, client: Client) -> None:
    api.apply(namespace("a"))
    code, made = client.ask("POST", LEASES, lease("knp", "one"))
    assert code == 201
    code, status = client.ask("POST", LEASES, lease("knp", "two"))
    assert (code, status["reason"]) == (409, "AlreadyExists")
    version = made["metadata"]["resourceVersion"]
    code, renewed = client.ask("PUT", f"{LEASES}/knp", lease("knp", "one again", version))
    assert code == 200
    assert renewed["metadata"]["uid"] == made["metadata"]["uid"]
    code, status = client.ask("PUT", f"{LEASES}/knp", lease("knp", "two", version))
    assert (code, status["reason"]) == (409, "Conflict")
    assert status["message"].startswith(
        'Operation cannot be fulfilled on leases.coordination.k8s.io "knp": the object has been'
    )
    assert client.get(f"{LEASES}/knp")[1]["spec"] == {"holderIdentity": "one again"}
    assert client.ask("PUT", f"{LEASES}/new", lease("new", "x"))[0] == 201
    assert client.ask("DELETE", f"{LEASES}/new")[0] == 200
    assert client.get(f"{LEASES}/new")[0] == 404


def test_nothing_is_created_in_a_namespace_that_is_not_there(client: Client) -> None:
    code, status = client.ask("POST", LEASES, lease("knp", "one"))
    assert (code, status["message"]) == (404, 'namespaces "a" not found')


def test_events_are_posted_and_counted(api: ApiServer, client: Client) -> None:
    api.apply(namespace("default"))
    path = "/api/v1/namespaces/default/events"
    event = {"kind": "Event", "apiVersion": "v1", "count": 1, "reason": "Refused"}
    code, made = client.ask("POST", path, event | {"metadata": {"generateName": "policy."}})
    assert code == 201
    name = made["metadata"]["name"]
    assert name.startswith("policy.")
    for kind in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
        code, patched = client.ask("PATCH", f"{path}/{name}", {"count": 2}, kind)
        assert (code, patched["count"], patched["reason"]) == (200, 2, "Refused")


def test_status_is_written_apart_from_the_rest(api: ApiServer, client: Client) -> None:
    api.install_crd("experimental")
    api.apply(cluster_policy("open"))
    patch = {"status": {"conditions": [condition("Accepted", "True")]}, "spec": {"priority": 9}}
    merge = "application/merge-patch+json"
    code, found = client.ask("PATCH", f"{CNPS}/open/status", patch, merge)
    assert (code, found["spec"]["priority"]) == (200, 5)
    assert found["status"]["conditions"][0]["status"] == "True"
    assert found["metadata"]["generation"] == 1
    code, found = client.ask("PATCH", f"{CNPS}/open", patch | {"status": None}, merge)
    assert (code, found["spec"]["priority"], found["metadata"]["generation"]) == (200, 9, 2)
    assert found["status"]["conditions"]
    strategic = "application/strategic-merge-patch+json"
    assert client.ask("PATCH", f"{CNPS}/open", patch, strategic)[0] == 415
    broken = {"status": {"conditions": [{"type": "Accepted"}]}}
    code, status = client.ask("PATCH", f"{CNPS}/open/status", broken, merge)
    assert (code, status["reason"]) == (422, "Invalid")


def test_applied_status_belongs_to_who_applied_it(api: ApiServer, client: Client) -> None:
    api.install_crd("experimental")
    api.apply(cluster_policy("open"))

    def apply(manager: str, *conditions: dict[str, Any], force: bool = False) -> tuple[int, Any]:
        body = {key: cluster_policy("open")[key] for key in ("apiVersion", "kind", "metadata")}
        body["status"] = {"conditions": list(conditions)}
        query = urlencode({"fieldManager": manager, "force": str(force).lower()})
        path = f"{CNPS}/open/status?{query}"
        return client.ask("PATCH", path, body, "application/apply-patch+yaml")

    def types() -> list[str]:
        return [
            entry["type"]
            for entry in api.state("clusternetworkpolicies")["", "open"]["status"]["conditions"]
        ]

    assert apply("one", condition("Accepted", "True"), condition("Partial", "False"))[0] == 200
    assert apply("two", condition("Other", "True"))[0] == 200
    assert types() == ["Accepted", "Partial", "Other"]
    code, status = apply("two", condition("Accepted", "False"))
    assert (code, status["reason"]) == (409, "Conflict")
    assert '.status.conditions[type="Accepted"].status' in status["message"]
    assert apply("one", condition("Accepted", "True"))[0] == 200
    assert types() == ["Accepted", "Other"], "what it applies no more is gone"
    assert apply("two", condition("Accepted", "False"), force=True)[0] == 200
    assert types() == ["Accepted"]
    assert apply("", condition("Accepted", "True"))[0] == 422


# Who may


def test_tokens(api: ApiServer) -> None:
    assert once(api, "/api/v1/pods")[0] == 200
    code, status = once(api, "/api/v1/pods", "wrong")
    assert (code, status["reason"]) == (401, "Unauthorized")
    code, status = once(api, "/api/v1/pods", "")
    assert code == 403
    assert 'User "system:anonymous" cannot list resource "pods"' in status["message"]
    assert once(api, "/healthz", "") == (200, "ok")
    api.rotate_token("token-2", keep_old=True)
    assert once(api, "/api/v1/pods")[0] == 200
    api.rotate_token("token-3")
    assert once(api, "/api/v1/pods")[0] == 401
    assert once(api, "/api/v1/pods", "token-3")[0] == 200


def test_what_is_forbidden(api: ApiServer, client: Client) -> None:
    api.forbid("list", "pods")
    api.forbid("patch", "clusternetworkpolicies/status")
    code, status = client.get("/api/v1/pods")
    assert (code, status["reason"], status["details"]) == (403, "Forbidden", {"kind": "pods"})
    assert status["message"] == (
        'pods is forbidden: User "system:serviceaccount:kube-system:knp" cannot list resource '
        '"pods" in API group "" at the cluster scope'
    )
    path = f"{CNPS}/open/status"
    code, status = client.ask("PATCH", path, {}, "application/merge-patch+json")
    assert code == 403, "also when there is no such thing"
    assert status["message"].startswith(
        'clusternetworkpolicies.policy.networking.k8s.io "open" is forbidden: '
    )
    api.allow()
    assert client.get("/api/v1/pods")[0] == 200


ROLES = """
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [pods], verbs: [list, watch]}
---
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, name: knp, namespace: kube-system}]
---
kind: Role
metadata: {name: dns, namespace: kube-system}
rules:
- {apiGroups: [""], resources: [services], resourceNames: [kube-dns], verbs: [list, watch]}
---
kind: RoleBinding
metadata: {name: dns, namespace: kube-system}
roleRef: {kind: Role, name: dns}
subjects: [{kind: ServiceAccount, name: knp, namespace: kube-system}]
"""


def test_roles_as_they_are_installed(api: ApiServer, client: Client) -> None:
    api.use_rbac(yaml.safe_load_all(ROLES))
    services = "/api/v1/namespaces/kube-system/services"
    assert client.get("/api/v1/pods")[0] == 200
    assert client.get("/api/v1/namespaces/a/pods")[0] == 200
    assert client.get("/api/v1/nodes")[0] == 403
    assert client.get("/api/v1/namespaces/a/pods/p")[0] == 403, "get is not list"
    assert client.get(services, fieldSelector="metadata.name=kube-dns")[0] == 200
    assert client.get(services)[0] == 403
    assert client.get("/api/v1/services", fieldSelector="metadata.name=kube-dns")[0] == 403


def test_reviews_of_ones_own_access(api: ApiServer, client: Client) -> None:
    api.forbid("patch", "clusternetworkpolicies/status")
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

    def may(verb: str) -> bool:
        asked = {"verb": verb, "resource": "clusternetworkpolicies", "subresource": "status"}
        asked["group"] = "policy.networking.k8s.io"
        review = {"spec": {"resourceAttributes": asked}}
        code, answer = client.ask("POST", path, review)
        assert code == 201
        return bool(answer["status"]["allowed"])

    assert (may("patch"), may("get")) == (False, True)


# The CRD


def test_the_definition_comes_and_goes(api: ApiServer, client: Client) -> None:
    assert client.get(CNPS) == (404, "404 page not found\n")
    with pytest.raises(ApiError, match="no matches"):
        api.apply(cluster_policy("open"))
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


def test_the_standard_channel_knows_no_names(api: ApiServer, client: Client) -> None:
    api.install_crd("standard")
    with pytest.raises(ApiError, match="at least 1 properties"):
        api.apply(cluster_policy("names", "example.com"))
    api.install_crd("experimental")
    api.apply(cluster_policy("names", "example.com"))
    with watching(api, CNPS, resourceVersion=api.revision) as watch:
        api.wait_watches(1)
        api.install_crd("standard")
        assert watch.event() is None
    assert client.get(CNPS)[1]["items"][0]["spec"]["egress"][0]["to"] == [{}], "as it is read now"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tier": "Low"}, "spec.tier: Unsupported value"),
        ({"priority": 1001}, "spec.priority: Invalid value: 1001"),
        ({"priority": "1"}, "must be of type integer"),
        ({"subject": {}}, "spec.subject"),
        ({"ingress": [{"action": "Accept"}]}, "spec.ingress[0].from: Required value"),
    ],
)
def test_what_the_schema_refuses(api: ApiServer, change: dict[str, Any], said: str) -> None:
    api.install_crd("experimental")
    policy = cluster_policy("open")
    policy["spec"] |= change
    with pytest.raises(ApiError) as raised:
        api.apply(policy)
    assert raised.value.code == 422
    assert said in raised.value.message


def test_discovery(api: ApiServer, client: Client) -> None:
    group = "policy.networking.k8s.io"
    assert client.get("/api")[1]["versions"] == ["v1"]
    assert client.get("/version")[1]["major"] == "1"
    assert group not in [found["name"] for found in client.get("/apis")[1]["groups"]]
    assert client.get(f"/apis/{group}/v1alpha2")[0] == 404
    api.install_crd("experimental")
    assert group in [found["name"] for found in client.get("/apis")[1]["groups"]]
    _, listed = client.get(f"/apis/{group}/v1alpha2")
    assert [found["name"] for found in listed["resources"]] == [
        "clusternetworkpolicies",
        "clusternetworkpolicies/status",
    ]
    assert "pods" in [found["name"] for found in client.get("/api/v1")[1]["resources"]]


# How a client finds it


def test_tls_and_the_files_of_a_pod(tmp_path: Path) -> None:
    with ApiServer(tls=True) as api:
        environment = api.service_account(tmp_path / "sa")
        assert environment["KUBERNETES_SERVICE_PORT"] == str(api.port)
        context = ssl.create_default_context(cafile=str(tmp_path / "sa" / "ca.crt"))
        token = (tmp_path / "sa" / "token").read_text()
        client = Client(api, token, context=context)
        assert client.get("/api/v1/pods")[0] == 200
        api.rotate_token("token-2")
        assert client.get("/api/v1/pods")[0] == 401
        assert (tmp_path / "sa" / "token").read_text() == "token-2"
        with pytest.raises(ssl.SSLError):
            Client(api, token, context=ssl.create_default_context()).get("/healthz")
        client.close()


def test_kubeconfigs(tmp_path: Path) -> None:
    with ApiServer(tls=True) as api:
        config = yaml.safe_load(api.kubeconfig(tmp_path / "token").read_text())
        assert config["users"][0]["user"] == {"token": TOKEN}
        assert config["clusters"][0]["cluster"]["server"] == api.url
        path = api.kubeconfig(tmp_path / "file", auth="token-file")
        file = Path(yaml.safe_load(path.read_text())["users"][0]["user"]["tokenFile"])
        api.rotate_token("token-2")
        assert file.read_text() == "token-2"
        path = api.kubeconfig(tmp_path / "certificate", auth="certificate", inline=False)
        config = yaml.safe_load(path.read_text())
        user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        context.load_cert_chain(user["client-certificate"], user["client-key"])
        client = Client(api, "", context=context)
        assert client.get("/api/v1/pods")[0] == 200
        assert api.requests[-1].user == "system:serviceaccount:kube-system:knp"
        client.close()


def test_what_was_asked_is_written_down(api: ApiServer, client: Client) -> None:
    client.get("/api/v1/pods", limit=5)
    method, path, query, headers, _ = api.requests[-1]
    assert (method, path, query) == ("GET", "/api/v1/pods", {"limit": "5"})
    assert isinstance(headers, dict)
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert api.requests[-1].code == 200


# A big cluster


def test_a_full_cluster_lists_in_pages(api: ApiServer, client: Client) -> None:
    api.fill(pods=2000, namespaces=20, nodes=20, networkpolicies=50, cnps=10)
    pages = client.pages("/api/v1/pods", 500)
    found = [item for page in pages for item in page["items"]]
    assert len({(p["metadata"]["namespace"], p["metadata"]["name"]) for p in found}) == 2000
    assert len({pod["status"]["podIP"] for pod in found}) == 2000
    assert (
        4000
        < sum(len(json.dumps(pod, separators=(",", ":"))) for pod in found) / len(found)
        < 8000
    )
    assert len(client.get(CNPS)[1]["items"]) == 10
    assert len(client.get("/apis/networking.k8s.io/v1/networkpolicies")[1]["items"]) == 50


def test_long_lists_are_packed_for_who_can_unpack(api: ApiServer, client: Client) -> None:
    api.fill(pods=100, namespaces=1, nodes=1, networkpolicies=0, cnps=0)
    headers = client.headers | {"Accept-Encoding": "gzip"}
    client.connection.request("GET", "/api/v1/pods", headers=headers)
    answer = client.connection.getresponse()
    assert answer.getheader("Content-Encoding") == "gzip"
    answer.read()


def test_pods_live_and_die_the_same_way_every_time() -> None:
    def run() -> tuple[int, list[tuple[str, str, str]]]:
        with ApiServer() as api, watching(api, "/api/v1/pods", resourceVersion=1000) as watch:
            count = api.churn(events=300, seed=7)
            api.close_watches()
            seen = []
            while (event := watch.event()) is not None:
                status = event[1]["status"]
                name = event[1]["metadata"]["name"]
                seen.append((event[0], name, f"{status['phase']} {status.get('podIP', '')}"))
            alive = {name for _, name in api.state("Pod")}
            gone = {name for kind, name, _ in seen if kind == "DELETED"}
            assert alive == {name for _, name, _ in seen} - gone
            return count, seen

    count, seen = run()
    assert count == len(seen) == 300
    assert run() == (count, seen)
    first = seen[0][1]
    assert [(kind, what.partition(" ")[0]) for kind, name, what in seen if name == first][:3] == [
        ("ADDED", "Pending"),
        ("MODIFIED", "Pending"),
        ("MODIFIED", "Pending"),
    ]


def test_churn_at_a_rate_beside_other_work(api: ApiServer) -> None:
    churn = api.new_churn(rate=500, seconds=0.2, seed=1).start()
    started = time.monotonic()
    assert churn.join() == 100
    assert 0.1 < time.monotonic() - started < 5
    assert api.new_churn(rate=1, seconds=100).start().stop() <= 1


def test_watchers_beside_each_other_see_the_same(api: ApiServer) -> None:
    results: list[list[tuple[str, str, str]]] = []

    def follow(watch: Watcher) -> None:
        seen = []
        while (event := watch.event()) is not None:
            metadata = event[1]["metadata"]
            seen.append((event[0], metadata["name"], metadata["resourceVersion"]))
        results.append(seen)

    watches = [Watcher(api, "/api/v1/pods", resourceVersion=api.revision) for _ in range(4)]
    threads = [threading.Thread(target=follow, args=(watch,)) for watch in watches]
    for thread in threads:
        thread.start()
    api.churn(events=400)
    api.close_watches()
    for thread in threads:
        thread.join()
    for watch in watches:
        watch.close()
    assert [len(seen) for seen in results] == [400] * 4
    assert all(seen == results[0] for seen in results)
    versions = [int(version) for _, _, version in results[0]]
    assert versions == sorted(versions)
