"""The verdict log: a record for each judged packet, at the pace of the packets.

What is written is what ``verdicts.record`` would encode, byte for byte. Most of a record
depends on the ruling and on the two ends alone, so those pieces are encoded once and a
record is put together from them; whatever is unusual takes the long way.

Three bounds, and what the first two leave out is counted and said in the log itself:

- Lines a second. Denials go first: allowed connections may use up only half of what has been
  saved up, and the half that is kept is filled again before they get any. So a flood of
  allowed connections hides no denial as long as there are fewer of those than lines.
- Bytes that wait for whoever reads the log. A reader that is slow or gone costs records,
  never packets.
- ``CHUNK`` bytes a line and a write, which a pipe takes as a whole or not at all
  (``PIPE_BUF``, pipe(7)): the lines of several processes never mix. A longer record loses
  names and isolating policies until it fits, and says how many.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from knp_py.model.decision import Decision, Ruling, Verdict
from knp_py.model.net import format_address, is_v4
from knp_py.model.packet import protocol_name
from knp_py.verdicts.bounded import bounded_line, fit, learned_names
from knp_py.verdicts.record import (
    BLOCKED,
    LIMIT,
    NO_PORTS,
    FlowFacts,
    Omission,
    decider,
    encode,
)
from knp_py.verdicts.times import SECOND, timestamp

Which = Literal["all", "deny", "none"]

CHUNK: Final = 4096
"""Bytes of the longest line and of the largest write."""

_ROOM = 1 << 20
_SILENCE = 1.0  # seconds between two lines about what was left out
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


class VerdictLog:
    """Writes records; nothing here blocks or raises.

    ``write`` takes bytes and returns how many it took, or anything that is no number for
    all of them; it raises ``BlockingIOError`` where it would have to wait, and any other
    ``OSError`` where it cannot. ``which`` says what is logged: "deny" is all but allowed
    connections. ``limit`` is lines a second, ``inf`` for no limit; a second's worth is saved
    up while there is less to write. ``room`` is the bytes that may wait to be written.

    With a ``shadow`` a record is written only where the two verdicts differ.

    ``omitted`` counts what was left out so far, by reason and verdict. ``problem`` says why
    the last write failed; it is empty after one that did not.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        which: Which = "all",
        limit: float = float("inf"),
        room: int = _ROOM,
    ) -> None:
        if not limit > 0:
            raise ValueError("a log needs room for some lines a second")
        self.omitted: dict[tuple[str, str], int] = {}
        self.problem = ""
        self._write = write
        self._which = which
        self._limit = limit
        self._most = max(limit, 2.0)
        self._kept = self._most / 2 + 1.0  # what an allowed connection must find to be written
        self._tokens = self._most
        self._now: float | None = None
        self._unsaid: dict[tuple[str, str], int] = {}
        self._unsaid_since = 0.0
        self._last_ns = 0  # time stamp of the last record that was left out
        self._room = room
        self._lines: list[bytes] = []
        self._open = 0  # bytes in the lines
        self._chunks: deque[bytes] = deque()
        self._waiting = 0  # bytes in lines and chunks
        self._second = -1
        self._stamp: str | None = None
        self._generation = -1
        self._ruled: dict[tuple[int, int], _Ruled] = {}
        self._sources: dict[tuple[int, str | None], _Placed] = {}
        self._targets: dict[tuple[object, ...], _Placed | None] = {}

    @property
    def waiting(self) -> int:
        """Bytes that are still to be written."""
        return self._waiting

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
        tokens = self._tokens
        if tokens < (1.0 if first else self._kept):
            self._leave_out(LIMIT, verdict, flow)
            return
        if self._waiting > self._room - CHUNK:
            self._leave_out(BLOCKED, verdict, flow)
            return
        self._tokens = tokens - 1.0
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
        size = len(line)
        if self._open + size > CHUNK:
            self._cut()
            self._send()
        self._lines.append(line)
        self._open += size
        self._waiting += size

    def flush(self, now: float) -> None:
        """Write what can be written, and what there is to say about the rest.

        ``now`` is in seconds of a clock that only goes forward. To be called after every
        batch of packets, and some times a second at least: the limit goes by it.
        """
        before, self._now = self._now, now
        if before is None:
            self._unsaid_since = now
        elif self._tokens < self._most:
            saved = max(0.0, now - before) * self._limit
            self._tokens = min(self._most, self._tokens + saved)
        if self._unsaid and now - self._unsaid_since >= _SILENCE:
            self._say(now)
        self._cut()
        self._send()

    def close(self, now: float) -> int:
        """The last flush; how many lines could not be written and are lost."""
        self.flush(now)
        if self._unsaid:
            self._say(now)
            self._cut()
            self._send()
        return sum(chunk.count(b"\n") for chunk in self._chunks)

    def _leave_out(self, reason: str, verdict: Verdict, flow: FlowFacts) -> None:
        key = (reason, verdict.value)
        self.omitted[key] = self.omitted.get(key, 0) + 1
        if not self._unsaid and self._now is not None:
            self._unsaid_since = self._now
        self._unsaid[key] = self._unsaid.get(key, 0) + 1
        self._last_ns = flow.ts_ns

    def _say(self, now: float) -> None:
        """One line for each reason, if there is room for them; else the next time."""
        if self._waiting > self._room:
            return
        seconds = round(now - self._unsaid_since, 3)
        for reason in (LIMIT, BLOCKED):
            counts = {word: n for (why, word), n in self._unsaid.items() if why == reason}
            if counts:
                omission = Omission(
                    ts=timestamp(self._last_ns), omitted=counts, seconds=seconds, reason=reason
                )
                line = encode(omission) + b"\n"
                if self._open + len(line) > CHUNK:
                    self._cut()
                self._lines.append(line)
                self._open += len(line)
                self._waiting += len(line)
        self._unsaid.clear()

    def _cut(self) -> None:
        """Make the lines so far a chunk."""
        if self._lines:
            self._chunks.append(b"".join(self._lines))
            self._lines.clear()
            self._open = 0

    def _send(self) -> None:
        """Write chunks until there are none or one is not taken."""
        while self._chunks:
            chunk = self._chunks[0]
            try:
                taken = self._write(chunk)
            except BlockingIOError:
                return
            except OSError as error:
                self.problem = error.strerror or str(error)
                return
            self.problem = ""
            if isinstance(taken, int) and taken < len(chunk):
                self._chunks[0] = chunk[taken:]
                self._waiting -= taken
                return
            self._chunks.popleft()
            self._waiting -= len(chunk)

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
