"""What ``knp agent --v 2`` adds to the entries of kube-network-policies, read back."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from knp_py.verdicts.klog import LogLine
from knp_py.verdicts.packetlines import LEFT_OUT
from knp_py.verdicts.read import WORDS, VerdictEntry
from knp_py.verdicts.record import BLOCKED, LIMIT, Decider, Omission
from knp_py.verdicts.times import timestamp

_MOST = 1 << 60  # of anything that is counted

_texts = msgspec.json.Decoder(tuple[str, ...]).decode


def told(entry: VerdictEntry, fields: Mapping[str, Any]) -> VerdictEntry:
    """The verdict with what its entry's fields say of who decided and why, if they do."""
    direction, tier = fields.get("decidedIn"), fields.get("decidedTier")
    changes: dict[str, Any] = {}
    if isinstance(direction, str) and isinstance(tier, str):
        changes["direction"] = direction.lower()
        changes["decided_by"] = Decider(
            direction.lower(),
            tier,
            _text(fields, "policy"),
            _number(fields, "rule"),
            _text(fields, "ruleName"),
            "Accept" if entry.verdict == "allow" else "Deny",
        )
    for key, name in (("isolated_by", "isolatedBy"), ("unidentified", "unidentified")):
        if name in fields:
            changes[key] = _list(fields, name)
    if "reason" in fields:
        changes["reason"] = _text(fields, "reason")
    if _says(fields, "enforced", "false"):
        changes["enforced"] = False
    if _says(fields, "again", "true"):
        changes["again"] = True
    service = _text(fields, "dstService")
    if service is not None or "names" in fields:
        names = _list(fields, "names")
        changes["dst"] = msgspec.structs.replace(
            entry.dst, service=service or UNSET, names=() if names is UNSET else names
        )
    return msgspec.structs.replace(entry, **changes) if changes else entry


def left_out(line: LogLine) -> Omission | None:
    """What the entry says of packets that are not in the log; None where it is another."""
    if line.message != LEFT_OUT:
        return None
    counts = {word: n for word in sorted(WORDS) if (n := _number(line.fields, word))}
    try:
        seconds = float(line.fields.get("seconds", 0))
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 <= seconds < _MOST:
        seconds = 0.0
    reason = _text(line.fields, "reason")
    return Omission(
        ts=None if line.ts is None else timestamp(line.ts),
        omitted=counts,
        seconds=seconds,
        reason=BLOCKED if reason == BLOCKED else LIMIT,
    )


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) else None


def _number(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 18:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < _MOST else None


def _says(fields: Mapping[str, Any], name: str, word: str) -> bool:
    return str(fields.get(name)).lower() == word


def _list(fields: Mapping[str, Any], name: str) -> tuple[str, ...] | UnsetType:
    """A list of texts, as JSON has it or as JSON in a text."""
    value = fields.get(name)
    if isinstance(value, str):
        try:
            return _texts(value)
        except (msgspec.DecodeError, RecursionError):
            return UNSET
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    return UNSET
