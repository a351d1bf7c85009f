"""IP packets out of frames of link types that ``wire.link`` does not know, by scapy.

scapy knows many (802.11 and its radio headers, Bluetooth, 802.15.4, …) and costs a
third of a second to import, so that happens at the first such frame.
"""

from functools import cache
from typing import Any

from knp_py.errors import PacketError


def find_ip(link: int, data: bytes) -> bytes | None:
    """The frame's first IP packet, from its header on; None if there is none.

    Raises ``PacketError`` if scapy does not know the link type either.
    """
    dissect = _dissector(link)
    if dissect is None:
        raise PacketError(f"link type {link} is not supported")
    try:
        for layer in dissect(data).iterpayloads():
            if isinstance(layer, _ip_layers()):
                return bytes(layer.original)
    except Exception:  # noqa: BLE001 - what scapy raises for damaged frames has no bounds
        return None
    return None


@cache
def _dissector(link: int) -> Any:
    import scapy.layers.all  # noqa: F401, PLC0415 - registers its link types
    from scapy.config import conf  # noqa: PLC0415

    return conf.l2types.num2layer.get(link)


@cache
def _ip_layers() -> tuple[Any, Any]:
    from scapy.layers.inet import IP  # noqa: PLC0415
    from scapy.layers.inet6 import IPv6  # noqa: PLC0415

    return IP, IPv6
