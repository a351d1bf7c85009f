"""What is looked at before anything is changed, and which way packets go to the queue."""

from pathlib import Path

import pytest
from helpers.tools import Tools

from knp_py.adapters.rules import Rules
from knp_py.errors import NotPermittedError

NO_QUEUE = (
    'case "$input" in *"queue num"*) echo "Error: Could not process rule" >&2; exit 1;; esac\n'
)
EMPTY = """echo '{"nftables": []}'\n"""
IPTABLES = ("iptables", "iptables-restore", "ip6tables", "ip6tables-restore")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    return Tools(tmp_path / "bin", monkeypatch)


def test_nothing_is_changed_by_looking(tools: Tools) -> None:
    tools.add("nft", EMPTY)
    Rules("knp", "KNP", 0x78)
    assert tools.calls
    assert all("-c" in call or "list" in call for call in tools.calls)


def test_nftables_own_queue_is_preferred(tools: Tools) -> None:
    tools.add("nft", EMPTY)
    rules = Rules("knp", "KNP", 0x78)  # and needs no iptables
    assert rules.native
    assert rules.how == "nftables queue"
    tools.path.joinpath("calls").unlink()
    rules.apply_queue("*mangle\n")
    rules.restore_queue()
    assert tools.calls == []


def test_else_iptables_takes_that_step(tools: Tools) -> None:
    tools.add("nft", NO_QUEUE + EMPTY)
    for name in IPTABLES:
        tools.add(name)
    rules = Rules("knp", "KNP", 0x78)
    assert not rules.native
    assert rules.how == "iptables NFQUEUE"
    rules.apply_queue("*mangle\nfirst\n")
    rules.apply_queue("*mangle\nsecond\n")
    rules.restore_queue()
    assert tools.inputs.count("second\n") == 2 * tools.inputs.count("first\n") == 4


def test_where_neither_works_it_is_said_what_is_missing(tools: Tools) -> None:
    tools.add("nft", NO_QUEUE + EMPTY)
    with pytest.raises(
        NotPermittedError, match=r"no nftables queue statement.*iptables"
    ) as refused:
        Rules("knp", "KNP", 0x78)
    assert "\n" not in str(refused.value)


def test_a_kernel_without_conntrack_marks_is_refused(tools: Tools) -> None:
    tools.add("nft", 'case "$input" in *"ct mark"*) exit 1;; esac\n' + EMPTY)
    with pytest.raises(NotPermittedError, match="CONFIG_NFT_CT"):
        Rules("knp", "KNP", 0x78)


def test_who_may_not_is_told_first(tools: Tools) -> None:
    tools.add("nft", 'echo "Operation not permitted" >&2; exit 1')
    with pytest.raises(NotPermittedError, match="needs root"):
        Rules("knp", "KNP", 0x78)


def table(name: str) -> dict[str, object]:
    return {"table": {"family": "inet", "name": name}}


def about(packet: str, connection: str, chain: str = "about") -> dict[str, object]:
    comment = f"knp packet {packet} connection {connection}"
    return {"rule": {"table": "knp_b", "chain": chain, "comment": comment}}


@pytest.mark.parametrize(
    ("theirs", "refused"),
    [
        ([table("knp_b"), about("0x1f78", "0xffff00")], True),
        ([table("knp_b"), about("0x8", "0xff000000")], True),  # one bit of packets is enough
        ([table("knp_b"), about("0xff000000", "0x100")], True),  # or of connections
        ([table("knp_b"), about("0xff000000", "0xff")], False),
        ([table("knp"), about("0x1f78", "0xffff00")], False),  # our own, of before
        ([table("other"), about("0x1f78", "0xffff00")], False),
        ([table("knp_b"), about("0x1f78", "0xffff00", "pre")], False),
        ([table("knp_b")], False),
        ([], False),
    ],
)
def test_an_agent_with_the_same_bits_is_not_joined(
    tools: Tools, theirs: list[object], refused: bool
) -> None:
    tools.add_json("nft", *theirs)
    rules = Rules("knp", "KNP", 0x78)
    if not refused:
        rules.refuse_neighbours(0x1F78, 0x00FF_FF00)
        return
    with pytest.raises(NotPermittedError) as said:
        rules.refuse_neighbours(0x1F78, 0x00FF_FF00)
    assert str(said.value) == (
        "the table knp_b of another agent uses some of the same mark bits: give this one"
        " --mark-mask, --generation-mask and --connmark-mask of its own, or stop the other and run"
        " knp agent cleanup --instance b"
    )
    assert "--mark-mask, --generation-mask, --connmark-mask" in rules.room_for_two


