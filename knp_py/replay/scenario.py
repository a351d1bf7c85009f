"""What a ``knp test`` scenario says, as values. Reading one is ``replay.scenario_reader``."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from knp_py.engine.names import Scope
from knp_py.engine.patterns import canonical_name
from knp_py.engine.resolvers import Trust
from knp_py.manifests.document import Document
from knp_py.manifests.kinds import KINDS
from knp_py.model.decision import Verdict
from knp_py.model.net import format_address, parse_address
from knp_py.model.objects import Origin
from knp_py.model.packet import Proto, protocol_name
from knp_py.model.policy import Tier

DEFAULT_PORT = 443
DEFAULT_TTL = 60
"""Seconds a name of ``resolve`` lives that does not say otherwise; the cache's clamp follows."""

SHORT_KINDS = {
    "cnp": "ClusterNetworkPolicy",
    "anp": "AdminNetworkPolicy",
    "banp": "BaselineAdminNetworkPolicy",
    "netpol": "NetworkPolicy",
    "po": "Pod",
    "ns": "Namespace",
    "no": "Node",
    "svc": "Service",
    "deploy": "Deployment",
    "sts": "StatefulSet",
    "ds": "DaemonSet",
    "rs": "ReplicaSet",
    "rc": "ReplicationController",
    "cj": "CronJob",
}


class Ref(NamedTuple):
    """One end of an expectation, as far as its text says what it is.

    Exactly one of ``address``, ``key`` (``namespace/name``) and ``name`` (canonical) is set.
    ``kind`` says what the key is of: ``Pod``, ``Service``, or ``""`` for whichever there is.
    """

    text: str
    address: int | None = None
    key: str = ""
    kind: str = ""
    name: str = ""


class Resolved(NamedTuple):
    """What the resolvers answer for one name: addresses and seconds."""

    addresses: tuple[int, ...]
    ttl: int = DEFAULT_TTL


class Expectation(msgspec.Struct, frozen=True):
    """One thing that must be so at the end of its step.

    ``path`` is its place in the file. ``source`` is a pod or an address, ``target`` what is
    connected to or looked up, ``via`` the resolver asked (None: the pod's own). ``policy``
    and ``tier``, when set, name who must have decided.
    """

    path: str
    source: Ref
    target: Ref
    verdict: Verdict
    lookup: bool = False
    via: Ref | None = None
    protocol: int = int(Proto.TCP)
    port: int = DEFAULT_PORT
    policy: str = ""
    tier: Tier | None = None
    name: str = ""

    @property
    def destination(self) -> str:
        """``github.com:443``, ``10.96.0.10:53/UDP``, ``lookup github.com via 8.8.8.8``."""
        if self.lookup:
            return f"lookup {self.target.text}" + (f" via {self.via.text}" if self.via else "")
        if self.protocol in {Proto.ICMP, Proto.UNKNOWN}:
            return f"{self.target.text} {protocol_name(self.protocol)}"
        text = self.target.text
        if self.target.address is not None and ":" in text:
            text = f"[{text}]"
        suffix = "" if self.protocol == Proto.TCP else f"/{protocol_name(self.protocol)}"
        return f"{text}:{self.port}{suffix}"


class Removal(NamedTuple):
    """``KIND/NS/NAME``: ``kind`` as in a manifest, ``namespace`` empty for cluster-wide kinds."""

    text: str
    kind: str
    namespace: str
    name: str


class Step(msgspec.Struct, frozen=True):
    """Changes, then time passing, then what must hold.

    ``apply`` and ``delete`` hold paths (text, relative to the scenario's file) and, in
    ``apply``, objects written in place, in ``delete``, objects named.
    """

    path: str
    name: str
    apply: tuple[str | Document, ...] = ()
    delete: tuple[str | Removal, ...] = ()
    wait: float = 0.0
    expect: tuple[Expectation, ...] = ()


class Scenario(msgspec.Struct, frozen=True):
    """A whole scenario. ``trust`` and ``scope`` are None when it leaves them to the caller."""

    origin: Origin
    name: str
    manifests: tuple[str | Document, ...] = ()
    resolve: Mapping[str, Resolved] = {}
    node_resolvers: tuple[int, ...] = ()
    trust: Trust | None = None
    scope: Scope | None = None
    steps: tuple[Step, ...] = ()

    def paths(self) -> Iterator[tuple[str, str]]:
        """(place in the file, path) of every manifest named, in order."""
        for index, item in enumerate(self.manifests):
            if isinstance(item, str):
                yield f"manifests[{index}]", item
        for step in self.steps:
            for field, items in (("apply", step.apply), ("delete", step.delete)):
                for index, each in enumerate(items):
                    if isinstance(each, str):
                        yield f"{step.path}.{field}[{index}]", each


def kind_called(word: str) -> str | None:
    """The kind that kubectl would take the word for: its name, plural or short name."""
    folded = word.lower()
    if folded in SHORT_KINDS:
        return SHORT_KINDS[folded]
    for kind in KINDS:
        name = kind.lower()
        plural = f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
        if folded in {name, plural}:
            return kind
    return None


_KINDS = {"pod": "Pod", "svc": "Service", "service": "Service"}


def parse_ref(text: str) -> Ref | None:
    """An address, ``[pod:|svc:]NAMESPACE/NAME`` or a host name; None when it is none."""
    prefix, colon, rest = text.partition(":")
    kind = _KINDS.get(prefix, "") if colon else ""
    if kind or "/" in text:
        key = rest if kind else text
        namespace, _, name = key.partition("/")
        if not namespace or not name or not all(map(canonical_name, (namespace, name))):
            return None
        return Ref(text, key=key, kind=kind)
    if is_address(text):
        address = parse_address(text)
        return Ref(format_address(address), address=address)
    host = canonical_name(text)
    # A last label of digits only is a mistyped address, never a name (RFC 3696 §2).
    if host is None or host.rpartition(".")[2].isdigit():
        return None
    return Ref(text, name=host)


def is_address(text: str) -> bool:
    """Whether the text is an IP address."""
    try:
        parse_address(text)
    except ValueError:
        return False
    return True
