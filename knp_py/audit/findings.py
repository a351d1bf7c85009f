"""What lint can say: the catalogue of checks, and a finding as a value.

A check's id never changes once released: people silence findings by it.
"""

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

import msgspec

from knp_py.model.objects import Origin
from knp_py.model.policy import ClusterNetworkPolicy, Direction, Policy


class Severity(IntEnum):
    """``ERROR``: does not do what is written. ``WARNING``: most likely not what was meant."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def text(self) -> str:
        """As in records: info, warning, error."""
        return self.name.lower()


class Check(NamedTuple):
    """One thing that lint looks for.

    ``severity`` is the usual one; ``other`` what some of its findings have instead.
    """

    id: str
    severity: Severity
    title: str
    other: Severity | None = None

    @property
    def severities(self) -> list[Severity]:
        """All that its findings can have, the gravest first."""
        other = self.severity if self.other is None else self.other
        return sorted({self.severity, other}, reverse=True)


_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

_CHECKS = (
    Check("invalid-object", _ERROR, "The API server would reject the object"),
    Check("unknown-peer", _ERROR, "A peer has no field this version knows: the rule fails closed"),
    Check("unknown-port", _ERROR, "A protocol or port has no field this version knows"),
    Check("unknown-action", _ERROR, "A rule's action is none of Accept, Deny and Pass: it denies"),
    Check("names-outside-accept", _ERROR, "domainNames in a Deny or Pass rule: it fails closed"),
    Check("unmatchable-name", _WARNING, "A domainNames entry that no host can have"),
    Check("unknown-field", _ERROR, "A field that the API does not have: kubectl refuses it"),
    Check("suspicious-input", _WARNING, "The object is read, but not as its author may think"),
    Check("equal-priority", _WARNING, "Policies of one tier and priority disagree about a flow"),
    Check("shadowed-rule", _WARNING, "A rule that never decides: earlier rules take its flows"),
    Check("selects-nothing", _WARNING, "A policy selects no pod of the input", _INFO),
    Check("peer-matches-nothing", _WARNING, "A peer matches no pod or node of the input", _INFO),
    Check("impossible-selector", _WARNING, "A selector that contradicts itself"),
    Check("named-port-nowhere", _WARNING, "A port name that no destination pod has"),
    Check(
        "host-network-subject",
        _WARNING,
        "A policy selects host-network pods: no effect there",
        _INFO,
    ),
    Check(
        "service-address", _WARNING, "A network is a Service's address, which policy never sees"
    ),
    Check("service-port", _WARNING, "A port is the Service's, where the pods listen on another"),
    Check(
        "names-without-dns",
        _WARNING,
        "Names are allowed, but nothing lets DNS out to learn them",
        _INFO,
    ),
    Check("names-without-deny", _WARNING, "Names are allowed, but nothing denies other addresses"),
    Check(
        "one-family-deny", _WARNING, "A catch-all deny of IPv4 without IPv6, or the reverse", _INFO
    ),
    Check("inert-rules", _WARNING, "Rules of a direction that policyTypes leaves out"),
    Check(
        "opened-elsewhere",
        _WARNING,
        "Another NetworkPolicy allows everything to the same pods",
        _INFO,
    ),
    Check("metadata-server-open", _WARNING, "A wide allow includes the metadata server's address"),
    Check("no-rules", _WARNING, "A ClusterNetworkPolicy without rules"),
    Check("shadowed-now", _INFO, "A rule that never decides for the pods of the input"),
    Check("redundant-rule", _INFO, "A rule whose flows another rule treats the same"),
    Check("overruled-rule", _INFO, "A rule that the tiers before it never leave anything"),
    Check(
        "unknown-namespace",
        _INFO,
        "A policy is in or names a namespace that the input has not",
        _WARNING,
    ),
    Check("dns-anywhere", _INFO, "DNS is allowed to every server: data can leave that way"),
    Check("dns-over-tcp", _INFO, "DNS is allowed over UDP only: long answers are lost"),
    Check("old-api", _INFO, "An older API that ClusterNetworkPolicy replaces"),
    Check("duplicate-rule-name", _INFO, "Two rules of a policy have one name"),
    Check("ignored-object", _INFO, "An object of a kind that policy does not read"),
    Check("no-pods", _INFO, "No pods in the input: checks that need them are left out"),
    Check("no-policies", _INFO, "No policy in the input"),
    Check("not-checked", _INFO, "The input is so large that a check stopped half-way"),
)
CATALOGUE: Mapping[str, Check] = {check.id: check for check in _CHECKS}


class Finding(msgspec.Struct, frozen=True):
    """One finding.

    ``object`` is ``Kind name`` or ``Kind namespace/name``, ``path`` a field such as
    ``spec.egress[0].to[1]``; both are empty for what is about the input as a whole.
    ``message`` says what is so and why it matters, ``fix`` what to do next.
    """

    id: str
    severity: Severity
    object: str
    origin: Origin
    path: str
    message: str
    fix: str

    def record(self) -> dict[str, str | int | None]:
        """As in JSON; ``document`` counts from 1 in a file of several, else null.

        ``derived_from`` is the object that the policy was derived from, if it has no document.
        """
        return {
            "id": self.id,
            "severity": self.severity.text,
            "object": self.object,
            "file": self.origin.source or None,
            "document": self.origin.document or None,
            "derived_from": self.origin.derived_from or None,
            "path": self.path,
            "message": self.message,
            "fix": self.fix,
        }


class Collector:
    """Takes findings as the checks make them; ``ignore`` are ids that are left out."""

    def __init__(self, ignore: Iterable[str] = ()) -> None:
        self._ignore = frozenset(ignore)
        self._found: list[Finding] = []
        self._keys: set[tuple[str, str, str]] = set()

    def wants(self, check: str) -> bool:
        """Whether findings of this check are asked for: a costly one need not look."""
        return check not in self._ignore

    def about(
        self,
        check: str,
        policy: Policy,
        path: str,
        message: str,
        fix: str,
        severity: Severity | None = None,
    ) -> None:
        """A finding about a policy."""
        self.add(check, describe(policy), policy.origin, path, message, fix, severity)

    def overall(self, check: str, message: str, fix: str) -> None:
        """A finding about the input as a whole."""
        self.add(check, "", Origin(), "", message, fix)

    def add(
        self,
        check: str,
        subject: str,
        origin: Origin,
        path: str,
        message: str,
        fix: str,
        severity: Severity | None = None,
    ) -> None:
        """A finding about anything. Raises ``KeyError`` for an id not in the catalogue."""
        usual = CATALOGUE[check].severity
        if check not in self._ignore:
            self._keys.add((check, subject, path))
            chosen = usual if severity is None else severity
            self._found.append(Finding(check, chosen, subject, origin, path, message, fix))

    def has(self, check: str, subject: str, path: str) -> bool:
        """Whether such a finding was made; ``subject`` as in findings."""
        return (check, subject, path) in self._keys

    def places(self) -> set[tuple[str, str]]:
        """(object, path) of every finding so far."""
        return {(subject, path) for _, subject, path in self._keys}

    def sorted(self) -> list[Finding]:
        """By file, document, object and field; what is about the whole input comes last."""
        return sorted(self._found, key=_order)


def _order(finding: Finding) -> tuple[object, ...]:
    origin = finding.origin
    return (
        not finding.object and not origin.source,
        origin.source,
        origin.document,
        finding.object,
        _natural(finding.path),
        finding.id,
        finding.message,
    )


def _natural(path: str) -> list[tuple[int, str]]:
    """A key by which ``rule[10]`` comes after ``rule[9]``."""
    parts = re.split(r"([0-9]+)", path)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def describe(policy: Policy) -> str:
    """``Kind name`` or ``Kind namespace/name``."""
    if isinstance(policy, ClusterNetworkPolicy):
        # Older kinds carry theirs in the name too, since names are unique only per kind.
        return f"{policy.kind} {policy.name.removeprefix(f'{policy.kind}/')}"
    return f"NetworkPolicy {policy.key}"


def rule_path(direction: Direction, rule: int) -> str:
    """The field of a rule."""
    return f"spec.{direction.text}[{rule}]"


def peer_path(direction: Direction, rule: int, peer: int) -> str:
    """The field of a rule's peer."""
    side = "to" if direction is Direction.EGRESS else "from"
    return f"{rule_path(direction, rule)}.{side}[{peer}]"


def port_path(policy: Policy, direction: Direction, rule: int, port: int) -> str:
    """The field of a rule's protocol or port entry."""
    new = isinstance(policy, ClusterNetworkPolicy) and policy.kind == "ClusterNetworkPolicy"
    return f"{rule_path(direction, rule)}.{'protocols' if new else 'ports'}[{port}]"


def subject_path(policy: Policy) -> str:
    """The field that selects the policy's pods."""
    return "spec.subject" if isinstance(policy, ClusterNetworkPolicy) else "spec.podSelector"


def listing(words: Iterable[str], most: int = 3) -> str:
    """``a, b and c``; of more than ``most`` the first, and how many there are besides."""
    found = list(words)
    if len(found) > most:
        return f"{', '.join(found[:most])} and {len(found) - most} more"
    if len(found) < 2:
        return "".join(found)
    return f"{', '.join(found[:-1])} and {found[-1]}"
