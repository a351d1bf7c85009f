"""Workloads: the pods that Deployments and their like stand for when no pod is given.

A Git directory has no pods, only what makes them. Each workload is represented by up to
three pods (a StatefulSet by ten: its pods have names of their own), called
``<name>-0`` and on, with the template's labels and the labels its controller is known to
add. A workload whose real pods are in the input makes none.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from knp_py.manifests.fields import Fields
from knp_py.manifests.pods import Identity, PodSpec, controller_of, merged, read_pod_spec
from knp_py.manifests.problems import Report
from knp_py.manifests.selectors import read_selector
from knp_py.manifests.sharing import Sharing
from knp_py.manifests.typed import (
    ControllerDoc,
    CronJobDoc,
    Meta,
    SelectorDoc,
    TemplateDoc,
    WorkloadDoc,
    WorkloadSpecDoc,
)
from knp_py.model.objects import Origin, Pod
from knp_py.model.selectors import LabelSelector

MOST = 3
MOST_STATEFUL = 10
# Whose pods get the plain names when two workloads are called the same: a StatefulSet's
# pods really have them.
PRECEDENCE = (
    *("StatefulSet", "Deployment", "DaemonSet", "ReplicaSet", "ReplicationController"),
    *("Job", "CronJob"),
)


class Workload(msgspec.Struct, frozen=True):
    """A workload, reduced to the pods it stands for.

    ``replicas`` is how many it asks for, None for one on every node. ``selector`` is None
    for Jobs, whose labels are generated. ``controller`` is (kind, name) of its owner.
    """

    kind: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    spec: PodSpec
    replicas: int | None
    first: int = 0
    selector: LabelSelector | None = None
    controller: tuple[str, str] | None = None
    origin: Origin = Origin()

    def pod_labels(self, pod: str, ordinal: int) -> Mapping[str, str]:
        """The labels of one of its pods."""
        if self.kind == "StatefulSet":
            return merged(
                self.labels,
                {
                    "statefulset.kubernetes.io/pod-name": pod,
                    "apps.kubernetes.io/pod-index": str(ordinal),
                },
            )
        if self.kind == "Job":
            return merged(
                self.labels, {"batch.kubernetes.io/job-name": self.name, "job-name": self.name}
            )
        return self.labels


def workload_reader(kind: str) -> Callable[[WorkloadDoc, Identity, Report, Sharing], Workload]:
    """The reader of Deployment, StatefulSet, DaemonSet or ReplicaSet."""

    def read(doc: WorkloadDoc, who: Identity, report: Report, sharing: Sharing) -> Workload:
        spec = _required(doc.spec, report)
        labels, pods = _read_template(spec.template, "spec.template", report, sharing)
        selector = _read_selector(spec.selector, labels, report)
        return Workload(
            kind=kind,
            namespace=who.namespace,
            name=who.name,
            labels=labels,
            spec=pods,
            replicas=None if kind == "DaemonSet" else _count(spec.replicas, "replicas", report),
            first=max(0, (spec.ordinals.start if spec.ordinals else None) or 0),
            selector=selector,
            controller=controller_of(doc.metadata),
            origin=report.origin,
        )

    return read


def read_controller(
    doc: ControllerDoc, who: Identity, report: Report, sharing: Sharing
) -> Workload:
    """A ReplicationController."""
    if doc.spec is None:
        report.error("spec", "missing, expected an object")
    template = doc.spec.template if doc.spec else None
    labels, pods = _read_template(template, "spec.template", report, sharing)
    selector = (doc.spec.selector if doc.spec else None) or labels
    return Workload(
        kind="ReplicationController",
        namespace=who.namespace,
        name=who.name,
        labels=labels,
        spec=pods,
        replicas=_count(doc.spec.replicas if doc.spec else None, "replicas", report),
        selector=LabelSelector(tuple(sorted(selector.items()))) if selector else None,
        controller=controller_of(doc.metadata),
        origin=report.origin,
    )


def read_job(doc: WorkloadDoc, who: Identity, report: Report, sharing: Sharing) -> Workload:
    """A Job; a suspended or finished one has no pods."""
    spec = _required(doc.spec, report)
    labels, pods = _read_template(spec.template, "spec.template", report, sharing)
    done = any(
        condition.type in {"Complete", "Failed"} and condition.status == "True"
        for condition in (doc.status.conditions if doc.status else None) or ()
    )
    return Workload(
        kind="Job",
        namespace=who.namespace,
        name=who.name,
        labels=labels,
        spec=pods,
        replicas=0 if done or spec.suspend else _job_count(spec, "", report),
        controller=controller_of(doc.metadata),
        origin=report.origin,
    )


def read_cron_job(doc: CronJobDoc, who: Identity, report: Report, sharing: Sharing) -> Workload:
    """A CronJob: the pods of one run."""
    cron = doc.spec
    if cron is None or cron.job_template is None or cron.job_template.spec is None:
        where = "spec" if cron is None else "spec.jobTemplate"
        report.error(where, "missing, expected an object")
        return Workload("CronJob", who.namespace, who.name, {}, PodSpec(), 0)
    spec = cron.job_template.spec
    path = "spec.jobTemplate.spec."
    labels, pods = _read_template(spec.template, f"{path}template", report, sharing)
    return Workload(
        kind="CronJob",
        namespace=who.namespace,
        name=who.name,
        labels=labels,
        spec=pods,
        replicas=0 if cron.suspend else _job_count(spec, path, report),
        controller=controller_of(doc.metadata),
        origin=report.origin,
    )


def _required(spec: WorkloadSpecDoc | None, report: Report) -> WorkloadSpecDoc:
    if spec is None:
        report.error("spec", "missing, expected an object")
        return WorkloadSpecDoc()
    return spec


def _read_template(
    template: TemplateDoc | None, path: str, report: Report, sharing: Sharing
) -> tuple[Mapping[str, str], PodSpec]:
    if template is None:
        report.error(path, "missing, expected a pod template")
        return {}, PodSpec()
    meta = template.metadata or Meta()
    labels = sharing.labels(report, f"{path}.metadata.labels", meta.labels)
    return labels, read_pod_spec(template.spec, f"{path}.spec", report, sharing)


def _read_selector(
    doc: SelectorDoc | None, labels: Mapping[str, str], report: Report
) -> LabelSelector | None:
    """``apps/v1`` requires it, and that it selects the template's labels."""
    if doc is None:
        report.error("spec.selector", "missing, expected a selector of the template's labels")
        return None
    selector = read_selector(Fields(report, "spec.selector", msgspec.to_builtins(doc)))
    if not report.failed and not selector.matches(labels):
        report.error("spec.selector", "does not select spec.template.metadata.labels")
    return selector


