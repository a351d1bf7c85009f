"""The rules as text: what they name exists, whose bits they touch, what a mode changes."""

import re
from collections.abc import Callable, Iterator
from difflib import ndiff
from itertools import product

import pytest
from helpers.builders import address
from helpers.rules_text import Table, installed, updated
from hypothesis import given
from hypothesis import strategies as st

from knp_py.agent.layout import Layout, Members, Queues
from knp_py.agent.marks import Ask, Deed, Marks
from knp_py.agent.ruleset import install, iptables, refill, remove, update
from knp_py.engine.datapath import IPV6_MUST_PASS
from knp_py.model.net import V4_BASE, V4_LAST

ONE_QUEUE, FOUR_QUEUES = Queues((100, 100), 100, 101), Queues((100, 103), 100, 104)
OTHER_MARKS = Marks(0xF << 24, 0x7 << 20, 0xFF)
MEMBERS = Members(
    frozenset({address("10.1.0.5"), address("fd00::5")}),
    frozenset({address("10.1.0.6"), address("fd00::6")}),
    frozenset(
        {
            (address("10.1.0.0"), address("10.1.0.255")),
            (address("fd00::"), address("fd00::ff")),
        }
    ),
)
BOOLS = (True, False)


def layout(
    *,
    table: str = "knp",
    marks: Marks = Marks(),  # noqa: B008  immutable
    queues: Queues = ONE_QUEUE,
    fail_open: bool = True,
    remember: bool = True,
    strict: bool = True,
    native: bool = True,
    priority: int = -150,
) -> Layout:
    return Layout(table, marks, queues, fail_open, remember, strict, native, priority)


EVERY_LAYOUT = [
    layout(marks=m, queues=q, fail_open=f, remember=r, strict=s, native=n)
    for m in (Marks(), OTHER_MARKS)
    for q in (ONE_QUEUE, FOUR_QUEUES)
    for f, r, s, n in product(BOOLS, BOOLS, BOOLS, BOOLS)
]


def every_layout(test: Callable[[Layout], None]) -> Callable[[], None]:
    """One test over all of them; a failure says of which."""

    def over_all() -> None:
        for each in EVERY_LAYOUT:
            try:
                test(each)
            except AssertionError as error:
                error.add_note(str(each))
                raise

    over_all.__name__, over_all.__doc__ = test.__name__, test.__doc__
    return over_all


def table(each: Layout, generation: int = 1, members: Members = MEMBERS) -> Table:
    return installed(install(each, members, generation))


def targets(rule: str) -> list[str]:
    return re.findall(r"\b(?:jump|goto) (\w+)", rule)


def test_a_table_is_refilled_with_what_it_is_made_with() -> None:
    for each in EVERY_LAYOUT:
        text = refill(each, MEMBERS, 3)
        assert installed(text) == table(each, 3)
        assert "delete" not in text


# -- what is named exists ------------------------------------------------------------------


@every_layout
def test_every_chain_set_and_counter_that_is_named_is_there(each: Layout) -> None:
    made = table(each)
    for chain, rule in made.rules():
        assert set(targets(rule)) <= set(made.chains), (chain, rule)
        assert set(re.findall(r"@(\w+)", rule)) <= set(made.sets), (chain, rule)
        assert set(re.findall(r"counter name (\w+)", rule)) <= set(made.counters), (chain, rule)


@every_layout
def test_every_chain_is_reached_and_no_way_leads_back(each: Layout) -> None:
    made = table(each)
    reached: set[str] = set()

    def walk(chain: str, above: tuple[str, ...]) -> None:
        assert chain not in above, (*above, chain)
        reached.add(chain)
        for rule in made.chains[chain]:
            for target in targets(rule):
                walk(target, (*above, chain))

    for chain in made.hooks:
        walk(chain, ())
    # It only says whose the bits are.
    assert set(made.chains) - reached == {"about"}


@every_layout
def test_every_set_and_counter_that_is_there_is_used(each: Layout) -> None:
    made = table(each)
    rules = "\n".join(rule for _, rule in made.rules())
    unused = {name for name in made.sets if f"@{name}" not in rules}
    # Of each pair of memories one has its turn; nothing may be added to the other.
    assert unused == ({f"{name}a" for name in MEMORIES} if each.remember else set())
    counters = {name for name in made.counters if f"counter name {name}" not in rules}
    assert counters == {"unanswered" if each.fail_open else "bypassed"}


