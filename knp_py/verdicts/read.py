"""Reading back what ``verdicts.record`` wrote."""

import msgspec

from knp_py.verdicts.record import Record
from knp_py.verdicts.times import parse_timestamp, timestamp

VerdictEntry = Record
"""One verdict in a log, whoever wrote it. ``ts`` is in our own form or null."""

WORDS = frozenset({"allow", "deny", "unknown"})

_decoder = msgspec.json.Decoder(Record)


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
    if entry.ts is None:
        return entry
    ns = parse_timestamp(entry.ts)
    ts = None if ns is None else timestamp(ns)
    return entry if ts == entry.ts else msgspec.structs.replace(entry, ts=ts)
