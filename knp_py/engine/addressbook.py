"""Whose address is it: pods that claim it, and which of them has it (semantics §1)."""

from collections.abc import Callable

from knp_py.engine.snapshot import NO_PORTS, Endpoint
from knp_py.model.net import format_address
from knp_py.model.objects import ContainerPort, Pod

_PortMap = dict[tuple[int, int], tuple[str, ...]]


class AddressBook:
    """Addresses to endpoints; ``clashes`` holds a sentence for each address claimed twice."""

    def __init__(self) -> None:
        self.endpoints: dict[int, Endpoint] = {}
        self.clashes: dict[int, str] = {}
        self._claims: dict[int, tuple[Pod, ...]] = {}
        self._touched: set[int] = set()
        self._port_maps: dict[tuple[ContainerPort, ...], _PortMap] = {(): dict(NO_PORTS)}

    def claim(self, pod: Pod) -> None:
        """The pod lives and has these addresses."""
        for address in pod.ips:
            self._claims[address] = (*self._claims.get(address, ()), pod)
            self._touched.add(address)

    def release(self, pod: Pod) -> None:
        """The pod, as it was claimed for, lets go of its addresses, if it had any."""
        for address in pod.ips:
            left = tuple(p for p in self._claims.get(address, ()) if p.uid != pod.uid)
            if left:
                self._claims[address] = left
            else:
                self._claims.pop(address, None)
            self._touched.add(address)

    def settle(self, identity: Callable[[Pod], int]) -> None:
        """Decide about every address touched: the latest created wins, ties by UID."""
        for address in self._touched:
            claims = self._claims.get(address, ())
            self.clashes.pop(address, None)
            if not claims:
                self.endpoints.pop(address, None)
                continue
            pod = claims[0]
            if len(claims) > 1:
                live = sorted(claims, key=lambda p: (p.created, p.uid))
                pod = live[-1]
                others = ", ".join(p.key for p in live[:-1])
                self.clashes[address] = (
                    f"{format_address(address)} belongs to {pod.key}, created last; "
                    f"also claimed by {others}"
                )
            self.endpoints[address] = Endpoint(pod, identity(pod), self._ports(pod.ports))
        self._touched.clear()
        if len(self._port_maps) > 2 * len(self.endpoints) + 1024:
            # Pods come and go, and so do the port names that their authors choose.
            used = {end.pod.ports for end in self.endpoints.values()}
            self._port_maps = {ports: m for ports, m in self._port_maps.items() if ports in used}

    def owner(self, address: int) -> Pod | None:
        """The pod that an address resolves to, once settled."""
        end = self.endpoints.get(address)
        return None if end is None else end.pod

    def _ports(self, ports: tuple[ContainerPort, ...]) -> _PortMap:
        """Shared by all pods with equal ports: a Deployment's are all alike."""
        found = self._port_maps.get(ports)
        if found is None:
            found = self._port_maps[ports] = {}
            for port in ports:
                key = (port.protocol, port.port)
                found[key] = (*found.get(key, ()), port.name)
        return found
