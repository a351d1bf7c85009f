"""Kubernetes Events about policies: each once, and not many."""

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from knp_py.adapters.kube.client import ApiError, Client
from knp_py.adapters.kube.statuses import PACE, POLL, is_refusal

_BURST = 20  # Events at once
_EVERY = 5.0  # seconds between two after that
_NAME = 200  # characters of an object's name in an Event's, which has 253
_DEFAULT = "default"  # where Events about cluster-wide objects are (core/v1 Event validation)
_COMPONENT = "knp"
_FORBIDDEN = 403
_CONFLICT = 409


class Notice(NamedTuple):
    """Something to say of an object: ``namespace`` is empty for a cluster-wide one."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    generation: int
    reason: str
    message: str


class Remarkable(Protocol):
    """Where there is something to say of objects."""

    def revision(self) -> int:
        """Another whenever that may have changed; negative while not all is known."""
        ...

    def notices(self) -> Sequence[Notice]:
        """All there is to say now."""
        ...


class Allowance:
    """How many may be sent: ``burst`` at once, then one in ``every`` seconds."""

    def __init__(self, burst: int, every: float, clock: Callable[[], float]) -> None:
        self._burst = burst
        self._every = every
        self._clock = clock
        self._left = float(burst)
        self._at = clock()

    def any(self) -> bool:
        """Whether one more may be sent now."""
        now = self._clock()
        self._left = min(float(self._burst), self._left + (now - self._at) / self._every)
        self._at = now
        return self._left >= 1.0

    def spend(self) -> None:
        """One was."""
        self._left -= 1.0


class Events:
    """Says each notice once, as a Warning from ``node``; what is too many is left out, and said.

    ``counts`` is added to: ("event", what came of it).
    """

    def __init__(
        self,
        client: Client,
        remarkable: Remarkable,
        counts: Counter[tuple[str, str]],
        *,
        node: str,
        say: Callable[[str], object],
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._client = client
        self._remarkable = remarkable
        self._counts = counts
        self._node = node
        self._say = say
        self._wall = wall
        self._allowance = Allowance(_BURST, _EVERY, clock)
        self.forget()

    def forget(self) -> None:
        """Another node may have said something meanwhile: the server knows what it was."""
        self._said: set[Notice] = set()
        self._pending: deque[Notice] = deque()
        self._refusals: set[int] = set()  # HTTP's words for them that were said
        self._revision = -1

    def step(self) -> float:
        """Say one; seconds until the next step. Raises ``ApiError`` or ``UnreachableError``."""
        revision = self._remarkable.revision()
        if revision < 0:
            return POLL
        if revision != self._revision:
            notices = self._remarkable.notices()
            self._said &= set(notices)
            self._pending = deque(each for each in notices if each not in self._said)
            self._revision = revision
        if not self._pending:
            return POLL
        if not self._allowance.any():
            self._leave_out()
            return POLL
        self._send(self._pending[0])
        return PACE

    def _leave_out(self) -> None:
        many = len(self._pending)
        self._counts["event", "left_out"] += many
        self._say(
            f"{many} Events about policies are left out: more than {_BURST} at once or one in"
            f" {_EVERY:.0f} s; /status has all there is to say"
        )
        self._said.update(self._pending)
        self._pending.clear()

    def _send(self, notice: Notice) -> None:
        event = self._event(notice)
        path = f"/api/v1/namespaces/{event['metadata']['namespace']}/events"
        result = "written"
        try:
            self._client.send("POST", path, event)
        except ApiError as error:
            if not is_refusal(error):
                self._pending.rotate(-1)  # it may be about this one after all: others first
                raise
            if error.status == _FORBIDDEN:  # its namespace is going, perhaps
                self._done(notice)
                raise
            # In the case of a conflict another node has said it, or this one in a former life.
            result = "unchanged" if error.status == _CONFLICT else "failed"
            if result == "failed" and error.status not in self._refusals:
                self._refusals.add(error.status)
                self._say(f"status of policies: {error}")
        self._allowance.spend()
        self._counts["event", result] += 1
        self._done(notice)

    def _done(self, notice: Notice) -> None:
        self._said.add(notice)
        self._pending.popleft()

    def _event(self, notice: Notice) -> dict[str, Any]:
        """Its name is the same whenever it says the same, so that the server keeps it to one."""
        said = f"{notice.uid} {notice.generation} {notice.reason} {notice.message}"
        suffix = hashlib.sha256(said.encode()).hexdigest()[:16]
        namespace = notice.namespace or _DEFAULT
        now = datetime.fromtimestamp(self._wall(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        about = {
            "apiVersion": notice.api_version,
            "kind": notice.kind,
            "name": notice.name,
            "uid": notice.uid,
        }
        if notice.namespace:
            about["namespace"] = notice.namespace
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{notice.name[:_NAME].rstrip('.-')}.{suffix}",
                "namespace": namespace,
            },
            "involvedObject": about,
            "type": "Warning",
            "reason": notice.reason,
            "message": notice.message,
            "source": {"component": _COMPONENT, "host": self._node},
            "reportingComponent": _COMPONENT,
            "reportingInstance": self._node,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
