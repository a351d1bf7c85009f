"""How long to wait before asking a server again that failed."""

from collections.abc import Callable

FIRST = 0.8  # seconds
LONGEST = 30.0
_MOST_ASKED_FOR = 120.0  # seconds that a server's own wish is obeyed


class Backoff:
    """Twice as long each time, between half of it and all: a node is one of thousands.

    ``chance`` gives a number from 0 to 1.
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._next = FIRST

    def after(self, asked_for: float = 0.0) -> float:
        """Seconds to wait after one more failure; at least what the server asked for."""
        seconds = self._next * (0.5 + self._chance() / 2)
        self._next = min(LONGEST, self._next * 2)
        # Whoever was told the same number of seconds must not come at the same moment.
        wished = min(asked_for, _MOST_ASKED_FOR) * (1 + self._chance() / 4)
        return max(seconds, wished)

    def reset(self) -> None:
        """It works again."""
        self._next = FIRST
