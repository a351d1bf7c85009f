"""A full cluster for the API server of the tests, and pods that come and go in it."""

import threading
import time
from itertools import islice
from typing import Protocol

from helpers.apiserver_pods import (
    APPS,
    Lives,
    Mould,
    Place,
    Step,
    network,
    node,
)
from helpers.apiserver_policies import cluster_policy, network_policy
from helpers.apiserver_store import Store, Stored
from helpers.apiserver_types import PODS, Doc


class Api(Protocol):
    """What is filled."""

    @property
    def store(self) -> Store: ...
    def apply(self, doc: Doc, *, bulk: bool = False) -> Doc: ...
    def delete(self, kind: str, namespace: str, name: str) -> Doc: ...


class Fleet(Protocol):
    """What takes the steps of pods' lives: a real server as well."""

    def apply(self, doc: Doc, *, bulk: bool = False) -> Doc: ...
    def delete(self, kind: str, namespace: str, name: str) -> Doc: ...


def namespace_names(count: int) -> list[str]:
    """Of a cluster's namespaces, in order."""
    return [f"shop-{index:03d}" for index in range(count)]


def fill(
    api: Api,
    *,
    pods: int,
    namespaces: int,
    nodes: int,
    networkpolicies: int,
    cnps: int,
    domain_names: bool,
) -> None:
    """Namespaces, nodes, policies and running pods; pods are spread evenly over all."""
    names = namespace_names(namespaces)
    for index, name in enumerate(names):
        labels = {"team": f"team-{index % 7}", "pod-security.kubernetes.io/enforce": "baseline"}
        metadata = {"name": name, "labels": labels}
        api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, bulk=True)
    places: list[Place] = []
    for index in range(nodes):
        doc, place = node(index)
        places.append(place)
        api.apply(doc, bulk=True)
    for index in range(networkpolicies):
        api.apply(network_policy(index, names[index % len(names)]), bulk=True)
    for index in range(cnps):
        api.apply(cluster_policy(index, names=domain_names), bulk=True)
    if pods > nodes * 200:
        raise ValueError(f"{pods} pods do not fit on {nodes} nodes of 200")
    moulds = [Mould(app) for app in APPS]
    store = api.store
    with store.lock:
        for index in range(pods):
            where = index % nodes
            place = places[where]
            host = index // nodes + 1
            store.keep(_moulded(store, moulds, index, names, f"{network(where)}.{host}", place))


def _moulded(
    store: Store, moulds: list[Mould], index: int, names: list[str], ip: str, place: Place
) -> Stored:
    mould = moulds[index % len(moulds)]
    app = APPS[index % len(APPS)]
    short = f"p{index:05d}"
    namespace = names[index // len(APPS) % len(names)]
    version = store.revision + 1
    body = mould.body(
        uid=store.uid(),
        version=version,
        name=short,
        namespace=namespace,
        ip=ip,
        node=place.name,
        host=place.address,
    )
    name = f"{app}-7d9c6b5f48-{short}"
    return Stored(PODS, namespace, name, version, mould.labels, body, place.name, "Running", ip)


def take(api: Fleet, step: Step, *, bulk: bool = True) -> None:
    """Have a step happen."""
    metadata = step.doc["metadata"]
    if step.gone:
        api.delete("Pod", metadata["namespace"], metadata["name"])
    else:
        api.apply(step.doc, bulk=bulk)


class Churn:
    """Pods that come and go, ``rate`` events a second (None: as fast as it goes)."""

    def __init__(
        self,
        api: Fleet,
        places: list[Place],
        namespaces: list[str],
        *,
        rate: float | None,
        seconds: float | None,
        events: int | None,
        seed: int,
        living: int,
        first: int = 0,
    ) -> None:
        if events is None and (rate is None or seconds is None):
            raise ValueError("churn ends after so many events, or so many seconds at a rate")
        self.count = 0
        self._api = api
        self._rate = rate
        self._events = events if events is not None else int((rate or 0) * (seconds or 0))
        self._steps = Lives(seed, places, namespaces, first).steps(living)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.run, name="churn", daemon=True)

    def run(self) -> int:
        """Until it is over; how many events there were."""
        started = time.monotonic()
        for index, step in enumerate(islice(self._steps, self._events)):
            if self._rate is not None:
                self._stop.wait(max(0.0, started + index / self._rate - time.monotonic()))
            if self._stop.is_set():
                break
            take(self._api, step)
            self.count += 1
        return self.count

    def start(self) -> "Churn":
        """Run beside."""
        self._thread.start()
        return self

    def stop(self) -> int:
        """No more events; how many there were."""
        self._stop.set()
        return self.join()

    def join(self) -> int:
        """Wait until it is over; how many there were."""
        if self._thread.ident is not None:
            self._thread.join()
        return self.count


class Busy(Fleet, Protocol):
    """A server whose pods can be made to come and go, on so many nodes, in so many namespaces."""

    nodes: int = 3
    namespaces: int = 3

    def new_churn(
        self,
        rate: float | None = None,
        seconds: float | None = None,
        seed: int = 0,
        *,
        events: int | None = None,
        living: int = 40,
    ) -> Churn:
        """Pods that come and go (about ``living`` at a time); not started."""
        return Churn(
            self,
            [node(index)[1] for index in range(self.nodes)],
            namespace_names(self.namespaces),
            rate=rate,
            seconds=seconds,
            events=events,
            seed=seed,
            living=living,
        )

    def churn(
        self,
        rate: float | None = None,
        seconds: float | None = None,
        seed: int = 0,
        *,
        events: int | None = None,
    ) -> int:
        """The same, waited for; how many events there were."""
        return self.new_churn(rate, seconds, seed, events=events).run()
