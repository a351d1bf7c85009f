"""Lines of any log we understand to verdict entries, one line at a time.

Our own records, klog text and klog JSON of kube-network-policies may be mixed, and may
carry what ``kubectl logs --prefix --timestamps`` or a container runtime puts in front.
Memory does not grow with the log.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from knp_py.errors import InputError
from knp_py.verdicts.klog import LogLine, from_json, has_header, parse_text
from knp_py.verdicts.kube_network_policies import OTHER, PacketJoiner
from knp_py.verdicts.packetfields import left_out
from knp_py.verdicts.read import VerdictEntry, parse_omission, parse_record
from knp_py.verdicts.record import Omission
from knp_py.verdicts.times import parse_timestamp

# How `knp replay -o json` begins, with and without --diff.
_DOCUMENTS = (b'{"connections": [', b'{"changes": [')

UNREADABLE: Final = "cannot be read"

# [pod/NAME/CONTAINER] of `kubectl logs --prefix`.
_PREFIX = re.compile(r"\[pod/([^\]\s]+)\] ")
# `--timestamps`, or the file a container runtime keeps: time, stream, and F for a full
# line or P for a part of one.
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\S+) (?:(?:stdout|stderr) ([FP]) )?", re.ASCII)
_BLOCK_LINE = re.compile(r"\t|\s*(?:[0-9a-f]{8} |>( |$))")
_AGENT = "knp agent: "  # what it says of itself, where its two streams are one log
_LONGEST = 1 << 20  # characters of one line put together from parts
_STREAMS = 1024  # streams with an open value or line that are remembered


class Problem(msgspec.Struct, frozen=True):
    """The first line that could not be read, for saying so."""

    line: int
    text: str
    reason: str


class LogReader:
    """Lines in, entries out. ``now`` is nanoseconds since the epoch; see ``klog_time``.

    ``counts`` holds how many lines or packets gave no entry, by reason: ``UNREADABLE``,
    ``OTHER`` and the joiner's own. ``ours`` and ``foreign`` count the entries given,
    ``understood`` the lines that could be read, whatever they say. ``omissions`` are the
    words of records left out that nobody has taken yet.
    """

    def __init__(self, now: int) -> None:
        self.now = now
        self.lines = 0
        self.ours = 0
        self.foreign = 0
        self.understood = 0
        self.omissions: list[Omission] = []
        self.first_problem: Problem | None = None
        self._joiner = PacketJoiner()
        self._unreadable = 0
        self._blocks: dict[str, None] = {}  # streams amid a value of several lines
        self._parts: dict[str, str] = {}

    @property
    def counts(self) -> Counter[str]:
        """What gave no entry, by reason."""
        counts = Counter(self._joiner.counts)
        if self._unreadable:
            counts[UNREADABLE] = self._unreadable
        return counts

    def line(self, raw: bytes) -> list[VerdictEntry]:
        """The entries that this line completes. Never raises; bytes may be broken."""
        self.lines += 1
        text = raw.decode("utf-8", "replace").rstrip("\r\n")
        stream = ""
        if text.startswith("[") and (match := _PREFIX.match(text)) is not None:
            stream = match[1]
            text = text[match.end() :]
        ts: int | None = None
        if text[:2] == "20" and (match := _TIME.match(text)) is not None:
            ts = parse_timestamp(match[1])
            if ts is not None:
                text = self._whole(stream, text[match.end() :], match[2])
        if not text or text.isspace():
            return []
        unreadable = self._unreadable
        entries = self._json(text, stream, ts) if text[0] == "{" else self._text(text, stream, ts)
        self.understood += self._unreadable == unreadable
        self.foreign += len(entries)
        return entries

    def drain(self) -> list[VerdictEntry]:
        """What is left at the end of the log: packets whose verdict never came."""
        entries = self._joiner.drain()
        self.foreign += len(entries)
        return entries

    def _whole(self, stream: str, text: str, part: str | None) -> str:
        """The line put together from parts; empty while parts are missing."""
        if part == "P":
            so_far = self._parts.get(stream, "")
            if len(so_far) < _LONGEST:
                _make_room(self._parts)
                self._parts[stream] = so_far + text
            return ""
        return self._parts.pop(stream, "") + text if self._parts else text

    def _json(self, text: str, stream: str, ts: int | None) -> list[VerdictEntry]:
        if '"src":' in text and '"verdict":' in text:
            try:
                entry = parse_record(text)
            except ValueError as error:
                return self._broken(text, str(error))
            self.ours += 1
            self.foreign -= 1
            return [msgspec.structs.replace(entry, source=stream) if stream else entry]
        try:
            document: Any = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            return self._broken(text, str(error))
        if "omitted" in document and "seconds" in document:
            try:
                omission = parse_omission(text)
            except ValueError as error:
                return self._broken(text, str(error))
            self._omit(omission, stream)
            return []
        if "log" in document and isinstance(document["log"], str):  # a json-file of Docker's
            ts = parse_timestamp(str(document.get("time", "")))
            inner = document["log"].rstrip("\n")
            return (
                self._json(inner, stream, ts)
                if inner[:1] == "{"
                else self._text(inner, stream, ts)
            )
        line = from_json(document)
        if line is None:
            self._joiner.counts[OTHER] += 1
            return []
        return self._entry(line, stream, ts)

    def _text(self, text: str, stream: str, ts: int | None) -> list[VerdictEntry]:
        told, entries = self._joiner.packet_line(text, stream)
        if told:
            return entries
        if stream in self._blocks:
            if not has_header(text) and text[0] in "\t ":
                if text.lstrip().startswith(">"):
                    self._blocks.pop(stream, None)
                return []
            self._blocks.pop(stream, None)
        line = parse_text(text, self.now)
        if line is not None:
            if line.open:
                _make_room(self._blocks)
                self._blocks[stream] = None
            return self._entry(line, stream, ts)
        if has_header(text) or text.startswith(_AGENT) or _BLOCK_LINE.match(text):
            # A plain sentence, or the middle of a value whose first line is elsewhere.
            self._joiner.counts[OTHER] += 1
            return []
        return self._broken(text, "neither a verdict record nor a line of klog")

    def _entry(self, line: LogLine, stream: str, ts: int | None) -> list[VerdictEntry]:
        if ts is not None:
            line = line._replace(ts=ts)
        omission = left_out(line)
        if omission is None:
            return self._joiner.entry(line, stream)
        self._omit(omission, stream)
        return []

    def _omit(self, omission: Omission, stream: str) -> None:
        self.omissions.append(
            msgspec.structs.replace(omission, source=stream) if stream else omission
        )

    def _broken(self, text: str, reason: str) -> list[VerdictEntry]:
        self._unreadable += 1
        if self.first_problem is None:
            self.first_problem = Problem(self.lines, text[:200], reason)
        return []


def _make_room(held: dict[str, Any]) -> None:
    if len(held) >= _STREAMS:
        del held[next(iter(held))]


def read_log(lines: Iterable[bytes], reader: LogReader) -> Iterator[VerdictEntry | Omission]:
    """All that a log tells, in order. Raises ``InputError`` for what is no log of lines."""
    for number, line in enumerate(lines):
        if not number and line.rstrip() in _DOCUMENTS:
            raise InputError("this is one document of `knp replay -o json`: make it `-o jsonl`")
        yield from reader.line(line)
        if reader.omissions:
            yield from reader.omissions
            reader.omissions.clear()
    yield from reader.drain()
