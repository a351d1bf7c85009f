"""Cluster objects, reduced to what policy reads."""

from collections.abc import Mapping

import msgspec

# Every namespace carries it, also when the manifest does not say so (semantics §4).
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Where an object was read: ``source`` is a file name, ``-`` or a name for live data."""

    source: str = ""
    document: int = 0
    derived_from: str = ""  # "SandboxTemplate ns/name" when no document holds the object itself

    def __str__(self) -> str:
        text = self.source or "?"
        if self.document:
            text += f" document {self.document}"
        return f"{text} (derived from {self.derived_from})" if self.derived_from else text


class ContainerPort(msgspec.Struct, frozen=True, gc=False):
    """A named container port; ``protocol`` is an IP protocol number."""

    name: str
    protocol: int
    port: int


class Pod(msgspec.Struct, frozen=True):
    """A pod. ``uid`` is its identity (semantics §1): its UID, if it has one, and its name.

    ``ips`` are address integers. ``dns_policy`` is as in the spec after defaulting
    (``ClusterFirst``); ``nameservers`` are ``dnsConfig.nameservers``. ``made_up`` says
    that the addresses were invented because no document has them.
    """

    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str] = {}
    ips: tuple[int, ...] = ()
    node: str = ""
    host_ips: tuple[int, ...] = ()
    host_network: bool = False
    phase: str = "Running"
    created: str = ""  # RFC 3339 as in the document: compares as text
    ports: tuple[ContainerPort, ...] = ()
    dns_policy: str = "ClusterFirst"
    nameservers: tuple[int, ...] = ()
    made_up: bool = False
    origin: Origin = Origin()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def resolves(self) -> bool:
        """Whether its addresses are its own: not host-network, not finished."""
        return not self.host_network and self.phase not in {"Succeeded", "Failed"}


class Namespace(msgspec.Struct, frozen=True):
    """A namespace; ``labels`` always hold ``kubernetes.io/metadata.name``."""

    name: str
    labels: Mapping[str, str] = {}
    terminating: bool = False
    origin: Origin = Origin()


class Node(msgspec.Struct, frozen=True):
    """A node.

    ``ips`` are its InternalIP and ExternalIP addresses, which resolve to the node;
    ``all_ips`` every entry of ``status.addresses`` that holds an IP, which is what a
    ``nodes`` peer matches (semantics §4). ``pod_cidrs`` are texts.
    """

    name: str
    labels: Mapping[str, str] = {}
    ips: tuple[int, ...] = ()
    all_ips: tuple[int, ...] = ()
    pod_cidrs: tuple[str, ...] = ()
    origin: Origin = Origin()


class ServicePort(msgspec.Struct, frozen=True, gc=False):
    """``target`` is a number or a container port's name."""

    name: str
    protocol: int
    port: int
    target: int | str


class Service(msgspec.Struct, frozen=True):
    """A Service: a virtual address that policy never sees, and the pods behind it."""

    namespace: str
    name: str
    selector: Mapping[str, str] = {}
    cluster_ips: tuple[int, ...] = ()
    external_ips: tuple[int, ...] = ()
    ports: tuple[ServicePort, ...] = ()
    headless: bool = False
    labels: Mapping[str, str] = {}
    origin: Origin = Origin()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"
