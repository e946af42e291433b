"""The plain log: timestamped lines, for pipes, files and whoever wants to read everything."""

from __future__ import annotations

from collections.abc import Callable

from rich.cells import cell_len
from rich.text import Text

from gpuprov.events import (
    CommandEnded,
    Event,
    FactsRead,
    HostEnded,
    HostPhase,
    NodeEnded,
    NodeOutput,
    NodeProgress,
    NodeStarted,
    Notice,
    PlanLine,
    PlanReady,
    RunEnded,
    RunStarted,
)
from gpuprov.report.amounts import clock, counted, elapsed, progress, tally
from gpuprov.report.plan import diff_lines, transition
from gpuprov.report.visible import last_state, visible, visible_lines

STYLES = {
    "changed": "yellow",
    "differs": "yellow",
    "failed": "bold red",
    "unseen": "bold red",
    "unreachable": "bold red",
    "interrupted": "bold magenta",
    "skipped": "cyan",
    "same": "dim",
    "not-selected": "dim",
    "ok": "green",
    "warning": "bold yellow",
    "info": "blue",
    "debug": "dim",
}
_VERB = 11
"""Cells of the column that says what happened."""
_HEARTBEAT = 30.0
"""Seconds after which a host that works without a line is said to be alive."""


class PlainLog:
    """Writes one line an event, quiet about what is as wanted.

    Args:
        write: takes one finished line.
        verbosity: 0: changes, failures, warnings, and a sign of life from long steps; 1: also what is as
            wanted, phases and notices; 2: also output lines; 3: everything, with round trips.
        diff: the diff under each changed node.
        sole: whether this is all that people see. Beside a live table and a recap it leaves to them what
            they say better: signs of life, and how a host ended.
    """

    def __init__(
        self, write: Callable[[Text], None], *, verbosity: int = 0, diff: bool = False, sole: bool = True
    ) -> None:
        self._write = write
        self._verbosity = verbosity
        self._diff = diff
        self._sole = sole
        self._column = 0
        self._command = ""
        self._planned: dict[tuple[str, str], tuple[str, str, str, str]] = {}
        self._begun: dict[tuple[str, str], float] = {}
        self._done: dict[tuple[str, str], str] = {}
        self._spoke: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        """Take one event."""
        match event:
            case RunStarted():
                self._command = event.command
                self._column = min(24, max((cell_len(visible(name)) for name in event.hosts), default=0))
                what = f"{event.command} {visible(event.playbook)}".strip()
                text = f"{what} on {counted(len(event.hosts), 'host')} (run {visible(event.run)})"
                self._say(event.at, "", "", Text(text), level=0 if self._sole else 1)
            case HostPhase():
                # Waiting for another's lock may last; everything else passes by itself.
                level = 0 if event.phase == "lock" and event.note else 1
                self._say(event.at, event.host, event.phase, Text(visible(event.note)), level=level)
            case PlanLine():
                self._plan_line(event)
            case PlanReady():
                text = "; ".join(filter(None, (tally(event.counts), visible(event.note))))
                self._say(event.at, event.host, "plan", Text(text), level=1)
            case NodeStarted():
                self._begun[event.host, event.id] = event.at
                self._spoke.setdefault(event.host, event.at)
                title = f"{visible(event.id)} ({visible(event.title)})"
                self._say(event.at, event.host, "begins", Text(title), level=1)
            case NodeOutput():
                self._say(event.at, event.host, "|", Text(f"{visible(event.id)}  {visible(event.line)}"), level=2)
                self._sign_of_life(event.at, event.host, event.id, last_state(event.line))
            case NodeProgress():
                done = progress(event.done, event.total, event.unit)
                self._done[event.host, event.id] = done
                self._say(event.at, event.host, "progress", Text(f"{visible(event.id)}  {done}"), level=3)
                self._sign_of_life(event.at, event.host, event.id, "")
            case NodeEnded():
                self._node_ended(event)
            case Notice():
                level = {"warning": 0, "info": 1, "debug": 2}.get(event.level, 2)
                self._say(event.at, event.host, event.level, Text(visible(event.text)), level=level)
            case FactsRead():
                self._say(event.at, event.host, "facts", Text(counted(len(event.facts), "group")), level=2)
            case CommandEnded():
                text = f"status {event.status} in {elapsed(event.seconds)}"
                self._say(event.at, event.host, "command", Text(text), level=2)
            case HostEnded():
                self._host_ended(event)
            case RunEnded():
                text = f"exit code {event.exit_code} after {elapsed(event.seconds)}"
                self._say(event.at, "", "ended", Text(text), level=3)

    def _say(self, at: float, host: str, verb: str, text: Text, *, level: int) -> None:
        if level > self._verbosity:
            return
        line = Text(clock(at), style="dim")
        if host:
            name = visible(host)
            line.append(f" {name}", style="bold").append(" " * max(0, self._column - cell_len(name)), style="none")
            self._spoke[host] = at
        if verb:
            line.append(f" {verb:<{_VERB}}", style=STYLES.get(verb, "cyan"))
        line.append(" ").append_text(text)
        line.rstrip()
        self._write(line)

    def _plan_line(self, event: PlanLine) -> None:
        if event.verdict in ("change", "recheck"):
            diff = event.diff if self._diff else ""
            self._planned[event.host, event.id] = (event.action, visible(event.before), visible(event.after), diff)
        text = Text(f"{visible(event.id)}  {event.verdict} {event.action}".rstrip() + "  ")
        text.append_text(transition(event.action, visible(event.before), visible(event.after)))
        text.append(f" ({visible(event.why)})" if event.why else "")
        self._say(event.at, event.host, "planned", text, level=3)

    def _node_ended(self, event: NodeEnded) -> None:
        key = (event.host, event.id)
        self._begun.pop(key, None)
        self._done.pop(key, None)
        action, before, after, diff = self._planned.pop(key, ("", "", "", ""))
        text = Text(visible(event.id))
        if event.outcome == "changed":
            becomes = transition(action, before, after)
            if becomes.plain or action or event.action:
                text.append(f" ({visible(event.action or action)}").append(" " if becomes.plain else "")
                text.append_text(becomes).append(")")
        because = event.error.message if event.error is not None else event.because
        if because:
            text.append(": " + _joined(because))
        if event.outcome in ("changed", "failed"):
            text.append(f"  {elapsed(event.seconds)}", style="dim")
        # A check's finding is what people came for, though nothing changed
        finding = event.outcome == "same" and bool(because)
        level = 0 if finding else _level(event.outcome)
        self._say(event.at, event.host, "ok" if finding else event.outcome, text, level=level)
        if event.outcome == "changed" and diff:
            for row in diff_lines(diff):
                self._write(Text("    ") + row)

    def _host_ended(self, event: HostEnded) -> None:
        text = Text(f"done: {tally(event.counts)}" if event.counts else "done")
        if event.error is not None:
            text = Text(_joined(event.error.message))
        text.append(f"  {elapsed(event.seconds)}", style="dim")
        if self._verbosity >= 3:
            text.append(f", {counted(event.exchanges, 'round trip')}", style="dim")
        status = "differs" if self._command == "plan" and event.status == "changed" else event.status
        self._say(event.at, event.host, status, text, level=0 if self._sole else 1)

    def _sign_of_life(self, at: float, host: str, node: str, line: str) -> None:
        began = self._begun.get((host, node))
        if not self._sole or began is None or not at - self._spoke.get(host, at) >= _HEARTBEAT:
            return
        text = Text(visible(node))
        text.append(f" for {elapsed(at - began)}", style="dim")
        done = self._done.get((host, node))
        text.append(f" {done}" if done else "")
        text.append(f"  {line}" if line else "", style="dim")
        self._say(at, host, "still on", text, level=0)


def _joined(text: str) -> str:
    return " ".join(line.strip() for line in visible_lines(text))


def _level(outcome: str) -> int:
    return 1 if outcome in ("same", "not-selected") else 0
