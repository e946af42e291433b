"""An artifact onto a host, whichever way there is: the host fetches it, or the controller sends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gpuprov.digest import digest
from gpuprov.errors import StepFailed
from gpuprov.jobs import JobResult
from gpuprov.model import Id, Job, Obtain
from gpuprov.secret import Secret
from gpuprov.store.cache import Cache
from gpuprov.store.download import Limits, download_job, slot_of
from gpuprov.store.endings import Ended, explain_result
from gpuprov.store.upload import upload
from gpuprov.transport.frame import Connection

RunJob = Callable[[Id, Job, str, Callable[[str], None]], Awaitable[JobResult]]
"""Runs a job in a slot, given its digest, and hands over its output line by line."""

_SAY_EVERY = 2.0  # seconds between lines about an upload


async def obtain(
    step: Obtain,
    *,
    run_job: RunJob,
    connection: Connection,
    emit_line: Callable[[str], None],
    cache: Cache,
    limits: Limits | None = None,
) -> None:
    """Bring the file of a step to its path on the host, verified.

    The host looks what is there, then asks the mirrors. When they do not give it and the controller's cache has it, it
    is sent from there.

    Args:
        run_job: runs the jobs, all in the slot of the path (`slot_of`).
        emit_line: called with lines for people.

    Raises:
        ValueError: see `gpuprov.store.download.check`.
        StepFailed: it cannot be had, in words, with the last lines of output and what to do.
        LineLost, Unreachable
    """

    async def run(job: Job, on_line: Callable[[str], None]) -> JobResult:
        def hear(line: str) -> None:
            on_line(line)
            # What an upload asks of the host is not for people.
            if not line.startswith("part "):
                emit_line(line)

        return await run_job(slot_of(step), job, _digest(job), hear)

    result = await run(download_job(step, limits=limits), lambda line: None)
    if result.how == "ended" and result.status == Ended.OK:
        return
    message, hint = explain_result(result, step, cache.folder)
    if result.how == "ended" and result.status in set(Ended) and Ended(result.status).may_upload:
        source = await asyncio.to_thread(cache.find, step, say=emit_line)
        if source is not None:
            emit_line(f"{message}; the controller has it, and sends it")
            await upload(connection, step, source, _Progress(step, emit_line), run=run)
            return
    # Where nothing moved, line after line of progress is the same
    output = "\n".join(dict.fromkeys(result.tail.splitlines()))
    raise StepFailed(f"{step.title}: {message}", status=result.status, where=connection.host, output=output, hint=hint)


def _digest(job: Job) -> str:
    """What makes two runs the same work. The value of a secret is in no digest."""
    env = {name: None if isinstance(value, Secret) else value for name, value in job.env.items()}
    return digest({"script": job.script, "env": env})


class _Progress:
    """Lines like those of a download, at most one in two seconds."""

    def __init__(self, step: Obtain, emit_line: Callable[[str], None]) -> None:
        self._name = step.path.rpartition("/")[2]
        self._emit = emit_line
        self._since: float | None = None
        self._done = 0

    def __call__(self, done: int, total: int) -> None:
        now = asyncio.get_running_loop().time()
        if self._since is None:
            self._since, self._done = now, done
            return
        passed = now - self._since
        if passed < _SAY_EVERY and done < total:
            return
        rate = max(0, done - self._done) / max(passed, 0.001) / 1e6
        self._emit(f"uploading {self._name} {done}/{total} bytes ({rate:.1f} MB/s) from the controller")
        self._since, self._done = now, done
