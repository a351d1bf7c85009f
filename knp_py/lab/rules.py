"""nftables of the lab's own, and how they get into a namespace.

None of it decides anything about policy: Services are translated on the node before policy
sees a packet, and what arrives anywhere is handed to the lab's server.
"""

from collections.abc import Mapping, Sequence
from subprocess import PIPE

from knp_py.errors import NotPermittedError
from knp_py.lab.namespaces import NODE, start_inside

SERVER_PORT = 61515
"""Where the lab's server listens in every namespace; every other port leads there."""

# Handed over as they are (tproxy), not redirected: the ports that policy sees on the node are
# those of the packet. What has a socket of its own already, a server that somebody runs in a
# pod or the near end of a connection, keeps what arrives for it; replies are known by
# conntrack, since those to translated connections find their socket only later. Nobody but a
# pod itself reaches its loopback addresses, so nothing is there that it has not put there.
_CATCH_ALL = """\
add table inet knplab_server
delete table inet knplab_server
table inet knplab_server {{
  chain arriving {{
    type filter hook prerouting priority mangle;
    meta l4proto {{ tcp, udp }} {for_us}goto nobody_listens
  }}
  chain nobody_listens {{
    ip daddr 127.0.0.0/8 accept
    ip6 daddr ::1 accept
    ct direction reply accept
    socket wildcard {{ 0, 1 }} accept
    meta nfproto ipv4 meta l4proto tcp tproxy ip to :{port} accept
    meta nfproto ipv4 meta l4proto udp tproxy ip to :{port} accept
    meta nfproto ipv6 meta l4proto tcp tproxy ip6 to :{port} accept
    meta nfproto ipv6 meta l4proto udp tproxy ip6 to :{port} accept
  }}
}}
"""


def catch_all(places: Mapping[str, str]) -> None:
    """Have the lab's server get whatever nobody else listens for (namespaces by place)."""
    # The node forwards; to everybody else all that arrives is for them.
    for_us = "fib daddr type local "
    for node in (True, False):
        rules = _CATCH_ALL.format(port=SERVER_PORT, for_us=for_us if node else "")
        load_rules(rules, [space for place, space in places.items() if (place == NODE) is node])


def load_rules(rules: str, spaces: Sequence[str]) -> None:
    """Load an nft script in each of these namespaces, all at once.

    Raises ``NotPermittedError``: these scripts are our own, so it is the kernel that lacks
    something.
    """
    running = [start_inside(space, ["nft", "-f", "-"], stdin=PIPE) for space in spaces]
    said = [process.communicate(rules.encode())[1].decode() for process in running]
    for process, errors in zip(running, said, strict=True):
        if process.returncode:
            lines = errors.strip().splitlines() or ["no reason given"]
            raise NotPermittedError(f"nft refuses a rule of the lab: {' '.join(lines[:2])}")
