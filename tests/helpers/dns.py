"""DNS messages for tests: dnslib as the independent encoder, and bytes by hand for the bad ones.

``World`` is the notation of the rules in shared/fqdn-rules.md: ``ask``, ``ans``, ``ok``.
"""

import struct
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from dnslib import AAAA, CNAME, QTYPE, RR, A, DNSHeader, DNSQuestion, DNSRecord
from helpers.builders import pod, service
from helpers.judging import snapshot_of

from knp_py.engine.names import DomainCache, Scope
from knp_py.engine.resolvers import Trust
from knp_py.engine.snoop import DnsSnooper
from knp_py.model.changes import ClusterObject
from knp_py.model.net import Cidr, parse_address
from knp_py.model.objects import Pod

_DATA = {"A": A, "AAAA": AAAA, "CNAME": CNAME}
TYPES = {"A": 1, "CNAME": 5, "AAAA": 28, "OPT": 41, "SVCB": 64, "HTTPS": 65}


class Rr(NamedTuple):
    owner: str
    rtype: str
    data: str
    ttl: int = 60


def rr(text: str, ttl: int = 60) -> Rr:
    """``"a.ex A 1.1.1.1"``."""
    owner, rtype, data = text.split()
    return Rr(owner, rtype, data, ttl)


def ask_bytes(name: str, rtype: str = "A", ident: int = 1) -> bytes:
    """A query, encoded by dnslib."""
    record = DNSRecord(DNSHeader(id=ident, rd=1), q=DNSQuestion(name, qtype=getattr(QTYPE, rtype)))
    return bytes(record.pack())


def answer_bytes(
    name: str,
    records: Sequence[Rr] = (),
    rtype: str = "A",
    *,
    ident: int = 1,
    rcode: int = 0,
    authority: Sequence[Rr] = (),
    additional: Sequence[Rr] = (),
    tc: int = 0,
) -> bytes:
    """A response, encoded by dnslib (which compresses names)."""
    record = DNSRecord(
        DNSHeader(id=ident, qr=1, rd=1, ra=1, tc=tc, rcode=rcode),
        q=DNSQuestion(name, qtype=getattr(QTYPE, rtype)),
        rr=[_encode(r) for r in records],
        auth=[_encode(r) for r in authority],
        ar=[_encode(r) for r in additional],
    )
    return bytes(record.pack())


def _encode(record: Rr) -> RR:
    owner, rtype, data, ttl = record
    return RR(owner, getattr(QTYPE, rtype), rdata=_DATA[rtype](data), ttl=ttl)


# By hand.


def labels(*parts: bytes) -> bytes:
    """A name from its labels, root included."""
    return b"".join(bytes((len(part),)) + part for part in parts) + b"\0"


def wire(text: str) -> bytes:
    """An ordinary name, uncompressed."""
    return labels(*(part.encode("ascii") for part in text.split(".") if part))


def raw_record(
    owner: bytes, rtype: str | int, data: bytes, ttl: int = 60, rclass: int = 1, length: int = -1
) -> bytes:
    """A record; ``length`` claims another RDLENGTH than that of the data."""
    number = TYPES[rtype] if isinstance(rtype, str) else rtype
    size = len(data) if length < 0 else length
    return owner + struct.pack("!HHIH", number, rclass, ttl, size) + data


def raw_message(
    question: bytes,
    records: Sequence[bytes] = (),
    *,
    ident: int = 1,
    flags: int = 0x8180,
    rtype: str | int = "A",
    rclass: int = 1,
    qdcount: int = 1,
    ancount: int | None = None,
    arcount: int = 0,
) -> bytes:
    """A message around an encoded name; by default a NOERROR response."""
    number = TYPES[rtype] if isinstance(rtype, str) else rtype
    answers = len(records) if ancount is None else ancount
    header = struct.pack("!HHHHHH", ident, flags, qdcount, answers, 0, arcount)
    return header + question + struct.pack("!HH", number, rclass) + b"".join(records)


def ip(text: str) -> bytes:
    """An address as record data."""
    packed = parse_address(text)
    return packed.to_bytes(16, "big") if ":" in text else (packed & 0xFFFFFFFF).to_bytes(4, "big")


Q_NAME = b"\xc0\x0c"  # a pointer to the question's name


