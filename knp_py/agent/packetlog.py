"""The log of ``--v 2``: every judged packet, in the words of kube-network-policies.

Its bounds are those of ``agent.linelog``, by packets: all lines of one are written or none, and
together. What is left out is said in an entry of its own.
"""

from collections.abc import Callable

from knp_py.agent.linelog import ROOM, LineLog
from knp_py.engine.snapshot import Snapshot
from knp_py.model.decision import Decision, Verdict
from knp_py.verdicts.klogentry import Format
from knp_py.verdicts.packetlines import PacketLines
from knp_py.verdicts.record import FlowFacts

_SECOND = 1_000_000_000


class PacketLog(LineLog):
    """Writes packets' entries; see ``LineLog`` for how.

    ``pid`` gives the id of the process that logs: workers are forked with a log.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        form: Format = "text",
        pid: Callable[[], int] = int,
        limit: float = float("inf"),
        room: int = ROOM,
    ) -> None:
        super().__init__(write, limit=limit, room=room)
        self._lines_of = PacketLines(form)
        self._pid = pid
        self._second = -1

    def log(
        self,
        decision: Decision,
        flow: FlowFacts,
        snapshot: Snapshot,
        *,
        accepted: bool,
        took_ns: int,
        again: bool = False,
    ) -> None:
        """One judged packet; ``PacketLines.packet`` says what of it is wanted."""
        verdict = decision.verdict
        if self._admits(verdict, flow.ts_ns, first=verdict is not Verdict.ALLOW):
            self._look(flow.ts_ns)
            self._add(
                self._lines_of.packet(
                    decision, flow, snapshot, accepted=accepted, took_ns=took_ns, again=again
                )
            )

    def unreadable(self, ns: int, number: int, *, accepted: bool) -> None:
        """A packet without a readable IP header; ``ns`` is the time since the epoch."""
        if self._admits(Verdict.DENY, ns, first=True):
            self._look(ns)
            self._add(self._lines_of.unreadable(ns, number, accepted=accepted))

    def _omission(self, ns: int, counts: dict[str, int], seconds: float, reason: str) -> bytes:
        return self._lines_of.left_out(ns, counts, seconds, reason)

    def _look(self, ns: int) -> None:
        """Whose process this is, now and then."""
        second = ns // _SECOND
        if second != self._second:
            self._second = second
            self._lines_of.pid = self._pid()
