"""What the live table shows: the rows of one frame, fitted to the screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from gpuprov.report.amounts import counted, elapsed, progress
from gpuprov.report.board import Board, HostView, NodeView
from gpuprov.report.lines import STYLES
from gpuprov.report.recap import totals
from gpuprov.report.visible import last_state, visible

_PHASES = {
    "waiting": "waiting",
    "connect": "connecting",
    "lock": "locking",
    "facts": "facts",
    "probe": "probing",
    "plan": "planned",
    "converge": "changing",
    "verify": "verifying",
    "done": "done",
}
_STATUS = max(map(len, [*_PHASES.values(), "interrupted", "unreachable"]))
_WELL = ("ok", "changed", "differs")
_TIME = 7
_GAP = "  "


def frame(board: Board, now: float, width: int, height: int) -> Iterator[Text]:
    """Yield the lines of one frame: never none, none wider than ``width`` cells, fewer than ``height``.

    When not all hosts fit, failed ones come first, then those at work, then the rest in a summary.
    """
    views = list(board.hosts.values())
    # One line stays free, so that the cursor never scrolls the screen; one holds the totals.
    room = max(0, height - 2)
    shown, hidden = _choose(views, room)
    names = min(max((cell_len(visible(view.name)) for view in shown), default=0), max(6, width // 4))
    what = max((cell_len(_what(view)) for view in shown), default=0)
    for view in shown:
        yield _fit(_row(view, now, names, what, width), width)
    if hidden and room:
        yield _fit(_more(hidden), width)
    yield _fit(_totals(board, views, now), width)


def _choose(views: Sequence[HostView], room: int) -> tuple[list[HostView], list[HostView]]:
    if len(views) <= room:
        return list(views), []
    ranked = sorted(views, key=_rank)
    fit = max(0, room - 1)
    return ranked[:fit], ranked[fit:]


def _rank(view: HostView) -> int:
    if view.trouble:
        return 0
    if view.status == "running":
        return 1
    return 2 if view.status == "waiting" else 3


def _status(view: HostView) -> tuple[str, str]:
    if view.over:
        return view.status, STYLES.get(view.status, "")
    if view.failures:
        return "failed", STYLES["failed"]
    word = _PHASES.get(view.phase, visible(view.phase, limit=_STATUS))
    return word, "dim" if view.status == "waiting" else "cyan"


def _node(view: HostView) -> NodeView | None:
    return next(reversed(view.running.values()), None)


def _what(view: HostView, *, role: bool = True) -> str:
    node = _node(view)
    if node is None:
        return ""
    others = len(view.running) - 1
    prefix = f"{visible(node.role, limit=60)} › " if role and node.role else ""
    return f"{prefix}{visible(node.id, limit=120)}" + (f" +{others}" if others else "")


def _since(view: HostView, now: float) -> float:
    if view.over:
        return view.seconds
    node = _node(view)
    start = node.began if node is not None else view.phase_began
    return now - start if start is not None else 0.0


def _row(view: HostView, now: float, names: int, what: int, width: int) -> Text:
    status, style = _status(view)
    row = Text(set_cell_size(visible(view.name), names) + _GAP, style="bold")
    row.append(f"{status:<{_STATUS}}", style=style)
    started = view.over or view.phase_began is not None
    row.append(f" {elapsed(_since(view, now)) if started else '':>{_TIME}}", style="dim")
    row.append(_GAP, style="none")
    left = width - row.cell_len
    if left < 8:
        return row
    node = _node(view)
    if node is None or view.over:
        return row.append_text(_said(view))
    column = min(what, max(12, left * 3 // 5))
    text = _what(view)
    if cell_len(text) > column:
        text = _what(view, role=False)
    row.append(_clipped(text, column) + " " * max(0, column - cell_len(text)), style="none")
    if node.done or node.total:
        row.append(_GAP + progress(node.done, node.total, node.unit), style="green")
    line = last_state(view.line) or visible(node.title)
    row.append(_GAP + line, style="dim")
    return row


def _said(view: HostView) -> Text:
    """What a host without a node at work has to say: its failure, its counts, or what it waits for."""
    if view.failures:
        failure = view.failures[-1]
        name = f"{visible(failure.id)}: " if failure.id else ""
        return Text(name + visible(failure.error.message), style="red")
    if view.over:
        return Text(totals([view]), style="none")
    return Text(visible(view.note), style="dim")


def _more(hidden: Sequence[HostView]) -> Text:
    kinds: Counter[str] = Counter()
    for view in hidden:
        status = "failed" if view.failures and not view.over else view.status
        kinds["done" if status in _WELL else status] += 1
    order = ("failed", "unreachable", "interrupted", "running", "waiting", "done")
    parts = [f"{kinds[kind]} {kind}" for kind in order if kinds[kind]]
    bad = kinds["failed"] + kinds["unreachable"]
    if len(parts) == 1:
        return Text(f"… and {parts[0].replace(' ', ' more ', 1)}", style="bold red" if bad else "dim")
    return Text(f"… and {len(hidden)} more: {', '.join(parts)}", style="bold red" if bad else "dim")


def _totals(board: Board, views: Sequence[HostView], now: float) -> Text:
    if not views:
        return Text("starting", style="dim")
    kinds = Counter("failed" if view.failures and not view.over else view.status for view in views)
    text = Text(f"{counted(len(views), 'host')}", style="bold")
    parts = [
        (kinds["failed"], "failed", "bold red"),
        (kinds["unreachable"], "unreachable", "bold red"),
        (kinds["interrupted"], "interrupted", STYLES["interrupted"]),
        (kinds["running"], "running", "cyan"),
        (kinds["waiting"], "waiting", "dim"),
        (sum(kinds[status] for status in _WELL), "done", "green"),
    ]
    for count, word, style in parts:
        if count:
            text.append("  ", style="none").append(f"{count} {word}", style=style)
    if board.began is not None:
        text.append(f"  {elapsed(now - board.began)}", style="dim")
    return text


def _clipped(text: str, cells: int) -> str:
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, max(1, cells) - 1).rstrip() + "…"


def _fit(row: Text, width: int) -> Text:
    if row.cell_len > width:
        row.truncate(max(1, width), overflow="ellipsis")
    row.no_wrap = True
    row.rstrip()
    return row
