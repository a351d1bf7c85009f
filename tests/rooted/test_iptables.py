"""The queue step as iptables rules, in a kernel that is there."""

import os
from collections.abc import Iterator

import pytest
from helpers.netspace import alone, needs, run

from knp_py.adapters.iptables import HOOKS, QueueRules
from knp_py.adapters.rules import Rules
from knp_py.agent.layout import Layout, Queues
from knp_py.agent.layout import Members as Addresses
from knp_py.agent.marks import Marks
from knp_py.agent.ruleset import install, iptables, remove
from knp_py.errors import NotPermittedError

pytestmark = needs("nft", "iptables-nft", "ip6tables-nft")

MARKS = Marks()
LAYOUT = Layout("knp", MARKS, Queues((100, 100), 100, 101), False, True, True, native=False)
TOOLS = ("iptables-nft", "ip6tables-nft")


@pytest.fixture
def rules() -> Iterator[QueueRules]:
    with alone():
        yield QueueRules("KNP", MARKS.verdict)


def saved(tool: str) -> list[str]:
    return [line for line in run(f"{tool}-save", "-t", "mangle").splitlines() if line[0] in ":-"]


def ours(tool: str) -> list[str]:
    return [line for line in saved(tool) if "KNP" in line]


@pytest.mark.parametrize("fail_open", [True, False])
@pytest.mark.parametrize("queues", [Queues((100, 100), 100, 101), Queues((7, 9), 7, 10)])
def test_the_chain_is_made_in_both_families(
    rules: QueueRules, fail_open: bool, queues: Queues
) -> None:
    layout = LAYOUT._replace(fail_open=fail_open, queues=queues)
    text = iptables(layout, "KNP")
    assert not rules.complete()
    rules.apply(text)
    assert rules.complete()
    meant = [line for line in text.splitlines() if line.startswith("-A")]
    for tool in TOOLS:
        chain = [line for line in ours(tool) if line.startswith("-A KNP ")]
        # Flags that are said by their absence aside, it is read back word for word.
        assert [sorted(line.split()) for line in chain] == [sorted(m.split()) for m in meant]
        jumps = [line for line in ours(tool) if line.endswith("-j KNP")]
        assert sorted(jumps) == sorted(
            f"-A {hook} -m mark ! --mark 0x0/0x78 -j KNP" for hook in HOOKS
        )


def test_making_it_again_makes_no_second_one(rules: QueueRules) -> None:
    rules.apply(iptables(LAYOUT, "KNP"))
    once = [saved(tool) for tool in TOOLS]
    rules.apply(iptables(LAYOUT, "KNP"))
    assert [saved(tool) for tool in TOOLS] == once


def test_other_modes_replace_it(rules: QueueRules) -> None:
    rules.apply(iptables(LAYOUT, "KNP"))
    rules.apply(iptables(LAYOUT._replace(fail_open=True, strict=False), "KNP"))
    for tool in TOOLS:
        steps = [line for line in ours(tool) if "NFQUEUE" in line]
        assert len(steps) == 6
        assert all("bypass" in line for line in steps)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("hook", HOOKS)
def test_a_jump_that_somebody_took_away_is_missed(rules: QueueRules, tool: str, hook: str) -> None:
    rules.apply(iptables(LAYOUT, "KNP"))
    run(tool, "-t", "mangle", "-D", hook, "-m", "mark", "!", "--mark", "0x0/0x78", "-j", "KNP")
    assert not rules.complete()
    rules.apply(iptables(LAYOUT, "KNP"))
    assert rules.complete()


def test_a_flush_is_missed(rules: QueueRules) -> None:
    rules.apply(iptables(LAYOUT, "KNP"))
    run("nft", "flush", "ruleset")
    assert not rules.complete()
    rules.apply(iptables(LAYOUT, "KNP"))
    assert rules.complete()


def test_all_of_it_goes_whatever_mask_it_was_made_with(rules: QueueRules) -> None:
    rules.apply(iptables(LAYOUT, "KNP"))
    other = Marks(0xF << 24, 0x7 << 20, 0xFF)
    again = QueueRules("KNP", other.verdict)
    again.apply(iptables(LAYOUT._replace(marks=other), "KNP"))
    for tool in TOOLS:
        run(tool, "-t", "mangle", "-A", "POSTROUTING", "-j", "KNP")  # of some older version
        assert len(ours(tool)) > 5
    rules.remove()
    for tool in TOOLS:
        assert ours(tool) == []
    rules.remove()  # there is nothing any more


def test_others_rules_stay(rules: QueueRules) -> None:
    neighbour = QueueRules("KNP_B", 0xF << 24)
    for tool in TOOLS:
        run(
            tool, "-t", "mangle", "-A", "POSTROUTING", "-p", "tcp", "-j", "MARK", "--set-mark", "1"
        )
    neighbour.apply(iptables(LAYOUT._replace(marks=Marks(0xF << 24)), "KNP_B"))
    before = [saved(tool) for tool in TOOLS]
    rules.apply(iptables(LAYOUT, "KNP"))
    rules.remove()
    assert [saved(tool) for tool in TOOLS] == before
    assert neighbour.complete()


# -- both parts together ---------------------------------------------------------------------


def test_the_table_and_the_chain_come_and_go_together() -> None:
    with alone():
        agent = Rules("knp", "KNP", MARKS.verdict)
        assert not agent.complete()
        agent.apply(install(LAYOUT._replace(native=agent.native), Addresses(), 1))
        agent.apply_queue(iptables(LAYOUT, "KNP"))
        assert agent.complete()
        run("nft", "flush", "ruleset")
        assert not agent.complete()
        agent.apply(install(LAYOUT._replace(native=agent.native), Addresses(), 2))
        agent.restore_queue()
        assert agent.complete()
        agent.remove(remove("knp"))
        assert not agent.has_table()
        agent.remove(remove("knp"))
        assert all(ours(tool) == [] for tool in TOOLS)


def test_another_agents_bits_are_seen_in_its_table() -> None:
    with alone():
        neighbour = LAYOUT._replace(table="knp_b", native=False)
        Rules("knp_b", "KNP_B", MARKS.verdict).apply(install(neighbour, Addresses(), 1))
        agent = Rules("knp", "KNP", MARKS.verdict)
        with pytest.raises(NotPermittedError, match="knp_b"):
            agent.refuse_neighbours(MARKS.ours, MARKS.connection)
        with pytest.raises(NotPermittedError, match="knp_b"):
            agent.refuse_neighbours(0xFF << 24, MARKS.connection)
        if agent.native:
            agent.refuse_neighbours(0xFF << 24, 0xFF)
        else:  # whoever is first behind iptables' mangle is the only one
            with pytest.raises(NotPermittedError, match="only one agent can queue"):
                agent.refuse_neighbours(0xFF << 24, 0xFF)


def test_without_iptables_a_kernel_that_needs_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]
) -> None:
    """One line, and nothing has been changed."""
    with alone():
        if Rules("knp", "KNP", MARKS.verdict).native:
            pytest.skip("this kernel has nftables' own queue statement")
        before = run("nft", "list", "ruleset")
        nft = run("sh", "-c", "command -v nft").strip()
        os.symlink(nft, os.path.join(tmp_path, "nft"))
        with monkeypatch.context() as patch:
            patch.setenv("PATH", str(tmp_path))
            with pytest.raises(NotPermittedError) as refused:
                Rules("knp", "KNP", MARKS.verdict)
        said = str(refused.value)
        assert "\n" not in said
        assert "iptables" in said
        assert "install" in said
        assert run("nft", "list", "ruleset") == before
