"""Entries of klog, the Kubernetes logger, as it would write them: text and JSON.

What ``verdicts.klog`` reads. Text has a header with time and process (in UTC, which is what
containers run in), a source file's name, the message in quotes and ``key=value`` pairs; JSON
has ``ts`` in milliseconds with a fraction, ``caller``, ``msg``, the verbosity ``v`` and the pairs.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple

import msgspec

from knp_py.verdicts.times import SECOND, timestamp

Format = Literal["text", "json"]

Field = tuple[str, Any]
"""A key and its value: a text, a number, a truth value, or texts in a list."""

_LINE: Final = 1  # of the source file: none of theirs is ours
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}

_json = msgspec.json.Encoder().encode


class Entry(NamedTuple):
    """An entry without what changes from packet to packet: its head, and the packet's number."""

    before: str
    after: str


def head(form: Format, ns: int, pid: int) -> str:
    """What an entry begins with: its time, in text the process too. ``ns`` is since the epoch."""
    if form == "json":
        return f'{{"ts":{ns // 1_000_000}.{ns // 1000 % 1000:03},'
    stamp = timestamp(ns) or timestamp(ns % SECOND) or ""
    return f"I{stamp[5:7]}{stamp[8:10]} {stamp[11:-1]} {pid:>7} "


def entry(
    form: Format, caller: str, message: str, fields: Iterable[Field] = (), *, level: int = 2
) -> Entry:
    """An entry about a packet, which begins with its ``id``. ``caller`` is ``directory/file``."""
    if form == "json":
        return Entry(
            f'"caller":"{caller}:{_LINE}","msg":"{message}","v":{level},"id":',
            pairs(form, fields) + "}\n",
        )
    return Entry(
        f'{caller.rpartition("/")[2]}:{_LINE}] "{message}" id=', pairs(form, fields) + "\n"
    )


def remark(ns: int, logger: str, message: str) -> str:
    """A line of JSON that tells of no packet."""
    return f'{head("json", ns, 0)}"logger":{_text(logger)},"msg":{_text(message)},"v":0}}\n'


def pairs(form: Format, fields: Iterable[Field]) -> str:
    """Fields as they stand behind others."""
    if form == "json":
        return "".join(f',"{key}":{_json(value).decode()}' for key, value in fields)
    return "".join(f" {key}={_value(value)}" for key, value in fields)


def duration(ns: int) -> str:
    """Nanoseconds as Go prints them: ``171.516µs``, ``1.5ms``, ``2s``, ``1m0.5s``."""
    if ns < 1000:
        return f"{ns}ns" if ns else "0s"
    for unit, size in (("µs", 1000), ("ms", 1_000_000)):
        if ns < size * 1000:
            return f"{_decimal(ns, size)}{unit}"
    minutes, rest = divmod(ns, 60 * SECOND)
    return f"{minutes}m{_decimal(rest, SECOND)}s" if minutes else f"{_decimal(ns, SECOND)}s"


def _text(text: str) -> str:
    return _json(text).decode()


def _decimal(ns: int, unit: int) -> str:
    whole, rest = divmod(ns, unit)
    if not rest:
        return str(whole)
    return f"{whole}.{rest:0{len(str(unit)) - 1}}".rstrip("0")


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    # Without a space in it nobody has to know JSON to find its end.
    return _json(value).decode().replace(" ", "\\u0020")


def _quoted(text: str) -> str:
    """As Go quotes it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
