"""The verdict log of kube-network-policies, joined into one entry a packet.

Read as it is at ``-v=2`` and above, from the facts of its own documentation and source:

* ``Evaluating packet`` once a direction, with id, pods (``external`` or ``none`` when there
  is none) and the packet: an object in JSON, ``[id] src:port dst:port PROTO`` on a line of
  its own in text. Older versions write it once a packet and without an id of its own.
* ``Egress CNP evaluation`` with tier and action, once a tier that has policies for the pod;
  in older versions ``Egress NetworkPolicies`` and the like.
* ``Packet denied by egress policy``, ``Packet denied by ingress policy`` or ``Packet
  accepted by policy``: the verdict. Older versions have only the last line's.
* ``Finished syncing packet`` with the verdict of the queue, drop or accept.

Neither a policy's name nor a rule is ever in it. Where ``knp agent --v 2`` wrote the log, they
are: the verdict's entry has ``decidedIn`` and what ``verdicts.packetlines`` says with it.
"""

import re
from collections import Counter, OrderedDict
from typing import Any, Final

from msgspec import UNSET

from knp_py.model.decision import Verdict
from knp_py.model.net import format_address, is_v4, parse_address
from knp_py.model.policy import Tier
from knp_py.verdicts.klog import LogLine
from knp_py.verdicts.packetfields import told
from knp_py.verdicts.read import VerdictEntry
from knp_py.verdicts.record import NO_PORTS, Decider, End
from knp_py.verdicts.times import timestamp

OPEN_LIMIT: Final = 4096
"""Packets whose verdict is still to come; beyond it the oldest are given up."""

_PACKET = re.compile(r"\s*\[(\d+)\] (\S+):(\d+) (\S+):(\d+) ?(\S*)\s*", re.ASCII)
_CONSULTED = re.compile(
    r"(Egress|Ingress) (?:CNP evaluation|((?:Baseline)?Admin)?NetworkPolicies)", re.ASCII
)
_VERDICTS = {
    "Packet denied by egress policy": ("egress", Verdict.DENY),
    "Packet denied by ingress policy": ("ingress", Verdict.DENY),
    "Packet accepted by policy": (None, Verdict.ALLOW),
}
_QUEUE_VERDICTS = {"accept": Verdict.ALLOW, "drop": Verdict.DENY}
_ACTIONS = {"Accept": "Accept", "Allow": "Accept", "Deny": "Deny"}
_TIERS = {"Admin": Tier.ADMIN.text, "Baseline": Tier.BASELINE.text}

OTHER = "tell of no verdict"
EARLIER = "are verdicts whose packet is not in the log"
NO_VERDICT = "its verdict is not in the log"
REEVALUATED = "an established connection, evaluated again (strict mode)"
UNREADABLE = "the packet could not be read"


class _Packet:
    """What the lines so far say of one packet."""

    def __init__(self, ts: int | None) -> None:
        self.ts = ts
        self.pods: tuple[str | None, str | None] = (None, None)
        self.flow: tuple[str, int, str, int, str] | None = None
        self.directions: list[str] = []
        self.decided: list[tuple[str, str, str]] = []  # direction, tier, action