MEMORIES = ("learned4", "learned6", "denied4", "denied6")
RESERVED = {
    "add", "accept", "bridge", "chain", "comment", "continue", "counter", "ct", "delete", "drop",
    "element", "fib", "flags", "flush", "goto", "hook", "icmp", "inet", "input", "ip", "jump",
    "limit", "list", "log", "mark", "meta", "notrack", "output", "policy", "postrouting",
    "priority", "queue", "redirect", "reject", "return", "rule", "set", "size", "table", "timeout",
    "type", "typeof", "udp", "update",
}  # fmt: skip


@every_layout
def test_no_name_is_a_word_of_the_language(each: Layout) -> None:
    """To nft 1.0.6 ``chain queue`` is a mistake, and with it the whole transaction."""
    made = table(each)
    assert RESERVED.isdisjoint({*made.chains, *made.sets, *made.counters})


# -- whose bits ----------------------------------------------------------------------------

_MARK_SET = re.compile(
    r"(meta|ct) mark set (?:meta|ct) mark and (0x[0-9a-f]{8})(?: or (0x[0-9a-f]{8}))?"
)


def settings(each: Layout, generation: int) -> Iterator[tuple[str, int, int]]:
    """Every setting of a mark: whose (``meta``, ``ct``), what is kept, what is added."""
    for chain, rule in table(each, generation).rules():
        found = _MARK_SET.findall(rule)
        assert len(found) == rule.count("mark set"), (chain, rule)
        for kind, kept, added in found:
            yield kind, int(kept, 16), int(added or "0", 16)


@given(
    st.integers(min_value=0, max_value=0xFFFF_FFFF),
    st.integers(min_value=1, max_value=1 << 20),
    st.sampled_from(EVERY_LAYOUT),
)
def test_other_users_bits_stay_what_they_are(mark: int, generation: int, each: Layout) -> None:
    ours = {"meta": each.marks.ours, "ct": each.marks.connection}
    kinds = set()
    for kind, kept, added in settings(each, generation):
        kinds.add(kind)
        after = mark & kept | added
        assert (after ^ mark) & ~ours[kind] == 0
    assert kinds == {"meta", "ct"}


@every_layout
def test_a_mark_of_ours_is_replaced_whole(each: Layout) -> None:
    """Nothing of what came before is left in it, so that nobody can bring half an answer."""
    for kind, kept, added in settings(each, 7):
        mask = each.marks.ours if kind == "meta" else each.marks.connection
        assert kept == ~mask & 0xFFFF_FFFF
        if kind == "ct":
            # Where generations do not matter, one seal of many bits: no mark by accident.
            number = 7 if each.strict else 0x5A5
            assert added == each.marks.connection_generation(number)
            assert added.bit_count() > 2
        else:
            assert added & each.marks.generation == 0  # only the daemon says what it is of


@every_layout
def test_marks_are_compared_under_our_masks_only(each: Layout) -> None:
    masks = {
        "meta": {each.marks.verdict, each.marks.generation, each.marks.ours, each.marks.bits(8)},
        "ct": {each.marks.connection},
    }
    for chain, rule in table(each).rules():
        compared = re.findall(r"(meta|ct) mark and (0x[0-9a-f]+) (?:[!=]=|\{)", rule)
        assert all(int(mask, 16) in masks[kind] for kind, mask in compared), (chain, rule)


@every_layout
def test_whose_bits_these_are_is_written_where_another_agent_finds_it(each: Layout) -> None:
    marks = each.marks
    (rule,) = table(each).chains["about"]
    assert f'"knp packet {marks.ours:#x} connection {marks.connection:#x}"' in rule


