"""The nft tool: what it is given, what is made of what it says. The real one: tests/rooted."""

from pathlib import Path

import pytest
from helpers.tools import Tools

from knp_py.adapters import command
from knp_py.adapters.nft import Nft
from knp_py.errors import KernelError, NotPermittedError


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    return Tools(tmp_path / "bin", monkeypatch)


def test_a_machine_without_it_is_told_what_to_install(tools: Tools) -> None:
    assert tools.calls == []
    with pytest.raises(NotPermittedError) as refused:
        Nft()
    assert str(refused.value) == "nft is not installed: install the package nftables"


def test_a_transaction_is_one_call(tools: Tools) -> None:
    tools.add("nft")
    Nft().apply("table inet knp { }\n")
    assert tools.calls == ["nft -f -"]
    assert tools.inputs == "table inet knp { }\n"


def test_what_the_kernel_says_is_one_line(tools: Tools) -> None:
    tools.add(
        "nft",
        'echo "/dev/stdin:1:2-3: Error: Could not process rule: No such file" >&2\n'
        'echo "add rule ..." >&2; echo "         ^^^" >&2; exit 1',
    )
    with pytest.raises(KernelError) as refused:
        Nft().apply("nonsense")
    assert str(refused.value) == "nft: 1:2-3: Error: Could not process rule: No such file"


def test_silence_is_said_too(tools: Tools) -> None:
    tools.add("nft", "exit 3")
    with pytest.raises(KernelError, match="nft: exit code 3"):
        Nft().apply("")


def test_who_may_not_is_told_so_not_shown_an_error_of_the_rules(tools: Tools) -> None:
    tools.add("nft", 'echo "Error: Could not process rule: Operation not permitted" >&2; exit 1')
    for action in (lambda: Nft().apply(""), Nft().tables, lambda: Nft().accepts("")):
        with pytest.raises(NotPermittedError, match="needs root") as refused:
            action()
        assert not isinstance(refused.value, KernelError)


def test_a_tool_that_hangs_is_not_waited_for(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.add("nft", "exec /bin/sleep 600 >/dev/null 2>&1")
    monkeypatch.setattr(command, "_PATIENCE", 0.05)
    for action in (Nft().apply, Nft().accepts):  # not that the kernel cannot
        with pytest.raises(KernelError, match="timed out"):
            action("")


def test_a_tool_that_goes_away(tools: Tools) -> None:
    tools.add("nft")
    there = Nft()
    (tools.path / "nft").unlink()
    with pytest.raises(KernelError, match="No such file"):
        there.apply("")


def test_whether_a_ruleset_would_be_taken_is_only_asked(tools: Tools) -> None:
    tools.add("nft", 'case "$input" in *queue*) exit 1;; esac')
    assert Nft().accepts("counter")
    assert not Nft().accepts("queue num 1")
    assert tools.calls == ["nft -c -f -"] * 2


def test_tables_and_counters(tools: Tools) -> None:
    there = [
        {"metainfo": {"version": "1.0.6"}},
        {"table": {"family": "inet", "name": "knp"}},
        {"table": {"family": "inet", "name": "else"}},
        {"counter": {"name": "judged", "table": "knp", "packets": 7, "bytes": 700}},
    ]
    tools.add_json("nft", *there)
    found = Nft()
    assert found.tables() == ["knp", "else"]
    assert found.has_table("knp")
    assert not found.has_table("kn")
    assert found.counters("knp") == {"judged": 7}
    assert found.listing("knp") == there
    assert tools.calls[0] == "nft -j list tables inet"
    assert tools.calls[-2:] == [
        "nft -j list counters table inet knp",
        "nft -j list table inet knp",
    ]


def test_elements_of_a_set_are_counted_in_its_text(tools: Tools) -> None:
    element = "10.0.0.1 . 10.0.0.2 . tcp . 80 expires 57s740ms"
    tools.add("nft", f'echo "set learned4 {{ timeout 1m elements = {{ {element}, {element} }} }}"')
    assert Nft().set_size("knp", "learned4") == 2
    assert tools.calls == ["nft list set inet knp learned4"]


def test_an_empty_set_has_no_elements(tools: Tools) -> None:
    tools.add("nft", 'echo "set learned4 { timeout 1m }"')
    assert Nft().set_size("knp", "learned4") == 0


def test_a_table_that_is_not_there_counts_nothing(tools: Tools) -> None:
    tools.add("nft", 'echo "Error: No such file or directory" >&2; exit 1')
    found = Nft()
    assert found.counters("knp") == {}
    assert found.set_size("knp", "learned4") == 0
    with pytest.raises(KernelError):
        found.listing("knp")
