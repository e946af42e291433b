"""The controller sends a file that a host cannot fetch: in pieces over its line, resumed where that broke."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from gpuprov.errors import AuthenticationFailed, HostKeyRefused, LineLost, StepFailed, Unreachable
from gpuprov.jobs import JobResult
from gpuprov.model import Job, Obtain, normal_path
from gpuprov.onhost import script
from gpuprov.store.cache import prefix_sha256
from gpuprov.store.download import job_of, settings
from gpuprov.store.endings import Ended, explain, explain_result
from gpuprov.transport.frame import Connection, Frame, Section

PIECE = 16 * 1024 * 1024
"""Bytes that travel at once, and that are held in memory for one host."""

DIGESTED_IN_FRAME = 64 * 1024 * 1024
"""Bytes: the beginning of a file that is on the host already is digested within a frame up to this size."""

TRIES = 6
"""How often the line may be lost without a piece getting through."""

_FRAME = 55.0
_PIECE_DEADLINE = 600.0
_LOST = (LineLost, Unreachable)
_PART = re.compile(r"part (\d{1,18})(?: ([0-9a-f]{64}|-))?")

RunOnHost = Callable[[Job, Callable[[str], None]], Awaitable[JobResult]]
"""Runs a job in the slot of the file, and hands over its output line by line."""


@dataclass(frozen=True, kw_only=True)
class _Part:
    """What the host has of the file. ``sha256`` is empty when it was not asked for or is too much for a frame."""

    size: int
    sha256: str


async def upload(
    connection: Connection,
    step: Obtain,
    source: Path,
    on_progress: Callable[[int, int], None],
    *,
    run: RunOnHost,
    piece: int = PIECE,
    in_frame: int = DIGESTED_IN_FRAME,
    pause: float = 1.0,
) -> None:
    """Send a file of the controller to the step's path on the host; it appears there by rename, whole and verified.

    Goes on from what is on the host already, when that is the beginning of the file. Whatever was sent stays there when
    this fails or is cancelled, for the next time.

    Args:
        connection: the host's line; it reconnects by itself.
        source: the file; it must not change meanwhile.
        on_progress: called with bytes done and bytes in all, after each piece.
        run: runs the jobs that digest and commit.
        piece: bytes sent at once.
        in_frame: bytes up to which what the host has is digested without a job.
        pause: seconds before the first try after a lost line; doubled each time up to 15.

    Raises:
        ValueError: the step cannot be verified, see `gpuprov.store.download.check`.
        StepFailed: it cannot be read here or written there, or is not the file that was asked for.
        LineLost, Unreachable: the line was lost again and again without a piece getting through.
    """
    settings(step)
    try:
        async with asyncio.timeout(step.deadline):
            await _Upload(connection, step, source, on_progress, run, piece, in_frame, pause).go()
    except TimeoutError:
        raise StepFailed(
            f"{step.title}: sending the file took longer than {step.deadline:.0f} s",
            where=connection.host,
            hint="what was sent is kept: the same command goes on from there",
        ) from None
    except OSError as error:
        if isinstance(error, ConnectionError):
            raise
        raise StepFailed(f"{source} cannot be read: {error.strerror or error}", where=connection.host) from None


class _Upload:
    def __init__(
        self,
        connection: Connection,
        step: Obtain,
        source: Path,
        on_progress: Callable[[int, int], None],
        run: RunOnHost,
        piece: int,
        in_frame: int,
        pause: float,
    ) -> None:
        self._connection, self._step, self._source = connection, step, source
        self._on_progress, self._run = on_progress, run
        self._piece, self._in_frame, self._pause = piece, in_frame, pause
        self._path = normal_path(step.path)
        self._total = 0
        self._lines: list[str] = []

    async def go(self) -> None:
        self._total = (await asyncio.to_thread(self._source.stat)).st_size
        if self._step.size and self._total != self._step.size:
            raise StepFailed(
                f"{self._source} has {self._total} bytes, and {self._step.size} are wanted", where=self._connection.host
            )
        await self._send_from(await self._beginning())
        await self._commit()

    async def _beginning(self) -> int:
        """Return how many bytes the host has that are the file's own; others are removed."""
        part = await self._patiently(lambda: self._look(digest=True))
        if part.size == 0:
            return 0
        theirs = part.sha256 or await self._digested(part.size)
        if theirs == await asyncio.to_thread(prefix_sha256, self._source, part.size):
            return part.size
        await self._patiently(lambda: self._look(anew=True))
        return 0

    async def _send_from(self, at: int) -> None:
        """Send everything from a byte on. What the host says it has counts, whatever was thought to be sent."""
        fruitless, furthest, pause = 0, at, self._pause
        self._on_progress(at, self._total)
        while at < self._total:
            broken: LineLost | Unreachable | None = None
            try:
                at = (await self._one_piece(at)).size
            except (HostKeyRefused, AuthenticationFailed):
                raise
            except _LOST as error:
                broken = error
            if broken is not None and fruitless + 1 < TRIES:
                await asyncio.sleep(pause)
                pause = min(pause * 2, 15.0)
                at = (await self._patiently(self._look)).size
            if at > furthest:
                furthest, fruitless, pause = at, 0, self._pause
                self._on_progress(at, self._total)
                continue
            fruitless += 1
            if fruitless >= TRIES:
                raise broken or StepFailed(
                    f"pieces of {self._path} do not arrive whole on the host", where=self._connection.host
                )

    async def _one_piece(self, at: int) -> _Part:
        content = await asyncio.to_thread(self._read, at)
        if not content:
            raise StepFailed(f"{self._source} became shorter while it was sent", where=self._connection.host)
        try:
            async with asyncio.timeout(_PIECE_DEADLINE + 60):
                await self._connection.put(f"{self._path}.part.piece", content, deadline=_PIECE_DEADLINE)
        except TimeoutError:
            raise LineLost("a piece of the file did not get through", begun=True, where=self._connection.host) from None
        return await self._ask("download_append", at=at, length=len(content))

    def _read(self, at: int) -> bytes:
        with self._source.open("rb") as stream:
            stream.seek(at)
            return stream.read(self._piece)

    async def _look(self, *, digest: bool = False, anew: bool = False) -> _Part:
        return await self._ask("download_look", frame=self._in_frame if digest else -1, anew=int(anew))

    async def _ask(self, name: str, **more: int) -> _Part:
        text = "\n".join((self._settings(**more), script("download_common"), script(name)))
        frame = Frame(sections=(Section(name="part", script=text),), deadline=_FRAME)
        answer = await self._connection.frame(frame)
        result = answer.sections.get("part")
        before = answer.sections.get("before")
        if result is None and before is not None and before.status != 0:
            raise StepFailed(
                f"{self._step.title}: the host takes no orders from here any more",
                status=before.status,
                where=self._connection.host,
                output=before.stdout.decode(errors="replace")[-2000:],
            )
        said = result.stdout.decode(errors="replace").strip() if result else ""
        self._lines = said.splitlines()[-20:]
        found = _PART.fullmatch(self._lines[-1]) if self._lines else None
        if result is None or result.status != 0 or found is None:
            if result is not None:
                self._lines += result.stderr.decode(errors="replace")[-2000:].splitlines()[-20:]
            raise self._failed(result.status if result else None)
        return _Part(size=int(found[1]), sha256=(found[2] or "").strip("-"))

    def _settings(self, **more: int) -> str:
        # The size is known here in any case, and the host needs it to see whether there is room.
        return f"{settings(self._step, **more)}\ngp_size={self._total}"

    async def _patiently(self, ask: Callable[[], Awaitable[_Part]]) -> _Part:
        """Ask what may be asked twice, until the line is back."""
        pause = self._pause
        for attempt in range(1, TRIES + 1):
            try:
                return await ask()
            except (HostKeyRefused, AuthenticationFailed):
                raise
            except _LOST:
                if attempt == TRIES:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, 15.0)
        raise AssertionError

    async def _digested(self, size: int) -> str:
        """Return the sha256 of the beginning that the host has, by a job: it may be gigabytes."""
        text = "\n".join((self._settings(), script("download_common"), script("download_digest")))
        last = ""

        def hear(line: str) -> None:
            nonlocal last
            last = line if line.startswith("part ") else last

        await self._job(text, hear)
        found = _PART.fullmatch(last)
        return found[2] or "" if found and int(found[1]) == size else ""

    async def _commit(self) -> None:
        text = "\n".join((self._settings(), script("download_common"), script("download_commit")))
        await self._job(text, lambda line: None)

    async def _job(self, text: str, on_line: Callable[[str], None]) -> None:
        result = await self._run(job_of(self._step, text), on_line)
        if result.how == "ended" and result.status == Ended.OK:
            return
        self._lines = result.tail.splitlines()
        if result.how == "ended":
            raise self._failed(result.status)
        raise self._failed(result.status, *explain_result(result, self._step))

    def _failed(self, status: int | None, message: str = "", hint: str = "") -> StepFailed:
        if not message:
            message, hint = _WORDS.get(-1 if status is None else status) or explain(status, self._step)
        return StepFailed(
            f"{self._step.title}: {message}",
            status=status,
            where=self._connection.host,
            output="\n".join(self._lines),
            hint=hint,
        )


# Where the words for a download would name a mirror.
_WORDS: dict[int, tuple[str, str]] = {
    Ended.WRONG_DIGEST: ("what the controller sent is not the file that is wanted", "it was deleted on the host"),
    Ended.TRUNCATED: ("what the controller sent did not arrive whole", "the same command goes on from there"),
}
