"""The chains of an agent's table, rule by rule; ``agent.ruleset`` says how they play together."""

from collections.abc import Iterable

from knp_py.agent.layout import Layout, Range
from knp_py.agent.marks import FROM_NODE, UNHEARD, Ask, Deed
from knp_py.engine.datapath import IPV6_MUST_PASS

_NEW = (Ask.JUDGE, Ask.JUDGE_DNS, Ask.UNTRACKED)  # unanswered, these fail open or closed
_PORTS = "meta l4proto { tcp, udp, sctp }"


def queue_steps(layout: Layout) -> list[tuple[tuple[Ask, ...], Range, bool]]:
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


def about(layout: Layout) -> str:
    """Says whose bits these are, to other agents: a rule that no packet comes to."""
    marks = layout.marks
    return f'accept comment "knp packet {marks.ours:#x} connection {marks.connection:#x}"'


TURNS = ("a", "b")
"""Sets of what is remembered come in pairs, used in turn: one for every second generation."""


def turn(generation: int) -> str:
    """Whose turn it is."""
    return TURNS[generation % 2]


def key(version: int) -> str:
    """What a remembered connection is found by."""
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


def clear(layout: Layout) -> str:
    """A statement: none of our bits are left on the packet."""
    return f"meta mark set meta mark and {layout.marks.keep:#010x}"


def own(layout: Layout) -> list[str]:
    """What the node itself sends is not judged (semantics §7).

    A pod's packet never comes here, so unlike a source address this cannot be forged.
    """
    return [f"{_says(layout, Ask.PROBE)} accept", _say(layout, FROM_NODE)]


def pre(layout: Layout) -> list[str]:
    """What goes on to other machines and to pods: which of it is to be judged."""
    return [
        # What pods send carries none of our bits: the shortest way for nearly every packet.
        f"meta mark and {layout.marks.ours:#010x} == 0 goto fresh",
        f"{_says(layout, UNHEARD)} ct state established ct direction reply goto unheard",
        # Somebody else's rules put them on what a pod sent: it came in by an interface.
        f"meta iif != 0 {clear(layout)} goto fresh",
        f'{_says(layout, Ask.PROBE)} oifname "lo" accept',
        f"{_says(layout, FROM_NODE)} goto leave",
        clear(layout),
        "goto fresh",
    ]


def forward(layout: Layout) -> list[str]:
    """An answer from where its sender is not: a pod that writes its resolver's address on it.

    It is in the reply direction of what the pod asked, so conntrack takes it for an answer.
    """
    spoofed = _spoofed(layout)
    answer = "meta l4proto { tcp, udp } th sport 53"
    forged = "fib saddr . iif oif 0 counter name forged"
    return [
        *spoofed,
        # What came in by these has just been looked up.
        "ct state != established iifname != @links jump claims",
        f"{answer} ct direction reply {forged} {_say(layout, UNHEARD)}",
        # Nobody knows of these whether they answer anything, so they are not let through to ask.
        f"{answer} ct state untracked {forged} drop",
    ]


def _spoofed(layout: Layout) -> list[str]:
    """From an isolated pod's interface, with an address that is not there: judged as nobody's.

    It would be judged by an address that its sender chose, so it goes no further.
    """
    if not layout.paths:
        return []
    # Not for every packet of what was judged: the way back is looked up at a connection's first.
    found = "ct state != established iifname @links fib saddr . iif oif 0"
    return [f"{found} {_refuse_spoofed(layout)}"]


def _refuse_spoofed(layout: Layout) -> str:
    """A statement: counted, and dropped unless nothing is."""
    return "counter name spoofed drop" if layout.drops else "counter name spoofed"


def claims(layout: Layout) -> list[str]:
    """From where that pod of this node is not: whoever it is, even one that no policy selects.

    Its receiver's policy would take it for that pod; or for the node, whose own packets do not
    come this way and whose address IPv6 lets anybody send from.
    """
    deed = _refuse_spoofed(layout)
    rules = []
    for version, ip in ((4, "ip"), (6, "ip6")):
        to = f"{ip} daddr @managed{version}"
        rules.append(f"{to} fib saddr type local {deed}")
        rules += [
            f"{to} {ip} saddr @{whose}{version} fib saddr . iif oif 0 {deed}"
            for whose in ("managed", "open")
        ]
    return rules


def inpre(layout: Layout) -> list[str]:
    """The node is the destination: only what its pods send is judged, as their egress."""
    return [
        'iifname "lo" accept',
        clear(layout),
        *untouched(),
        *_spoofed(layout),
        # No policy knows a pod's link-local address, but the node answers to its own.
        "ip6 saddr fe80::/10 iifname @links goto judge",
        "jump senders",
    ]


def untouched() -> list[str]:
    """What passes because of what was judged before, or because IPv6 needs it (semantics §5)."""
    return [
        "ct state established goto known",
        "ct state related meta l4proto { icmp, icmpv6 } accept",
        # Accepted, but not answered yet: a UDP stream one way, a SYN sent again.
        "ct state new jump judged",
        *_discovery(),
    ]


