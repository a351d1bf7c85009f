"""What the agent's verdict log says of a connection, while it is being written.

The kernel remembers verdicts, so a repeated connection has no line of its own: then the
newest one about the same ends, protocol and port is the one in force, as long as nothing has
changed since it was written.
"""

import io
from collections.abc import Sequence
from typing import NamedTuple

from knp_py.model.net import format_address
from knp_py.model.packet import Proto, protocol_name
from knp_py.verdicts.read import parse_record
from knp_py.verdicts.record import Record
from knp_py.verdicts.times import parse_timestamp

_CLOCKS_APART = 50_000_000  # nanoseconds; a packet is stamped by another process


class Ends(NamedTuple):
    """A connection as the log knows it, after destination NAT.

    ``targets`` are the addresses and ports it may have gone to: of a Service all backends.
    ``began_ns`` is wall clock time. ``sport`` is 0 where there are no ports.
    """

    protocol: int
    source: int
    sport: int
    targets: Sequence[tuple[int, int]]
    began_ns: int


class Found(NamedTuple):
    """A record; ``own`` says that it is about this very connection."""

    record: Record
    own: bool


class _Line(NamedTuple):
    ns: int
    record: Record


class VerdictFeed:
    """Follows a log from where it stands now. ``has_spoken`` once it has had a verdict."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb")  # noqa: SIM115  open as long as we are
        self._file.seek(0, io.SEEK_END)
        self._rest = b""
        self.has_spoken = False
        self._by_port: dict[tuple[str, str, int], _Line] = {}
        self._by_ends: dict[tuple[str, str, str, int], _Line] = {}

    def close(self) -> None:
        """Follow no more."""
        self._file.close()

    def forget(self) -> None:
        """Everything read so far is about a world that is gone."""
        self._read()
        self._by_port.clear()
        self._by_ends.clear()

    def find(self, ends: Ends) -> Found | None:
        """The newest record that is about the connection or holds for it."""
        self._read()
        word = _word(ends)
        source = format_address(ends.source)
        targets = [(word, source, format_address(ip), port) for ip, port in ends.targets]
        held = [line for key in targets if (line := self._by_ends.get(key))]
        newest = max(held, key=lambda line: line.ns, default=None)
        line = self._by_port.get((word, source, ends.sport)) if ends.sport else newest
        if line is not None and line.ns >= ends.began_ns - _CLOCKS_APART:
            return Found(line.record, own=True)
        return None if newest is None else Found(newest.record, own=False)

    def _read(self) -> None:
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            try:
                record = parse_record(line)
            except ValueError:
                continue  # what was left out, and whatever else is no verdict
            ns = parse_timestamp(record.ts or "")
            if ns is None or record.src.ip is None or record.dst.ip is None:
                continue
            sport, dport = _port(record.src.port), _port(record.dst.port)
            entry = _Line(ns, record)
            self.has_spoken = True
            if sport:
                self._by_port[record.protocol, record.src.ip, sport] = entry
            self._by_ends[record.protocol, record.src.ip, record.dst.ip, dport] = entry


def _word(ends: Ends) -> str:
    if ends.protocol == Proto.ICMP and ":" in format_address(ends.source):
        return protocol_name(Proto.ICMPV6)
    return protocol_name(ends.protocol)


def _port(port: object) -> int:
    return port if isinstance(port, int) else 0
