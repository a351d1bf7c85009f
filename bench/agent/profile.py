"""Where the agent's packet thread spends its time while connections come as fast as they go.

    python -m bench.agent.profile [SIDE] [SECONDS]

The agent runs under cProfile, which makes calls of Python functions dearer than they are: good
for what is called how often, ``bench.agent.parts`` for what a call costs. For a picture without
that, start a long run (``python -m bench.agent --sides off --rounds 1 --seconds 60``) and look
at the agent's process with ``py-spy record --native --duration 10 --output agent.svg --pid PID``
(pip install py-spy); for the kernel's part ``perf record -g -p PID``.
"""

import pstats
import sys
import tempfile
from pathlib import Path

from bench.agent.__main__ import NOT_PERMITTED, missing, network
from bench.agent.sides import SIDES
from bench.agent.stage import Stage

_LINES = 40


def main() -> int:
    """Profile one of the sides that are agents."""
    name = sys.argv[1] if len(sys.argv) > 1 else "off"
    seconds = sys.argv[2] if len(sys.argv) > 2 else "5"
    if lacking := missing():
        print(f"bench.agent needs {lacking}", file=sys.stderr)
        return NOT_PERMITTED
    with tempfile.TemporaryDirectory(prefix="knpb-") as directory, network() as made:
        stage = Stage(made, Path(directory))
        stage.launcher = ("-m", "bench.agent.profiled", directory)
        process = SIDES[name].start(stage)
        load = SIDES[name].load
        out = made.run(
            "client", str(stage.programs.connect_load), "-t", seconds, "-j", "4", *load.options
        )
        stage.clear(process)
        print(out)
        stats = pstats.Stats(str(Path(directory, "packets.prof")))
        stats.strip_dirs().sort_stats("tottime").print_stats(_LINES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
