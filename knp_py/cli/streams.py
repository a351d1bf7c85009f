"""Standard input, output and error as they may be: closed, full, or with nobody reading.

Whatever becomes of them, knp ends with an exit code that means what it says. Output that
cannot be written is an error; a message that cannot be shown is not.
"""

import io
import os
import sys
from contextlib import suppress
from typing import Any, TextIO


class OutputError(Exception):
    """Standard output does not take what is written to it; the system says why."""


class ReaderGoneError(Exception):
    """Whatever reads our output (``| head``) has seen enough."""


# Between a write by the system and our word that it was done there must be no Python code:
# an interrupt there would have the same bytes written twice. So not FileIO is replaced.


class _Output(io.BufferedWriter):
    """Standard output. Its failures are no ``OSError``, which somebody might take for theirs."""

    def write(self, data: Any, /) -> int:
        with _own_errors:
            return super().write(data)

    def flush(self) -> None:
        with _own_errors:
            super().flush()


class _OwnErrors:
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, BrokenPipeError):
            raise ReaderGoneError from None
        if isinstance(error, OSError):
            raise OutputError(f"standard output: {error.strerror or error}") from None


_own_errors = _OwnErrors()


class _Messages(io.BufferedWriter):
    """Standard error. There is nobody to tell when it fails."""

    def write(self, data: Any, /) -> int:
        with suppress(OSError):
            return super().write(data)
        return len(data)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def open_streams() -> None:
    """Make all three usable, also those that are closed.

    A closed one is None in ``sys``, and its number would be the next opened file's. It gets
    a file that refuses (0 and 1) or swallows (2) what it is asked for. A stream that
    somebody put in the place of the real one, such as a test, is left alone.
    """
    for number, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest number that is free: this one
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(sys.stdout, _Output(io.FileIO(1, "w", closefd=False)))
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(sys.stderr, _Messages(io.FileIO(2, "w", closefd=False)), by_line=True)


def _text(before: TextIO | None, binary: io.BufferedWriter, *, by_line: bool = False) -> TextIO:
    """Text as the interpreter set it up, but that names may hold what it cannot encode."""
    unbuffered = bool(getattr(before, "write_through", False))
    return io.TextIOWrapper(
        binary,
        encoding=before.encoding if before is not None else "utf-8",
        errors="backslashreplace",
        line_buffering=by_line or unbuffered or binary.isatty(),
    )


def give_up_output() -> None:
    """Let nothing more be written, the interpreter's own flush at its end included."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
