"""Rules by name: whether the names can ever be learned, and whether they restrict anything."""

from collections.abc import Iterator

from knp_py.audit.cells import Placed, TierTable, fails_closed, ports_of, ranges_of
from knp_py.audit.findings import Collector, Severity, describe, listing, rule_path
from knp_py.audit.reach import Reach, shut
from knp_py.audit.rules import numbered_rules
from knp_py.audit.shadows import Tables
from knp_py.audit.view import EVERYWHERE, IPV4, Ranges, View
from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.policies import subject_of
from knp_py.engine.surroundings import NODE_LOCAL_DNS
from knp_py.model.decision import Verdict
from knp_py.model.net import parse_address, subtract
from knp_py.model.objects import Pod
from knp_py.model.packet import Packet, Proto
from knp_py.model.policy import (
    ClusterNetworkPolicy,
    ClusterRule,
    Direction,
    DomainPeer,
    NetworkPeer,
    Policy,
    PortRange,
    Tier,
)

PORT = 53
UDP, TCP = int(Proto.UDP), int(Proto.TCP)
# Of a policy's identities, so many are asked for whether they reach a resolver.
_SAMPLES = 200
# RFC 5737: an address that no manifest means by itself.
_NOBODY = parse_address("192.0.2.53")
_HALF_OF_IPV4 = 1 << 31
# A rule over more ports than this is not about DNS.
_FEW_PORTS = 100


def check(view: View, tabs: Tables, found: Collector) -> None:
    """Every policy that accepts by name, and every rule that lets DNS out."""
    egress = {tier: tabs[tier, Direction.EGRESS] for tier in (Tier.ADMIN, Tier.BASELINE)}
    by_name: dict[str, Placed] = {}  # one rule a policy: its rules share the answer
    for table in egress.values():
        for placed in table.rules:
            if _by_name(placed):
                by_name.setdefault(describe(placed.policy), placed)
    if by_name:
        resolution = _Resolution(view, tabs)
        for placed in by_name.values():
            resolution.check(placed, found)
            _check_deny(view, egress, placed, found)
    for policy in view.policies:
        _check_open_dns(egress, policy, found)


def _by_name(placed: Placed) -> bool:
    return not fails_closed(placed.rule, placed.direction) and any(
        isinstance(peer, DomainPeer) for peer in placed.rule.peers or ()
    )


# -- can names be learned -------------------------------------------------------------------


class _Resolution:
    """Whether DNS can be asked: in general, and by the input's pods of their own resolvers."""

    def __init__(self, view: View, tabs: Tables) -> None:
        self._view = view
        self._reach = {protocol: Reach(view, tabs, protocol, PORT) for protocol in (UDP, TCP)}
        self._engine = PolicyEngine()
        self._engine.load(view.snapshot)
        self._answers: dict[tuple[int, int], bool | None] = {}  # (identity, protocol)

    def check(self, placed: Placed, found: Collector) -> None:
        """One rule by name."""
        policy = placed.policy
        path = rule_path(placed.direction, placed.number)
        udp = self._reach[UDP].may(subject_of(policy))
        tcp = self._reach[TCP].may(subject_of(policy))
        able, blocked = self._askers(policy, UDP)
        if not udp or (blocked and not able):
            who = f"{blocked[0].key} and pods like it" if udp else "the pods it selects"
            found.about(
                "names-without-dns",
                policy,
                path,
                f"accepts by name, but {who} reach no DNS server on UDP port 53: names are "
                "learned from DNS answers, so none ever matches",
                "accept UDP and TCP port 53 to the pods' resolvers before the deny",
            )
            return
        if blocked:
            pods = listing(pod.key for pod in blocked)
            found.about(
                "names-without-dns",
                policy,
                path,
                f"accepts by name, but {pods} can reach no resolver on UDP port 53, so no name "
                "ever matches there",
                "let DNS out for those pods too, or leave them out of the subject",
                Severity.INFO,
            )
        if not tcp or (able and not self._askers(policy, TCP)[0]):
            found.about(
                "dns-over-tcp",
                policy,
                path,
                "accepts by name, but TCP port 53 is shut: names whose answers do not fit a "
                "datagram are not learned",
                "accept TCP port 53 beside UDP port 53",
            )

    def _askers(self, policy: Policy, protocol: int) -> tuple[list[Pod], list[Pod]]:
        """Of the input's pods whose resolvers are known, those that reach one and the others.

        One pod stands for all that policy cannot tell from it.
        """
        able: list[Pod] = []
        blocked: list[Pod] = []
        for identity in self._view.selected_identities(subject_of(policy))[:_SAMPLES]:
            pod = next((p for p in self._view.members(identity) if p.resolves and p.ips), None)
            if pod is None:
                continue
            key = (identity.number, protocol)
            if key not in self._answers:
                servers = list(_resolvers(self._view, pod))
                reached = any(self._reaches(pod, server, protocol) for server in servers)
                self._answers[key] = reached if servers else None
            answer = self._answers[key]
            if answer is not None:
                (able if answer else blocked).append(pod)
        return able, blocked

    def _reaches(self, pod: Pod, server: int, protocol: int) -> bool:
        return any(
            self._engine.evaluate(Packet(address, server, protocol, 40000, PORT), now=0.0).verdict
            is Verdict.ALLOW
            for address in pod.ips
        )


