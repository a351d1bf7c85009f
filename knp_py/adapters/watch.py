"""Tells when anything that manifests are read from may have changed.

The kernel reports what happens in every directory below the given paths, and to whatever lies
on the way to them: a directory that is moved away or made again, a symbolic link that points
elsewhere (a ConfigMap volume swaps ``..data``). Everything is watched before it is looked at,
so whoever looks after a wake-up misses nothing. Where the kernel has no inotify or no watches
left, the files have to be looked at every ``POLL`` seconds.
"""

import errno
import os
import select
import stat
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from knp_py.adapters import inotify
from knp_py.adapters.filetree import SUFFIXES, FileId
from knp_py.adapters.inotify import Event, Inotify, Timer

BURST = 0.020  # seconds: the longest that a first event waits for those that follow it
POLL = 0.5  # seconds from one look to the next without inotify
HELD_OPEN = 1.0  # seconds without a write after which a file that is still open counts as written
_QUIET = 0.002  # seconds without an event that end a burst in which nothing is half-done
_STEPS = 400  # components and links of one path

_SELF = inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.ATTRIB
_COMING = inotify.CREATE | inotify.MOVED_TO
_GOING = inotify.DELETE | inotify.MOVED_FROM
_WRITING = inotify.MODIFY | inotify.CLOSE_WRITE
_LOST = inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.UNMOUNT | inotify.IGNORED
_SCARCE = {
    errno.ENOSPC: "fs.inotify.max_user_watches is reached",
    errno.EMFILE: "fs.inotify.max_user_instances is reached",
    errno.ENFILE: "no file descriptor is left",
    errno.ENOMEM: "no memory is left for watches",
}


class Touched(NamedTuple):
    """``paths`` are files that may have changed, None when anything may have.

    ``unfinished`` are files that somebody is writing and has not closed.
    """

    paths: frozenset[str] | None
    unfinished: frozenset[FileId]


class _Place:
    """What an inode is watched for.

    ``directory`` is set for a directory of manifests, ``file`` for a file that is watched
    itself; both are paths as they are reached from those given. Of ``names`` every event
    counts: links, and what is not there yet.
    """

    __slots__ = ("directory", "file", "names")

    def __init__(self) -> None:
        self.directory: str | None = None
        self.file: str | None = None
        self.names: set[str] = set()


