import io
import json

import pytest
from helpers.command import Terminal

from knp_py.cli.options import OutputFormat
from knp_py.cli.render import (
    Cell,
    Column,
    Documents,
    StreamTable,
    clean,
    colours,
    note,
    notes,
    plain_table,
    print_json,
    print_table,
    print_wrapped,
    progress,
    verdict_cell,
)

COLUMNS = (Column("NAME"), Column("COUNT", right=True), Column("WHAT IT IS"))
ROWS = [
    ("one", "1", "a short text"),
    ("a-longer-name", "1234", "a text of so many words that it has to go on in another line " * 2),
]


@pytest.fixture(autouse=True)
def _colourful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")


def test_a_piped_table_is_aligned_and_wraps_between_words() -> None:
    lines = list(plain_table(COLUMNS, ROWS))
    assert lines[:2] == [
        "NAME           COUNT  WHAT IT IS",
        "one                1  a short text",
    ]
    assert all(len(line) <= 100 for line in lines)
    assert lines[2].startswith("a-longer-name   1234  a text of so many words")
    assert lines[3].startswith(" " * 22 + "in another line") or lines[3].startswith(" " * 22)
    words = " ".join(line[22:] for line in lines[2:]).split()
    assert words == ROWS[1][2].split()


def test_a_long_word_is_never_cut() -> None:
    name = "x" * 120
    assert list(plain_table(COLUMNS, [(name, "1", "y")]))[1] == f"{name}      1  y"


@pytest.mark.parametrize("width", [100, 40])
def test_a_long_word_is_cut_where_a_wide_line_is_worse(width: int) -> None:
    name = "x" * 120
    lines = list(plain_table(COLUMNS, [(name, "1", "some words " * 9)], width, cut=True))
    assert max(map(len, lines)) <= width
    assert "".join(lines).count("x") == 120


def test_a_wrapped_text_keeps_its_words_unless_they_may_be_cut() -> None:
    whole, cut = io.StringIO(), io.StringIO()
    print_wrapped(f"a {'x' * 120}", 30, stream=whole)
    print_wrapped(f"a {'x' * 120}", 30, stream=cut, cut=True)
    assert whole.getvalue().splitlines() == [" " * 30 + "a", " " * 30 + "x" * 120]
    assert max(map(len, cut.getvalue().splitlines())) == 100


def test_a_table_without_titles_has_no_header() -> None:
    assert list(plain_table((Column(""), Column("")), [("a", "b")])) == ["a  b"]


def test_a_table_without_rows_is_its_header() -> None:
    assert list(plain_table(COLUMNS, [])) == ["NAME  COUNT  WHAT IT IS"]


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert clean("a\x1b[31mb\n") == "a\\x1b[31mb\\x0a"
    (line,) = list(plain_table((Column(""),), [("\x1b]0;x\x07",)]))
    assert line == "\\x1b]0;x\\x07"


def test_a_complete_table_has_colours_on_a_terminal_only() -> None:
    row = [(verdict_cell("deny"), "1", Cell("x", "bold"))]
    pipe, terminal = io.StringIO(), Terminal()
    print_table(COLUMNS, row, title="Title", stream=pipe)
    print_table(COLUMNS, row, title="Title", stream=terminal)
    assert pipe.getvalue() == "Title\nNAME  COUNT  WHAT IT IS\ndeny      1  x\n"
    assert "\x1b[31mdeny" in terminal.getvalue()
    assert "Title" in terminal.getvalue()


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    terminal = Terminal()
    print_table(COLUMNS, [(verdict_cell("deny"), "1", "")], stream=terminal)
    table = StreamTable((Column("V", 5),), stream=terminal)
    table.row(verdict_cell("deny"))
    assert "31m" not in terminal.getvalue()


def test_colours_need_a_terminal() -> None:
    assert colours(Terminal())
    assert not colours(io.StringIO())


def test_rows_one_by_one_keep_their_columns() -> None:
    out = io.StringIO()
    table = StreamTable((Column("A", 5), Column("B", 3, right=True), Column("C")), stream=out)
    assert out.getvalue() == ""
    table.row("x", "1", "rest")
    table.row("too long for it", verdict_cell("deny"), "\x1b")
    assert out.getvalue().splitlines() == [
        "A        B  C",
        "x        1  rest",
        "too long for it  deny  \\x1b",
    ]


