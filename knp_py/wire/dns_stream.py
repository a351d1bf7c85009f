"""DNS over TCP (RFC 7766): one direction's segments to messages.

Strict on purpose. Who asks a server for a text can have it send bytes that look like a
framed answer, so a reader that is out of step with the framing reads what a stranger wrote.
A stream is therefore read from its SYN on and given up at the first gap that does not
close; nothing is guessed and nothing resynchronised.
"""

from heapq import heappop, heappush

_SEQUENCE = 1 << 32
_HALF = 1 << 31


class MessageStream:
    """Puts segments in order and takes out the messages behind their two-byte lengths.

    ``broken`` is why reading ended for good: ``gap`` when more than ``max_ahead`` bytes or
    ``max_segments`` segments wait for one that is missing, ``oversize`` for a message longer
    than ``max_message``. ``held`` is how many bytes wait for the rest of a message or a gap.
    The first copy of a byte counts, as it does for the receiver.
    """

    __slots__ = (
        "_ahead",
        "_ahead_bytes",
        "_buffer",
        "_max_ahead",
        "_max_message",
        "_max_segments",
        "_next",
        "broken",
    )

    def __init__(
        self, *, max_message: int = 65_535, max_ahead: int = 65_536, max_segments: int = 256
    ) -> None:
        self.broken: str | None = None
        self._max_message = max_message
        self._max_ahead = max_ahead
        self._max_segments = max_segments
        self._next = -1  # position in the stream, never wrapping; its low 32 bits are the number
        self._buffer = bytearray()
        self._ahead: list[tuple[int, bytes]] = []
        self._ahead_bytes = 0

    @property
    def begun(self) -> bool:
        """Whether the first byte's sequence number is known."""
        return self._next >= 0

    @property
    def held(self) -> int:
        """Bytes kept."""
        return len(self._buffer) + self._ahead_bytes

    def begin(self, seq: int) -> None:
        """The first byte of the stream has this sequence number."""
        self._next = _SEQUENCE + seq % _SEQUENCE

    def feed(self, seq: int, payload: bytes) -> list[bytes]:
        """The messages that this segment completes. Before ``begin`` there are none."""
        if not payload or self.broken is not None or self._next < 0:
            return []
        distance = (seq - self._next) % _SEQUENCE
        if distance >= _HALF:
            distance -= _SEQUENCE
        if distance > 0:
            self._wait(self._next + distance, payload)
            return []
        if len(payload) + distance <= 0:
            return []  # all of it was there before
        self._append(self._next + distance, payload)
        while self._ahead and self._ahead[0][0] <= self._next:
            position, later = heappop(self._ahead)
            self._ahead_bytes -= len(later)
            self._append(position, later)
        return self._take()

    def _wait(self, position: int, payload: bytes) -> None:
        heappush(self._ahead, (position, payload))
        self._ahead_bytes += len(payload)
        if self._ahead_bytes > self._max_ahead or len(self._ahead) > self._max_segments:
            self._give_up("gap")

    def _append(self, position: int, payload: bytes) -> None:
        known = self._next - position
        if known < len(payload):
            self._buffer += payload[known:]
            self._next = position + len(payload)

    def _take(self) -> list[bytes]:
        messages: list[bytes] = []
        at = 0
        buffer = self._buffer
        while len(buffer) - at >= 2:
            length = buffer[at] << 8 | buffer[at + 1]
            if length > self._max_message:
                self._give_up("oversize")
                return messages
            end = at + 2 + length
            if end > len(buffer):
                break
            messages.append(bytes(buffer[at + 2 : end]))
            at = end
        del buffer[:at]
        return messages

    def _give_up(self, reason: str) -> None:
        self.broken = reason
        self._buffer = bytearray()
        self._ahead = []
        self._ahead_bytes = 0