class PacketJoiner:
    """Feeds on entries and packet lines of one stream or several; gives verdicts back.

    ``counts`` says what gave no verdict: ``OTHER`` entries and ``EARLIER`` packets.
    """

    def __init__(self, open_limit: int = OPEN_LIMIT) -> None:
        self._open: OrderedDict[tuple[str, int], _Packet] = OrderedDict()
        self._limit = open_limit
        self._waiting: dict[str, LogLine] = {}  # stream -> entry whose packet has no id yet
        self.counts: Counter[str] = Counter()

    def entry(self, line: LogLine, stream: str = "") -> list[VerdictEntry]:
        """Verdicts that this entry completes: mostly none or one."""
        message, fields = line.message, line.fields
        number = _integer(fields.get("id"))
        if message == "Evaluating packet":
            return self._evaluating(line, number, stream)
        if number is None:
            self.counts[OTHER] += 1
            return []
        key = (stream, number)
        if message in _VERDICTS:
            return [told(e, fields) for e in self._verdict(key, *_VERDICTS[message])]
        packet = self._open.get(key)
        consulted = _CONSULTED.fullmatch(message)
        if consulted is not None:
            if packet is not None:
                _consult(packet, consulted, fields)
        elif message == "Finished syncing packet":
            verdict = _QUEUE_VERDICTS.get(str(fields.get("verdict")))
            # The DNS queue counts its packets from 1 as well, and all of them are accepted.
            if packet is not None and verdict is not None and not line.caller.startswith("dns"):
                return self._verdict(key, None, verdict)
        elif message.startswith("Can not process packet") and "failOpen" in fields:
            allowed = str(fields["failOpen"]).lower() == "true"
            self._open[key] = _Packet(line.ts)
            return self._verdict(key, None, Verdict.ALLOW if allowed else Verdict.DENY, UNREADABLE)
        elif packet is None and message != "Processing sync for packet":
            self.counts[OTHER] += 1
        return []

    def packet_line(self, text: str, stream: str = "") -> tuple[bool, list[VerdictEntry]]:
        """Whether this continuation line tells of a packet, and verdicts it pushes out."""
        match = _PACKET.fullmatch(text)
        if match is None:
            return False, []
        number = int(match[1])
        flow = (match[2], int(match[3]), match[4], int(match[5]), match[6])
        waiting = self._waiting.pop(stream, None)
        done: list[VerdictEntry] = []
        if waiting is not None:
            done = self._begin((stream, number), waiting)
        packet = self._open.get((stream, number))
        if packet is not None:
            packet.flow = flow
        return True, done

    def drain(self) -> list[VerdictEntry]:
        """Entries for packets whose verdict never came, oldest first."""
        left = [
            _finished(number, stream, packet, None, Verdict.UNKNOWN, NO_VERDICT)
            for (stream, number), packet in self._open.items()
        ]
        self._open.clear()
        self._waiting.clear()
        return [entry for entry in left if entry is not None]

    def _evaluating(self, line: LogLine, number: int | None, stream: str) -> list[VerdictEntry]:
        if "srcPod" not in line.fields:
            self.counts[OTHER] += 1  # the DNS agent's or strict mode's own, no verdict follows
            return []
        described = line.fields.get("packet")
        if number is None and isinstance(described, dict):
            number = _integer(described.get("ID"))
        if number is None:
            if line.open == "packet":
                if len(self._waiting) >= self._limit:
                    del self._waiting[next(iter(self._waiting))]
                self._waiting[stream] = line
            else:
                self.counts[OTHER] += 1
            return []
        done = self._begin((stream, number), line)
        packet = self._open[stream, number]
        if isinstance(described, dict):
            packet.flow = _flow(described) or packet.flow
        elif isinstance(described, str) and (match := _PACKET.match(described.partition("\n")[0])):
            packet.flow = (match[2], int(match[3]), match[4], int(match[5]), match[6])
        return done

    def _begin(self, key: tuple[str, int], line: LogLine) -> list[VerdictEntry]:
        """Open the packet, or go on with it when this is its other direction."""
        direction = str(line.fields.get("direction", "")).lower()
        packet = self._open.get(key)
        done: list[VerdictEntry | None] = []
        if packet is not None and (direction != "ingress" or "ingress" in packet.directions):
            # The id is used again, so the verdict of its last use was lost.
            del self._open[key]
            done.append(_finished(key[1], key[0], packet, None, Verdict.UNKNOWN, NO_VERDICT))
            packet = None
        if packet is None:
            packet = self._open[key] = _Packet(line.ts)
            if len(self._open) > self._limit:
                (stream, number), oldest = self._open.popitem(last=False)
                done.append(_finished(number, stream, oldest, None, Verdict.UNKNOWN, NO_VERDICT))
        packet.pods = (_pod(line.fields.get("srcPod")), _pod(line.fields.get("dstPod")))
        if direction:
            packet.directions.append(direction)
        return [entry for entry in done if entry is not None]

    def _verdict(
        self,
        key: tuple[str, int],
        direction: str | None,
        verdict: Verdict,
        reason: str | None = None,
    ) -> list[VerdictEntry]:
        packet = self._open.pop(key, None)
        if packet is None:
            self.counts[EARLIER] += 1
            return []
        if key[1] == 0 and reason is None:
            reason = REEVALUATED  # the queue counts from 1
        entry = _finished(key[1], key[0], packet, direction, verdict, reason)
        if entry is None:
            self.counts[EARLIER] += 1
            return []
        return [entry]


