"""A decoded scenario document to a ``Scenario``, with every mistake in it found.

A field this version does not know is an error, not a warning: an expectation that is
skipped because of a slip of the pen would be a test that cannot fail.
"""

import math
from collections.abc import Mapping

from knp_py.engine.names import Scope
from knp_py.engine.patterns import canonical_name
from knp_py.engine.resolvers import Trust, parse_trust
from knp_py.errors import InputError
from knp_py.manifests.document import Document
from knp_py.manifests.fields import Fields, as_object, listed
from knp_py.manifests.kinds import KINDS
from knp_py.manifests.problems import Problem, Report, did_you_mean, plain, quote, show
from knp_py.model.decision import Verdict
from knp_py.model.net import parse_address
from knp_py.model.objects import Origin
from knp_py.model.packet import Proto
from knp_py.model.policy import Tier
from knp_py.replay.scenario import (
    DEFAULT_PORT,
    DEFAULT_TTL,
    Expectation,
    Ref,
    Removal,
    Resolved,
    Scenario,
    Step,
    is_address,
    kind_called,
    parse_ref,
)

PROTOCOLS: Mapping[str, int] = {
    "TCP": int(Proto.TCP),
    "UDP": int(Proto.UDP),
    "SCTP": int(Proto.SCTP),
    "ICMP": int(Proto.ICMP),
}
VERDICTS = {verdict.value: verdict for verdict in Verdict}
TIERS = {tier.text: tier for tier in Tier}
SCOPES: Mapping[str, Scope] = {"pod": "pod", "node": "node"}

_SCENARIO = (
    *("name", "description", "manifests", "resolve", "node-resolvers"),
    *("trusted-resolvers", "fqdn-scope", "steps"),
)
_STEP = ("name", "apply", "delete", "wait", "expect")
_EXPECTATION = (
    *("name", "from", "connect", "port", "protocol", "lookup", "via"),
    *("verdict", "policy", "tier"),
)


def is_scenario(value: object) -> bool:
    """Whether a decoded document looks like a scenario rather than a Kubernetes object."""
    return isinstance(value, dict) and "steps" in value and "apiVersion" not in value


def read_scenario(document: Document) -> tuple[Scenario | None, list[Problem]]:
    """The scenario a decoded document holds, or None and everything that is wrong with it."""
    problems: list[Problem] = []
    report = Report(document.origin, "", "", problems, problems)
    fields = as_object(report, "", document.value)
    scenario = None if fields is None else _Reader(document.origin, problems).read(fields)
    return (None if problems else scenario), problems


class _Reader:
    def __init__(self, origin: Origin, problems: list[Problem]) -> None:
        self._origin = origin
        self._problems = problems

    def read(self, fields: Fields) -> Scenario:
        _refuse_unknown(fields, _SCENARIO)
        steps = fields.array("steps", least=1)
        if not fields.has("steps"):
            fields.missing("steps", "a list of steps")
        fields.text("description")
        resolvers = _addresses(fields, "node-resolvers")
        return Scenario(
            origin=self._origin,
            name=fields.text("name") or self._origin.source,
            manifests=self._sources(fields, "manifests"),
            resolve=_read_resolve(fields),
            node_resolvers=resolvers,
            trust=_read_trust(fields, resolvers),
            scope=fields.word("fqdn-scope", SCOPES),
            steps=tuple(
                self._step(path, index, item) for index, (path, item) in enumerate(steps or ())
            ),
        )

    def _step(self, path: str, index: int, item: object) -> Step:
        name = item.get("name") if isinstance(item, dict) else None
        label = f'step "{plain(name)}"' if isinstance(name, str) and name else f"step {index + 1}"
        report = Report(self._origin, label, "", self._problems, self._problems)
        fields = as_object(report, path, item)
        if fields is None:
            return Step(path, label)
        _refuse_unknown(fields, _STEP)
        return Step(
            path=path,
            name=fields.text("name") or label,
            apply=self._sources(fields, "apply"),
            delete=_read_removals(fields),
            wait=_read_wait(fields),
            expect=tuple(
                expectation
                for place, entry in fields.array("expect") or ()
                if (expectation := _read_expectation(fields.report, place, entry)) is not None
            ),
        )

    def _sources(self, fields: Fields, key: str) -> tuple[str | Document, ...]:
        """Paths and objects: one of either, or a list."""
        found: list[str | Document] = []
        for path, item in _one_or_many(fields, key):
            if isinstance(item, str):
                _check_path(fields.report, path, item)
                found.append(item)
            elif isinstance(item, dict):
                source = f"{self._origin.source} {path}"
                found.append(Document(Origin(source), value=item))
            else:
                fields.report.error(path, f"found {show(item)}, expected a path or an object")
        return tuple(found)


