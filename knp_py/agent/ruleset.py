"""The nftables rules of one agent, as text: pure, so that a test can read them.

One table holds everything that is ours; every change of it is one transaction. The packet's
way, on the postrouting hook and, for what pods send to the node itself, on the input hook:

* ``pre`` (-160) lets pass what needs no verdict and puts a question (`marks.Ask`) on the rest;
* the queue (-150) carries the question to the daemon, which answers with a `marks.Deed`:
  a chain of ours with the native ``queue`` statement, or NFQUEUE rules in iptables' mangle
  table where the kernel lacks that;
* ``post`` (-140) does the deed, remembers it if told to, and clears our bits.

At -150 destinations are translated and sources are not yet: policy sees backends and pods,
in both directions of a connection, never a Service's address (semantics §1).

What fails closed here fails at the question: a packet that comes to ``post`` with its
question unanswered was seen by no daemon.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from knp_py.agent.marks import FROM_NODE, Ask, Deed, Marks
from knp_py.engine.datapath import IPV6_MUST_PASS
from knp_py.model.net import V4_BASE, format_address, is_v4

Range = tuple[int, int]
REMEMBERED = 60  # seconds that an accepted tuple needs no daemon
DENIED = 2  # the same of a denied one: the pod may learn a name, somebody may be looking
SET_SIZE = 65_535

_NEW = (Ask.JUDGE, Ask.JUDGE_DNS, Ask.UNTRACKED)  # unanswered, these fail open or closed
_PORTS = "meta l4proto { tcp, udp, sctp }"


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


class Members(NamedTuple):
    """The sets' contents: address integers, and ranges of them.

    ``managed`` are this node's pods that some policy selects, ``open_`` its other pods,
    ``local`` its pod networks: an address in one of them that is no known pod's is judged.
    """

    managed: frozenset[int] = frozenset()
    open_: frozenset[int] = frozenset()
    local: frozenset[Range] = frozenset()


def install(layout: Layout, members: Members, generation: int) -> str:
    """One transaction that puts the table in force, whatever table of ours was there before."""
    table = layout.table
    body = "\n".join(_table(layout, members, generation))
    return f"table inet {table} {{ }}\ndelete table inet {table}\n{body}\n"


def remove(table: str) -> str:
    """One transaction that removes the table, there or not."""
    return f"table inet {table} {{ }}\ndelete table inet {table}\n"


def update(
    layout: Layout, before: Members, after: Members, generation: int, *, forget: bool = True
) -> str:
    """One transaction from one world to the next: sets, generation, nothing remembered."""
    lines: list[str] = []
    for name, old, new in (
        ("managed", before.managed, after.managed),
        ("open", before.open_, after.open_),
    ):
        lines += _set_change(layout.table, name, "delete", old - new)
        lines += _set_change(layout.table, name, "add", new - old)
    if before.local != after.local:
        lines += [f"flush set inet {layout.table} local{v}" for v in (4, 6)]
        for version in (4, 6):
            elements = _ranges(after.local, version)
            if elements:
                lines.append(f"add element inet {layout.table} local{version} {{ {elements} }}")
    if forget and layout.remember:
        lines += [
            f"flush set inet {layout.table} {name}{version}"
            for name in ("learned", "denied")
            for version in (4, 6)
        ]
    for chain, rules in _generation_chains(layout, generation):
        lines.append(f"flush chain inet {layout.table} {chain}")
        lines += [f"add rule inet {layout.table} {chain} {rule}" for rule in rules]
    return "\n".join(lines) + "\n"


def iptables(layout: Layout, chain: str) -> str:
    """The queue step as input of ``iptables-restore --noflush``: the same for both families.

    Whoever jumps to the chain does so only with a packet that carries a question.
    """
    marks = layout.marks
    lines = ["*mangle", f":{chain} - [0:0]"]
    for asks, target, bypass in _queue_steps(layout):
        first, last = target
        number = (
            f"--queue-num {first}"
            if first == last
            else f"--queue-balance {first}:{last} --queue-cpu-fanout"
        )
        for ask in asks:
            match = f"-m mark --mark {marks.bits(ask):#x}/{marks.verdict:#x}"
            suffix = " --queue-bypass" if bypass else ""
            lines.append(f"-A {chain} {match} -j NFQUEUE {number}{suffix}")
    return "\n".join([*lines, "COMMIT", ""])


def _queue_steps(layout: Layout) -> list[tuple[tuple[Ask, ...], Range, bool]]:
    """Which questions go to which queue, and whether they pass when nobody listens there."""
    queues, is_open = layout.queues, layout.fail_open
    steps: list[tuple[tuple[Ask, ...], Range, bool]] = [
        ((Ask.JUDGE,), queues.judge, is_open),
        ((Ask.JUDGE_DNS, Ask.UNTRACKED), (queues.main, queues.main), is_open),
    ]
    # An established connection goes on when nobody is there, in both fail modes.
    again = (Ask.AGAIN, Ask.PROBE) if layout.strict else (Ask.PROBE,)
    steps.append((again, (queues.main, queues.main), True))
    steps.append(((Ask.DNS_QUERY, Ask.DNS_ANSWER), (queues.dns, queues.dns), True))
    return steps


# -- the table ---------------------------------------------------------------------------


def _table(layout: Layout, members: Members, generation: int) -> Iterable[str]:
    yield f"table inet {layout.table} {{"
    for name, addresses in (("managed", members.managed), ("open", members.open_)):
        for version in (4, 6):
            yield from _set(f"{name}{version}", version, _addresses(addresses, version))
    for version in (4, 6):
        elements = _ranges(members.local, version)
        yield from _set(f"local{version}", version, elements, "flags interval; auto-merge;")
    counters = ("judged", "bypassed", "unanswered", "denied", "stale", "remembered", "refused")
    yield from (f"  counter {name} {{ }}" for name in counters)
    if layout.remember:
        for name, timeout in (("learned", REMEMBERED), ("denied", DENIED)):
            for version in (4, 6):
                yield (
                    f"  set {name}{version} {{ typeof {_key(version)}; size {SET_SIZE};"
                    f" flags dynamic,timeout; timeout {timeout}s; }}"
                )
    yield from _chain("about", [_about(layout)])
    for chain, rules in _generation_chains(layout, generation):
        yield from _chain(chain, rules)
    yield from _chain("own", _own(layout), "output", 400)
    yield from _chain("leave", _leave(layout))
    yield from _chain("dns", _dns(layout))
    # Two rules: nft 1.0.6 makes "neither port is 53" in one into "not both are".
    yield from _chain("pass", ["th dport 53 goto dns", "th sport 53 goto dns", "accept"])
    yield from _chain("judge", _judge(layout))
    yield from _chain("known", _known(layout))
    yield from _chain("ends", _ends())
    yield from _chain("fresh", [*_untouched(), "goto ends"])
    yield from _chain("senders", _senders())
    yield from _chain("denying", ["counter name denied drop"])
    yield from _chain("deed", _deed(layout))
    yield from _chain("pre", _pre(layout), "postrouting", layout.priority - 10)
    yield from _chain("inpre", _inpre(layout), "input", layout.priority - 10)
    if layout.native:
        queue = list(_native_queue(layout))
        yield from _chain("queued", queue, "postrouting", layout.priority)
        yield from _chain("inqueued", queue, "input", layout.priority)
    yield from _chain("post", _post(layout), "postrouting", layout.priority + 10)
    yield from _chain("inpost", _post(layout), "input", layout.priority + 10)
    yield "}"


def _chain(name: str, rules: Sequence[str], hook: str = "", priority: int = 0) -> Iterable[str]:
    yield f"  chain {name} {{"
    if hook:
        yield f"    type filter hook {hook} priority {priority}; policy accept;"
    yield from (f"    {rule}" for rule in rules)
    yield "  }"


def _set(name: str, version: int, elements: str, more: str = "") -> Iterable[str]:
    inside = f" elements = {{ {elements} }};" if elements else ""
    yield f"  set {name} {{ type ipv{version}_addr; {more}{inside} }}"


def _about(layout: Layout) -> str:
    """Says whose bits these are, to other agents: a rule that no packet comes to."""
    marks = layout.marks
    return f'accept comment "knp packet {marks.ours:#x} connection {marks.connection:#x}"'


def _key(version: int) -> str:
    ip = "ip" if version == 4 else "ip6"
    return f"{ip} saddr . {ip} daddr . meta l4proto . th dport"


def _says(layout: Layout, value: int) -> str:
    """A match: the packet's verdict bits hold this value."""
    marks = layout.marks
    return f"meta mark and {marks.verdict:#010x} == {marks.bits(value):#010x}"


