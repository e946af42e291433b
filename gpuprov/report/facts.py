"""Facts as a table of label and value, host by host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from gpuprov.events import Event, FactsRead
from gpuprov.report.amounts import counted
from gpuprov.report.layout import hanging, padded
from gpuprov.report.visible import visible

LONG = 40
"""Lines of a group that is still shown without being asked for."""

_DEPTH = 6
"""Nesting below this is shown as one value: nobody reads deeper, and nothing we gather is."""


class FactsReader:
    """Writes each host's facts when they arrive."""

    def __init__(self) -> None:
        self._read: dict[str, FactsRead] = {}

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if isinstance(event, FactsRead):
            self._read[event.host] = event

    def render(self, width: int | None, *, order: Sequence[str] = (), everything: bool = False) -> Iterator[Text]:
        """Yield the lines for all hosts that told their facts.

        Args:
            width: cells of a line; None: no wrapping.
            order: hosts that come first.
            everything: all facts; else what the host is at a glance, where the event says so.
        """
        for host in dict.fromkeys([*(name for name in order if name in self._read), *self._read]):
            yield Text(visible(host), style="bold")
            event = self._read[host]
            if event.summary and not everything:
                yield from _pairs(event.summary, width)
            else:
                yield from fact_lines(event.facts, width, longest=None if everything else LONG)
            yield Text("")


def fact_lines(facts: Mapping[str, Any], width: int | None, *, longest: int | None = None) -> Iterator[Text]:
    """Yield one line a fact: plain ones first, then each group under its name.

    A group of more than ``longest`` lines is only counted.
    """
    plain = {key: value for key, value in facts.items() if not _nested(value)}
    yield from _pairs([(str(key), one_line(value)) for key, value in plain.items()], width)
    for key, value in facts.items():
        if key not in plain:
            pairs = list(_flat(value, "", 0))
            title = Text(f"  {visible(str(key))}", style="bold cyan")
            if longest is not None and len(pairs) > longest:
                yield title.append(f"  {counted(len(pairs), 'fact')}, shown with -v", style="dim")
            else:
                yield title
                yield from _pairs(pairs, width, indent=4)


def _nested(value: object) -> bool:
    if isinstance(value, Mapping):
        return bool(value)
    return isinstance(value, list | tuple) and any(isinstance(item, Mapping | list | tuple) for item in value)


def _flat(value: object, prefix: str, depth: int) -> Iterator[tuple[str, str]]:
    if not _nested(value) or depth >= _DEPTH:
        yield prefix or "value", one_line(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{prefix}.{key}" if prefix else str(key), depth + 1)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            label = f"{prefix}[{number}]"
            if isinstance(item, Mapping) and not any(map(_nested, item.values())):
                # One line for each of many like things: a GPU, a disk, a toolkit.
                yield label, "  ".join(f"{key}={one_line(part)}" for key, part in item.items() if part is not None)
            else:
                yield from _flat(item, label, depth + 1)


def one_line(value: object) -> str:
    """Return a fact's value in words: ``yes``, ``none``, lists with commas."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(one_line, value)) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={one_line(item)}" for key, item in value.items()) or "none"
    return str(value) or "-"


def _pairs(pairs: Sequence[tuple[str, str]], width: int | None, *, indent: int = 2) -> Iterator[Text]:
    labels = [visible(label, limit=200) for label, _ in pairs]
    column = max(map(cell_len, labels), default=0)
    if width is not None:
        column = min(column, width // 3)
    for label, (_, value) in zip(labels, pairs, strict=True):
        text = Text(" " * indent + padded(label, column) + "  ", style="dim")
        yield from hanging(text, Text(visible(value)), width, indent=indent + column + 2)
