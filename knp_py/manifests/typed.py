"""What is read of the plain kinds, as types: msgspec skips every other field in C.

Field names are the API's. Everything is optional here, null as well as absent: what is
required is checked where it is used, with a message of our own.
"""

from msgspec import Struct, field


class OwnerReference(Struct, gc=False):
    """``metadata.ownerReferences[]``."""

    kind: str | None = None
    name: str | None = None
    controller: bool | None = None


class Meta(Struct, rename="camel", gc=False):
    """``metadata``."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[OwnerReference] | None = None


class PortDoc(Struct, rename="camel", gc=False):
    """``ports[]`` of a container."""

    name: str | None = None
    container_port: int | None = None
    protocol: str | None = None


class ContainerDoc(Struct, rename="camel", gc=False):
    """A container or init container."""

    restart_policy: str | None = None
    ports: list[PortDoc] | None = None


class DnsConfig(Struct, gc=False):
    """``spec.dnsConfig``."""

    nameservers: list[str] | None = None


class PodSpecDoc(Struct, rename="camel", gc=False):
    """``spec`` of a pod or of a pod template."""

    node_name: str | None = None
    host_network: bool | None = None
    dns_policy: str | None = None
    dns_config: DnsConfig | None = None
    containers: list[ContainerDoc] | None = None
    init_containers: list[ContainerDoc] | None = None


class IpDoc(Struct, gc=False):
    """An entry of ``podIPs``, ``hostIPs`` or ``loadBalancer.ingress``."""

    ip: str | None = None


class PodStatusDoc(Struct, gc=False):
    """``status`` of a pod."""

    phase: str | None = None
    pod_ip: str | None = field(default=None, name="podIP")
    pod_ips: list[IpDoc] | None = field(default=None, name="podIPs")
    host_ip: str | None = field(default=None, name="hostIP")
    host_ips: list[IpDoc] | None = field(default=None, name="hostIPs")


class PodDoc(Struct, gc=False):
    """Pod ``v1``."""

    metadata: Meta | None = None
    spec: PodSpecDoc | None = None
    status: PodStatusDoc | None = None


class PhaseDoc(Struct, gc=False):
    """``status`` of a namespace."""

    phase: str | None = None


class NamespaceDoc(Struct, gc=False):
    """Namespace ``v1``."""

    metadata: Meta | None = None
    status: PhaseDoc | None = None


class NodeAddressDoc(Struct, gc=False):
    """``status.addresses[]``."""

    type: str | None = None
    address: str | None = None


class NodeSpecDoc(Struct, gc=False):
    """``spec`` of a node."""

    pod_cidr: str | None = field(default=None, name="podCIDR")
    pod_cidrs: list[str] | None = field(default=None, name="podCIDRs")


class NodeStatusDoc(Struct, gc=False):
    """``status`` of a node."""

    addresses: list[NodeAddressDoc] | None = None


class NodeDoc(Struct, gc=False):
    """Node ``v1``."""

    metadata: Meta | None = None
    spec: NodeSpecDoc | None = None
    status: NodeStatusDoc | None = None


class ServicePortDoc(Struct, rename="camel", gc=False):
    """``spec.ports[]`` of a Service."""

    name: str | None = None
    protocol: str | None = None
    port: int | None = None
    target_port: int | str | None = None


class ServiceSpecDoc(Struct, gc=False):
    """``spec`` of a Service."""

    type: str | None = None
    selector: dict[str, str] | None = None
    ports: list[ServicePortDoc] | None = None
    cluster_ip: str | None = field(default=None, name="clusterIP")
    cluster_ips: list[str] | None = field(default=None, name="clusterIPs")
    external_ips: list[str] | None = field(default=None, name="externalIPs")


class LoadBalancerDoc(Struct, gc=False):
    """``status.loadBalancer``."""

    ingress: list[IpDoc] | None = None


class ServiceStatusDoc(Struct, rename="camel", gc=False):
    """``status`` of a Service."""

    load_balancer: LoadBalancerDoc | None = None


class ServiceDoc(Struct, gc=False):
    """Service ``v1``."""

    metadata: Meta | None = None
    spec: ServiceSpecDoc | None = None
    status: ServiceStatusDoc | None = None


class TemplateDoc(Struct, gc=False):
    """A pod template."""

    metadata: Meta | None = None
    spec: PodSpecDoc | None = None


class ExpressionDoc(Struct, gc=False):
    """``matchExpressions[]``."""

    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class SelectorDoc(Struct, rename="camel", gc=False):
    """metav1.LabelSelector."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[ExpressionDoc] | None = None