# -- hooks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("priority", [-150, -145, 10])
@pytest.mark.parametrize("native", [True, False])
def test_ours_lie_around_the_queue(priority: int, native: bool) -> None:
    made = table(layout(priority=priority, native=native))
    places = {
        (found["hook"], int(found["priority"]))
        for line in made.hooks.values()
        if (found := re.fullmatch(
            r"type filter hook (?P<hook>\w+) priority (?P<priority>-?\d+); policy accept;", line
        ))
    }  # fmt: skip
    hooks = ("postrouting", "input")
    expected = {(hook, priority + more) for hook in hooks for more in (-10, 10)}
    expected.add(("forward", priority - 10))
    if native:
        expected |= {(hook, priority) for hook in hooks}
    assert places == expected | {("output", 400)}
    assert len(made.hooks) == len(places)


def test_what_would_not_work_without_is_never_judged() -> None:
    """On its own link: what a router has forwarded only wears the type (RFC 4861 §6.1)."""
    rules = [rule for rule in table(layout()).chains["fresh"] if rule.startswith("icmpv6")]
    passing: set[int] = set()
    for rule, limit in zip(rules, (255, 1), strict=True):
        found = re.fullmatch(rf"icmpv6 type \{{ (.+) \}} ip6 hoplimit {limit} accept", rule)
        assert found is not None, rule
        passing |= set(map(int, found[1].split(", ")))
    assert passing == IPV6_MUST_PASS


def test_another_instance_has_nothing_in_common() -> None:
    text = install(layout(), MEMBERS, 1)
    other = install(
        layout(table="knp_b", marks=OTHER_MARKS, queues=Queues((200, 200), 200, 201)), MEMBERS, 1
    )
    assert "inet knp " not in other
    usual = Marks()
    masks = (usual.verdict, usual.generation, usual.keep, usual.connection)
    for mask in masks:
        assert f"{mask:#010x}" in text or mask == usual.generation
        assert f"{mask:#010x}" not in other
    assert re.findall(r"queue .*(?:num|to) (\d+)", other)
    assert set(re.findall(r"queue .*(?:num|to) (\d+)", other)) == {"200", "201"}


# -- modes ---------------------------------------------------------------------------------


def difference(one: Layout, other: Layout) -> tuple[list[str], list[str]]:
    """Lines only in the one's transaction, lines only in the other's."""
    lines = list(
        ndiff(
            install(one, MEMBERS, 1).splitlines(),
            install(other, MEMBERS, 1).splitlines(),
            charjunk=None,
        )
    )
    gone = [line[2:].strip() for line in lines if line.startswith("- ")]
    come = [line[2:].strip() for line in lines if line.startswith("+ ")]
    return gone, come


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("queues", [ONE_QUEUE, FOUR_QUEUES])
def test_fail_closed_differs_only_in_what_becomes_of_the_unanswered(
    strict: bool, queues: Queues
) -> None:
    opened, closed = difference(
        layout(strict=strict, queues=queues), layout(strict=strict, queues=queues, fail_open=False)
    )
    marks = Marks()
    new = (Ask.JUDGE, Ask.JUDGE_DNS, Ask.UNTRACKED)
    values = ", ".join(f"{marks.bits(ask):#010x}" for ask in new)
    unanswered = f"meta mark and {marks.verdict:#010x} {{ {values} }}"
    fates = [line for line in opened if "queue" not in line]
    assert fates == [f"{unanswered} counter name bypassed"] * 2
    fates = [line for line in closed if "queue" not in line]
    assert fates == [f"{unanswered} counter name unanswered drop"] * 2
    # And the same three questions are those whose queue nobody may be missing from.
    asked = [line for line in opened if "queue" in line]
    assert all("bypass" in line for line in asked)
    asked = [line for line in closed if "queue" in line]
    assert not any("bypass" in line for line in asked)
    for line, ask in zip(asked, new * 2, strict=True):
        assert f"== {marks.bits(ask):#010x} queue" in line


def test_only_new_connections_can_be_dropped_for_want_of_an_answer() -> None:
    """Established ones, DNS and our own probe go on in both modes (semantics §7)."""
    for each in EVERY_LAYOUT:
        if not each.native:
            continue
        for ask in (Ask.AGAIN, Ask.PROBE, Ask.DNS_QUERY, Ask.DNS_ANSWER):
            says = f"== {each.marks.bits(ask):#010x} queue"
            steps = [rule for _, rule in table(each).rules() if says in rule]
            assert len(steps) == (0 if ask is Ask.AGAIN and not each.strict else 2)
            assert all("bypass" in rule for rule in steps)