def _discovery() -> list[str]:
    """Neighbour, router and listener discovery as it is on a link, and nowhere else.

    A router that forwards lowers the hop limit, so what comes from another link is no discovery
    (RFC 4861 §6.1, §7.1; RFC 2710 §3; RFC 3810 §5) but something that wears its type.
    """
    listeners = {130, 131, 132, 143}
    rules = []
    for types, limit in ((IPV6_MUST_PASS - listeners, 255), (listeners, 1)):
        listed = ", ".join(map(str, sorted(types)))
        rules.append(f"icmpv6 type {{ {listed} }} ip6 hoplimit {limit} accept")
    return rules


def leave(layout: Layout) -> list[str]:
    """From the node itself: its resolver's answers to pods are still heard."""
    return [clear(layout), 'oifname "lo" accept', "goto pass"]


def known(layout: Layout) -> list[str]:
    """Established: passes, unless it has to be judged again and this is its own direction."""
    rules = ["ct direction reply goto pass"]
    if layout.strict:
        rules += ["jump judged", "jump ends"]
    return [*rules, "goto pass"]


def ends() -> list[str]:
    """Which connections are judged: those with an end in a pod of this node (semantics §7)."""
    rules = senders()
    for version, ip in ((4, "ip"), (6, "ip6")):
        rules.append(f"{ip} daddr @managed{version} goto judge")
        rules.append(f"{ip} daddr @local{version} {ip} daddr != @open{version} goto judge")
    return rules


def senders() -> list[str]:
    """Those of them that a pod of this node opened."""
    rules = []
    for version, ip in ((4, "ip"), (6, "ip6")):
        rules.append(f"{ip} saddr @managed{version} goto judge")
        rules.append(f"{ip} saddr @local{version} {ip} saddr != @open{version} goto judge")
    return rules


def judge(layout: Layout) -> list[str]:
    """Remembered, or which question it is that the daemon gets."""
    rules = ["jump memory"] if layout.remember else []
    return [
        *rules,
        "counter name judged",
        *([f"ct state established {_say(layout, Ask.AGAIN)} accept"] if layout.strict else []),
        f"ct state untracked {_say(layout, Ask.UNTRACKED)} accept",
        f"meta l4proto {{ tcp, udp }} th dport 53 {_say(layout, Ask.JUDGE_DNS)} accept",
        f"{_say(layout, Ask.JUDGE)} accept",
    ]


def dns(layout: Layout) -> list[str]:
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


def native_queue(layout: Layout) -> Iterable[str]:
    """The queue step in nftables' own words."""
    for asks, (first, last), bypass in queue_steps(layout):
        flags = [
            *(["bypass"] if bypass else []),
            *(["fanout"] if first != last else []),
        ]
        to = f"{first}" if first == last else f"{first}-{last}"
        how = f"flags {','.join(flags)} to" if flags else "num"
        for ask in asks:
            yield f"{_says(layout, ask)} queue {how} {to}"


def post(layout: Layout) -> list[str]:
    """The deed; what came back without one fails open or closed."""
    marks = layout.marks
    answered = marks.bits(8)
    rules = [f"meta mark and {marks.verdict:#010x} == 0 accept"]
    rules.append(f"meta mark and {answered:#010x} != 0 goto deed")
    values = ", ".join(f"{marks.bits(ask):#010x}" for ask in _NEW)
    deed = "counter name bypassed" if layout.fail_open else "counter name unanswered drop"
    rules.append(f"meta mark and {marks.verdict:#010x} {{ {values} }} {deed}")
    return [*rules, clear(layout)]


def deed(layout: Layout) -> list[str]:
    """Remember it if told to, then drop or accept."""
    rules = ["jump learn", f"{_says(layout, Deed.DENY)} goto denying"]
    if layout.remember:
        rules.append(f"{_says(layout, Deed.DENY_REMEMBER)} goto denying")
    return [*rules, clear(layout), "accept"]


def generation_chains(layout: Layout, generation: int) -> list[tuple[str, list[str]]]:
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
                    f" update @{name}{version}{turn(generation)} {{ {key(version)} }}"
                )
    number = marks.seal(generation, strict=layout.strict)
    stamp = f"ct mark set ct mark and {~marks.connection & 0xFFFF_FFFF:#010x} or {number:#010x}"
    learn += [f"{_says(layout, deed)} {stamp}" for deed in (Deed.ACCEPT, Deed.ACCEPT_REMEMBER)]
    is_judged = f"ct mark and {marks.connection:#010x} == {number:#010x} goto pass"
    chains = [("learn", learn), ("judged", [is_judged])]
    if layout.remember:
        chains.append(("remembered", ["counter name remembered", stamp, "goto pass"]))
        memory = []
        for version, family in ((4, "ipv4"), (6, "ipv6")):
            match = f"meta nfproto {family} {_PORTS} {key(version)}"
            memory += [
                f"{match} @learned{version}{turn(generation)} goto remembered",
                f"{match} @denied{version}{turn(generation)} counter name refused drop",
            ]
        chains.append(("memory", memory))
    return chains
