"""What can go wrong with the API server of the tests: one method each, none happens by itself."""

import contextlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from helpers.apiserver_http import Request, Response
from helpers.apiserver_reads import gone
from helpers.apiserver_store import Store, Watch, encode, line
from helpers.apiserver_types import ApiError, Doc, Resource, too_old

PATIENCE = 60.0  # seconds until something that should happen has not


@dataclass
class Failure:
    """An answer to be given instead of the right one, ``left`` more times."""

    left: int
    answer: Response
    method: str
    path: re.Pattern[str]
    watch: bool | None

    def meets(self, request: Request) -> bool:
        """Whether it is about this request."""
        return (
            self.left > 0
            and self.method in {"", request.method}
            and self.watch in {None, request.is_watch}
            and self.path.search(request.path) is not None
        )


class Faults:
    """Everything that is wrong at the moment. ``plurals`` in a method: none is all."""

    page_delay = 0.0  # seconds before every page of a list
    chunk: int | None = None  # bytes of a watch's chunks, so that lines come in pieces

    def __init__(self, store: Store, find: Callable[[str], Resource]) -> None:
        self.store = store
        self._find = find
        self._failures: list[Failure] = []
        self._dropped_continues = 0
        self._endless: tuple[re.Pattern[str], Iterator[str]] | None = None
        self._thawed = threading.Event()
        self._thawed.set()
        self._over = threading.Event()  # the server is going away
        self._timers: list[threading.Timer] = []
        self._left = threading.Condition(store.lock)

    # Answers

    def fail(
        self,
        code: int,
        times: int = 1,
        *,
        retry_after: int | None = None,
        method: str = "",
        path: str = "",
        watch: bool | None = None,
        status: bool | None = None,
    ) -> None:
        """The next ``times`` requests (that match) get ``code``.

        ``path``: a regular expression found in it; ``watch``: only watches, or only others;
        ``status``: a Status in the body. 429 and 503 come from filters before the API and
        have plain text unless told.
        """
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        reason, text = {
            429: ("TooManyRequests", "Too many requests, please try again later."),
            500: ("InternalError", "Internal error occurred: etcdserver: leader changed"),
            503: ("ServiceUnavailable", "apiserver is shutting down"),
            504: ("Timeout", "Timeout: request did not complete within requested timeout"),
        }.get(code, ("", f"answer {code} was ordered"))
        if status is None:
            status = code not in {429, 503}
        details: Doc = {} if retry_after is None else {"retryAfterSeconds": retry_after}
        answer = Response(code, f"{text}\n".encode(), "text/plain; charset=utf-8", headers)
        if status:
            error = ApiError(code, reason, text, details, headers)
            answer = error_response(error)
        with self.store.lock:
            self._failures.append(Failure(times, answer, method, re.compile(path), watch))

    def no_more_failures(self) -> None:
        """What ``fail`` ordered and was not used is forgotten, and every list ends again."""
        with self.store.lock:
            self._failures.clear()
            self._endless = None

    def endless_lists(self, path: str, tokens: Iterable[str]) -> None:
        """Pages have no objects but another to go on with, by the next of ``tokens``.

        ``path``: a regular expression found in the list's.
        """
        with self.store.lock:
            self._endless = re.compile(path), iter(tokens)

    def drop_continues(self, times: int = 1) -> None:
        """The next ``times`` requests that go on with a list get 410 Expired."""
        with self.store.lock:
            self._dropped_continues += times

    def _faulty(self, request: Request) -> Response | None:
        """The wrong answer to this request, if it is to get one."""
        endless = None
        with self.store.lock:
            for failure in self._failures:
                if failure.meets(request):
                    failure.left -= 1
                    return failure.answer
            if self._dropped_continues and request.query.get("continue"):
                self._dropped_continues -= 1
                return error_response(gone(request.query["continue"]))
            if self._endless is not None and "limit" in request.query and not request.is_watch:
                path, tokens = self._endless
                if path.search(request.path):
                    meta = {"resourceVersion": str(self.store.revision), "continue": next(tokens)}
                    endless = Response(200, encode({"metadata": meta, "items": []}))
        if self.page_delay and request.method == "GET" and "limit" in request.query:
            self._over.wait(self.page_delay)
        return endless

    # Silence

    def freeze(self) -> None:
        """Accept connections, read requests, and say nothing more to anybody."""
        self._thawed.clear()

    def thaw(self) -> None:
        """Go on, with all that was held up."""
        self._thawed.set()
        with self.store.lock:
            for watch in self.store.open_watches():
                watch.look()

    @contextlib.contextmanager
    def frozen_for_now(self) -> Iterator[None]:
        """Silent inside of this."""
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    def black_hole(self, seconds: float) -> None:
        """Silent from now for so long; does not wait."""
        self.freeze()
        timer = threading.Timer(seconds, self.thaw)
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def frozen(self) -> bool:
        """Whether it is silent."""
        return not self._thawed.is_set()

    def wait_thawed(self) -> None:
        """Be held up with everybody else."""
        self._thawed.wait()

    # Watches

    def open_watches(self, *plurals: str) -> list[Watch]:
        """Those that are open; a client that went away is noticed at once."""
        return self.store.open_watches(self._find(name) for name in plurals)

    def wait_watches(self, count: int, *plurals: str, seconds: float = PATIENCE) -> None:
        """Wait until there are (at least) so many."""
        with self._left:
            there = self._left.wait_for(lambda: len(self.open_watches(*plurals)) >= count, seconds)
        if not there:
            raise AssertionError(f"not {count} watches, but {self.open_watches(*plurals)}")

    def left(self, watch: Watch) -> None:
        """A watch's connection is done with it."""
        with self._left:
            self.store.left(watch)
            self._left.notify_all()

    def _opened(self) -> None:
        with self._left:
            self._left.notify_all()

    def close_watches(self, *plurals: str) -> None:
        """End them as the server does when their time is over, after what is still to be said."""
        self._end("close", plurals)

    def cut_watches(self, *plurals: str, last: Callable[[], object] | None = None) -> None:
        """End them in the middle of a line, with a reset.

        ``last`` is called just before and makes the event whose line is cut; without it a
        bookmark is.
        """
        self._end("cut", plurals, last)

    def drop_watches(self, *plurals: str) -> None:
        """Reset their connections; what was still to be said is lost."""
        self._end("drop", plurals)

    def _end(
        self, how: str, plurals: tuple[str, ...], last: Callable[[], object] | None = None
    ) -> None:
        with self._left:
            watches = self.open_watches(*plurals)
            if last is not None:
                last()
            for watch in watches:
                watch.end(how)
            if not self._left.wait_for(lambda: all(w.wake < 0 for w in watches), PATIENCE):
                raise AssertionError(f"still open: {[w for w in watches if w.wake >= 0]}")

    def watch_error(self, error: ApiError, *plurals: str) -> None:
        """An ERROR event in every watch, which then ends."""
        with self.store.lock:
            for watch in self.open_watches(*plurals):
                watch.say(line("ERROR", encode(error.status())))
        self._end("close", plurals)

    def expire_watches(self, *plurals: str) -> None:
        """The ERROR event 410 that says that a watch fell too far behind."""
        self.watch_error(too_old(1, self.store.revision), *plurals)

    def duplicate_events(self, times: int = 1) -> None:
        """The next ``times`` changes are told twice."""
        with self.store.lock:
            self.store.duplicates += times

    def send_bookmark(self, *plurals: str, version: int | None = None) -> None:
        """A BOOKMARK now, to who asked for such; ``version``: not the current one."""
        with self.store.lock:
            for watch in self.open_watches(*plurals):
                if watch.bookmarks:
                    watch.say(self.store.bookmark(watch.resource, version))

    def bookmark(self, watch: Watch) -> bytes:
        """A line of one for this watch."""
        return self.store.bookmark(watch.resource)

    # The past

    def compact(self) -> None:
        """What was before now is too old: for watches to begin at, and lists to go on with."""
        self.store.compact()


def error_response(error: ApiError) -> Response:
    """As the body of an answer."""
    body = encode(error.status()) + b"\n"
    return Response(error.code, body, headers=error.headers)