def test_drops_are_where_a_verdict_or_a_missing_one_says_so() -> None:
    for each in EVERY_LAYOUT:
        drops = {chain for chain, rule in table(each).rules() if rule.endswith(" drop")}
        assert "reject" not in install(each, MEMBERS, 1)
        # The last three: an answer to nothing, of nobody; from where the sender is not.
        expected = {"denying", "forward", "inpre", "claims"}
        if each.remember:
            expected.add("memory")  # denied a moment ago
        if not each.fail_open:
            expected |= {"post", "inpost"}
        assert drops == expected


def test_a_dry_run_drops_nothing_from_where_its_sender_is_not() -> None:
    """A forged answer that nobody follows is the one thing that does not go on."""
    for each in EVERY_LAYOUT:
        made = table(each._replace(drops=False, fail_open=True, remember=False))
        drops = [rule for _, rule in made.rules() if rule.endswith(" drop")]
        assert [rule for rule in drops if "spoofed" in rule] == []


def test_without_memory_there_is_no_learned_set_and_nothing_that_fills_one() -> None:
    text = install(layout(remember=False), MEMBERS, 1)
    assert "learned" not in text
    assert "update @" not in text
    assert "timeout" not in text
    assert "remembered" not in table(layout(remember=False)).chains
    assert not any(
        "learned" in name or "denied" in name for name in table(layout(remember=False)).sets
    )


def test_memory_ends_by_itself() -> None:
    made = table(layout())
    for name in (f"{name}{turn}" for name in MEMORIES for turn in "ab"):
        assert "flags dynamic,timeout;" in made.sets[name]
        assert re.search(r"timeout \d+s;", made.sets[name])
        assert re.search(r"size \d+;", made.sets[name])
        assert made.elements[name] == set()


def test_only_deeds_that_say_so_are_remembered() -> None:
    marks = Marks()
    remembers = [rule for rule in table(layout()).chains["learn"] if "update @" in rule]
    assert len(remembers) == 4
    for rule, deed in zip(
        remembers, [Deed.ACCEPT_REMEMBER] * 2 + [Deed.DENY_REMEMBER] * 2, strict=True
    ):
        assert rule.startswith(f"meta mark and {marks.verdict:#010x} == {marks.bits(deed):#010x} ")
        assert "meta l4proto { tcp, udp, sctp }" in rule
        name = "learned" if deed is Deed.ACCEPT_REMEMBER else "denied"
        assert re.search(rf"update @{name}[46]b \{{", rule)


def test_a_verdict_of_another_generation_is_remembered_by_nothing() -> None:
    """Its first rule, before any other: such a packet goes back with nothing learned."""
    for each in EVERY_LAYOUT:
        first = table(each, 5).chains["learn"][0]
        marks = each.marks
        assert first == (
            f"meta mark and {marks.generation:#010x} != {marks.packet_generation(5):#010x}"
            " counter name stale return"
        )


def test_strict_asks_about_established_connections_again() -> None:
    gone, come = difference(layout(strict=True), layout(strict=False))
    again = Marks().bits(Ask.AGAIN)
    assert any(
        line.startswith("ct state established") and f"{again:#010x}" in line for line in gone
    )
    # Replies go before that: they are never judged by their own tuple.
    assert table(layout(strict=True)).chains["known"] == [
        "ct direction reply goto pass",
        "jump judged",
        "jump ends",
        "goto pass",
    ]
    assert table(layout(strict=False)).chains["known"] == [
        "ct direction reply goto pass",
        "goto pass",
    ]
    connection = f"ct mark and {Marks().connection:#010x}"
    seal = Marks().connection_generation(0x5A5)
    assert f"{connection} == {seal:#010x} goto pass" in come  # whatever generation judged it
    assert f"{connection} == {Marks().connection_generation(1):#010x} goto pass" in gone


# -- generations ---------------------------------------------------------------------------


