"""What pods learned, kept over a restart of the agent: a journal that is compacted.

A line for every address learned, written before the answer is released that it was in, so
that no pod ever knows an address that a restarted agent does not (SIGKILL included: what was
written is the kernel's). Strict mode's connections, opened by a name that may have ended
since, are lines of a second kind.

::

    {"names": 1, "boot": "…"}
    ["name", "POD-UID", "NODE", "a.example", "ffff0a000001", "ffff0a600001", 9162.41]
    ["connection", ["ffff0a…", "ffff…", 6, 40112, 443], [["*.example", "a.example", …]]]

Addresses are hexadecimal. Times are seconds of ``CLOCK_BOOTTIME``, absolute, and mean nothing
after another boot: the file is then void. When it has grown to about twice what is alive it
is written anew beside itself, a few lines with every commit so that no answer waits for it,
and put in its place by a rename (which takes milliseconds on a disk; ``/run`` is memory).

The file decides what is reachable, so only its owner may have written it: mode 0600 in a
directory that nobody else may write to, no symbolic links.
"""

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from knp_py.engine.names import SavedName
from knp_py.errors import NotPermittedError
from knp_py.model.decision import NameGrant
from knp_py.model.net import V6_LAST

Connection = tuple[int, int, int, int, int]
"""Source and destination address, protocol, source and destination port."""
Opened = tuple[Connection, tuple[NameGrant, ...]]
"""A connection and the grants that opened it; none when it is to be forgotten."""
Alive = Callable[[float], Iterable[SavedName | Opened]]
"""All that is worth keeping at a time, one by one; it may change meanwhile."""

VERSION: Final = 1
MOST: Final = 128 << 20
"""Bytes that the file may have. What does not fit is lost, and counted."""

_COMPACT_AT = 256 << 10  # bytes below which a file is left as it is
_STEP = 64  # lines that a commit adds to the file that will take this one's place
_RETRY = 10.0  # seconds after a failure
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NEVER = float("inf")
_LONGEST = 1 << 20  # bytes of a line that is read
_CREATE = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _Header(msgspec.Struct, frozen=True):
    names: int
    boot: str


class _Name(msgspec.Struct, frozen=True, array_like=True, tag="name", gc=False):
    pod: str
    node: str
    name: str
    address: str
    source: str | None
    expires: float


class _Connection(msgspec.Struct, frozen=True, array_like=True, tag="connection", gc=False):
    ends: tuple[str, str, int, int, int]
    grants: tuple[tuple[str, str, str, str | None, float], ...]


class Kept(NamedTuple):
    """What a file gave. ``remark`` is what to tell about it in one line, mostly nothing."""

    names: list[SavedName]
    connections: list[Opened]
    remark: str = ""


_encode = msgspec.json.Encoder().encode
_header_decoder = msgspec.json.Decoder(_Header)
_line_decoder = msgspec.json.Decoder(_Name | _Connection)


