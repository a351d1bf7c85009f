"""A node, pods and the internet as network namespaces, tied together by veth pairs.

::

    pod (eth0) ── node (one interface a pod) ── internet (eth0)

The node routes, one host route a pod, as point-to-point CNI plugins do. A pod's IPv4 gateway
is its node's address, its IPv6 gateway ``fe80::1`` on its own link. The internet has *every*
address: whatever no pod and no node has is there and answers, so that a verdict is the only
reason why a connection fails. Nothing leads out of these namespaces.
"""

import socket
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha1
from typing import TypeVar

from knp_py.lab.namespaces import (
    INTERNET,
    NODE,
    add_spaces,
    inside,
    remove_spaces,
    run_ip,
    set_sysctls,
    space_of,
    spaces_of,
    start_inside,
)
from knp_py.lab.plan import Addresses, Plan, PodPlan, address_of
from knp_py.model.net import format_address, is_v4

T = TypeVar("T")

# Ends of the link to the internet, and the node's address where no Node object gives one:
# of blocks that nobody routes (RFC 7335, RFC 5180).
_NODE_LINK, _INTERNET_LINK = "192.0.0.1", "192.0.0.2"
_NODE_LINK6, _INTERNET_LINK6 = "2001:2::1", "2001:2::2"
_GATEWAY6, _INTERNET6 = "fe80::1", "fe80::2"

# Addresses are there at once, sources are not second-guessed, ICMP errors not counted.
_EVERYWHERE = (
    *(("ipv4/conf/all/rp_filter", "0"), ("ipv4/conf/default/rp_filter", "0")),
    *(("ipv6/conf/all/accept_dad", "0"), ("ipv6/conf/default/accept_dad", "0")),
    ("ipv6/conf/default/router_solicitations", "0"),
    *(("ipv4/icmp_ratelimit", "0"), ("ipv6/icmp/ratelimit", "0")),
    ("ipv4/ping_group_range", "0 2147483647"),  # as container runtimes set it
    ("ipv4/ip_unprivileged_port_start", "0"),
)
_FORWARDING = (("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1"))
_ANY_SOURCE = (("ipv4/ip_nonlocal_bind", "1"), ("ipv6/ip_nonlocal_bind", "1"))
_NO_IPV6 = (("ipv6/conf/all/disable_ipv6", "1"), ("ipv6/conf/default/disable_ipv6", "1"))