def test_where_iptables_queues_every_hint_says_that_there_is_room_for_one_agent(
    tools: Tools,
) -> None:
    """None names an option: no option would help."""
    tools.add_json("nft", table("knp_b"), about("0xff000000", "0xff"))
    tools.add("nft", NO_QUEUE + "/bin/cat nft.json")
    for name in IPTABLES:
        tools.add(name)
    rules = Rules("knp", "KNP", 0x78)
    with pytest.raises(NotPermittedError) as refused:
        rules.refuse_neighbours(0x1F78, 0x00FF_FF00)
    why = "only one agent can queue packets, since this kernel has no nftables queue statement"
    assert str(refused.value) == (
        f"the table knp_b of another agent is here, and {why}: stop that agent and run"
        " knp agent cleanup --instance b"
    )
    assert rules.room_for_two == f"; {why}"


def test_complete_is_the_table_and_the_way_to_the_queue(tools: Tools) -> None:
    (tools.path / "tables").write_text('{"nftables": [{"table": {"name": "knp"}}]}')
    tools.add("nft", NO_QUEUE + "/bin/cat tables")
    for name in IPTABLES:
        tools.add(name, 'case "$*" in *"-C INPUT"*) test -e there || exit 1;; esac')
    rules = Rules("knp", "KNP", 0x78)
    assert not rules.complete()
    (tools.path / "there").touch()
    assert rules.has_table()
    assert rules.complete()
    (tools.path / "tables").write_text('{"nftables": []}')
    assert not rules.complete()
    tools.add("nft", "exit 3")
    assert not rules.complete()  # nobody knows


@pytest.mark.parametrize(
    ("listed", "holds"),
    [
        ("echo 'meta mark 0x8 counter name \"unanswered\" drop'", True),
        ("echo 'meta mark 0x8 counter name \"bypassed\"'", False),
        ("exit 1", False),  # no such table
    ],
)
def test_only_a_fail_closed_agents_table_holds_anything(
    tools: Tools, listed: str, holds: bool
) -> None:
    tools.add("nft", f'case "$*" in *"list table inet"*) {listed}; exit;; esac\n{EMPTY}')
    assert Rules("knp", "KNP", 0x78).holds() is holds


def test_what_the_kernel_counts(tools: Tools) -> None:
    tools.add_json("nft", {"counter": {"name": "judged", "packets": 7}})
    rules = Rules("knp", "KNP", 0x78)
    assert rules.counters() == {"judged": 7}
    assert rules.set_size("learned4") == 0
    assert tools.calls[-2:] == [
        "nft -j list counters table inet knp",
        "nft list set inet knp learned4",
    ]
    rules.remove("delete table inet knp\n")  # and there is no second part to take away
    assert tools.calls[-1] == "nft -f -"


def test_removing_takes_the_table_first(tools: Tools) -> None:
    """From then on no packet has a question, so nobody misses the queue."""
    tools.add("nft", NO_QUEUE + EMPTY)
    for name in IPTABLES:
        tools.add(name)
    rules = Rules("knp", "KNP", 0x78)
    (tools.path / "calls").unlink()
    rules.remove("delete table inet knp\n")
    assert tools.calls[0] == "nft -f -"
    assert {call.split()[0] for call in tools.calls[1:]} == {"iptables", "ip6tables"}
