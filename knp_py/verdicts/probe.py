"""Probes: flows to ask about, as lines of JSON, and their answers (``knp eval``)."""

from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.explain import DirectionSteps, explain
from knp_py.engine.guard import Guard
from knp_py.engine.names import DomainCache
from knp_py.engine.patterns import canonical_name
from knp_py.engine.services import Backend, backends
from knp_py.engine.snapshot import Snapshot
from knp_py.errors import ProbeError
from knp_py.manifests.problems import nearest
from knp_py.model.decision import Decision
from knp_py.model.net import format_address, is_v4
from knp_py.model.objects import Pod, Service
from knp_py.model.packet import Packet, Proto, protocol_name
from knp_py.verdicts.assumed import made_up_notes
from knp_py.verdicts.ends import Place, find, pairs, stand_in
from knp_py.verdicts.read import WORDS
from knp_py.verdicts.record import Answer, End, answer
from knp_py.verdicts.words import decision_text

DEFAULT_PORT = 443
_EPHEMERAL = 49152  # source ports never matter; RFC 6335 §6
_PORTED = {"TCP": Proto.TCP, "UDP": Proto.UDP, "SCTP": Proto.SCTP}
_PORTLESS = {"ICMP": Proto.ICMP, "ICMPV6": Proto.ICMPV6, "UNKNOWN": Proto.UNKNOWN}


class Probe(msgspec.Struct, frozen=True, rename={"source": "from", "destination": "to"}):
    """One flow to ask about. ``port`` may be a number, or a name the destination pod gives.

    ``names`` are taken as learned by the source for the destination; ``expect`` is the
    verdict somebody expects. Keys beyond these are allowed and mean nothing.
    """

    source: str
    destination: str
    id: Any = None
    protocol: str | None = None
    port: int | str | None = None
    names: tuple[str, ...] | None = None
    expect: str | None = None


class Failure(msgspec.Struct, frozen=True):
    """A probe that has no answer, and why."""

    id: Any
    error: str


_decoder = msgspec.json.Decoder(Probe)


def parse_probe(line: bytes | str) -> Probe:
    """A line of JSON to a probe. Raises ``ProbeError`` naming the field that is wrong."""
    try:
        probe = _decoder.decode(line)
    except msgspec.ValidationError as error:
        raise ProbeError(str(error).replace("`$.", "`").replace(" - at", " at")) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProbeError(f"not JSON: {error}") from None
    if probe.expect is None:
        _refuse_almost_expect(line)
    elif probe.expect not in WORDS:
        raise ProbeError(f"expect: {probe.expect!r} is not one of {', '.join(sorted(WORDS))}")
    return probe


def _refuse_almost_expect(line: bytes | str) -> None:
    """A probe that lost its expectation to a typo would be met whatever happens."""
    for key in msgspec.json.decode(line):
        if nearest(key, ("expect",)) is not None:
            raise ProbeError(f"unknown key {key!r}, did you mean 'expect'?")


def probe_id(line: bytes | str) -> Any:
    """The ``id`` of a line that is no good probe, if it has one."""
    try:
        document = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    return document.get("id") if isinstance(document, dict) else None


class Asked(NamedTuple):
    """A probe's answer, the decision behind it and, if asked for, the way there.

    ``backends`` is how many pods were judged that are behind a Service.
    """

    answer: Answer
    decision: Decision | None
    steps: tuple[DirectionSteps, ...]
    backends: int = 0


