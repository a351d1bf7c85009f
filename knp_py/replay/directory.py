"""Where names are and who is asked: what the scenario's resolvers and cluster DNS say.

Every resolver knows the names that the scenario lists. Those of Services only the cluster's
own resolvers know, by the names cluster DNS gives them (the DNS-Based Service Discovery
specification of Kubernetes).
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from knp_py.engine.snapshot import EMPTY, Snapshot
from knp_py.engine.surroundings import DNS_SERVICE, NODE_LOCAL_DNS
from knp_py.errors import ScenarioError
from knp_py.manifests.problems import did_you_mean
from knp_py.model.net import format_address
from knp_py.model.objects import Pod, Service
from knp_py.replay.scenario import Resolved

CLUSTER_DOMAIN = "cluster.local"
SERVICE_TTL = 30  # seconds, as CoreDNS is mostly configured; the name cache's least anyway
_SUFFIX = f".svc.{CLUSTER_DOMAIN}"
_CLUSTER_FIRST = frozenset({"ClusterFirst", "ClusterFirstWithHostNet"})


class UnanswerableError(ScenarioError):
    """The scenario does not say enough to tell; ``field`` of the expectation is to blame."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Place(NamedTuple):
    """Where something is: an address, a Service's address, or a Service without one."""

    address: int | None
    service: Service | None = None

    @property
    def text(self) -> str:
        """The address, or the Service's name."""
        if self.address is not None:
            return format_address(self.address)
        return f"the Service {self.service.key}" if self.service else "nowhere"


class Answer(NamedTuple):
    """What a resolver says: the full name and where it is. ``ttl`` in seconds."""

    name: str
    places: tuple[Place, ...]
    ttl: int


class _Form(NamedTuple):
    """A Service that a name may mean; ``host`` is a pod of a headless one, or empty."""

    name: str
    key: str
    host: str


