"""Conditions of ClusterNetworkPolicies, written only where they are not what they should be."""

from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import msgspec

from knp_py.adapters.kube.client import ApiError, Client
from knp_py.adapters.kube.resources import CLUSTER_POLICIES

POLL = 1.0  # seconds between two looks whether there is anything to do; they ask no server
PACE = 0.02  # seconds between two objects: a thousand must not keep the packet thread waiting
_AGAIN = 60.0  # seconds until an object is looked at again that somebody else has changed
_MANAGER = "knp"
_FORBIDDEN = 403
_NOT_FOUND = 404
_CONFLICT = 409


Merge = Callable[[Sequence[Mapping[str, Any]], str], Sequence[Mapping[str, Any]] | None]


class Target(NamedTuple):
    """A policy: ``claims`` is what its conditions should say, whatever that is.

    ``merge`` gives them, from those that are there and the time now (RFC 3339); None where
    those there are what they should be.
    """

    name: str
    uid: str
    version: str
    generation: int
    claims: Hashable
    merge: Merge

    @property
    def wanted(self) -> Hashable:
        """What has to be written anew when it is another."""
        return self.uid, self.generation, self.claims


class Policies(Protocol):
    """Where the policies are known."""

    def revision(self) -> int:
        """Another whenever they may have changed; negative while not all are known."""
        ...

    def targets(self) -> Sequence[Target]:
        """All of them."""
        ...


def is_refusal(error: ApiError) -> bool:
    """Whether it is about one object; else another would fare no better just now."""
    return 400 <= error.status < 500 and error.status not in {401, 429}


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    generation: int = 0


class _Status(msgspec.Struct):
    conditions: list[dict[str, Any]] | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata
    status: _Status | None = None


_DECODER = msgspec.json.Decoder(_Object)


class _Written(NamedTuple):
    """What an object was left with: at which time, in which version."""

    wanted: Hashable
    version: str
    at: float


class Statuses:
    """Brings the conditions of all policies to what they should be, one object a step.

    ``counts`` is added to: ("condition", what came of it).
    """

    def __init__(
        self,
        client: Client,
        policies: Policies,
        counts: Counter[tuple[str, str]],
        *,
        say: Callable[[str], object],
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._client = client
        self._say = say
        self._policies = policies
        self._counts = counts
        self._clock = clock
        self._wall = wall
        self.forget()

    def forget(self) -> None:
        """Look at every object again: another node may have written meanwhile."""
        self._written: dict[str, _Written] = {}
        self._pending: deque[Target] = deque()
        self._failed: dict[str, float] = {}  # when, of those that may succeed later
        self._refusals: set[int] = set()  # HTTP's words for them that were said
        self._revision = -1
        self._again = 0.0

    def step(self) -> float:
        """See to one object; seconds until the next step.

        Raises ``ApiError`` or ``UnreachableError``. An object that the server refuses is left
        alone for a while; whatever else fails is tried again.
        """
        revision = self._policies.revision()
        if revision < 0:
            return POLL
        now = self._clock()
        if revision != self._revision or now >= self._again:
            self._gather(now)
            self._revision, self._again = revision, now + _AGAIN
        if not self._pending:
            return POLL
        target = self._pending[0]
        try:
            self._settle(target)
        except ApiError as error:
            if not is_refusal(error):
                self._pending.rotate(-1)  # it may be about this one after all: others first
                self._failed[target.name] = now
                raise
            if error.status == _CONFLICT:
                self._counts["condition", "conflict"] += 1
                self._pending.popleft()
                self._again = now + POLL  # somebody else was quicker
                return PACE
            self._leave(target, "")
            if error.status == _FORBIDDEN:
                raise
            self._note(error)
        return PACE

    def _note(self, error: ApiError) -> None:
        if error.status == _NOT_FOUND:
            result = "gone"
        else:
            result = "failed"
            if error.status not in self._refusals:
                self._refusals.add(error.status)
                self._say(f"status of policies: {error}")
        self._counts["condition", result] += 1

    def _gather(self, now: float) -> None:
        targets = self._policies.targets()
        names = {target.name for target in targets}
        self._written = {k: each for k, each in self._written.items() if k in names}
        self._failed = {k: at for k, at in self._failed.items() if k in names}
        needy = (target for target in targets if self._needs(target, now))
        self._pending = deque(sorted(needy, key=lambda each: self._failed.get(each.name, 0.0)))

    def _needs(self, target: Target, now: float) -> bool:
        left = self._written.get(target.name)
        if left is None or left.wanted != target.wanted:
            return True
        # Somebody else wrote to it. Who takes our conditions away again and again gets them
        # back, but not at once.
        return left.version != target.version and now - left.at >= _AGAIN

    def _settle(self, target: Target) -> None:
        path = f"{CLUSTER_POLICIES.path}/{quote(target.name)}"
        there = _DECODER.decode(self._client.get(path))
        if (there.metadata.uid, there.metadata.generation) != (target.uid, target.generation):
            self._leave(target, "")  # its newer version is on its way here
            return
        now = datetime.fromtimestamp(self._wall(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        present = (there.status and there.status.conditions) or ()
        conditions = target.merge(present, now)
        if conditions is None:
            self._counts["condition", "unchanged"] += 1
            self._leave(target, there.metadata.resource_version)
            return
        patch = {
            "apiVersion": CLUSTER_POLICIES.api_version,
            "kind": CLUSTER_POLICIES.kind,
            # Of this version only: another object of that name must not get them. (A uid here
            # is something that servers do not look at where the status is applied.)
            "metadata": {
                "name": target.name,
                "resourceVersion": there.metadata.resource_version,
            },
            "status": {"conditions": conditions},
        }
        query = f"{path}/status?fieldManager={_MANAGER}&force=true"
        there = _DECODER.decode(self._client.send("PATCH", query, patch, "apply-patch+yaml"))
        self._counts["condition", "written"] += 1
        self._leave(target, there.metadata.resource_version)

    def _leave(self, target: Target, version: str) -> None:
        """It is as it should be in this version; empty for one that is to be looked at again."""
        self._pending.popleft()
        self._failed.pop(target.name, None)
        self._written[target.name] = _Written(target.wanted, version, self._clock())
