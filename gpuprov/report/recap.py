"""What is left to say at the end: every host's result, every error in full, and the next command to type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from rich.cells import cell_len
from rich.text import Text

from gpuprov.errors import ErrorRecord
from gpuprov.events import Event
from gpuprov.report.amounts import counted, elapsed, tally
from gpuprov.report.board import Board, Failure, HostView
from gpuprov.report.layout import hanging, padded
from gpuprov.report.lines import STYLES
from gpuprov.report.visible import visible, visible_lines

OUTPUT_LINES = 20
"""So many last lines of a failed step's output are shown; the rest stands in the log on the host."""

_STATUSES = ("ok", "changed", "differs", "failed", "unreachable", "interrupted", "running", "waiting")


class Again(Protocol):
    """Spells the command that was typed once more."""

    def __call__(self, command: str, *, hosts: Sequence[str] | None = None) -> str:
        """Return the same words for ``command``, limited to ``hosts`` if these are given."""
        ...


class Recap:
    """Follows the stream and says how it went.

    ``command``: what was asked for (an apply that only looks is a ``plan``); by default what the stream says.
    """

    def __init__(self, command: str = "") -> None:
        self.board = Board()
        self._command = command

    def __call__(self, event: Event) -> None:
        """Take one event."""
        self.board(event)

    @property
    def command(self) -> str:
        """What the person wanted."""
        return self._command or self.board.command

    def render(self, width: int | None, *, again: Again, differing: Sequence[str] = ()) -> Iterator[Text]:
        """Yield the lines: warnings, errors, a line a host, totals, and what to do next.

        Args:
            width: cells of a line; None: no wrapping.
            again: spells the next command.
            differing: after a plan, the hosts that differ.
        """
        board = self.board
        if self.command == "apply":
            # Of a run that may have taken an hour; the log has said them long ago.
            yield from self._warnings(width)
        for same in _alike([failure for view in board.hosts.values() for failure in view.failures]):
            yield from _failure(same, width)
            yield Text("")
        # A plan or facts that went well have said all there is; a line of "ok" a host adds nothing.
        if self.command == "apply" or any(view.trouble for view in board.hosts.values()):
            yield from self._table(width)
        yield from self._next(width, again, differing)

    def troubles(self, width: int | None) -> Iterator[Text]:
        """Yield one line for each host that ended badly so far."""
        for view in self.board.hosts.values():
            if view.over and view.trouble:
                label = Text(visible(view.name), style="bold") + Text(
                    f"  {view.status}", style=STYLES.get(view.status, "")
                )
                why = visible_lines(view.failures[-1].error.message)[:1] if view.failures else []
                yield from hanging(label, Text("".join(f": {line}" for line in why)), width, indent=2)

    def _warnings(self, width: int | None) -> Iterator[Text]:
        hosts: dict[str, list[str]] = {}
        for host, text in self.board.warnings:
            hosts.setdefault(text, []).extend([visible(host)] if host else [])
        for text, names in hosts.items():
            body = (f"{', '.join(names)}: " if names else "") + visible(text)
            yield from hanging(Text("warning: ", style=STYLES["warning"]), Text(body), width, indent=2)
        if hosts:
            yield Text("")

    def _table(self, width: int | None) -> Iterator[Text]:
        views = list(self.board.hosts.values())
        if not views:
            return
        column = min(32, max(cell_len(visible(view.name)) for view in views))
        for view in views:
            label = Text(padded(visible(view.name), column) + "  ", style="bold")
            label.append(f"{view.status:<12}", style=STYLES.get(view.status, ""))
            label.append(f"{elapsed(view.seconds) if view.over else '':>8}  ", style="dim")
            yield from hanging(label, Text(tally(view.counts)), width)
        if len(views) > 1:
            statuses = self.board.statuses()
            parts = [f"{statuses[status]} {status}" for status in _STATUSES if statuses.get(status)]
            text = Text(f"{counted(len(views), 'host')}: ", style="bold").append(", ".join(parts), style="none")
            if self.board.ended is not None:
                text.append(f"  {elapsed(self.board.ended.seconds)}", style="dim")
            yield from hanging(Text(""), text, width, indent=2)

    def _next(self, width: int | None, again: Again, differing: Sequence[str]) -> Iterator[Text]:
        board = self.board
        failed, unreachable = board.names("failed"), board.names("unreachable")
        interrupted = board.names("interrupted")
        advice: list[tuple[str, str]] = []
        if board.ended is not None and board.ended.next:
            advice.append(("next", visible(board.ended.next)))
        elif self.command == "apply" and interrupted:
            advice.append(("the same command goes on from there", again("apply")))
        elif self.command in ("apply", "plan"):
            in_trouble = [*failed, *unreachable]
            able = [host for host in differing if host not in in_trouble]
            if self.command == "plan" and able:
                advice.append(("to make it so", again("apply", hosts=able if in_trouble else None)))
            if in_trouble:
                what = "when that is repaired" if failed else "when they answer again"
                if not failed and len(unreachable) == 1:
                    what = "when it answers again"
                advice.append((what, again(self.command, hosts=in_trouble)))
        for what, command in advice:
            yield Text("")
            # Never wrapped: it is there to be copied.
            yield Text(f"{what[0].upper()}{what[1:]}:", style="dim")
            yield Text(f"  {command}", style="bold")


