"""``knp`` with every thread it starts under cProfile; each one's figures go to a file at the end.

    python profiled.py DIRECTORY agent ...

One file a thread, ``DIRECTORY/<name of the thread>.prof``, as ``pstats`` reads them.
"""

import cProfile
import sys
import threading
from pathlib import Path

from knp_py.cli.main import run

_profiles: dict[str, cProfile.Profile] = {}


def _begin(*_: object) -> None:
    """The thread's first event: its own profiler takes over from here."""
    profile = _profiles[threading.current_thread().name] = cProfile.Profile()
    profile.enable()


def main() -> int:
    directory = Path(sys.argv[1])
    threading.setprofile(_begin)
    try:
        return run(sys.argv[2:])
    finally:
        for name, profile in _profiles.items():
            profile.dump_stats(directory / f"{name}.prof")


if __name__ == "__main__":
    sys.exit(main())
