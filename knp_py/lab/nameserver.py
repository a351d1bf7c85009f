"""What the lab's resolvers answer: bytes in, bytes out.

Every resolver knows the names of the scenario; those of Services only the addresses that are
the cluster's own resolvers.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address

import msgspec
from dnslib import AAAA, EDNS0, QTYPE, RCODE, RR, A, DNSError, DNSRecord

from knp_py.model.net import format_address
from knp_py.replay.directory import Answer, Directory
from knp_py.replay.scenario import Resolved

_LEAST, _MOST = 512, 4096  # octets a UDP answer may have: without EDNS, and with it


class Entry(msgspec.Struct, frozen=True):
    """Where a name is, as text; ``ttl`` in seconds."""

    addresses: tuple[str, ...]
    ttl: int


class Names(msgspec.Struct, frozen=True):
    """Everything that resolvers know. Names are canonical: lower case, no trailing dot.

    ``cluster`` holds those that only the ``resolvers`` of the cluster know.
    """

    public: Mapping[str, Entry] = {}
    cluster: Mapping[str, Entry] = {}
    resolvers: frozenset[str] = frozenset()


def names_of(
    resolve: Mapping[str, Resolved], directory: Directory, resolvers: Iterable[int]
) -> Names:
    """The names of a scenario and of the cluster as it is now."""
    return Names(
        {
            name: Entry(tuple(map(format_address, known.addresses)), known.ttl)
            for name, known in resolve.items()
        },
        {answer.name: _entry(answer) for answer in directory.cluster_names()},
        frozenset(map(format_address, resolvers)),
    )


def _entry(answer: Answer) -> Entry:
    addresses = (place.address for place in answer.places)
    return Entry(tuple(format_address(a) for a in addresses if a is not None), answer.ttl)


def reply_to(query: bytes, names: Names, server: str, *, stream: bool = False) -> bytes | None:
    """What the resolver at the address ``server`` says; None for what is no question.

    Over UDP an answer that does not fit is cut short and says so (RFC 1035 §4.2.1); over a
    ``stream`` everything fits.
    """
    try:
        asked = DNSRecord.parse(query)
    except (DNSError, ValueError, IndexError):
        return None
    if asked.header.qr or len(asked.questions) != 1:
        return None
    reply = asked.reply(ra=1, aa=0)
    name = str(asked.q.qname).rstrip(".").lower()
    known = names.public.get(name)
    if known is None and server in names.resolvers:
        known = names.cluster.get(name)
    if known is None:
        reply.header.rcode = RCODE.NXDOMAIN
    else:
        for text in known.addresses:
            version = ip_address(text).version
            if asked.q.qtype == (QTYPE.A if version == 4 else QTYPE.AAAA):
                data = A(text) if version == 4 else AAAA(text)
                reply.add_answer(RR(asked.q.qname, asked.q.qtype, rdata=data, ttl=known.ttl))
    room = _LEAST
    for record in asked.ar:
        if record.rtype == QTYPE.OPT:
            room = min(max(_LEAST, record.rclass), _MOST)
            reply.add_ar(EDNS0(udp_len=_MOST))
    packed: bytes = reply.pack()
    if stream or len(packed) <= room:
        return packed
    reply.rr.clear()
    reply.header.tc = 1
    short: bytes = reply.pack()
    return short
