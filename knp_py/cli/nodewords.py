"""What a running agent says of itself: one line a message, on standard error."""

import time
from contextlib import suppress
from functools import cache

from knp_py.adapters.outlet import Outlet
from knp_py.agent.judge import Mode
from knp_py.agent.source import Batch
from knp_py.cli.nodeparts import Settings
from knp_py.model.changes import ClusterObject
from knp_py.model.objects import Node, Pod
from knp_py.model.policy import ClusterNetworkPolicy
from knp_py.verdicts.klogentry import Format, remark

CHANGES = 4  # the verbosity from which on every changed object is said
_MOST_CHANGES = 200  # lines of one batch
_PROGRAM = "knp agent"


class _Voice:
    """How everything is said, by every thread of the process."""

    form: Format = "text"


def speak(form: Format) -> None:
    """Say everything in this format from now on."""
    _Voice.form = form


def say(message: str) -> None:
    """One line about the agent itself, on standard error; lost where nobody reads that.

    The packet thread says things too, and must not wait for a reader.
    """
    if _Voice.form == "json":
        line = remark(time.time_ns(), _PROGRAM, message)
    else:
        line = f"{_PROGRAM}: {message}\n"
    with suppress(OSError):
        errors().write(line.encode())


def say_changes(batch: Batch) -> None:
    """A line for every object that changed, but not for thousands that do so at once."""
    for verb, obj in batch.changes[:_MOST_CHANGES]:
        say(f"{verb.value} {_called(obj)}")
    more = len(batch.changes) - _MOST_CHANGES
    if more > 0:
        say(f"{more} more changes")


@cache
def errors() -> Outlet:
    """Standard error."""
    return Outlet(2)


def greeting(settings: Settings, managed: int, how: str) -> str:
    """For whom it enforces, and what its fail mode means."""
    mode = settings.mode
    where = "every pod" if settings.node is None else f"the pods of node {settings.node}"
    if mode.dry_run:
        means = "dry run: nothing is dropped"
    elif mode.fail_open:
        means = "fail-open: when this agent is away, new connections pass unjudged"
    else:
        means = (
            "fail-closed: when this agent is away, new connections of managed pods drop,"
            " until knp agent cleanup"
        )
    extras = [
        *(["strict"] if mode.strict else []),
        *(["shadow"] if settings.shadow else []),
        *([] if mode.remember else ["every connection is judged (--remember off)"]),
        *(
            [f"every judged packet is logged here (--v {settings.verbosity})"]
            if settings.logs_packets
            else []
        ),
    ]
    more = f"; {', '.join(extras)}" if extras else ""
    return (
        f"enforcing for {where}, {managed} of them selected by policy; {means}{more};"
        f" by {how} {settings.nfqueue_id}, DNS {settings.dns_queue_id}"
    )


def farewell(mode: Mode, failure: str) -> str:
    """Why it stops, and what that means."""
    if failure:
        return f"stopped: {failure}"
    if mode.fail_open:
        return "stopped; its rules are removed, new connections pass unjudged"
    return "stopped; its rules stay, new connections of managed pods drop until it is back"


def mode_word(settings: Settings) -> str:
    """The mode as metrics have it."""
    if settings.dry_run:
        return "dry-run"
    return "fail-open" if settings.fail_open else "fail-closed"


def has_policy(batch: Batch) -> bool:
    """Whether more has changed than pods and nodes, which come and go all the time."""
    return any(not isinstance(obj, Pod | Node) for _, obj in batch.changes)


def summary(batch: Batch) -> str:
    """What a change consists of, in a few words."""
    words = [f"{verb.value} {_called(obj)}" for verb, obj in batch.changes[:3]]
    more = len(batch.changes) - len(words)
    return ", ".join([*words, *([f"{more} more"] if more else [])]) or "as before"


def _called(obj: ClusterObject) -> str:
    kind = obj.kind if isinstance(obj, ClusterNetworkPolicy) else type(obj).__name__
    return f"{kind} {getattr(obj, 'key', obj.name)}"


class Announcer:
    """Says what is newly wrong with a source, and what is no longer; ``called`` goes first."""

    def __init__(self, called: str = "") -> None:
        self._called = called
        self._said: set[str] = set()

    def __call__(self, batch: Batch) -> None:
        """All that holds now."""
        lines = {f"{self._called}{line}": "" for line in batch.problems}
        lines |= {f"{self._called}{line}": "warning: " for line in batch.warnings}
        for line, kind in lines.items():
            if line not in self._said:
                say(f"{kind}{line}")
        for line in sorted(self._said - set(lines)):
            say(f"no longer so: {line}")
        self._said = set(lines)
