"""Running the work in an event loop, and what the signals that people send do to it.

The first Ctrl-C (or SIGTERM, SIGHUP) cancels the work politely: the engine ends what it began and gives
its locks back. The second ends the process at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from gpuprov.errors import ExitCode

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SAME_KEY = 0.3
"""Seconds in which a second signal is the same key press: wrappers pass it on to a child that got it as well."""


def run(work: Callable[[], Coroutine[Any, Any, int]], *, note: Callable[[str], None]) -> int:
    """Run ``work`` to its end and return its exit code; `ExitCode.INTERRUPTED` when it was interrupted.

    Args:
        work: makes the coroutine.
        note: tells the person what happens, from within the loop.
    """
    return asyncio.run(_supervised(work, note))


async def _supervised(work: Callable[[], Coroutine[Any, Any, int]], note: Callable[[str], None]) -> int:
    loop = asyncio.get_running_loop()
    task = loop.create_task(work())
    stopped: list[float] = []

    def polite(name: str) -> None:
        if not task.done():
            note(f"{name}: ending what runs, in good order; once more ends it at once")
            task.cancel()

    def received(number: int, _: FrameType | None) -> None:
        # Runs between any two instructions of ours: no locks, no loop, no printing through objects here.
        now = time.monotonic()
        if not stopped:
            stopped.append(now)
            name = "interrupted" if number == signal.SIGINT else signal.Signals(number).name
            loop.call_soon_threadsafe(polite, name)
        elif now - stopped[0] >= _SAME_KEY:
            _leave()

    with _handling(loop, received):
        try:
            code = await task
        except asyncio.CancelledError:
            if not stopped:
                raise
            return ExitCode.INTERRUPTED
    return ExitCode.worst((code, ExitCode.INTERRUPTED)) if stopped else code


@contextmanager
def _handling(loop: asyncio.AbstractEventLoop, handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # whoever runs us there handles signals
        return
    reading, writing = socket.socketpair()
    reading.setblocking(False)
    writing.setblocking(False)
    # A signal between two instructions would else be seen only when the loop wakes up by itself.
    former_fd = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    loop.add_reader(reading, _drain, reading)
    former: dict[signal.Signals, Any] = {}
    for number in _SIGNALS:
        # Ignored means that whoever started us wanted it so (nohup, a shell's background job).
        if signal.getsignal(number) is not signal.SIG_IGN:
            former[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, was in former.items():
            signal.signal(number, was if was is not None else signal.SIG_DFL)
        signal.set_wakeup_fd(former_fd)
        loop.remove_reader(reading)
        reading.close()
        writing.close()


def _drain(end: socket.socket) -> None:
    with suppress(BlockingIOError):
        end.recv(4096)


def _leave() -> None:
    """End the process now, with the cursor visible and nothing else waited for."""
    with suppress(OSError):
        if os.isatty(2):
            os.write(2, b"\x1b[?25h\x1b[0m\r\n")
        os.write(2, b"gpuprov: ended at once; what was started on hosts may still run\n")
    os._exit(ExitCode.INTERRUPTED)