ENTRIES = (Column("#", 3, right=True), Column("verdict", 7), Column("connection"))


def entries(*rows: tuple[str, str, str], cut: bool = False) -> list[str]:
    out = io.StringIO()
    table = StreamTable(ENTRIES, stream=out, header=False)
    for row in rows:
        table.entry(*row, cut=cut)
    table.below("who decided")
    *lines, last = out.getvalue().splitlines()
    assert last == " " * 14 + "who decided"
    return lines


def test_an_entry_that_fits_is_one_line() -> None:
    text = f"{'a' * 40} → {'b' * 43}"
    assert len(text) == 86
    assert entries(("7", "deny", text)) == [f"  7  deny     {text}"]


@pytest.mark.parametrize("cut", [False, True])
def test_an_entry_that_does_not_fit_goes_on_behind_its_arrow(cut: bool) -> None:
    """Also where it is a longer number in front that leaves it no room."""
    a, b = "a" * 40, "b" * 43
    long = [" 12345  deny     " + a, " " * 14 + f"→ {b}"]
    assert entries(("12345", "deny", f"{a} → {b}"), cut=cut) == [long[0].strip(), long[1]]
    assert entries(("1", "deny", f"{a} → {b}b"), cut=cut) == [
        f"  1  deny     {a}",
        " " * 14 + f"→ {b}b",
    ]


def test_what_is_too_long_for_the_first_line_begins_on_the_second() -> None:
    assert entries(("1" * 9, "deny", "a" * 86)) == ["1" * 9 + "  deny", " " * 14 + "a" * 86]
    assert entries(("1", "deny", "a" * 90)) == ["  1  deny     " + "a" * 90]  # nor is it cut
    words = "some words " * 12
    lines = entries(("1" * 9, "deny", words))
    assert max(map(len, lines)) <= 100
    assert " ".join(" ".join(lines).split()) == f"{'1' * 9} deny {words.strip()}"


def test_an_entry_of_which_words_may_be_cut_is_never_too_wide() -> None:
    lines = entries(("1" * 20, "deny", f"{'a' * 200} → {'b' * 200}"), cut=True)
    assert max(map(len, lines)) <= 100
    assert "".join("".join(lines).split()) == f"{'1' * 20}deny{'a' * 200}→{'b' * 200}"


def test_rows_one_by_one_are_coloured_outside_their_padding() -> None:
    out = Terminal()
    StreamTable((Column("A", 6), Column("B")), stream=out, flush=True).row(
        verdict_cell("allow"), "x"
    )
    assert out.getvalue().splitlines()[1] == "\x1b[32mallow\x1b[0m   x"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_documents_as_one_array_and_as_lines(count: int) -> None:
    documents = [{"n": n, "text": "é\n"} for n in range(count)]
    array, lines = io.StringIO(), io.StringIO()
    with Documents(OutputFormat.JSON, stream=array) as out:
        for document in documents:
            out.write(document)
    with Documents(OutputFormat.JSONL, stream=lines, flush=True) as out:
        for document in documents:
            out.write(json.dumps(document).encode())
    assert json.loads(array.getvalue()) == documents
    assert [json.loads(line) for line in lines.getvalue().splitlines()] == documents


def test_an_array_that_fails_half_way_is_not_closed() -> None:
    out = io.StringIO()
    documents = Documents(OutputFormat.JSON, stream=out)
    documents.write({"n": 1})
    documents.__exit__(KeyError, KeyError(), None)
    assert not out.getvalue().endswith("]\n")


def test_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1]})
    assert json.loads(capsys.readouterr().out) == {"a": [1]}


def test_notes_are_capped(capsys: pytest.CaptureFixture[str]) -> None:
    notes(["a", "b", "c"], 2, "look there")
    note("d")
    notes([], 2, "nothing")
    assert capsys.readouterr().err.splitlines() == [
        "knp: a",
        "knp: b",
        "knp: and 1 more; look there",
        "knp: d",
    ]


def test_progress_is_silent_unless_somebody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, seen in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr("sys.stderr", stream)
        with progress("Reading", 10, "packets") as bar:
            bar.advance(5)
            bar.advance()
        assert ("Reading" in stream.getvalue()) is seen