def _say(layout: Layout, value: int) -> str:
    """A statement: our bits of the packet's mark become this value and nothing else."""
    marks = layout.marks
    return f"meta mark set meta mark and {marks.keep:#010x} or {marks.bits(value):#010x}"


def _clear(layout: Layout) -> str:
    return f"meta mark set meta mark and {layout.marks.keep:#010x}"


def _own(layout: Layout) -> list[str]:
    """What the node itself sends is not judged (semantics §7).

    A pod's packet never comes here, so unlike a source address this cannot be forged.
    """
    return [f"{_says(layout, Ask.PROBE)} accept", _say(layout, FROM_NODE)]


def _pre(layout: Layout) -> list[str]:
    return [
        # What pods send carries none of our bits: the shortest way for nearly every packet.
        f"meta mark and {layout.marks.ours:#010x} == 0 goto fresh",
        # Somebody else's rules put them on what a pod sent: it came in by an interface.
        f"meta iif != 0 {_clear(layout)} goto fresh",
        f'{_says(layout, Ask.PROBE)} oifname "lo" accept',
        f"{_says(layout, FROM_NODE)} goto leave",
        _clear(layout),
        "goto fresh",
    ]


def _inpre(layout: Layout) -> list[str]:
    """The node is the destination: only what its pods send is judged, as their egress."""
    return [
        'iifname "lo" accept',
        _clear(layout),
        *_untouched(),
        "jump senders",
    ]


