"""A network namespace with nothing in it but a loopback interface, and this thread in there."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from knp_py.lab.namespaces import add_spaces, inside, remove_spaces

_numbers = count(1)


def needs(*tools: str) -> list[pytest.MarkDecorator]:
    """Marks of tests that need root and these programs, besides ``ip``."""
    missing = [tool for tool in ("ip", *tools) if shutil.which(tool) is None]
    return [
        pytest.mark.needs_root,
        pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make network namespaces"),
        pytest.mark.skipif(
            bool(missing), reason=f"needs {', '.join(missing)} (.ci/run installs it)"
        ),
    ]


@contextmanager
def alone() -> Iterator[str]:
    """A namespace of one's own, its loopback interface up; its name."""
    name = f"knpt-{os.getpid()}-{next(_numbers)}"
    add_spaces([name])
    try:
        with inside(name):
            run("ip", "link", "set", "lo", "up")
            yield name
    finally:
        remove_spaces([name])


def run(*argv: str, text: str = "") -> str:
    """A program where this thread is; what it printed."""
    done = subprocess.run(
        argv, input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, (argv, done.stderr)
    return done.stdout
