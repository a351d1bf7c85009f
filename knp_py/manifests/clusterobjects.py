"""Namespaces, Nodes and Services."""

from knp_py.manifests.fields import one_of
from knp_py.manifests.pods import Identity
from knp_py.manifests.problems import Report, did_you_mean, quote
from knp_py.manifests.sharing import Sharing
from knp_py.manifests.syntax import PROTOCOLS, bad_port_name, read_address, read_cidr
from knp_py.manifests.typed import Meta, NamespaceDoc, NodeDoc, ServiceDoc, ServicePortDoc
from knp_py.model.net import parse_address
from knp_py.model.objects import NAMESPACE_NAME_LABEL, Namespace, Node, Service, ServicePort

_OWN_ADDRESSES = ("InternalIP", "ExternalIP")


def read_namespace(
    doc: NamespaceDoc, who: Identity, report: Report, sharing: Sharing
) -> Namespace:
    """The namespace, with the label the API server puts on every one."""
    meta = doc.metadata or Meta()
    labels = dict(sharing.labels(report, "metadata.labels", meta.labels))
    given = labels.get(NAMESPACE_NAME_LABEL, who.name)
    if given != who.name:
        report.warn(
            f"metadata.labels[{NAMESPACE_NAME_LABEL}]",
            f"found {quote(given)}; the API server sets it to the namespace's name",
        )
    labels[NAMESPACE_NAME_LABEL] = who.name
    return Namespace(
        name=who.name,
        labels=labels,
        terminating=bool(meta.deletion_timestamp)
        or (doc.status is not None and doc.status.phase == "Terminating"),
        origin=report.origin,
    )


def read_node(doc: NodeDoc, who: Identity, report: Report, sharing: Sharing) -> Node:
    """The node. Addresses that are no IP (host names) are left out, whatever their type."""
    meta = doc.metadata or Meta()
    own: list[int] = []
    every: list[int] = []
    for index, entry in enumerate((doc.status.addresses if doc.status else None) or ()):
        try:
            address = parse_address(entry.address or "")
        except ValueError:
            if entry.type in _OWN_ADDRESSES:
                report.warn(
                    f"status.addresses[{index}].address",
                    f"found {quote(entry.address or '')}, expected an IP address; it is ignored",
                )
            continue
        every.append(address)
        if entry.type in _OWN_ADDRESSES:
            own.append(address)
    networks = [] if doc.spec is None else list(doc.spec.pod_cidrs or ())
    path = "spec.podCIDRs"
    if not networks and doc.spec is not None and doc.spec.pod_cidr:
        networks, path = [doc.spec.pod_cidr], "spec.podCIDR"
    for network in networks:
        read_cidr(report, path, network)
    return Node(
        name=who.name,
        labels=sharing.labels(report, "metadata.labels", meta.labels),
        ips=tuple(dict.fromkeys(own)),
        all_ips=tuple(dict.fromkeys(every)),
        pod_cidrs=tuple(networks),
        origin=report.origin,
    )


def read_service(doc: ServiceDoc, who: Identity, report: Report, sharing: Sharing) -> Service:
    """The Service; one without an address yet (a manifest) has none."""
    meta = doc.metadata or Meta()
    spec = doc.spec
    if spec is None:
        report.error("spec", "missing, expected an object")
        return Service(who.namespace, who.name)
    texts = list(spec.cluster_ips or ())
    path = "spec.clusterIPs"
    if not texts and spec.cluster_ip:
        texts, path = [spec.cluster_ip], "spec.clusterIP"
    headless = "None" in texts
    cluster = [] if headless else _read_all(texts, path, report)
    external = _read_all(spec.external_ips or (), "spec.externalIPs", report)
    balancer = doc.status.load_balancer if doc.status else None
    external += _read_all(
        [entry.ip for entry in (balancer.ingress if balancer else None) or () if entry.ip],
        "status.loadBalancer.ingress",
        report,
    )
    ports = [
        _read_port(port, f"spec.ports[{index}]", report)
        for index, port in enumerate(spec.ports or ())
    ]
    return Service(
        namespace=who.namespace,
        name=who.name,
        selector=sharing.labels(report, "spec.selector", spec.selector),
        cluster_ips=tuple(cluster),
        external_ips=tuple(external),
        ports=tuple(port for port in ports if port is not None),
        headless=headless,
        labels=sharing.labels(report, "metadata.labels", meta.labels),
        origin=report.origin,
    )


def _read_all(texts: list[str] | tuple[()], path: str, report: Report) -> list[int]:
    found = [
        read_address(report, f"{path}[{index}]", text) for index, text in enumerate(texts) if text
    ]
    return [address for address in found if address is not None]


def _read_port(port: ServicePortDoc, path: str, report: Report) -> ServicePort | None:
    protocol = port.protocol or "TCP"
    if port.port is None or not 1 <= port.port <= 65535:
        found = "missing" if port.port is None else f"found {port.port}"
        report.error(f"{path}.port", f"{found}, expected a number from 1 to 65535")
        return None
    if protocol not in PROTOCOLS:
        report.error(
            f"{path}.protocol",
            f"found {quote(protocol)}, expected {one_of(PROTOCOLS)}"
            f"{did_you_mean(protocol, PROTOCOLS)}",
        )
        return None
    target = port.target_port or port.port  # 0 and empty are the API's "unset"
    if isinstance(target, str):
        complaint = bad_port_name(target)
        if complaint:
            report.error(f"{path}.targetPort", f"found {quote(target)}, expected {complaint}")
    elif not 1 <= target <= 65535:
        report.error(f"{path}.targetPort", f"found {target}, expected a number from 1 to 65535")
    return ServicePort(port.name or "", PROTOCOLS[protocol], port.port, target)
