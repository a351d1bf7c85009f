"""One run of a system tool that changes or lists the kernel's rules."""

import signal
import subprocess

from knp_py.errors import KernelError

# Seconds; a transaction takes some ten milliseconds. On two busy cores a tool has been seen to
# wait for the kernel, to be run or to end, for seven seconds.
_PATIENCE = 60.0
# A terminal sends these to everybody who is at it. They are ours to hear, and a tool that they
# end halfway leaves rules behind. A process has those blocked that its parent had as it began.
_FROM_TERMINALS = frozenset((signal.SIGINT, signal.SIGQUIT, signal.SIGHUP))


def run(name: str, argv: list[str], text: str) -> subprocess.CompletedProcess[str]:
    """A tool's run with ``text`` as its input; whether it succeeded is the caller's to see.

    ``name`` is what messages call the tool. Raises ``KernelError`` when it cannot be run, or
    takes too long.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _FROM_TERMINALS)
    try:
        return subprocess.run(  # noqa: S603 - our own arguments, no shell
            argv,
            input=text,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KernelError(f"{name}: {error}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The first line that a failed tool wrote about it."""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[0] if lines else f"exit code {done.returncode}"
