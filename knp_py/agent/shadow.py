"""Candidate policies, asked about the same packets: what would change, before it does."""

from knp_py.engine.evaluate import Names, PolicyEngine
from knp_py.engine.snapshot import Snapshot
from knp_py.model.decision import Decision, NameGrant
from knp_py.model.objects import Pod
from knp_py.model.packet import Packet


class SharedNames:
    """One cache of names for two sets of policies: it indexes the patterns of both."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._patterns: list[frozenset[str]] = []

    def part(self) -> "NamesPart":
        """What one engine is given."""
        self._patterns.append(frozenset())
        return NamesPart(self._names, self, len(self._patterns) - 1)

    def put(self, index: int, patterns: frozenset[str]) -> None:
        """One engine's patterns have changed."""
        self._patterns[index] = patterns
        self._names.set_patterns(frozenset().union(*self._patterns))


class NamesPart:
    """The shared names as one engine sees them."""

    def __init__(self, names: Names, shared: SharedNames, index: int) -> None:
        self._names = names
        self._shared = shared
        self._index = index

    @property
    def version(self) -> int:
        """The shared cache's."""
        return self._names.version

    def lookup(self, pod: Pod, address: int, now: float) -> tuple[NameGrant, ...]:
        """As the shared cache's; a pattern of the other engine's matches no rule of this one."""
        return self._names.lookup(pod, address, now)

    def names(self, pod: Pod, address: int, now: float) -> tuple[str, ...]:
        """As the shared cache's."""
        return self._names.names(pod, address, now)

    def clear(self) -> None:
        """Forget every name, for both."""
        self._names.clear()

    def set_patterns(self, patterns: frozenset[str]) -> None:
        """This engine's patterns from now on."""
        self._shared.put(self._index, patterns)


class Shadow:
    """A second engine over the candidate policies."""

    def __init__(self, names: Names) -> None:
        self._engine = PolicyEngine(names)

    def load(self, snapshot: Snapshot) -> None:
        """Judge by these candidates from now on."""
        self._engine.load(snapshot)

    def judge(self, packet: Packet, now: float) -> Decision:
        """What the candidates say."""
        return self._engine.evaluate(packet, now=now)
