"""The resolv.conf of every place, as the kubelet would write it."""

from knp_py.engine.snapshot import Snapshot
from knp_py.lab.namespaces import NODE
from knp_py.model.net import format_address
from knp_py.model.objects import Pod
from knp_py.replay.directory import CLUSTER_DOMAIN, Directory, UnanswerableError

_SEARCHING = frozenset({"ClusterFirst", "ClusterFirstWithHostNet"})


def resolv_confs(
    snapshot: Snapshot, directory: Directory, node_resolvers: tuple[int, ...]
) -> dict[str, str]:
    """The text by place: the node and every pod that has an address."""
    found = {NODE: _text([f"nameserver {format_address(each)}" for each in node_resolvers])}
    for pod in snapshot.pods.values():
        if snapshot.profile_of(pod) is not None:
            found[pod.key] = _text(_of_pod(pod, directory))
    return found


def _of_pod(pod: Pod, directory: Directory) -> list[str]:
    try:
        resolvers = directory.resolvers(pod)
    except UnanswerableError:
        return []
    lines = [f"nameserver {each.text}" for each in resolvers if each.address is not None]
    if pod.dns_policy in _SEARCHING:
        domain = f"svc.{CLUSTER_DOMAIN}"
        lines.append(f"search {pod.namespace}.{domain} {domain} {CLUSTER_DOMAIN}")
        lines.append("options ndots:5")
    return lines


def _text(lines: list[str]) -> str:
    if not any(line.startswith("nameserver") for line in lines):
        # Without one, resolver libraries ask 127.0.0.1, where the lab's server would answer.
        lines = ["# nobody says which resolvers there are", "nameserver 0.0.0.0", *lines]
    return "\n".join(lines) + "\n"
