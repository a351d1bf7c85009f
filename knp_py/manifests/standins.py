"""What documents stand for but do not hold: pods of workloads and sandboxes, derived policies.

Works on the whole input at once, after everything is read, because what is real wins
over what would be made up.
"""

from collections.abc import Iterable, Mapping

from knp_py.manifests.madeup import MadeUp, Owner
from knp_py.manifests.sandboxes import Claim, Sandbox, SandboxTemplate, WarmPool
from knp_py.manifests.sandboxpods import SandboxPods
from knp_py.manifests.workloads import (
    MOST,
    MOST_STATEFUL,
    RealPods,
    Workload,
    representatives,
)

Source = Workload | Sandbox | SandboxTemplate | WarmPool | Claim


def add_stand_ins(
    made_up: MadeUp, real: RealPods, controllers: Mapping[str, str], sources: Iterable[Source]
) -> None:
    """Add all of it to ``made_up.objects``, addresses included.

    ``controllers`` has ``Kind name`` of what controls each NetworkPolicy, by its key.
    """
    workloads: list[Workload] = []
    sandboxes: list[Sandbox | SandboxTemplate | WarmPool | Claim] = []
    for source in sources:
        if isinstance(source, Workload):
            workloads.append(source)
        else:
            sandboxes.append(source)
    SandboxPods(made_up, real, controllers, sandboxes).add()
    chosen, with_pods = representatives(workloads, real)
    for workload in chosen:
        _add_workload(made_up, workload)
    if with_pods:
        made_up.note("", f"workloads that have their pods in the input: {with_pods}")
    made_up.give_addresses()


def _add_workload(made_up: MadeUp, workload: Workload) -> None:
    most = MOST_STATEFUL if workload.kind == "StatefulSet" else MOST
    nodes = sorted(made_up.nodes) if workload.replicas is None else []
    count = max(1, len(nodes)) if workload.replicas is None else workload.replicas
    for index in range(min(count, most)):
        ordinal = workload.first + index
        name = _free_name(made_up, workload, ordinal)
        made_up.add(
            Owner(workload.kind, workload.namespace, workload.name, ordinal),
            name,
            workload.pod_labels(name, ordinal),
            workload.spec,
            workload.origin,
            node=nodes[index] if nodes else "",
        )
    made_up.note_cap(Owner(workload.kind, workload.namespace, workload.name), count, most)


def _free_name(made_up: MadeUp, workload: Workload, ordinal: int) -> str:
    """``<name>-<ordinal>``, with the kind in it where another pod is called so."""
    infix = ""
    while True:
        name = f"{workload.name}{infix}-{ordinal}"
        if f"{workload.namespace}/{name}" not in made_up.names:
            return name
        infix = f"{infix}-x" if infix else f"-{workload.kind.lower()}"