class Prober:
    """Asks one engine about one cluster. Names hold for the probe that gives them only.

    ``resolve_services``: a Service as destination stands for its backends.
    """

    def __init__(
        self, snapshot: Snapshot, *, explain: bool = False, resolve_services: bool = False
    ) -> None:
        self._snapshot = snapshot
        self._names = DomainCache()
        self._engine = PolicyEngine(names=self._names)
        self._engine.load(snapshot)
        self._guard = Guard()
        self._explain = explain
        self._resolve = resolve_services
        self._stand_ins: dict[bool, int] = {}

    def ask(self, probe: Probe) -> Asked:
        """The answer. Raises ``ProbeError`` when the probe means no flow of this cluster."""
        source = find(self._snapshot, probe.source, "from")
        destination = find(self._snapshot, probe.destination, "to")
        protocol = _protocol(probe.protocol)
        if destination.service is not None and (self._resolve or not destination.addresses):
            return self._behind(probe, source, destination, protocol)
        assumed = not destination.addresses
        if assumed:
            destination = destination._replace(addresses=self._anywhere(source))
        found = [
            self._over(probe, source, destination, (src, dst), protocol, assumed=assumed)
            for src, dst in pairs(source, destination, (probe.source, probe.destination))
        ]
        return found[0] if len(found) == 1 else _laxer(*found)

    def _over(
        self,
        probe: Probe,
        source: Place,
        destination: Place,
        ends: tuple[int, int],
        protocol: str,
        *,
        assumed: bool,
    ) -> Asked:
        """The answer for one pair of addresses."""
        src, dst = ends
        notes: list[str] = []
        if assumed:
            notes.append(
                f"{format_address(dst)} stands for a public address of {destination.name};"
                " the lookup itself is not judged"
            )
        port = self._port(probe.port, protocol, destination)
        names = self._learned(probe, source, destination, dst, notes)
        if probe.port is None and port is not None:
            notes += _default_port_notes(destination.pod, _PORTED[protocol])
        notes += _place_notes(source, destination, self._snapshot, port, protocol)
        return self._judge(
            probe,
            source,
            src,
            _end(destination, dst, assumed=assumed, names=names),
            dst,
            protocol,
            port,
            names,
            notes,
        )

    def _anywhere(self, source: Place) -> tuple[int, ...]:
        """One address of each family the source has: a name may have both kinds."""
        for v4 in (True, False):
            if v4 not in self._stand_ins and any(is_v4(a) == v4 for a in source.addresses):
                self._stand_ins[v4] = stand_in(self._snapshot, v4=v4)
        families = dict.fromkeys(map(is_v4, source.addresses))
        return tuple(self._stand_ins[v4] for v4 in families)

    def _port(self, port: int | str | None, protocol: str, destination: Place) -> int | None:
        if protocol not in _PORTED:
            if port is not None:
                raise ProbeError(f"port: {protocol} has no ports")
            return None
        if port is None:
            return DEFAULT_PORT
        if isinstance(port, str) and not (port.isascii() and port.isdigit()):
            return _named_port(port, protocol, destination.pod)
        if isinstance(port, str) and len(port) > 5:
            raise ProbeError("port: more than five digits is not between 0 and 65535")
        number = int(port)
        if not 0 <= number <= 65535:
            raise ProbeError(f"port: {number} is not between 0 and 65535")
        return number

    def _learned(
        self, probe: Probe, source: Place, destination: Place, dst: int, notes: list[str]
    ) -> tuple[str, ...]:
        """The names that count as learned, as they are compared; why not goes to ``notes``."""
        given = [*(probe.names or ())]
        if destination.name is not None:
            given.insert(0, destination.name)
        if given and self._snapshot.pod_at(source.addresses[0]) is None:
            notes.append("names are learned by pods; the source is none")
            return ()
        names: dict[str, None] = {}
        for text in given:
            name = canonical_name(text)
            if name is None:
                raise ProbeError(f"names: {text!r} is no domain name")
            # What the caller says was learned was learned, wherever it points: only what can
            # never be a public service stays closed to names (semantics §6).
            refusal = self._guard.refusal(name, dst, None)
            if refusal is None:
                names[name] = None
            else:
                notes.append(f"{name} cannot open {format_address(dst)}: {refusal}")
        return tuple(names)

    def _judge(
        self,
        probe: Probe,
        source: Place,
        src: int,
        end: End,
        dst: int,
        protocol: str,
        port: int | None,
        names: tuple[str, ...],
        notes: list[str],
    ) -> Asked:
        number = _PORTED.get(protocol)
        if number is None:
            number = _PORTLESS[protocol.upper()]
            if number is Proto.ICMP and not is_v4(dst):
                number = Proto.ICMPV6
        packet = Packet(src, dst, int(number), _EPHEMERAL if port is not None else 0, port or 0)
        pod = self._snapshot.pod_at(src)
        if pod is not None:
            for name in names:
                self._names.learn(pod, name, dst, ttl=0, now=0.0, source=None)
        try:
            if self._explain:
                decision, steps = explain(self._engine, packet, now=0.0)
            else:
                decision, steps = self._engine.evaluate(packet, now=0.0), ()
        finally:
            if pod is not None and names:
                self._names.forget(pod.uid)
        result = answer(
            decision,
            id=probe.id,
            source=_end(source, src),
            destination=end,
            protocol=protocol_name(number) if protocol == "unknown" else protocol,
            port=port,
            notes=(*notes, *made_up_notes(self._snapshot, packet, decision)),
            expect=probe.expect,
        )
        return Asked(result, decision, steps)

    def _behind(self, probe: Probe, source: Place, destination: Place, protocol: str) -> Asked:
        """The answer for a Service: what policy says of its backends, if that is one thing."""
        service = destination.service
        if service is None:  # pragma: no cover  the caller's condition
            raise ProbeError("to: no Service")
        text = f"Service {service.key}"
        if not self._resolve:
            raise ProbeError(
                f"to: {probe.destination} is {text}, which policy never sees: ask about a pod"
                " behind it, or about all with --resolve-services"
            )
        number = _PORTED.get(protocol)
        if number is None:
            raise ProbeError(f"to: {text} takes no {protocol}")
        asked = probe.port if probe.port is not None else DEFAULT_PORT
        port = _service_port(service, asked, number)
        # Destination NAT keeps the family of the address that was asked for.
        v4 = any(map(is_v4, destination.addresses or source.addresses))
        found = backends(self._snapshot, service, protocol=int(number), port=port, v4=v4)
        if not found:
            raise ProbeError(f"to: {text} has no backend for {protocol} port {port}")
        judged = [self._backend(probe, source, service, one, protocol) for one in found]
        verdicts = {one.answer.verdict for one in judged}
        first = judged[0]
        lines = [_backend_note(b, one) for b, one in zip(found, judged, strict=True)]
        notes = tuple(
            dict.fromkeys([*lines, *(n for one in judged for n in one.answer.notes or ())])
        )
        if len(verdicts) == 1:
            one_verdict = msgspec.structs.replace(first.answer, notes=notes)
            return first._replace(answer=one_verdict, backends=len(found))
        mixed = msgspec.structs.replace(
            first.answer,
            verdict="unknown",
            destination=End(None, service=service.key),
            port=port,
            decided_by=None,
            egress=None,
            ingress=None,
            reason="the backends of the Service differ",
            notes=notes,
        )
        return Asked(mixed, None, (), len(found))

    def _backend(
        self, probe: Probe, source: Place, service: Service, backend: Backend, protocol: str
    ) -> Asked:
        place = Place((backend.address,), pod=backend.pod)
        ((src, dst),) = pairs(source, place, (probe.source, backend.pod.key))
        notes: list[str] = []
        names = self._learned(probe, source, place, dst, notes)
        end = msgspec.structs.replace(_end(place, dst, names=names), service=service.key)
        return self._judge(probe, source, src, end, dst, protocol, backend.port, names, notes)


