"""The readers of one command: which of them watch the stream, and what they say at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.text import Text

from gpuprov.cli.words import Words, json_stream
from gpuprov.errors import ExitCode
from gpuprov.events import CommandEnded, Event, Notice, Sink
from gpuprov.report.amounts import counted
from gpuprov.report.command import command_lines
from gpuprov.report.facts import FactsReader
from gpuprov.report.fanout import Fanout
from gpuprov.report.jsonlines import JsonLines
from gpuprov.report.layout import console_for, show, width_of
from gpuprov.report.lines import PlainLog
from gpuprov.report.plan import PlanReader
from gpuprov.report.recap import Recap
from gpuprov.report.table import LiveTable


class Screen:
    """Everything that a person or a program sees of one command.

    Attributes:
        sink: what the engine gets.
    """

    def __init__(self, words: Words, *, also: Iterable[Sink] = ()) -> None:
        self._words = words
        self._console = console_for(sys.stdout)
        self._table: LiveTable | None = None
        self._plans = PlanReader()
        self._facts = FactsReader()
        self._recap = Recap("plan" if words.command == "apply" and words.only_looks else words.command)
        self._codes = _Codes()
        self._shown: set[str] = set()
        self.sink = Fanout([*also, self._codes, self._plans, *self._readers()], lost=self._lost)

    def _readers(self) -> list[Sink]:
        if self._words.json:
            return [JsonLines(json_stream())]
        if sys.stdout.isatty() and not self._console.is_dumb_terminal:
            self._table = LiveTable(self._console)
        log = PlainLog(
            self._line,
            verbosity=self._words.verbosity,
            diff=self._words.diff,
            sole=self._table is None and not self._words.only_looks,
        )
        readers: list[Sink] = [self._recap, log]
        if self._words.command == "facts":
            readers.append(self._facts)
        if self._words.command == "exec":
            readers.append(self._command)
        return readers + ([self._table] if self._table is not None else [])

    @property
    def _width(self) -> int | None:
        return width_of(self._console, sys.stdout)

    def _line(self, line: Text) -> None:
        if self._table is not None:
            self._table.above(line)
        else:
            show(self._console, [line])

    def _command(self, event: Event) -> None:
        if isinstance(event, CommandEnded):
            if self._table is not None:
                for line in command_lines(event):
                    self._table.above(line)
            else:
                show(self._console, command_lines(event))

    def _lost(self, reader: Sink, error: Exception) -> None:
        name = getattr(reader, "__qualname__", type(reader).__name__)
        print(f"gpuprov itself failed: {name} stopped: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201

    def begin(self) -> None:
        """Begin, or after `pause` go on, to show the live table where there is one."""
        if self._table is not None:
            self._table.start()

    def pause(self) -> None:
        """Take the live table off the screen. May wait for the terminal, though not for long."""
        if self._table is not None:
            self._table.stop()

    def note(self, text: str) -> None:
        """Say something through the same stream as everything else."""
        self.sink(Notice(level="warning", text=text))

    def show_plans(self, hosts: Sequence[str] | None = None) -> None:
        """Print the plans of these hosts (None: all) that were not printed yet."""
        names = [name for name in self._plans.plans if (hosts is None or name in hosts) and name not in self._shown]
        self._shown.update(names)
        everything = self._words.list_resources or self._words.verbosity > 0
        show(
            self._console,
            self._plans.render(self._width, hosts=names, everything=everything, diff=self._words.diff),
        )

    def show_troubles(self) -> None:
        """Print which hosts are out of it already."""
        lines = list(self._recap.troubles(self._width))
        show(self._console, [Text(""), *lines] if lines else [])

    def prompt(self, question: str) -> None:
        """Print a question and leave the cursor behind it."""
        self._console.print(Text(f"\n{question}", style="bold"), end=" ", soft_wrap=True)

    def finish(self, code: int, *, declined: bool = False) -> int:
        """Print what is left to say and return the exit code of the command.

        Args:
            code: the engine's.
            declined: the person said no, so that nothing was changed.
        """
        self.pause()
        if self._words.only_looks and self._words.command in ("plan", "apply"):
            code = self._judged(code)
        if self._codes.failed_command:
            code = ExitCode.worst((code, ExitCode.FAILED))
        if self._words.json:
            return code
        if declined:
            code = ExitCode.OK if code == ExitCode.DIFFERENCES else code
            show(self._console, [Text("Nothing was changed.", style="bold")])
        else:
            self._said()
        self._complaints()
        return code

    def _judged(self, code: int) -> int:
        """A plain plan ends well whether or not hosts differ; ``--exit-code`` asks."""
        code = ExitCode.OK if code == ExitCode.DIFFERENCES else code
        if self._words.exit_code and self._plans.differing():
            code = ExitCode.worst((code, ExitCode.DIFFERENCES))
        return code

    def _said(self) -> None:
        if self._words.command == "facts":
            hosts = list(self._recap.board.hosts)
            show(self._console, self._facts.render(self._width, order=hosts, everything=self._words.verbosity > 0))
        elif self._words.only_looks and self._words.command in ("plan", "apply"):
            self.show_plans()
        differing = () if self._words.list_resources else self._plans.differing()
        show(self._console, self._recap.render(self._width, again=self._words.typed, differing=differing))

    def _complaints(self) -> None:
        if self._table is not None and self._table.failed is not None:
            self._lost(self._table, self._table.failed)


class _Codes:
    """What the stream itself says about the exit code."""

    def __init__(self) -> None:
        self.failed_command = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, CommandEnded):
            self.failed_command = self.failed_command or event.status != 0


def question(hosts: Sequence[str]) -> str:
    """Return what is asked before hosts are changed."""
    return f"Apply these changes to {counted(len(hosts), 'host')}? [y/N]"
