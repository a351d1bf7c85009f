"""Ctrl-C while a capture streams in ends the capture, not the answer.

``tcpdump -w - | knp replay -``: the terminal interrupts both. What has been read by then is
judged and printed; a second Ctrl-C ends knp as usual.
"""

import signal
import sys
from types import FrameType, TracebackType
from typing import Any, Self, cast

from knp_py.adapters.captures import ByteStream


class InterruptibleInput:
    """Standard input's bytes, which seem to end at the first interrupt."""

    def __init__(self) -> None:
        self.interrupted = False
        self._reading = False
        self._before: Any = signal.default_int_handler

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.interrupted = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._reading:
            raise _InterruptedReadError  # out of a read that may wait for ever

    def read1(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes; none at the end or after an interrupt."""
        if self.interrupted:
            return b""
        try:
            self._reading = True
            return cast("ByteStream", sys.stdin.buffer).read1(size)
        except _InterruptedReadError:
            return b""
        finally:
            self._reading = False

    def close(self) -> None:
        """Standard input stays open."""


class _InterruptedReadError(Exception):
    """Raised by the handler; only ``read1`` is there to catch it."""
