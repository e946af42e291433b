"""How a plan reads: one line a change, grouped by role; hosts whose plans are alike are shown once."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.text import Text

from gpuprov.events import Event, HostEnded, PlanLine, PlanReady, RunStarted
from gpuprov.report.amounts import VERDICTS, counted, tally
from gpuprov.report.layout import hanging, padded, wrapped
from gpuprov.report.visible import visible, visible_lines

SIGNS = {"create": ("+", "green"), "update": ("~", "yellow"), "replace": ("!", "magenta"), "remove": ("-", "red")}
_RECHECK = ("?", "cyan")
_BLOCKED = ("x", "bold red")
_SAME = ("=", "dim")
_NOT_SELECTED = (".", "dim")
_MEANING = {
    "+": "create",
    "~": "update",
    "!": "replace",
    "-": "remove",
    "?": "checked again",
    "x": "blocked",
    "=": "as wanted",
    ".": "not selected",
}
DIFFERENT = frozenset({"change", "recheck"})
"""The verdicts that make a host's plan differ from what it has."""

_ID_SHARE = 0.42
"""The most of a line that identities may take."""


@dataclass(kw_only=True)
class HostPlan:
    """All that one host's plan says, in the order in which it would be done."""

    host: str
    lines: list[PlanLine] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    undeclared: tuple[str, ...] = ()
    ready: bool = False

    @property
    def counts(self) -> Counter[str]:
        """How many nodes have each verdict."""
        return Counter(line.verdict for line in self.lines)

    @property
    def differs(self) -> bool:
        """Whether applying it would change, or might change, something."""
        return any(line.verdict in DIFFERENT for line in self.lines)

    @property
    def reports(self) -> bool:
        """Whether there is a check whose finding is to be shown."""
        return any(line.reports and line.verdict == "same" for line in self.lines)

    def content(self) -> tuple[object, ...]:
        """What makes two hosts' plans alike: everything but the host and the time."""
        lines = tuple(dataclasses.replace(line, host="", at=0.0) for line in self.lines)
        return (lines, tuple(self.notes.items()), self.undeclared)


class PlanReader:
    """Collects plans from the stream and lays them out."""

    def __init__(self) -> None:
        self.plans: dict[str, HostPlan] = {}
        self._closed: set[tuple[str, str]] = set()
        self._ended: dict[str, str] = {}

    def __call__(self, event: Event) -> None:
        """Take one event. A play that is planned again replaces what was said of it."""
        match event:
            case RunStarted():
                for host in event.hosts:
                    self._plan(host)
            case PlanLine():
                plan = self._plan(event.host)
                if (event.host, event.play) in self._closed:
                    self._closed.discard((event.host, event.play))
                    plan.lines = [line for line in plan.lines if line.play != event.play]
                plan.lines.append(event)
            case PlanReady():
                plan = self._plan(event.host)
                plan.ready = True
                plan.undeclared = tuple(dict.fromkeys((*plan.undeclared, *event.undeclared)))
                if event.note:
                    plan.notes[event.play] = event.note
                self._closed.add((event.host, event.play))
            case HostEnded():
                self._ended[event.host] = event.status

    def _plan(self, host: str) -> HostPlan:
        return self.plans.setdefault(host, HostPlan(host=host))

    def differing(self, hosts: Collection[str] | None = None) -> list[str]:
        """Return the hosts (among these) whose plan differs from what they have."""
        return [name for name, plan in self.plans.items() if plan.differs and (hosts is None or name in hosts)]

    def render(
        self, width: int | None, *, hosts: Collection[str] | None = None, everything: bool = False, diff: bool = False
    ) -> Iterator[Text]:
        """Yield the lines of a readable plan.

        Args:
            width: cells of a line; None: no wrapping.
            hosts: only these; None: all.
            everything: also what is as wanted or not selected.
            diff: also the unified diffs.
        """
        plans = [plan for name, plan in self.plans.items() if plan.ready and (hosts is None or name in hosts)]
        groups: dict[object, list[HostPlan]] = {}
        for plan in plans:
            shown = (
                plan.differs or plan.counts["blocked"] or plan.undeclared or plan.reports or (everything and plan.lines)
            )
            groups.setdefault(plan.content() if shown else ("quiet",), []).append(plan)
        # Nothing to do is said last and once, however the hosts differ otherwise.
        quiet = groups.pop(("quiet",), [])
        used: dict[str, None] = {}
        for group in groups.values():
            page = _Page(width=width, everything=everything, diff=diff, counts=len(plans) > 1, used=used)
            yield from page.host_lines(group)
            yield Text("")
        if quiet:
            yield from _quiet_lines(quiet, width)
            yield Text("")
        if plans:
            yield from _total_lines(plans, used, width)


def _names(plans: Sequence[HostPlan]) -> Text:
    return Text(", ", style="none").join(Text(visible(plan.host), style="bold") for plan in plans)


def _quiet_lines(plans: Sequence[HostPlan], width: int | None) -> Iterator[Text]:
    said = {_notes(plan) for plan in plans}
    yield from wrapped(_names(plans) + Text("  nothing to change", style="green"), width)
    for note in sorted(filter(None, said)):
        yield from hanging(Text("  "), Text(note, style="yellow"), width)


def _notes(plan: HostPlan) -> str:
    return "; ".join(
        f"{visible(play)}: {visible(note)}" if play else visible(note) for play, note in plan.notes.items()
    )