class Directory:
    """``resolve`` is the scenario's table, ``node_resolvers`` those that nodes have."""

    def __init__(
        self, resolve: Mapping[str, Resolved], node_resolvers: tuple[int, ...] = ()
    ) -> None:
        self._resolve = resolve
        self._node_resolvers = node_resolvers
        self._snapshot: Snapshot = EMPTY
        self._services_ever: set[str] = set()

    def load(self, snapshot: Snapshot) -> None:
        """The cluster as it is from now on."""
        self._snapshot = snapshot
        self._services_ever.update(snapshot.services)

    def place(self, address: int) -> Place:
        """An address, and the Service whose it is."""
        pod = self._snapshot.pod_at(address)
        return Place(address, None if pod else self._snapshot.service_at(address))

    def service_places(self, service: Service) -> tuple[Place, ...]:
        """What its name resolves to: its addresses, or its pods' when it is headless."""
        if not service.headless:
            found = tuple(Place(address, service) for address in service.cluster_ips)
            return found or (Place(None, service),)
        return tuple(Place(address) for pod in self._behind(service) for address in pod.ips)

    def resolvers(self, pod: Pod) -> tuple[Place, ...]:
        """The pod's own resolvers, in the order its resolver library asks them."""
        own = tuple(map(self.place, pod.nameservers))
        if pod.dns_policy in _CLUSTER_FIRST:
            return (*self._cluster_dns(pod), *own)
        if pod.dns_policy == "Default":
            if not self._node_resolvers:
                raise UnanswerableError(
                    "from",
                    f"the pod {pod.key} has dnsPolicy Default: say under node-resolvers"
                    " which resolvers its node has",
                )
            return (*map(self.place, self._node_resolvers), *own)
        if not own:
            raise UnanswerableError(
                "from", f"the pod {pod.key} has dnsPolicy {pod.dns_policy} and no nameservers"
            )
        return own

    def check_known(self, name: str, pod: Pod | None, field: str) -> None:
        """Refuse a name that nothing ever said anything about: a slip, not an outcome."""
        if name in self._resolve:
            return
        if pod is not None and any(form.key in self._services_ever for form in _forms(name, pod)):
            return
        hint = did_you_mean(name, self._resolve) or ": add it to resolve"
        raise UnanswerableError(
            field, f"{name} is neither in resolve nor the name of a Service{hint}"
        )

    def public(self, name: str, field: str) -> Answer:
        """What the world says of a name, to somebody whose lookups nobody judges."""
        self.check_known(name, None, field)
        return self._listed(name, self._resolve[name])

    def answer(self, name: str, pod: Pod, resolver: Place, server: int) -> Answer | None:
        """What a resolver tells a pod; ``server`` is what really answers. None: no such name."""
        known = self._resolve.get(name)
        if known is not None:
            return self._listed(name, known)
        if not self.knows_services(resolver, server):
            return None
        for form in _forms(name, pod):
            places = self._form_places(form)
            if places:
                return Answer(form.name, places, SERVICE_TTL)
        return None

    def knows_services(self, resolver: Place, server: int | None) -> bool:
        """Whether it is one of the cluster's own resolvers."""
        cluster = self._snapshot.cluster_resolvers
        return server in cluster or resolver.address in cluster

    def spellings(self, name: str, pod: Pod) -> tuple[str, ...]:
        """The full names that the pod's resolver library asks for, one after the other."""
        if name in self._resolve:
            return (name,)
        return tuple(form.name for form in _forms(name, pod))

    def cluster_names(self) -> Iterator[Answer]:
        """Every name that only the cluster's own resolvers know."""
        for service in self._snapshot.services.values():
            name = f"{service.name}.{service.namespace}{_SUFFIX}"
            yield Answer(name, self.service_places(service), SERVICE_TTL)
            for host in {pod.name for pod in self._behind(service)} if service.headless else ():
                form = _Form(f"{host}.{name}", service.key, host)
                yield Answer(form.name, self._form_places(form), SERVICE_TTL)

    def _listed(self, name: str, known: Resolved) -> Answer:
        return Answer(name, tuple(map(self.place, known.addresses)), known.ttl)

    def _form_places(self, form: _Form) -> tuple[Place, ...]:
        service = self._snapshot.services.get(form.key)
        if service is None or (form.host and not service.headless):
            return ()
        if not form.host:
            return self.service_places(service)
        return tuple(
            Place(a) for pod in self._behind(service) if pod.name == form.host for a in pod.ips
        )

    def _behind(self, service: Service) -> list[Pod]:
        wanted = service.selector.items()
        found = [
            pod
            for pod in self._snapshot.pods.values()
            if wanted
            and pod.namespace == service.namespace
            and wanted <= pod.labels.items()
            and pod.resolves
        ]
        return sorted(found, key=lambda pod: pod.key)

    def _cluster_dns(self, pod: Pod) -> tuple[Place, ...]:
        service = self._snapshot.services.get(DNS_SERVICE)
        if service is not None and service.selector:
            return self.service_places(service)
        pods = sorted(self._snapshot.cluster_resolvers - {NODE_LOCAL_DNS})
        if not pods:
            raise UnanswerableError(
                "from",
                f"the pod {pod.key} asks the cluster's resolver, and the manifests have neither a"
                f" Service {DNS_SERVICE} nor pods labelled k8s-app: kube-dns",
            )
        return tuple(map(self.place, pods))


def _forms(name: str, pod: Pod) -> list[_Form]:
    """The Services a name may mean. Short forms need the search list of cluster DNS."""
    if name.endswith(_SUFFIX):
        labels = name.removesuffix(_SUFFIX).split(".")
    elif pod.dns_policy in _CLUSTER_FIRST:
        labels = name.removesuffix(".svc").split(".")
        if len(labels) == 1:
            labels = [*labels, pod.namespace]
    else:
        return []
    full = ".".join(labels) + _SUFFIX
    if len(labels) == 2:
        return [_Form(full, f"{labels[1]}/{labels[0]}", "")]
    if len(labels) == 3:
        return [_Form(full, f"{labels[2]}/{labels[1]}", labels[0])]
    return []
