"""What the status of a ClusterNetworkPolicy says of it, and Events of any policy.

The types have a prefix of ours: conditions of another implementation are never touched. Limits
are metav1.Condition's and those of core/v1 Event.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from knp_py.agent.mirror import Remark, Standing
from knp_py.manifests.problems import Problem

ACCEPTED = "knp/Accepted"
PARTLY_UNSUPPORTED = "knp/PartlyUnsupported"

_LONGEST = 32_768  # bytes of a condition's message, whose limit is in characters
_LONGEST_EVENT = 1024  # and of an Event's
_LINES = 50  # of either; nobody reads on, and every node gets them by its watch


class Claim(NamedTuple):
    """A condition, but for when it came to be: ``status`` is True, False or Unknown."""

    type: str
    status: str
    reason: str
    message: str


class Notice(NamedTuple):
    """What an Event says."""

    reason: str
    message: str


def claims_of(standing: Standing) -> tuple[Claim, ...]:
    """The conditions that a policy should have."""
    if standing.problems:
        accepted = Claim(
            ACCEPTED,
            "False",
            "Invalid",
            _lines(f"Cannot be understood; {_instead(standing.in_force)}:", standing.problems),
        )
        # Nothing is known any more of what was to be said of the version that is kept.
        whole = Claim(
            PARTLY_UNSUPPORTED, "Unknown", "NotAccepted", "Only an accepted policy is looked into."
        )
        return accepted, whole
    accepted = Claim(ACCEPTED, "True", "Accepted", "Read by every agent as it stands here.")
    if standing.warnings:
        accepted = accepted._replace(message="Read by every agent, but for what is unsupported.")
        partly = _lines("Not understood, and what follows from it:", standing.warnings)
        return accepted, Claim(PARTLY_UNSUPPORTED, "True", "NotAllSupported", partly)
    # An empty message would do, but servers have been seen to take it for none when applied.
    whole = Claim(PARTLY_UNSUPPORTED, "False", "AllSupported", "Everything in it is understood.")
    return accepted, whole


def merged(
    claims: Sequence[Claim], generation: int, present: Sequence[Mapping[str, Any]], now: str
) -> list[dict[str, Any]] | None:
    """Our conditions as they should be, None when those ``present`` say that already.

    ``now`` is RFC 3339; the time stays as it was where the status does (metav1.Condition).
    """
    there = {condition.get("type"): condition for condition in present}
    found = []
    for claim in claims:
        old = there.get(claim.type, {})
        stays = old.get("status") == claim.status
        since = (stays and old.get("lastTransitionTime")) or now
        more = {"observedGeneration": generation, "lastTransitionTime": since}
        found.append(claim._asdict() | more)
    if all(condition == there.get(condition["type"]) for condition in found):
        return None
    return found


def notices_of(remark: Remark) -> tuple[Notice, ...]:
    """The Events that a policy should have: one line each, since that is how they are shown."""
    if remark.problems:
        what = "an earlier version stays in force" if remark.kept else "not in force"
        return (Notice("NotUnderstood", _line(f"{what}: ", remark.problems)),)
    if remark.warnings:
        return (Notice("PartlyUnsupported", _line("", remark.warnings)),)
    return ()


def _instead(in_force: int | None) -> str:
    return (
        "nothing of it is in force"
        if in_force is None
        else f"generation {in_force} stays in force"
    )


def _lines(head: str, problems: Sequence[Problem]) -> str:
    lines = [head, *(f"- {_said(each)}" for each in problems[:_LINES])]
    if len(problems) > _LINES:
        lines.append(f"and {len(problems) - _LINES:,} more")
    return _shortened("\n".join(lines), _LONGEST)


def _line(head: str, problems: Sequence[Problem]) -> str:
    return _shortened(head + "; ".join(map(_said, problems[:_LINES])), _LONGEST_EVENT)


def _said(problem: Problem) -> str:
    """Without the object, which is where this stands."""
    return f"{problem.path}: {problem.message}" if problem.path else problem.message


def _shortened(text: str, most: int) -> str:
    data = text.encode()
    if len(data) <= most:
        return text
    return data[: most - len("…".encode())].decode(errors="ignore") + "…"
