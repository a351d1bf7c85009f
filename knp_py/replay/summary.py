"""What a whole replay comes to: counts by verdict and by deciding object, and the rest."""

from collections import Counter

import msgspec

from knp_py.engine.flows import Flow
from knp_py.model.decision import Ruling, Verdict
from knp_py.replay.runner import Replay
from knp_py.verdicts.words import decision_text

_FRAGMENTS = {"timeout": "never completed"}


class DeciderCount(msgspec.Struct):
    """Connections that one rule, policy or default decided."""

    verdict: str
    decided_by: str
    connections: int = 0
    packets: int = 0


class Summary(msgspec.Struct):
    """The counts of one replay; ``seconds`` is packet time from first to last.

    ``pod_connections`` are those with a pod at either end, ``service_connections`` those to
    a Service's address, before destination NAT, ``midstream`` those unknown because the
    capture lacks their beginning; ``skipped`` counts frames
    without IP, ``unreadable`` packets without a readable IP header, ``unparsed`` those
    judged on their addresses alone; ``evicted`` connections were given up early.
    """

    connections: int
    packets: int
    seconds: float
    pod_connections: int
    service_connections: int
    denied_but_answered: int
    midstream: int
    verdicts: dict[str, int]
    deciders: list[DeciderCount]
    skipped: dict[str, int]
    unreadable: dict[str, int]
    unparsed: dict[str, int]
    fragments: dict[str, int]
    dns: dict[str, int]
    evicted: int
    problems: list[str]


class Tally:
    """Counts flows as they end; memory grows with deciding objects, not with flows."""

    def __init__(self) -> None:
        self._verdicts: Counter[str] = Counter({"allow": 0, "deny": 0, "unknown": 0})
        self._deciders: dict[tuple[int, str | None], DeciderCount] = {}
        self._rulings: list[Ruling | None] = []
        self._pods = 0
        self._services = 0
        self._answered = 0
        self._midstream = 0

    def add(self, flow: Flow) -> None:
        """One more connection."""
        decision = flow.decision
        verdict = decision.verdict.value
        self._verdicts[verdict] += 1
        if flow.pod is not None or flow.target is not None:
            self._pods += 1
        if flow.service is not None:
            self._services += 1
        if decision.verdict is Verdict.UNKNOWN and flow.midstream:
            self._midstream += 1
        if decision.verdict is Verdict.DENY and flow.answered:
            self._answered += 1
        # A ruling is one object for all its decisions, so its identity is a good key; the
        # count holds it, so that nobody else gets its number.
        key = (id(decision.decided_by), decision.reason)
        count = self._deciders.get(key)
        if count is None:
            bare = msgspec.structs.replace(decision, grants=())
            made = DeciderCount(verdict, decision_text(bare))
            count = self._deciders[key] = made
            self._rulings.append(decision.decided_by)
        count.connections += 1
        count.packets += flow.packets

    def _merged(self) -> list[DeciderCount]:
        """One count for each text: a rule has a ruling in every chain it is compiled into."""
        merged: dict[tuple[str, str], DeciderCount] = {}
        for count in self._deciders.values():
            total = merged.setdefault(
                (count.verdict, count.decided_by), DeciderCount(count.verdict, count.decided_by)
            )
            total.connections += count.connections
            total.packets += count.packets
        return sorted(merged.values(), key=lambda d: (-d.connections, d.verdict, d.decided_by))

    def summary(self, replay: Replay, dns: Counter[str], problems: list[str]) -> Summary:
        """Everything counted so far; deciders with the most connections first."""
        datapath = replay.datapath
        return Summary(
            connections=sum(self._verdicts.values()),
            packets=replay.packets,
            seconds=max(0, replay.last_ns - replay.first_ns) * 1e-9,
            pod_connections=self._pods,
            service_connections=self._services,
            denied_but_answered=self._answered,
            midstream=self._midstream,
            verdicts=dict(self._verdicts),
            deciders=self._merged(),
            skipped=_sorted(replay.skipped),
            unreadable=_sorted(datapath.unreadable),
            unparsed=_sorted(datapath.unparsed),
            fragments=_sorted(
                Counter({_FRAGMENTS.get(k, k): n for k, n in datapath.fragments.counts.items()})
            ),
            dns=_sorted(dns),
            evicted=datapath.flows.evicted,
            problems=problems,
        )


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
