"""YAML as Kubernetes reads it, and nothing that a loader would add."""

from contextlib import suppress

import pytest
import yaml

from knp_py.adapters.yamltext import YamlError, resolve, yaml_documents


def values(text: str) -> list[object]:
    return [document.value for document in yaml_documents(text.encode())]


def value(text: str) -> object:
    (found,) = values(text)
    return found


def error(text: str) -> str:
    with pytest.raises(YamlError) as caught:
        values(text)
    return f"{caught.value.line}:{caught.value.column}: {caught.value}"


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("yes", True),
        ("On", True),
        ("y", True),
        ("TRUE", True),
        ("no", False),
        ("off", False),
        ("N", False),
        ("yEs", "yEs"),
        ("~", None),
        ("null", None),
        ("Null", None),
        ("nUll", "nUll"),
        ("80", 80),
        ("-1", -1),
        ("+7", 7),
        ("0", 0),
        ("00", 0),
        ("010", 8),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b101", 5),
        ("-0b11", -3),
        ("1_000", 1000),
        ("08", 8),  # no octal number, so a decimal float, and whole
        ("12:30", "12:30"),  # no base 60
        ("1:20:30", "1:20:30"),
        ("2001-12-14", "2001-12-14"),
        ("2026-11-29T10:00:00Z", "2026-11-29T10:00:00Z"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("80.0", 80),
        ("1e3", 1000),
        ("1e30", 1e30),
        (".inf", float("inf")),
        ("1.2.3.4", "1.2.3.4"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("-", "-"),
        ("+", "+"),
        (".", "."),
        ("<<", "<<"),
        ("", None),
        ("9" * 500, 10**400),
        ("0x" + "f" * 5000, 10**400),
    ],
)
def test_plain_scalars(text: str, meaning: object) -> None:
    found = resolve(text)
    assert found == meaning
    assert type(found) is type(meaning)


def test_quoted_and_block_scalars_are_text() -> None:
    assert value("{a: '80', b: \"yes\", c: ''}") == {"a": "80", "b": "yes", "c": ""}
    assert value("a: |\n  80\nb: >-\n  yes\n") == {"a": "80\n", "b": "yes"}


def test_core_tags() -> None:
    assert value("a: !!str 80") == {"a": "80"}
    assert value("a: ! 80") == {"a": "80"}
    assert value("a: !!int '80'") == {"a": 80}
    assert value("a: !!float 1") == {"a": 1}
    assert value("a: !!bool 'yes'") == {"a": True}
    assert value("a: !!null ''") == {"a": None}
    assert value("a: !!timestamp 2001-01-01") == {"a": "2001-01-01"}
    assert value("!!map {a: !!seq [1]}") == {"a": [1]}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: !vault x", "1:4: the tag !vault has no meaning here"),
        ("a: !!binary aGk=", "1:4: the tag !!binary has no meaning here"),
        ("a: !!set {x: }", "1:4: the tag !!set has no meaning here"),
        ("a: !!python/object:os.system {}", "the tag !!python/object:os.system has no"),
        ("a: !!int x", "1:4: 'x' is no int, as its tag says"),
    ],
)
def test_other_tags_are_errors(text: str, what: str) -> None:
    assert what in error(text)


def test_keys_are_text() -> None:
    assert value("{1: a, true: b, 1.5: c}") == {"1": "a", "true": "b", "1.5": "c"}
    assert value("on: push") == {"true": "push"}
    assert "a key must be a text" in error("null: x")
    assert "not a list or an object" in error("? [a]\n: b")


def test_a_key_that_stands_twice_is_an_error_with_its_line() -> None:
    assert error("a: 1\nb: 2\na: 3\n") == "3:1: the key 'a' stands twice"
    assert error("x:\n  - {b: 1, b: 2}\n") == "2:12: the key 'b' stands twice"
    assert "stands twice" in error("1: a\n'1': b\n")


def test_anchors_and_aliases() -> None:
    assert value("a: &x {k: [1]}\nb: *x\n") == {"a": {"k": [1]}, "b": {"k": [1]}}
    assert value("- &x name\n- {*x : 1}\n") == ["name", {"name": 1}]
    assert "names nothing" in error("a: *x")
    # Anchors do not outlive their document.
    assert "names nothing" in error("a: &x 1\n---\nb: *x\n")


def test_a_cycle_is_an_error() -> None:
    assert error("a: &x\n  b: *x\n").startswith("2:6: the alias *x stands inside")
    assert "a cycle" in error("&x [*x]")


def test_an_alias_bomb_is_refused() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9)
    )
    assert "aliases repeat more than" in error(bomb)


def test_a_merge_bomb_is_refused() -> None:
    wide = ", ".join(f"k{i}: {i}" for i in range(2000))
    bomb = f"base: &b {{{wide}}}\nall:\n" + "  - <<: *b\n" * 600
    assert "aliases repeat more than" in error(bomb)


def test_merge_keys() -> None:
    text = """
    base: &b {a: 1, b: 1}
    more: &m {b: 2, c: 2}
    one: {<<: *b, a: 9}
    two: {<<: [*b, *m]}
    late: {a: 9, <<: *b}
    """
    found = value(text)
    assert isinstance(found, dict)
    assert found["one"] == {"a": 9, "b": 1}
    assert found["two"] == {"a": 1, "b": 1, "c": 2}
    assert found["late"] == {"a": 9, "b": 1}
    assert found["base"] == {"a": 1, "b": 1}
    assert "takes an object" in error("{<<: 1}")
    assert value("{'<<': 1}") == {"<<": 1}  # quoted it is a key like any other


def test_documents_and_their_numbers() -> None:
    documents = list(yaml_documents(b"# head\n---\na: 1\n---\n# nothing\n---\n- 2\n...\n"))
    assert [(d.number, d.value) for d in documents] == [(1, {"a": 1}), (2, None), (3, [2])]
    assert not any(document.alone for document in documents)
    (only,) = yaml_documents(b"a: 1\n")
    assert only.alone
    assert values("") == []
    assert values("# only a comment\n") == []


def test_documents_before_an_error_are_kept() -> None:
    documents = yaml_documents(b"a: 1\n---\nb: [\n")
    assert next(documents) == (1, False, {"a": 1})
    with pytest.raises(YamlError):
        next(documents)


def test_syntax_errors_have_a_place() -> None:
    assert error("a: [1, 2\nb: 3").startswith("2:")
    assert error("a:\n\t- b").startswith("2:1:")
    assert error("a: b: c").startswith("1:5:")


def test_depth_is_bounded() -> None:
    assert "nested too deeply" in error("[" * 100_000)
    assert "nested too deeply" in error("{a: " * 5_000)
    deep = "".join("  " * i + "a:\n" for i in range(400))
    assert "nested too deeply" in error(deep)


def test_without_libyaml_the_result_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x {k: [1, 'two', yes]}\nb: *x\n---\nc: |\n  text\n"
    fast = values(text)
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert values(text) == fast
    assert error("a: 1\na: 2\n") == "2:1: the key 'a' stands twice"


@pytest.mark.parametrize("text", ["a: \x01", "\x7f: b", "a: '\x85'", "%YAML 3.0\n---\na"])
def test_odd_characters_do_not_escape_as_other_errors(text: str) -> None:
    with suppress(YamlError):
        values(text)
