"""How the rules and the daemon talk: a few bits of the packet's mark and of the connection's.

The rules put a *question* into the verdict bits of a packet (what it is to be looked at
for), the daemon answers with a *deed* in the same bits and its generation in others, and the
rules that follow the queue do the deed and clear both. In strict mode the generation is also
kept in the connection's mark.

Other users of marks must not be disturbed: kube-proxy owns 0x4000 and 0x8000, the portmap
CNI plugin 0x2000, the AWS CNI 0x80 of the connection. Ours are configurable.
"""

from enum import IntEnum
from typing import NamedTuple

from knp_py.errors import InputError

KUBE_PROXY = 0xC000


class Ask(IntEnum):
    """What a queued packet is to be looked at for."""

    JUDGE = 1  # begins a connection
    AGAIN = 2  # of a connection judged before the last change (strict mode)
    UNTRACKED = 3  # conntrack knows nothing of it: no direction, no state
    DNS_QUERY = 4  # allowed, to port 53: what is asked
    DNS_ANSWER = 5  # allowed, a reply from port 53: what is learned
    PROBE = 6  # the agent's own, for the round trip that readiness proves
    JUDGE_DNS = 7  # begins a connection to port 53: judged, and what is asked


class Deed(IntEnum):
    """What the rules behind the queue do with a packet."""

    ACCEPT = 8
    ACCEPT_REMEMBER = 9
    DENY = 10
    DENY_REMEMBER = 11


UNHEARD = 14
"""Set on a DNS answer that came in where its sender is not: it teaches nothing."""

FROM_NODE = 15
"""Set on what the node itself sends, from the output hook to the postrouting hook."""


_SEAL = 0x5A5  # of judged connections where generations do not matter: no mark by accident


class Marks(NamedTuple):
    """Masks of the packet's mark (``verdict``, ``generation``) and of the connection's."""

    verdict: int = 0x0000_0078
    generation: int = 0x0000_1F00
    connection: int = 0x0FFF_0000

    @property
    def ours(self) -> int:
        """Every bit of a packet's mark that is ours."""
        return self.verdict | self.generation

    @property
    def keep(self) -> int:
        """Every bit of a packet's mark that is not ours."""
        return ~self.ours & 0xFFFF_FFFF

    @property
    def shift(self) -> int:
        """How far to the right the verdict bits have to move to become a number."""
        return _shift(self.verdict)

    def bits(self, value: int) -> int:
        """An ``Ask`` or ``Deed`` as it stands in a packet's mark."""
        return value << _shift(self.verdict)

    def value(self, mark: int) -> int:
        """The ``Ask`` or ``Deed`` in a packet's mark; 0 when there is none."""
        return (mark & self.verdict) >> _shift(self.verdict)

    def packet_generation(self, generation: int) -> int:
        """A generation as it stands in a packet's mark; never 0."""
        return _wrap(generation, self.generation)

    def connection_generation(self, generation: int) -> int:
        """A generation as it stands in a connection's mark; never 0."""
        return _wrap(generation, self.connection)

    def seal(self, generation: int, *, strict: bool) -> int:
        """What the mark of a connection says that was judged: in strict mode, by which world."""
        return self.connection_generation(generation if strict else _SEAL)

    def wraps(self, generation: int) -> bool:
        """Whether this generation's number in connections' marks has been used before."""
        return generation > 1 and (generation - 1) % _size(self.connection) == 0


def parse_marks(verdict: str, generation: str, connection: str) -> Marks:
    """The masks that were asked for, as ``0x78``; raises ``InputError``."""
    masks = []
    for option, text, least in (
        ("--mark-mask", verdict, 4),
        ("--generation-mask", generation, 2),
        ("--connmark-mask", connection, 4),
    ):
        try:
            mask = int(text, 0)
        except ValueError:
            mask = 0
        width = mask.bit_count()
        solid = mask > 0 and mask >> _shift(mask) == (1 << width) - 1
        if not solid or width < least or mask > 0xFFFF_FFFF:
            raise InputError(f"{option} {text}: expected at least {least} adjacent bits, as 0x78")
        masks.append(mask)
    marks = Marks(*masks)
    if marks.verdict.bit_count() != 4:
        raise InputError(f"--mark-mask {verdict}: expected four adjacent bits, as 0x78")
    if marks.verdict & marks.generation:
        raise InputError(f"--mark-mask {verdict} and --generation-mask {generation} overlap")
    for option, mask in (("--mark-mask", marks.verdict), ("--generation-mask", marks.generation)):
        if mask & KUBE_PROXY:
            raise InputError(f"{option} {mask:#x} takes bits of kube-proxy's (0x4000, 0x8000)")
    return marks


def _shift(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _size(mask: int) -> int:
    return (1 << mask.bit_count()) - 1


def _wrap(generation: int, mask: int) -> int:
    return ((generation - 1) % _size(mask) + 1) << _shift(mask)