def _laxer(first: Asked, second: Asked) -> Asked:
    """Of both families, what a client gets that tries both (RFC 8305): allow if one is."""
    verdicts = first.answer.verdict, second.answer.verdict
    if verdicts[0] == verdicts[1]:
        return first
    shown, other = (first, second) if verdicts[0] == "allow" else (second, first)
    why = "" if other.decision is None else f": {decision_text(other.decision)}"
    note = (
        f"over {_family(other)} ({other.answer.source.ip} to {other.answer.destination.ip}) the"
        f" verdict is {other.answer.verdict}{why}"
    )
    notes = (note, *(shown.answer.notes or ()))
    return shown._replace(answer=msgspec.structs.replace(shown.answer, notes=notes))


def _family(asked: Asked) -> str:
    return "IPv6" if ":" in (asked.answer.source.ip or "") else "IPv4"


def _protocol(text: str | None) -> str:
    if text is None:
        return "TCP"
    word = text.upper()
    if word in _PORTED:
        return word
    if word in _PORTLESS:
        return {"ICMPV6": "ICMPv6", "UNKNOWN": "unknown"}.get(word, word)
    raise ProbeError(f"protocol: {text!r} is not one of TCP, UDP, SCTP, ICMP")


def _named_port(name: str, protocol: str, pod: Pod | None) -> int:
    if pod is None:
        raise ProbeError(f"port: {name!r} is a name, which only a pod as destination has")
    for port in pod.ports:
        if port.name == name and port.protocol == _PORTED[protocol]:
            return port.port
    named = sorted({port.name for port in pod.ports if port.protocol == _PORTED[protocol]})
    raise ProbeError(
        f"port: pod {pod.key} has no {protocol} port called {name!r}"
        + (f", only {', '.join(named)}" if named else "")
    )