def _job_count(spec: WorkloadSpecDoc, prefix: str, report: Report) -> int:
    count = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is not None:
        count = min(count, spec.completions)
    return _count(count, f"{prefix}parallelism", report)


def _count(replicas: int | None, key: str, report: Report) -> int:
    count = 1 if replicas is None else replicas
    if count < 0:
        path = key if "." in key else f"spec.{key}"
        report.error(path, f"found {count}, expected 0 or more")
    return max(0, count)


class RealPods:
    """The pods that documents hold, for telling whether a workload has its own already."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self._controlled: set[tuple[str, str, str]] = set()
        self._loose: dict[tuple[str, str, str], list[Mapping[str, str]]] = {}

    def add(self, pod: Pod, controller: tuple[str, str] | None) -> None:
        """Note one pod. One without status is a name taken, not somebody's real pod."""
        namespace = pod.namespace
        self.keys.add(pod.key)
        if controller is not None:
            self._controlled.add((namespace, *controller))
            # The chain's next link, also where the ReplicaSet or Job itself is not given.
            kind, owner = controller
            above = {"ReplicaSet": "Deployment", "Job": "CronJob"}.get(kind)
            if above is not None and "-" in owner:
                self._controlled.add((namespace, above, owner.rpartition("-")[0]))
        elif not pod.made_up:
            for pair in pod.labels.items():
                self._loose.setdefault((namespace, *pair), []).append(pod.labels)

    def controlled_by(self, namespace: str, kind: str, name: str) -> bool:
        """Whether a pod says that this object controls it, itself or through another."""
        return (namespace, kind, name) in self._controlled

    def of(self, workload: Workload) -> bool:
        """Whether a pod is the workload's: by its owner or, owned by nobody, by its labels."""
        if self.controlled_by(workload.namespace, workload.kind, workload.name):
            return True
        selector = workload.selector
        if selector is None or not workload.labels:
            return False
        candidates = [
            self._loose.get((workload.namespace, *pair), [])
            for pair in selector.match_labels or tuple(workload.labels.items())
        ]
        return any(selector.matches(labels) for labels in min(candidates, key=len, default=[]))


def representatives(workloads: Iterable[Workload], real: RealPods) -> tuple[list[Workload], int]:
    """The workloads that pods must be made up for, and how many have real ones."""
    every = list(workloads)
    known = {(w.namespace, w.kind, w.name) for w in every}
    found: list[Workload] = []
    with_pods = 0
    for workload in every:
        if workload.controller and (workload.namespace, *workload.controller) in known:
            continue  # its owner stands for it
        if real.of(workload):
            with_pods += 1
        elif workload.replicas != 0:
            found.append(workload)
    found.sort(key=lambda w: (PRECEDENCE.index(w.kind), w.namespace, w.name))
    return found, with_pods