def service_data(priority: int, target: bytes, *params: tuple[int, bytes]) -> bytes:
    """RDATA of an SVCB or HTTPS record."""
    return (
        struct.pack("!H", priority)
        + target
        + b"".join(struct.pack("!HH", key, len(value)) + value for key, value in params)
    )


# The rules' notation.

P = pod("x/p", "10.1.0.5", node="n1", uid="uid-p")
Q = pod("x/q", "10.1.0.6", node="n1", uid="uid-q")
R = "10.96.0.10"
KUBE_DNS = "10.1.0.53"
NODE_LOCAL = "169.254.20.10"
PORT = 40000


def cluster_dns() -> list[ClusterObject]:
    """The kube-dns Service and a pod behind it."""
    labelled = {"k8s-app": "kube-dns"}
    return [
        service("kube-system/kube-dns", R, selector=labelled, port=53),
        pod("kube-system/coredns", KUBE_DNS, labels=labelled, uid="uid-dns"),
    ]


class World:
    """A cluster with P, Q, their resolvers and ``objects``; a cache, and who fills it."""

    def __init__(
        self,
        *patterns: str,
        trust: Trust | None = None,
        objects: Sequence[ClusterObject] = (),
        scope: Scope = "pod",
        assume_queried: bool = False,
        allow_special: tuple[Cidr, ...] = (),
        autopath: bool = False,
        names: DomainCache | None = None,
    ) -> None:
        self.names = DomainCache(scope=scope) if names is None else names
        self.names.set_patterns(frozenset(patterns))
        self.snooper = DnsSnooper(
            self.names,
            trust=Trust() if trust is None else trust,
            assume_queried=assume_queried,
            allow_special=allow_special,
            autopath=autopath,
        )
        self.snooper.load(snapshot_of([P, Q, *cluster_dns(), *objects]))

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.snooper.counts)

    def ask(
        self,
        client: Pod,
        name: str,
        rtype: str = "A",
        *,
        ident: int = 1,
        port: int = PORT,
        server: str = R,
        now: float = 0.0,
    ) -> None:
        """The pod asks; dnslib encodes."""
        self.send(client, ask_bytes(name, rtype, ident), port=port, server=server, now=now)

    def send(
        self, client: Pod, payload: bytes, *, port: int = PORT, server: str = R, now: float = 0.0
    ) -> None:
        flow = self.flow(client, port, server)
        self.snooper.query(flow, client, parse_address(server), payload, now)

    def ans(
        self,
        client: Pod,
        name: str,
        *records: str | Rr,
        rtype: str = "A",
        ident: int = 1,
        port: int = PORT,
        server: str = R,
        ttl: int = 60,
        rcode: int = 0,
        tc: int = 0,
        authority: Sequence[Rr] = (),
        additional: Sequence[Rr] = (),
        now: float = 0.0,
    ) -> None:
        """The server answers with ``"a.ex A 1.1.1.1"`` and the like; dnslib encodes."""
        payload = answer_bytes(
            name,
            [rr(record, ttl) if isinstance(record, str) else record for record in records],
            rtype,
            ident=ident,
            rcode=rcode,
            tc=tc,
            authority=authority,
            additional=additional,
        )
        self.receive(client, payload, port=port, server=server, now=now)

    def receive(
        self, client: Pod, payload: bytes, *, port: int = PORT, server: str = R, now: float = 0.0
    ) -> None:
        flow = self.flow(client, port, server)
        self.snooper.answer(flow, client, parse_address(server), payload, now)

    def look_up(
        self,
        client: Pod,
        name: str,
        *records: str | Rr,
        rtype: str = "A",
        ttl: int = 60,
        now: float = 0.0,
        server: str = R,
    ) -> None:
        """Ask and be answered at once."""
        self.ask(client, name, rtype, now=now, server=server)
        self.ans(client, name, *records, rtype=rtype, ttl=ttl, now=now, server=server)

    def ok(self, client: Pod, pattern: str, ip_text: str, now: float = 0.0) -> bool:
        """Whether a new flow from the pod to the address matches the pattern."""
        grants = self.names.lookup(client, parse_address(ip_text), now)
        return any(grant.pattern == pattern for grant in grants)

    @staticmethod
    def flow(client: Pod, port: int, server: str) -> Hashable:
        return (client.ips[0], port, parse_address(server), 53)
