"""The API server of the tests fails when it is told to, and whatever else the real one cannot.

Where it behaves as the real one does, ``test_envtest`` looks at both.
"""

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from helpers.apiserver import ApiServer
from helpers.apiserver_types import ApiError
from helpers.kubehttp import (
    CNPS,
    TOKEN,
    Client,
    Watcher,
    cluster_policy,
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


def test_pages_can_be_dropped_on_order(api: ApiServer, client: Client) -> None:
    for index in range(3):
        api.apply(pod(f"a/p{index}"))
    _, first = client.get("/api/v1/pods", limit=2)
    api.drop_continues()
    token = first["metadata"]["continue"]
    assert client.get("/api/v1/pods", limit=2, continue_=token)[0] == 410
    assert client.get("/api/v1/pods", limit=2, continue_=token)[0] == 200


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


def test_namespaces_hold_what_is_theirs(api: ApiServer, client: Client) -> None:
    api.apply(pod("a/p"))
    api.apply(pod("b/q"))
    assert names(client.get("/api/v1/namespaces/b/pods")[1]) == ["q"]
    assert client.get("/api/v1/namespaces/b/pods/q")[1]["metadata"]["namespace"] == "b"
    assert client.get("/api/v1/namespaces/a/pods/q")[1]["message"] == 'pods "q" not found'


def test_namespaces_are_named_by_a_label(api: ApiServer) -> None:
    made = api.apply(namespace("a", team="x"))
    assert made["metadata"]["labels"] == {"team": "x", "kubernetes.io/metadata.name": "a"}
    assert made["status"] == {"phase": "Active"}
    assert api.terminate("Namespace", "", "a")["status"] == {"phase": "Terminating"}


# Watches


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


@pytest.mark.parametrize("tls", [False, True])
def test_a_watch_cut_in_the_middle_of_a_line(*, tls: bool) -> None:
    with (
        ApiServer(tls=tls) as api,
        watching(api, "/api/v1/pods", resourceVersion=api.revision) as watch,
    ):
        api.apply(pod("a/whole"))
        api.cut_watches("pods", last=lambda: api.apply(pod("a/half")))
        assert watch.names(1) == [("ADDED", "whole")]
        raw = b""  # beneath the chunks, which http.client keeps when one is not whole
        with contextlib.suppress(ConnectionResetError):
            while part := watch.answer.fp.read1():
                raw += part
        _, _, half = raw.rpartition(b'{"type":"ADDED"')
        assert b'"half"' in half
        assert b"\n" not in half
        assert api.open_watches() == []
        assert ("a", "half") in api.state("Pod")


def test_who_shakes_no_hands_holds_nobody_up() -> None:
    with ApiServer(tls=True) as api:
        silent = socket.create_connection(("127.0.0.1", api.port))
        assert once(api, "/healthz") == (200, "ok")
        with api.outage():
            silent.close()
        silent = socket.create_connection(("127.0.0.1", api.port))
        assert once(api, "/healthz") == (200, "ok")
    silent.close()


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
