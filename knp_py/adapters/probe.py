"""A datagram of the agent's own through its own queue and back: proof that it enforces."""

import os
import socket
import threading

_TOKEN = 16


class RoundTrip:
    """Sends a marked datagram over the loopback interface to itself.

    The rules queue what carries ``mark`` there; whoever reads the queue hands the packet to
    ``seen``. Only when the daemon saw it *and* it was released has the whole way been gone.
    """

    def __init__(self, mark: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
        self._lock = threading.Lock()
        self._token = b""
        self._was_seen = False

    def seen(self, packet: bytes) -> None:
        """The packet thread has this packet in its hands."""
        if self._token and packet.endswith(self._token):
            self._was_seen = True

    def check(self, timeout: float = 1.0) -> str | None:
        """None when a probe came through the queue and back, else what is wrong."""
        with self._lock:
            token = os.urandom(_TOKEN)
            self._was_seen = False
            self._token = token
            self._socket.settimeout(timeout)
            try:
                self._socket.sendto(token, self._socket.getsockname())
                while self._socket.recv(64) != token:
                    pass  # a late one, from a check that had given up
            except TimeoutError:
                return f"no probe packet came back through the queue within {timeout:g} s"
            except OSError as error:
                return f"no probe packet could be sent over the loopback interface: {error}"
            if not self._was_seen:
                return "a probe packet came back without going through the queue: no rules?"
            return None

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()
