"""What documents stand for but do not hold: pods of workloads and sandboxes, derived policies.

Works on the whole input at once, after everything is read: what is real wins over what
would be made up.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from knp_py.manifests.addresses import Addresses
from knp_py.manifests.pods import PodSpec, merged
from knp_py.manifests.problems import Problem
from knp_py.manifests.sandboxes import (
    NAME_LABEL,
    TEMPLATE_LABEL,
    Claim,
    Sandbox,
    SandboxTemplate,
    WarmPool,
    derived,
    name_hash,
)
from knp_py.manifests.workloads import (
    MOST,
    MOST_STATEFUL,
    RealPods,
    Workload,
    representatives,
)
from knp_py.model.changes import ClusterObject
from knp_py.model.objects import Node, Origin, Pod, Service
from knp_py.model.policy import NetworkPolicy

Source = Workload | Sandbox | SandboxTemplate | WarmPool | Claim


class _Owner(NamedTuple):
    """Who a made-up pod comes from: what its address is derived from."""

    kind: str
    namespace: str
    name: str
    ordinal: int = 0


class StandIns:
    """Adds to ``objects`` what the sources stand for.

    ``controllers`` has (kind, name) of what controls each NetworkPolicy, by its key.
    """

    def __init__(
        self,
        objects: list[ClusterObject],
        real: RealPods,
        controllers: Mapping[str, str],
        warnings: list[Problem],
        notes: list[Problem],
    ) -> None:
        self._objects = objects
        self._real = real
        self._controllers = controllers
        self._warnings = warnings
        self._notes = notes
        self._nodes = {obj.name: obj for obj in objects if isinstance(obj, Node)}
        self._pending: list[tuple[_Owner, int]] = []  # (owner, index into objects)
        self._names = set(real.keys)

    def make(self, sources: Iterable[Source]) -> None:
        """Everything, in an order that does not depend on the input's."""
        found = list(sources)
        for index, obj in enumerate(self._objects):
            if isinstance(obj, Pod) and (obj.made_up or (obj.host_network and not obj.ips)):
                owner = _Owner("Pod", obj.namespace, obj.name)
                self._pending.append((owner, index))
        templates = {(s.namespace, s.name): s for s in found if isinstance(s, SandboxTemplate)}
        self._add_policies(templates)
        sandboxes = [s for s in found if isinstance(s, Sandbox)]
        pools = {(s.namespace, s.name): s for s in found if isinstance(s, WarmPool)}
        claims = {(s.namespace, s.name): s for s in found if isinstance(s, Claim)}
        self._add_sandboxes(sandboxes, templates, pools, claims)
        self._add_claims(claims, templates, pools, sandboxes)
        self._add_pools(pools, templates, sandboxes)
        self._add_workloads([s for s in found if isinstance(s, Workload)])
        self._give_addresses()

    # -- derived policies --------------------------------------------------------------

    def _add_policies(self, templates: Mapping[tuple[str, str], SandboxTemplate]) -> None:
        if not templates:
            return
        present = {
            (obj.namespace, obj.name): obj
            for obj in self._objects
            if isinstance(obj, NetworkPolicy)
        }
        for (namespace, name), template in templates.items():
            there = present.get((namespace, template.policy_name))
            label = f"SandboxTemplate {namespace}/{name}"
            if there is None:
                if template.policy is not None:
                    origin = derived(template.origin, "SandboxTemplate", namespace, name)
                    self._objects.append(msgspec.structs.replace(template.policy, origin=origin))
                continue
            ours = self._controllers.get(there.key) == f"SandboxTemplate {name}"
            message = _conflict(template, there, ours=ours)
            if message:
                self._warn(template.origin, label, message)

    # -- sandboxes ---------------------------------------------------------------------

    def _add_sandboxes(
        self,
        sandboxes: list[Sandbox],
        templates: Mapping[tuple[str, str], SandboxTemplate],
        pools: Mapping[tuple[str, str], WarmPool],
        claims: Mapping[tuple[str, str], Claim],
    ) -> None:
        for sandbox in sandboxes:
            namespace, name = sandbox.namespace, sandbox.name
            if (
                not sandbox.running
                or f"{namespace}/{name}" in self._names
                or self._real.controlled_by(namespace, "Sandbox", name)
            ):
                continue
            template = None
            if sandbox.controller is not None:
                kind, owner = sandbox.controller
                pool, claim = pools.get((namespace, owner)), claims.get((namespace, owner))
                if kind == "SandboxClaim" and claim is not None:
                    template = _template_of(claim, templates, pools)
                elif kind == "SandboxWarmPool" and pool is not None:
                    template = templates.get((namespace, pool.template))
            labels = merged(sandbox.labels, _labels(name, template.name if template else ""))
            self._add_pod(
                _Owner("Sandbox", namespace, name),
                name,
                labels,
                sandbox.spec,
                sandbox.origin,
                ips=sandbox.ips,
                node=sandbox.node,
            )

    def _add_claims(
        self,
        claims: Mapping[tuple[str, str], Claim],
        templates: Mapping[tuple[str, str], SandboxTemplate],
        pools: Mapping[tuple[str, str], WarmPool],
        sandboxes: list[Sandbox],
    ) -> None:
        served = {(s.namespace, *s.controller) for s in sandboxes if s.controller}
        named = {(s.namespace, s.name) for s in sandboxes}
        for (namespace, name), claim in claims.items():
            if (
                f"{namespace}/{claim.sandbox}" in self._names
                or (namespace, claim.sandbox) in named
                or (namespace, "SandboxClaim", name) in served
                or self._real.controlled_by(namespace, "Sandbox", claim.sandbox)
                or self._real.controlled_by(namespace, "SandboxClaim", name)
            ):
                continue
            template = _template_of(claim, templates, pools)
            if template is None:
                if claim.pool and (namespace, claim.pool) not in pools:
                    lacking = f"SandboxWarmPool {claim.pool}"
                else:
                    pool = pools.get((namespace, claim.pool))
                    lacking = f"SandboxTemplate {pool.template if pool else claim.template}"
                self._warn(
                    claim.origin,
                    f"SandboxClaim {namespace}/{name}",
                    f"{lacking} is not in the input: no pod stands for the claim",
                )
                continue
            self._add_pod(
                _Owner("SandboxClaim", namespace, name),
                claim.sandbox,
                merged(template.labels, claim.labels, _labels(claim.sandbox, template.name)),
                template.spec,
                claim.origin,
                ips=claim.ips,
            )

    def _add_pools(
        self,
        pools: Mapping[tuple[str, str], WarmPool],
        templates: Mapping[tuple[str, str], SandboxTemplate],
        sandboxes: list[Sandbox],
    ) -> None:
        served = {(s.namespace, *s.controller) for s in sandboxes if s.controller}
        for (namespace, name), pool in pools.items():
            template = templates.get((namespace, pool.template))
            if template is None:
                self._warn(
                    pool.origin,
                    f"SandboxWarmPool {namespace}/{name}",
                    f"SandboxTemplate {pool.template} is not in the input: "
                    "no pod stands for the pool",
                )
                continue
            if (
                (namespace, "SandboxWarmPool", name) in served
                or self._real.controlled_by(namespace, "SandboxWarmPool", name)
                or self._pool_pods_are_real(pool)
            ):
                continue
            for ordinal in range(min(pool.replicas, MOST)):
                pod = f"{name}-{ordinal}"
                self._add_pod(
                    _Owner("SandboxWarmPool", namespace, name, ordinal),
                    pod,
                    merged(template.labels, _labels(pod, template.name)),
                    template.spec,
                    pool.origin,
                )
            self._note_cap("SandboxWarmPool", pool.namespace, pool.name, pool.replicas, MOST)

    def _pool_pods_are_real(self, pool: WarmPool) -> bool:
        """Pods of the template called as the pool's are, where Sandboxes are not given."""
        hashed = name_hash(pool.template)
        return any(
            isinstance(obj, Pod)
            and obj.namespace == pool.namespace
            and obj.name.startswith(f"{pool.name}-")
            and obj.labels.get(TEMPLATE_LABEL) == hashed
            and not obj.made_up
            for obj in self._objects
        )

    # -- workloads ---------------------------------------------------------------------

    def _add_workloads(self, workloads: list[Workload]) -> None:
        made, with_pods = representatives(workloads, self._real)
        nodes = sorted(self._nodes)
        for workload in made:
            most = MOST_STATEFUL if workload.kind == "StatefulSet" else MOST
            count = max(1, len(nodes)) if workload.replicas is None else workload.replicas
            for ordinal in range(workload.first, workload.first + min(count, most)):
                name = self._free_name(workload, ordinal)
                index = ordinal - workload.first
                node = nodes[index] if workload.replicas is None and nodes else ""
                self._add_pod(
                    _Owner(workload.kind, workload.namespace, workload.name, ordinal),
                    name,
                    workload.pod_labels(name, ordinal),
                    workload.spec,
                    workload.origin,
                    node=node,
                )
            self._note_cap(workload.kind, workload.namespace, workload.name, count, most)
        if with_pods:
            self._note(Origin("input"), "", f"{with_pods} workloads have their pods in the input")

    def _free_name(self, workload: Workload, ordinal: int) -> str:
        """``<name>-<ordinal>``, with the kind in it where another pod is called so."""
        name = f"{workload.name}-{ordinal}"
        if f"{workload.namespace}/{name}" not in self._names:
            return name
        infix = workload.kind.lower()
        name = f"{workload.name}-{infix}-{ordinal}"
        while f"{workload.namespace}/{name}" in self._names:
            infix += "-x"
            name = f"{workload.name}-{infix}-{ordinal}"
        return name

    # -- pods and their addresses ------------------------------------------------------

    def _add_pod(
        self,
        owner: _Owner,
        name: str,
        labels: Mapping[str, str],
        spec: PodSpec,
        origin: Origin,
        *,
        ips: tuple[int, ...] = (),
        node: str = "",
    ) -> None:
        key = f"{owner.namespace}/{name}"
        if key in self._names:
            return
        self._names.add(key)
        pod = Pod(
            uid=key,
            namespace=owner.namespace,
            name=name,
            labels=labels,
            ips=ips,
            node=spec.node or node,
            host_network=spec.host_network,
            ports=spec.ports,
            dns_policy=spec.dns_policy or "ClusterFirst",
            nameservers=spec.nameservers,
            made_up=not ips and not spec.host_network,
            origin=derived(origin, owner.kind, owner.namespace, owner.name),
        )
        if not ips:
            self._pending.append((owner, len(self._objects)))
        self._objects.append(pod)

    def _give_addresses(self) -> None:
        if not self._pending:
            return
        addresses = Addresses(_taken(self._objects))
        for owner, index in sorted(self._pending):
            pod = self._objects[index]
            if not isinstance(pod, Pod):
                continue
            node = self._nodes.get(pod.node)
            if not pod.host_network:
                ips: tuple[int, ...] = (addresses.give(*owner),)
            elif node is not None:
                ips = node.ips[:1]  # a host-network pod's address is its node's
            else:
                ips = ()
            hosts = pod.host_ips or (node.ips if node else ())
            self._objects[index] = msgspec.structs.replace(pod, ips=ips, host_ips=hosts)

    # -- reporting ---------------------------------------------------------------------

    def _note_cap(self, kind: str, namespace: str, name: str, count: int, most: int) -> None:
        if count > most:
            self._note(
                Origin("input"),
                f"{kind} {namespace}/{name}",
                f"{most} pods stand for its {count}",
            )

    def _warn(self, origin: Origin, label: str, message: str) -> None:
        self._warnings.append(Problem(origin, label, "", message))

    def _note(self, origin: Origin, label: str, message: str) -> None:
        self._notes.append(Problem(origin, label, "", message))


