"""What somebody at a shell inside a pod would see: names looked up, connections made.

Nothing here decides anything, and nothing is sent: what comes of a packet is for a
``Network`` to say, the engine's (``replay.judged``) or a real one. What is here is what the
pod's resolver library and Service load balancing do in between:

* A name is looked up before it is connected to, at the pod's own resolvers in order, over
  UDP; a resolver that policy denies does not answer and the next one is tried.
* A Service's address is one of its backends by the time policy sees it (semantics §1). Which
  one is chance, so backends that fare differently make the verdict ``unknown``.
* A client tries the addresses of a name in turn: one that lets it through is enough.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from knp_py.engine.services import Backend, backends
from knp_py.engine.snapshot import EMPTY, Snapshot
from knp_py.manifests.problems import did_you_mean
from knp_py.model.decision import Decision, Verdict
from knp_py.model.net import format_address, is_v4
from knp_py.model.objects import Pod, Service
from knp_py.model.packet import Packet, Proto, protocol_name
from knp_py.replay.directory import Answer, Directory, Place, UnanswerableError
from knp_py.replay.scenario import Ref

_DNS_PORT = 53


class Attempt(NamedTuple):
    """One packet that was judged. ``pod`` is the destination's ``namespace/name``, or empty."""

    packet: Packet
    decision: Decision
    pod: str = ""


class Trial(msgspec.Struct, frozen=True):
    """What came of one destination. ``attempt`` is None when no one packet decided.

    ``fault`` is what is wrong whatever was expected: two witnesses that contradict each other.
    """

    verdict: Verdict
    attempt: Attempt | None = None
    reason: str | None = None
    fault: str = ""


class Lookup(msgspec.Struct, frozen=True):
    """One resolver asked. ``untaught`` is why its answer counts for no policy by name."""

    resolver: str
    trial: Trial
    untaught: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """What the person at the shell sees.

    ``trial`` is the one that decided: of ``tried`` destinations the first that let the
    connection through, else the first. ``stage`` says whether that was already the lookup.
    ``faults`` are those of everything that was tried and looked up.
    """

    verdict: Verdict
    trial: Trial
    stage: str = "connect"  # or "lookup"
    lookups: tuple[Lookup, ...] = ()
    tried: int = 1
    faults: tuple[str, ...] = ()


class Source(NamedTuple):
    """Who connects. ``pod`` is None for whatever policy does not take for a pod."""

    text: str
    addresses: tuple[int, ...]
    pod: Pod | None = None

    def reaches(self, place: Place) -> bool:
        """Whether it has an address of the place's family."""
        return place.address is None or any(
            is_v4(place.address) == is_v4(address) for address in self.addresses
        )


class Call(NamedTuple):
    """One destination that a connection or a question goes to.

    ``source`` is the address of ``who`` that it comes from. ``backends`` are what may be
    behind a Service's address for this port, none for a port that is not served.
    """

    who: Source
    source: int
    place: Place
    protocol: int
    port: int
    backends: tuple[Backend, ...] = ()


class Asked(NamedTuple):
    """What came of a question to one resolver.

    ``answer`` is None when it says that there is no such name. ``untaught`` is why its
    answer counts for no policy by name.
    """

    trial: Trial
    answer: Answer | None = None
    untaught: str = ""


class Network(Protocol):
    """What comes of what is sent."""

    def connect(self, call: Call) -> Trial:
        """A connection."""
        ...

    def ask(self, call: Call, pod: Pod, name: str) -> Asked:
        """A pod's question for a name."""
        ...


