"""One agent a name in a network namespace."""

import socket

from knp_py.errors import NotPermittedError


class InstanceLock:
    """Held as long as the process lives; the kernel frees it, however the process ends.

    An abstract unix socket belongs to its network namespace, as queues and rules do. Raises
    ``NotPermittedError`` where somebody has the name; what to do then, the caller knows.
    """

    def __init__(self, instance: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.bind(f"\0knp-agent-{instance}")
        except OSError as error:
            self._socket.close()
            raise NotPermittedError(
                f"an agent of the instance {instance!r} is running here"
            ) from error

    def close(self) -> None:
        """Let another have the name."""
        self._socket.close()
