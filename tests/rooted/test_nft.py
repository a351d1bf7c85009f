"""Rulesets in a kernel that is there: taken whole or not at all, read back as they were meant."""

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import product

import pytest
from helpers.builders import address
from helpers.netspace import alone, needs, run
from helpers.rules_text import installed, updated

from knp_py.adapters.nft import Nft
from knp_py.agent.layout import Layout, Members, Queues
from knp_py.agent.marks import Marks
from knp_py.agent.ruleset import install, refill, remove, update
from knp_py.errors import KernelError

pytestmark = needs("nft", "setpriv")


def span(first: str, last: str) -> tuple[int, int]:
    return address(first), address(last)


LAYOUTS = [
    Layout("knp", marks, queues, fail_open, remember, strict, native=False, priority=priority)
    for marks, queues, priority in (
        (Marks(), Queues((100, 100), 100, 101), -150),
        (Marks(0xF << 24, 0x7 << 20, 0xFF), Queues((7, 9), 7, 10), 20),
    )
    for fail_open, remember, strict in product((True, False), repeat=3)
]
NOBODY = Members()
SOME = Members(
    frozenset({address("10.1.0.5"), address("fd00::5")}),
    frozenset({address("10.1.0.6")}),
    frozenset({span("10.1.0.0", "10.1.0.255"), span("fd00::", "fd00::9")}),
)
OTHERS = Members(
    frozenset({address("10.1.0.6"), address("10.1.0.7")}),
    frozenset({address("10.1.0.5"), address("fd00::5")}),
    frozenset({span("10.1.0.0", "10.1.1.255"), span("10.1.1.0", "10.1.2.8")}),
)


@pytest.fixture
def nft() -> Iterator[Nft]:
    with alone():
        yield Nft()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_transaction_is_taken(nft: Nft, layout: Layout) -> None:
    nft.apply(install(layout, SOME, 1))
    nft.apply(update(layout, SOME, OTHERS, 2))
    nft.apply(update(layout, OTHERS, NOBODY, 3))
    nft.apply(update(layout, NOBODY, SOME, 40))
    nft.apply(install(layout, OTHERS, 70_000))
    nft.apply(remove("knp"))
    nft.apply(remove("knp"))
    assert nft.tables() == []


def elements(name: str) -> set[str]:
    found = run("nft", "list", "set", "inet", "knp", name)
    inside = re.search(r"elements = \{([^}]*)\}", found)
    return {each.strip() for each in inside[1].split(",")} if inside else set()


def test_what_is_there_is_what_was_meant(nft: Nft) -> None:
    layout = LAYOUTS[0]
    nft.apply(install(layout, SOME, 1))
    meant = installed(install(layout, SOME, 1))
    for name in ("managed4", "managed6", "open4", "open6"):
        assert elements(name) == meant.elements[name]
    assert elements("local4") == {"10.1.0.0/24"}
    assert elements("local6") == {"fd00::-fd00::9"}
    nft.apply(update(layout, SOME, OTHERS, 2))
    updated(meant, update(layout, SOME, OTHERS, 2))
    for name in ("managed4", "managed6", "open4", "open6"):
        assert elements(name) == meant.elements[name]
    assert elements("local4") == {"10.1.0.0-10.1.2.8"}  # merged, since they overlap
    assert set(nft.counters("knp")) == set(meant.counters)


def test_an_update_is_the_table_that_would_be_made_anew(nft: Nft) -> None:
    layout = LAYOUTS[0]

    def listed() -> str:
        return run("nft", "-s", "list", "table", "inet", "knp")

    nft.apply(install(layout, OTHERS, 2))
    meant = listed()
    nft.apply(install(layout, SOME, 1))
    nft.apply(update(layout, SOME, OTHERS, 2))
    assert listed() == meant


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("before", [None, *LAYOUTS])
def test_a_table_is_refilled_or_it_is_said_that_it_cannot_be(
    nft: Nft, before: Layout | None, layout: Layout
) -> None:
    def listed() -> str:
        return run("nft", "-s", "list", "table", "inet", "knp")

    nft.apply(install(layout, OTHERS, 2))
    meant = listed()
    nft.apply(remove("knp"))
    if before is not None:
        nft.apply(install(before, SOME, 1))
    there = "" if before is None else listed()
    try:
        nft.apply(refill(layout, OTHERS, 2))
    except KernelError:
        assert before is not None
        assert before != layout
        assert listed() == there
    else:
        # A chain or a set that only the other layout has stays, empty: nothing leads to it.
        assert set(meant.splitlines()) <= set(listed().splitlines())
        if before is None or before == layout:
            assert listed() == meant


