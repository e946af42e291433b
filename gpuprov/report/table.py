"""The live table: one row a host while they work, for terminals.

Taking an event only changes a small state. A thread of its own paints, at most `REDRAWS` times a second,
so that a slow, stopped or broken terminal never holds up a host.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from rich.console import Console, Group
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.text import Text

from gpuprov.events import Event
from gpuprov.report.board import Board
from gpuprov.report.rows import frame

REDRAWS = 10
"""The most frames a second."""
_IDLE = 1.0
"""Seconds between frames when nothing happened: clocks tick on."""
_PATIENCE = 2.0
"""Seconds that stopping waits for a terminal which takes nothing."""


class LiveTable:
    """Shows the stream on a terminal.

    Args:
        console: where; it must be a terminal.
        clock: seconds since the epoch.
    """

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.time) -> None:
        self._console = console
        self._clock = clock
        self._board = Board()
        self._lock = threading.Lock()
        self._above: list[Text] = []
        self._wake = threading.Event()
        self._quit = threading.Event()
        self._painter: threading.Thread | None = None
        self.failed: Exception | None = None
        """What painting raised; nothing is painted after it."""

    def __call__(self, event: Event) -> None:
        """Take one event."""
        with self._lock:
            self._board(event)
        self._wake.set()

    def above(self, line: Text) -> None:
        """Print a line for good above the table, with the next frame."""
        with self._lock:
            self._above.append(line)
        self._wake.set()

    def start(self) -> None:
        """Begin (or go on) to paint. Idempotent."""
        if self._painter is None and self.failed is None:
            self._quit.clear()
            self._painter = threading.Thread(target=self._paint, name="gpuprov-table", daemon=True)
            self._painter.start()

    def stop(self) -> None:
        """Take the table off the screen; lines above it stay. Idempotent, and never waits long."""
        painter, self._painter = self._painter, None
        if painter is not None:
            self._quit.set()
            self._wake.set()
            painter.join(_PATIENCE)
        if painter is None or not painter.is_alive():
            with suppress(OSError):
                self._flush()

    def _flush(self) -> None:
        with self._lock:
            lines, self._above = self._above, []
        for line in lines:
            self._console.print(line, soft_wrap=True)

    def _paint(self) -> None:
        try:
            live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                get_renderable=self._picture,
            )
            region = Region(self._console)
            with live:
                while not self._quit.is_set():
                    region.settle()
                    with self._lock:
                        lines, self._above = self._above, []
                    with self._console:  # one write, however much is in it
                        if lines:
                            self._console.print(Text("\n").join(lines), soft_wrap=True)
                        live.refresh()
                    region.drawn(self._last)
                    self._quit.wait(1 / REDRAWS)
                    self._wake.wait(_IDLE)
                    self._wake.clear()
            self._flush()
        except Exception as error:
            self.failed = error
            self._quit.set()
            _show_cursor(self._console)

    _last: tuple[Text, ...] = ()

    def _picture(self) -> Group:
        width, height = self._console.size
        with self._lock:
            self._last = tuple(frame(self._board, self._clock(), width, height))
        return Group(*self._last)


class Region:
    """Keeps the painted lines in one place when the terminal is resized.

    Terminals fold lines that no longer fit, so that the table then stands on more lines than were painted.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = console.size.width
        self._cells: list[int] = []

    def drawn(self, lines: tuple[Text, ...]) -> None:
        """Remember what stands on the screen now."""
        self._cells = [line.cell_len for line in lines]
        self._width = self._console.size.width

    def settle(self) -> None:
        """Before the next frame: if the terminal became narrower, wipe the folded lines of the last one."""
        width = self._console.size.width
        if width >= self._width or not self._cells or width < 1:
            return
        painted = len(self._cells)
        folded = sum(max(1, -(-cells // width)) for cells in self._cells)
        if folded > painted:
            # The next frame goes up by the lines it believes in: start it from there.
            self._console.control(
                Control(
                    ControlType.CARRIAGE_RETURN,
                    (ControlType.CURSOR_UP, folded - 1),
                    *self._erase_down(folded),
                    *(((ControlType.CURSOR_DOWN, painted - 1),) if painted > 1 else ()),
                )
            )
        self._width = width

    @staticmethod
    def _erase_down(lines: int) -> Iterator[tuple[ControlType, int] | ControlType]:
        for number in range(lines):
            yield (ControlType.ERASE_IN_LINE, 2)
            if number < lines - 1:
                yield (ControlType.CURSOR_DOWN, 1)
        if lines > 1:
            yield (ControlType.CURSOR_UP, lines - 1)


def _show_cursor(console: Console) -> None:
    with suppress(Exception):  # the terminal may be gone: then there is nothing to put right
        console.show_cursor(True)
