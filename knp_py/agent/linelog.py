"""A log that is written at the pace of packets: buffered, bounded, never waited for.

Three bounds, and what the first two leave out is counted and said in the log itself:

- Packets a second. Denials go first: allowed connections may use up only half of what has been
  saved up, and the half that is kept is filled again before they get any. So a flood of
  allowed connections hides no denial as long as there are fewer of those than packets.
- Bytes that wait for whoever reads the log. A reader that is slow or gone costs records,
  never packets.
- ``CHUNK`` bytes a write, which a pipe takes as a whole or not at all (``PIPE_BUF``, pipe(7)):
  what several processes write does not mix, as long as what belongs together is no longer.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final

from knp_py.model.decision import Verdict
from knp_py.verdicts.record import BLOCKED, LIMIT

CHUNK: Final = 4096
"""Bytes of the largest write, but for what is longer by itself."""

ROOM: Final = 1 << 20
"""Bytes that may wait, unless said otherwise."""

_SILENCE = 1.0  # seconds between two words about what was left out


class LineLog(ABC):
    """Writes lines; nothing here blocks or raises.

    ``write`` takes bytes and returns how many it took, or anything that is no number for
    all of them; it raises ``BlockingIOError`` where it would have to wait, and any other
    ``OSError`` where it cannot. ``limit`` is packets a second, ``inf`` for no limit; a
    second's worth is saved up while there is less to write. ``room`` is the bytes that may
    wait to be written.

    ``omitted`` counts what was left out so far, by reason and verdict. ``problem`` says why
    the last write failed; it is empty after one that did not.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        limit: float = float("inf"),
        room: int = ROOM,
    ) -> None:
        if not limit > 0:
            raise ValueError("a log needs room for some lines a second")
        self.omitted: dict[tuple[str, str], int] = {}
        self.problem = ""
        self._write = write
        self._limit = limit
        self._most = max(limit, 2.0)
        self._kept = self._most / 2 + 1.0  # what an allowed connection must find to be written
        self._tokens = self._most
        self._now: float | None = None
        self._unsaid: dict[tuple[str, str], int] = {}
        self._unsaid_since = 0.0
        self._last_ns = 0  # time stamp of the last packet that was left out
        self._room = room
        self._lines: list[bytes] = []
        self._open = 0  # bytes in the lines
        self._chunks: deque[bytes] = deque()
        self._waiting = 0  # bytes in lines and chunks

    @property
    def waiting(self) -> int:
        """Bytes that are still to be written."""
        return self._waiting

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

    @abstractmethod
    def _omission(self, ns: int, counts: dict[str, int], seconds: float, reason: str) -> bytes:
        """A line that says how many packets were left out, by verdict; ``ns`` is the last's time.

        For ``seconds`` nothing was said of them; ``reason`` is ``LIMIT`` or ``BLOCKED``.
        """

    def _admits(self, verdict: Verdict, ns: int, *, first: bool) -> bool:
        """Whether there is room for one more packet; counts it when there is none.

        ``first`` is one that goes before allowed connections.
        """
        tokens = self._tokens
        if tokens < (1.0 if first else self._kept):
            self._leave_out(LIMIT, verdict, ns)
            return False
        if self._waiting > self._room - CHUNK:
            self._leave_out(BLOCKED, verdict, ns)
            return False
        self._tokens = tokens - 1.0
        return True

    def _add(self, lines: bytes) -> None:
        """Write these together, now or soon."""
        size = len(lines)
        if self._open + size > CHUNK:
            self._cut()
            self._send()
        self._lines.append(lines)
        self._open += size
        self._waiting += size

    def _leave_out(self, reason: str, verdict: Verdict, ns: int) -> None:
        key = (reason, verdict.value)
        self.omitted[key] = self.omitted.get(key, 0) + 1
        if not self._unsaid and self._now is not None:
            self._unsaid_since = self._now
        self._unsaid[key] = self._unsaid.get(key, 0) + 1
        self._last_ns = ns

    def _say(self, now: float) -> None:
        """One line for each reason, if there is room for them; else the next time."""
        if self._waiting > self._room:
            return
        seconds = round(now - self._unsaid_since, 3)
        for reason in (LIMIT, BLOCKED):
            counts = {word: n for (why, word), n in self._unsaid.items() if why == reason}
            if counts:
                line = self._omission(self._last_ns, counts, seconds, reason)
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
