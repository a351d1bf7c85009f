"""The three programs in C, compiled where and when they are used."""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

_SOURCES = Path(__file__).parent
_LIBRARIES = {"accept_all": ("-lnetfilter_queue", "-lnfnetlink")}


class Programs(NamedTuple):
    """Paths of what was compiled; each source says what its program does."""

    accept_all: Path
    accept_close: Path
    connect_load: Path


def missing() -> str | None:
    """What keeps the programs from being compiled here, or None."""
    if _compiler() is None:
        return "a C compiler (gcc)"
    if not Path("/usr/include/libnetfilter_queue/libnetfilter_queue.h").exists():
        return "the headers of libnetfilter_queue (apt-get install libnetfilter-queue-dev)"
    return None


def build(directory: Path) -> Programs:
    """Compile into ``directory``. Raises ``RuntimeError`` with the compiler's words."""
    return Programs(*(_compile(name, directory) for name in Programs._fields))


def _compiler() -> str | None:
    return shutil.which("gcc") or shutil.which("cc")


def _compile(name: str, directory: Path) -> Path:
    target = directory / name
    done = subprocess.run(
        [_compiler() or "cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(target),
         str(_SOURCES / f"{name}.c"), *_LIBRARIES.get(name, ())],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{name}.c does not compile:\n{done.stderr}")
    return target
