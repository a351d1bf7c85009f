"""The one evaluator: a packet and a time in, a decision with its reason out.

The order is the API's (semantics §2, §3): egress of the source pod, then ingress of
the destination pod; in each Admin tier, NetworkPolicies, Baseline tier, allow. Whether
a rule matches is `engine.chains`' business; here is only what follows from it.
"""

from collections.abc import Mapping
from typing import Protocol

from knp_py.engine.snapshot import EMPTY, NO_PORTS, Endpoint, Profile, Snapshot
from knp_py.model.decision import Decision, NameGrant, Ruling, Verdict
from knp_py.model.objects import Pod
from knp_py.model.packet import Packet
from knp_py.model.policy import Direction, Tier

NO_END = Ruling(
    True, Direction.EGRESS, Tier.DEFAULT, action="Accept", reason="neither end is a pod"
)
OWN_ADDRESS = Ruling(
    True,
    Direction.EGRESS,
    Tier.DEFAULT,
    action="Accept",
    reason="a pod's traffic to itself is always allowed",
)
OWN_NODE = Ruling(
    True,
    Direction.INGRESS,
    Tier.NETWORK_POLICY,
    action="Accept",
    reason="traffic from the pod's own node always passes",
)
DEFAULTS = (
    Ruling(True, Direction.EGRESS, Tier.DEFAULT, action="Accept"),
    Ruling(True, Direction.INGRESS, Tier.DEFAULT, action="Accept"),
)
_EGRESS_DEFAULT, _INGRESS_DEFAULT = DEFAULTS
# Module names are found faster than enum members, and these are read for every packet.
_ALLOW, _DENY = Verdict.ALLOW, Verdict.DENY
_NETWORK_POLICY, _DEFAULT_TIER = Tier.NETWORK_POLICY, Tier.DEFAULT
_ALLOW_NO_END = Decision(Verdict.ALLOW, None, None, NO_END)
_ALLOW_OWN = Decision(Verdict.ALLOW, OWN_ADDRESS, None, OWN_ADDRESS)

_MEMO_LIMIT = 65_536
_FOREVER = float("inf")
_NO_GRANTS: tuple[NameGrant, ...] = ()


class Names(Protocol):
    """What the engine asks of the learned names."""

    @property
    def version(self) -> int:
        """Grows whenever ``lookup`` could answer differently for another reason than time."""
        ...

    def lookup(self, pod: Pod, address: int, now: float) -> tuple[NameGrant, ...]:
        """Names learned for the address by this pod and still alive, one per pattern."""
        ...

    def names(self, pod: Pod, address: int, now: float) -> tuple[str, ...]:
        """Every name learned for the address, whether a policy wants it or not."""
        ...

    def clear(self) -> None:
        """Forget every name."""
        ...

    def set_patterns(self, patterns: frozenset[str]) -> None:
        """The patterns that policies have from now on."""
        ...


class NoNames:
    """Nothing learned, ever."""

    version = 0

    def lookup(self, pod: Pod, address: int, now: float) -> tuple[NameGrant, ...]:  # noqa: ARG002
        """Nothing."""
        return _NO_GRANTS

    def names(self, pod: Pod, address: int, now: float) -> tuple[str, ...]:  # noqa: ARG002
        """Nothing."""
        return ()

    def clear(self) -> None:
        """Nothing to forget."""

    def set_patterns(self, patterns: frozenset[str]) -> None:
        """Ignored."""


