"""A verdict and the reason for it."""

from enum import Enum
from typing import NamedTuple

import msgspec

from knp_py.model.policy import Direction, Tier


class Verdict(Enum):
    """The words every output uses."""

    ALLOW = "allow"
    DENY = "deny"
    UNKNOWN = "unknown"


class Ruling(msgspec.Struct, frozen=True):
    """What decided one direction. Built once per rule when a chain is compiled.

    ``policy`` is the ClusterNetworkPolicy's name or the NetworkPolicy's
    ``namespace/name``; None in the Default tier. ``rule`` is the rule's index within
    its direction, None when the tier's isolation denied because no rule matched;
    then ``isolated_by`` holds every policy that isolates. ``action`` is the API's word
    (``Accept``, ``Deny``; ``Pass`` never decides). ``reason`` is a short stable
    sentence where tier and rule do not say it all.
    """

    allowed: bool
    direction: Direction
    tier: Tier
    policy: str | None = None
    rule: int | None = None
    rule_name: str | None = None
    action: str | None = None
    reason: str | None = None
    isolated_by: tuple[str, ...] = ()
    by_name: bool = False  # the rule can match by a learned name


class NameGrant(NamedTuple):
    """A learned name that made a rule match; times are in the caller's clock, seconds."""

    pattern: str
    name: str
    address: int
    learned_from: int | None  # the resolver's address, None when given by hand
    expires: float


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The answer to one packet. A Struct, not a NamedTuple: a quarter of the cost to make.

    ``egress`` is None when the source is no pod; ``ingress`` when the destination is
    none or egress already denied. ``decided_by`` is the ruling that denied; of an allowed
    packet the ingress ruling, or the egress one when only that is more than the default;
    a Default ruling that says so when no end is a pod; None only when the verdict is unknown.
    ``grants`` are the names that made the egress rule match. ``valid_until`` bounds
    the answer's life (a learned name's end); ``unidentified`` holds addresses that
    lie in a known pod network without being a known pod's. ``named`` says that learned names
    were asked: one more of them could change the answer.
    """

    verdict: Verdict
    egress: Ruling | None
    ingress: Ruling | None
    decided_by: Ruling | None
    reason: str | None = None
    grants: tuple[NameGrant, ...] = ()
    valid_until: float = float("inf")
    unidentified: tuple[int, ...] = ()
    named: bool = False