class Shell:
    """A shell in whichever pod is asked for."""

    def __init__(self, network: Network, directory: Directory) -> None:
        self._network = network
        self._directory = directory
        self._snapshot: Snapshot = EMPTY

    def load(self, snapshot: Snapshot) -> None:
        """The cluster as it is from now on."""
        self._snapshot = snapshot
        self._directory.load(snapshot)

    def connect(self, source: Ref, target: Ref, protocol: int, port: int) -> Outcome:
        """Connect, after a lookup when the target is a name. Raises ``UnanswerableError``."""
        who = self._source(source)
        lookups: tuple[Lookup, ...] = ()
        if not target.name:
            places = self._places(target, "connect")
        elif who.pod is None:
            places = self._directory.public(target.name, "connect").places
        else:
            found, places = self._look_up(who, who.pod, target.name, None, "connect")
            if found.verdict is not Verdict.ALLOW:
                return found
            lookups = found.lookups
        trials = self._trials(who, places, protocol, port, "connect")
        best = _best(trials)
        faults = _faults([*(lookup.trial for lookup in lookups), *trials])
        return Outcome(best.verdict, best, "connect", lookups, len(trials), faults)

    def lookup(self, source: Ref, name: str, via: Ref | None) -> Outcome:
        """Look a name up, at one resolver or at the pod's own. Raises ``UnanswerableError``."""
        who = self._source(source)
        if who.pod is None:
            raise UnanswerableError("from", f"{who.text} is no pod: its lookups are not judged")
        return self._look_up(who, who.pod, name, via, "lookup")[0]

    # -- ends --------------------------------------------------------------------------

    def _source(self, ref: Ref) -> Source:
        snapshot = self._snapshot
        if ref.address is not None:
            return Source(ref.text, (ref.address,), snapshot.pod_at(ref.address))
        pod = snapshot.pod_by_key(ref.key)
        if pod is None:
            raise UnanswerableError("from", _no_such("pod", ref.key, snapshot.pod_keys))
        if pod.host_network:
            # To policy its address is its node's, and it is never a subject (semantics §1).
            addresses = pod.ips or pod.host_ips
            if not addresses:
                raise UnanswerableError("from", f"the pod {pod.key} has no address in its status")
            return Source(pod.key, addresses)
        self._check_address(pod, "from")
        return Source(pod.key, pod.ips, pod)

    def _check_address(self, pod: Pod, field: str) -> None:
        """Refuse a pod that has no address, or none that is its own."""
        if not pod.resolves:
            raise UnanswerableError(field, f"the pod {pod.key} has finished ({pod.phase})")
        if not pod.ips:
            raise UnanswerableError(field, f"the pod {pod.key} has no address in its status")
        for address in pod.ips:
            owner = self._snapshot.pod_at(address)
            if owner is not None and owner.uid != pod.uid:
                raise UnanswerableError(
                    field,
                    f"{format_address(address)} of the pod {pod.key} is taken by {owner.key},"
                    " which began later",
                )

    def _places(self, ref: Ref, field: str) -> tuple[Place, ...]:
        """The places of a target that is not a name."""
        snapshot = self._snapshot
        if ref.address is not None:
            return (self._directory.place(ref.address),)
        pod = None if ref.kind == "Service" else snapshot.pod_by_key(ref.key)
        if pod is not None:
            if pod.host_network:
                return tuple(map(self._directory.place, pod.ips or pod.host_ips))
            self._check_address(pod, field)
            return tuple(map(Place, pod.ips))
        service = None if ref.kind == "Pod" else snapshot.services.get(ref.key)
        if service is None:
            what = {"Pod": "pod", "Service": "Service"}.get(ref.kind, "pod or Service")
            raise UnanswerableError(
                field, _no_such(what, ref.key, [*snapshot.pod_keys, *snapshot.services])
            )
        places = self._directory.service_places(service)
        if not places:
            raise UnanswerableError(
                field, f"the headless Service {service.key} has no pods at this point"
            )
        return places

    # -- connections -------------------------------------------------------------------

    def _trials(
        self, who: Source, places: Sequence[Place], protocol: int, port: int, field: str
    ) -> list[Trial]:
        trials: list[Trial] = []
        for place in filter(who.reaches, places):
            trials.append(self._network.connect(self._call(who, place, protocol, port, field)))
            if trials[-1].verdict is Verdict.ALLOW:
                break
        if not trials:
            lacking = "IPv6" if any(map(is_v4, who.addresses)) else "IPv4"
            raise UnanswerableError(field, f"{who.text} has no {lacking} address to connect from")
        return trials

    def _call(self, who: Source, place: Place, protocol: int, port: int, field: str) -> Call:
        source = next(
            each
            for each in who.addresses
            if place.address is None or is_v4(each) == is_v4(place.address)
        )
        service = place.service
        if service is None:
            return Call(who, source, place, protocol, port)
        if not service.selector:
            raise UnanswerableError(
                field, f"the Service {service.key} has no selector: what is behind it is not known"
            )
        found = backends(self._snapshot, service, protocol=protocol, port=port, v4=is_v4(source))
        return Call(who, source, place, protocol, port, found)

    # -- names -------------------------------------------------------------------------

    def _look_up(
        self, who: Source, pod: Pod, name: str, via: Ref | None, field: str
    ) -> tuple[Outcome, tuple[Place, ...]]:
        """The lookup's outcome and, when it is allowed, where the name is."""
        directory = self._directory
        directory.check_known(name, pod, field)
        resolvers = directory.resolvers(pod) if via is None else self._places(via, "via")
        blame = "from" if via is None else "via"
        lookups: list[Lookup] = []
        for resolver in filter(who.reaches, resolvers):
            call = self._call(who, resolver, int(Proto.UDP), _DNS_PORT, blame)
            asked = self._network.ask(call, pod, name)
            trial = asked.trial
            if trial.verdict is not Verdict.ALLOW:
                lookups.append(Lookup(resolver.text, trial))
                continue
            if asked.answer is None:
                # That the name does not exist is an answer: no other resolver is asked.
                server = trial.attempt.packet.dst if trial.attempt else resolver.address
                known = directory.knows_services(resolver, server)
                reason = _not_found(name, resolver, known=known)
                trial = Trial(Verdict.DENY, reason=reason, fault=trial.fault)
                lookups.append(Lookup(resolver.text, trial))
                return _looked_up(trial, lookups), ()
            lookups.append(Lookup(resolver.text, trial, asked.untaught))
            return _looked_up(trial, lookups), asked.answer.places
        if not lookups:
            raise UnanswerableError(blame, f"{who.text} has no address to reach a resolver from")
        return _looked_up(_best([lookup.trial for lookup in lookups]), lookups), ()


