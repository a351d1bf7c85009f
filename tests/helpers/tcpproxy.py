"""A port that passes connections on to another, and can be made to do it badly."""

import contextlib
import socket
import struct
import threading


class Proxy:
    """Listens on 127.0.0.1 and passes bytes on to ``upstream`` there, whatever they mean."""

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
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
            return len(self._pairs)

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
            pairs = list(self._pairs)
        for pair in pairs:
            _reset(*pair)

    def freeze(self) -> None:
        """Pass nothing on, and keep everything open."""
        self._thawed.clear()

    def thaw(self) -> None:
        """Go on with what was held up."""
        self._thawed.set()

    def _start(self, what: object, *arguments: object) -> None:
        assert callable(what)
        thread = threading.Thread(target=what, args=arguments, name="proxy", daemon=True)
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
        """One direction here, the other in a thread of its own."""
        try:
            far = socket.create_connection(("127.0.0.1", self.upstream))
        except OSError:
            near.close()
            return
        pair = (near, far)
        with self._lock:
            self._pairs.add(pair)
        for end in pair:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=self._copy, args=(far, near), daemon=True)
        back.start()
        self._copy(near, far)
        back.join()
        with self._lock:
            self._pairs.discard(pair)
        near.close()
        far.close()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._thawed.wait()
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def _reset(near: socket.socket, far: socket.socket) -> None:
    """Have the near end closed by a reset; the copying threads do the closing."""
    for end in (near, far):
        with contextlib.suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.shutdown(socket.SHUT_RD)


def _bound(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made
