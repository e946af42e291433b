from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterable

import pyte
import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from gpuprov.events import Event, HostEnded, HostPhase, NodeEnded, NodeOutput, NodeStarted, RunStarted
from gpuprov.report.board import Board
from gpuprov.report.rows import frame
from gpuprov.report.table import REDRAWS, LiveTable, Region
from tests.report.story import START, apply_story, refused


def rows(events: Iterable[Event], width: int = 100, height: int = 24, now: float = START + 31) -> list[str]:
    board = Board()
    for event in events:
        board(event)
    return [line.plain for line in frame(board, now, width, height)]


def until(seconds: float) -> list[Event]:
    return [event for event in apply_story() if event.at <= START + seconds]


def fleet(count: int, *, failed: int = 0, running: int = 0, done: int = 0) -> list[Event]:
    """A run on ``count`` hosts: the last ones failed, those before them run, the first are done."""
    hosts = tuple(f"gpu{number:03d}" for number in range(count))
    events: list[Event] = [RunStarted(at=START, run="r", command="apply", hosts=hosts)]
    for host in hosts[:done]:
        events.append(HostEnded(at=START, host=host, status="ok", seconds=1))
    for host in hosts[count - failed - running : count - failed]:
        events.append(HostPhase(at=START, host=host, phase="probe"))
    for host in hosts[count - failed :]:
        events.append(HostEnded(at=START, host=host, status="unreachable", seconds=1, error=refused(host)))
    return events


# --- one frame -------------------------------------------------------------------------------


def test_a_frame_half_way() -> None:
    assert rows(until(31)) == [
        "gpu1  changing        17s  cuda_toolkit › cuda-toolkit:11.7  [37/92]  fetch the runfile",
        "gpu2  failed          30s  cuda-toolkit:11.7: the step 'run the installer' ended with status 255",
        "gpu3  unreachable     30s  no connection to gpu3 (10.0.0.9:22) within 15 s, in phase tcp",
        "3 hosts  1 failed  1 unreachable  1 running  31s",
    ]


def test_the_last_line_of_output_and_bytes_are_shown() -> None:
    assert "[37/92] c++ flash_fwd.o" in rows(until(56), now=START + 56)[0]
    assert "1.1 of 3.4 GiB" in rows(until(20), now=START + 20)[0]


def test_a_host_that_failed_half_way_says_so_before_it_ends() -> None:
    events = [event for event in until(30.2) if not isinstance(event, HostEnded)]
    assert [row for row in rows(events) if row.startswith("gpu2  failed")]
    assert "1 failed" in rows(events)[-1]


def test_several_nodes_at_once_are_counted() -> None:
    events = [NodeStarted(at=START, host="h", role="r", id=name, title="t") for name in ("a", "b", "c")]
    assert "r › c +2" in rows(events)[0]


def test_before_anything_is_known_there_is_a_line() -> None:
    assert rows([]) == ["starting"]


@pytest.mark.parametrize("width", [1, 2, 7, 20, 40, 80, 250])
@pytest.mark.parametrize("height", [1, 2, 3, 5, 24])
@pytest.mark.parametrize("events", [until(31), fleet(40, failed=3, running=9, done=4)], ids=["story", "fleet"])
def test_a_frame_fits_any_screen(width: int, height: int, events: list[Event]) -> None:
    lines = rows(events, width, height)
    assert 1 <= len(lines) <= max(1, height - 1)
    assert all(cell_len(line) <= width for line in lines)


def test_failed_hosts_come_first_when_not_all_fit_then_those_at_work() -> None:
    lines = rows(fleet(40, failed=2, running=5, done=3), height=10)
    assert [line.split()[0] for line in lines[:-2]] == [
        "gpu038", "gpu039", "gpu033", "gpu034", "gpu035", "gpu036", "gpu037",
    ]  # fmt: skip
    assert lines[-2] == "… and 33 more: 30 waiting, 3 done"


def test_one_kind_of_rest_is_said_in_short() -> None:
    assert rows(fleet(40, failed=3), height=6)[-2] == "… and 37 more waiting"


def test_more_failures_than_lines_are_counted() -> None:
    lines = rows(fleet(40, failed=20), height=6)
    assert [line.split()[1] for line in lines[:3]] == ["unreachable"] * 3
    assert lines[-2] == "… and 37 more: 17 unreachable, 20 waiting"