class Topology:
    """The namespaces of one lab; ``pods`` are those that are there now."""

    def __init__(self, lab: str, there: Plan = Plan()) -> None:  # noqa: B008  immutable
        self.lab = lab
        self.nodes: Addresses = there.nodes
        self.pods: dict[str, PodPlan] = {pod.key: pod for pod in there.pods}

    # -- building ----------------------------------------------------------------------

    def build(self, plan: Plan) -> None:
        """Make it all. Raises ``LabError``; then some of it may be there: ``remove`` it."""
        node, internet = space_of(self.lab, NODE), space_of(self.lab, INTERNET)
        add_spaces([node, internet])
        set_sysctls(node, (*_EVERYWHERE, *_FORWARDING))
        set_sysctls(internet, (*_EVERYWHERE, *_ANY_SOURCE))
        run_ip(_node_lines(internet), node)
        run_ip(_INTERNET_LINES, internet)
        for family in ("-4", "-6"):
            run_ip(_INTERNET_RULES, internet, family)
        self.change(plan)

    def change(self, plan: Plan) -> None:
        """Make what is new, remove what is gone, remake what has changed."""
        node = space_of(self.lab, NODE)
        wanted = {pod.key: pod for pod in plan.pods}
        gone = [key for key, pod in self.pods.items() if wanted.get(key) != pod]
        # By hand: the kernel clears a namespace up in its own time, routes to it included.
        run_ip([f"link del {interface_of(key)}" for key in gone], node)
        remove_spaces(space_of(self.lab, key) for key in gone)
        for key in gone:
            del self.pods[key]
        run_ip(list(_address_lines("del", sorted(set(self.nodes) - set(plan.nodes)))), node)
        run_ip(list(_address_lines("add", sorted(set(plan.nodes) - set(self.nodes)))), node)
        self.nodes = plan.nodes
        new = [pod for key, pod in wanted.items() if key not in self.pods]
        add_spaces(space_of(self.lab, pod.key) for pod in new)
        lines: list[str] = []
        for pod in new:
            space = space_of(self.lab, pod.key)
            v6 = pod.address(v4=False) is not None
            set_sysctls(space, _EVERYWHERE if v6 else (*_EVERYWHERE, *_NO_IPV6))
            lines += _link_lines(pod, space)
        run_ip(lines, node)
        for pod in new:
            run_ip(list(_pod_lines(pod)), space_of(self.lab, pod.key))
            self.pods[pod.key] = pod

    def remove(self) -> None:
        """Remove every namespace of the lab, whoever made it."""
        remove_spaces(spaces_of(self.lab))
        self.pods.clear()
        self.nodes = ()

    @property
    def plan(self) -> Plan:
        """What is there now."""
        return Plan(self.nodes, tuple(sorted(self.pods.values())))

    @property
    def places(self) -> Mapping[str, str]:
        """Every place, ``node``, ``internet`` and ``namespace/name``, and its namespace."""
        return {place: space_of(self.lab, place) for place in (NODE, INTERNET, *self.pods)}

    # -- going there -------------------------------------------------------------------

    def run(
        self, place: str, argv: Sequence[str], *, timeout: float = 30
    ) -> subprocess.CompletedProcess[str]:
        """A command at a place, to its end; output as text, the exit code not checked."""
        with inside(space_of(self.lab, place)):
            return subprocess.run(  # noqa: S603 - our own arguments, no shell
                argv, capture_output=True, text=True, timeout=timeout, check=False
            )

    def start(self, place: str, argv: Sequence[str]) -> "subprocess.Popen[bytes]":
        """A command at a place; its standard output and error are pipes."""
        return start_inside(space_of(self.lab, place), argv)

    def call(self, place: str, action: Callable[[], T]) -> T:
        """What ``action`` returns when this thread is at a place."""
        with inside(space_of(self.lab, place)):
            return action()

    def socket(self, place: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """A socket at a place, whatever thread uses it."""
        return self.call(place, lambda: socket.socket(family, kind, protocol))


def interface_of(key: str) -> str:
    """The node's interface to a pod; ``ip link`` also shows whose it is."""
    return f"pod{sha1(key.encode(), usedforsecurity=False).hexdigest()[:10]}"


def _route(address: int) -> str:
    return f"{format_address(address)}/{32 if is_v4(address) else 128}"


def _address_lines(verb: str, addresses: Iterable[int]) -> Iterable[str]:
    for address in addresses:
        nodad = "" if is_v4(address) or verb == "del" else " nodad"
        yield f"addr {verb} {_route(address)} dev lo{nodad}"


def _node_lines(internet: str) -> list[str]:
    return [
        "link set lo up",
        f"addr add {_NODE_LINK}/32 dev lo",
        f"addr add {_NODE_LINK6}/128 dev lo nodad",
        f"link add internet type veth peer name eth0 netns {internet}",
        "link set internet up",
        f"addr add {_GATEWAY6}/64 dev internet nodad",
        f"route add default via {_INTERNET_LINK} dev internet onlink",
        f"route add default via {_INTERNET6} dev internet",
    ]


_INTERNET_LINES = [
    "link set lo up",
    "link set eth0 up",
    f"addr add {_INTERNET_LINK}/32 dev eth0",
    f"addr add {_INTERNET_LINK6}/128 dev eth0 nodad",
    f"addr add {_INTERNET6}/64 dev eth0 nodad",
    f"route add default via {_NODE_LINK} dev eth0 onlink",
    f"route add default via {_GATEWAY6} dev eth0",
    "route add local 0.0.0.0/0 dev lo table local",
    "route add local ::/0 dev lo table local",
]
# What arrives is for an address of ours, whichever it is; what leaves goes to the node. So
# the local table, which says that every address is ours, must not be asked first.
_INTERNET_RULES = [
    "rule add pref 5 iif lo lookup main",
    "rule add pref 10 lookup local",
    "rule del pref 0",
]


def _link_lines(pod: PodPlan, space: str) -> Iterable[str]:
    """The node's end of a pod's link."""
    link = interface_of(pod.key)
    yield f"link add {link} type veth peer name eth0 netns {space}"
    yield f"link set {link} up alias {pod.key}"
    if pod.address(v4=False) is not None:
        yield f"addr add {_GATEWAY6}/64 dev {link} nodad"
    for address in pod.addresses:
        source = address_of(pod.node, v4=is_v4(address))
        src = "" if source is None else f" src {format_address(source)}"
        yield f"route add {_route(address)} dev {link}{src}"


def _pod_lines(pod: PodPlan) -> Iterable[str]:
    """The pod's end of its link."""
    yield "link set lo up"
    yield "link set eth0 up"
    yield from (
        line.replace(" dev lo", " dev eth0") for line in _address_lines("add", pod.addresses)
    )
    if pod.address(v4=True) is not None:
        node = address_of(pod.node, v4=True)
        gateway = _NODE_LINK if node is None else format_address(node)
        yield f"route add default via {gateway} dev eth0 onlink"
    if pod.address(v4=False) is not None:
        yield f"route add default via {_GATEWAY6} dev eth0"
