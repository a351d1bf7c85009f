"""Reading back what ``verdicts.record`` wrote."""

import msgspec

from knp_py.verdicts.record import Omission, Record
from knp_py.verdicts.times import parse_timestamp, timestamp

VerdictEntry = Record
"""One verdict in a log, whoever wrote it. ``ts`` is in our own form or null."""

WORDS = frozenset({"allow", "deny", "unknown"})

_decoder = msgspec.json.Decoder(Record)
_omissions = msgspec.json.Decoder(Omission)


def parse_record(line: bytes | str) -> VerdictEntry:
    """One line of JSON as an entry; keys that this version does not know are left out.

    Raises ``ValueError`` saying what is wrong when it is no verdict record.
    """
    try:
        entry = _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:  # a wrong type is one of them
        raise ValueError(str(error)) from None
    if entry.verdict not in WORDS:
        raise ValueError(f"unknown verdict {entry.verdict!r} - at `$.verdict`")
    if entry.shadow and entry.shadow.verdict not in WORDS:
        raise ValueError(f"unknown verdict {entry.shadow.verdict!r} - at `$.shadow.verdict`")
    ts = _own_form(entry.ts)
    return entry if ts == entry.ts else msgspec.structs.replace(entry, ts=ts)


def parse_omission(line: bytes | str) -> Omission:
    """One line of JSON as the word of records that were left out.

    Raises ``ValueError`` saying what is wrong when it is none.
    """
    try:
        omission = _omissions.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    ts = _own_form(omission.ts)
    return omission if ts == omission.ts else msgspec.structs.replace(omission, ts=ts)


def _own_form(ts: str | None) -> str | None:
    ns = None if ts is None else parse_timestamp(ts)
    return None if ns is None else timestamp(ns)
