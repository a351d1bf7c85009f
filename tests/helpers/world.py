"""A cluster to ask questions of; answers are one readable line.

deny: egress Admin floor[0]
deny: ingress NetworkPolicy, isolated by x/one, x/two
allow: ingress NetworkPolicy x/web[0]
allow: Default
"""

from collections.abc import Sequence

from helpers import builders as b
from helpers.judging import engine_of
from helpers.oracle import Learned

from knp_py.adapters.documents import decode_documents
from knp_py.manifests.load import load
from knp_py.model.changes import ClusterObject
from knp_py.model.decision import Decision, Ruling
from knp_py.model.objects import Pod
from knp_py.model.policy import Tier


class World:
    """One engine over these objects."""

    def __init__(self, *objects: ClusterObject, learned: Sequence[Learned] = ()) -> None:
        self.engine = engine_of(objects, learned)

    def decide(
        self,
        src: str | Pod,
        dst: str | Pod,
        dport: int = 80,
        protocol: str = "TCP",
        *,
        now: float = 0.0,
    ) -> Decision:
        return self.engine.evaluate(b.packet(src, dst, dport, protocol), now=now)

    def ask(
        self,
        src: str | Pod,
        dst: str | Pod,
        dport: int = 80,
        protocol: str = "TCP",
        *,
        now: float = 0.0,
    ) -> str:
        """Verdict and what decided it."""
        decision = self.decide(src, dst, dport, protocol, now=now)
        assert decision.decided_by is not None
        return f"{decision.verdict.value}: {line(decision.decided_by)}"

    def both(
        self, src: str | Pod, dst: str | Pod, dport: int = 80, protocol: str = "TCP"
    ) -> tuple[str | None, str | None]:
        """What decided egress and ingress; None where nothing was judged."""
        decision = self.decide(src, dst, dport, protocol)
        return word(decision.egress), word(decision.ingress)


def word(ruling: Ruling | None) -> str | None:
    if ruling is None:
        return None
    return f"{'allow' if ruling.allowed else 'deny'}: {line(ruling)}"


def line(ruling: Ruling) -> str:
    if ruling.tier is Tier.DEFAULT:
        return "Default"
    where = f"{ruling.direction.text} {ruling.tier.text}"
    if ruling.rule is not None:
        return f"{where} {ruling.policy}[{ruling.rule}]"
    if ruling.allowed:
        return f"{where}, from its own node"
    return f"{where}, isolated by {', '.join(ruling.isolated_by)}"


def loaded(text: str) -> list[ClusterObject]:
    """The objects of YAML manifests without problems."""
    result = load(decode_documents("test.yaml", text.encode()))
    assert not result.problems
    return result.objects
