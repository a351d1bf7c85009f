"""Tables, JSON and progress: how every command prints.

A table is for people. On a terminal a complete table is drawn by rich, in colours unless
``NO_COLOR`` is set; piped it is plain text in aligned columns, at most 100 columns wide
where the words allow it. Rows that come one by one have columns of a fixed width instead,
so that the first is out before the last is known.
"""

import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple, Protocol, Self

import msgspec

from knp_py.cli.options import OutputFormat

WIDTH = 100
GAP = "  "

# Style → terminal code and rich's word for it.
STYLES = {
    "allow": ("32", "green"),
    "deny": ("31", "red"),
    "unknown": ("33", "yellow"),
    "error": ("31", "red"),
    "warning": ("33", "yellow"),
    "dim": ("2", "dim"),
    "bold": ("1", "bold"),
}


class Cell(NamedTuple):
    """A text with a style: a key of the colours above, such as a verdict's word."""

    text: str
    style: str = ""


class Column(NamedTuple):
    """A column. ``width`` matters for rows that come one by one only."""

    title: str
    width: int = 0
    right: bool = False


def verdict_cell(word: str) -> Cell:
    """A verdict's word in its colour."""
    return Cell(word, word)


def colours(stream: IO[str]) -> bool:
    """Whether to colour: a terminal that can, and nobody asked otherwise (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _paint(text: str, style: str) -> str:
    return f"\033[{STYLES[style][0]}m{text}\033[0m" if style else text


def _cell(value: Cell | str) -> Cell:
    return value if isinstance(value, Cell) else Cell(value)


def clean(text: str) -> str:
    """The text without control characters, which a name in a log or manifest may hold."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def fit(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int, *, cut: bool = False
) -> list[int]:
    """Column widths: natural ones, the widest shrunk while the row is too wide.

    No column gets narrower than its longest word, so a row may still end up too wide:
    a name cut in two would be worse. With ``cut`` a wide row is the worse.
    """
    widths: list[int] = []
    least: list[int] = []
    for index, column in enumerate(columns):
        texts = [column.title, *(row[index].text for row in rows)]
        widths.append(max(map(len, texts)))
        word = max(len(word) for text in texts for word in text.split() or [""])
        least.append(min(word, len(column.title) or 1) if cut else word)
    spare = sum(widths) + len(GAP) * (len(columns) - 1) - width
    while spare > 0:
        index = max(range(len(widths)), key=lambda i: (widths[i] > least[i], widths[i]))
        if widths[index] <= least[index]:
            break
        widths[index] -= 1
        spare -= 1
    return widths


def _line(cells: Iterable[tuple[str, int, bool, str]], paint: bool) -> str:
    parts = []
    for text, width, right, style in cells:
        padding = " " * (width - len(text))
        shown = _paint(text, style) if paint else text
        parts.append(padding + shown if right else shown + padding)
    return GAP.join(parts).rstrip()


def plain_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell | str]],
    width: int = WIDTH,
    *,
    cut: bool = False,
) -> Iterator[str]:
    """The lines of a table in plain text; long cells wrap between words.

    ``cut``: words that are too long for that are cut, so that no line is too wide.
    """
    cells = [[Cell(clean(_cell(c).text), _cell(c).style) for c in row] for row in rows]
    widths = fit(columns, cells, width, cut=cut)
    head = ((c.title, w, c.right, "") for c, w in zip(columns, widths, strict=True))
    if any(column.title for column in columns):
        yield _line(head, paint=False)
    for row in cells:
        wrapped = [
            textwrap.wrap(c.text, w, break_long_words=cut, break_on_hyphens=False) or [""]
            for c, w in zip(row, widths, strict=True)
        ]
        for number in range(max(map(len, wrapped))):
            yield _line(
                (
                    (lines[number] if number < len(lines) else "", w, column.right, "")
                    for lines, w, column in zip(wrapped, widths, columns, strict=True)
                ),
                paint=False,
            )


def print_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell | str]],
    *,
    title: str = "",
    stream: IO[str] | None = None,
    cut: bool = False,
) -> None:
    """A complete table, drawn by rich on a terminal. ``cut`` is as for ``plain_table``."""
    out = stream or sys.stdout
    if not out.isatty():
        if title:
            print(title, file=out)
        for line in plain_table(columns, rows, cut=cut):
            print(line, file=out)
        return
    from knp_py.cli.terminal import draw_table  # noqa: PLC0415  rich is slow to import

    draw_table(
        columns,
        [[Cell(clean(c.text), c.style) for c in map(_cell, row)] for row in rows],
        title=title,
        stream=out,
    )


def counted(number: int, word: str) -> str:
    """``1 policy``, ``2 policies``."""
    plural = {"entry": "entries", "policy": "policies", "info": "info"}.get(word, f"{word}s")
    return f"{number} {word if number == 1 else plural}"


def wrap(text: str, room: int, *, shift: int = 0, hang: int = 0, cut: bool = False) -> list[str]:
    """The text in lines of at most ``room`` where its words allow; ``cut`` cuts longer words.

    The first line has ``shift`` less, and is empty where no word fits into that. Lines after
    it begin with ``hang`` blanks.
    """
    word = 1 if cut else len((text.split() or [""])[0])
    if shift and word > room - shift:
        return ["", *wrap(text, room, hang=hang, cut=cut)]
    lines = textwrap.wrap(
        text,
        room,
        initial_indent=" " * shift,
        subsequent_indent=" " * hang,
        break_long_words=cut,
        break_on_hyphens=False,
    )
    return [lines[0][shift:], *lines[1:]] if lines else [""]


