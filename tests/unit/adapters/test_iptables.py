"""Which iptables is used, and what is said when there is none. The real one: tests/rooted."""

from pathlib import Path

import pytest
from helpers.tools import Tools

from knp_py.adapters import command
from knp_py.adapters.iptables import HOOKS, QueueRules
from knp_py.errors import KernelError, NotPermittedError

BY_NAME = ("iptables", "iptables-restore", "ip6tables", "ip6tables-restore")
NFT_FLAVOUR = (
    *("iptables-nft", "iptables-nft-restore"),
    *("ip6tables-nft", "ip6tables-nft-restore"),
)
TEXT = "*mangle\n:KNP - [0:0]\nCOMMIT\n"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    return Tools(tmp_path / "bin", monkeypatch)


@pytest.mark.parametrize("missing", BY_NAME)
def test_a_machine_without_it_is_told_what_to_install(tools: Tools, missing: str) -> None:
    for name in set(BY_NAME) - {missing}:
        tools.add(name)
    with pytest.raises(NotPermittedError) as refused:
        QueueRules("KNP", 0x78)
    said = str(refused.value)
    assert "install the package iptables" in said
    assert "no nftables queue statement" in said
    assert missing.split("-", maxsplit=1)[0] in said
    assert "\n" not in said
    assert tools.calls == []


def test_the_nft_flavour_is_preferred(tools: Tools) -> None:
    """Plain iptables may be the legacy one, whose rules lie elsewhere."""
    for name in (*BY_NAME, *NFT_FLAVOUR):
        tools.add(name)
    QueueRules("KNP", 0x78).apply(TEXT)
    assert {call.split()[0] for call in tools.calls} == set(NFT_FLAVOUR)


def test_without_it_the_name_will_do(tools: Tools) -> None:
    for name in BY_NAME:
        tools.add(name)
    QueueRules("KNP", 0x78).apply(TEXT)
    assert {call.split()[0] for call in tools.calls} == set(BY_NAME)


def test_the_chain_is_filled_before_anybody_jumps_there(tools: Tools) -> None:
    for name in NFT_FLAVOUR:
        tools.add(name, 'case "$*" in *-C*) exit 1;; esac')
    QueueRules("KNP", 0x78).apply(TEXT)
    jump = "-m mark ! --mark 0x0/0x78 -j KNP"
    expected = []
    for family in ("iptables-nft", "ip6tables-nft"):
        expected.append(f"{family}-restore --noflush")
        for hook in HOOKS:
            expected += [f"{family} -t mangle -{verb} {hook} {jump}" for verb in "CA"]
    assert tools.calls == expected
    assert tools.inputs.count(TEXT) == 2


def test_a_jump_that_is_there_is_not_made_again(tools: Tools) -> None:
    for name in NFT_FLAVOUR:
        tools.add(name)
    rules = QueueRules("KNP", 0x78)
    rules.apply(TEXT)
    assert not [call for call in tools.calls if " -A " in call]
    assert rules.complete()


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("family", ["iptables-nft", "ip6tables-nft"])
def test_one_missing_jump_is_not_complete(tools: Tools, family: str, hook: str) -> None:
    for name in NFT_FLAVOUR:
        there = name != family
        tools.add(name, "" if there else f'case "$*" in *"-C {hook}"*) exit 1;; esac')
    assert not QueueRules("KNP", 0x78).complete()


def test_what_the_kernel_lacks_is_one_line(tools: Tools) -> None:
    for name in NFT_FLAVOUR:
        tools.add(
            name,
            'echo >&2; echo "Extension NFQUEUE revision 0 not supported, missing kernel module?"'
            ' >&2; echo "more" >&2; exit 2',
        )
    with pytest.raises(KernelError) as refused:
        QueueRules("KNP", 0x78).apply(TEXT)
    assert str(refused.value).endswith(
        "iptables-nft-restore could not change the NFQUEUE rules: "
        "Extension NFQUEUE revision 0 not supported, missing kernel module?"
    )


def test_a_tool_that_hangs_is_not_waited_for(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NFT_FLAVOUR:
        tools.add(name, "exec /bin/sleep 600 >/dev/null 2>&1")
    monkeypatch.setattr(command, "_PATIENCE", 0.05)
    rules = QueueRules("KNP", 0x78)
    for action in (lambda: rules.apply(TEXT), rules.complete):
        with pytest.raises(KernelError, match="timed out"):
            action()


def test_only_our_jumps_are_taken_away(tools: Tools) -> None:
    """Whatever mask an agent before us made them with."""
    listed = (
        "-P POSTROUTING ACCEPT\n"
        "-A POSTROUTING -m mark ! --mark 0x0/0xf00 -j KNP\n"
        "-A POSTROUTING -j KNP\n"
        "-A POSTROUTING -j KNP_B\n"
        "-A POSTROUTING -s 10.0.0.0/8 -j MASQUERADE\n"
    )
    for name in NFT_FLAVOUR:
        tools.add(
            name,
            f'case "$*" in *"-S POSTROUTING"*) printf "%s" "{listed}";; *"-S INPUT"*) '
            'echo "-P INPUT ACCEPT";; esac',
        )
    QueueRules("KNP", 0x78).remove()
    changed = [call for call in tools.calls if " -S " not in call]
    expected = []
    for family in ("iptables-nft", "ip6tables-nft"):
        expected += [
            f"{family} -t mangle -D POSTROUTING -m mark ! --mark 0x0/0xf00 -j KNP",
            f"{family} -t mangle -D POSTROUTING -j KNP",
            f"{family} -t mangle -F KNP",
            f"{family} -t mangle -X KNP",
        ]
    assert changed == expected


def test_nothing_to_take_away_is_no_error(tools: Tools) -> None:
    for name in NFT_FLAVOUR:
        tools.add(name, 'case "$*" in *"-F "*) exit 1;; esac')
    QueueRules("KNP", 0x78).remove()
    assert not [call for call in tools.calls if "-X" in call]
