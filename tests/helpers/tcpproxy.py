"""A port that passes connections on to another, and can be made to do it badly."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable


class _Link:
    """A connection: the client's end, and the one to where it is passed on."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self._ends = (near, far)
        self._reset = False

    def run(self, wait: Callable[[], object]) -> None:
        """Copy both ways until both are done; ``wait`` is called before anything is passed on."""
        near, far = self._ends
        for end in self._ends:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=self._copy, args=(far, near, wait), daemon=True)
        back.start()
        self._copy(near, far, wait)
        back.join()
        near.close()
        far.close()

    def reset(self) -> None:
        """Have both ends closed by a reset."""
        self._reset = True
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RD)  # wakes who reads; says nothing to the other side

    def _copy(
        self, source: socket.socket, target: socket.socket, wait: Callable[[], object]
    ) -> None:
        with contextlib.suppress(OSError):
            while (data := source.recv(65536)) and not self._reset:
                wait()
                target.sendall(data)
        if not self._reset:
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_WR)


class Proxy:
    """Listens on 127.0.0.1 and passes bytes on to ``upstream`` there, whatever they mean."""

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._threads: list[threading.Thread] = []
        self._thawed = threading.Event()
        self._thawed.set()
        self._listening: socket.socket | None = None
        self._reserved = _bound(0)
        self.port: int = self._reserved.getsockname()[1]

    @property
    def connections(self) -> int:
        """How many are open."""
        with self._lock:
            return len(self._links)

    def start(self) -> None:
        """Accept connections."""
        self._listening = self._reserved
        self._listening.listen(128)
        self._start(self._accept, self._listening)

    def stop(self) -> None:
        """Refuse connections and reset those there are; the port stays ours."""
        if self._listening is None:
            return
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with self._lock:
            self._listening = None
        self._reserved = _bound(self.port)
        self.drop()

    def close(self) -> None:
        """Give the port up, and wait for all threads."""
        self.stop()
        self._reserved.close()
        for thread in self._threads:
            thread.join()

    def drop(self) -> None:
        """Reset all connections."""
        self.thaw()
        with self._lock:
            links = list(self._links)
        for link in links:
            link.reset()

    def freeze(self) -> None:
        """Pass nothing on, and keep everything open."""
        self._thawed.clear()

    def thaw(self) -> None:
        """Go on with what was held up."""
        self._thawed.set()

    def _start(self, what: Callable[[socket.socket], None], argument: socket.socket) -> None:
        thread = threading.Thread(target=what, args=(argument,), name="proxy", daemon=True)
        with self._lock:
            self._threads = [known for known in self._threads if known.is_alive()]
            self._threads.append(thread)
            thread.start()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                near, _ = listening.accept()
            except OSError:
                return
            self._start(self._serve, near)

    def _serve(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self.upstream))
        except OSError:
            near.close()
            return
        link = _Link(near, far)
        with self._lock:
            self._links.add(link)
            late = self._listening is None  # accepted just before it was stopped
        if late:
            link.reset()
        try:
            link.run(self._thawed.wait)
        finally:
            with self._lock:
                self._links.discard(link)


def _bound(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made
