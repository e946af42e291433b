"""Laying text out in lines: hanging indents, wrapping at the terminal's width, consoles."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

_MEASURE = Console(width=80, color_system=None, markup=False, emoji=False, highlight=False)
_NARROW = 16
"""A column narrower than this is not worth wrapping in; the text goes under its label instead."""


class QuietConsole(Console):
    """A console whose reader may go away (``gpuprov plan | head``) without ending the run."""

    def on_broken_pipe(self) -> None:
        """Say nothing more, and leave nothing that the interpreter would complain of when it flushes at exit."""
        self.quiet = True
        silence(self.file)


def silence(file: IO[str]) -> None:
    """Point a file whose reader went away at nothing."""
    try:
        descriptor = file.fileno()
    except (OSError, ValueError):
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)


def console_for(file: TextIO) -> Console:
    """Return a console that takes text as it is: no markup, no emoji codes, no guessing of colours."""
    return QuietConsole(file=file, markup=False, emoji=False, highlight=False)


def width_of(console: Console, file: TextIO) -> int | None:
    """Return the cells of a line, or None where lines need not be wrapped because nobody looks at a screen."""
    try:
        terminal = file.isatty()
    except ValueError:
        terminal = False
    if terminal:
        return max(20, console.width)
    columns = os.environ.get("COLUMNS", "")
    return max(20, int(columns)) if columns.isdecimal() and len(columns) < 6 else None


def show(console: Console, lines: Iterable[Text]) -> None:
    """Print finished lines. They were wrapped already, so rich must not do it again."""
    # A hundred at a time: rich takes far longer to begin a print than to print a line
    waiting = iter(lines)
    while together := list(islice(waiting, 100)):
        console.print(Text("\n").join(together), soft_wrap=True)


def wrapped(text: Text, width: int | None) -> list[Text]:
    """Return the text as lines of at most ``width`` cells, broken at blanks where there are any."""
    if width is None or text.cell_len <= width:
        return [text]
    lines = list(text.wrap(_MEASURE, max(2, width), overflow="fold"))
    for line in lines:
        line.rstrip()
    return lines or [Text("")]


def hanging(label: Text, body: Text, width: int | None, *, indent: int | None = None) -> Iterator[Text]:
    """Yield ``label`` and ``body`` on one line; what does not fit continues under the body's first cell.

    ``indent``: where it continues instead, in cells.
    """
    start = label.cell_len
    under = start if indent is None else indent
    if width is not None and width - start < min(_NARROW, body.cell_len):
        if label.plain.strip():
            label.rstrip()
            yield from wrapped(label, width)
        start = under = min(6, width // 4)
        label = Text(" " * start)
    lines = wrapped(body, None if width is None else width - max(start, under))
    for number, line in enumerate(lines):
        joined = (label if number == 0 else Text(" " * under)) + line
        joined.rstrip()
        yield joined


def padded(text: str, cells: int) -> str:
    """Return ``text`` filled with blanks to ``cells`` cells (wide characters count two)."""
    return text + " " * max(0, cells - cell_len(text))