def boot_id() -> str:
    """This boot's, which no other has; empty where the kernel does not say."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


class NameFile:
    """The file ``name`` in ``directory``, which is made if it is not there.

    ``load``, then ``begin``, then ``add`` and ``commit``; all from one thread. Only the
    constructor and ``begin`` raise, ``NotPermittedError``: a file that cannot be written to
    later costs what it would have kept. ``lost`` counts that, ``problem`` says why, ``size``
    is in bytes.
    """

    def __init__(
        self,
        directory: str,
        name: str,
        *,
        boot: str,
        most: int = MOST,
        compact_at: int = _COMPACT_AT,
    ) -> None:
        self.path = f"{directory}/{name}"
        self.lost = 0
        self.problem = ""
        self.size = 0
        self._name = name
        self._new = f"{name}.new"
        self._boot = boot
        self._most = most
        self._compact_at = compact_at
        self._pending: list[SavedName | Opened] = []
        self._alive: Alive = lambda _: ()
        self._file = -1
        self._torn = False  # the file's last line has no end
        self._floor = 0  # bytes after the last compaction
        self._retry = _NEVER
        self._following: _Following | None = None
        self._directory = _open_directory(directory)

    def load(self, now: float) -> Kept:
        """What is still of use at ``now``; never raises, whatever is there."""
        try:
            file = os.open(self._name, _READ, dir_fd=self._directory)
        except FileNotFoundError:
            return Kept([], [])
        except OSError as error:
            return self._void(error.strerror or str(error))
        status = os.fstat(file)
        reason = ""
        if not stat.S_ISREG(status.st_mode):
            reason = "it is no plain file"
        elif status.st_uid != os.geteuid() or status.st_mode & 0o022:
            reason = "others may have written it"
        elif status.st_size > self._most:
            reason = f"it is larger than {self._most} bytes"
        if reason:
            os.close(file)
            return self._void(reason)
        with os.fdopen(file, "rb") as lines:
            try:
                return self._read(lines, now)
            except OSError as error:
                return self._void(error.strerror or str(error))

    def begin(self, alive: Alive, now: float) -> None:
        """Begin a new file with what is ``alive``; what comes later is added to it."""
        self._alive = alive
        self._compact(now)
        while self._following is not None:
            self._go_on(self._following, b"", now)
        if self._file < 0:
            raise NotPermittedError(f"{self.path}: {self.problem}")

    def add(self, saved: SavedName) -> None:
        """A name, as ``DomainCache`` tells it; kept with the next commit."""
        self._pending.append(saved)

    def add_connection(self, connection: Connection, grants: tuple[NameGrant, ...]) -> None:
        """A connection that these grants opened, or one to forget; with the next commit."""
        self._pending.append((connection, grants))

    def commit(self, now: float) -> None:
        """Write what was added, in one go: before the answer that brought it is released."""
        pending = self._pending
        if not pending:
            return
        data = b"".join(map(_encoded, pending))
        try:
            self._append(data)
        except OSError as error:
            self.lost += len(pending)
            self._fail(error, now)
        pending.clear()
        if self._following is not None:
            self._go_on(self._following, data, now)
        elif self.size > max(self._compact_at, 2 * self._floor) or now >= self._retry:
            self._compact(now)

    def close(self, now: float) -> None:
        """Write what was added last, and let go of the file."""
        self.commit(now)
        if self._following is not None:
            self._following.abandon()
            self._following = None
        if self._file >= 0:
            os.close(self._file)
        os.close(self._directory)

    def _header(self) -> bytes:
        return _encode(_Header(VERSION, self._boot)) + b"\n"

    def _append(self, data: bytes) -> None:
        if self.size + len(data) > self._most:
            raise OSError(f"it would be larger than {self._most} bytes")
        if self._torn:
            data = b"\n" + data
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        finally:
            self.size += written
            self._torn = self._torn if not written else written < len(data)

    def _compact(self, now: float) -> None:
        self._retry = _NEVER
        try:
            self._following = _Following(
                self._directory, self._new, self._header(), self._alive(now)
            )
        except OSError as error:
            self._fail(error, now)

    def _go_on(self, following: "_Following", data: bytes, now: float) -> None:
        """What the file got the next one gets too, and some of what is alive."""
        try:
            following.append(data)
            if not following.step():
                self._replace(following)
        except OSError as error:
            following.abandon()
            self._following = None
            self._fail(error, now)

    def _replace(self, following: "_Following") -> None:
        os.rename(self._new, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        if self._file >= 0:
            os.close(self._file)
        self._following = None
        self._file = following.file
        self.size = self._floor = following.size
        self._torn = False
        self._retry = _NEVER
        self.problem = ""

    def _fail(self, error: OSError, now: float) -> None:
        """Memory still has what was lost here: a new file is tried a little later."""
        self.problem = error.strerror or str(error)
        self._retry = now + _RETRY
        self._floor = max(self._floor, self.size)

    def _void(self, reason: str) -> Kept:
        return Kept([], [], f"{self.path}: {reason}; names start empty")

    def _read(self, lines: BinaryIO, now: float) -> Kept:
        first = lines.readline(_LONGEST)
        if not first:
            return self._void("it is empty")
        try:
            header = _header_decoder.decode(first)
        except msgspec.DecodeError:
            return self._void("it holds no names")
        if header.names != VERSION:
            return self._void(f"it is of version {header.names}, this knp reads {VERSION}")
        if not self._boot or header.boot != self._boot:
            return self._void("it is from before this boot")
        names: dict[tuple[str, str, int], SavedName] = {}
        connections: dict[Connection, tuple[NameGrant, ...]] = {}
        damaged = 0
        while line := lines.readline(_LONGEST):
            try:
                if not line.endswith(b"\n"):
                    raise ValueError("torn")
                found = _decoded(line)
            except (ValueError, RecursionError):  # msgspec's are ValueErrors
                damaged += 1
                continue
            if isinstance(found, SavedName):
                key = (found.uid, found.name, found.address)
                before = names.get(key)
                if now < found.expires and (before is None or before.expires < found.expires):
                    names[key] = found
            elif found[1]:
                connections[found[0]] = found[1]
            else:
                connections.pop(found[0], None)
        remark = f"{self.path}: lines that cannot be read: {damaged}" if damaged else ""
        return Kept(list(names.values()), list(connections.items()), remark)


class _Following:
    """The file that will take the other's place: with a header, then all that is alive."""

    def __init__(
        self, directory: int, name: str, header: bytes, alive: Iterable[SavedName | Opened]
    ) -> None:
        self._directory = directory
        self._name = name
        self._rest = iter(alive)
        self.size = 0
        with suppress(FileNotFoundError):  # of an agent that was killed while it wrote
            os.unlink(name, dir_fd=directory)
        self.file = os.open(name, _CREATE, 0o600, dir_fd=directory)
        try:
            self.append(header)
        except OSError:
            self.abandon()
            raise

    def append(self, data: bytes) -> None:
        """Add whole lines. Raises ``OSError``; the file is of no use then."""
        while data:
            written = os.write(self.file, data)
            self.size += written
            data = data[written:]

    def step(self) -> bool:
        """Add some of what is alive; False when that was the last of it."""
        some = list(islice(self._rest, _STEP))
        self.append(b"".join(map(_encoded, some)))
        return len(some) == _STEP

    def abandon(self) -> None:
        """Away with it."""
        os.close(self.file)
        with suppress(OSError):
            os.unlink(self._name, dir_fd=self._directory)


