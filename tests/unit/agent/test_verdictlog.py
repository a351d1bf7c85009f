"""The verdict log: which records, how many, in which pieces, and what is said of the rest."""

import json
import os
from itertools import pairwise

import pytest
from helpers.builders import address

from knp_py.agent.linelog import CHUNK
from knp_py.agent.verdictlog import VerdictLog, Which
from knp_py.model.decision import Decision, NameGrant, Ruling, Verdict
from knp_py.model.policy import Direction, Tier
from knp_py.verdicts.read import parse_omission, parse_record
from knp_py.verdicts.record import FlowFacts, encode, record

DENIES = Ruling(False, Direction.EGRESS, Tier.ADMIN, "default-deny", 0, "rest", "Deny")
ALLOWS = Ruling(True, Direction.EGRESS, Tier.ADMIN, "names", 1, None, "Accept")
DENY = Decision(Verdict.DENY, DENIES, None, DENIES)
ALLOW = Decision(Verdict.ALLOW, ALLOWS, None, ALLOWS)
UNKNOWN = Decision(Verdict.UNKNOWN, None, None, None, "who knows")
FLOW = FlowFacts(
    ts_ns=1_795_984_680_123_456_789,
    id=303,
    src=address("10.244.1.6"),
    dst=address("172.66.147.243"),
    protocol=6,
    sport=37368,
    dport=443,
    src_pod="team-a/agent",
)


