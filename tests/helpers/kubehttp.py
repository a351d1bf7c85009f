"""Plain HTTP to an API server of the tests, fake or real, and small objects for it."""

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import urlencode

TOKEN = "token-1"
CNPS = "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/a/leases"


class Server(Protocol):
    """Where it is, and who signed its certificate ("": it has none)."""

    @property
    def port(self) -> int: ...
    @property
    def ca(self) -> str: ...


def trusting(api: Server) -> dict[str, Any]:
    """What http.client must know of it."""
    return {"context": ssl.create_default_context(cafile=api.ca)} if api.ca else {}


class Client:
    """Plain http.client on one connection that is kept."""

    def __init__(self, api: Server, token: str = TOKEN, **tls: Any) -> None:
        tls = tls or trusting(api)
        kind = http.client.HTTPSConnection if tls else http.client.HTTPConnection
        self.connection = kind("127.0.0.1", api.port, timeout=60, **tls)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> tuple[int, Any]:
        text = None if body is None else json.dumps(body)
        headers = self.headers | ({} if body is None else {"Content-Type": kind})
        self.connection.request(method, path, text, headers)
        answer = self.connection.getresponse()
        raw = answer.read()
        is_json = answer.getheader("Content-Type") == "application/json"
        return answer.status, json.loads(raw) if is_json else raw.decode()

    def get(self, path: str, **query: object) -> tuple[int, Any]:
        words = {name.rstrip("_"): value for name, value in query.items()}
        return self.ask("GET", f"{path}?{urlencode(words)}" if words else path)

    def pages(self, path: str, limit: int) -> list[Any]:
        found: list[Any] = []
        token = ""
        while not found or token:
            more = {"continue_": token} if token else {}
            code, page = self.get(path, limit=limit, **more)
            assert code == 200, page
            found.append(page)
            token = page["metadata"].get("continue", "")
        return found

    def close(self) -> None:
        self.connection.close()


class Watcher:
    """A watch on a connection of its own; events are read when they are asked for."""

    def __init__(self, api: Server, path: str, **query: object) -> None:
        self.client = Client(api)
        words = urlencode({"watch": 1} | query)
        self.client.connection.request("GET", f"{path}?{words}", headers=self.client.headers)
        self.answer = self.client.connection.getresponse()

    def event(self) -> tuple[str, Any] | None:
        """None when the stream is over."""
        line = self.answer.readline()
        if not line:
            return None
        event = json.loads(line)
        return event["type"], event["object"]

    def names(self, count: int) -> list[tuple[str, str]]:
        found = []
        for _ in range(count):
            event = self.event()
            assert event is not None
            found.append((event[0], event[1]["metadata"]["name"]))
        return found

    def close(self) -> None:
        self.answer.close()
        self.client.close()


@contextmanager
def watching(api: Server, path: str, **query: object) -> Iterator[Watcher]:
    made = Watcher(api, path, **query)
    try:
        yield made
    finally:
        made.close()


def once(api: Server, path: str, token: str = TOKEN) -> tuple[int, Any]:
    """Asked on a connection for this alone."""
    client = Client(api, token)
    try:
        return client.get(path)
    finally:
        client.close()


def names(page: Any) -> list[str]:
    return [item["metadata"]["name"] for item in page["items"]]


def namespace(name: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def pod(name: str, node: str = "", **labels: str) -> dict[str, Any]:
    where, _, short = name.rpartition("/")
    metadata = {"name": short, "namespace": where or "a", "labels": labels}
    spec = {"nodeName": node, "containers": []} if node else {"containers": []}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def cluster_policy(name: str, *domains: str) -> dict[str, Any]:
    to = [{"domainNames": list(domains)}] if domains else [{"networks": ["192.0.2.0/24"]}]
    return {
        "apiVersion": "policy.networking.k8s.io/v1alpha2",
        "kind": "ClusterNetworkPolicy",
        "metadata": {"name": name},
        "spec": {
            "tier": "Admin",
            "priority": 5,
            "subject": {"namespaces": {}},
            "egress": [{"action": "Accept", "to": to, "note": "nobody knows this field"}],
        },
    }


def lease(name: str, holder: str, version: str = "") -> dict[str, Any]:
    metadata = {"name": name} | ({"resourceVersion": version} if version else {})
    spec = {"holderIdentity": holder}
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    return {**kind, "metadata": metadata, "spec": spec}


def condition(kind: str, value: str, message: str = "tried") -> dict[str, Any]:
    return {
        "type": kind,
        "status": value,
        "reason": "Tried",
        "message": message,
        "lastTransitionTime": "2026-11-30T03:00:00Z",
    }
