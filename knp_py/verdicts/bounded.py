"""A record as a line that is never too long, for logs that several processes write.

A pod decides how many names it learns for an address, and a cluster how many policies isolate
a pod; everything else about a record is short. What is left out is counted in its reason.
"""

import msgspec

from knp_py.model.decision import Decision
from knp_py.verdicts.record import FlowFacts, encode, record

_SOME = 768  # bytes for what may be long, when not all of it fits


def learned_names(decision: Decision) -> tuple[str, ...]:
    """The names that opened the way, each once."""
    return tuple(dict.fromkeys(grant.name for grant in decision.grants))


def fit(names: tuple[str, ...], longest: int) -> bool:
    """Whether a line of ``longest`` bytes may hold them all; thousands are not even tried."""
    return sum(map(len, names)) < longest // 2


def bounded_line(
    decision: Decision,
    flow: FlowFacts,
    longest: int,
    *,
    enforced: bool = True,
    again: bool = False,
    shadow: Decision | None = None,
) -> bytes:
    """The record as a line with its newline, of ``longest`` bytes at most.

    What ``record`` says, if that fits; else with fewer names and isolating policies, and at
    last without free text. The names of objects are kept: the API bounds them.
    """
    names = flow.names or learned_names(decision)
    if fit(names, longest):
        line = encode(record(decision, flow, enforced=enforced, again=again, shadow=shadow))
        if len(line) < longest:
            return line + b"\n"
    line = b""
    for room in (_SOME, 0):
        kept = leading(names, room)
        short, fewer = _cut_down(decision, room)
        short_shadow = None
        if shadow is not None:
            short_shadow, fewer_there = _cut_down(shadow, room)
            fewer += fewer_there
        cut = f"{len(names) - len(kept)} names and {fewer} isolating policies are left out here"
        line = encode(
            record(
                short,
                flow._replace(
                    names=kept, note=f"{flow.note}; {cut}" if room and flow.note else cut
                ),
                enforced=enforced,
                again=again,
                shadow=short_shadow,
            )
        )
        if len(line) < longest:
            break
    return line + b"\n"


def leading(texts: tuple[str, ...], room: int) -> tuple[str, ...]:
    """As many as there is room for, in bytes of JSON."""
    for number, text in enumerate(texts):
        room -= len(text) + 3
        if room < 0:
            return texts[:number]
    return texts


def _cut_down(decision: Decision, room: int) -> tuple[Decision, int]:
    """Fewer isolating policies, and how many fewer; without room no free text either."""
    ruling = decision.decided_by
    changes: dict[str, object] = {"grants": ()}
    fewer = 0
    if ruling is not None:
        policies = leading(ruling.isolated_by, room)
        fewer = len(ruling.isolated_by) - len(policies)
        ruling = msgspec.structs.replace(ruling, isolated_by=policies)
        if not room:
            ruling = msgspec.structs.replace(ruling, rule_name=None, reason=None)
        changes["decided_by"] = ruling
    if not room:
        changes["reason"] = None
    return msgspec.structs.replace(decision, **changes), fewer
