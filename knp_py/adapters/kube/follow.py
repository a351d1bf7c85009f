"""One resource followed for ever: listed in pages, watched from there, listed again when lost.

What was known goes on to be what is known, however long the server is away: only a complete
list and the events after it change anything. The protocol is the API's own (Kubernetes API
concepts: efficient detection of changes; 410 Gone; bookmarks).
"""

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Protocol

import msgspec

from knp_py.adapters.kube.backoff import Backoff
from knp_py.adapters.kube.client import ApiError, Client, UnreachableError, refusal_of
from knp_py.adapters.kube.resources import Resource
from knp_py.adapters.kube.troubles import Troubles

PAGE = 250  # objects; decoding one must not keep the packet thread waiting
_MOST_PAGES = 10_000  # of one list: two and a half million objects are no cluster
SILENCE = 75.0  # seconds without a byte after which a watch is begun anew; bookmarks come each 60
_WATCH = 300  # seconds that a watch is asked to last, and up to twice that
_SHORT = 1.0  # seconds; a watch that ends sooner is not begun again at once
_LONG = 5.0  # seconds after which a watch has worked
_ABSENT = 10.0  # seconds between two looks for a resource that is not there
_ABSENT_FOR = 30.0  # seconds until one that was there counts as gone with all its objects
_FORBIDDEN_FOR = 60.0  # seconds between two looks for what is forbidden and not needed
_NOT_FOUND = 404
_UNAUTHORIZED = 401
_FORBIDDEN = 403
_BROKEN = 500
# After these the same watch can go on. After every other, 410 (the history between is lost) and
# 504 (the server's numbers are lower than ours: it was restored) among them, it cannot.
_PASSING = frozenset((401, 403, 429, 500, 502, 503))


class Mirror(Protocol):
    """Keeps one resource's objects."""

    def listed(self, objects: Iterable[msgspec.Raw]) -> bool:
        """These are all there are; whether anything is different now.

        When iterating raises, that goes through and nothing has changed.
        """
        ...

    def event(self, verb: str, raw: msgspec.Raw) -> bool:
        """ADDED, MODIFIED or DELETED; whether anything is different now."""
        ...


