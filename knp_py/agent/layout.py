"""What an agent's rules are made for: their place in the kernel, and who is in their sets."""

from typing import NamedTuple

from knp_py.agent.marks import Marks

Range = tuple[int, int]


class Queues(NamedTuple):
    """Queue numbers: ``judge`` (first, last), ``main`` of what one process must see, ``dns``."""

    judge: Range
    main: int
    dns: int

    @property
    def numbers(self) -> tuple[int, ...]:
        """Every number that is used."""
        first, last = self.judge
        return tuple(sorted({*range(first, last + 1), self.main, self.dns}))


class Layout(NamedTuple):
    """What stays as it is while an agent runs."""

    table: str
    marks: Marks
    queues: Queues
    fail_open: bool
    remember: bool
    strict: bool
    native: bool
    priority: int = -150  # iptables' mangle; ours lie ten before and ten after it
    paths: bool = True  # nftables can ask for the way back to a sender
    drops: bool = True  # False in a dry run


class Members(NamedTuple):
    """The sets' contents: address integers, and ranges of them.

    ``managed`` are this node's pods that some policy selects, ``open_`` its other pods,
    ``local`` its pod networks: an address in one of them that is no known pod's is judged.
    ``links`` are the interfaces behind which pods are whose egress some policy isolates.
    """

    managed: frozenset[int] = frozenset()
    open_: frozenset[int] = frozenset()
    local: frozenset[Range] = frozenset()
    links: frozenset[str] = frozenset()
