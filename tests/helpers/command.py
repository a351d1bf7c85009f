"""Runs ``knp`` command lines: in this process, or for real."""

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from knp_py.cli.main import run


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


class Terminal(io.StringIO):
    """Text that believes to be a terminal."""

    def isatty(self) -> bool:
        return True


class _Input(io.TextIOWrapper):
    def isatty(self) -> bool:
        return False


def knp(*argv: str, stdin: bytes = b"", terminal: bool = False) -> Ended:
    """Run it in this process; its output is a pipe, or a terminal if asked for."""
    out = Terminal() if terminal else io.StringIO()
    err = Terminal() if terminal else io.StringIO()
    before = sys.stdin
    sys.stdin = _Input(io.BufferedReader(io.BytesIO(stdin)))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = run(list(argv))
    finally:
        sys.stdin = before
    return Ended(code, out.getvalue(), err.getvalue())


def start_knp(
    *argv: str, env: Mapping[str, str] | None = None, stdin: int = subprocess.DEVNULL
) -> "subprocess.Popen[bytes]":
    """Start a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "knp_py", *argv],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(env or {})},
    )


def run_knp(*argv: str, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> Ended:
    """Run a process of its own to its end."""
    process = start_knp(*argv, env=env, stdin=subprocess.PIPE)
    out, err = process.communicate(stdin, timeout=180)
    return Ended(process.returncode, out.decode(), err.decode())