def test_wide_characters_keep_the_columns() -> None:
    events: list[Event] = [RunStarted(at=START, run="r", command="apply", hosts=("漢字", "abcd"))]
    for host in ("漢字", "abcd"):
        events.append(NodeStarted(at=START, host=host, role="r", id="x", title="漢字"))
    lines = rows(events)
    assert len({cell_len(line[: line.index("r › x")]) for line in lines[:2]}) == 1


def test_hostile_text_is_shown_and_does_nothing() -> None:
    evil = "\x1b[2J\x1b]0;x\x07\u202e[red]\r\n"
    events = [NodeStarted(at=START, host=evil, role=evil, id=evil, title=evil)]
    text = "".join(rows([*events, NodeOutput(at=START, host=evil, id=evil, line=evil + "x")], 300))
    assert not set("\x1b\x07\u202e\r\n") & set(text)


# --- frames after each other, on a terminal --------------------------------------------------


class Terminal(io.StringIO):
    """A terminal that keeps every write apart and shows them on a screen."""

    def __init__(self, width: int, height: int) -> None:
        super().__init__()
        self.screen = pyte.HistoryScreen(width, height, history=1000)
        self.screen.set_mode(pyte.modes.LNM)
        self._stream = pyte.Stream(self.screen)
        self.writes: list[tuple[float, list[str]]] = []
        self._lock = threading.Lock()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            self._stream.feed(text)
            self.writes.append((time.monotonic(), [line.rstrip() for line in self.screen.display]))
        return len(text)

    def shows(self) -> list[str]:
        with self._lock:
            return [line.rstrip() for line in self.screen.display]

    def until(self, condition: Callable[[list[str]], bool]) -> list[str]:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if condition(self.shows()):
                return self.shows()
            time.sleep(0.01)
        raise AssertionError(f"it never showed; last: {self.shows()}")


def table_on(width: int, height: int, now: float = START + 31) -> tuple[Terminal, Console, LiveTable]:
    terminal = Terminal(width, height)
    console = Console(
        file=terminal, force_terminal=True, width=width, height=height, markup=False, emoji=False, highlight=False
    )
    return terminal, console, LiveTable(console, clock=lambda: now)


@pytest.mark.parametrize(("width", "height"), [(100, 24), (60, 8), (30, 5)])
def test_no_frame_is_blank_and_a_failed_host_stays_in_sight(width: int, height: int) -> None:
    terminal, _, table = table_on(width, height)
    table.start()
    terminal.until(lambda lines: lines[0] == "starting")
    events = [*fleet(12, failed=1, running=4), *until(0)]
    for event in events:
        table(event)
    terminal.until(lambda lines: any("unreachable" in line and "gpu011" in line for line in lines))
    failed_at = len(terminal.writes)
    for number in range(60):
        table(NodeStarted(at=START, host=f"gpu{number % 12:03d}", role="r", id=f"n{number}", title="t"))
        table.above(Text(f"line {number}"))
        time.sleep(0.01)
    time.sleep(0.25)
    frames = [lines for _, lines in terminal.writes[1:]]
    table.stop()
    assert len(terminal.writes) - failed_at > 3
    assert all(any(lines) for lines in frames)
    # Each write holds one whole frame, so that what stands on the screen between two is what was painted.
    assert all(any("gpu011" in line and "unreachable" in line for line in lines) for lines in frames[failed_at:])


def test_however_many_events_there_are_redraws_are_bounded() -> None:
    terminal, _, table = table_on(80, 24)
    table.start()
    begin = time.monotonic()
    count = 0
    while time.monotonic() < begin + 1.0:
        table(NodeOutput(at=START, host="gpu1", id="x", line=f"line {count}"))
        table.above(Text(f"line {count}"))
        count += 1
        time.sleep(0.0005)
    writes = len([at for at, _ in terminal.writes if begin <= at <= begin + 1.0])
    table.stop()
    assert count > 200
    assert 2 <= writes <= REDRAWS + 3


def test_lines_above_stay_and_the_table_goes() -> None:
    terminal, console, table = table_on(80, 24)
    table.start()
    for event in fleet(3, running=3):
        table(event)
    table.above(Text("gpu1 changed something"))
    terminal.until(lambda lines: "gpu1 changed something" in lines and any("3 running" in line for line in lines))
    table.stop()
    console.print("the end")
    assert [line for line in terminal.shows() if line] == ["gpu1 changed something", "the end"]
    assert not terminal.screen.cursor.hidden


