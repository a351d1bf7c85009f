"""Documents to objects: all that is wrong is said, nothing is skipped silently."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from knp_py.manifests.adminpolicy import read_admin_policy, read_baseline_policy
from knp_py.manifests.clusterobjects import read_namespace, read_node, read_service
from knp_py.manifests.clusterpolicy import read_cluster_policy
from knp_py.manifests.document import Document
from knp_py.manifests.entries import UNREADABLE, Entry, Unpacker, syntax
from knp_py.manifests.fields import Fields
from knp_py.manifests.kinds import KINDS, Unread, is_read
from knp_py.manifests.madeup import MadeUp
from knp_py.manifests.metadata import read_metadata
from knp_py.manifests.mismatch import mismatches, repeated_keys
from knp_py.manifests.networkpolicy import read_network_policy
from knp_py.manifests.pods import Identity, controller_of, identify, read_pod
from knp_py.manifests.problems import Problem, Report, quote
from knp_py.manifests.sandboxes import read_claim, read_sandbox, read_template, read_warm_pool
from knp_py.manifests.sharing import Sharing
from knp_py.manifests.standins import Source, add_stand_ins
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


class _Typed(msgspec.Struct, frozen=True):
    """How a kind is read whose other fields are skipped: its type, its rule for names."""

    doc: type[Any]
    rule: Callable[[str], str | None]
    read: Callable[[Any, Identity, Report, Sharing], ClusterObject | Source]


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


class _Loader:
    def __init__(self) -> None:
        self._objects: list[ClusterObject] = []
        self._sources: list[Source] = []
        self._problems: list[Problem] = []
        self._warnings: list[Problem] = []
        self._notes: list[Problem] = []
        self._unpacker = Unpacker(self._problems)
        self._sharing = Sharing()
        self._unread = Unread()
        self._real = RealPods()
        self._controllers: dict[str, str] = {}  # NetworkPolicy key → Kind name
        self._seen: dict[tuple[str, str, str], tuple[object, Origin, str]] = {}
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {}

    def add(self, document: Document) -> None:
        value = document.value
        if document.optional and not (isinstance(value, dict) and "apiVersion" in value):
            # A scenario beside the manifests it is about is understood, by `knp test`.
            if not (isinstance(value, dict) and "steps" in value):
                message = "no Kubernetes object; ignored"
                self._warnings.append(Problem(document.origin, "", "", message))
            return
        for entry in self._unpacker.entries(document):
            self._entry(entry)

    def finish(self) -> LoadResult:
        made_up = MadeUp(self._objects, set(self._real.keys), self._warnings, self._notes)
        add_stand_ins(made_up, self._real, self._controllers, self._sources)
        self._warnings.extend(self._unread.warnings())
        return LoadResult(
            self._objects, self._problems, self._warnings, self._notes, self._controllers
        )

    def _entry(self, entry: Entry) -> None:
        if not entry.version or not entry.kind:
            words = (("apiVersion", entry.version), ("kind", entry.kind))
            lacking = " and ".join(key for key, word in words if not word)
            self._report(entry).error("", f"no {lacking}: expected a Kubernetes object")
        elif not is_read(entry.version, entry.kind):
            self._unread.add(entry.version, entry.kind, entry.origin, entry.name)
        elif entry.kind in _TYPED:
            self._typed(entry, _TYPED[entry.kind])
        else:
            self._field_by_field(entry)

    def _typed(self, entry: Entry, typed: _Typed) -> None:
        doc = self._decoded(entry, typed.doc)
        if doc is None:
            return
        report = self._report(entry)
        namespaced = KINDS[entry.kind].namespaced
        who = identify(doc.metadata, report, namespaced=namespaced, rule=typed.rule)
        if who is None:
            return
        found = typed.read(doc, who, report, self._sharing)
        if report.failed or not self._first(entry, who, found):
            return
        if isinstance(found, Source):
            self._sources.append(found)
            return
        self._objects.append(found)
        if isinstance(found, Pod):
            owner = controller_of(doc.metadata)
            self._real.add(found.namespace, found.name, found.labels, owner, made_up=found.made_up)

    def _decoded(self, entry: Entry, doc: type[Any]) -> Any:
        """The entry as its type; None after reporting why not, every mismatch."""
        try:
            if entry.raw is None:
                return msgspec.convert(entry.value, doc)
            decoder = self._decoders.get(entry.kind)
            if decoder is None:
                decoder = self._decoders[entry.kind] = msgspec.json.Decoder(doc)
            return decoder.decode(entry.raw)
        except msgspec.ValidationError as error:
            value = self._plain_value(entry)
            if value is not UNREADABLE:
                report = self._report(entry)
                for path, message in mismatches(value, doc) or [("", syntax(error))]:
                    report.error(path, message)
        except (msgspec.DecodeError, RecursionError) as error:
            self._report(entry).error("", syntax(error))
        return None

    def _field_by_field(self, entry: Entry) -> None:
        """Policies, and what is one as well: their unknown fields must be seen."""
        value = self._plain_value(entry)
        if not isinstance(value, dict):
            return
        report = self._report(entry)
        if entry.raw is not None:
            for key in repeated_keys(bytes(entry.raw)):
                report.error("", f"the key {quote(key)} stands twice in one object")
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

    def _plain_value(self, entry: Entry) -> object:
        if entry.raw is None:
            return entry.value
        return self._unpacker.decode(entry.origin, entry.place, entry.raw)

    def _first(self, entry: Entry, who: Identity, thing: object) -> bool:
        """Whether the object is new; a second of the same name is reported."""
        key = (entry.kind, who.namespace, who.name)
        first, origin, place = self._seen.setdefault(key, (thing, entry.origin, entry.place))
        if first is thing:
            return True
        where = f"{origin} {place}" if place else str(origin)
        report = self._report(entry)
        if _same(first, thing):
            report.warn("", f"stands twice and is the same; first in {where}")
        else:
            report.error("", f"stands twice and differs; first in {where}")
        return False

    def _report(self, entry: Entry) -> Report:
        return Report(entry.origin, entry.label, entry.place, self._problems, self._warnings)


def _same(a: object, b: object) -> bool:
    """Whether two objects say the same, wherever they were read."""
    if isinstance(a, msgspec.Struct) and isinstance(b, msgspec.Struct):
        return bool(msgspec.structs.replace(b, origin=getattr(a, "origin", None)) == a)
    return a == b
