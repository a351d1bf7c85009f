"""Clusters too large for hypothesis to draw: dozens of policies on every pod, by seed."""

import random
from collections.abc import Sequence

from helpers import builders as b
from helpers import clusters as c
from helpers.oracle import Learned

from knp_py.model.changes import ClusterObject
from knp_py.model.objects import Pod
from knp_py.model.packet import Packet
from knp_py.model.policy import (
    Action,
    ClusterNetworkPolicy,
    ClusterRule,
    NetworkPolicy,
    NetworkRule,
    Peer,
    PodPeer,
    Port,
    Tier,
)

ACTIONS = (Action.ACCEPT, Action.DENY, Action.PASS) * 20 + (Action.UNKNOWN,)


class Maker:
    """Draws from the pools of ``clusters``, narrow values more often than there."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def cluster(self, pods: int = 40, policies: int = 30) -> list[ClusterObject]:
        objects: list[ClusterObject] = [b.namespace(name, self.labels()) for name in "ab"]
        objects += [
            b.node(f"n{i}", f"192.168.0.{i}", labels=self.labels(), pod_cidrs=["10.0.0.0/24"])
            for i in (1, 2)
        ]
        objects += [self.pod(i) for i in range(pods)]
        objects += [self.network_policy(i) for i in range(policies)]
        objects += [self.cluster_policy(i) for i in range(policies)]
        return objects

    def labels(self) -> dict[str, str]:
        return self.rng.choice(c.TEXT_LABELS)

    def pod(self, index: int) -> Pod:
        ips = (f"10.0.0.{index + 1}", f"fd00::{index + 1:x}")[: self.rng.choice((1, 1, 2))]
        return b.pod(
            f"{self.rng.choice(c.NAMESPACES)}/p{index}",
            *ips,
            labels=self.labels(),
            node=self.rng.choice(("n1", "n2")),
            ports=self.rng.choice(c.CONTAINER_PORTS),
        )

    def pod_peer(self) -> PodPeer:
        return PodPeer(
            namespaces=self.rng.choice(c.NAMESPACE_SELECTORS), pods=self.rng.choice(c.SELECTORS)
        )

    def cidr(self) -> str:
        if self.rng.random() < 0.2:
            return self.rng.choice(c.CIDRS)
        length = self.rng.choice((26, 27, 28, 29, 30, 31, 32))
        return f"10.0.0.{self.rng.randrange(64)}/{length}"

    def peers(self, *, cluster: bool, egress: bool, accept: bool) -> tuple[Peer, ...]:
        made: list[Peer] = []
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            kind = self.rng.randrange(8)
            if kind < 4 and (egress or not cluster):
                if cluster:
                    made.append(b.networks(*(self.cidr() for _ in range(kind + 1))))
                else:
                    made.append(b.ip_block(*(self.cidr() for _ in range(kind + 1))))
            elif kind == 4 and cluster and egress:
                made.append(b.nodes(self.rng.choice(c.SELECTORS)))
            elif kind == 5 and cluster and egress and accept:
                made.append(b.domains(*self.rng.choice(c.DOMAIN_NAMES)))
            elif kind == 6 and not cluster:
                made.append(b.own_pods(self.rng.choice(c.SELECTORS)))
            else:
                made.append(self.pod_peer())
        if self.rng.random() < 0.01:
            made.append(b.unknown_peer())
        return tuple(made)

    def ports(self) -> tuple[Port, ...] | None:
        if self.rng.random() < 0.4:
            return None
        return tuple(self.port() for _ in range(self.rng.choice((1, 2, 3))))

    def port(self) -> Port:
        if self.rng.random() < 0.7:
            return self.rng.choice(c.PORTS)
        first = self.rng.randrange(100)
        return self.rng.choice((b.tcp, b.udp))(first, first + self.rng.randrange(40))

    def network_policy(self, index: int) -> NetworkPolicy:
        sides: list[list[NetworkRule] | None] = []
        for _ in range(2):
            rules = [
                NetworkRule(self.peers(cluster=False, egress=True, accept=False), self.ports())
                for _ in range(self.rng.choice((0, 1, 2)))
            ]
            sides.append(self.rng.choice((rules, rules, None)))
        return b.netpol(
            f"{self.rng.choice(c.NAMESPACES)}/np{index}",
            self.rng.choice(c.SELECTORS),
            egress=sides[0],
            ingress=sides[1],
        )

    def cluster_policy(self, index: int) -> ClusterNetworkPolicy:
        sides: list[list[ClusterRule]] = []
        for egress in (True, False):
            actions = [self.rng.choice(ACTIONS) for _ in range(self.rng.randrange(7))]
            sides.append([self.cluster_rule(action, egress=egress) for action in actions])
        return b.cnp(
            f"cnp{index}",
            self.rng.choice((Tier.ADMIN, Tier.BASELINE)),
            self.rng.randrange(10),
            self.pod_peer(),
            egress=sides[0],
            ingress=sides[1],
        )

    def cluster_rule(self, action: Action, *, egress: bool) -> ClusterRule:
        peers = self.peers(cluster=True, egress=egress, accept=action is Action.ACCEPT)
        return ClusterRule(action, peers, self.ports())

    def packets(self, objects: Sequence[ClusterObject], count: int) -> list[Packet]:
        ends = [ip for obj in objects if isinstance(obj, Pod) for ip in obj.ips]
        ends += c.ADDRESSES
        return [
            c.make_packet(
                self.rng.choice(ends),
                self.rng.choice(ends),
                self.rng.choice(("TCP", "TCP", "TCP", "UDP", "SCTP", "ICMP")),
                self.rng.choice((*c.PORT_NUMBERS, self.rng.randrange(140))),
                40000,
            )
            for _ in range(count)
        ]

    def learned(self, objects: Sequence[ClusterObject]) -> list[Learned]:
        return [
            Learned(pod.uid, self.rng.choice(c.LEARNED_NAMES), b.address(ip), 60.0)
            for pod in objects
            if isinstance(pod, Pod)
            for ip in self.rng.sample(c.LEARNED_IPS, 2)
        ]
