"""Names, patterns, and which satisfy which."""

import pytest

from knp_py.engine.patterns import PatternTrie, canonical_name, canonical_pattern

LONGEST = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("WwW.eX", "www.ex"),
        ("www.ex.", "www.ex"),
        ("localhost", "localhost"),
        ("_sip._tcp.ex", "_sip._tcp.ex"),
        ("xn--bcher-kva.ex", "xn--bcher-kva.ex"),
        (LONGEST, LONGEST),
        (LONGEST + "d", None),
        ("a" * 64 + ".ex", None),
        ("", None),
        (".", None),
        ("www.ex..", None),
        (".www.ex", None),
        ("www..ex", None),
        ("www ex", None),
        ("www.ex\n", None),
        ("*.ex", None),
        ("b\u00fccher.ex", None),
        ("\u212a.ex", None),  # the Kelvin sign, whose lower case is k
        ("\uff41.ex", None),
    ],
)
def test_canonical_name(text: str, name: str | None) -> None:
    assert canonical_name(text) == name


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("WWW.ex.", "www.ex"),
        ("*.Ex.", "*.ex"),
        ("*", None),
        ("*.", None),
        ("*.*.ex", None),
        ("w*.ex", None),
        ("www.*", None),
        ("", None),
    ],
)
def test_canonical_pattern(text: str, pattern: str | None) -> None:
    assert canonical_pattern(text) == pattern


TRIE = PatternTrie(["a.ex", "*.ex", "*.b.ex", "b.ex", "www.example.com", "*.com"])


@pytest.mark.parametrize(
    ("name", "patterns"),
    [
        ("a.ex", ("*.ex", "a.ex")),
        ("b.ex", ("*.ex", "b.ex")),
        ("x.b.ex", ("*.ex", "*.b.ex")),
        ("x.y.b.ex", ("*.ex", "*.b.ex")),
        ("xb.ex", ("*.ex",)),
        ("ex", ()),
        ("aex", ()),
        ("a.ex.evil", ()),
        ("www.example.com", ("*.com", "www.example.com")),
        ("example.com", ("*.com",)),
        ("com", ()),
    ],
)
def test_satisfied(name: str, patterns: tuple[str, ...]) -> None:
    assert TRIE.satisfied(name) == patterns


def test_no_patterns() -> None:
    assert PatternTrie().satisfied("a.ex") == ()
