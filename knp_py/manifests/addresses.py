"""Addresses for pods that no document gives one.

Made-up addresses lie in 10.192.0.0/11: private, as pod networks are, so that rules about
private ranges read as their authors meant them, and outside the defaults of kind, k3s,
kubeadm and OpenShift. Which one depends only on kind, namespace, name and ordinal; other
objects matter only when two fall on one address, and then in an order that does not
depend on the input's.
"""

from collections.abc import Iterable

from knp_py.model.net import Cidr, parse_cidr

RANGE: Cidr = parse_cidr("10.192.0.0/11")
_FIRST, _LAST = RANGE.ranges[0]
_SIZE = _LAST - _FIRST + 1


def fnv1a(data: bytes, bits: int = 32) -> int:
    """FNV-1a of 32 or 64 bits (draft-eastlake-fnv)."""
    prime, value = (0x01000193, 0x811C9DC5) if bits == 32 else (0x100000001B3, 0xCBF29CE484222325)
    mask = (1 << bits) - 1
    for byte in data:
        value = ((value ^ byte) * prime) & mask
    return value


class Addresses:
    """Gives out each address once. ``taken`` are those that real objects have."""

    def __init__(self, taken: Iterable[int]) -> None:
        self._taken = {address for address in taken if _FIRST <= address <= _LAST}

    def give(self, kind: str, namespace: str, name: str, ordinal: int) -> int:
        """The address of one made-up pod."""
        identity = f"{kind}/{namespace}/{name}/{ordinal}".encode()
        value = fnv1a(identity, 64)
        # FNV mixes the last bytes only into the low bits; fold the high ones in.
        value ^= value >> 32
        for attempt in range(_SIZE):
            address = _FIRST + (value + attempt) % _SIZE
            # .0 and .255 look like mistakes in a table.
            if address not in self._taken and 0 < address & 0xFF < 0xFF:
                self._taken.add(address)
                return address
        raise OverflowError(f"no address left in {RANGE.text}")
