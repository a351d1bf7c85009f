"""A node's pod networks, kept for a start at which nobody can be asked.

After a reboot a fail-closed agent has no rules yet and perhaps no API server; with its node's
networks it can hold the pods that start meanwhile.
"""

import os
from contextlib import suppress

import msgspec

from knp_py.model.net import parse_cidr
from knp_py.model.objects import Node

_LARGEST = 1 << 16  # bytes


class _Kept(msgspec.Struct):
    name: str
    pod_cidrs: tuple[str, ...]


class NodeFile:
    """One small file. That it cannot be read or written is no reason not to enforce."""

    def __init__(self, directory: str, name: str) -> None:
        self._directory = directory
        self._path = f"{directory}/{name}"
        self._last: Node | None = None

    def read(self, node: str) -> Node | None:
        """What was kept of the node of this name."""
        try:
            with open(self._path, "rb") as stream:
                kept = msgspec.json.decode(stream.read(_LARGEST), type=_Kept)
            for network in kept.pod_cidrs:
                parse_cidr(network)
        except (OSError, ValueError):  # not there, or damaged
            return None
        return Node(kept.name, pod_cidrs=kept.pod_cidrs) if kept.name == node else None

    def write(self, node: Node) -> None:
        """Keep it, whole or not at all."""
        if self._last is not None and self._last.pod_cidrs == node.pod_cidrs:
            return
        part = f"{self._path}.part"
        with suppress(OSError):
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            with open(part, "wb") as stream:
                stream.write(msgspec.json.encode(_Kept(node.name, node.pod_cidrs)))
            os.replace(part, self._path)
            self._last = node
