"""Policies as their authors wrote them, after API-server defaulting; nothing compiled.

Field documentation is the API's: NetworkPolicy ``networking.k8s.io/v1`` and
ClusterNetworkPolicy ``policy.networking.k8s.io/v1alpha2``. What this version does not
know survives as ``UnknownPeer``, ``UnknownPort`` or ``Action.UNKNOWN``, so that the
engine can fail closed (semantics §4) instead of skipping it.
"""

from enum import Enum, IntEnum

import msgspec

from knp_py.model.net import Cidr
from knp_py.model.objects import Origin
from knp_py.model.selectors import EVERYTHING, LabelSelector


class Tier(IntEnum):
    """Evaluation order (semantics §3)."""

    ADMIN = 0
    NETWORK_POLICY = 1
    BASELINE = 2
    DEFAULT = 3

    @property
    def text(self) -> str:
        """As in records: Admin, NetworkPolicy, Baseline, Default."""
        return ("Admin", "NetworkPolicy", "Baseline", "Default")[self]


class Direction(IntEnum):
    """Egress is judged first (semantics §2)."""

    EGRESS = 0
    INGRESS = 1

    @property
    def text(self) -> str:
        """As in records: egress, ingress."""
        return ("egress", "ingress")[self]


class Action(Enum):
    """What a ClusterNetworkPolicy rule does; an unknown one denies (semantics §4)."""

    ACCEPT = "Accept"
    DENY = "Deny"
    PASS = "Pass"
    UNKNOWN = "unknown"


class PodPeer(msgspec.Struct, frozen=True):
    """Pods: those of one ``namespace``, or of the namespaces ``namespaces`` selects.

    ``namespace`` (a NetworkPolicy's own) wins over ``namespaces``.
    """

    namespaces: LabelSelector = EVERYTHING
    pods: LabelSelector = EVERYTHING
    namespace: str | None = None


class NetworkPeer(msgspec.Struct, frozen=True):
    """Addresses in any of ``cidrs`` and in none of ``excepts`` (ipBlock has one cidr)."""

    cidrs: tuple[Cidr, ...]
    excepts: tuple[Cidr, ...] = ()


class NodePeer(msgspec.Struct, frozen=True):
    """Addresses of the nodes whose labels match."""

    nodes: LabelSelector


class DomainPeer(msgspec.Struct, frozen=True):
    """Names as written (case and trailing dot kept); ``*.`` only as a prefix."""

    names: tuple[str, ...]


class UnknownPeer(msgspec.Struct, frozen=True):
    """A peer with no field this version knows; ``fields`` are those it has."""

    fields: tuple[str, ...] = ()


Peer = PodPeer | NetworkPeer | NodePeer | DomainPeer | UnknownPeer


class PortRange(msgspec.Struct, frozen=True, gc=False):
    """Destination ports ``first`` to ``last``, both inclusive, of one protocol (IP number)."""

    protocol: int
    first: int = 0
    last: int = 65535


class NamedPort(msgspec.Struct, frozen=True, gc=False):
    """A container port's name on the destination pod; ``protocol`` None means any."""

    name: str
    protocol: int | None = None


class UnknownPort(msgspec.Struct, frozen=True):
    """A protocol or port entry with no field this version knows."""

    fields: tuple[str, ...] = ()


Port = PortRange | NamedPort | UnknownPort


class ClusterRule(msgspec.Struct, frozen=True):
    """A ClusterNetworkPolicy rule. ``ports`` None: every protocol, ICMP included."""

    action: Action
    peers: tuple[Peer, ...]
    ports: tuple[Port, ...] | None = None
    name: str = ""
    action_text: str = ""  # as written, for an unknown action


class ClusterNetworkPolicy(msgspec.Struct, frozen=True):
    """``rules`` is indexed by ``Direction``: (egress, ingress)."""

    name: str
    tier: Tier
    priority: int
    subject: PodPeer
    rules: tuple[tuple[ClusterRule, ...], tuple[ClusterRule, ...]] = ((), ())
    kind: str = "ClusterNetworkPolicy"  # or the older kind it was read from
    origin: Origin = Origin()


class NetworkRule(msgspec.Struct, frozen=True):
    """A NetworkPolicy rule. ``peers`` None: every peer; ``ports`` None: every protocol."""

    peers: tuple[Peer, ...] | None = None
    ports: tuple[Port, ...] | None = None


class NetworkPolicy(msgspec.Struct, frozen=True):
    """``rules`` is indexed by ``Direction``; ``None`` there: this policy does not isolate it.

    ``inert`` are directions with rules that ``policyTypes`` leaves without effect.
    """

    namespace: str
    name: str
    pods: LabelSelector
    rules: tuple[tuple[NetworkRule, ...] | None, tuple[NetworkRule, ...] | None]
    inert: tuple[Direction, ...] = ()
    origin: Origin = Origin()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


Policy = ClusterNetworkPolicy | NetworkPolicy
