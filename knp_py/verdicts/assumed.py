"""Where a made-up address may have decided.

A pod that no document gives an address has one of our own making. Selectors do not mind,
but rules about networks look at the address, and the real one may be in another network.
"""

from bisect import bisect_right
from collections.abc import Iterator

from knp_py.engine.chains import Chain
from knp_py.engine.snapshot import Endpoint, Snapshot
from knp_py.model.decision import Decision, Ruling
from knp_py.model.net import V4_BASE, V4_LAST, V6_LAST, is_v4
from knp_py.model.packet import Packet
from knp_py.model.policy import Direction, Tier
from knp_py.verdicts.words import ruling_text

_SHOWN = 3


def made_up_notes(snapshot: Snapshot, packet: Packet, decision: Decision) -> list[str]:
    """A remark for each made-up address that a rule about networks was held against."""
    notes: list[str] = []
    for direction, ruling, subject, peer in (
        (Direction.EGRESS, decision.egress, packet.src, packet.dst),
        (Direction.INGRESS, decision.ingress, packet.dst, packet.src),
    ):
        here, there = snapshot.endpoints.get(subject), snapshot.endpoints.get(peer)
        if ruling is None or here is None or there is None:
            continue
        if not there.pod.made_up or here.pod is there.pod:
            continue
        rules = list(_rules(snapshot, packet, direction, ruling, here, there))
        if rules:
            shown = "; ".join(map(ruling_text, rules[:_SHOWN]))
            notes.append(
                f"the address of {there.pod.key} is made up, and rules about networks judge it:"
                f" {shown}{'; ...' if len(rules) > _SHOWN else ''}"
            )
    return notes


def _rules(
    snapshot: Snapshot,
    packet: Packet,
    direction: Direction,
    ruling: Ruling,
    here: Endpoint,
    there: Endpoint,
) -> Iterator[Ruling]:
    """The rules up to the one that decided for which the other end's address matters."""
    selectors = snapshot.profiles[there.identity].selectors
    ports = (there if direction is Direction.EGRESS else here).ports
    for tier, chain in snapshot.profiles[here.identity].chains(direction):
        bits = _by_address(chain, v4=is_v4(packet.dst))
        for number in selectors:
            bits &= ~chain.selector_masks.get(number, 0)  # these match whatever the address
        bits &= chain.port_bits(packet.protocol, packet.dport, ports) & ~chain.skipped
        decided = ruling in chain.rulings
        if decided:
            low = 1 << chain.rulings.index(ruling)
            # A union stays what it is whatever else matches; of ordered rules those before count.
            bits &= low if tier is Tier.NETWORK_POLICY else (low << 1) - 1
        for index, each in enumerate(chain.rulings):
            if bits >> index & 1:
                yield each
        if decided or ruling is chain.end:
            return


def _by_address(chain: Chain, *, v4: bool) -> int:
    """Bits of the rules that match some addresses of the family and not others."""
    every, some = -1, 0
    blocks = ((V4_BASE, V4_LAST),) if v4 else ((0, V4_BASE - 1), (V4_LAST + 1, V6_LAST))
    for first, last in blocks:
        low, high = bisect_right(chain.bounds, first), bisect_right(chain.bounds, last)
        for mask in chain.masks[low : high + 1]:
            every &= mask
            some |= mask
    return some & ~every
