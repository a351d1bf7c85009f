"""Our rules in the kernel, whichever way packets get to the queue there."""

import re
from typing import Any

from knp_py.adapters.iptables import QueueRules
from knp_py.adapters.nft import Nft
from knp_py.errors import KernelError, NotPermittedError

SETS = ("managed4", "managed6", "open4", "open6", "local4", "local6", "links")
"""Those that hold what the agent put there."""

_ONE_AGENT = "only one agent can queue packets, since this kernel has no nftables queue statement"
_SCRATCH = "knp_scratch"
_NATIVE = f"table inet {_SCRATCH} {{ chain c {{ queue num 1\n}}\n}}\n"
_CONNTRACK = f"table inet {_SCRATCH} {{ chain c {{ ct mark set 1\n}}\n}}\n"
_PATHS = (
    f"table inet {_SCRATCH} {{ chain c {{ type filter hook forward priority 0;"
    " fib saddr . iif oif 0\n}\n}\n"
)
_HOLDS = 'counter name "unanswered" drop'  # as nft lists what only fail-closed rules have
_COMMENT = re.compile(r"knp packet 0x([0-9a-f]+) connection 0x([0-9a-f]+)")


class Rules:
    """One agent's table and, where nftables cannot queue, its iptables chain.

    ``mask`` are the bits of packets' marks that say what a packet is queued for.

    Raises ``NotPermittedError`` naming what is missing, before anything has been changed.
    """

    def __init__(self, table: str, chain: str, mask: int) -> None:
        self._table = table
        self._nft = Nft()
        self._nft.tables()  # says so when this is not allowed
        if not self._nft.accepts(_CONNTRACK):
            raise NotPermittedError("the kernel's nftables has no conntrack marks (CONFIG_NFT_CT)")
        self.paths = self._nft.accepts(_PATHS)
        self.native = self._nft.accepts(_NATIVE)
        self._queue_rules = None if self.native else QueueRules(chain, mask)
        self._queue_text = ""

    @property
    def how(self) -> str:
        """The way to the queue, for the log."""
        return "nftables queue" if self.native else "iptables NFQUEUE"

    @property
    def room_for_two(self) -> str:
        """What a second agent here needs to stay out of the way, or that there is no room for it.

        It goes on where a message has said ``stop the other first``.
        """
        if not self.native:
            return f"; {_ONE_AGENT}"
        return (
            ", or give this one --instance, --nfqueue-id, --mark-mask, --generation-mask,"
            " --connmark-mask and --metrics-bind-address of its own"
        )

    def apply(self, ruleset: str) -> None:
        """One nftables transaction."""
        self._nft.apply(ruleset)

    def apply_queue(self, text: str) -> None:
        """The queue step, for kernels without nftables' own."""
        self._queue_text = text
        if self._queue_rules is not None:
            self._queue_rules.apply(text)

    def restore_queue(self) -> None:
        """The queue step once more."""
        self.apply_queue(self._queue_text)

    def has_table(self) -> bool:
        """Whether a table of this name is there, ours or what an agent before us left."""
        return self._nft.has_table(self._table)

    def leftovers(self) -> bool:
        """Whether anything is there that ``remove`` takes away. Raises ``KernelError``."""
        return self.has_table() or bool(self._queue_rules and self._queue_rules.text())

    def holds(self) -> bool:
        """Whether such a table is there that drops what nobody answers: a fail-closed agent's."""
        try:
            return _HOLDS in self._nft.text(self._table, ())
        except KernelError:
            return False

    def complete(self) -> bool:
        """Whether all of it is there, as far as a look from outside tells; not when none does."""
        try:
            if not self.has_table():
                return False
            return self._queue_rules is None or self._queue_rules.complete()
        except KernelError:
            return False

    def text(self) -> str:
        """All of it as the kernel has it, but for what changes by itself.

        Equal texts, equal rules; empty when some of it is not there.
        """
        try:
            text = self._nft.text(self._table, SETS)
            return text if self._queue_rules is None else text + self._queue_rules.text()
        except KernelError:
            return ""

    def remove(self, ruleset: str) -> None:
        """The table by one transaction, then the queue step."""
        self._nft.apply(ruleset)
        if self._queue_rules is not None:
            self._queue_rules.remove()

    def counters(self) -> dict[str, int]:
        """Packets by named counter."""
        return dict(self._nft.counters(self._table))

    def set_size(self, name: str) -> int:
        """How many elements a set holds."""
        return self._nft.set_size(self._table, name)

    def refuse_neighbours(self, packet: int, connection: int) -> None:
        """Raise ``NotPermittedError`` if another agent's rules are here that ours would disturb.

        They do when they use some of these mark bits; and always where packets are queued by
        iptables, because what one agent has queued comes back behind the other's step.
        """
        for name in self._nft.tables():
            if name == self._table or not name.startswith("knp"):
                continue
            found = _COMMENT.search(_comment(self._nft.listing(name)))
            if found is None:
                continue
            remedy = f"run knp agent cleanup --instance {name.removeprefix('knp_')}"
            if self._queue_rules is not None:
                raise NotPermittedError(
                    f"the table {name} of another agent is here, and {_ONE_AGENT}: stop that agent"
                    f" and {remedy}"
                )
            theirs = int(found[1], 16), int(found[2], 16)
            if theirs[0] & packet or theirs[1] & connection:
                raise NotPermittedError(
                    f"the table {name} of another agent uses some of the same mark bits: give this"
                    " one --mark-mask, --generation-mask and --connmark-mask of its own, or stop"
                    f" the other and {remedy}"
                )


def _comment(listing: list[Any]) -> str:
    """The comment that the table's chain ``about`` carries."""
    for each in listing:
        rule = each.get("rule", {})
        if rule.get("chain") == "about":
            return str(rule.get("comment", ""))
    return ""