class Sink:
    """Where a log goes: ``takes`` is how much, None for everything."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.error: OSError | None = None
        self.takes: int | None = None

    def __call__(self, data: bytes) -> int | None:
        if self.error is not None:
            raise self.error
        if self.takes is None:
            self.chunks.append(data)
            return None
        self.chunks.append(data[: self.takes])
        return len(data[: self.takes])

    @property
    def lines(self) -> list[bytes]:
        return b"".join(self.chunks).splitlines()

    def words(self) -> list[str]:
        return [json.loads(line).get("verdict", "omitted") for line in self.lines]


@pytest.fixture
def sink() -> Sink:
    return Sink()


def test_a_record_is_what_replay_writes(sink: Sink) -> None:
    log = VerdictLog(sink)
    log.log(DENY, FLOW, generation=1)
    assert sink.chunks == []
    log.flush(0.0)
    assert sink.chunks == [encode(record(DENY, FLOW)) + b"\n"]


def test_what_the_agent_adds(sink: Sink) -> None:
    log = VerdictLog(sink)
    log.log(DENY, FLOW, enforced=False, generation=1)
    log.log(ALLOW, FLOW, again=True, generation=1)
    log.log(DENY, FLOW, enforced=False, again=True, shadow=ALLOW, generation=1)
    log.flush(0.0)
    assert sink.lines == [
        encode(record(DENY, FLOW, enforced=False)),
        encode(record(ALLOW, FLOW, again=True)),
        encode(record(DENY, FLOW, enforced=False, again=True, shadow=ALLOW)),
    ]


@pytest.mark.parametrize(
    ("which", "words"),
    [("all", ["deny", "allow", "unknown"]), ("deny", ["deny", "unknown"]), ("none", [])],
)
def test_which(sink: Sink, which: Which, words: list[str]) -> None:
    log = VerdictLog(sink, which=which)
    for decision in (DENY, ALLOW, UNKNOWN):
        log.log(decision, FLOW, generation=1)
    log.flush(0.0)
    assert sink.words() == words
    assert log.omitted == {}


@pytest.mark.parametrize(
    ("which", "words"),
    [("all", ["allow", "deny"]), ("deny", ["allow", "deny"]), ("none", [])],
)
def test_with_a_shadow_only_differences_are_written(
    sink: Sink, which: Which, words: list[str]
) -> None:
    log = VerdictLog(sink, which=which)
    for now, then in ((ALLOW, ALLOW), (ALLOW, DENY), (DENY, DENY), (DENY, ALLOW)):
        log.log(now, FLOW, shadow=then, generation=1)
    log.flush(0.0)
    assert sink.words() == words


def test_a_limit_that_allows_nothing_is_refused(sink: Sink) -> None:
    for limit in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="lines a second"):
            VerdictLog(sink, limit=limit)


def test_what_is_over_the_limit_is_counted_and_said(sink: Sink) -> None:
    log = VerdictLog(sink, limit=10)
    log.flush(100.0)
    for number in range(30):
        log.log(DENY, FLOW._replace(id=number), generation=1)
    log.log(ALLOW, FLOW._replace(ts_ns=FLOW.ts_ns + 1_000_000_000), generation=1)
    log.flush(100.5)
    assert sink.words() == ["deny"] * 10
    log.flush(101.25)
    assert json.loads(sink.lines[-1]) == {
        "ts": "2026-11-29T20:38:01.123456Z",
        "omitted": {"deny": 20, "allow": 1},
        "seconds": 1.25,
        "reason": "limit",
    }
    parse_omission(sink.lines[-1])
    log.flush(110.0)
    assert len(sink.lines) == 11
    assert log.omitted == {("limit", "deny"): 20, ("limit", "allow"): 1}


def test_the_silence_begins_with_what_is_left_out(sink: Sink) -> None:
    log = VerdictLog(sink, limit=2)
    log.flush(0.0)
    log.flush(1000.0)
    for _ in range(3):
        log.log(DENY, FLOW, generation=1)
    log.flush(1001.0)
    assert parse_omission(sink.lines[-1]).seconds == 1.0


def test_the_limit_is_one_of_lines_a_second(sink: Sink) -> None:
    log = VerdictLog(sink, limit=100)
    log.flush(0.0)
    for tick in range(1, 1001):
        for _ in range(5):
            log.log(DENY, FLOW, generation=1)
        log.flush(tick / 100)
    words = sink.words()
    assert words.count("deny") in range(1090, 1101)  # ten seconds, and what was saved up
    assert log.omitted == {("limit", "deny"): 5000 - words.count("deny")}


def test_denials_go_first(sink: Sink) -> None:
    log = VerdictLog(sink, limit=100)
    log.flush(0.0)
    for tick in range(1, 1001):
        for _ in range(50):
            log.log(ALLOW, FLOW, generation=1)
        if tick % 2:
            log.log(DENY, FLOW, generation=1)  # fifty a second
        log.flush(tick / 100)
    words = sink.words()
    assert words.count("deny") == 500
    assert words.count("allow") in range(400, 560)
    assert [reason for reason, word in log.omitted if word == "deny"] == []


def test_even_the_smallest_limit_lets_something_through(sink: Sink) -> None:
    log = VerdictLog(sink, limit=0.5)
    log.flush(0.0)
    for tick in range(1, 101):
        log.log(ALLOW, FLOW, generation=1)
        log.flush(float(tick))
    assert sink.words().count("allow") in range(49, 53)


def test_a_clock_that_stands_or_goes_back_gives_nothing(sink: Sink) -> None:
    log = VerdictLog(sink, limit=2)
    for now in (10.0, 10.0, 5.0, 5.0):
        log.flush(now)
        log.log(DENY, FLOW, generation=1)
    log.flush(5.0)
    assert sink.words() == ["deny"] * 2


def test_whole_lines_in_writes_that_a_pipe_takes_as_one(sink: Sink) -> None:
    log = VerdictLog(sink)
    for number in range(1000):
        log.log(DENY, FLOW._replace(id=10**number if number < 20 else number), generation=1)
    before = len(sink.chunks)
    assert before > 80  # full chunks do not wait for a flush
    log.flush(0.0)
    assert len(sink.lines) == 1000
    assert all(len(chunk) <= CHUNK and chunk.endswith(b"\n") for chunk in sink.chunks)
    assert all(len(a) + len(b) > CHUNK for a, b in pairwise(sink.chunks[:-1]))
    assert log.waiting == 0


def test_a_reader_that_does_not_read_costs_records_and_is_told(sink: Sink) -> None:
    log = VerdictLog(sink, room=16_384)
    log.flush(0.0)
    sink.error = BlockingIOError()
    for number in range(1000):
        log.log(DENY if number % 2 else ALLOW, FLOW._replace(id=number), generation=1)
        log.flush(number / 1000)
    assert sink.chunks == []
    assert log.waiting <= 16_384
    assert log.problem == ""
    log.flush(5.0)  # what there is to say has to wait as well
    waiting = log.waiting
    for _ in range(1000):
        log.flush(5.0)
    assert log.waiting == waiting
    sink.error = None
    log.flush(6.0)
    log.flush(7.0)
    assert log.waiting == 0
    told = [parse_omission(line) for line in sink.lines if b"omitted" in line]
    records = [parse_record(line) for line in sink.lines if b"omitted" not in line]
    assert [entry.id for entry in records] == list(range(len(records)))
    assert {each.reason for each in told} == {"blocked"}
    assert len(records) + sum(sum(each.omitted.values()) for each in told) == 1000
    assert sum(log.omitted.values()) == 1000 - len(records)


def test_a_reader_that_is_gone_is_a_problem_and_no_exception(sink: Sink) -> None:
    log = VerdictLog(sink)
    sink.error = BrokenPipeError(32, "Broken pipe")
    log.log(DENY, FLOW, generation=1)
    log.flush(0.0)
    assert (log.problem, log.waiting > 0) == ("Broken pipe", True)
    sink.error = OSError("odd")
    log.flush(0.0)
    assert log.problem == "odd"
    assert log.close(0.0) == 1
    sink.error = None
    log.flush(1.0)
    assert (log.problem, log.waiting, len(sink.lines)) == ("", 0, 1)


@pytest.mark.parametrize("takes", [1, 100, 4095])
def test_a_write_that_takes_a_part_goes_on_where_it_stopped(sink: Sink, takes: int) -> None:
    log = VerdictLog(sink)
    sink.takes = takes
    for number in range(50):
        log.log(DENY, FLOW._replace(id=number), generation=1)
    while log.waiting:
        log.flush(0.0)
    assert [json.loads(line)["id"] for line in sink.lines] == list(range(50))


def test_the_end_says_what_it_still_has_to_say(sink: Sink) -> None:
    log = VerdictLog(sink, limit=2)
    log.flush(0.0)
    for _ in range(5):
        log.log(DENY, FLOW, generation=1)
    assert log.close(0.25) == 0
    assert sink.words() == ["deny", "deny", "omitted"]
    assert parse_omission(sink.lines[-1]).seconds == 0.25


def test_a_line_that_would_be_too_long_is_cut_down(sink: Sink) -> None:
    log = VerdictLog(sink)
    policies = tuple(f"shop/{'p' * 60}-{number}" for number in range(200))
    isolates = Ruling(
        False, Direction.EGRESS, Tier.NETWORK_POLICY, policies[0], isolated_by=policies
    )
    grants = tuple(
        NameGrant("*.ex", f"{'n' * 60}.{number}.ex", FLOW.dst, None, 9.0) for number in range(4096)
    )
    for decision in (
        Decision(Verdict.DENY, isolates, None, isolates),
        Decision(Verdict.ALLOW, ALLOWS, None, ALLOWS, None, grants),
    ):
        for _ in range(2):
            log.log(decision, FLOW, generation=1)
    log.log(ALLOW, FLOW._replace(names=tuple(grant.name for grant in grants)), generation=1)
    log.flush(0.0)
    assert max(map(len, sink.lines)) < CHUNK
    denied, again, allowed, *rest = sink.lines
    assert denied == again
    assert rest == [allowed, allowed]
    assert b"isolating policies are left out here" in denied


def test_names_that_fill_half_a_line_do_not_mix_with_others(sink: Sink) -> None:
    log = VerdictLog(sink, limit=2)
    log.flush(0.0)
    long = FLOW._replace(names=tuple(f"{'n' * 60}.{number}.ex" for number in range(30)))
    for _ in range(3):
        log.log(DENY, long, generation=1)
    log.flush(1.0)
    assert [len(chunk) <= CHUNK for chunk in sink.chunks] == [True] * len(sink.chunks)
    assert sink.words() == ["deny", "deny", "omitted"]


def test_memory_for_ends_and_rulings_is_bounded(sink: Sink) -> None:
    log = VerdictLog(sink)
    for number in range(20_000):
        ruling = Ruling(False, Direction.EGRESS, Tier.ADMIN, f"p{number}", 0, None, "Deny")
        flow = FLOW._replace(id=number, src=FLOW.src + number, dst=FLOW.dst - number)
        log.log(Decision(Verdict.DENY, ruling, None, ruling), flow, generation=1)
    log.flush(0.0)
    assert len(sink.lines) == 20_000
    assert json.loads(sink.lines[-1])["decided_by"]["policy"] == "p19999"
    assert max(len(log._ruled), len(log._sources), len(log._targets)) <= 8192
    log.log(DENY, FLOW, generation=2)
    assert len(log._ruled) == 1


def test_lines_of_several_processes_do_not_mix() -> None:
    read, write = os.pipe()
    children = []
    for child in range(4):
        pid = os.fork()
        if not pid:
            os.close(read)
            log = VerdictLog(lambda data: os.write(write, data))
            for number in range(2000):
                log.log(DENY, FLOW._replace(id=number, sport=child), generation=1)
                if number % 7 == 0:
                    log.flush(0.0)
            log.flush(0.0)
            os._exit(0)
        children.append(pid)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        records = [parse_record(line) for line in pipe]
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
    for child in range(4):
        assert [e.id for e in records if e.src.port == child] == list(range(2000))
