"""Whose addresses a node's pods had, kept for an agent that starts after pods have changed.

What conntrack let one pod do goes on for whoever has its address next. A pod that goes while no
agent is there to see it is missed by nobody, unless somebody has written down that it was there.
"""

import os
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from knp_py.model.net import format_address, parse_address

_LARGEST = 1 << 26  # bytes
_DECODER = msgspec.json.Decoder(dict[str, str])


class OwnerFile:
    """One small file. That it cannot be read or written is no reason not to enforce."""

    def __init__(self, directory: str, name: str) -> None:
        self._directory = directory
        self._path = f"{directory}/{name}"
        self._last: dict[int, str] | None = None

    def read(self) -> dict[int, str]:
        """UIDs of pods by the addresses they had; none where that is not known."""
        try:
            with open(self._path, "rb") as stream:
                kept = _DECODER.decode(stream.read(_LARGEST))
            return {parse_address(address): uid for address, uid in kept.items()}
        except (OSError, ValueError):  # not there, or damaged
            return {}

    def write(self, owners: Mapping[int, str]) -> None:
        """Keep them, all or as they were."""
        if owners == self._last:
            return
        part = f"{self._path}.part"
        with suppress(OSError):
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            text = {format_address(address): uid for address, uid in owners.items()}
            with open(part, "wb") as stream:
                stream.write(msgspec.json.encode(text))
            os.replace(part, self._path)
            self._last = dict(owners)