class PolicyEngine:
    """Judges packets against one snapshot and the names learned; see ``evaluate``."""

    def __init__(self, names: Names | None = None) -> None:
        self.names: Names = names if names is not None else NoNames()
        self.snapshot: Snapshot = EMPTY
        self._memo: dict[tuple[int, int, int, int], Decision] = {}
        self._name_memo: dict[tuple[int, int, int, int], tuple[int, Decision]] = {}

    def load(self, snapshot: Snapshot) -> None:
        """Judge by this snapshot from now on."""
        self.names.set_patterns(snapshot.patterns)
        self.snapshot = snapshot
        self._memo = {}
        self._name_memo = {}

    def evaluate(self, packet: Packet, *, now: float) -> Decision:
        """The verdict on a connection's first packet, in its original direction.

        ``now`` is in seconds of whatever clock the names were learned by. Equal
        packets (addresses, protocol, destination port) get equal decisions until the
        snapshot changes or a name is learned or ends.
        """
        key = (packet.src, packet.dst, packet.protocol, packet.dport)
        known = self._memo.get(key)
        if known is not None:
            return known
        if self._name_memo:
            entry = self._name_memo.get(key)
            if entry is not None and entry[0] == self.names.version and now < entry[1].valid_until:
                return entry[1]
        decision = self.judge(packet, now)
        if decision.named:
            if len(self._name_memo) >= _MEMO_LIMIT:
                self._name_memo.clear()
            self._name_memo[key] = (self.names.version, decision)
        else:
            if len(self._memo) >= _MEMO_LIMIT:
                self._memo.clear()
            self._memo[key] = decision
        return decision

    def judge(self, packet: Packet, now: float) -> Decision:
        """``evaluate`` without its memory."""
        snapshot = self.snapshot
        src, dst = packet.src, packet.dst
        source = snapshot.endpoints.get(src)
        target = snapshot.endpoints.get(dst)
        unidentified: tuple[int, ...] = ()
        if source is None or target is None:
            if snapshot.network_bounds:
                unidentified = tuple(
                    a
                    for a, end in ((src, source), (dst, target))
                    if end is None and snapshot.in_pod_network(a) and a not in snapshot.node_ends
                )
            if source is None and target is None:
                if unidentified:
                    return Decision(_ALLOW, None, None, NO_END, unidentified=unidentified)
                return _ALLOW_NO_END
        elif source.pod is target.pod:
            return _ALLOW_OWN

        ports = NO_PORTS if target is None else target.ports
        egress: Ruling | None = None
        grants = _NO_GRANTS
        until = _FOREVER
        named = False
        if source is not None:
            profile = snapshot.profiles[source.identity]
            other = None if target is None else snapshot.profiles[target.identity]
            egress, grants, until, named = self._egress(source, profile, other, packet, ports, now)
            if not egress.allowed:
                return Decision(
                    _DENY, egress, None, egress, egress.reason, (), until, unidentified, named
                )
        ingress: Ruling | None = None
        decided = egress
        if target is not None:
            profile = snapshot.profiles[target.identity]
            other = None if source is None else snapshot.profiles[source.identity]
            ingress = self._ingress(target, profile, other, packet, ports)
            if not ingress.allowed:
                return Decision(
                    _DENY, egress, ingress, ingress, ingress.reason, (), until, unidentified, named
                )
            if egress is None or ingress.tier is not _DEFAULT_TIER or egress.tier is _DEFAULT_TIER:
                decided = ingress
        return Decision(_ALLOW, egress, ingress, decided, None, grants, until, unidentified, named)

    def _egress(
        self,
        source: Endpoint,
        profile: Profile,
        other: Profile | None,
        packet: Packet,
        ports: Mapping[tuple[int, int], tuple[str, ...]],
        now: float,
    ) -> tuple[Ruling, tuple[NameGrant, ...], float, bool]:
        group, selectors = (0, ()) if other is None else (other.group, other.selectors)
        dst, protocol, port = packet.dst, packet.protocol, packet.dport
        until = _FOREVER
        named = False
        for _, chain in profile.egress:
            extra = 0
            if chain.node_masks:
                nodes = self.snapshot.node_addresses.get(dst)
                if nodes:
                    extra = chain.node_bits(nodes)
            grants = _NO_GRANTS
            if chain.name_masks:
                named = True
                grants = self.names.lookup(source.pod, dst, now)
                if grants:
                    extra |= chain.name_bits(grants)
                    until = min(until, *(g.expires for g in grants))
            bits = chain.match(dst, group, selectors, extra, protocol, port, ports)
            if bits:
                low = bits & -bits
                if low & chain.pass_bits:
                    continue
                ruling = chain.rulings[low.bit_length() - 1]
                if grants and ruling.by_name:
                    grants = tuple(g for g in grants if chain.name_masks.get(g.pattern, 0) & low)
                    return ruling, grants, until, named
                return ruling, _NO_GRANTS, until, named
            if chain.end is not None:
                return chain.end, _NO_GRANTS, until, named
        return _EGRESS_DEFAULT, _NO_GRANTS, until, named

    def _ingress(
        self,
        target: Endpoint,
        profile: Profile,
        other: Profile | None,
        packet: Packet,
        ports: Mapping[tuple[int, int], tuple[str, ...]],
    ) -> Ruling:
        group, selectors = (0, ()) if other is None else (other.group, other.selectors)
        src, protocol, port = packet.src, packet.protocol, packet.dport
        for tier, chain in profile.ingress:
            if tier is _NETWORK_POLICY and other is None and self._from_own_node(src, target.pod):
                return OWN_NODE
            bits = chain.match(src, group, selectors, 0, protocol, port, ports)
            if bits:
                low = bits & -bits
                if low & chain.pass_bits:
                    continue
                return chain.rulings[low.bit_length() - 1]
            if chain.end is not None:
                return chain.end
        return _INGRESS_DEFAULT

    def _from_own_node(self, src: int, pod: Pod) -> bool:
        """Kubelet probes: the pod's node by name, or an address its status names."""
        if src in pod.host_ips:
            return True
        node = self.snapshot.nodes.get(pod.node)
        return node is not None and src in node.ips