class Progress:
    """Where following a resource has got to; written by its thread, read by any.

    ``heard`` is the moment of which the server has last told what there is, by a whole list or
    by its watch (``time.monotonic``), 0 for never;
    ``synced`` whether it was ever listed whole; ``error`` what keeps it from going on, empty
    when nothing does; ``absent`` whether the server does not know the resource.
    """

    def __init__(self) -> None:
        self.heard = 0.0
        self.synced = False
        self.absent = False
        self.error = ""
        self.events = 0
        self.lists = 0
        self.failures = 0
        self.version = ""

    def age(self) -> float:
        """Seconds since the server was last heard."""
        return time.monotonic() - self.heard if self.heard else 0.0


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    proceed: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Marked(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_PAGE_DECODER = msgspec.json.Decoder(_Page)
_EVENT_DECODER = msgspec.json.Decoder(_Event)
_MARK_DECODER = msgspec.json.Decoder(_Marked)


class Follower:
    """Follows one resource into a ``mirror`` and calls ``tell`` when something is different."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        mirror: Mirror,
        *,
        tell: Callable[[], object],
        troubles: Troubles,
        say: Callable[[str], object],
    ) -> None:
        self.progress = Progress()
        self.resource = resource
        self._client = client
        self._mirror = mirror
        self._tell = tell
        self._troubles = troubles
        self._say = say
        self._over = threading.Event()
        self._backoff = Backoff(random.random)
        self._absent_since = 0.0
        self._doubtful = False  # it was away: it may have come back as it once was
        self._thread = threading.Thread(target=self._run, name=resource.plural, daemon=True)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Follow no more; the client's watches must be ended for it to notice."""
        self._over.set()

    def join(self, seconds: float) -> None:
        """Wait until it has stopped, if it ever began."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                if self._doubtful:
                    self._look_again()
                if not self.progress.version:
                    self._list()
                self._watch()
                pause = 0.0
            except ApiError as error:
                pause = self._refused(error)
            except UnreachableError as error:
                self._doubtful = True
                pause = self._failed(str(error))
            except msgspec.MsgspecError as error:
                self.progress.version = ""
                pause = self._failed(f"{self._client.server}: not what the API says: {error}")
            except Exception as error:  # noqa: BLE001 - a thread that ends unseen follows nothing
                self.progress.version = ""
                kind = type(error).__name__
                pause = self._failed(f"internal error, please report it: {kind}: {error}")
            self._over.wait(pause)

    # -- what goes wrong -----------------------------------------------------------------

    def _failed(self, why: str, asked_for: float = 0.0) -> float:
        if self._over.is_set():
            return 0.0
        self.progress.failures += 1
        self.progress.error = why
        self._troubles.note(self.resource.plural, why, known=self.progress.synced)
        return self._backoff.after(asked_for)

    def _refused(self, error: ApiError) -> float:
        if self.progress.version and error.status not in _PASSING:
            self.progress.version = ""  # the next list says what is different
            return self._backoff.after(error.wait)
        if error.status == _NOT_FOUND and self.resource.optional:
            return self._absent()
        if error.status == _FORBIDDEN and self.resource.without:
            return self._do_without(error)
        if error.status == _UNAUTHORIZED:
            # The same for every resource.
            return self._failed(f"{self._client.server} does not accept our credentials (401)")
        hint = ""
        if error.status == _FORBIDDEN:
            hint = f"; RBAC must let it list and watch {self.resource.plural}"
        return self._failed(f"{error}{hint}", error.wait)

    def _absent(self) -> float:
        """The server does not know the resource: no object of it is there, or not any more."""
        progress = self.progress
        progress.version = ""
        if not progress.absent and not self._server_is_ready():
            # It does not know yet what its CRDs define.
            which = f"{self._client.server} has no {self.resource.plural}"
            return self._failed(f"{which}, but is not ready")
        now = time.monotonic()
        progress.heard = now
        self._absent_since = self._absent_since or now
        if not progress.absent and (
            not progress.synced or now - self._absent_since >= _ABSENT_FOR
        ):
            progress.absent = True
            kind = f"{self.resource.kind} {self.resource.api_version}"
            self._say(f"the cluster has no {kind}: none is in force; looking for it on")
            self._have([], now)
            self._well()
            return _ABSENT / 10  # a server that is starting, or a proxy before it, may err once
        self._well()
        return _ABSENT * (0.5 + random.random())  # noqa: S311  spreads load, nothing secret

    def _server_is_ready(self) -> bool:
        """Whether it says so, or must not be asked."""
        try:
            self._client.get("/readyz")
        except ApiError as error:
            return error.status < _BROKEN
        except UnreachableError:
            return False
        return True

    def _do_without(self, error: ApiError) -> float:
        """It is forbidden, and nothing waits for it."""
        now = time.monotonic()
        if not self.progress.synced:
            self._say(f"{error}; goes on without: {self.resource.without}")
            self._have([], now)
        self.progress.error, self.progress.heard = str(error), now
        return _FORBIDDEN_FOR * (0.5 + random.random())  # noqa: S311  as above

    def _well(self) -> None:
        self.progress.error = ""
        self._troubles.over(self.resource.plural)

    # -- what goes right -----------------------------------------------------------------

    def _look_again(self) -> None:
        """Whether the server has reached what we know. One that was restored has not.

        It would say nothing at all to a watch from a version that is to come. Versions are
        numbers that grow (Kubernetes API concepts: resource versions can be compared).
        """
        if self.progress.version:
            page = _PAGE_DECODER.decode(self._client.get(self.resource.query(limit=1)))
            if _is_before(page.metadata.resource_version, self.progress.version):
                self.progress.version = ""
        self._doubtful = False

    def _list(self) -> None:
        """All there is, in pages; nothing of it counts before the last one is there."""
        page = self._page("")  # the others show the same moment
        shown = time.monotonic()
        self._have(self._objects(page), shown)
        self.progress.lists += 1
        self._absent_since, self.progress.absent = 0.0, False
        self.progress.version = page.metadata.resource_version
        self._well()

    def _objects(self, page: _Page) -> Iterator[msgspec.Raw]:
        """Of this page and all that follow it; raises ``UnreachableError`` where none is the last.

        A page may be empty and another follow, but none leads back to where one was before.
        """
        seen = {""}  # what each page was asked for by
        while proceed := page.metadata.proceed:
            yield from page.items or ()
            if proceed in seen:
                raise self._endless("a page leads to one that was there before")
            if len(seen) >= _MOST_PAGES:
                raise self._endless(f"more than {_MOST_PAGES:,} pages")
            seen.add(proceed)
            page = self._page(proceed)
        yield from page.items or ()

    def _endless(self, why: str) -> UnreachableError:
        where = f"{self._client.server}: its list of {self.resource.plural}"
        return UnreachableError(f"{where} does not end: {why}")

    def _page(self, proceed: str) -> _Page:
        query = self.resource.query(limit=PAGE, **{"continue": proceed})
        page = _PAGE_DECODER.decode(self._client.get(query))
        if not page.metadata.resource_version:
            raise UnreachableError(f"{self._client.server}: a list without a resourceVersion")
        return page

    def _have(self, objects: Iterable[msgspec.Raw], when: float) -> None:
        """These were all there are at that moment (``time.monotonic``)."""
        changed = self._mirror.listed(objects)
        first = not self.progress.synced
        self.progress.heard, self.progress.synced = when, True
        if changed or first:
            self._tell()

    def _watch(self) -> None:
        progress = self.progress
        path = self.resource.query(
            watch=1,
            allowWatchBookmarks="true",
            resourceVersion=progress.version,
            timeoutSeconds=_WATCH + random.randrange(_WATCH),  # noqa: S311  as above
        )
        began = time.monotonic()
        try:
            with closing(self._client.watch(path, SILENCE)) as lines:
                for line in lines:
                    progress.heard = time.monotonic()
                    if line:
                        self._note(line)
                    else:
                        self._well()  # it has agreed
        finally:
            lasted = time.monotonic() - began
            if lasted > _LONG:
                self._backoff.reset()
        if lasted < _SHORT:
            self._over.wait(self._backoff.after())

    def _note(self, line: bytes) -> None:
        event = _EVENT_DECODER.decode(line)
        if event.type == "ERROR":
            raise refusal_of(event.object)
        version = _MARK_DECODER.decode(event.object).metadata.resource_version
        self.progress.events += 1
        if event.type == "BOOKMARK" and _is_before(version, self.progress.version):
            self.progress.version = ""
            raise UnreachableError(f"{self._client.server}: it has gone back in time")
        if event.type != "BOOKMARK" and self._mirror.event(event.type, event.object):
            self._tell()
        if version:
            self.progress.version = version


def _is_before(version: str, known: str) -> bool:
    return version.isdecimal() and known.isdecimal() and int(version) < int(known)