def _template_of(
    claim: Claim,
    templates: Mapping[tuple[str, str], SandboxTemplate],
    pools: Mapping[tuple[str, str], WarmPool],
) -> SandboxTemplate | None:
    pool = pools.get((claim.namespace, claim.pool)) if claim.pool else None
    name = pool.template if pool else "" if claim.pool else claim.template
    return templates.get((claim.namespace, name))


def _labels(sandbox: str, template: str) -> dict[str, str]:
    """The labels the controller puts on a sandbox's pod."""
    labels = {NAME_LABEL: name_hash(sandbox)}
    if template:
        labels[TEMPLATE_LABEL] = name_hash(template)
    return labels


def _conflict(template: SandboxTemplate, there: NetworkPolicy, *, ours: bool) -> str:
    """What to say of a NetworkPolicy of the derived one's name; the input's is in force."""
    name = there.name
    if template.policy is None:
        return (
            f"Unmanaged, but its NetworkPolicy {name} is still there: the controller deletes it"
            if ours
            else ""
        )
    if not ours:
        return (
            f"NetworkPolicy {name} is not controlled by the template and is left alone: "
            "the template's own rules are in force nowhere"
        )
    if msgspec.structs.replace(template.policy, origin=there.origin) != there:
        return (
            f"NetworkPolicy {name} in the input differs from what the template says; "
            "the input's is judged, the controller will overwrite it"
        )
    return ""


def _taken(objects: Iterable[ClusterObject]) -> Iterable[int]:
    """Addresses of the documents: what made-up ones must keep clear of."""
    for obj in objects:
        match obj:
            case Pod():
                yield from obj.ips
            case Node():
                yield from obj.all_ips
            case Service():
                yield from obj.cluster_ips
                yield from obj.external_ips
            case _:
                pass
