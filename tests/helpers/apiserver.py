"""A real HTTP(S) server on 127.0.0.1 that behaves as kube-apiserver does, for tests.

    with ApiServer(tls=True) as api:
        api.install_crd("experimental")
        api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
        config = api.kubeconfig(tmp_path / "config")        # or api.service_account(directory)
        ... a client lists and watches at api.url ...
        api.wait_watches(5)
        api.compact(); api.cut_watches("pods")              # history lost, connection reset
        assert client_state == api.state("Pod")             # what a fresh list would give

Clients see: lists in pages (``limit``, ``continue``), ``resourceVersion`` and its ``Match``,
field and label selectors, watches in chunks with BOOKMARKs and ERROR events, merge and apply
patches, ``/status``, 401/403/404/409/410/422 with the real wording, gzip for long lists,
discovery, and SelfSubjectAccessReviews. Everybody may do everything until ``forbid`` or
``use_rbac``; ``ClusterNetworkPolicy`` is not there until ``install_crd``. As with the real
server, built-in objects in a list do not say their kind, those of a CRD do, and of such a list
the metadata comes last; a path that nobody serves is ``404 page not found``, not a Status; an
update that changes nothing gets no new version; a watch from a version that was not reached
yet stays silent until it is; ``resourceVersion=0`` ignores ``limit``.

Faults are methods of ``Faults``: ``fail``, ``freeze``, ``black_hole``, ``cut_watches``,
``close_watches``, ``drop_watches``, ``expire_watches``, ``watch_error``, ``compact``,
``drop_continues``, ``duplicate_events``, ``send_bookmark``; attributes ``page_delay`` and
``chunk``; here ``outage``, ``restart``, ``rotate_token``, ``gone_as_http``. ``fill`` and
``churn`` make a big and busy cluster. What ``requests`` and ``state`` say is as it is now:
nothing sleeps and nothing is random.
"""

import contextlib
import ssl
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, Self

from helpers.apiserver_access import ServiceAccountFiles, certificate_user, write_kubeconfig
from helpers.apiserver_certs import Authority
from helpers.apiserver_crd import Channel
from helpers.apiserver_faults import Faults, error_response
from helpers.apiserver_http import Listener, Request, Response, Stream
from helpers.apiserver_load import Churn, fill, namespace_names
from helpers.apiserver_patch import merge
from helpers.apiserver_pods import managed_fields, node
from helpers.apiserver_rbac import Rule
from helpers.apiserver_rest import Rest
from helpers.apiserver_store import Key, Store, Stored
from helpers.apiserver_types import (
    BUILT_IN,
    CLUSTER_POLICIES,
    ApiError,
    Doc,
    Resource,
    unauthorized,
)

Backup = tuple[int, dict[Resource, dict[Key, Stored]]]
Auth = Literal["token", "token-file", "certificate", "none"]

USER = "system:serviceaccount:kube-system:knp"


def find_resource(kind: str) -> Resource:
    """By kind or plural: ``Pod``, ``pods``."""
    for resource in (*BUILT_IN, CLUSTER_POLICIES):
        if kind.lower() in {resource.kind.lower(), resource.plural}:
            return resource
    raise KeyError(kind)


