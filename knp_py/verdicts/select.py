"""Which entries of a verdict log somebody asked for."""

import re
from collections.abc import Callable
from fnmatch import translate

import msgspec

from knp_py.engine.patterns import canonical_name, canonical_pattern
from knp_py.errors import InputError
from knp_py.model.net import parse_address, parse_cidr
from knp_py.verdicts.read import VerdictEntry
from knp_py.verdicts.record import End, Omission

EndTest = Callable[[End], bool]


def end_test(text: str, option: str) -> EndTest:
    """A test for one end of a flow: ``NS/POD``, an address or a network.

    Namespace and name may be patterns as a shell has them: ``shop/web-*``, ``*/dns-?``.
    Raises ``InputError`` naming the option for anything else.
    """
    try:
        if "/" not in text:
            address = parse_address(text)
            return lambda end: _address(end) == address
        network = parse_cidr(text)
    except ValueError:
        namespace, _, name = text.partition("/")
        # A namespace is a DNS label, so what has a dot or a colon was meant for a network.
        if not namespace or not name or "/" in name or "." in namespace or ":" in namespace:
            raise InputError(
                f"{option}: {text!r} is neither NS/POD nor an address nor a network"
            ) from None
        return _pod_test(namespace, name)
    return lambda end: network.__contains__(_address(end))


def _pod_test(namespace: str, name: str) -> EndTest:
    if not any(c in "*?[" for c in namespace + name):
        return lambda end: end.pod == f"{namespace}/{name}"
    in_namespace = re.compile(translate(namespace)).fullmatch
    called = re.compile(translate(name)).fullmatch

    def test(end: End) -> bool:
        if not isinstance(end.pod, str):
            return False
        where, _, what = end.pod.partition("/")
        return bool(in_namespace(where) and called(what))

    return test


def _address(end: End) -> int | None:
    try:
        return parse_address(end.ip or "")
    except ValueError:
        return None


def name_test(pattern: str) -> EndTest:
    """A test for names as policies match them: exact, or ``*.`` and whole labels in front."""
    wanted = canonical_pattern(pattern)
    if wanted is None:
        raise InputError(
            f"--name: {pattern!r} is no domain name and no pattern like *.example.com"
        )

    def test(end: End) -> bool:
        names = (canonical_name(name) for name in end.names or ())
        if wanted.startswith("*."):
            return any(name is not None and name.endswith(wanted[1:]) for name in names)
        return wanted in names

    return test


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What to keep; empty keeps all. ``since`` is a time in the form of our records.

    ``policy`` is a name, or ``namespace/name``; it matches the policy that decided and
    those that isolate. Entries without a time pass ``since``.
    """

    verdicts: frozenset[str] = frozenset()
    either: EndTest | None = None
    source: EndTest | None = None
    destination: EndTest | None = None
    name: EndTest | None = None
    policy: str = ""
    tier: str = ""
    since: str = ""

    def matches(self, entry: VerdictEntry) -> bool:
        """Whether the entry is asked for."""
        if self.verdicts and entry.verdict not in self.verdicts:
            return False
        if self.since and entry.ts is not None and entry.ts < self.since:
            return False
        if self.either and not (self.either(entry.src) or self.either(entry.dst)):
            return False
        if self.source and not self.source(entry.src):
            return False
        if self.destination and not self.destination(entry.dst):
            return False
        if self.name and not self.name(entry.dst):
            return False
        decided = entry.decided_by
        if self.tier and (decided is None or decided.tier != self.tier):
            return False
        return not self.policy or _by_policy(entry, self.policy)

    def concerns(self, omission: Omission) -> bool:
        """Whether some of what was left out may be what is asked for."""
        if self.verdicts and not self.verdicts & omission.omitted.keys():
            return False
        return not (self.since and omission.ts is not None and omission.ts < self.since)


def _by_policy(entry: VerdictEntry, wanted: str) -> bool:
    named = list(entry.isolated_by or ())
    if entry.decided_by is not None and entry.decided_by.policy:
        named.append(entry.decided_by.policy)
    return any(name == wanted or name.endswith(f"/{wanted}") for name in named)
