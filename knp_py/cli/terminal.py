"""What rich draws: complete tables and progress bars, on a terminal only.

Imported when there is one, since rich takes longer to import than most commands to run.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from knp_py.cli.render import GAP, STYLES, Cell, Column, colours, fit


def draw_table(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, title: str, stream: IO[str]
) -> None:
    """Print the table as wide as the terminal allows; words are cut only where they must be."""
    console = Console(file=stream, highlight=False, no_color=not colours(stream))
    widths = fit(columns, rows, console.width)
    fits = sum(widths) + len(GAP) * (len(columns) - 1) <= console.width
    table = Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=None,
        padding=(0, len(GAP), 0, 0),
        pad_edge=False,
        show_header=any(column.title for column in columns),
    )
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            overflow="fold",
            width=width if fits else None,
        )
    for row in rows:
        table.add_row(*(Text(c.text, style=STYLES[c.style][1] if c.style else "") for c in row))
    console.print(table)


class Bar:
    """One bar."""

    def __init__(self, bars: Bars, task: TaskID) -> None:
        self._bars = bars
        self._task = task

    def advance(self, amount: int = 1) -> None:
        """So much more is done."""
        self._bars.advance(self._task, amount)


@contextmanager
def bar(label: str, total: int | None, unit: str) -> Iterator[Bar]:
    """A bar on standard error that goes away when the job is done."""
    bars = Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        console=Console(stderr=True, no_color=not colours(sys.stderr)),
        transient=True,
        # Results go to standard output whatever becomes of the bar; rich would take them.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with bars:
        yield Bar(bars, bars.add_task(label, total=total))
