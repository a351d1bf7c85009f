"""What a DNS answer says about the name that was asked for, and only about that name."""

from typing import NamedTuple

from knp_py.wire.dns import CNAME, Message, Record

MAX_CHAIN = 16


class Credit(NamedTuple):
    """An address for the question's name: seconds it may live, and how it was written.

    ``v6`` says that it stood in an AAAA record or an ipv6hint, where an IPv4 address
    is an IPv4-mapped one.
    """

    address: int
    ttl: int
    v6: bool


class Credits(NamedTuple):
    """``orphans`` are address records whose owner the question does not lead to.

    ``alias`` is the first target of the chain, None when the question's name is no alias.
    ``endless`` says that the chain loops or is longer than ``MAX_CHAIN``; nothing counts then.
    """

    addresses: tuple[Credit, ...] = ()
    orphans: tuple[Record, ...] = ()
    alias: bytes | None = None
    endless: bool = False


def credit(message: Message) -> Credits:
    """The addresses that the answer section's CNAME chain leads to from the question.

    Records may come in any order. A TTL is the smallest along the way. An owner with more
    than one CNAME breaks RFC 2181 §10.1; the first counts.
    """
    aliases: dict[bytes, Record] = {}
    for record in message.answers:
        if record.rtype == CNAME:
            aliases.setdefault(record.owner, record)
    name = message.question.name
    lifetimes = {name: (1 << 31) - 1}
    first = aliases.get(name)
    at = first
    while at is not None:
        if at.target in lifetimes or len(lifetimes) > MAX_CHAIN:
            return Credits(endless=True)
        lifetimes[at.target] = min(lifetimes[at.owner], at.ttl)
        at = aliases.get(at.target)
    addresses: list[Credit] = []
    orphans: list[Record] = []
    for record in message.answers:
        if not record.v4 and not record.v6:
            continue
        lifetime = lifetimes.get(record.owner)
        if lifetime is None:
            orphans.append(record)
            continue
        ttl = min(lifetime, record.ttl)
        addresses += [Credit(address, ttl, v6=False) for address in record.v4]
        addresses += [Credit(address, ttl, v6=True) for address in record.v6]
    return Credits(tuple(addresses), tuple(orphans), None if first is None else first.target)
