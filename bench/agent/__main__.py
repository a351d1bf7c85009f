"""``python -m bench.agent``: see bench/README.md."""

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from bench.agent import programs
from bench.agent.figures import document, ratios, table
from bench.agent.network import Network
from bench.agent.rounds import Plan, run
from bench.agent.sides import SIDES
from bench.agent.stage import MANY, OUTSIDE, WALKTHROUGH, Stage

NOT_PERMITTED = 3


def missing() -> str | None:
    """What keeps this from running here, or None."""
    if os.geteuid() != 0:
        return "root (network namespaces, netfilter queues): try sudo"
    for tool in ("ip", "nft", "sysctl"):
        if shutil.which(tool) is None:
            return f"the program {tool}"
    if find_spec("netfilterqueue") is None:
        return "the extra agent: pip install '.[agent]'"
    return programs.missing()


def network() -> Network:
    """A node with the pods between which connections are made."""
    pairs = [(load.client, load.server) for load in (WALKTHROUGH, MANY)]
    clients, servers = zip(*pairs, strict=True)
    return Network(clients, servers, outside=OUTSIDE)


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and say by the exit code whether every limit was kept."""
    parser = argparse.ArgumentParser(prog="python -m bench.agent", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of load a side and round")
    parser.add_argument("--processes", type=int, default=4, help="that make connections")
    parser.add_argument("--tries", type=int, default=4, help="at a measurement without others")
    parser.add_argument(
        "--patience", type=float, default=60.0, help="seconds to wait for others before each"
    )
    parser.add_argument("--sides", default=",".join(SIDES), help="which, of: %(default)s")
    parser.add_argument("--output", type=Path, metavar="FILE", help="everything, as JSON")
    given = parser.parse_args(argv)
    sides = given.sides.split(",")
    if unknown := set(sides) - set(SIDES):
        parser.error(f"no such side: {', '.join(sorted(unknown))}")
    if lacking := missing():
        print(f"bench.agent needs {lacking}", file=sys.stderr)
        return NOT_PERMITTED

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # namespaces are removed then too
    with tempfile.TemporaryDirectory(prefix="knpb-") as directory, network() as made:
        stage = Stage(made, Path(directory))
        plan = Plan(given.rounds, given.seconds, given.processes, given.tries, given.patience)
        samples = run(stage, sides, plan, lambda line: print(line, file=sys.stderr, flush=True))
    print(table(samples))
    if given.output is not None:
        about = {
            "taken": datetime.now(UTC).isoformat(timespec="seconds"),
            "kernel": platform.release(), "python": platform.python_version(),
            "cores": os.cpu_count(), "plan": plan._asdict(),
        }  # fmt: skip
        given.output.write_text(json.dumps(about | document(samples), indent=1) + "\n")
    return 1 if any(ratio.enough is False for ratio in ratios(samples)) else 0


if __name__ == "__main__":
    sys.exit(main())
