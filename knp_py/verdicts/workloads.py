"""The pods of a workload that somebody calls by its own name, as people do.

Pods do not say here who made them, so their names have to: ``api-0`` of a StatefulSet,
``api-5c6d7bd9f4-x2x9q`` of a Deployment, ``api-x2x9q`` of a DaemonSet or a Job. Pods that
were made up say whom they stand for.
"""

import re

from knp_py.engine.snapshot import Snapshot
from knp_py.model.objects import Pod

_ORDINAL = re.compile(r"\d{1,4}", re.ASCII).fullmatch
_SUFFIX = re.compile(r"(?:[a-z0-9]{4,10}-)?[a-z0-9]{5}").fullmatch
# What controllers make names of: no vowels, so that no words come out.
_GENERATED = re.compile(r"[bcdfghjklmnpqrstvwxz2456789-]+").fullmatch


def pods_of(snapshot: Snapshot, key: str) -> list[Pod]:
    """The pods of the workload called ``namespace/name`` that have an address of their own.

    In the order of their names, ``api-2`` before ``api-10``.
    """
    namespace, _, name = key.partition("/")
    found = [
        pod
        for pod in (end.pod for end in snapshot.endpoints.values())
        if pod.namespace == namespace
        and (
            pod.origin.derived_from.partition(" ")[2] == key
            or (pod.name.startswith(f"{name}-") and _made_by(pod.name[len(name) + 1 :]))
        )
    ]
    unique = {pod.uid: pod for pod in found}
    return sorted(unique.values(), key=lambda pod: (len(pod.name), pod.name))


def _made_by(suffix: str) -> bool:
    if _ORDINAL(suffix):
        return True
    if not _SUFFIX(suffix):
        return False
    return bool(_GENERATED(suffix)) or any(c.isdigit() for c in suffix)


def representative(snapshot: Snapshot, key: str) -> tuple[Pod, str] | None:
    """A pod of the workload ``namespace/name`` and a remark that says so.

    None when there is a pod of that very name, when there is no such workload, and when
    a policy could tell its pods apart.
    """
    if snapshot.pod_by_key(key) is not None:
        return None
    pods = pods_of(snapshot, key)
    kinds = set()
    for pod in pods:
        end = next(e for a in pod.ips if (e := snapshot.endpoints.get(a)) and e.pod is pod)
        kinds.add((end.identity, tuple(sorted(end.ports.items()))))
    if len(kinds) != 1:
        return None
    first, *others = pods
    if not others:
        return first, f"{key} is judged as its pod {first.name}"
    shown = ", ".join(pod.name for pod in others[:3]) + (", ..." if len(others) > 3 else "")
    return first, f"{key} is judged as its pod {first.name}; selectors do not tell it from {shown}"