class OrdinalsDoc(Struct, gc=False):
    """``spec.ordinals`` of a StatefulSet."""

    start: int | None = None


class WorkloadSpecDoc(Struct, rename="camel", gc=False):
    """``spec`` of Deployment, StatefulSet, DaemonSet, ReplicaSet or Job."""

    replicas: int | None = None
    selector: SelectorDoc | None = None
    template: TemplateDoc | None = None
    ordinals: OrdinalsDoc | None = None
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None


class ConditionDoc(Struct, gc=False):
    """``status.conditions[]``."""

    type: str | None = None
    status: str | None = None


class WorkloadStatusDoc(Struct, gc=False):
    """``status`` of a workload; conditions tell a finished Job."""

    conditions: list[ConditionDoc] | None = None


class WorkloadDoc(Struct, gc=False):
    """Deployment, StatefulSet, DaemonSet and ReplicaSet ``apps/v1``, Job ``batch/v1``."""

    metadata: Meta | None = None
    spec: WorkloadSpecDoc | None = None
    status: WorkloadStatusDoc | None = None


class ControllerSpecDoc(Struct, gc=False):
    """``spec`` of a ReplicationController: its selector is a plain map."""

    replicas: int | None = None
    selector: dict[str, str] | None = None
    template: TemplateDoc | None = None


class ControllerDoc(Struct, gc=False):
    """ReplicationController ``v1``."""

    metadata: Meta | None = None
    spec: ControllerSpecDoc | None = None


class JobTemplateDoc(Struct, gc=False):
    """``spec.jobTemplate`` of a CronJob."""

    metadata: Meta | None = None
    spec: WorkloadSpecDoc | None = None


class CronJobSpecDoc(Struct, rename="camel", gc=False):
    """``spec`` of a CronJob."""

    suspend: bool | None = None
    job_template: JobTemplateDoc | None = None


class CronJobDoc(Struct, gc=False):
    """CronJob ``batch/v1``."""

    metadata: Meta | None = None
    spec: CronJobSpecDoc | None = None


class SandboxSpecDoc(Struct, rename="camel", gc=False):
    """``spec`` of a Sandbox; ``replicas`` is v1alpha1's, ``operatingMode`` v1beta1's."""

    pod_template: TemplateDoc | None = None
    replicas: int | None = None
    operating_mode: str | None = None


class SandboxStatusDoc(Struct, gc=False):
    """``status`` of a Sandbox."""

    pod_ips: list[str] | None = field(default=None, name="podIPs")
    node_name: str | None = field(default=None, name="nodeName")


class SandboxDoc(Struct, gc=False):
    """Sandbox ``agents.x-k8s.io``."""

    metadata: Meta | None = None
    spec: SandboxSpecDoc | None = None
    status: SandboxStatusDoc | None = None


class RefDoc(Struct, gc=False):
    """A reference by name."""

    name: str | None = None


class WarmPoolSpecDoc(Struct, rename="camel", gc=False):
    """``spec`` of a SandboxWarmPool."""

    replicas: int | None = None
    sandbox_template_ref: RefDoc | None = None


class WarmPoolDoc(Struct, gc=False):
    """SandboxWarmPool ``extensions.agents.x-k8s.io``."""

    metadata: Meta | None = None
    spec: WarmPoolSpecDoc | None = None


class ClaimSpecDoc(Struct, rename="camel", gc=False):
    """``spec`` of a SandboxClaim: ``warmPoolRef`` is v1beta1's, the other v1alpha1's."""

    warm_pool_ref: RefDoc | None = None
    sandbox_template_ref: RefDoc | None = None
    additional_pod_metadata: Meta | None = None


class ClaimSandboxDoc(Struct, gc=False):
    """``status.sandbox`` of a SandboxClaim."""

    name: str | None = None
    pod_ips: list[str] | None = field(default=None, name="podIPs")


class ClaimStatusDoc(Struct, gc=False):
    """``status`` of a SandboxClaim."""

    sandbox: ClaimSandboxDoc | None = None


class ClaimDoc(Struct, gc=False):
    """SandboxClaim ``extensions.agents.x-k8s.io``."""

    metadata: Meta | None = None
    spec: ClaimSpecDoc | None = None
    status: ClaimStatusDoc | None = None
