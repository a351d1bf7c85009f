from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from helpers.builders import address

from knp_py.lab.verdictfeed import Ends, VerdictFeed
from knp_py.model.packet import Proto
from knp_py.verdicts.record import End, Record, encode
from knp_py.verdicts.times import timestamp

SECOND = 1_000_000_000
NOW = 1_800_000_000 * SECOND
CLIENT, SERVER, OTHER = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def line(
    verdict: str = "allow",
    *,
    at: int = NOW,
    sport: int | None = 40000,
    dst: str = SERVER,
    dport: int | None = 80,
    protocol: str = "TCP",
) -> bytes:
    return encode(
        Record(
            ts=timestamp(at),
            id=1,
            verdict=verdict,
            direction=None,
            src=End(CLIENT, sport),
            dst=End(dst, dport),
            family="IPv4",
            protocol=protocol,
            decided_by=None,
            packets=1,
            bytes=60,
            reason=None,
        )
    )


class Log:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.write(b'{"old": "line"}\n', line("deny") + b"\n")
        self.feed = VerdictFeed(str(path))

    def write(self, *chunks: bytes) -> None:
        with self._path.open("ab") as file:
            for chunk in chunks:
                file.write(chunk)

    def verdict(
        self,
        *targets: str,
        sport: int = 40000,
        port: int = 80,
        protocol: Proto = Proto.TCP,
        began: int = NOW,
    ) -> tuple[str, bool] | None:
        ends = [(address(each), port) for each in targets or (SERVER,)]
        found = self.feed.find(Ends(int(protocol), address(CLIENT), sport, ends, began))
        return None if found is None else (found.record.verdict, found.own)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path / "verdicts.jsonl")
    yield made
    made.feed.close()


def test_what_was_there_before_says_nothing(log: Log) -> None:
    assert log.verdict() is None


def test_a_line_counts_when_it_is_whole(log: Log) -> None:
    whole = line()
    log.write(whole[:20])
    assert log.verdict() is None
    log.write(whole[20:], b"\n")
    assert log.verdict() == ("allow", True)


def test_a_repeated_connection_has_the_word_of_the_one_before(log: Log) -> None:
    log.write(line("deny", at=NOW - 5 * SECOND) + b"\n", line("allow", at=NOW - SECOND) + b"\n")
    assert log.verdict(sport=50000) == ("allow", False)
    assert log.verdict(sport=40000) == ("allow", False)  # that port's connection was another
    assert log.verdict(sport=50000, port=81) is None
    assert log.verdict(sport=50000, protocol=Proto.UDP) is None
    log.write(line("deny", sport=50000) + b"\n")
    assert log.verdict(sport=50000) == ("deny", True)


def test_a_service_is_any_of_its_backends(log: Log) -> None:
    log.write(line("allow", at=NOW - 3 * SECOND, dst=OTHER) + b"\n")
    assert log.verdict(SERVER, OTHER, sport=50000) == ("allow", False)
    log.write(line("deny", at=NOW - SECOND) + b"\n")
    assert log.verdict(SERVER, OTHER, sport=50000) == ("deny", False)
    # Where it went in the end is in its own line.
    log.write(line("allow", sport=50000, dst=OTHER) + b"\n")
    assert log.verdict(SERVER, OTHER, sport=50000) == ("allow", True)


def test_what_has_no_ports_goes_by_its_ends(log: Log) -> None:
    ping = line("allow", at=NOW - SECOND, sport=None, dport=None, protocol="ICMP")
    log.write(ping + b"\n")
    assert log.verdict(sport=0, port=0, protocol=Proto.ICMP) == ("allow", False)
    log.write(
        ping.replace(b'"allow"', b'"deny"').replace(timestamp_of(-1), timestamp_of(0)) + b"\n"
    )
    assert log.verdict(sport=0, port=0, protocol=Proto.ICMP) == ("deny", True)


def timestamp_of(seconds: int) -> bytes:
    return (timestamp(NOW + seconds * SECOND) or "").encode()


def test_a_change_makes_all_of_it_old(log: Log) -> None:
    log.write(line() + b"\n")
    log.feed.forget()
    assert log.verdict() is None


def test_lines_that_are_no_verdicts_are_passed_over(log: Log) -> None:
    omission = msgspec.json.encode({"ts": timestamp(NOW), "omitted": {"allow": 3}, "seconds": 1.0})
    log.write(omission + b"\n", b"garbage\n", line() + b"\n")
    assert log.verdict() == ("allow", True)
