"""Running people's code beside the event loop, for a bounded time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from gpuprov.errors import HostFailed

T = TypeVar("T")


async def bounded(work: Callable[[], T], *, seconds: float, what: str, where: str) -> T:
    """Run ``work`` in a thread of its own and return what it returns, or raise what it raises.

    The thread is a daemon: one that never ends is left behind, and does not keep the process from ending.

    Raises:
        HostFailed: it did not end in time, or raised what is no `Exception`.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)  # type: ignore[arg-type]  # T may be None itself

    def run() -> None:
        try:
            value = work()
        except Exception as error:
            loop.call_soon_threadsafe(settle, None, error)
        except BaseException as error:
            # Anybody may derive from BaseException. Raised here it would end the loop, and with it other hosts' work.
            failed = HostFailed(f"{what} failed: {type(error).__name__}: {error}", where=where)
            loop.call_soon_threadsafe(settle, None, failed)
        else:
            loop.call_soon_threadsafe(settle, value, None)

    threading.Thread(target=run, daemon=True).start()
    try:
        return await asyncio.wait_for(future, seconds)
    except TimeoutError:
        raise HostFailed(
            f"{what} did not end within {seconds:.0f} s",
            where=where,
            hint="a role declares resources from facts; it must not wait for anything",
        ) from None