@every_layout
def test_the_generation_is_named_only_in_the_chains_that_are_rewritten(each: Layout) -> None:
    before, after = table(each, 3), table(each, 4)
    changed = {name for name in before.chains if before.chains[name] != after.chains[name]}
    allowed = {"learn", "judged"} | ({"remembered", "memory"} if each.remember else set())
    assert changed <= allowed
    assert "learn" in changed
    rewritten = set(re.findall(r"flush chain inet knp (\w+)", update(each, MEMBERS, MEMBERS, 4)))
    assert rewritten == allowed
    before.chains, after.chains = {}, {}
    assert before == after


# -- changes -------------------------------------------------------------------------------

_V4 = st.integers(min_value=V4_BASE, max_value=V4_LAST)
_V6 = st.integers(min_value=1 << 120, max_value=(1 << 128) - 1)
_ADDRESSES = st.frozensets(
    st.sampled_from([*range(V4_BASE, V4_BASE + 4), 1 << 125, (1 << 125) + 1]) | _V4 | _V6,
    max_size=6,
)


@st.composite
def _ranges(draw: st.DrawFn) -> frozenset[tuple[int, int]]:
    """Ranges of one family each, as CIDRs give them."""
    found = set()
    for _ in range(draw(st.integers(min_value=0, max_value=3))):
        low, high = sorted((draw(_V4), draw(_V4))) if draw(st.booleans()) else sorted(
            (draw(_V6), draw(_V6))
        )  # fmt: skip
        found.add((low, high))
    return frozenset(found)


_LINKS = st.frozensets(st.from_regex(r"[A-Za-z0-9._@-]{1,15}", fullmatch=True), max_size=3)
_MEMBERS = st.builds(Members, _ADDRESSES, _ADDRESSES, _ranges(), _LINKS)


def named(text: str, verb: str, name: str) -> set[int]:
    """Addresses that a transaction adds to, or deletes from, both families of a set."""
    found: set[int] = set()
    for version in (4, 6):
        for line in re.findall(rf"{verb} element inet knp {name}{version} \{{ (.+) \}}", text):
            addresses = [address(each) for each in line.split(", ")]
            assert all((V4_BASE <= each <= V4_LAST) is (version == 4) for each in addresses)
            found |= set(addresses)
    return found


@given(_MEMBERS, _MEMBERS)
def test_a_change_names_exactly_what_is_different(before: Members, after: Members) -> None:
    text = update(layout(), before, after, 2)
    for name, old, new in (
        ("managed", before.managed, after.managed),
        ("open", before.open_, after.open_),
    ):
        assert named(text, "add", name) == new - old
        assert named(text, "delete", name) == old - new
    assert ("local4" in text) is (before.local != after.local)


@given(
    _MEMBERS,
    _MEMBERS,
    st.integers(min_value=1, max_value=70_000),
    st.sampled_from(EVERY_LAYOUT),
)
def test_a_change_leads_to_what_would_be_put_there_anew(
    before: Members, after: Members, generation: int, each: Layout
) -> None:
    changed = table(each, generation, before)
    old, new = ("b", "a") if generation % 2 else ("a", "b")
    for name in MEMORIES if each.remember else ():
        changed.elements[f"{name}{old}"].add("of this world, to the moment of the change")
        changed.elements[f"{name}{new}"].add("of the world before")
    updated(changed, update(each, before, after, generation + 1))
    for name in MEMORIES if each.remember else ():
        # Left where they are: no rule looks there any more, and the next change empties it.
        changed.elements[f"{name}{old}"].clear()
    assert changed == table(each, generation + 1, after)


def test_what_was_remembered_is_asked_by_no_rule_after_a_change() -> None:
    """A flush leaves what rules still add before it is committed: so those sets are not used."""
    for generation in (1, 2):
        used = "\n".join(rule for _, rule in table(layout(), generation).rules())
        assert all((f"@{name}b" in used) is (generation == 1) for name in MEMORIES)
        assert all((f"@{name}a" in used) is (generation == 2) for name in MEMORIES)


def test_the_same_members_are_the_same_text() -> None:
    """Whatever order they come in: one transaction can be compared with another."""
    shuffled = Members(
        frozenset(sorted(MEMBERS.managed, reverse=True)),
        frozenset(sorted(MEMBERS.open_, reverse=True)),
        frozenset(sorted(MEMBERS.local, reverse=True)),
    )
    assert install(layout(), MEMBERS, 1) == install(layout(), shuffled, 1)