@pytest.mark.parametrize(
    "broken",
    [
        "add rule inet knp pre jump nowhere\n",
        "delete element inet knp managed4 { 192.0.2.1 }\n",
        "this is no rule\n",
    ],
)
def test_a_transaction_with_one_mistake_changes_nothing(nft: Nft, broken: str) -> None:
    layout = LAYOUTS[0]
    nft.apply(install(layout, SOME, 1))
    before = run("nft", "list", "ruleset")
    with pytest.raises(KernelError) as refused:
        nft.apply(update(layout, SOME, OTHERS, 2) + broken)
    assert "\n" not in str(refused.value)
    with pytest.raises(KernelError):
        nft.apply(install(layout, OTHERS, 2) + broken)
    assert run("nft", "list", "ruleset") == before


def test_an_update_without_a_table_is_refused(nft: Nft) -> None:
    """Which is how somebody's ``nft flush ruleset`` is noticed at the next change."""
    with pytest.raises(KernelError, match="No such file or directory"):
        nft.apply(update(LAYOUTS[0], SOME, OTHERS, 2))


def test_asking_changes_nothing(nft: Nft) -> None:
    assert nft.accepts(install(LAYOUTS[0], SOME, 1))
    assert not nft.accepts("add rule inet knp pre accept\n")
    assert nft.tables() == []


def test_the_native_queue_is_at_least_understood(nft: Nft) -> None:
    """A kernel without it refuses that statement and no other word of ours."""
    for layout in LAYOUTS:
        text = install(layout._replace(native=True), SOME, 1)
        done = subprocess.run(
            ["nft", "-c", "-f", "-"], input=text, capture_output=True, text=True, check=False
        )
        if nft.accepts("table inet t { chain c { queue num 1\n}\n}\n"):
            assert done.returncode == 0
            continue
        problems = [line for line in done.stderr.splitlines() if "Error" in line]
        lines = text.splitlines()
        assert problems
        for problem in problems:
            number = int(problem.removeprefix("/dev/stdin:").split(":")[0])
            assert " queue " in lines[number - 1], problem
            assert "No such file or directory" in problem


def test_counters_and_elements_are_counted(nft: Nft) -> None:
    nft.apply(install(LAYOUTS[0], SOME, 1))
    assert set(nft.counters("knp").values()) == {0}
    assert nft.counters("elsewhere") == {}
    assert nft.set_size("knp", "learned4a") == 0
    for start in (0, 100, 200):
        tuples = [f"10.1.0.5 . 10.1.0.6 . tcp . {start + n}" for n in range(100)]
        run("nft", f"add element inet knp learned4a {{ {', '.join(tuples)} }}")
        assert nft.set_size("knp", "learned4a") == start + 100
    assert nft.set_size("knp", "nothing") == 0
    assert nft.has_table("knp")
    assert not nft.has_table("elsewhere")


def test_who_may_not_is_told_so(nft: Nft) -> None:
    assert nft.tables() == []
    program = (
        "from knp_py.adapters.nft import Nft\n"
        "from knp_py.errors import KernelError, NotPermittedError\n"
        "for action in (Nft().tables, lambda: Nft().apply('table inet t { }')):\n"
        "    try:\n"
        "        action()\n"
        "    except NotPermittedError as error:\n"
        "        print(type(error).__name__, error)\n"
    )
    bounds = "--bounding-set=-net_admin"
    said = run("setpriv", bounds, "--inh-caps=-net_admin", sys.executable, "-c", program)
    line = "NotPermittedError nft may not change rules here: needs root (CAP_NET_ADMIN)"
    assert said.splitlines() == [line, line]
