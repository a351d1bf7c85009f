import msgspec
import pytest

from knp_py.errors import InputError
from knp_py.verdicts.read import VerdictEntry
from knp_py.verdicts.record import Decider, End, Omission
from knp_py.verdicts.select import Selection, end_test, name_test

ENTRY = VerdictEntry(
    ts="2026-11-29T20:38:00.123456Z",
    id=1,
    verdict="deny",
    direction="egress",
    src=End("10.244.1.6", 37368, pod="team-a/agent"),
    dst=End("172.66.147.243", 443, names=("API.GitHub.com.",)),
    family="IPv4",
    protocol="TCP",
    decided_by=Decider("egress", "NetworkPolicy", "team-a/web", 0, None, "Deny"),
    packets=1,
    bytes=60,
    reason=None,
)


@pytest.mark.parametrize(
    ("text", "source", "destination"),
    [
        ("team-a/agent", True, False),
        ("team-a/*", True, False),
        ("team/*", False, False),
        ("team-?/agent", True, False),
        ("*/ag[e]nt", True, False),
        ("*/agents*", False, False),
        ("*/*", True, False),
        ("team-a*nt/*", False, False),
        ("10.244.1.6", True, False),
        ("::ffff:10.244.1.6", True, False),
        ("10.0.0.0/8", True, False),
        ("0.0.0.0/0", True, True),
        ("::/0", False, False),
        ("172.66.147.243", False, True),
        ("fd00::1", False, False),
    ],
)
def test_ends(text: str, source: bool, destination: bool) -> None:
    test = end_test(text, "--from")
    assert (test(ENTRY.src), test(ENTRY.dst)) == (source, destination)


def test_an_end_without_an_address_is_in_no_network() -> None:
    assert not end_test("0.0.0.0/0", "--from")(End(None))


@pytest.mark.parametrize("text", ["web", "a/b/c", "/b", "a/", "10.0.0.0/99", ""])
def test_what_is_no_end(text: str) -> None:
    with pytest.raises(InputError, match="--to"):
        end_test(text, "--to")


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("api.github.com", True),
        ("API.GITHUB.COM.", True),
        ("*.github.com", True),
        ("*.com", True),
        ("github.com", False),
        ("*.api.github.com", False),
        ("*.hub.com", False),
    ],
)
def test_names_match_as_in_policies(pattern: str, matches: bool) -> None:
    assert name_test(pattern)(ENTRY.dst) is matches


def test_what_is_no_pattern() -> None:
    with pytest.raises(InputError, match="--name"):
        name_test("git*hub.com")


@pytest.mark.parametrize(
    ("selection", "matches"),
    [
        (Selection(), True),
        (Selection(verdicts=frozenset({"deny", "unknown"})), True),
        (Selection(verdicts=frozenset({"allow"})), False),
        (Selection(either=end_test("172.66.0.0/16", "--pod")), True),
        (Selection(source=end_test("team-a/agent", "--from")), True),
        (Selection(destination=end_test("team-a/agent", "--to")), False),
        (Selection(name=name_test("example.com")), False),
        (Selection(tier="NetworkPolicy"), True),
        (Selection(tier="Admin"), False),
        (Selection(policy="team-a/web"), True),
        (Selection(policy="web"), True),
        (Selection(policy="eb"), False),
        (Selection(since="2026-11-29T20:38:00.000000Z"), True),
        (Selection(since="2026-11-29T20:39:00.000000Z"), False),
    ],
)
def test_selection(selection: Selection, matches: bool) -> None:
    assert selection.matches(ENTRY) is matches


def test_policies_that_isolate_count() -> None:
    isolated = msgspec.structs.replace(ENTRY, decided_by=None, isolated_by=("shop/a", "shop/b"))
    assert Selection(policy="b").matches(isolated)
    assert not Selection(policy="web").matches(isolated)
    assert not Selection(tier="Admin").matches(isolated)


def test_an_entry_without_a_time_passes_since() -> None:
    untimed = msgspec.structs.replace(ENTRY, ts=None)
    assert Selection(since="2026-11-29T20:39:00.000000Z").matches(untimed)


@pytest.mark.parametrize(
    ("selection", "concerned"),
    [
        (Selection(), True),
        (Selection(verdicts=frozenset({"deny"})), True),
        (Selection(verdicts=frozenset({"unknown"})), False),
        (Selection(since="2026-11-29T20:38:00.123456Z"), True),
        (Selection(since="2026-11-29T20:38:00.123457Z"), False),
        (Selection(policy="other", tier="Admin"), True),
    ],
)
def test_what_was_left_out_may_be_what_is_asked_for(selection: Selection, concerned: bool) -> None:
    omission = Omission(ts=ENTRY.ts, omitted={"deny": 1, "allow": 2}, seconds=1.0, reason="limit")
    assert selection.concerns(omission) is concerned