def test_elements_are_of_the_sets_family() -> None:
    made = table(layout())
    assert made.elements["managed4"] == {"10.1.0.5"}
    assert made.elements["managed6"] == {"fd00::5"}
    assert made.elements["open4"] == {"10.1.0.6"}
    assert made.elements["local4"] == {"10.1.0.0-10.1.0.255"}
    assert made.elements["local6"] == {"fd00::-fd00::ff"}
    for name in ("managed", "open", "local"):
        assert "ipv4_addr" in made.sets[f"{name}4"]
        assert "ipv6_addr" in made.sets[f"{name}6"]


def test_a_network_of_one_address_is_no_range() -> None:
    one = Members(local=frozenset({(address("10.1.0.7"), address("10.1.0.7"))}))
    assert table(layout(), members=one).elements["local4"] == {"10.1.0.7"}


def test_removing_does_not_mind_that_nothing_is_there() -> None:
    assert remove("knp_b") == "table inet knp_b { }\ndelete table inet knp_b\n"


# -- the queue step ------------------------------------------------------------------------


def steps(each: Layout) -> dict[int, str]:
    """Question → the rest of its rule in iptables."""
    lines = iptables(each, "KNP").splitlines()
    assert lines[:2] == ["*mangle", ":KNP - [0:0]"]
    assert lines[-1] == "COMMIT"
    found = {}
    for line in lines[2:-1]:
        rule = re.fullmatch(
            r"-A KNP -m mark --mark (0x[0-9a-f]+)/(0x[0-9a-f]+) -j NFQUEUE (.+)", line
        )
        assert rule is not None, line
        assert int(rule[2], 16) == each.marks.verdict
        ask = each.marks.value(int(rule[1], 16))
        assert ask not in found
        found[ask] = rule[3]
    return found


@every_layout
def test_both_ways_to_the_queue_take_the_same_steps(each: Layout) -> None:
    native = {}
    chains = table(each._replace(native=True))
    queues = [name for name in chains.hooks if any(" queue " in r for r in chains.chains[name])]
    assert len(queues) == 2
    assert chains.chains[queues[0]] == chains.chains[queues[1]]
    for rule in chains.chains[queues[0]]:
        found = re.fullmatch(
            r"meta mark and (0x[0-9a-f]+) == (0x[0-9a-f]+) queue"
            r" (?:num|flags ([a-z,]+) to) (\d+)(?:-(\d+))?",
            rule,
        )
        assert found is not None, rule
        mask, value, flags, first, last = found.groups()
        assert int(mask, 16) == each.marks.verdict
        said = set((flags or "").split(",")) - {""}
        where = f"--queue-num {first}"
        if last is not None:
            where = f"--queue-balance {first}:{last} --queue-cpu-fanout"
        assert ("fanout" in said) is (last is not None)
        bypass = " --queue-bypass" if "bypass" in said else ""
        native[each.marks.value(int(value, 16))] = where + bypass
    assert native == steps(each)


@every_layout
def test_every_question_that_is_put_has_a_queue(each: Layout) -> None:
    put = set()
    for _, rule in table(each).rules():
        for _, kept, added in _MARK_SET.findall(rule) if "meta mark set" in rule else ():
            assert kept
            put.add(each.marks.value(int(added or "0", 16)))
    asked = {value for value in put if 0 < value < 8}
    assert asked | {int(Ask.PROBE)} == set(steps(each))  # the probe brings its own


def test_only_judging_is_spread_over_queues() -> None:
    """Whoever reads DNS, and what untracked packets belong to, must see all of it."""
    found = steps(layout(queues=FOUR_QUEUES))
    spread = {ask for ask, rule in found.items() if "balance 100:103" in rule}
    assert spread == {Ask.JUDGE}
    assert {ask for ask, rule in found.items() if "--queue-num 104 " in f"{rule} "} == {
        Ask.DNS_QUERY,
        Ask.DNS_ANSWER,
    }
    assert FOUR_QUEUES.numbers == (100, 101, 102, 103, 104)
    assert ONE_QUEUE.numbers == (100, 101)
