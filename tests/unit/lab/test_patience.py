"""Two witnesses who take their time, on a machine that may stand still."""

import math
from typing import NamedTuple

import pytest

from knp_py.lab.attempts import Seen
from knp_py.lab.patience import hear
from knp_py.lab.verdictfeed import Found
from knp_py.verdicts.record import End, Record

ANSWERED = Seen()
NEVER = math.inf


def found(verdict: str, *, own: bool) -> Found:
    record = Record(
        ts="2026-11-30T00:00:00Z", id=1, verdict=verdict, direction=None,
        src=End("10.0.0.1", 40000), dst=End("10.0.0.2", 80), family="IPv4", protocol="TCP",
        decided_by=None, packets=1, bytes=60, reason=None,
    )  # fmt: skip
    return Found(record, own)


class Case(NamedTuple):
    """When the socket and the log have what they have to say; ``stalls`` are (at, seconds)."""

    answer: float
    word: float
    verdict: str
    older: Found | None = None
    stalls: tuple[tuple[float, float], ...] = ()


class Machine:
    """Time goes by as the watcher waits, and in leaps: witnesses come after a leap at best."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.clock = 0.0
        self.worked = 0.0  # the seconds of it during which anything ran

    def go(self, seconds: float) -> None:
        self.worked += seconds
        self.clock += seconds
        for at, length in self.case.stalls:
            if self.clock - seconds < at <= self.clock:
                self.clock += length

    def look(self, seconds: float) -> Seen | None:
        if self.worked < self.case.answer:
            self.go(seconds)
        return ANSWERED if self.worked >= self.case.answer else None

    def find(self) -> Found | None:
        if self.worked >= self.case.word:
            return found(self.case.verdict, own=True)
        return self.case.older

    def hear(self, *, must_log: bool = True, wordless: bool = False) -> tuple[bool, str, bool]:
        seen, heard = hear(
            self.look, self.find, must_log=must_log, wordless=wordless,
            now=lambda: self.clock, pause=self.go,
        )  # fmt: skip
        word = "" if heard is None else heard.record.verdict
        return seen is not None, word, heard is not None and heard.own


OLD_DENIAL, OLD_ALLOWANCE = found("deny", own=False), found("allow", own=False)


@pytest.mark.parametrize(
    "case",
    [
        Case(answer=0.01, word=0.05, verdict="allow"),
        Case(answer=4.0, word=4.5, verdict="allow"),
        Case(answer=0.01, word=6.0, verdict="allow"),
        # A name was learned since: what was denied is open, and the log is a little behind.
        Case(answer=0.01, word=2.0, verdict="allow", older=OLD_DENIAL),
        Case(answer=3.0, word=3.2, verdict="allow", older=OLD_DENIAL),
        # Nobody did anything for 20 seconds.
        Case(answer=0.1, word=0.2, verdict="allow", stalls=((0.05, 20.0),)),
        Case(answer=0.1, word=0.2, verdict="allow", older=OLD_DENIAL, stalls=((0.05, 20.0),)),
        Case(answer=0.01, word=0.2, verdict="allow", stalls=((0.1, 20.0), (0.15, 20.0))),
    ],
)
def test_an_answer_has_its_own_word(case: Case) -> None:
    assert Machine(case).hear() == (True, "allow", True)


@pytest.mark.parametrize(
    "case",
    [
        Case(answer=NEVER, word=0.02, verdict="deny"),
        Case(answer=NEVER, word=9.0, verdict="deny"),
        Case(answer=NEVER, word=9.0, verdict="deny", older=OLD_ALLOWANCE),
        Case(answer=NEVER, word=0.3, verdict="deny", stalls=((0.1, 30.0),)),
    ],
)
def test_a_denial_is_believed_soon_after_it_is_logged(case: Case) -> None:
    machine = Machine(case)
    assert machine.hear() == (False, "deny", True)
    assert machine.worked < case.word + 0.4


def test_what_was_denied_a_moment_ago_has_no_word_of_its_own() -> None:
    machine = Machine(Case(answer=NEVER, word=NEVER, verdict="", older=OLD_DENIAL))
    assert machine.hear() == (False, "deny", False)
    assert machine.worked < 4


def test_a_denial_that_let_its_packet_pass_is_noticed() -> None:
    assert Machine(Case(answer=0.2, word=0.02, verdict="deny")).hear() == (True, "deny", True)


@pytest.mark.parametrize(("wordless", "at_most"), [(False, 16), (True, 6)])
def test_nothing_at_all_is_waited_for_longer_where_the_log_does_speak(
    *, wordless: bool, at_most: float
) -> None:
    machine = Machine(Case(answer=NEVER, word=NEVER, verdict=""))
    assert machine.hear(wordless=wordless) == (False, "", False)
    assert at_most - 2 < machine.worked < at_most


@pytest.mark.parametrize("older", [None, OLD_ALLOWANCE])
def test_an_answer_that_needs_no_word_is_believed_at_once(older: Found | None) -> None:
    machine = Machine(Case(answer=0.01, word=NEVER, verdict="", older=older))
    seen, _, own = machine.hear(must_log=older is not None)
    assert seen
    assert not own
    assert machine.worked < 0.5


def test_without_an_agent_only_the_socket_is_asked() -> None:
    machine = Machine(Case(answer=0.5, word=0, verdict="deny"))
    assert hear(machine.look, None, must_log=False, now=lambda: machine.clock) == (ANSWERED, None)