def _refuse_unknown(fields: Fields, known: tuple[str, ...]) -> None:
    for key in fields.unknown(known):
        hint = did_you_mean(key, known) or f"; known are {listed(known)}"
        fields.error(plain(key), f"unknown field{hint}")


def _one_or_many(fields: Fields, key: str) -> list[tuple[str, object]]:
    """The items of a list, or the one value that stands for a list of one."""
    value = fields.data.get(key)
    if value is None:
        return []
    if isinstance(value, list):
        return [(f"{fields.at(key)}[{index}]", item) for index, item in enumerate(value)]
    return [(fields.at(key), value)]


def _check_path(report: Report, path: str, text: str) -> None:
    if not text.strip():
        report.error(path, "found an empty text, expected a path")
    elif text == "-":
        report.error(path, "found -, expected a path: a scenario does not read standard input")


def _addresses(fields: Fields, key: str) -> tuple[int, ...]:
    found: list[int] = []
    for path, item in _one_or_many(fields, key):
        address = _address(fields.report, path, item)
        if address is not None:
            found.append(address)
    return tuple(dict.fromkeys(found))


def _address(report: Report, path: str, item: object) -> int | None:
    if isinstance(item, str):
        try:
            return parse_address(item)
        except ValueError:
            pass
    report.error(path, f"found {show(item)}, expected an IP address")
    return None


def _read_trust(fields: Fields, node_resolvers: tuple[int, ...]) -> Trust | None:
    """``trusted-resolvers`` as the option of the same name takes it; a list is joined."""
    key = "trusted-resolvers"
    value = fields.data.get(key)
    if value is None:
        return None
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        fields.error(key, f"found {show(value)}, expected auto, any or CIDRs")
        return None
    try:
        return parse_trust(",".join(texts), node_resolvers=node_resolvers)
    except InputError:
        fields.error(
            key, f"found {quote(','.join(texts))}, expected auto, any or CIDRs like 10.96.0.10/32"
        )
        return None


def _read_resolve(fields: Fields) -> Mapping[str, Resolved]:
    table = fields.mapping("resolve")
    found: dict[str, Resolved] = {}
    if table is None:
        return found
    for text, value in table.data.items():
        path = table.at(plain(text))
        name = canonical_name(text)
        if name is None or is_address(text):
            table.report.error(path, f"found the key {quote(text)}, expected a host name")
            continue
        if name in found:
            table.report.error(path, "stands twice: names compare without case and trailing dot")
        found[name] = _read_resolved(table, text, value)
    return found


def _read_resolved(table: Fields, text: str, value: object) -> Resolved:
    """An address, a list of them, or ``{addresses, ttl}``."""
    if not isinstance(value, dict):
        addresses = _addresses(table, text)
        if not addresses and (value is None or value == []):
            table.error(plain(text), "found nothing, expected an address or a list of addresses")
        return Resolved(addresses)
    entry = Fields(table.report, table.at(plain(text)), value)
    _refuse_unknown(entry, ("addresses", "ttl"))
    if not entry.data.get("addresses"):
        entry.missing("addresses", "an address or a list of addresses")
    ttl = entry.number("ttl", 0, (1 << 31) - 1)
    return Resolved(_addresses(entry, "addresses"), DEFAULT_TTL if ttl is None else ttl)


def _read_wait(fields: Fields) -> float:
    value = fields.data.get("wait")
    if value is None:
        return 0.0
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(value, (int, float)) and number and value >= 0 and math.isfinite(value):
        return float(value)
    fields.error("wait", f"found {show(value)}, expected seconds, a number of at least 0")
    return 0.0


