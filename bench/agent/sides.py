"""What is compared: who answers the queue, and which connections are made meanwhile."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.agent.stage import CLUSTER, MANY, WALKTHROUGH, WIDE, Load, Stage

Process = subprocess.Popen[str]


class Side(NamedTuple):
    """One row of the result. ``queued``: every connection's first packet is to be in the queue."""

    title: str
    load: Load
    start: Callable[[Stage], Process | None]
    queued: bool = True
    recorded: bool = False


def _tracked(stage: Stage) -> None:
    stage.track()


def _in_c(stage: Stage) -> Process:
    return stage.in_its_place(str(stage.programs.accept_all))


def _in_python(stage: Stage) -> Process:
    program = Path(__file__).with_name("accept_in_python.py")
    return stage.in_its_place(sys.executable, str(program))


SIDES: dict[str, Side] = {
    "none": Side("no agent, no rules", WALKTHROUGH, lambda _: None, queued=False),
    "tracked": Side("no agent, connections tracked", WALKTHROUGH, _tracked, queued=False),
    "remember": Side(
        "knp agent, remembering", WALKTHROUGH,
        lambda stage: stage.agent("walkthrough"), queued=False,
    ),
    "c": Side("C program, accepts all", WALKTHROUGH, _in_c),
    "netfilterqueue": Side("netfilterqueue in Python, accepts all", WALKTHROUGH, _in_python),
    "off": Side(
        "knp agent --remember off, walkthrough", WALKTHROUGH,
        lambda stage: stage.agent("walkthrough", "--remember", "off"),
    ),
    "many": Side(
        "knp agent --remember off, 600 policies, 5,000 pods", MANY,
        lambda stage: stage.agent("many", "--remember", "off"),
    ),
    "log": Side(
        "knp agent --remember off, every verdict written", WALKTHROUGH,
        lambda stage: stage.agent("walkthrough", "--remember", "off", logged="all"),
        recorded=True,
    ),
    "c-wide": Side("C program, 25,600 destinations", WIDE, _in_c),
    "wide": Side(
        "knp agent --remember off, 25,600 destinations", WIDE,
        lambda stage: stage.agent("wide", "--remember", "off"),
    ),
    "api": Side(
        "knp agent --remember off, API server, 1,100 policies, 10,000 pods", CLUSTER,
        lambda stage: stage.follower(0, "--remember", "off"),
    ),
    "api-busy": Side(
        "the same with 200 pod events/s", CLUSTER,
        lambda stage: stage.follower(200, "--remember", "off"),
    ),
}  # fmt: skip


class Limit(NamedTuple):
    """``side`` is to make at least ``least`` of the connections that ``reference`` makes."""

    side: str
    reference: str
    least: float | None


LIMITS = (
    Limit("netfilterqueue", "c", None),
    Limit("off", "c", 0.65),
    Limit("many", "c", 0.60),
    Limit("log", "c", 0.40),
    Limit("wide", "c-wide", None),
    Limit("api", "c", None),
    Limit("api-busy", "api", None),
    Limit("remember", "tracked", 0.90),
    Limit("remember", "none", None),
    Limit("tracked", "none", None),
    Limit("c", "none", None),
)
