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

from knp_py.agent import chains
from knp_py.agent.layout import Layout, Members, Range
from knp_py.model.net import V4_BASE, format_address, is_v4

REMEMBERED = 60  # seconds that an accepted tuple needs no daemon
DENIED = 2  # the same of a denied one: the pod may learn a name, somebody may be looking
SET_SIZE = 65_535


def install(layout: Layout, members: Members, generation: int) -> str:
    """One transaction that puts the table in force, whatever table of ours was there before."""
    table = layout.table
    body = "\n".join(_table(layout, members, generation))
    return f"table inet {table} {{ }}\ndelete table inet {table}\n{body}\n"


def refill(layout: Layout, members: Members, generation: int) -> str:
    """The same for a table that is there: its chains stay on their hooks, with other rules.

    Where a table is replaced, a packet between two hooks may find the new one's first chain not
    yet in force and the old one's next chain no longer. A chain that is refilled has the old
    rules or the new ones. The kernel refuses this where the table there is too different, of
    another version perhaps.
    """
    table = layout.table
    sets = list(_sets(layout, Members()))
    names = [line.split()[1] for line in sets]
    lines = [f"table inet {table} {{", *sets, "}", f"flush table inet {table}"]
    lines += [f"flush set inet {table} {name}" for name in names]
    return "\n".join([*lines, *_table(layout, members, generation), ""])


def remove(table: str) -> str:
    """One transaction that removes the table, there or not."""
    return f"table inet {table} {{ }}\ndelete table inet {table}\n"


def update(layout: Layout, before: Members, after: Members, generation: int) -> str:
    """One transaction from one world to the next: sets, generation, nothing remembered."""
    lines: list[str] = []
    for name, old, new in (
        ("managed", before.managed, after.managed),
        ("open", before.open_, after.open_),
    ):
        lines += _set_change(layout.table, name, "delete", old - new)
        lines += _set_change(layout.table, name, "add", new - old)
    for verb, links in (
        ("delete", before.links - after.links),
        ("add", after.links - before.links),
    ):
        if links:
            lines.append(f"{verb} element inet {layout.table} links {{ {_names(links)} }}")
    if before.local != after.local:
        lines += [f"flush set inet {layout.table} local{v}" for v in (4, 6)]
        for version in (4, 6):
            elements = _ranges(after.local, version)
            if elements:
                lines.append(f"add element inet {layout.table} local{version} {{ {elements} }}")
    if layout.remember:
        # Those whose turn it is now. Nothing has been added to them since the last change, so
        # this takes all there is: what a flush leaves is what rules add until it is committed.
        lines += [
            f"flush set inet {layout.table} {name}{version}{chains.turn(generation)}"
            for name in ("learned", "denied")
            for version in (4, 6)
        ]
    for chain, rules in chains.generation_chains(layout, generation):
        lines.append(f"flush chain inet {layout.table} {chain}")
        lines += [f"add rule inet {layout.table} {chain} {rule}" for rule in rules]
    return "\n".join(lines) + "\n"


def iptables(layout: Layout, chain: str) -> str:
    """The queue step as input of ``iptables-restore --noflush``: the same for both families.

    Whoever jumps to the chain does so only with a packet that carries a question.
    """
    marks = layout.marks
    lines = ["*mangle", f":{chain} - [0:0]"]
    for asks, target, bypass in chains.queue_steps(layout):
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


# -- the table ---------------------------------------------------------------------------


def _table(layout: Layout, members: Members, generation: int) -> Iterable[str]:
    yield f"table inet {layout.table} {{"
    yield from _sets(layout, members)
    counters = ["judged", "bypassed", "unanswered", "denied", "stale", "forged", "spoofed"]
    if layout.remember:
        counters += ["remembered", "refused"]
    yield from (f"  counter {name} {{ }}" for name in counters)
    yield from _chain("about", [chains.about(layout)])
    for chain, rules in chains.generation_chains(layout, generation):
        yield from _chain(chain, rules)
    yield from _chain("own", chains.own(layout), "output", 400)
    yield from _chain("leave", chains.leave(layout))
    yield from _chain("dns", chains.dns(layout))
    # Two rules: nft 1.0.6 makes "neither port is 53" in one into "not both are".
    yield from _chain("pass", ["th dport 53 goto dns", "th sport 53 goto dns", "accept"])
    yield from _chain("judge", chains.judge(layout))
    yield from _chain("known", chains.known(layout))
    yield from _chain("ends", chains.ends())
    yield from _chain("fresh", [*chains.untouched(), "goto ends"])
    yield from _chain("senders", chains.senders())
    yield from _chain("denying", ["counter name denied drop"])
    yield from _chain("deed", chains.deed(layout))
    yield from _chain("unheard", [chains.clear(layout), "accept"])
    if layout.paths:
        yield from _chain("claims", chains.claims(layout))
        yield from _chain("forward", chains.forward(layout), "forward", layout.priority - 10)
    yield from _chain("pre", chains.pre(layout), "postrouting", layout.priority - 10)
    yield from _chain("inpre", chains.inpre(layout), "input", layout.priority - 10)
    if layout.native:
        queue = list(chains.native_queue(layout))
        yield from _chain("queued", queue, "postrouting", layout.priority)
        yield from _chain("inqueued", queue, "input", layout.priority)
    yield from _chain("post", chains.post(layout), "postrouting", layout.priority + 10)
    yield from _chain("inpost", chains.post(layout), "input", layout.priority + 10)
    yield "}"


def _sets(layout: Layout, members: Members) -> Iterable[str]:
    for name, addresses in (("managed", members.managed), ("open", members.open_)):
        for version in (4, 6):
            yield from _set(f"{name}{version}", version, _addresses(addresses, version))
    yield from _name_set("links", members.links)
    for version in (4, 6):
        elements = _ranges(members.local, version)
        yield from _set(f"local{version}", version, elements, "flags interval; auto-merge;")
    if layout.remember:
        for name, timeout in (("learned", REMEMBERED), ("denied", DENIED)):
            for version in (4, 6):
                for turn in chains.TURNS:
                    yield (
                        f"  set {name}{version}{turn} {{ typeof {chains.key(version)};"
                        f" size {SET_SIZE}; flags dynamic,timeout; timeout {timeout}s; }}"
                    )


def _chain(name: str, rules: Sequence[str], hook: str = "", priority: int = 0) -> Iterable[str]:
    yield f"  chain {name} {{"
    if hook:
        yield f"    type filter hook {hook} priority {priority}; policy accept;"
    yield from (f"    {rule}" for rule in rules)
    yield "  }"


def _set(name: str, version: int, elements: str, more: str = "") -> Iterable[str]:
    inside = f" elements = {{ {elements} }};" if elements else ""
    yield f"  set {name} {{ type ipv{version}_addr; {more}{inside} }}"


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


def _name_set(name: str, links: frozenset[str]) -> Iterable[str]:
    inside = f" elements = {{ {_names(links)} }};" if links else ""
    yield f"  set {name} {{ type ifname;{inside} }}"


def _names(links: frozenset[str]) -> str:
    return ", ".join(f'"{link}"' for link in sorted(links))


def _set_change(table: str, name: str, verb: str, addresses: frozenset[int]) -> list[str]:
    lines = []
    for version in (4, 6):
        elements = _addresses(addresses, version)
        if elements:
            lines.append(f"{verb} element inet {table} {name}{version} {{ {elements} }}")
    return lines