def _total_lines(plans: Sequence[HostPlan], used: Collection[str], width: int | None) -> Iterator[Text]:
    total: Counter[str] = Counter()
    for plan in plans:
        total.update(plan.counts)
    differing = sum(plan.differs for plan in plans)
    text = Text("Plan: ", style="bold")
    if len(plans) > 1:
        text.append(f"{differing} of {counted(len(plans), 'host')} {'differs' if differing == 1 else 'differ'}; ")
    text.append(tally(total, also="change") + ".")
    yield from hanging(Text(""), text, width, indent=0)
    if used:
        legend = ", ".join(f"{sign} {_MEANING[sign]}" for sign in _MEANING if sign in used)
        yield from hanging(Text(""), Text(f"({legend})", style="dim"), width, indent=1)


@dataclass(kw_only=True)
class _Page:
    """One group of like plans, laid out."""

    width: int | None
    everything: bool
    diff: bool
    counts: bool
    used: dict[str, None]

    def host_lines(self, group: Sequence[HostPlan]) -> Iterator[Text]:
        plan = group[0]
        yield from wrapped(_names(group), self.width)
        lines = [
            line
            for line in plan.lines
            if self.everything
            or line.verdict not in ("same", "not-selected")
            or (line.reports and line.verdict == "same")
        ]
        column = self._column(lines)
        plays = list(dict.fromkeys([*(line.play for line in plan.lines), *plan.notes]))
        for play in plays:
            note = visible(plan.notes.get(play, ""))
            of_play = [line for line in lines if line.play == play]
            if len(plays) > 1 and (of_play or note):
                yield from hanging(Text(""), Text(f"  play {visible(play)}", style="underline"), self.width)
            if note:
                yield from hanging(Text("  "), Text(note, style="yellow"), self.width)
            for role in dict.fromkeys(line.role for line in of_play):
                yield from self._heading(visible(role))
                for line in of_play:
                    if line.role == role:
                        yield from self._node(line, column)
        if plan.undeclared:
            yield from self._heading("made by gpuprov, declared no more")
            for name in plan.undeclared:
                yield from hanging(Text("      "), Text(f"{visible(name)}  left as it is", style="dim"), self.width)
        if self.counts:
            yield from hanging(Text("  "), Text(tally(plan.counts, also="change"), style="bold"), self.width)

    def _heading(self, text: str) -> Iterator[Text]:
        yield from hanging(Text("  "), Text(text, style="bold cyan"), self.width)

    def _column(self, lines: Sequence[PlanLine]) -> int:
        longest = max((cell_len(visible(line.id)) for line in lines), default=0)
        return longest if self.width is None else min(longest, int(self.width * _ID_SHARE))

    def _node(self, line: PlanLine, column: int) -> Iterator[Text]:
        sign, style = _sign(line)
        self.used.setdefault(sign)
        label = Text("    ") + Text(sign, style=style) + Text(" ")
        name = visible(line.id)
        dim = "dim" if line.verdict in ("same", "not-selected") else ""
        label.append(padded(name, column) + "  ", style=dim)
        body = _body(line, style)
        if cell_len(name) > column and body.cell_len:
            yield from hanging(Text("    ") + Text(sign, style=style) + Text(" "), Text(name, style=dim), self.width)
            label = Text(" " * (6 + column + 2))
        yield from hanging(label, body, self.width)
        if self.diff and line.diff:
            yield from self._diff(line.diff)

    def _diff(self, diff: str) -> Iterator[Text]:
        for row in diff_lines(diff):
            yield from hanging(Text("        "), row, self.width, indent=10)


def _sign(line: PlanLine) -> tuple[str, str]:
    match line.verdict:
        case "recheck":
            return _RECHECK
        case "blocked":
            return _BLOCKED
        case "same":
            return _SAME
        case "not-selected":
            return _NOT_SELECTED
        case _:
            return SIGNS.get(line.action, ("~", "yellow"))


def _body(line: PlanLine, style: str) -> Text:
    if line.verdict == "blocked":
        return Text("blocked: ", style="red") + Text(visible(line.why) or "it cannot be judged")
    before, after, why = visible(line.before), visible(line.after), visible(line.why)
    body = Text("")
    if line.verdict in DIFFERENT or (line.verdict == "not-selected" and line.action):
        body = transition(line.action, before, after, style)
        if line.verdict == "recheck":
            needs = ", ".join(visible(name) for name in line.rechecked_after) or "what it needs"
            body.append("; " if body.plain else "")
            body.append(f"checked again after {needs}", style="cyan")
    elif line.verdict == "same":
        body = Text(after or before, style="dim")
    if line.verdict == "not-selected":
        body.append("; not selected" if body.plain else VERDICTS["not-selected"], style="dim")
    if why:
        body.append(" (" if body.plain else "(", style="dim").append(f"{why})", style="dim")
    return body


def transition(action: str, before: str, after: str, style: str = "") -> Text:
    """Return ``before → after``; what is made from nothing shows only what it becomes."""
    if action == "remove":
        return Text(f"{before} → " if before else "", style="dim") + Text(after or "absent", style=style)
    if before in ("", "absent") or not after:
        return Text(after or before, style=style)
    return Text(f"{before} → ", style="dim") + Text(after, style=style)


def diff_lines(diff: str) -> Iterator[Text]:
    """Yield the lines of a unified diff, coloured as everybody's."""
    for line in visible_lines(diff):
        if line.startswith(("+++", "---")):
            style = "bold"
        elif line.startswith("@@"):
            style = "cyan"
        elif line.startswith("+"):
            style = "green"
        elif line.startswith("-"):
            style = "red"
        else:
            style = "dim"
        yield Text(line, style=style)
