"""The verdict log: a record for each judged packet, at the pace of the packets.

What is written is what ``verdicts.record`` would encode, byte for byte. Most of a record
depends on the ruling and on the two ends alone, so those pieces are encoded once and a
record is put together from them; whatever is unusual takes the long way.

Its bounds are those of ``agent.linelog``, by lines. A record longer than ``CHUNK`` bytes loses
names and isolating policies until it fits, and says how many.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from knp_py.agent.linelog import CHUNK, ROOM, LineLog
from knp_py.model.decision import Decision, Ruling, Verdict
from knp_py.model.net import format_address, is_v4
from knp_py.model.packet import protocol_name
from knp_py.verdicts.bounded import bounded_line, fit, learned_names
from knp_py.verdicts.record import (
    NO_PORTS,
    FlowFacts,
    Omission,
    decider,
    encode,
)
from knp_py.verdicts.times import SECOND, timestamp

Which = Literal["all", "deny", "none"]

_MOST_PIECES = 8192  # of each kind that are remembered
_ALLOW = Verdict.ALLOW
_DIGITS = tuple(f"{number:03}" for number in range(1000))
_FRACTION = len("000000Z")
_ID = 'Z","id":'
_BYTES = ',"bytes":'
_END = (  # [enforced][again]
    (',"enforced":false}\n', ',"enforced":false,"again":true}\n'),
    ("}\n", ',"again":true}\n'),
)

# Of a ruling and a protocol: the ruling (so that no other gets its id), the verdict, whether
# there are ports, and what it makes of a record: from the verdict to the source's address,
# from the protocol to the number of packets, from the reason on.
_Ruled = tuple[Ruling, Verdict, bool, str, str, str]
# Of an end: what is before its port, and what is after it.
_Placed = tuple[str, str]

_json = msgspec.json.Encoder().encode


class VerdictLog(LineLog):
    """Writes records; see ``LineLog`` for how.

    ``which`` says what is logged: "deny" is all but allowed connections. With a ``shadow`` a
    record is written only where the two verdicts differ.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        which: Which = "all",
        limit: float = float("inf"),
        room: int = ROOM,
    ) -> None:
        super().__init__(write, limit=limit, room=room)
        self._which = which
        self._second = -1
        self._stamp: str | None = None
        self._generation = -1
        self._ruled: dict[tuple[int, int], _Ruled] = {}
        self._sources: dict[tuple[int, str | None], _Placed] = {}
        self._targets: dict[tuple[object, ...], _Placed | None] = {}

    def log(
        self,
        decision: Decision,
        flow: FlowFacts,
        *,
        enforced: bool = True,
        shadow: Decision | None = None,
        again: bool = False,
        generation: int = 0,
    ) -> None:
        """One judged packet. ``generation`` is that of the policies that judged it."""
        verdict = decision.verdict
        first = verdict is not _ALLOW
        if shadow is not None:
            if shadow.verdict is verdict:
                return
            first = True  # somebody waits for this difference
        if self._which != "all" and (self._which == "none" or not first):
            return
        if not self._admits(verdict, flow.ts_ns, first=first):
            return
        if generation != self._generation:
            self._generation = generation
            self._ruled.clear()  # rulings of other policies do not come again
        line: bytes | None = None
        if shadow is None:
            line = self._put_together(decision, flow, enforced, again)
        if line is None or len(line) > CHUNK:
            line = bounded_line(
                decision, flow, CHUNK, enforced=enforced, again=again, shadow=shadow
            )
        self._add(line)

    def _omission(self, ns: int, counts: dict[str, int], seconds: float, reason: str) -> bytes:
        omission = Omission(ts=timestamp(ns), omitted=counts, seconds=seconds, reason=reason)
        return encode(omission) + b"\n"

    def _put_together(
        self, decision: Decision, flow: FlowFacts, enforced: bool, again: bool
    ) -> bytes | None:
        """The line from pieces; None where something about it is unusual."""
        # By position, which is ten times as fast; a property test holds it to the record.
        ns, number, src, dst, protocol, sport, dport, pod, target, packets, octets = flow[:11]
        names, note, service = flow[11:]
        ruling = decision.decided_by
        reason = decision.reason
        if (
            ruling is None
            or note is not None
            or decision.unidentified
            or (reason is not None and reason is not ruling.reason)
        ):
            return None
        ruled = self._ruled.get((id(ruling), protocol))
        if ruled is None:
            ruled = self._rule(ruling, decision.verdict, protocol)
        _, verdict, ports, head, middle, tail = ruled
        if verdict is not decision.verdict:
            return None
        if not names and decision.grants:
            names = learned_names(decision)
        source = self._sources.get((src, pod))
        if source is None:
            source = self._source(src, pod)
        key = (dst, target, names, service)
        place = self._targets.get(key)
        if place is None:
            if key not in self._targets:
                place = self._target(dst, target, names, service)
            if place is None:
                return None
        second, rest = divmod(ns, SECOND)
        if second != self._second:
            self._second = second
            stamp = timestamp(second * SECOND)
            self._stamp = stamp and f'{{"ts":"{stamp[:-_FRACTION]}'
        if self._stamp is None:
            return None
        millis, micros = divmod(rest // 1000, 1000)
        from_port: int | str = sport if ports else "null"
        to_port: int | str = dport if ports else "null"
        return (
            f"{self._stamp}{_DIGITS[millis]}{_DIGITS[micros]}{_ID}{number}{head}"
            f"{source[0]}{from_port}{source[1]}{place[0]}{to_port}{place[1]}"
            f"{middle}{packets}{_BYTES}{octets}{tail}{_END[enforced][again]}"
        ).encode()

    def _rule(self, ruling: Ruling, verdict: Verdict, protocol: int) -> _Ruled:
        if len(self._ruled) >= _MOST_PIECES:
            self._ruled.clear()
        name = protocol_name(protocol)
        isolated = () if ruling.allowed else ruling.isolated_by
        made = self._ruled[id(ruling), protocol] = (
            ruling,
            verdict,
            name not in NO_PORTS,
            f',"verdict":"{verdict.value}","direction":{_text(ruling.direction.text)}',
            f',"protocol":"{name}","decided_by":{_text(decider(ruling))},"packets":',
            f',"reason":{_text(ruling.reason or None)}'
            + (f',"isolated_by":{_text(isolated)}' if isolated else ""),
        )
        return made

    def _source(self, address: int, pod: str | None) -> _Placed:
        if len(self._sources) >= _MOST_PIECES:
            self._sources.clear()
        made = self._sources[address, pod] = (
            f',"src":{{"ip":"{format_address(address)}","port":',
            (f',"pod":{_text(pod)}' if pod else "") + "}",
        )
        return made

    def _target(
        self, address: int, pod: str | None, names: tuple[str, ...], service: str | None
    ) -> _Placed | None:
        if len(self._targets) >= _MOST_PIECES:
            self._targets.clear()
        made: _Placed | None = None
        if fit(names, CHUNK):
            made = (
                f',"dst":{{"ip":"{format_address(address)}","port":',
                (f',"pod":{_text(pod)}' if pod else "")
                + (f',"service":{_text(service)}' if service else "")
                + f',"names":{_text(names)}}},"family":"{"IPv4" if is_v4(address) else "IPv6"}"',
            )
        self._targets[address, pod, names, service] = made
        return made


def _text(value: object) -> str:
    return _json(value).decode()
