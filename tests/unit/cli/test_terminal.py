import re

import pytest
from helpers.command import Terminal

from knp_py.cli.render import Cell, Column
from knp_py.cli.terminal import draw_table

COLUMNS = (Column("NAME"), Column("N", right=True), Column("TEXT"))
NAME = "a-name-that-nobody-wants-to-see-cut"


def drawn(width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    row = [Cell(NAME), Cell("1"), Cell("some words that may go on in another line")]
    draw_table(COLUMNS, [row], title="", stream=out)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())  # bold is no colour
    return [line.rstrip() for line in plain.splitlines()]


def test_a_table_that_is_too_wide_wraps_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(60, monkeypatch)
    assert lines[1].split()[0] == NAME
    assert len(lines) > 2
    assert all(len(line) <= 60 for line in lines)


def test_only_when_there_is_no_other_way_a_word_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(30, monkeypatch)
    assert all(len(line) <= 30 for line in lines)
    assert "".join(line[: lines[0].index("N", 4)].strip() for line in lines[1:]).startswith(
        "a-name"
    )
