"""Lines of klog, the Kubernetes logger: text and JSON, as values.

Text is an optional header (``I0712 09:53:52.257809       1 controller.go:67]``), a quoted
message and ``key=value`` pairs. A value of several lines is written ``key=<``, then the
lines indented by a tab, then a line `` >``; ``parse_text`` sees the first of these only and
says that more comes. JSON is one object with ``ts`` in milliseconds, ``msg`` and the pairs.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from knp_py.verdicts.times import klog_time


class LogLine(NamedTuple):
    """One structured log entry; ``fields`` are texts, or JSON values where it was JSON.

    ``ts`` is nanoseconds since the epoch, None when the line has none. ``caller`` is the
    source file's name without line number, empty when not given. ``open`` says that the
    last field's value is on the lines that follow.
    """

    ts: int | None
    caller: str
    message: str
    fields: Mapping[str, Any]
    open: str = ""


_HEADER = re.compile(
    r"[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6})\s+\d+ ([^\s:\]]+):\d+\] ", re.ASCII
)
_CALLER = re.compile(r"([\w./-]+\.go):\d+\] ", re.ASCII)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_PAIR = re.compile(
    r"""\ (?P<key>"(?:[^"\\]|\\.)*"|[^\s="]+)=
    (?: "(?P<quoted>(?:[^"\\]|\\.)*)" | (?P<open><$) | (?P<bare>[\[{].*?[\]}](?=\ |$)|[^\s]*) )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\\"'])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))"
)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return _SIMPLE.get(match[1], match[1])
    code = int(match[2] or match[3] or match[4], 16)
    return chr(code) if code <= 0x10FFFF else match[0]


def _text(quoted: str) -> str:
    """What is between a Go string's quotes, unescaped."""
    return _ESCAPE.sub(_unescape, quoted) if "\\" in quoted else quoted


def has_header(line: str) -> bool:
    """Whether a new entry begins here, going by klog's header."""
    return _HEADER.match(line) is not None


def parse_text(line: str, now: int) -> LogLine | None:
    """A line of text as an entry; None when it is not one, or only a plain sentence.

    ``now``, in nanoseconds since the epoch, settles the year, which the header lacks.
    """
    ts: int | None = None
    caller = ""
    header = _HEADER.match(line)
    if header is not None:
        month, day, hour, minute, second, micros = map(int, header.groups()[:6])
        ts = klog_time(month, day, (hour, minute, second), micros, now)
        caller = header[7]
    else:
        header = _CALLER.match(line)
        if header is not None:
            caller = header[1]
    start = header.end() if header is not None else 0
    message = _QUOTED.match(line, start)
    if message is None:
        return None
    fields: dict[str, str] = {}
    more = ""
    position = message.end()
    while (pair := _PAIR.match(line, position)) is not None:
        key = pair["key"].strip('"')
        if pair["open"]:
            more = key
        elif pair["quoted"] is not None:
            fields[key] = _text(pair["quoted"])
        else:
            fields[key] = pair["bare"]
        position = pair.end()
    return LogLine(ts, caller.rpartition("/")[2], _text(message[1]), fields, more)


def from_json(document: Mapping[str, Any]) -> LogLine | None:
    """A decoded JSON object as an entry; None when it is not klog's."""
    message = document.get("msg")
    if not isinstance(message, str):
        return None
    ts = document.get("ts")
    caller = document.get("caller")
    return LogLine(
        # Milliseconds with a fraction; a float of this size still holds microseconds.
        round(ts * 1000) * 1000 if isinstance(ts, int | float) and 0 <= ts < 1e15 else None,
        caller.rpartition("/")[2].partition(":")[0] if isinstance(caller, str) else "",
        message,
        document,
    )