def _resolvers(view: View, pod: Pod) -> Iterator[int]:
    """Where the pod asks; nothing when the input does not say."""
    if pod.made_up:
        return
    yield from pod.nameservers
    if not pod.dns_policy.startswith("ClusterFirst"):
        return
    servers = view.dns_pods
    if any(server.made_up for server in servers):
        return
    for server in servers:
        yield from server.ips
    if servers:
        yield NODE_LOCAL_DNS


# -- do names restrict anything -------------------------------------------------------------


def _check_deny(
    view: View, egress: dict[Tier, TierTable], placed: Placed, found: Collector
) -> None:
    subject = subject_of(placed.policy)
    if view.may_isolate(subject, Direction.EGRESS):
        return
    denied: list[tuple[int, int]] = []
    for table in egress.values():
        over = 0  # rules that match one of the ports of the rule by name
        for ports in ports_of(placed):
            for mask in table.port_masks(ports):
                over |= mask
        deny = over & table.may(subject) & ~table.accepting & ~table.chain.pass_bits
        for other in table.rules:
            if other.bit & deny:
                denied += denied_ranges(other)
    left = subtract(list(IPV4), denied)
    if sum(last - first + 1 for first, last in left) > _HALF_OF_IPV4:
        found.about(
            "names-without-deny",
            placed.policy,
            rule_path(placed.direction, placed.number),
            "accepts by name, but nothing denies the other addresses: what no policy denies is "
            "allowed, so the names restrict nothing",
            "deny 0.0.0.0/0 and ::/0 in a policy of a higher priority value, or in Baseline",
        )


def denied_ranges(placed: Placed) -> Ranges:
    """Outside addresses that a Deny rule denies."""
    if fails_closed(placed.rule, placed.direction):
        return EVERYWHERE
    return tuple(
        span
        for peer in placed.rule.peers or ()
        if isinstance(peer, NetworkPeer)
        for span in ranges_of(peer)
    )


# -- DNS to anyone --------------------------------------------------------------------------


def _check_open_dns(egress: dict[Tier, TierTable], policy: Policy, found: Collector) -> None:
    """Rules that are about DNS and let it go anywhere."""
    for direction, number, rule in numbered_rules(policy):
        if direction is Direction.INGRESS:
            continue
        placed = Placed(policy, Direction.EGRESS, number, rule, 0)
        if isinstance(rule, ClusterRule) and rule.action.value != "Accept":
            continue
        protocol = _dns_protocol(placed)
        if protocol is None or not _anywhere(placed):
            continue
        subject = subject_of(policy)
        tiers = [Tier.ADMIN]
        if isinstance(policy, ClusterNetworkPolicy) and policy.tier is Tier.BASELINE:
            tiers.append(Tier.BASELINE)
        ports = next(p for p in ports_of(placed) if p.protocol == protocol)
        where = ports._replace(first=PORT, last=PORT)
        if any(shut(egress[tier], subject, _NOBODY, where) for tier in tiers):
            continue
        found.about(
            "dns-anywhere",
            policy,
            rule_path(Direction.EGRESS, number),
            "lets DNS out to any server: names learned there are the server's to choose, and "
            "queries can carry data out",
            "allow port 53 to the pods' resolvers only",
        )


def _dns_protocol(placed: Placed) -> int | None:
    """The protocol of a port entry that is about DNS."""
    if fails_closed(placed.rule, placed.direction):
        return None
    for port in placed.rule.ports or ():
        if (
            isinstance(port, PortRange)
            and port.protocol in {UDP, TCP}
            and port.first <= PORT <= port.last
            and port.last - port.first < _FEW_PORTS
        ):
            return port.protocol
    return None


def _anywhere(placed: Placed) -> bool:
    if placed.rule.peers is None:
        return True
    spans = [
        span
        for peer in placed.rule.peers
        if isinstance(peer, NetworkPeer)
        for span in ranges_of(peer)
    ]
    left = subtract(list(IPV4), spans)
    return sum(last - first + 1 for first, last in left) < _HALF_OF_IPV4
