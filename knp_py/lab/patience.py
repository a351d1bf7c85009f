"""How long two witnesses of a connection are waited for: the socket and the agent's log.

Silence proves nothing on a machine that stands still for a while. So what is measured is not
time but time during which somebody looked: between two looks at most a stride counts. And
only what contradicts nobody is believed soon: an answer beside a denial in the log, or an old
denial and silence, may as well be a new verdict that is late.
"""

import time
from collections.abc import Callable

from knp_py.lab.attempts import Seen
from knp_py.lab.testimony import denies
from knp_py.lab.verdictfeed import Found

Find = Callable[[], Found | None]

# Seconds.
LOOK = 0.02
_STRIDE = 0.1  # that one look can count for
_SILENT = 5.0  # no answer, where the log has not said a word of anything
_PATIENCE = 15.0  # no answer and not a word on this one, or that it may pass
_DENIED = 0.25  # no answer, and the log says that this packet was dropped: in case it was not
# No answer, and the log says so of an earlier one like it. The kernel remembers a denial for
# two seconds; a handshake that is tried again one and three seconds later gets a word of its own.
_REMEMBERED = 3.5
_WORD = 10.0  # an answer, which the log must have a word on and has none, or the opposite
_OTHER = 0.3  # an answer, and the log has a word that fits, or need have none


class Patience:
    """Measures how long something was looked for, by ``now``.

    ``stride`` is the most seconds that may be between two looks.
    """

    def __init__(self, now: Callable[[], float], stride: float = _STRIDE) -> None:
        self._now = now
        self._stride = stride
        self._last = now()
        self._spent = 0.0

    def spent(self) -> float:
        """Seconds of looking until now."""
        now = self._now()
        self._spent += min(now - self._last, self._stride)
        self._last = now
        return self._spent


def hear(
    look: Callable[[float], Seen | None],
    find: Find | None,
    *,
    must_log: bool,
    wordless: bool = False,
    now: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> tuple[Seen | None, Found | None]:
    """What the socket sees, None for silence, and what the log says by then.

    ``look`` waits so many seconds for an answer; ``find`` is None where no agent runs.
    ``must_log`` says that the agent has a say in the connection, ``wordless`` that its log
    has had no line so far.
    """
    patience = Patience(now)
    while (seen := look(LOOK)) is None:
        found = None if find is None else find()
        if patience.spent() >= _for_an_answer(found, wordless=wordless):
            # Between the two looks of a machine that stood still both may have come.
            return look(0), found
    if find is None:
        return seen, None
    patience = Patience(now)
    while True:
        found = find()
        if (found is not None and found.own) or patience.spent() >= _for_a_word(
            found, must_log=must_log
        ):
            return seen, found
        pause(LOOK / 2)


def _for_an_answer(found: Found | None, *, wordless: bool) -> float:
    if found is not None and denies(found):
        return _DENIED if found.own else _REMEMBERED
    return _SILENT if wordless else _PATIENCE


def _for_a_word(found: Found | None, *, must_log: bool) -> float:
    contradicted = found is not None and denies(found)
    return _WORD if contradicted or (must_log and found is None) else _OTHER