def _consult(packet: _Packet, match: re.Match[str], fields: Any) -> None:
    direction = match[1].lower()
    if "allowed" in fields:  # NetworkPolicies; none at all decides nothing
        if _integer(fields.get("npolicies")) == 0:
            return
        allowed = str(fields["allowed"]).lower() == "true"
        packet.decided.append(
            (direction, Tier.NETWORK_POLICY.text, "Accept" if allowed else "Deny")
        )
        return
    tier = {"Admin": Tier.ADMIN.text, "BaselineAdmin": Tier.BASELINE.text}.get(
        match[2] or "", _TIERS.get(str(fields.get("tier")), "")
    )
    action = _ACTIONS.get(str(fields.get("action")))
    if tier and action is not None:
        packet.decided.append((direction, tier, action))


def _decider(packet: _Packet, direction: str | None, verdict: Verdict) -> Decider | None:
    """What decided, as far as the log says."""
    if verdict is Verdict.DENY:
        for side, tier, action in reversed(packet.decided):
            if action == "Deny" and direction in {side, None}:
                return Decider(side, tier, action="Deny")
        if direction is not None:
            # Both ClusterNetworkPolicy tiers say when they deny; the one between does not.
            return Decider(direction, Tier.NETWORK_POLICY.text, action="Deny")
        return None
    if verdict is Verdict.ALLOW:
        last = "ingress" if packet.pods[1] else "egress"
        for side, tier, action in reversed(packet.decided):
            if action == "Accept" and side == last:
                return Decider(side, tier, action="Accept")
    return None


def _finished(
    number: int,
    stream: str,
    packet: _Packet,
    direction: str | None,
    verdict: Verdict,
    reason: str | None,
) -> VerdictEntry | None:
    if packet.flow is None and reason != UNREADABLE:
        return None
    decided = _decider(packet, direction, verdict)
    src, sport, dst, dport, protocol = packet.flow or (None, 0, None, 0, "")
    protocol = protocol or "unknown"
    ports = protocol not in NO_PORTS
    target = _address(dst)
    return VerdictEntry(
        ts=None if packet.ts is None else timestamp(packet.ts),
        id=number,
        verdict=verdict.value,
        direction=direction or (decided.direction if decided else None),
        src=End(_shown(src), sport if ports else None, pod=packet.pods[0] or UNSET),
        dst=End(_shown(dst), dport if ports else None, pod=packet.pods[1] or UNSET, names=()),
        family=None if target is None else "IPv4" if is_v4(target) else "IPv6",
        protocol=protocol,
        decided_by=decided,
        packets=None,
        bytes=None,
        reason=reason,
        source=stream or UNSET,
    )


def _flow(packet: dict[str, Any]) -> tuple[str, int, str, int, str] | None:
    src, dst = packet.get("SrcIP"), packet.get("DstIP")
    sport, dport = _integer(packet.get("SrcPort")), _integer(packet.get("DstPort"))
    if not isinstance(src, str) or not isinstance(dst, str) or sport is None or dport is None:
        return None
    return src, sport, dst, dport, str(packet.get("Proto") or "")


def _pod(value: Any) -> str | None:
    return value if isinstance(value, str) and "/" in value else None


def _address(text: str | None) -> int | None:
    try:
        return parse_address(text) if text else None
    except ValueError:
        return None


def _shown(text: str | None) -> str | None:
    """The address in its canonical form, or as written when it is none."""
    address = _address(text)
    return text if address is None else format_address(address)


def _integer(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else None