def _encoded(entry: SavedName | Opened) -> bytes:
    if isinstance(entry, SavedName):
        uid, node, name, address, source, expires = entry
        return _encode(("name", uid, node, name, f"{address:x}", _hex(source), expires)) + b"\n"
    (src, dst, protocol, sport, dport), grants = entry
    opened = [
        (pattern, name, f"{address:x}", _hex(source), expires)
        for pattern, name, address, source, expires in grants
    ]
    ends = (f"{src:x}", f"{dst:x}", protocol, sport, dport)
    return _encode(("connection", ends, opened)) + b"\n"


def _hex(address: int | None) -> str | None:
    return None if address is None else f"{address:x}"


def _decoded(line: bytes) -> SavedName | Opened:
    """Raises ``ValueError`` for what is no line of ours."""
    found = _line_decoder.decode(line)
    if isinstance(found, _Name):
        return SavedName(
            found.pod,
            found.node,
            found.name,
            _address(found.address),
            None if found.source is None else _address(found.source),
            found.expires,
        )
    src, dst, protocol, sport, dport = found.ends
    return (
        (_address(src), _address(dst), protocol, sport, dport),
        tuple(
            NameGrant(
                pattern,
                name,
                _address(address),
                None if source is None else _address(source),
                expires,
            )
            for pattern, name, address, source, expires in found.grants
        ),
    )


def _address(text: str) -> int:
    address = int(text, 16)
    if not 0 <= address <= V6_LAST:
        raise ValueError(f"{text!r} is no address")
    return address


def _open_directory(path: str) -> int:
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise NotPermittedError(f"--state-dir {path}: {error.strerror}") from error
    status = os.fstat(directory)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        os.close(directory)
        raise NotPermittedError(
            f"--state-dir {path}: others may write there, and with it decide what names open"
        )
    return directory