def _read_removals(fields: Fields) -> tuple[str | Removal, ...]:
    found: list[str | Removal] = []
    for path, item in _one_or_many(fields, "delete"):
        if not isinstance(item, str):
            fields.report.error(
                path, f"found {show(item)}, expected a path or KIND/NAMESPACE/NAME or KIND/NAME"
            )
            continue
        removal = _removal(item)
        if removal is None:
            _check_path(fields.report, path, item)
        found.append(removal or item)
    return tuple(found)


def _removal(text: str) -> Removal | None:
    """``KIND/NAME`` or ``KIND/NAMESPACE/NAME``; None for a path.

    It takes a kind that is read, in the words kubectl takes, to tell one from the other.
    """
    word, *rest = text.split("/")
    kind = kind_called(word)
    if kind is None or not 1 <= len(rest) <= 2 or not all(rest):
        return None
    if text.endswith((".yaml", ".yml", ".json")):
        return None
    namespace = rest[0] if len(rest) == 2 else ""
    if KINDS[kind].namespaced:
        return Removal(text, kind, namespace or "default", rest[-1])
    return None if namespace else Removal(text, kind, "", rest[-1])


def _read_expectation(report: Report, path: str, entry: object) -> Expectation | None:
    fields = as_object(report, path, entry)
    if fields is None:
        return None
    _refuse_unknown(fields, _EXPECTATION)
    source = _source(fields)
    lookup = fields.has("lookup")
    target = _target(fields, lookup=lookup)
    verdict = fields.word("verdict", VERDICTS)
    if not fields.has("verdict"):
        fields.missing("verdict", "allow, deny or unknown")
    protocol = fields.word("protocol", PROTOCOLS) or int(Proto.TCP)
    port = fields.number("port", 1, 65535)
    via = _via(fields)
    if lookup:
        for key in ("port", "protocol"):
            if fields.has(key):
                fields.error(key, "goes with connect, not with lookup, which asks UDP port 53")
    elif fields.has("via"):
        fields.error("via", "goes with lookup, not with connect, which asks the pod's resolvers")
    if protocol == Proto.ICMP and fields.has("port"):
        fields.error("port", "found a port, expected none: ICMP has no ports")
    tier = fields.word("tier", TIERS)
    if source is None or target is None or verdict is None:
        return None
    return Expectation(
        path=path,
        source=source,
        target=target,
        verdict=verdict,
        lookup=lookup,
        via=via,
        protocol=int(Proto.UDP) if lookup else protocol,
        port=53 if lookup else 0 if protocol == Proto.ICMP else port or DEFAULT_PORT,
        policy=fields.text("policy") or "",
        tier=tier,
        name=fields.text("name") or "",
    )


def _source(fields: Fields) -> Ref | None:
    if not fields.has("from"):
        fields.missing("from", "NAMESPACE/POD or an IP address")
        return None
    text = fields.text("from")
    ref = None if text is None else parse_ref(text)
    if text is not None and (ref is None or ref.name or ref.kind == "Service"):
        fields.error("from", f"found {quote(text)}, expected NAMESPACE/POD or an IP address")
        return None
    return ref


def _target(fields: Fields, *, lookup: bool) -> Ref | None:
    if lookup and fields.has("connect"):
        fields.error("lookup", "stands together with connect, expected one of them")
        return None
    if not lookup and not fields.has("connect"):
        fields.missing("connect", "a name, NAMESPACE/POD or an IP address (or else lookup)")
        return None
    key = "lookup" if lookup else "connect"
    text = fields.text(key)
    if text is None:
        return None
    ref = parse_ref(text)
    if ref is None or (lookup and not ref.name):
        expected = (
            "a host name" if lookup else "a name, NAMESPACE/POD, svc:NAMESPACE/NAME or an IP"
        )
        fields.error(key, f"found {quote(text)}, expected {expected}")
        return None
    return ref


def _via(fields: Fields) -> Ref | None:
    text = fields.text("via")
    ref = None if text is None else parse_ref(text)
    if text is not None and (ref is None or ref.name):
        fields.error(
            "via", f"found {quote(text)}, expected an IP address, NAMESPACE/POD or Service"
        )
        return None
    return ref
