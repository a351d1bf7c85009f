"""agent-sandbox: the pods and the policies that its controller derives.

``Sandbox`` (``agents.x-k8s.io``) and ``SandboxTemplate``, ``SandboxWarmPool`` and
``SandboxClaim`` (``extensions.agents.x-k8s.io``), each v1alpha1 and v1beta1.
"""

from collections.abc import Mapping

import msgspec

from knp_py.manifests.addresses import fnv1a
from knp_py.manifests.fields import Fields, one_of
from knp_py.manifests.metadata import Metadata
from knp_py.manifests.mismatch import mismatches
from knp_py.manifests.networkpolicy import Rules, read_network_rules
from knp_py.manifests.pods import Identity, PodSpec, controller_of, read_pod_spec
from knp_py.manifests.problems import Report, did_you_mean, quote
from knp_py.manifests.sharing import Sharing
from knp_py.manifests.syntax import bad_subdomain
from knp_py.manifests.typed import (
    ClaimDoc,
    Meta,
    RefDoc,
    SandboxDoc,
    TemplateDoc,
    WarmPoolDoc,
)
from knp_py.model.net import parse_address, parse_cidr
from knp_py.model.objects import NAMESPACE_NAME_LABEL, Origin
from knp_py.model.policy import NetworkPeer, NetworkPolicy, NetworkRule, PodPeer
from knp_py.model.selectors import LabelSelector

NAME_LABEL = "agents.x-k8s.io/sandbox-name-hash"
TEMPLATE_LABEL = "agents.x-k8s.io/sandbox-template-ref-hash"

_MANAGEMENT = ("Managed", "Unmanaged")
_TEMPLATE_FIELDS = (
    *("podTemplate", "networkPolicy", "networkPolicyManagement", "volumeClaimTemplates"),
    *("envVarsInjectionPolicy", "service"),
)
# Injected under the secure default when the template leaves dnsPolicy unset: the cluster's
# own resolver is out of reach there.
_PUBLIC_RESOLVERS = (parse_address("8.8.8.8"), parse_address("1.1.1.1"))
_SECURE_INGRESS = NetworkRule(
    peers=(
        PodPeer(
            namespaces=LabelSelector(((NAMESPACE_NAME_LABEL, "agent-sandbox-system"),)),
            pods=LabelSelector((("app", "sandbox-router"),)),
        ),
    )
)
_SECURE_EGRESS = NetworkRule(
    peers=(
        NetworkPeer(
            (parse_cidr("0.0.0.0/0"),),
            tuple(
                parse_cidr(text)
                for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16")
            ),
        ),
        NetworkPeer(
            (parse_cidr("::/0"),), tuple(parse_cidr(text) for text in ("fc00::/7", "fe80::/10"))
        ),
    )
)


def name_hash(name: str) -> str:
    """The value of both labels: 32-bit FNV-1a of the name, eight hex digits."""
    return f"{fnv1a(name.encode()):08x}"


class SandboxTemplate(msgspec.Struct, frozen=True):
    """A template: labels and spec of its pods, and its policy unless it is Unmanaged."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    spec: PodSpec
    policy: NetworkPolicy | None
    origin: Origin

    @property
    def policy_name(self) -> str:
        """What the controller calls its NetworkPolicy."""
        return f"{self.name}-network-policy"


class Sandbox(msgspec.Struct, frozen=True):
    """A Sandbox: one pod of its name, or none while it is suspended."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    spec: PodSpec
    running: bool
    ips: tuple[int, ...]
    node: str
    controller: tuple[str, str] | None
    origin: Origin


class WarmPool(msgspec.Struct, frozen=True):
    """A pool of ``replicas`` sandboxes of a template."""

    namespace: str
    name: str
    template: str
    replicas: int
    origin: Origin


class Claim(msgspec.Struct, frozen=True):
    """A claim: one sandbox, from a pool (v1beta1) or a template (v1alpha1)."""

    namespace: str
    name: str
    pool: str
    template: str
    labels: Mapping[str, str]
    sandbox: str
    ips: tuple[int, ...]
    origin: Origin


def read_template(
    document: Fields, metadata: Metadata, sharing: Sharing
) -> SandboxTemplate | None:
    """A SandboxTemplate, read field by field because it is a policy as well."""
    report = document.report
    document.warn_unknown(("apiVersion", "kind", "metadata", "spec", "status"))
    spec = document.mapping("spec")
    if spec is None:
        if not document.has("spec"):
            document.missing("spec", "an object with a podTemplate")
        return None
    spec.warn_unknown(_TEMPLATE_FIELDS)
    template = _pod_template(spec)
    meta = (template.metadata if template else None) or Meta()
    labels = sharing.labels(report, "spec.podTemplate.metadata.labels", meta.labels)
    pods = read_pod_spec(
        template.spec if template else None, "spec.podTemplate.spec", report, sharing
    )
    management = spec.text("networkPolicyManagement") or "Managed"
    if management not in _MANAGEMENT:
        spec.error(
            "networkPolicyManagement",
            f"found {quote(management)}, expected {one_of(_MANAGEMENT)}"
            f"{did_you_mean(management, _MANAGEMENT)}",
        )
    custom = spec.mapping("networkPolicy")
    if custom is None:
        rules: tuple[Rules, Rules] = ((_SECURE_EGRESS,), (_SECURE_INGRESS,))
    else:
        custom.warn_unknown(("ingress", "egress"))
        rules = read_network_rules(custom, metadata.namespace)
    managed = management == "Managed"
    if custom is not None and not managed:
        spec.warn("networkPolicy", "ignored: networkPolicyManagement is Unmanaged")
    if managed and custom is None and not pods.dns_policy:
        pods = msgspec.structs.replace(pods, dns_policy="None", nameservers=_PUBLIC_RESOLVERS)
    found = SandboxTemplate(
        namespace=metadata.namespace,
        name=metadata.name,
        labels=labels,
        spec=pods,
        policy=None,
        origin=report.origin,
    )
    if not managed:
        return found
    return msgspec.structs.replace(
        found,
        policy=NetworkPolicy(
            namespace=metadata.namespace,
            name=found.policy_name,
            pods=LabelSelector(((TEMPLATE_LABEL, name_hash(metadata.name)),)),
            rules=rules,
        ),
    )


