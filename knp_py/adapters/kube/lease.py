"""One of many, by a Lease (coordination.k8s.io/v1) that whoever is elected renews.

Clocks of other machines do not matter: a Lease has run out when it has been seen unchanged for
as long as it lasts, by this machine's own clock (as in client-go's leader election). Whoever
cannot renew it stops believing in it before another may take it.
"""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from knp_py.adapters.kube.client import ApiError, Client
from knp_py.errors import KnpError

LASTS = 30  # seconds without renewal after which another may take it
RENEW = 10.0  # seconds between two renewals
_BELIEVED = 20.0  # seconds that it counts as held after one
_LOOK = 20.0  # seconds until others look at it again, or sooner when it may have run out by then
_APART = 10.0  # and up to so many more: a thousand nodes must not ask at once
_CONTENDED = 1.0  # seconds, about, after somebody else was quicker
_NOT_FOUND = 404
_CONFLICT = 409


class Lease:
    """A Lease that this process holds or another one does, as ``identity``.

    ``clock`` gives seconds that only grow; ``wall`` the seconds since 1970 that are written
    down for people. ``chance`` gives a number from 0 to 1.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.place = f"{namespace}/{name}"
        self.holder = ""  # who held it when it was last seen
        self._client = client
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._clock = clock
        self._wall = wall
        self._chance = chance
        self._lease: dict[str, Any] | None = None  # as it was last seen
        self._since = 0.0  # when it was first seen like that
        self._ours = False
        self._renewed = 0.0

    @property
    def held(self) -> bool:
        """Whether nobody else can hold it now."""
        return self._ours and self._clock() - self._renewed < _BELIEVED

    def step(self) -> float:
        """Take it or keep it where that can be; seconds until the next step.

        Raises ``ApiError`` or ``UnreachableError``; what is held stays so for a while.
        """
        began = self._clock()
        if not self._ours:
            self._look()
        if self._lease is not None and not self._may_have(self._lease):
            left = self._since + self._lasts(self._lease) - self._clock()
            return min(_LOOK, left) + _APART * self._chance()
        try:
            self._write(self._taken())
        except ApiError as error:
            if error.status not in {_NOT_FOUND, _CONFLICT}:
                raise
            self._ours = False
            if error.status == _NOT_FOUND and self._lease is None:
                raise  # its namespace is not there
            return _CONTENDED * (0.5 + self._chance())
        self._ours, self._renewed = True, began
        return RENEW

    def release(self) -> None:
        """Let another have it at once, if that can be said."""
        if not self._ours or self._lease is None:
            return
        self._ours = False
        spec = {**self._lease["spec"], "leaseDurationSeconds": 1, "renewTime": self._now()}
        spec.pop("holderIdentity", None)
        with suppress(KnpError, msgspec.MsgspecError):
            self._write({**self._lease, "spec": spec})

    def _look(self) -> None:
        try:
            found = self._decoded(self._client.get(f"{self._collection}/{self._name}"))
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
            self._lease, self.holder = None, ""
            return
        self._saw(found)

    def _saw(self, lease: dict[str, Any]) -> None:
        """What is not as it was before begins to last now."""
        if self._lease is None or self._lease["spec"] != lease["spec"]:
            self._since = self._clock()
        self._lease = lease
        self.holder = lease["spec"].get("holderIdentity") or ""

    def _may_have(self, lease: dict[str, Any]) -> bool:
        if self.holder in {"", self._identity}:
            return True
        return self._clock() - self._since >= self._lasts(lease)

    @staticmethod
    def _lasts(lease: dict[str, Any]) -> float:
        return float(lease["spec"].get("leaseDurationSeconds") or LASTS)

    def _taken(self) -> dict[str, Any]:
        """The Lease as it is when we hold it from now on."""
        now = self._now()
        lease = self._lease or {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
        }
        spec = {**lease.get("spec", {}), "leaseDurationSeconds": LASTS, "renewTime": now}
        if spec.get("holderIdentity") != self._identity:
            if self._lease is not None:
                spec["leaseTransitions"] = (spec.get("leaseTransitions") or 0) + 1
            spec |= {"holderIdentity": self._identity, "acquireTime": now}
        return {**lease, "spec": spec}

    def _write(self, lease: dict[str, Any]) -> None:
        """The version that was seen goes with it: whoever changed it in between has it."""
        if self._lease is None:
            answer = self._client.send("POST", self._collection, lease)
        else:
            answer = self._client.send("PUT", f"{self._collection}/{self._name}", lease)
        self._saw(self._decoded(answer))

    @staticmethod
    def _decoded(raw: bytes) -> dict[str, Any]:
        found = msgspec.json.decode(raw, type=dict[str, Any])
        return found | {"spec": found.get("spec") or {}}

    def _now(self) -> str:
        return datetime.fromtimestamp(self._wall(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