def _looked_up(trial: Trial, lookups: list[Lookup]) -> Outcome:
    faults = _faults([lookup.trial for lookup in lookups])
    return Outcome(trial.verdict, trial, "lookup", tuple(lookups), len(lookups), faults)


def _faults(trials: Iterable[Trial]) -> tuple[str, ...]:
    return tuple(trial.fault for trial in trials if trial.fault)


def _best(trials: Sequence[Trial]) -> Trial:
    """The first that allows, else the first nobody can tell, else the first."""
    for verdict in (Verdict.ALLOW, Verdict.UNKNOWN):
        for trial in trials:
            if trial.verdict is verdict:
                return trial
    return trials[0]


def _no_such(what: str, key: str, known: Iterable[str]) -> str:
    return f"there is no {what} {key} at this point{did_you_mean(key, sorted(known))}"


def _not_found(name: str, resolver: Place, *, known: bool) -> str:
    if known:
        return f"{resolver.text} knows no {name}: there is no such Service at this point"
    return f"{resolver.text} knows no {name}: only the cluster's own resolvers know Services"


def unserved(service: Service, protocol: int, port: int) -> str:
    """Why a Service has no backend for a port."""
    word = protocol_name(protocol)
    if any((each.protocol, each.port) == (protocol, port) for each in service.ports):
        return f"the Service {service.key} has no pod behind port {port}/{word}"
    ports = [f"{each.port}/{protocol_name(each.protocol)}" for each in service.ports]
    return (
        f"the Service {service.key} has no port {port}/{word},"
        f" only {', '.join(ports) or 'none at all'}"
    )