def _alike(failures: Sequence[Failure]) -> Iterator[list[Failure]]:
    groups: dict[tuple[str, ...], list[Failure]] = {}
    for failure in failures:
        error = failure.error
        # The host's own name in a sentence does not make it another error.
        name = re.compile(rf"(?<![\w.-]){re.escape(failure.host)}(?![\w-])")
        said = [name.sub("\0", text) for text in (error.message, error.output, error.hint)]
        groups.setdefault((failure.id, error.code, *said), []).append(failure)
    yield from groups.values()


def _failure(group: Sequence[Failure], width: int | None) -> Iterator[Text]:
    first = group[0]
    hosts = ", ".join(dict.fromkeys(visible(failure.host) for failure in group))
    title = Text(hosts, style="bold")
    title.append(f"  {visible(first.id)}" if first.id else "", style="bold")
    title.append(f"  {visible(first.error.code).replace('-', ' ')}", style="bold red")
    yield from hanging(Text(""), title, width, indent=2)
    yield from error_lines(first.error, width, known=(f"{first.host} {first.id}".strip(), first.host, first.id))


def error_lines(error: ErrorRecord, width: int | None, *, known: Sequence[str] = ()) -> Iterator[Text]:
    """Yield an error in full: what, where (unless that is ``known``), the last lines of output, what to do."""
    for number, line in enumerate(visible_lines(error.message) or ["no message"]):
        yield from hanging(Text("  "), Text(line, style="red" if number == 0 else ""), width)
    if error.where and error.where not in known:
        yield from hanging(Text("  where: ", style="dim"), Text(visible(error.where)), width)
    output = visible_lines(error.output.strip("\n"))
    left_out = len(output) - OUTPUT_LINES
    if left_out > 0:
        yield Text(f"  │ … {counted(left_out, 'line')} before", style="dim")
    for line in output[-OUTPUT_LINES:]:
        yield from hanging(Text("  │ ", style="dim"), Text(line), width)
    if error.hint:
        yield from hanging(Text("  hint: ", style="bold"), Text("; ".join(visible_lines(error.hint))), width)
    elif error.code in _REMEDIES:
        yield from hanging(Text("  hint: ", style="bold"), Text(_REMEDIES[error.code]), width)


_REMEDIES = {
    "unreachable": "see that the host is up and that address, port and user in the inventory are right (ssh -v tells)",
    "host-key": "if the machine behind the address is a new one, --accept-new takes a key that is not known yet",
    "authentication": "see which key or password the inventory names for this host, and that the host knows it",
    "locked": "see what the message says holds it; --lock-wait is how long another run is waited for",
    "line-lost": "the same command goes on where it stopped; what was started on the host runs on",
}
"""What to try when the error itself does not say it."""


def totals(views: Sequence[HostView]) -> str:
    """Return the outcomes of all hosts together, in words."""
    counts: dict[str, int] = {}
    for view in views:
        for outcome, number in view.counts.items():
            counts[outcome] = counts.get(outcome, 0) + number
    return tally(counts)
