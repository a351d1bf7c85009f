"""What documents say by themselves: objects, and what others follow from, with every problem.

One ``Part`` is what one file, or any run of documents, holds. Parts do not depend on each
other, so whoever follows files that change reads only those again; ``knp_py.manifests.load``
puts parts together.
"""

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
from knp_py.manifests.metadata import read_metadata
from knp_py.manifests.mismatch import mismatches, repeated_keys
from knp_py.manifests.networkpolicy import read_network_policy
from knp_py.manifests.pods import Identity, controller_of, identify, read_pod
from knp_py.manifests.problems import Problem, Report, quote
from knp_py.manifests.sandboxes import read_claim, read_sandbox, read_template, read_warm_pool
from knp_py.manifests.sharing import Sharing
from knp_py.manifests.standins import Source
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
    read_controller,
    read_cron_job,
    read_job,
    workload_reader,
)
from knp_py.model.changes import ClusterObject, Key
from knp_py.model.objects import Pod
from knp_py.model.policy import NetworkPolicy


class Thing(msgspec.Struct, frozen=True):
    """One object of a document, or one that others follow from.

    ``place`` is where in its document it stands, ``items[3]`` or empty. ``controller`` is
    (kind, name) of the owner that controls it; noted for pods only.
    """

    key: Key
    found: ClusterObject | Source
    place: str
    controller: tuple[str, str] | None = None

    @property
    def label(self) -> str:
        """``Kind namespace/name``."""
        kind, namespace, name = self.key
        return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


class Part:
    """What some documents say. Complete once it is handed out; nobody changes it then.

    ``things`` are in the documents' order, ``repeated`` those of a key that is in ``things``
    already. ``unsettled`` says that other parts have a say in what this one comes to: it
    holds workloads, sandboxes, or pods without an address; ``plain`` that there is nothing but
    things which depend on nobody. ``controllers`` has ``Kind name``
    of what controls each NetworkPolicy, by its key.
    """

    __slots__ = (
        *("controllers", "plain", "problems", "repeated", "things", "unread", "unsettled"),
        "warnings",
    )

    def __init__(self) -> None:
        self.things: dict[Key, Thing] = {}
        self.repeated: list[Thing] = []
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.unread = Unread()
        self.unsettled = False
        self.plain = False
        self.controllers: dict[str, str] = {}

    def add(self, thing: Thing) -> None:
        """One more thing."""
        if self.things.setdefault(thing.key, thing) is not thing:
            self.repeated.append(thing)


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


class PartReader:
    """Reads parts that share texts, labels and other values; keep it no longer than an input."""

    def __init__(self) -> None:
        self._sharing = Sharing()

    def read(self, documents: Iterable[Document]) -> Part:
        """What the documents say. Never raises for what they contain."""
        reading = _Reading(self._sharing)
        for document in documents:
            reading.add(document)
        part = reading.part
        part.plain = not (
            part.problems
            or part.warnings
            or part.unread.seen
            or part.unsettled
            or part.controllers
        )
        return part

    def read_one(self, entry: Entry) -> Part:
        """What a single object says."""
        reading = _Reading(self._sharing)
        reading.add_entry(entry)
        return reading.part


class _Reading:
    """One part under construction."""

    def __init__(self, sharing: Sharing) -> None:
        self.part = Part()
        self._sharing = sharing
        self._unpacker = Unpacker(self.part.problems)

    def add(self, document: Document) -> None:
        value = document.value
        if document.optional and not (isinstance(value, dict) and "apiVersion" in value):
            # A scenario beside the manifests it is about is understood, by `knp test`.
            if not (isinstance(value, dict) and "steps" in value):
                message = "no Kubernetes object; ignored"
                self.part.warnings.append(Problem(document.origin, "", "", message))
            return
        for entry in self._unpacker.entries(document):
            self.add_entry(entry)

    def add_entry(self, entry: Entry) -> None:
        if not entry.version or not entry.kind:
            words = (("apiVersion", entry.version), ("kind", entry.kind))
            lacking = " and ".join(key for key, word in words if not word)
            self._report(entry).error("", f"no {lacking}: expected a Kubernetes object")
        elif not is_read(entry.version, entry.kind):
            self.part.unread.add(entry.version, entry.kind, entry.origin, entry.name)
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
        if report.failed:
            return
        controller = None
        if isinstance(found, Pod):
            controller = controller_of(doc.metadata)
            if found.made_up or (found.host_network and not found.ips):
                self.part.unsettled = True
        elif isinstance(found, Source):
            self.part.unsettled = True
        key = (entry.kind, self._sharing.text(who.namespace), who.name)
        self.part.add(Thing(key, found, entry.place, controller))

    def _decoded(self, entry: Entry, doc: type[Any]) -> Any:
        """The entry as its type; None after reporting why not, every mismatch."""
        try:
            if entry.raw is None:
                return msgspec.convert(entry.value, doc)
            return _decoder(entry.kind).decode(entry.raw)
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
            for twice in repeated_keys(bytes(entry.raw)):
                report.error("", f"the key {quote(twice)} stands twice in one object")
        fields = Fields(report, "", value)
        metadata = read_metadata(fields, namespaced=KINDS[entry.kind].namespaced)
        if metadata is None:
            return
        found: ClusterObject | Source | None
        if entry.kind == "SandboxTemplate":
            found = read_template(fields, metadata, self._sharing)
            self.part.unsettled = True
        else:
            found = _POLICIES[entry.kind](fields, metadata)
        if found is None or report.failed:
            return
        key = (entry.kind, metadata.namespace, metadata.name)
        self.part.add(Thing(key, found, entry.place))
        if isinstance(found, NetworkPolicy) and metadata.controller:
            self.part.controllers.setdefault(found.key, metadata.controller)

    def _plain_value(self, entry: Entry) -> object:
        if entry.raw is None:
            return entry.value
        return self._unpacker.decode(entry.origin, entry.place, entry.raw)

    def _report(self, entry: Entry) -> Report:
        part = self.part
        return Report(entry.origin, entry.label, entry.place, part.problems, part.warnings)


_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {}


def _decoder(kind: str) -> msgspec.json.Decoder[Any]:
    """Made when a kind is met first: that takes longer than reading a small document."""
    found = _DECODERS.get(kind)
    if found is None:
        found = _DECODERS[kind] = msgspec.json.Decoder(_TYPED[kind].doc)
    return found