def _untouched() -> list[str]:
    """What passes because of what was judged before, or because IPv6 needs it (semantics §5)."""
    must_pass = ", ".join(map(str, sorted(IPV6_MUST_PASS)))
    return [
        "ct state established goto known",
        "ct state related meta l4proto { icmp, icmpv6 } accept",
        # Accepted, but not answered yet: a UDP stream one way, a SYN sent again.
        "ct state new jump judged",
        f"icmpv6 type {{ {must_pass} }} accept",
    ]


def _leave(layout: Layout) -> list[str]:
    """From the node itself: its resolver's answers to pods are still heard."""
    return [_clear(layout), 'oifname "lo" accept', "goto pass"]


def _known(layout: Layout) -> list[str]:
    """Established: passes, unless it has to be judged again and this is its own direction."""
    rules = ["ct direction reply goto pass"]
    if layout.strict:
        rules += ["jump judged", "jump ends"]
    return [*rules, "goto pass"]


def _ends() -> list[str]:
    """Which connections are judged: those with an end in a pod of this node (semantics §7)."""
    rules = _senders()
    for version, ip in ((4, "ip"), (6, "ip6")):
        rules.append(f"{ip} daddr @managed{version} goto judge")
        rules.append(f"{ip} daddr @local{version} {ip} daddr != @open{version} goto judge")
    return rules


def _senders() -> list[str]:
    rules = []
    for version, ip in ((4, "ip"), (6, "ip6")):
        rules.append(f"{ip} saddr @managed{version} goto judge")
        rules.append(f"{ip} saddr @local{version} {ip} saddr != @open{version} goto judge")
    return rules


def _judge(layout: Layout) -> list[str]:
    rules: list[str] = []
    if layout.remember:
        for version, family in ((4, "ipv4"), (6, "ipv6")):
            match = f"meta nfproto {family} {_PORTS} {_key(version)}"
            rules += [
                f"{match} @learned{version} goto remembered",
                f"{match} @denied{version} counter name refused drop",
            ]
    return [
        *rules,
        "counter name judged",
        *([f"ct state established {_say(layout, Ask.AGAIN)} accept"] if layout.strict else []),
        f"ct state untracked {_say(layout, Ask.UNTRACKED)} accept",
        f"meta l4proto {{ tcp, udp }} th dport 53 {_say(layout, Ask.JUDGE_DNS)} accept",
        f"{_say(layout, Ask.JUDGE)} accept",
    ]


