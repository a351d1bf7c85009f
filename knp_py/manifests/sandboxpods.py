"""The pods and policies of sandboxes, given everything else that is in the input.

A pod of the input wins over the Sandbox it belongs to, a Sandbox over the claim or the
pool that controls it, and a NetworkPolicy of the derived one's name over the derived one.
"""

from collections.abc import Iterable, Mapping

import msgspec

from knp_py.manifests.madeup import MadeUp, Owner, derived
from knp_py.manifests.pods import merged
from knp_py.manifests.sandboxes import (
    NAME_LABEL,
    TEMPLATE_LABEL,
    Claim,
    Sandbox,
    SandboxTemplate,
    WarmPool,
    name_hash,
)
from knp_py.manifests.workloads import MOST, RealPods
from knp_py.model.objects import Pod
from knp_py.model.policy import NetworkPolicy


class SandboxPods:
    """Adds what sandbox objects stand for.

    ``controllers`` has ``Kind name`` of what controls each NetworkPolicy, by its key.
    """

    def __init__(
        self,
        made_up: MadeUp,
        real: RealPods,
        controllers: Mapping[str, str],
        sources: Iterable[Sandbox | SandboxTemplate | WarmPool | Claim],
    ) -> None:
        self._made_up = made_up
        self._real = real
        self._controllers = controllers
        self._templates: dict[tuple[str, str], SandboxTemplate] = {}
        self._pools: dict[tuple[str, str], WarmPool] = {}
        self._claims: dict[tuple[str, str], Claim] = {}
        self._sandboxes: dict[tuple[str, str], Sandbox] = {}
        for source in sources:
            key = (source.namespace, source.name)
            match source:
                case SandboxTemplate():
                    self._templates[key] = source
                case WarmPool():
                    self._pools[key] = source
                case Claim():
                    self._claims[key] = source
                case Sandbox():
                    self._sandboxes[key] = source
        # (namespace, kind, name) of what a Sandbox of the input belongs to.
        self._served = {
            (sandbox.namespace, *sandbox.controller)
            for sandbox in self._sandboxes.values()
            if sandbox.controller
        }

        # Names of the input's pods by namespace and template hash.
        self._of_template: dict[tuple[str, str], list[str]] = {}
        for obj in made_up.objects if self._pools else ():
            if isinstance(obj, Pod) and not obj.made_up and TEMPLATE_LABEL in obj.labels:
                key = (obj.namespace, obj.labels[TEMPLATE_LABEL])
                self._of_template.setdefault(key, []).append(obj.name)

    def add(self) -> None:
        """Everything."""
        if self._templates:
            self._add_policies()
        for sandbox in self._sandboxes.values():
            self._add_sandbox(sandbox)
        for claim in self._claims.values():
            self._add_claim(claim)
        for pool in self._pools.values():
            self._add_pool(pool)

    def _add_policies(self) -> None:
        objects = self._made_up.objects
        present = {obj.key: obj for obj in objects if isinstance(obj, NetworkPolicy)}
        for (namespace, name), template in self._templates.items():
            there = present.get(f"{namespace}/{template.policy_name}")
            if there is not None:
                ours = self._controllers.get(there.key) == f"SandboxTemplate {name}"
                message = _conflict(template, there, ours=ours)
                if message:
                    label = f"SandboxTemplate {namespace}/{name}"
                    self._made_up.warn(template.origin, label, message)
                if not (ours and message):
                    continue
                objects.remove(there)  # what the controller makes of the template counts
            if template.policy is not None:
                origin = derived(template.origin, "SandboxTemplate", namespace, name)
                objects.append(msgspec.structs.replace(template.policy, origin=origin))

    def _add_sandbox(self, sandbox: Sandbox) -> None:
        namespace, name = sandbox.namespace, sandbox.name
        if not sandbox.running or self._has_real_pod(namespace, name):
            return
        template = self._template_behind(sandbox)
        self._made_up.add(
            Owner("Sandbox", namespace, name),
            name,
            merged(sandbox.labels, _labels(name, template.name if template else "")),
            sandbox.spec,
            sandbox.origin,
            ips=sandbox.ips,
            node=sandbox.node,
        )

    def _template_behind(self, sandbox: Sandbox) -> SandboxTemplate | None:
        """The template of the claim or pool that a Sandbox belongs to."""
        if sandbox.controller is None:
            return None
        kind, owner = sandbox.controller
        key = (sandbox.namespace, owner)
        if kind == "SandboxClaim" and key in self._claims:
            return self._template_of(self._claims[key])
        if kind == "SandboxWarmPool" and key in self._pools:
            return self._templates.get((sandbox.namespace, self._pools[key].template))
        return None

    def _add_claim(self, claim: Claim) -> None:
        namespace = claim.namespace
        if (
            self._has_real_pod(namespace, claim.sandbox)
            or self._real.controlled_by(namespace, "SandboxClaim", claim.name)
            or (namespace, claim.sandbox) in self._sandboxes
            or (namespace, "SandboxClaim", claim.name) in self._served
        ):
            return
        template = self._template_of(claim)
        if template is None:
            pool = self._pools.get((namespace, claim.pool))
            if claim.pool and pool is None:
                lacking = f"SandboxWarmPool {claim.pool}"
            else:
                lacking = f"SandboxTemplate {pool.template if pool else claim.template}"
            self._made_up.warn(
                claim.origin,
                f"SandboxClaim {namespace}/{claim.name}",
                f"{lacking} is not in the input: no pod stands for the claim",
            )
            return
        self._made_up.add(
            Owner("SandboxClaim", namespace, claim.name),
            claim.sandbox,
            merged(template.labels, claim.labels, _labels(claim.sandbox, template.name)),
            template.spec,
            claim.origin,
            ips=claim.ips,
        )

    def _add_pool(self, pool: WarmPool) -> None:
        namespace, name = pool.namespace, pool.name
        template = self._templates.get((namespace, pool.template))
        if template is None:
            self._made_up.warn(
                pool.origin,
                f"SandboxWarmPool {namespace}/{name}",
                f"SandboxTemplate {pool.template} is not in the input: no pod stands for the pool",
            )
            return
        if (
            (namespace, "SandboxWarmPool", name) in self._served
            or self._real.controlled_by(namespace, "SandboxWarmPool", name)
            or self._pods_look_like(pool)
        ):
            return
        for ordinal in range(min(pool.replicas, MOST)):
            pod = f"{name}-{ordinal}"
            self._made_up.add(
                Owner("SandboxWarmPool", namespace, name, ordinal),
                pod,
                merged(template.labels, _labels(pod, template.name)),
                template.spec,
                pool.origin,
            )
        self._made_up.note_cap(Owner("SandboxWarmPool", namespace, name), pool.replicas, MOST)

    def _has_real_pod(self, namespace: str, sandbox: str) -> bool:
        return f"{namespace}/{sandbox}" in self._real.keys or self._real.controlled_by(
            namespace, "Sandbox", sandbox
        )

    def _pods_look_like(self, pool: WarmPool) -> bool:
        """Pods of the template called as the pool's are, where Sandboxes are not given."""
        names = self._of_template.get((pool.namespace, name_hash(pool.template)), ())
        return any(name.startswith(f"{pool.name}-") for name in names)

    def _template_of(self, claim: Claim) -> SandboxTemplate | None:
        name = claim.template
        if claim.pool:
            pool = self._pools.get((claim.namespace, claim.pool))
            if pool is None:
                return None
            name = pool.template
        return self._templates.get((claim.namespace, name))


def _labels(sandbox: str, template: str) -> dict[str, str]:
    """The labels the controller puts on a sandbox's pod."""
    labels = {NAME_LABEL: name_hash(sandbox)}
    if template:
        labels[TEMPLATE_LABEL] = name_hash(template)
    return labels


def _conflict(template: SandboxTemplate, there: NetworkPolicy, *, ours: bool) -> str:
    """What to say of a NetworkPolicy of the derived one's name.

    One that the template controls follows the template; any other is in force as it is.
    """
    name = there.name
    if template.policy is None:
        return (
            f"Unmanaged, but its NetworkPolicy {name} is still there: judged without it, as the"
            " controller deletes it"
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
            "the template's is judged, as the controller overwrites it"
        )
    return ""