class Watcher:
    """Watches ``paths`` and everything below them until it is closed.

    ``say`` is told, in one line, when and why it goes over to polling.
    """

    def __init__(self, paths: Iterable[str], say: Callable[[str], object]) -> None:
        self._paths = tuple(paths)
        self._say = say
        self._timer = Timer()
        self._epoll = select.epoll()
        self._epoll.register(self._timer, select.EPOLLIN)
        self._inotify: Inotify | None = None
        self._places: dict[int, _Place] = {}
        self._awaited: set[int] = set()  # watches for what is not there yet
        self._touched: set[str] = set()
        self._everything = True
        self._moved = False  # what must be watched is not what is watched
        self._woken = False
        # By path: the time (monotonic) of the last write to a file that is not closed, and the
        # rename (0: none) by which a file went that may come back at once.
        self._writing: dict[str, float] = {}
        self._missing: dict[str, int] = {}
        try:
            self._inotify = Inotify()
        except OSError as error:
            self._poll_instead(error)
        else:
            self._epoll.register(self._inotify, select.EPOLLIN)
            self._arm()

    def fileno(self) -> int:
        """Readable when ``wait`` has something to do; then call ``wait(0)``."""
        return self._epoll.fileno()

    @property
    def polling(self) -> bool:
        """Whether changes are seen by looking now and then only."""
        return self._inotify is None

    def wait(self, timeout: float) -> bool:
        """Whether something may have changed, waiting up to ``timeout`` seconds for it.

        Once something has, it waits for the rest of the burst: until nothing more comes and no
        file is half-written or gone without its successor, ``BURST`` at most.
        """
        end = time.monotonic() + timeout
        self._take_in(timeout)
        while not self._woken:
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._take_in(left)
        end = time.monotonic() + BURST
        while (left := end - time.monotonic()) > 0:
            half_done = bool(self._writing or self._missing)
            if not self._take_in(left if half_done else min(left, _QUIET)) and not half_done:
                break
        self._missing.clear()
        self._woken = False
        return True

    def take(self) -> Touched:
        """What may have changed since this was asked last; everything, the first time."""
        paths = None if self._everything else frozenset(self._touched)
        self._everything = False
        self._touched.clear()
        unfinished: set[FileId] = set()
        for path in self._writing:
            try:
                found = os.stat(path)
            except OSError:
                continue
            unfinished.add((found.st_dev, found.st_ino))
        return Touched(paths, frozenset(unfinished))

    def close(self) -> None:
        """Give every descriptor back."""
        self._epoll.close()
        self._timer.close()
        if self._inotify is not None:
            self._inotify.close()

    # -- what happened -------------------------------------------------------------------

    def _take_in(self, timeout: float) -> bool:
        """Take in what has happened, waiting for it; whether anything has."""
        if not self._epoll.poll(timeout):
            return False
        if self._timer.expired():
            self._ring()
        if self._inotify is not None:
            for event in self._inotify.read():
                self._note(event)
        if self._moved:
            self._arm()
        return True

    def _ring(self) -> None:
        if self._inotify is None:
            self._everything = self._woken = True
            return
        now = time.monotonic()
        for path in [p for p, last in self._writing.items() if now - last >= HELD_OPEN]:
            self._touch(path)
        if self._writing:
            self._timer.set(max(0.001, min(self._writing.values()) + HELD_OPEN - now))

    def _note(self, event: Event) -> None:
        place = self._places.get(event.watch)
        if event.mask & inotify.OVERFLOW:
            self._writing.clear()
            self._restart()
        elif place is None:
            return  # a watch that has ended
        elif not event.name:
            self._note_self(place, event.mask)
        elif event.name in place.names:
            self._restart()
        elif place.directory is not None and not event.name.startswith("."):
            path = os.path.join(place.directory, event.name)
            if event.mask & inotify.ISDIR or (event.mask & _COMING and os.path.islink(path)):
                self._restart()
            elif event.name.endswith(SUFFIXES):
                self._note_file(path, event.mask, event.cookie)

    def _note_self(self, place: _Place, mask: int) -> None:
        """Something happened to the watched inode itself."""
        if place.file is not None and mask & _WRITING:
            self._note_file(place.file, mask, 0)
        elif mask & _LOST or place.file is not None or place.directory is not None:
            if place.file is not None and mask & _LOST:
                self._missing[place.file] = 0
            self._restart()

    def _note_file(self, path: str, mask: int, cookie: int) -> None:
        if mask & _GOING:
            self._missing[path] = cookie
            self._touch(path)
            return
        self._missing.pop(path, None)
        if mask & inotify.MOVED_TO:
            # Its old name is not coming back: that is what a rename is for.
            self._missing = {p: c for p, c in self._missing.items() if c != cookie}
        if mask & inotify.MODIFY or (mask & inotify.CREATE and _is_new(path)):
            if not self._writing:
                self._timer.set(HELD_OPEN)
            self._writing[path] = time.monotonic()
        elif mask & inotify.ATTRIB:
            self._touched.add(path)
            self._woken = True
        else:
            self._touch(path)

    def _touch(self, path: str) -> None:
        """The file is another one now, and whole."""
        self._writing.pop(path, None)
        self._touched.add(path)
        self._woken = True

    def _restart(self) -> None:
        self._moved = self._everything = self._woken = True

    # -- what is watched -----------------------------------------------------------------

    def _arm(self) -> None:
        """Watch what there is now, and no more what was on the way before."""
        self._moved = False
        if self._inotify is None:
            return
        before = set(self._places)
        for watch in self._awaited:
            self._inotify.remove(watch)
        self._places, self._awaited = {}, set()
        try:
            for path in self._paths:
                self._watch(path)
        except OSError as error:
            self._poll_instead(error)
            return
        for watch in before - set(self._places):
            self._inotify.remove(watch)

    def _poll_instead(self, error: OSError) -> None:
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None
        self._places.clear()
        self._writing.clear()
        self._missing.clear()
        self._everything = True
        self._timer.set(POLL, again=True)
        why = _SCARCE.get(error.errno or 0) or f"inotify: {error.strerror}"
        self._say(f"{why}: manifests are looked at every {POLL:g} seconds instead")

    def _add(self, path: str, mask: int) -> _Place | None:
        """Watch a path; None where it is gone or not ours to read."""
        if self._inotify is None:
            return None
        try:
            watch = self._inotify.add(path, mask)
        except OSError as error:
            if error.errno in _SCARCE:
                raise
            return None
        if mask & _COMING and not mask & _GOING:
            self._awaited.add(watch)
        return self._places.setdefault(watch, _Place())

    def _watch(self, path: str) -> None:
        """Watch a path that is given or that a link leads to, and everything below it."""
        target = self._follow(path)
        if target is None:
            return
        if os.path.isdir(target):
            self._watch_tree(path)
            return
        place = self._add(target, _SELF | _WRITING)
        if place is not None and place.file is None:
            place.file = path
            self._missing.pop(path, None)

    def _watch_tree(self, top: str) -> None:
        waiting = [top]
        while waiting:
            directory = waiting.pop()
            place = self._add(directory, _SELF | _COMING | _GOING | _WRITING | inotify.ONLYDIR)
            if place is None or place.directory is not None:
                continue  # gone, or entered by another path
            place.directory = directory
            try:
                with os.scandir(directory) as entries:
                    found = [e for e in entries if not e.name.startswith(".")]
            except OSError:
                continue
            for entry in found:
                if _is(entry.is_symlink):
                    place.names.add(entry.name)
                    self._watch(entry.path)
                elif _is(entry.is_dir):
                    waiting.append(entry.path)

    def _follow(self, path: str) -> str | None:
        """Where a path leads, every directory and link on the way watched.

        None when it leads nowhere; then what is missing is waited for.
        """
        ahead = path.split("/")[::-1]
        here = "/" if path.startswith("/") else "."
        around: _Place | None = None  # of ``here``
        for _ in range(_STEPS):
            if not ahead:
                return here
            name = ahead.pop()
            if name in {"", "."}:
                continue
            step = os.path.join(here, name)
            try:
                mode = os.lstat(step).st_mode
            except (OSError, ValueError):
                if self._await(here, name, step):
                    ahead.append(name)
                    continue
                return None
            link = stat.S_ISLNK(mode)
            place = self._add(step, _SELF | inotify.DONT_FOLLOW if link else _SELF)
            if place is None and not os.path.lexists(step):
                ahead.append(name)  # it went at this moment: wait for it where it was
            elif link:
                try:
                    target = os.readlink(step)
                except OSError:
                    ahead.append(name)
                    continue
                if around is not None:
                    around.names.add(name)
                ahead += target.split("/")[::-1]
                if target.startswith("/"):
                    here, around = "/", None
            else:
                here, around = step, place
        return None

    def _await(self, directory: str, name: str, path: str) -> bool:
        """Watch a directory for a name that is not in it; whether it is there after all."""
        place = self._add(directory, _SELF | _COMING | inotify.ONLYDIR)
        if place is not None:
            place.names.add(name)
        return os.path.lexists(path)


def _is(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except OSError:
        return False


def _is_new(path: str) -> bool:
    """Whether a file that came just now is still to be written."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == 0 and found.st_nlink == 1
