"""Documents to objects: all that is wrong is said, nothing is skipped silently."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from knp_py.manifests.adminpolicy import read_admin_policy, read_baseline_policy
from knp_py.manifests.clusterobjects import read_namespace, read_node, read_service
from knp_py.manifests.clusterpolicy import read_cluster_policy
from knp_py.manifests.document import Document
from knp_py.manifests.fields import Fields
from knp_py.manifests.kinds import KINDS, Unread, is_read
from knp_py.manifests.metadata import read_metadata
from knp_py.manifests.mismatch import mismatches, repeated_keys
from knp_py.manifests.networkpolicy import read_network_policy
from knp_py.manifests.pods import Identity, controller_of, identify, read_pod
from knp_py.manifests.problems import Problem, Report, plain, quote, show
from knp_py.manifests.sandboxes import read_claim, read_sandbox, read_template, read_warm_pool
from knp_py.manifests.sharing import Sharing
from knp_py.manifests.standins import Source, StandIns
from knp_py.manifests.syntax import bad_label_name, bad_subdomain
from knp_py.manifests.typed import (
    ClaimDoc,
    ControllerDoc,
    CronJobDoc,
    NamespaceDoc,
    NodeDoc,
    PodDoc,
    SandboxDoc,
    ServiceDoc,
    WarmPoolDoc,
    WorkloadDoc,
)
from knp_py.manifests.workloads import (
    RealPods,
    read_controller,
    read_cron_job,
    read_job,
    workload_reader,
)
from knp_py.model.changes import ClusterObject
from knp_py.model.objects import Origin, Pod
from knp_py.model.policy import NetworkPolicy


class LoadResult(msgspec.Struct, frozen=True):
    """``problems`` are errors: the objects they are about are missing from ``objects``.

    ``warnings`` should reach the user; ``notes`` are for whoever asks for more.
    ``controllers`` names what owns a NetworkPolicy (its key → ``Kind name`` in its
    namespace): with that object it is garbage-collected.
    """

    objects: list[ClusterObject]
    problems: list[Problem]
    warnings: list[Problem]
    notes: list[Problem]
    controllers: dict[str, str] = {}


def load(documents: Iterable[Document]) -> LoadResult:
    """Every object the documents hold or stand for. Never raises for what they contain."""
    loader = _Loader()
    for document in documents:
        loader.add(document)
    return loader.finish()


class _PeekMeta(msgspec.Struct, gc=False):
    name: str | None = None
    namespace: str | None = None


class _Peek(msgspec.Struct, rename="camel", gc=False):
    """What every document begins with, and the items of a List, not yet decoded."""

    api_version: str | None = None
    kind: str | None = None
    metadata: _PeekMeta | None = None
    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET


class _Entry(msgspec.Struct, frozen=True):
    """One object: decoded (``value``) or not (``raw``), and who it says it is."""

    origin: Origin
    place: str
    version: str
    kind: str
    name: str
    namespace: str
    raw: bytes | msgspec.Raw | None
    value: object

    @property
    def label(self) -> str:
        """``Kind namespace/name``."""
        if not self.name or not self.kind:
            return plain(self.kind or self.name)
        known = KINDS.get(self.kind)
        namespace = self.namespace or ("default" if known and known.namespaced else "")
        if known and not known.namespaced:
            namespace = ""
        who = f"{namespace}/{self.name}" if namespace else self.name
        return plain(f"{self.kind} {who}")


Reader = Callable[[Any, Identity, Report, Sharing], ClusterObject | Source]


class _Typed(msgspec.Struct, frozen=True):
    doc: type[Any]
    rule: Callable[[str], str | None]
    read: Reader


_TYPED: dict[str, _Typed] = {
    "Pod": _Typed(PodDoc, bad_subdomain, read_pod),
    "Namespace": _Typed(NamespaceDoc, bad_label_name, read_namespace),
    "Node": _Typed(NodeDoc, bad_subdomain, read_node),
    "Service": _Typed(ServiceDoc, bad_label_name, read_service),
    **{
        kind: _Typed(WorkloadDoc, bad_subdomain, workload_reader(kind))
        for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
    },
    "ReplicationController": _Typed(ControllerDoc, bad_subdomain, read_controller),
    "Job": _Typed(WorkloadDoc, bad_subdomain, read_job),
    "CronJob": _Typed(CronJobDoc, bad_subdomain, read_cron_job),
    "Sandbox": _Typed(SandboxDoc, bad_subdomain, read_sandbox),
    "SandboxWarmPool": _Typed(WarmPoolDoc, bad_subdomain, read_warm_pool),
    "SandboxClaim": _Typed(ClaimDoc, bad_subdomain, read_claim),
}

_POLICIES = {
    "NetworkPolicy": read_network_policy,
    "ClusterNetworkPolicy": read_cluster_policy,
    "AdminNetworkPolicy": read_admin_policy,
    "BaselineAdminNetworkPolicy": read_baseline_policy,
}

_UNREADABLE = object()
_DEEPEST_LIST = 8  # Lists inside Lists


class _Loader:
    def __init__(self) -> None:
        self._objects: list[ClusterObject] = []
        self._problems: list[Problem] = []
        self._warnings: list[Problem] = []
        self._notes: list[Problem] = []
        self._sharing = Sharing()
        self._unread = Unread()
        self._sources: list[Source] = []
        self._real = RealPods()
        self._controllers: dict[str, str] = {}  # NetworkPolicy key → Kind name
        self._seen: dict[tuple[str, str, str], tuple[object, Origin, str]] = {}
        self._peek = msgspec.json.Decoder(_Peek)
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {}

    # -- from documents to entries -----------------------------------------------------

    def add(self, document: Document) -> None:
        if document.raw is not None:
            self._add_raw(document.origin, "", document.raw, ("", ""), 0)
        elif document.optional and not (
            isinstance(document.value, dict) and "apiVersion" in document.value
        ):
            self._warn(document.origin, "", "no Kubernetes object; ignored")
        else:
            self._add_value(document.origin, "", document.value, ("", ""), 0)

    def _add_raw(
        self,
        origin: Origin,
        place: str,
        raw: bytes | msgspec.Raw,
        default: tuple[str, str],
        depth: int,
    ) -> None:
        try:
            peek = self._peek.decode(raw)
        except msgspec.ValidationError:
            value = self._decode(origin, place, raw)
            if value is not _UNREADABLE:
                self._add_value(origin, place, value, default, depth)
            return
        except (msgspec.DecodeError, RecursionError) as error:
            self._error(origin, place, _syntax(error))
            return
        version, kind = peek.api_version or default[0], peek.kind or default[1]
        if peek.items is not msgspec.UNSET and kind.endswith("List"):
            inner = (version, kind[:-4]) if kind != "List" else ("", "")
            for index, item in enumerate(peek.items or ()):
                self._item(origin, place, index, item, None, inner, depth)
            return
        meta = peek.metadata or _PeekMeta()
        self._entry(
            _Entry(origin, place, version, kind, meta.name or "", meta.namespace or "", raw, None)
        )

    def _item(
        self,
        origin: Origin,
        place: str,
        index: int,
        raw: msgspec.Raw | None,
        value: object,
        default: tuple[str, str],
        depth: int,
    ) -> None:
        where = f"{place}.items[{index}]" if place else f"items[{index}]"
        if depth >= _DEEPEST_LIST:
            self._error(origin, where, "Lists inside Lists, too deep")
        elif raw is not None:
            self._add_raw(origin, where, raw, default, depth + 1)
        else:
            self._add_value(origin, where, value, default, depth + 1)

    def _add_value(
        self, origin: Origin, place: str, value: object, default: tuple[str, str], depth: int
    ) -> None:
        if not isinstance(value, dict):
            self._error(origin, place, f"found {show(value)}, expected a Kubernetes object")
            return
        version = value.get("apiVersion") or default[0]
        kind = value.get("kind") or default[1]
        for key, word in (("apiVersion", version), ("kind", kind)):
            if not isinstance(word, str):
                where = f"{place}.{key}" if place else key
                self._error(origin, where, f"found {show(word)}, expected text")
                return
        items = value.get("items")
        if "items" in value and kind.endswith("List"):
            if not isinstance(items, (list, type(None))):
                where = f"{place}.items" if place else "items"
                self._error(origin, where, f"found {show(items)}, expected a list")
                return
            inner = (version, kind[:-4]) if kind != "List" else ("", "")
            for index, item in enumerate(items or ()):
                self._item(origin, place, index, None, item, inner, depth)
            return
        meta = value.get("metadata")
        meta = meta if isinstance(meta, dict) else {}
        name, namespace = meta.get("name"), meta.get("namespace")
        self._entry(
            _Entry(
                origin,
                place,
                version,
                kind,
                name if isinstance(name, str) else "",
                namespace if isinstance(namespace, str) else "",
                None,
                value,
            )
        )

    # -- from entries to objects -------------------------------------------------------

    def _entry(self, entry: _Entry) -> None:
        if not entry.version or not entry.kind:
            lacking = " and ".join(
                key
                for key, word in (("apiVersion", entry.version), ("kind", entry.kind))
                if not word
            )
            report = self._report(entry)
            report.error("", f"no {lacking}: expected a Kubernetes object")
        elif not is_read(entry.version, entry.kind):
            self._unread.add(entry.version, entry.kind, entry.origin, entry.name)
        elif entry.kind in _TYPED:
            self._typed(entry, _TYPED[entry.kind])
        else:
            self._policy(entry)

    def _typed(self, entry: _Entry, typed: _Typed) -> None:
        doc = self._decoded(entry, typed.doc)
        if doc is None:
            return
        report = self._report(entry)
        namespaced = KINDS[entry.kind].namespaced
        who = identify(doc.metadata, report, namespaced=namespaced, rule=typed.rule)
        if who is None:
            return
        obj = typed.read(doc, who, report, self._sharing)
        if report.failed or not self._first(entry, who, obj):
            return
        if isinstance(obj, Pod):
            owner = controller_of(doc.metadata)
            self._real.add(obj.namespace, obj.name, obj.labels, owner, made_up=obj.made_up)
        if isinstance(obj, Source):
            self._sources.append(obj)
        else:
            self._objects.append(obj)

    def _decoded(self, entry: _Entry, doc: type[Any]) -> Any:
        """The entry as its type; None after reporting why not, every mismatch."""
        try:
            if entry.raw is None:
                return msgspec.convert(entry.value, doc)
            decoder = self._decoders.get(entry.kind)
            if decoder is None:
                decoder = self._decoders[entry.kind] = msgspec.json.Decoder(doc)
            return decoder.decode(entry.raw)
        except msgspec.ValidationError as error:
            value = entry.value
            if entry.raw is not None:
                value = self._decode(entry.origin, entry.place, entry.raw)
            if value is _UNREADABLE:
                return None
            report = self._report(entry)
            found = mismatches(value, doc) or [("", _syntax(error))]
            for path, message in found:
                report.error(path, message)
        except (msgspec.DecodeError, RecursionError) as error:
            self._report(entry).error("", _syntax(error))
        return None

    def _policy(self, entry: _Entry) -> None:
        value = entry.value
        report = self._report(entry)
        if entry.raw is not None:
            value = self._decode(entry.origin, entry.place, entry.raw)
            for key in repeated_keys(bytes(entry.raw)):
                report.error("", f"the key {quote(key)} stands twice in one object")
        if not isinstance(value, dict):
            return
        fields = Fields(report, "", value)
        metadata = read_metadata(fields, namespaced=KINDS[entry.kind].namespaced)
        if metadata is None:
            return
        who = Identity(metadata.name, metadata.namespace)
        if entry.kind == "SandboxTemplate":
            template = read_template(fields, metadata, self._sharing)
            if template is not None and not report.failed and self._first(entry, who, template):
                self._sources.append(template)
            return
        policy = _POLICIES[entry.kind](fields, metadata)
        if policy is None or report.failed or not self._first(entry, who, policy):
            return
        self._objects.append(policy)
        if isinstance(policy, NetworkPolicy) and metadata.controller:
            self._controllers[policy.key] = metadata.controller

    def _decode(self, origin: Origin, place: str, raw: bytes | msgspec.Raw) -> object:
        try:
            return msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            self._error(origin, place, _syntax(error))
            return _UNREADABLE

    def _first(self, entry: _Entry, who: Identity, thing: object) -> bool:
        """Whether the object is new; a second of the same name is reported."""
        key = (entry.kind, who.namespace, who.name)
        before = self._seen.setdefault(key, (thing, entry.origin, entry.place))
        if before[0] is thing:
            return True
        first, origin, place = before
        where = f"{origin} {place}" if place else str(origin)
        report = self._report(entry)
        if _same(first, thing):
            report.warn("", f"stands twice and is the same; first in {where}")
        else:
            report.error("", f"stands twice and differs; first in {where}")
        return False

    def finish(self) -> LoadResult:
        stand_ins = StandIns(
            self._objects, self._real, self._controllers, self._warnings, self._notes
        )
        stand_ins.make(self._sources)
        self._warnings.extend(self._unread.warnings())
        return LoadResult(
            self._objects, self._problems, self._warnings, self._notes, self._controllers
        )

    # -- reporting ---------------------------------------------------------------------

    def _report(self, entry: _Entry) -> Report:
        return Report(entry.origin, entry.label, entry.place, self._problems, self._warnings)

    def _error(self, origin: Origin, place: str, message: str) -> None:
        self._problems.append(Problem(origin, "", place, message))

    def _warn(self, origin: Origin, place: str, message: str) -> None:
        self._warnings.append(Problem(origin, "", place, message))


def _same(a: object, b: object) -> bool:
    """Whether two objects say the same, wherever they were read."""
    if type(a) is not type(b):
        return False
    if isinstance(a, msgspec.Struct) and isinstance(b, msgspec.Struct):
        return bool(msgspec.structs.replace(b, origin=getattr(a, "origin", None)) == a)
    return a == b


def _syntax(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error).partition(" - at ")[0]  # msgspec's own path stops at what it can name
