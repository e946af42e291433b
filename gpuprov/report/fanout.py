"""One stream, many readers: what one reader does wrong ends neither the run nor another reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuprov.events import Event, Sink


class Fanout:
    """Hands every event to every reader. A reader that raises is dropped, once and with a word about it.

    Args:
        readers: called in this order.
        lost: called with the reader and what it raised; must not raise.
    """

    def __init__(self, readers: Iterable[Sink], *, lost: Callable[[Sink, Exception], None] | None = None) -> None:
        self._readers = list(readers)
        self._lost = lost

    def __call__(self, event: Event) -> None:
        """Pass the event on. Never raises."""
        for reader in tuple(self._readers):
            try:
                reader(event)
            except Exception as error:
                self._readers.remove(reader)
                if self._lost is not None:
                    self._lost(reader, error)
