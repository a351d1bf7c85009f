"""A verdict as JSON: the answers of ``knp eval`` and the records of replay and agent.

The structs are the documents, key for key and in order; a field that is ``UNSET`` is not
in the document at all. Encoding goes straight from struct to bytes.
"""

from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from knp_py.model.decision import Decision, Ruling
from knp_py.model.net import format_address, is_v4
from knp_py.model.packet import PROTOCOL_NAMES, Proto, protocol_name
from knp_py.verdicts.times import timestamp

NO_PORTS = frozenset(PROTOCOL_NAMES[each] for each in (Proto.ICMP, Proto.ICMPV6, Proto.UNKNOWN))
"""Protocols, by the name records use, whose flows have no ports."""

_encoder = msgspec.json.Encoder()


class Decider(msgspec.Struct, frozen=True):
    """What decided: the rule, or the policies that isolate when no rule matched.

    ``policy`` is a ClusterNetworkPolicy's name or a NetworkPolicy's ``namespace/name``;
    null in the Default tier. ``rule`` is an index, null when none matched.
    """

    direction: str | None
    tier: str | None
    policy: str | None = None
    rule: int | None = None
    rule_name: str | None = None
    action: str | None = None


class DirectionAnswer(Decider, frozen=True, kw_only=True):
    """One direction judged: what decided it and how."""

    allowed: bool
    reason: str | UnsetType = UNSET
    isolated_by: tuple[str, ...] | UnsetType = UNSET


class End(msgspec.Struct, frozen=True):
    """One end of a flow. ``pod`` is ``namespace/name``, ``node`` a node's name.

    ``ip`` is null only where a log tells of a packet that nobody could read.
    ``name`` is what the caller asked for where that was a name, and ``assumed`` says that
    ``ip`` merely stands for it. ``names`` are those learned for the address.
    """

    ip: str | None
    port: int | UnsetType | None = UNSET
    pod: str | UnsetType = UNSET
    node: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    service: str | UnsetType = UNSET
    assumed: bool | UnsetType = UNSET
    names: tuple[str, ...] | UnsetType = UNSET


class Answer(msgspec.Struct, frozen=True, rename={"source": "from", "destination": "to"}):
    """What ``knp eval`` says about one flow. ``port`` is null where there is none.

    ``notes`` are remarks for people, such as that an address stands for another.
    ``considered`` is the explanation: every policy looked at, in order.
    """

    id: Any
    verdict: str
    source: End
    destination: End
    protocol: str
    port: int | None
    decided_by: Decider | None
    egress: DirectionAnswer | None
    ingress: DirectionAnswer | None
    reason: str | UnsetType = UNSET
    unidentified: tuple[str, ...] | UnsetType = UNSET
    notes: tuple[str, ...] | UnsetType = UNSET
    expect: str | UnsetType = UNSET
    considered: tuple[Any, ...] | UnsetType = UNSET


class Candidate(msgspec.Struct, frozen=True):
    """What the candidate policies of ``--shadow-manifests`` say of the same connection."""

    verdict: str
    decided_by: Decider | None
    isolated_by: tuple[str, ...] | UnsetType = UNSET


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One connection and its verdict, as ``knp replay`` and ``knp agent`` write it.

    ``direction`` is that of ``decided_by``. ``isolated_by`` names the policies when it is
    they who deny, and ``unidentified`` the addresses inside a pod network that no known
    pod has. ``source`` says which stream a line of a foreign log came from.

    Of the agent only: ``enforced`` is false when it merely says what it would do,
    ``again`` is true for an established connection that strict mode judged once more, and
    ``shadow`` is what other policies would say where that differs.
    """

    ts: str | None
    id: Any
    verdict: str
    direction: str | None
    src: End
    dst: End
    family: str | None
    protocol: str
    decided_by: Decider | None
    packets: int | None
    bytes: int | None
    reason: str | None
    isolated_by: tuple[str, ...] | UnsetType = UNSET
    unidentified: tuple[str, ...] | UnsetType = UNSET
    enforced: bool | UnsetType = UNSET
    again: bool | UnsetType = UNSET
    shadow: Candidate | UnsetType = UNSET
    source: str | UnsetType = UNSET


class Omission(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's word for records that it did not write, by verdict: a line of its own.

    ``seconds`` is how long it was silent about them, and ``ts`` the last one's time.
    ``reason`` is ``LIMIT`` or ``BLOCKED``. ``source`` is as in a record.
    """

    ts: str | None
    omitted: dict[str, int]
    seconds: float
    reason: str
    source: str | UnsetType = UNSET


LIMIT: Final = "limit"
"""Records beyond the lines a second that the log may have."""
BLOCKED: Final = "blocked"
"""Records for which there was no room: nobody reads the log, or too slowly."""


