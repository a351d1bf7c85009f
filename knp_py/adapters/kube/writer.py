"""The thread that writes the status of policies, on the one node that is elected to.

It asks first whether it may, and says once when it may not. Whatever goes wrong here is said,
tried again later, and stops nothing else.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from knp_py.adapters.kube.backoff import Backoff
from knp_py.adapters.kube.client import ApiError, Client, UnreachableError
from knp_py.adapters.kube.events import Events, Remarkable
from knp_py.adapters.kube.lease import Lease
from knp_py.adapters.kube.permits import Permits
from knp_py.adapters.kube.resources import LEASE, WRITTEN, Need
from knp_py.adapters.kube.statuses import Policies, Statuses
from knp_py.errors import KnpError

_ASK_AGAIN = 600.0  # seconds, and up to half as much again, between two looks at what is allowed
_LONGEST = 600.0  # seconds to wait when there is nothing to do
_PASSES = 2  # failures in a row before anybody is told
_FORBIDDEN = 403
_EVENTS = "events"


class Source(Policies, Remarkable, Protocol):
    """Where the policies are known, and what there is to say of them."""


class _Chore:
    """One of the things to do again and again; one that fails does not keep the others back.

    ``step`` does it and gives the seconds until the next time.
    """

    def __init__(self, what: str, step: Callable[[], float], chance: Callable[[], float]) -> None:
        self.what = what
        self.step = step
        self.due = 0.0
        self.error = ""
        self.failures = 0  # in a row
        self.said: set[object] = set()  # kinds of errors
        self.backoff = Backoff(chance)


class Writer:
    """Conditions and Events about policies, by one node of all.

    ``identity`` must be this process's own; ``namespace`` is where the Lease is, by which one
    is elected. ``say`` gets a line about whatever is different from before.
    """

    def __init__(
        self,
        client: Client,
        source: Source,
        *,
        namespace: str,
        identity: str,
        node: str,
        say: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._say = say
        self._clock = clock
        self._chance = chance
        self._permits = Permits(client, namespace, WRITTEN)
        self._lease = Lease(
            client, namespace, LEASE, identity, clock=clock, wall=wall, chance=chance
        )
        self._statuses = Statuses(client, source, self.counts, say=say, clock=clock, wall=wall)
        self._events = Events(
            client, source, self.counts, node=node, say=say, clock=clock, wall=wall
        )
        self._asking = _Chore("what is allowed", self._ask, chance)
        self._electing = _Chore("lease", self._elect, chance)
        self._writing = _Chore("condition", self._statuses.step, chance)
        self._telling = _Chore("event", self._events.step, chance)
        self._asked = False
        self._refused: tuple[Need, ...] = ()  # as it was said
        self._elected = False  # as it was said
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    # -- for whoever has it ----------------------------------------------------------------

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Write no more and let another node; waits so long until that is said."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    @property
    def elected(self) -> bool:
        """Whether this node writes."""
        return self._lease.held

    def overview(self) -> dict[str, object]:
        """What there is to show; read by any thread."""
        errors = (each.error for each in self._chores() if each.error)
        return {
            "elected": self.elected,
            "holder": self._lease.holder,
            "lease": self._lease.place,
            "missing_permissions": [str(need) for need in self._permits.missing],
            "errors": list(errors),
        }

    def turn(self) -> float:
        """Do what is due; seconds until something is again. Never raises."""
        chores = [self._asking]
        self._do(self._asking)
        if self._may("leases") and (self._may("clusternetworkpolicies") or self._may(_EVENTS)):
            chores.append(self._electing)
            self._do(self._electing)
            self._tell_elected()
            if self.elected and self._may("clusternetworkpolicies"):
                chores.append(self._writing)
                self._do(self._writing)
            if self.elected and self._may(_EVENTS):
                chores.append(self._telling)
                self._do(self._telling)
        due = min(each.due for each in chores)
        return min(max(0.0, due - self._clock()), _LONGEST)

    # -- what there is to do ---------------------------------------------------------------

    def _run(self) -> None:
        while not self._over.wait(self.turn()):
            pass
        self._lease.release()

    def _ask(self) -> float:
        if self._asked:
            self._permits.ask_again()
        else:
            self._permits.ask()
            self._asked = True
        self._tell_allowed()
        if not self._permits.missing:
            return float("inf")
        return _ASK_AGAIN * (1 + self._chance() / 2)

    def _elect(self) -> float:
        held = self._lease.held
        pause = self._lease.step()
        if self._lease.held:
            self.counts["lease", "written"] += 1
        elif held:
            self.counts["lease", "conflict"] += 1
        return pause

    def _may(self, resource: str) -> bool:
        return not any(need.resource.startswith(resource) for need in self._permits.missing)

    def _chores(self) -> tuple[_Chore, ...]:
        return self._asking, self._electing, self._writing, self._telling

    def _do(self, chore: _Chore) -> None:
        if self._clock() < chore.due or self._over.is_set():
            return
        try:
            pause = chore.step()
        except ApiError as error:
            pause = self._turned_down(chore, error)
        except UnreachableError as error:
            pause = self._failed(chore, str(error), None)  # whoever follows says it
        except Exception as error:  # noqa: BLE001 - an answer that nobody would expect, say
            pause = self._failed(chore, f"{type(error).__name__}: {error}", type(error))
        else:
            chore.backoff.reset()
            chore.error = ""
            if chore.said and chore.failures >= _PASSES:
                chore.said.clear()
                self._say(f"status of policies: {chore.what}: works again")
            chore.failures = 0
        chore.due = self._clock() + pause

    # -- what goes wrong -------------------------------------------------------------------

    def _turned_down(self, chore: _Chore, error: ApiError) -> float:
        if error.status == _FORBIDDEN:
            # Roles have changed, or it is about this one object: its namespace is going.
            try:
                self._permits.ask()
            except KnpError:
                pass  # what is said is why it was asked
            else:
                self._asking.due = self._clock()
                if self._permits.missing:
                    return 0.0
        return self._failed(chore, str(error), error.status, error.wait)

    def _failed(self, chore: _Chore, why: str, kind: object, asked_for: float = 0.0) -> float:
        if self._over.is_set():
            return 0.0
        self.counts[chore.what, "failed"] += 1
        chore.error = why
        chore.failures += 1
        passing = kind != _FORBIDDEN and chore.failures < _PASSES
        if kind is not None and kind not in chore.said and not passing:
            chore.said.add(kind)
            self._say(f"status of policies: {chore.what}: {why}; trying it again")
        return chore.backoff.after(asked_for)

    # -- what is said ----------------------------------------------------------------------

    def _tell_allowed(self) -> None:
        missing = self._permits.missing
        if missing == self._refused:
            return
        self._refused = missing
        for chore in (self._electing, self._writing, self._telling):
            chore.due = 0.0
        self._statuses.forget()
        self._events.forget()
        if not missing:
            self._say("RBAC lets this node write the status of policies now")
            return
        off = [
            what
            for what, resource in (("conditions", "clusternetworkpolicies"), ("Events", _EVENTS))
            if not (self._may("leases") and self._may(resource))
        ]
        self._say(
            f"policies get no {' and no '.join(off)} from this node: RBAC does not allow to"
            f" {', '.join(map(str, missing))} (--write-status off says nothing of it)"
        )

    def _tell_elected(self) -> None:
        if self.elected == self._elected:
            return
        self._elected = self.elected
        if self._elected:
            self._statuses.forget()
            self._events.forget()
            self._writing.due = self._telling.due = 0.0
            self._say(f"this node writes the status of policies (Lease {self._lease.place})")
        else:
            self._say("this node does not write the status of policies any more")
