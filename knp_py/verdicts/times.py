"""Times in records and logs: nanoseconds since the epoch inside, RFC 3339 in UTC outside.

Our own texts always have six digits and a ``Z``, so that they compare as text.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache

SECOND = 1_000_000_000
DAY = 86_400 * SECOND

_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


@lru_cache(maxsize=64)
def _second(seconds: int) -> str | None:
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):  # a capture may claim any year
        return None
    return None if moment.year < 1000 else moment.strftime("%Y-%m-%dT%H:%M:%S")


def timestamp(ns: int) -> str | None:
    """Nanoseconds since the epoch as text with microseconds, cut, not rounded.

    None where the year has no four digits.
    """
    seconds, rest = divmod(ns, SECOND)
    text = _second(seconds)
    return None if text is None else f"{text}.{rest // 1000:06d}Z"


@lru_cache(maxsize=64)
def _epoch(text: str) -> int | None:
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except ValueError:
        return None


def parse_timestamp(text: str) -> int | None:
    """RFC 3339 text, up to nanoseconds, as nanoseconds since the epoch; None if it is not."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    seconds = _epoch(match[1].replace(" ", "T").upper() + match[3].upper().replace("Z", "+00:00"))
    return None if seconds is None else seconds * SECOND + int((match[2] or "").ljust(9, "0"))


def parse_duration(text: str) -> int:
    """``90s``, ``1h30m``, ``2d`` as nanoseconds. Raises ``ValueError`` for anything else."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration like 90s, 15m, 1h30m or 2d")
    return int(sum(float(number) * _UNITS[unit] for number, unit in parts) * SECOND)


@lru_cache(maxsize=64)
def _klog_second(month: int, day: int, hms: tuple[int, int, int], now_second: int) -> int | None:
    latest = now_second + 86_400
    year = datetime.fromtimestamp(latest, UTC).year
    for candidate in range(year, year - 9, -1):  # far enough back for any 29 February
        try:
            seconds = int(datetime(candidate, month, day, *hms, tzinfo=UTC).timestamp())
        except ValueError:
            continue
        if seconds <= latest:
            return seconds
    return None


def klog_time(
    month: int, day: int, hms: tuple[int, int, int], micros: int, now: int
) -> int | None:
    """A klog header's time, which has no year and no zone, as nanoseconds since the epoch.

    Read as UTC, which is what containers run in, in the latest year in which it is not
    more than a day after ``now`` (a day for zones and clocks). None when there is no such day.
    """
    # Rounded to the hour so that the cache above holds while a log is read as it is written.
    seconds = _klog_second(month, day, hms, now // SECOND // 3600 * 3600)
    return None if seconds is None else seconds * SECOND + micros * 1000
