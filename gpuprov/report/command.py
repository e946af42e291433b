"""What a command printed on each host: a header, then its output, host by host as they end."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from gpuprov.events import CommandEnded
from gpuprov.report.amounts import elapsed
from gpuprov.report.visible import visible, visible_lines


def command_lines(event: CommandEnded) -> Iterator[Text]:
    """Yield the header and both streams; stderr is marked with ``!`` where it is not alone."""
    good = event.status == 0
    header = Text(visible(event.host), style="bold")
    header.append("  ok" if good else f"  status {event.status}", style="green" if good else "bold red")
    header.append(f"  {elapsed(event.seconds)}", style="dim")
    yield header
    for line in visible_lines(event.stdout):
        yield Text(f"  {line}".rstrip())
    for line in visible_lines(event.stderr):
        yield Text("! ", style="red") + Text(line.rstrip())
