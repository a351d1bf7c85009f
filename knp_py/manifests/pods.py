"""Pods: from documents, and the parts that a pod template shares with them."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

import msgspec

from knp_py.manifests.fields import one_of
from knp_py.manifests.metadata import generated_name
from knp_py.manifests.problems import Report, did_you_mean, quote
from knp_py.manifests.sharing import Sharing
from knp_py.manifests.syntax import (
    PROTOCOLS,
    bad_label_name,
    bad_port_name,
    bad_subdomain,
)
from knp_py.manifests.typed import ContainerDoc, IpDoc, Meta, PodDoc, PodSpecDoc, PodStatusDoc
from knp_py.model.objects import ContainerPort, Pod

_DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


class Identity(msgspec.Struct, frozen=True):
    """Who a typed object is: checked name and namespace (empty for cluster-wide kinds)."""

    name: str
    namespace: str


class PodSpec(msgspec.Struct, frozen=True):
    """What policy reads of a pod spec. ``dns_policy`` is empty where the spec has none."""

    node: str = ""
    host_network: bool = False
    dns_policy: str = ""
    nameservers: tuple[int, ...] = ()
    ports: tuple[ContainerPort, ...] = ()


def identify(
    meta: Meta | None,
    report: Report,
    *,
    namespaced: bool = True,
    rule: Callable[[str], str | None] = bad_subdomain,
) -> Identity | None:
    """Name and namespace; None after reporting that there is no name."""
    if meta is None:
        report.error("metadata", "missing, expected an object with a name")
        return None
    name = meta.name
    if not name and meta.generate_name:
        name = generated_name(meta.generate_name, report)
    if not name:
        report.error("metadata.name", "missing, expected the object's name")
        return None
    complaint = rule(name)
    if complaint:
        report.error("metadata.name", f"found {quote(name)}, expected {complaint}")
    if not namespaced:
        if meta.namespace:
            report.warn("metadata.namespace", "the kind is cluster-wide; the namespace is ignored")
        return Identity(name, "")
    namespace = meta.namespace or "default"
    complaint = bad_label_name(namespace)
    if complaint:
        report.error("metadata.namespace", f"found {quote(namespace)}, expected {complaint}")
    return Identity(name, namespace)


def controller_of(meta: Meta | None) -> tuple[str, str] | None:
    """(kind, name) of the owner that controls the object."""
    for owner in (meta.owner_references if meta else None) or ():
        if owner.controller and owner.kind and owner.name:
            return owner.kind, owner.name
    return None


def read_pod(doc: PodDoc, who: Identity, report: Report, sharing: Sharing) -> Pod:
    """The pod. One without status is made up: its address is given out later."""
    text = sharing.text
    meta = doc.metadata or Meta()
    spec = read_pod_spec(doc.spec, "spec", report, sharing)
    status = doc.status or PodStatusDoc()
    ips = _addresses(status.pod_ip, status.pod_ips, "status.podIP", report, sharing)
    unborn = status.phase is None and not ips
    phase = status.phase or "Running"
    if phase not in _PHASES:
        report.error(
            "status.phase",
            f"found {quote(phase)}, expected {one_of(_PHASES)}{did_you_mean(phase, _PHASES)}",
        )
    namespace = text(who.namespace)
    key = f"{namespace}/{who.name}"
    return Pod(
        # A manifest that was copied and renamed has the UID of the first one still.
        uid=f"{meta.uid}/{key}" if meta.uid else key,
        namespace=namespace,
        name=who.name,
        labels=sharing.labels(report, "metadata.labels", meta.labels),
        ips=ips,
        node=spec.node,
        host_ips=sharing.value(
            _addresses(status.host_ip, status.host_ips, "status.hostIP", report, sharing)
        ),
        host_network=spec.host_network,
        phase=text(phase),
        created=text(_created(meta.creation_timestamp, report)),
        ports=spec.ports,
        dns_policy=spec.dns_policy or "ClusterFirst",
        nameservers=spec.nameservers,
        made_up=unborn and not spec.host_network,
        origin=report.origin,
    )


def read_pod_spec(spec: PodSpecDoc | None, path: str, report: Report, sharing: Sharing) -> PodSpec:
    """A pod spec, of a pod or of a template."""
    if spec is None:
        return PodSpec()
    policy = spec.dns_policy or ""
    if policy and policy not in _DNS_POLICIES:
        report.error(
            f"{path}.dnsPolicy",
            f"found {quote(policy)}, expected {one_of(_DNS_POLICIES)}"
            f"{did_you_mean(policy, _DNS_POLICIES)}",
        )
    servers = tuple(
        address
        for index, server in enumerate(
            (spec.dns_config.nameservers if spec.dns_config else None) or ()
        )
        for address in _address(server, f"{path}.dnsConfig.nameservers[{index}]", report, sharing)
    )
    if policy == "None" and not servers:
        report.error(
            f"{path}.dnsConfig.nameservers", "missing, expected at least one for dnsPolicy None"
        )
    ports: list[ContainerPort] = []
    for index, container in enumerate(spec.containers or ()):
        if container.ports:
            _read_ports(container, f"{path}.containers[{index}]", ports, report, sharing)
    for index, container in enumerate(spec.init_containers or ()):
        # A native sidecar; an ordinary init container is gone when the pod serves.
        if container.ports and container.restart_policy == "Always":
            _read_ports(container, f"{path}.initContainers[{index}]", ports, report, sharing)
    return PodSpec(
        node=sharing.text(spec.node_name),
        host_network=bool(spec.host_network),
        dns_policy=sharing.text(policy),
        nameservers=sharing.value(servers),
        ports=sharing.value(tuple(ports)),
    )


def _read_ports(
    container: ContainerDoc,
    path: str,
    ports: list[ContainerPort],
    report: Report,
    sharing: Sharing,
) -> None:
    names: set[str] = set()
    for index, port in enumerate(container.ports or ()):
        number, protocol = port.container_port, port.protocol or "TCP"
        if number is None or not 1 <= number <= 65535:
            found = "missing" if number is None else f"found {number}"
            report.error(
                f"{path}.ports[{index}].containerPort",
                f"{found}, expected a number from 1 to 65535",
            )
            continue
        if protocol not in PROTOCOLS:
            report.error(
                f"{path}.ports[{index}].protocol",
                f"found {quote(protocol)}, expected {one_of(PROTOCOLS)}"
                f"{did_you_mean(protocol, PROTOCOLS)}",
            )
            continue
        name = port.name
        if not name:
            continue
        complaint = bad_port_name(name)
        if complaint:
            report.error(
                f"{path}.ports[{index}].name", f"found {quote(name)}, expected {complaint}"
            )
        elif name in names:
            report.error(f"{path}.ports[{index}].name", f"{quote(name)} stands twice")
        names.add(name)
        ports.append(
            sharing.value(ContainerPort(sharing.text(name), int(PROTOCOLS[protocol]), number))
        )


def _addresses(
    one: str | None, many: list[IpDoc] | None, path: str, report: Report, sharing: Sharing
) -> tuple[int, ...]:
    """``podIPs`` or, where there is none, the older ``podIP`` (likewise for hosts)."""
    texts = [entry.ip for entry in many or ()]
    if not any(texts):
        return tuple(_address(one, path, report, sharing))
    found: list[int] = []
    for index, text in enumerate(texts):
        found.extend(_address(text, f"{path}s[{index}].ip", report, sharing))
    return tuple(dict.fromkeys(found))


def _address(text: str | None, path: str, report: Report, sharing: Sharing) -> Iterable[int]:
    if not text:
        return ()
    try:
        return (sharing.address(text),)
    except ValueError:
        report.error(path, f"found {quote(text)}, expected an IP address")
        return ()


def merged(*maps: Mapping[str, str] | None) -> dict[str, str]:
    """Labels laid over one another, the last one on top."""
    found: dict[str, str] = {}
    for labels in maps:
        found.update(labels or {})
    return found


def _created(moment: str | None, report: Report) -> str:
    """RFC 3339 in UTC, so that texts compare as times do; the server writes no other."""
    if not moment or (len(moment) == 20 and moment.endswith("Z")):
        return moment or ""
    try:
        when = datetime.fromisoformat(moment)
    except ValueError:
        report.error(
            "metadata.creationTimestamp", f"found {quote(moment)}, expected a time (RFC 3339)"
        )
        return ""
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