def _pod_template(spec: Fields) -> TemplateDoc | None:
    value = spec.data.get("podTemplate")
    if value is None:
        spec.missing("podTemplate", "a pod template")
        return None
    try:
        return msgspec.convert(value, TemplateDoc)
    except msgspec.ValidationError as error:
        for path, message in mismatches(value, TemplateDoc, "spec.podTemplate") or [
            ("spec.podTemplate", str(error))
        ]:
            spec.report.error(path, message)
        return None


def read_sandbox(doc: SandboxDoc, who: Identity, report: Report, sharing: Sharing) -> Sandbox:
    """A Sandbox with its own pod template."""
    spec = doc.spec
    template = spec.pod_template if spec else None
    if template is None:
        path = "spec" if spec is None else "spec.podTemplate"
        report.error(path, "missing, expected a pod template")
        template = TemplateDoc()
    mode = (spec.operating_mode if spec else None) or "Running"
    if mode not in {"Running", "Suspended"}:
        report.error("spec.operatingMode", f"found {quote(mode)}, expected Running or Suspended")
    replicas = spec.replicas if spec else None
    if replicas not in {None, 0, 1}:
        report.error("spec.replicas", f"found {replicas}, expected 0 or 1")
    meta = template.metadata or Meta()
    status = doc.status
    return Sandbox(
        namespace=who.namespace,
        name=who.name,
        labels=sharing.labels(report, "spec.podTemplate.metadata.labels", meta.labels),
        spec=read_pod_spec(template.spec, "spec.podTemplate.spec", report, sharing),
        running=mode == "Running" and replicas != 0,
        ips=_ips(status.pod_ips if status else None, "status.podIPs", report, sharing),
        node=(status.node_name if status else None) or "",
        controller=controller_of(doc.metadata),
        origin=report.origin,
    )


def read_warm_pool(doc: WarmPoolDoc, who: Identity, report: Report, sharing: Sharing) -> WarmPool:
    """A SandboxWarmPool."""
    spec = doc.spec
    replicas = spec.replicas if spec else None
    if replicas is None or replicas < 0:
        found = "missing" if replicas is None else f"found {replicas}"
        report.error("spec.replicas", f"{found}, expected 0 or more")
    template = _ref(spec.sandbox_template_ref if spec else None, "sandboxTemplateRef", report)
    if not template:
        report.error("spec.sandboxTemplateRef.name", "missing, expected a SandboxTemplate's name")
    return WarmPool(
        who.namespace, who.name, sharing.text(template), max(0, replicas or 0), report.origin
    )


def read_claim(doc: ClaimDoc, who: Identity, report: Report, sharing: Sharing) -> Claim:
    """A SandboxClaim."""
    spec = doc.spec
    pool = _ref(spec.warm_pool_ref if spec else None, "warmPoolRef", report)
    template = _ref(spec.sandbox_template_ref if spec else None, "sandboxTemplateRef", report)
    if not pool and not template:
        report.error(
            "spec.warmPoolRef.name",
            "missing, expected a SandboxWarmPool's name (v1alpha1: sandboxTemplateRef.name)",
        )
    extra = (spec.additional_pod_metadata if spec else None) or Meta()
    sandbox = doc.status.sandbox if doc.status else None
    return Claim(
        namespace=who.namespace,
        name=who.name,
        pool=pool,
        template=template,
        labels=sharing.labels(report, "spec.additionalPodMetadata.labels", extra.labels),
        sandbox=(sandbox.name if sandbox else None) or who.name,
        ips=_ips(sandbox.pod_ips if sandbox else None, "status.sandbox.podIPs", report, sharing),
        origin=report.origin,
    )


def _ref(ref: RefDoc | None, key: str, report: Report) -> str:
    name = (ref.name if ref else None) or ""
    complaint = bad_subdomain(name) if name else None
    if complaint:
        report.error(f"spec.{key}.name", f"found {quote(name)}, expected {complaint}")
    return name


def _ips(texts: list[str] | None, path: str, report: Report, sharing: Sharing) -> tuple[int, ...]:
    found: list[int] = []
    for index, text in enumerate(texts or ()):
        try:
            found.append(sharing.address(text))
        except ValueError:
            report.error(f"{path}[{index}]", f"found {quote(text)}, expected an IP address")
    return tuple(found)