def test_it_can_be_taken_off_and_put_back_and_nothing_said_meanwhile_is_lost() -> None:
    terminal, _, table = table_on(80, 24)
    table.start()
    terminal.until(lambda lines: bool(lines[0]))
    table.stop()
    table.above(Text("said meanwhile"))
    table(HostPhase(at=START, host="gpu1", phase="probe"))
    table.start()
    terminal.until(lambda lines: lines[0] == "said meanwhile" and lines[1].startswith("gpu1"))
    table.stop()
    table.stop()


@pytest.mark.parametrize("narrow", [50, 30])
def test_when_the_terminal_becomes_narrower_the_folded_lines_are_wiped(narrow: int) -> None:
    """Terminals fold what no longer fits; the screen is prepared as such a terminal would leave it."""
    wide = [Text("x" * 80), Text("y" * 45), Text("z" * 10)]
    folded = [line.plain[start : start + narrow] for line in wide for start in range(0, line.cell_len, narrow)]
    terminal, console, _ = table_on(80, 24)
    region = Region(console)
    region.drawn(tuple(wide))
    terminal.screen.resize(24, narrow)
    terminal.write("before\r\n" + "\r\n".join(folded))
    console.width = narrow
    region.settle()
    assert [line for line in terminal.shows() if line] == ["before"]
    # From here the next frame goes up by the three lines it believes in, to where the first one stood.
    assert terminal.screen.cursor.y - (len(wide) - 1) == 1


def test_a_table_on_a_resized_terminal_is_right_again() -> None:
    terminal, console, table = table_on(100, 24)
    table.start()
    for event in fleet(30, failed=2, running=20):
        table(event)
    terminal.until(lambda lines: any("30 hosts" in line for line in lines))
    terminal.screen.resize(10, 50)
    console.size = type(console.size)(50, 10)
    terminal.until(lambda lines: any(line.startswith("… and") for line in lines))
    time.sleep(0.25)
    shown = [line for line in terminal.shows() if line]
    table.stop()
    assert sum("hosts  " in line for line in shown) == 1
    assert shown[-1].startswith("30 hosts")
    assert all(len(line) <= 50 for line in shown)


class Broken(Terminal):
    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


class Stuck(Terminal):
    def __init__(self, width: int, height: int) -> None:
        super().__init__(width, height)
        self.go = threading.Event()

    def write(self, text: str) -> int:
        self.go.wait(20)
        return super().write(text)


def test_a_terminal_that_is_gone_ends_the_table_and_nothing_else() -> None:
    table = LiveTable(Console(file=Broken(80, 24), force_terminal=True, width=80, height=24))
    table.start()
    for event in apply_story():
        table(event)
    deadline = time.monotonic() + 5
    while table.failed is None and time.monotonic() < deadline:
        time.sleep(0.01)
    table.stop()
    assert isinstance(table.failed, OSError)
    table.start()
    table(NodeEnded(host="h", role="r", id="x", outcome="same"))


def test_a_terminal_that_takes_nothing_holds_nobody_up() -> None:
    terminal = Stuck(80, 24)
    table = LiveTable(Console(file=terminal, force_terminal=True, width=80, height=24))
    table.start()
    time.sleep(0.2)
    begin = time.monotonic()
    for _ in range(100):
        for event in apply_story():
            table(event)
    took = time.monotonic() - begin
    terminal.go.set()
    table.stop()
    assert took < 2.0


def test_an_error_while_painting_is_kept_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> list[Text]:
        raise ZeroDivisionError("no")

    monkeypatch.setattr("gpuprov.report.table.frame", broken)
    terminal, _, table = table_on(80, 24)
    table.start()
    table(HostPhase(host="h", phase="probe"))
    deadline = time.monotonic() + 5
    while table.failed is None and time.monotonic() < deadline:
        time.sleep(0.01)
    table.above(Text("said all the same"))
    table.stop()
    assert isinstance(table.failed, ZeroDivisionError)
    assert "said all the same" in terminal.shows()


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    raw: list[str] = []
    terminal = Terminal(80, 24)
    monkeypatch.setattr(terminal, "write", raw.append)
    console = Console(file=terminal, force_terminal=True, width=80, height=24)
    table = LiveTable(console)
    table.start()
    for event in apply_story():
        table(event)
    time.sleep(0.2)
    table.stop()
    text = "".join(str(part) for part in raw)
    assert "gpu1" in text
    assert not [code for code in ("\x1b[31m", "\x1b[1;31m", "\x1b[36m", "\x1b[32m") if code in text]