def _dns(layout: Layout) -> list[str]:
    """Allowed DNS packets of managed pods go by the daemon: what is asked, what is learned."""
    rules = ["meta l4proto != { tcp, udp } accept"]
    query, answer = _say(layout, Ask.DNS_QUERY), _say(layout, Ask.DNS_ANSWER)
    for version, ip in ((4, "ip"), (6, "ip6")):
        asks = f"{ip} saddr @managed{version} th dport 53"
        told = f"{ip} daddr @managed{version} th sport 53"
        rules += [
            f"ct direction original {asks} {query} accept",
            f"ct direction reply {told} {answer} accept",
            f"ct state untracked {told} {answer} accept",
        ]
    return [*rules, "accept"]


def _native_queue(layout: Layout) -> Iterable[str]:
    for asks, (first, last), bypass in _queue_steps(layout):
        flags = [
            *(["bypass"] if bypass else []),
            *(["fanout"] if first != last else []),
        ]
        to = f"{first}" if first == last else f"{first}-{last}"
        how = f"flags {','.join(flags)} to" if flags else "num"
        for ask in asks:
            yield f"{_says(layout, ask)} queue {how} {to}"


def _post(layout: Layout) -> list[str]:
    marks = layout.marks
    answered = marks.bits(8)
    rules = [f"meta mark and {marks.verdict:#010x} == 0 accept"]
    rules.append(f"meta mark and {answered:#010x} != 0 goto deed")
    values = ", ".join(f"{marks.bits(ask):#010x}" for ask in _NEW)
    deed = "counter name bypassed" if layout.fail_open else "counter name unanswered drop"
    rules.append(f"meta mark and {marks.verdict:#010x} {{ {values} }} {deed}")
    return [*rules, _clear(layout)]


def _deed(layout: Layout) -> list[str]:
    rules = ["jump learn", f"{_says(layout, Deed.DENY)} goto denying"]
    if layout.remember:
        rules.append(f"{_says(layout, Deed.DENY_REMEMBER)} goto denying")
    return [*rules, _clear(layout), "accept"]


def _generation_chains(layout: Layout, generation: int) -> list[tuple[str, list[str]]]:
    """The chains that name the generation: rewritten with every change."""
    marks = layout.marks
    current = (
        f"meta mark and {marks.generation:#010x} != {marks.packet_generation(generation):#010x}"
    )
    # A verdict of another world does its deed, but nobody remembers it.
    learn = [f"{current} counter name stale return"]
    if layout.remember:
        for name, deed in (("learned", Deed.ACCEPT_REMEMBER), ("denied", Deed.DENY_REMEMBER)):
            for version, family in ((4, "ipv4"), (6, "ipv6")):
                learn.append(
                    f"{_says(layout, deed)} meta nfproto {family} {_PORTS}"
                    f" update @{name}{version} {{ {_key(version)} }}"
                )
    stamp = (
        f"ct mark set ct mark and {~marks.connection & 0xFFFF_FFFF:#010x}"
        f" or {marks.connection_generation(generation):#010x}"
    )
    learn += [f"{_says(layout, deed)} {stamp}" for deed in (Deed.ACCEPT, Deed.ACCEPT_REMEMBER)]
    is_judged = f"== {marks.connection_generation(generation):#010x}" if layout.strict else "!= 0"
    chains = [
        ("learn", learn),
        ("judged", [f"ct mark and {marks.connection:#010x} {is_judged} goto pass"]),
    ]
    if layout.remember:
        chains.append(("remembered", ["counter name remembered", stamp, "goto pass"]))
    return chains


# -- elements ------------------------------------------------------------------------------


def _addresses(addresses: Iterable[int], version: int) -> str:
    return ", ".join(
        format_address(each) for each in sorted(addresses) if is_v4(each) is (version == 4)
    )


def _ranges(ranges: Iterable[Range], version: int) -> str:
    return ", ".join(
        f"{format_address(first)}-{format_address(last)}"
        if first != last
        else format_address(last)
        for first, last in sorted(ranges)
        if (first >= V4_BASE and is_v4(first)) is (version == 4)
    )


def _set_change(table: str, name: str, verb: str, addresses: frozenset[int]) -> list[str]:
    lines = []
    for version in (4, 6):
        elements = _addresses(addresses, version)
        if elements:
            lines.append(f"{verb} element inet {table} {name}{version} {{ {elements} }}")
    return lines