class FlowFacts(NamedTuple):
    """What a connection is apart from its verdict.

    ``ts_ns`` is nanoseconds since the epoch at its first packet, ``src`` and ``dst``
    address integers, ``protocol`` an IP protocol number, ``octets`` the sum of IP lengths
    so far. ``names`` are those the source had learned for the destination; ``note`` is what
    else the reader should know, said with the reason. ``service`` is the Service that ``dst``
    is the address of, before destination NAT.
    """

    ts_ns: int
    id: int
    src: int
    dst: int
    protocol: int
    sport: int = 0
    dport: int = 0
    src_pod: str | None = None
    dst_pod: str | None = None
    packets: int = 1
    octets: int = 0
    names: tuple[str, ...] = ()
    note: str | None = None
    service: str | None = None


# By identity, which needs no hash of ten fields; each entry keeps its ruling, so that no
# other gets its number. A bound for long-lived processes, where rulings come and go.
_deciders: dict[int, tuple[Ruling, Decider]] = {}
_MOST_DECIDERS = 4096


def decider(ruling: Ruling) -> Decider:
    """The ``decided_by`` object of a ruling."""
    known = _deciders.get(id(ruling))
    if known is not None:
        return known[1]
    if len(_deciders) >= _MOST_DECIDERS:
        _deciders.clear()
    made = Decider(
        direction=ruling.direction.text,
        tier=ruling.tier.text,
        policy=ruling.policy,
        rule=ruling.rule,
        rule_name=ruling.rule_name,
        action=ruling.action,
    )
    _deciders[id(ruling)] = (ruling, made)
    return made


def direction_answer(ruling: Ruling) -> DirectionAnswer:
    """The ``egress`` or ``ingress`` object of a ruling."""
    return DirectionAnswer(
        direction=ruling.direction.text,
        tier=ruling.tier.text,
        policy=ruling.policy,
        rule=ruling.rule,
        rule_name=ruling.rule_name,
        action=ruling.action,
        allowed=ruling.allowed,
        reason=ruling.reason or UNSET,
        isolated_by=ruling.isolated_by or UNSET,
    )


def answer(
    decision: Decision,
    *,
    id: Any,  # noqa: A002  the key's name in the probe and in the answer
    source: End,
    destination: End,
    protocol: str,
    port: int | None,
    notes: tuple[str, ...] = (),
    expect: str | None = None,
) -> Answer:
    """The answer of ``knp eval``; ``id`` is given back as it came."""
    egress, ingress = decision.egress, decision.ingress
    return Answer(
        id=id,
        verdict=decision.verdict.value,
        source=source,
        destination=destination,
        protocol=protocol,
        port=port,
        decided_by=decider(decision.decided_by) if decision.decided_by else None,
        egress=direction_answer(egress) if egress else None,
        ingress=direction_answer(ingress) if ingress else None,
        reason=_reason(decision) or UNSET,
        unidentified=_texts(decision.unidentified),
        notes=notes or UNSET,
        expect=expect or UNSET,
    )


def candidate(decision: Decision) -> Candidate:
    """The ``shadow`` object of what the candidate policies decided."""
    ruling = decision.decided_by
    return Candidate(
        decision.verdict.value, decider(ruling) if ruling else None, _isolated_by(ruling)
    )


def record(
    decision: Decision,
    flow: FlowFacts,
    *,
    enforced: bool = True,
    again: bool = False,
    shadow: Decision | None = None,
) -> Record:
    """The record of one connection."""
    ruling = decision.decided_by
    protocol = protocol_name(flow.protocol)
    ports = protocol not in NO_PORTS
    names = flow.names or tuple(dict.fromkeys(grant.name for grant in decision.grants))
    return Record(
        ts=timestamp(flow.ts_ns),
        id=flow.id,
        verdict=decision.verdict.value,
        direction=ruling.direction.text if ruling else None,
        src=End(
            format_address(flow.src), flow.sport if ports else None, pod=flow.src_pod or UNSET
        ),
        dst=End(
            format_address(flow.dst),
            flow.dport if ports else None,
            pod=flow.dst_pod or UNSET,
            service=flow.service or UNSET,
            names=names,
        ),
        family="IPv4" if is_v4(flow.dst) else "IPv6",
        protocol=protocol,
        decided_by=decider(ruling) if ruling else None,
        packets=flow.packets,
        bytes=flow.octets,
        reason="; ".join(filter(None, (_reason(decision), flow.note))) or None,
        isolated_by=_isolated_by(ruling),
        unidentified=_texts(decision.unidentified),
        enforced=UNSET if enforced else False,
        again=again or UNSET,
        shadow=UNSET if shadow is None else candidate(shadow),
    )


def _isolated_by(ruling: Ruling | None) -> tuple[str, ...] | UnsetType:
    return (ruling.isolated_by if ruling and not ruling.allowed else ()) or UNSET


def _reason(decision: Decision) -> str | None:
    return decision.reason or (decision.decided_by.reason if decision.decided_by else None)


def _texts(addresses: tuple[int, ...]) -> tuple[str, ...] | UnsetType:
    return tuple(map(format_address, addresses)) or UNSET


def encode(document: Answer | Record | Omission) -> bytes:
    """The document as one line of JSON, without the newline."""
    return _encoder.encode(document)


def as_dict(document: Answer | Record) -> dict[str, Any]:
    """The document as JSON reads it: dicts, lists and scalars, keys in their order."""
    plain: dict[str, Any] = msgspec.json.decode(encode(document))
    return plain