def print_wrapped(
    text: str,
    indent: int,
    *,
    style: str = "",
    stream: IO[str] | None = None,
    cut: bool = False,
    hang: int = 0,
) -> None:
    """A text of any length behind ``indent`` blanks, within ``WIDTH`` where its words allow.

    Lines after the first have ``hang`` blanks more. ``cut``: words that are longer than that
    are cut.
    """
    out = stream or sys.stdout
    paint = style if style and colours(out) else ""
    for line in wrap(clean(text), WIDTH - indent, hang=hang, cut=cut):
        print(" " * indent + _paint(line, paint), file=out)


class StreamTable:
    """A table whose rows come one by one: the header first, then each row at once."""

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        stream: IO[str] | None = None,
        flush: bool = False,
        header: bool = True,
    ) -> None:
        self._columns = columns
        self._out = stream or sys.stdout
        self._flush = flush
        self._colours = colours(self._out)
        self._begun = not header
        self.indent = sum(column.width + len(GAP) for column in columns[:-1])

    def row(self, *values: Cell | str) -> None:
        """Print one row; a text longer than its column moves the rest of its row along."""
        if not self._begun:
            self._begun = True
            self._print([Cell(column.title, "bold") for column in self._columns])
        self._print([_cell(value) for value in values])

    def entry(self, *values: Cell | str, cut: bool = False) -> None:
        """A row whose last text goes on below itself where the line is full.

        What stands behind an arrow goes there as a whole. ``cut`` is as for ``print_wrapped``.
        """
        *cells, last = map(_cell, values)
        widths = [column.width for column in self._columns]
        taken = [len(clean(cell.text)) for cell in cells]
        shift = sum(max(0, n - w) for n, w in zip(taken, widths, strict=False))
        room = WIDTH - self.indent
        text = clean(last.text)
        parts = [text]
        if len(text) > room - shift and " → " in text:
            source, _, target = text.partition(" → ")
            parts = [source, f"→ {target}"]
        first, *below = wrap(parts[0], room, shift=shift, cut=cut)
        self.row(*cells, first)
        for line in [*below, *(line for part in parts[1:] for line in wrap(part, room, cut=cut))]:
            print(" " * self.indent + line, file=self._out)

    def below(self, text: str, *, style: str = "", cut: bool = False) -> None:
        """More about the row above, under its last column."""
        print_wrapped(text, self.indent, style=style, stream=self._out, cut=cut)

    def _print(self, cells: Sequence[Cell]) -> None:
        line = _line(
            (
                (clean(cell.text), column.width, column.right, cell.style)
                for cell, column in zip(cells, self._columns, strict=True)
            ),
            self._colours,
        )
        print(line, file=self._out, flush=self._flush)


class Documents:
    """Results as JSON, one by one: lines, or one array that is never held as a whole.

    ``write`` takes whatever msgspec encodes, or bytes that are JSON already. Use it as a
    context manager: the array has to be closed.
    """

    def __init__(
        self, output: OutputFormat, *, stream: IO[str] | None = None, flush: bool = False
    ) -> None:
        self._array = output is OutputFormat.JSON
        self._out = stream or sys.stdout
        self._flush = flush
        self._encode = msgspec.json.Encoder().encode
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if self._array and kind is None:
            self._out.write("\n]\n" if self._count else "[]\n")

    def write(self, document: Any) -> None:
        """One result."""
        line = document if isinstance(document, bytes) else self._encode(document)
        text = line.decode()
        if self._array:
            indented = msgspec.json.format(line, indent=2).decode()
            self._out.write(
                ("[\n" if not self._count else ",\n") + textwrap.indent(indented, "  ")
            )
        else:
            self._out.write(text + "\n")
        self._count += 1
        if self._flush:
            self._out.flush()


def print_json(document: Any) -> None:
    """One result as one indented JSON document."""
    print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def note(text: str) -> None:
    """Something worth knowing that is no result: to standard error."""
    print(f"knp: {text}", file=sys.stderr)


def notes(lines: Sequence[str], limit: int, rest: str) -> None:
    """The first ``limit`` notes, and how many more there are."""
    for line in lines[:limit]:
        note(line)
    if len(lines) > limit:
        note(f"and {len(lines) - limit} more; {rest}")


class Progress(Protocol):
    """How far a long job is."""

    def advance(self, amount: int = 1) -> None:
        """So much more is done."""
        ...


class _Silent:
    def advance(self, amount: int = 1) -> None:
        pass


@contextmanager
def progress(label: str, total: int | None = None, unit: str = "") -> Iterator[Progress]:
    """A bar on standard error while a long job runs; nothing when that is no terminal.

    ``total`` None means unknown. Call ``advance`` once in a while, not per item.
    """
    if not sys.stderr.isatty():
        yield _Silent()
        return
    from knp_py.cli.terminal import bar  # noqa: PLC0415  rich is slow to import

    with bar(label, total, unit) as shown:
        yield shown
