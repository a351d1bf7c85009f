"""The pods behind a Service. Policy never sees a Service's address (semantics §1)."""

from typing import NamedTuple

from knp_py.engine.snapshot import Snapshot
from knp_py.model.net import is_v4
from knp_py.model.objects import Pod, Service


class Backend(NamedTuple):
    """Where one connection to a Service may go after destination NAT."""

    pod: Pod
    address: int
    port: int


def backends(
    snapshot: Snapshot, service: Service, *, protocol: int, port: int, v4: bool = True
) -> tuple[Backend, ...]:
    """Every backend of a Service's port, by pod name; empty when the port is not its.

    ``targetPort`` may be a name, which each pod resolves by itself. Without a selector
    there are no backends here: its endpoints are not in a manifest we read.
    """
    targets = [p.target for p in service.ports if (p.protocol, p.port) == (protocol, port)]
    if not targets or not service.selector:
        return ()
    wanted = service.selector.items()
    found: list[Backend] = []
    for pod in sorted(snapshot.pods.values(), key=lambda p: p.key):
        if pod.namespace != service.namespace or not wanted <= pod.labels.items():
            continue
        if pod.phase in {"Succeeded", "Failed"}:
            continue
        number = _number(pod, targets[0], protocol)
        address = next((a for a in pod.ips if is_v4(a) == v4), None)
        if number is not None and address is not None:
            found.append(Backend(pod, address, number))
    return tuple(found)


def _number(pod: Pod, target: int | str, protocol: int) -> int | None:
    if isinstance(target, int):
        return target
    return next((p.port for p in pod.ports if (p.name, p.protocol) == (target, protocol)), None)