def _service_port(service: Service, port: int | str, protocol: Proto) -> int:
    for known in service.ports:
        if known.protocol == protocol and str(port) in {known.name, str(known.port)}:
            return known.port
    ports = ", ".join(f"{protocol_name(p.protocol)} {p.port}" for p in service.ports)
    raise ProbeError(
        f"to: Service {service.key} has no {protocol_name(protocol)} port {port}"
        + (f", only {ports}" if ports else "")
    )


def _end(place: Place, address: int, *, assumed: bool = False, names: tuple[str, ...] = ()) -> End:
    return End(
        format_address(address),
        pod=place.pod.key if place.pod is not None else UNSET,
        node=place.node.name if place.node is not None else UNSET,
        name=place.name or UNSET,
        service=place.service.key if place.service is not None else UNSET,
        assumed=True if assumed or (place.pod is not None and place.pod.made_up) else UNSET,
        names=names or UNSET,
    )


def _backend_note(backend: Backend, asked: Asked) -> str:
    where = f"{backend.pod.key} {format_address(backend.address)}:{backend.port}"
    why = "" if asked.decision is None else f", {decision_text(asked.decision)}"
    return f"backend {where}: {asked.answer.verdict}{why}"


def _default_port_notes(pod: Pod | None, protocol: Proto) -> list[str]:
    """That the port is our own choice, where it is likely to be the wrong one."""
    if pod is None or pod.host_network:
        return []
    named = [port for port in pod.ports if port.protocol == protocol]
    if any(port.port == DEFAULT_PORT for port in named):
        return []
    text = f"no port was given, so {DEFAULT_PORT} is judged"
    if named:
        text += f"; {pod.key} has {', '.join(f'{p.port} ({p.name})' for p in named[:3])}"
    return [text]


def _place_notes(
    source: Place, destination: Place, snapshot: Snapshot, port: int | None, protocol: str
) -> list[str]:
    notes = [
        f"pod {place.pod.key} is on the host network: to policy it is its node"
        for place in (source, destination)
        if place.pod is not None and place.pod.host_network
    ]
    service = destination.service
    if service is not None:
        notes.append(f"judged as written, but {_translated(snapshot, service, port, protocol)}")
    return notes


def _translated(snapshot: Snapshot, service: Service, port: int | None, protocol: str) -> str:
    number = _PORTED.get(protocol)
    found = (
        backends(snapshot, service, protocol=int(number), port=port)
        if number is not None and port is not None
        else ()
    )
    text = f"this is Service {service.key}, and policy sees the pod behind it"
    if found:
        shown = ", ".join(f"{b.pod.key}:{b.port}" for b in found[:3])
        text += f" ({shown}{', ...' if len(found) > 3 else ''}; --resolve-services)"
    return text