class ApiServer(Faults):
    """The server, while it is entered.

    ``token`` is that of ``user``; without one everybody is an administrator. ``history``: how
    many changes of a resource are remembered. ``bookmark_every``: seconds between BOOKMARKs
    (None: only those that ``send_bookmark`` sends, and the one before a watch's time is over).
    ``watch_list``: whether ``sendInitialEvents`` is understood. ``gone_as_http``: a watch that
    is too old gets HTTP 410 instead of 200 and an ERROR event.
    """

    def __init__(
        self,
        *,
        tls: bool = False,
        token: str = "token-1",
        user: str = USER,
        history: int = 5000,
        bookmark_every: float | None = None,
        watch_list: bool = False,
    ) -> None:
        store = Store(history)
        super().__init__(store, find_resource)
        for resource in (*BUILT_IN, CLUSTER_POLICIES):
            store.collection(resource)
        self.lock = store.lock
        self.requests: list[Request] = []
        self.bookmark_every = bookmark_every
        self.user = user
        self.token = token
        self._rest = Rest(store)
        self._rest.watch_list = watch_list
        self._tokens = {token: user} if token else {}
        self._accounts: list[ServiceAccountFiles] = []
        self._token_files: list[Path] = []
        self._nodes = 0
        self._namespaces = 0
        self._tls = tls
        self._directory = tempfile.TemporaryDirectory(prefix="apiserver-")
        self._listener: Listener | None = None
        self._authority: Authority | None = None

    def __enter__(self) -> Self:
        context = None
        if self._tls:
            self._authority = Authority(Path(self._directory.name))
            pair = self._authority.server()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pair.cert, pair.key)
            context.load_verify_locations(self._authority.pair.cert)
            context.verify_mode = ssl.CERT_OPTIONAL
        self._listener = Listener(self, context)
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for timer in self._timers:
            timer.cancel()
        self.thaw()
        self.listener.close()
        self._directory.cleanup()

    # How to reach it

    @property
    def listener(self) -> Listener:
        """Its port; there while the server is entered."""
        if self._listener is None:
            raise RuntimeError("the server is not entered")
        return self._listener

    @property
    def port(self) -> int:
        """Where it listens, also when it does not for a while."""
        return self.listener.port

    @property
    def url(self) -> str:
        """Without a slash at the end."""
        return f"http{'s' * self._tls}://127.0.0.1:{self.port}"

    @property
    def authority(self) -> Authority:
        """Who signed its certificate, with ``tls``."""
        if self._authority is None:
            raise RuntimeError("the server has no TLS")
        return self._authority

    @property
    def ca(self) -> str:
        """The file of who signed its certificate, "" without TLS."""
        return str(self.authority.pair.cert) if self._tls else ""

    def kubeconfig(self, path: Path, *, auth: Auth = "token", inline: bool = True) -> Path:
        """Write one. ``inline``: certificates in it; else it says their files.

        ``token-file``: the token is in a file beside it, which ``rotate_token`` rewrites.
        """
        user: Doc = {}
        if auth == "token":
            user["token"] = self.token
        elif auth == "token-file":
            file = path.with_name(path.name + ".token")
            file.write_text(self.token)
            self._token_files.append(file)
            user["tokenFile"] = str(file)
        elif auth == "certificate":
            user = certificate_user(self.authority.client(self.user), inline=inline)
        ca = self.authority.pair.cert if self._tls else None
        return write_kubeconfig(path, self.url, user, ca, inline=inline)

    def service_account(self, directory: Path, namespace: str = "kube-system") -> dict[str, str]:
        """Write what a pod has mounted; ``rotate_token`` exchanges it. The pod's environment."""
        files = ServiceAccountFiles(directory, self.authority.pair.cert, namespace)
        files.write(self.token)
        self._accounts.append(files)
        host = {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}
        return host | {"KUBERNETES_SERVICE_PORT": str(self.port)}

    # Objects

    def apply(self, doc: Doc, *, bulk: bool = False) -> Doc:
        """Create or replace it, as it is with its status; the object as it is served.

        ``bulk``: with managedFields, as large as a real one. ApiError where a server refuses.
        """
        resource = find_resource(doc["kind"])
        if resource not in self._rest.resources():
            raise ApiError(404, "NotFound", f"no matches for kind {doc['kind']}")
        managed = managed_fields(doc) if bulk else None
        return self._rest.writer.save(resource, doc, managed=managed).doc()

    def delete(self, kind: str, namespace: str, name: str) -> Doc:
        """Delete it at once (a pod is MODIFIED to be going first); as its last event says it."""
        return self._rest.writer.remove(find_resource(kind), (namespace, name)).doc()

    def patch(self, kind: str, namespace: str, name: str, patch: Doc) -> Doc:
        """Merge into it, status too."""
        with self.store.lock:
            return self.apply(merge(self.get(kind, namespace, name), patch))

    def terminate(self, kind: str, namespace: str, name: str, seconds: int = 30) -> Doc:
        """It is going: deletionTimestamp; a namespace's phase says so too."""
        stamp = {
            "deletionTimestamp": "2026-11-30T03:00:30Z",
            "deletionGracePeriodSeconds": seconds,
        }
        patch: Doc = {"metadata": stamp}
        if kind.lower().startswith("namespace"):
            patch["status"] = {"phase": "Terminating"}
        return self.patch(kind, namespace, name, patch)

    def get(self, kind: str, namespace: str, name: str) -> Doc:
        """The object as it is served."""
        return self.store.get(find_resource(kind), (namespace, name)).doc()

    def state(self, kind: str) -> dict[Key, Doc]:
        """All of a kind by namespace ("" for none) and name: what a list gives now."""
        with self.store.lock:
            items = list(self.store.collection(find_resource(kind)).objects.values())
        return {item.key: item.doc() for item in items}

    @property
    def revision(self) -> int:
        """The newest resourceVersion."""
        with self.store.lock:
            return self.store.revision

    def install_crd(self, channel: Channel) -> None:
        """ClusterNetworkPolicy is there from now on, or changes to this channel."""
        self._rest.install(channel)

    def remove_crd(self) -> None:
        """It is there no more, and neither are its objects."""
        self._rest.uninstall()

    def fill(
        self,
        *,
        pods: int = 10_000,
        namespaces: int = 100,
        nodes: int = 100,
        networkpolicies: int = 1000,
        cnps: int = 100,
        domain_names: bool = True,
    ) -> None:
        """A cluster of that size, its objects as large as real ones."""
        if cnps and self._rest.channel is None:
            self.install_crd("experimental" if domain_names else "standard")
        domain_names = domain_names and self._rest.channel == "experimental"
        self._nodes, self._namespaces = nodes, namespaces
        fill(
            self,
            pods=pods,
            namespaces=namespaces,
            nodes=nodes,
            networkpolicies=networkpolicies,
            cnps=cnps,
            domain_names=domain_names,
        )

    def new_churn(
        self,
        rate: float | None = None,
        seconds: float | None = None,
        seed: int = 0,
        *,
        events: int | None = None,
        living: int = 40,
    ) -> Churn:
        """Pods that come and go, on the nodes of ``fill`` (else three); not started."""
        places = [node(index)[1] for index in range(self._nodes or 3)]
        names = namespace_names(self._namespaces or 3)
        return Churn(
            self,
            places,
            names,
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

    def rotate_token(self, new: str, *, keep_old: bool = False) -> None:
        """Another token, also in the files that were written; the old one is refused at once."""
        with self.store.lock:
            if not keep_old:
                self._tokens.clear()
            self._tokens[new] = self.user
            self.token = new
        for files in self._accounts:
            files.write(new)
        for file in self._token_files:
            part = file.with_name(file.name + ".part")
            part.write_text(new)
            part.replace(file)

    def forbid(
        self, verb: str = "*", resource: str = "*", *, name: str = "", namespace: str = ""
    ) -> None:
        """From now on this gets 403; ``resource`` is a plural, maybe with ``/status``."""
        names = (name,) if name else ()
        rule = Rule((verb,), ("*",), (resource,), names, namespace)
        self._rest.authorizer.forbidden.append(rule)

    def allow(
        self, verb: str = "*", resource: str = "*", *, name: str = "", namespace: str = ""
    ) -> None:
        """Take back a ``forbid`` with the same words; ``allow()`` takes back all."""
        names = (name,) if name else ()
        rule = Rule((verb,), ("*",), (resource,), names, namespace)
        forbidden = self._rest.authorizer.forbidden
        if rule == Rule(namespace=""):
            forbidden.clear()
        else:
            forbidden.remove(rule)

    def use_rbac(self, documents: Iterable[Doc], user: str | None = None) -> None:
        """Only what these Roles, ClusterRoles and their bindings give; ``user``: who asks."""
        self._rest.authorizer.use(documents)
        if user is not None:
            self.user = user
            self._tokens = dict.fromkeys(self._tokens, user)

    # Being there

    def stop_listening(self) -> None:
        """Connections are reset and refused; the port is kept."""
        self.thaw()
        self.listener.stop()

    def start_listening(self) -> None:
        """Back on the same port."""
        self.listener.start()

    @contextlib.contextmanager
    def outage(self, *, history: bool = True) -> Iterator[None]:
        """Away inside of this; ``history``: whether it remembers its changes afterwards."""
        self.stop_listening()
        try:
            yield
        finally:
            if not history:
                self.compact()
            self.start_listening()

    def backup(self) -> Backup:
        """As of etcd: objects and the counter."""
        return self.store.saved()

    def restart(self, *, history: bool = True, backup: Backup | None = None) -> None:
        """Away and back; with a backup as it was then: versions are lower and come again."""
        with self.outage(history=history):
            if backup is not None:
                self.store.restore(backup)

    @property
    def gone_as_http(self) -> bool:
        """Whether a watch that is too old gets HTTP 410."""
        return self._rest.gone_as_http

    @gone_as_http.setter
    def gone_as_http(self, value: bool) -> None:
        self._rest.gone_as_http = value

    # Answering

    def answer(self, request: Request) -> Response | Stream:
        """For a connection."""
        with self.store.lock:
            self.requests.append(request)
        self.wait_thawed()
        if wrong := self._faulty(request):
            return wrong
        try:
            request.user = self._who(request)
            answer = self._rest.answer(request)
        except ApiError as error:
            return error_response(error)
        if isinstance(answer, Stream):
            self._opened()
        return answer

    def _who(self, request: Request) -> str:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        with self.store.lock:
            if scheme.lower() == "bearer":
                if token not in self._tokens:
                    raise unauthorized()
                return self._tokens[token]
            if request.certificate:
                return request.certificate
            return "system:anonymous" if self._tokens else "kubernetes-admin"
