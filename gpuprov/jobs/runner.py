"""Long steps that live on the host by themselves.

A job is started by one frame, detached, and outlives the controller and the line. Its folder says at any time what
became of it; see ``onhost/job_state.sh`` for the files and `Jobs.run` for what is done about each state.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from gpuprov.causes import full_disk
from gpuprov.errors import AuthenticationFailed, HostKeyRefused, LineLost, Locked, StepFailed, Unreachable
from gpuprov.jobs.follow import Follower
from gpuprov.jobs.lock import Owner, parse
from gpuprov.jobs.records import JobInfo, read_look
from gpuprov.jobs.slot import Slot, as_word, from_word
from gpuprov.model import Id, Job
from gpuprov.onhost import script
from gpuprov.quote import quote
from gpuprov.redaction import Redactor
from gpuprov.secret import Secret
from gpuprov.transport.frame import Connection, Frame, Section, SectionResult

TAIL = 20
"""Lines of output that a result carries."""

LONGEST_SCRIPT = 200 * 1024
"""Bytes a job's script may have: it travels within a frame."""

MOST_LOCKS = 5
"""Named locks one job may hold: each takes one of the descriptors that POSIX sh can name."""

_GRACE = 5.0  # seconds between TERM and KILL
_LOCK_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = ("gp_", "GPUPROV_")


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """How an attempt ended.

    Attributes:
        status: exit status of the script; None when it has none.
        attempt: its number; they never restart in one slot.
        how: ``ended`` by itself; ``died``: it and its runner were killed, or the host went down; ``cancelled`` by
            somebody; past its ``deadline``; ``silent`` for longer than it may; ``conflict``: another version of the
            job held the slot for as long as this one could have taken.
        tail: its last 20 lines, redacted.
        followed: it was running already when it was asked for.
    """

    status: int | None
    attempt: int
    how: Literal["ended", "died", "cancelled", "deadline", "silent", "conflict"]
    tail: str
    followed: bool


class Jobs:
    """The jobs of one host, over one connection.

    Args:
        connection: the host's line. It reconnects by itself on the next call.
        state: the state folder; empty or with a leading ``~/``: decided on the host.
        owner: who starts jobs, for those who look later.
        patience: seconds without any contact after which a call gives up. The job goes on.
    """

    def __init__(self, connection: Connection, state: str, *, owner: Owner, patience: float = 300.0) -> None:
        self._connection = connection
        self._state = state
        self._owner = owner
        self._patience = patience
        self._redact = Redactor()
        self._follower: Follower | None = None

    async def run(self, slot: Id, job: Job, *, digest: str, on_line: Callable[[str], None]) -> JobResult:
        """Have the job done. Called when its probe says that it is due: an earlier success counts for nothing.

        Running with the same digest: followed from its first byte. Running with another: waits for its end, at most
        ``job.deadline``. Orphaned: what is left of it is ended, then a new attempt. Ended, died or never there: a new
        attempt. If this call is cancelled the job goes on.

        Args:
            slot: the resource.
            job: what to do; ``deadline`` and ``silence`` are measured on the host, from the script's first moment.
                Waiting for ``locks`` before that may take as long as the deadline once more.
            digest: of everything that decides what the job does; the same digest is the same job.
            on_line: called with each line of output, decoded and redacted, as it comes.

        Raises:
            ValueError: the job cannot be sent as it is: a NUL, an odd name, too many locks, too long.
            StepFailed: ``flock`` or ``setsid`` is missing, or the state folder cannot be written or its files locked.
            Locked: what is left of an earlier attempt cannot be ended, or somebody else has the host's lock by now.
            LineLost, Unreachable: no contact for longer than the patience. The job may be running.
        """
        _check(job)
        place, redact = Slot(slot), Redactor.of_env(job.env)
        self._redact.learn(value for value in job.env.values() if isinstance(value, Secret))
        tail: deque[str] = deque(maxlen=TAIL)

        def emit(line: str) -> None:
            clean = redact(line)
            tail.append(clean)
            on_line(clean)

        follower = await self._ready()
        clock = asyncio.get_running_loop().time
        text = self._start_text(place, job, digest)
        waiting_since: float | None = None
        cleared = 0
        pause = 1.0
        while True:
            told = follower.name
            result = await self._ask(f"gp_follow={told}\n{text}", env=job.env, what=f"starting {slot}")
            word, _, rest = result.stdout.decode(errors="replace").strip().partition(" ")
            number, _, other = rest.partition(" ")
            attempt = int(number) if number.isascii() and number.isdigit() else 0
            if word in ("started", "ours", "running"):
                fate = await follower.follow(place, attempt, emit, told=told)
                if fate.how == "orphaned":
                    await self._clear(place, attempt)
                return JobResult(
                    status=fate.status,
                    attempt=attempt,
                    how="died" if fate.how == "orphaned" else fate.how,
                    tail="\n".join(tail),
                    followed=word == "running",
                )
            if word == "orphaned" and cleared < 3:
                cleared += 1
                emit(f"gpuprov: attempt {attempt} lost its runner; what is left of it is ended first")
                await self._clear(place, attempt)
            elif word in ("conflict", "busy", "orphaned"):
                if waiting_since is None:
                    waiting_since = clock()
                    who = f", started by {from_word(other)}" if other else ""
                    emit(f"gpuprov: waiting for attempt {attempt} of another version of this job{who}")
                elif clock() - waiting_since > job.deadline:
                    return JobResult(status=None, attempt=attempt, how="conflict", tail="\n".join(tail), followed=False)
                await asyncio.sleep(min(pause, job.deadline))
                pause = min(pause * 1.5, 5.0)
            else:
                raise self._refusal(word, rest, result)

    async def look(self) -> list[JobInfo]:
        """Tell what jobs the host has, running or not, by slot.

        Raises:
            StepFailed, LineLost, Unreachable
        """
        await self._ready()
        result = await self._ask(f"gp_only=\n{script('job_look')}", what="looking at jobs")
        found = read_look(result.stdout.decode(errors="replace"))
        return sorted((replace(job, last=self._redact(job.last)) for job in found), key=lambda job: job.slot)

    async def cancel(self, slot: Id) -> bool:
        """End the job in a slot: TERM, after five seconds KILL. True when there was one to end.

        Raises:
            Locked: something outlived KILL; says what, and what it waits for.
            StepFailed, LineLost, Unreachable
        """
        await self._ready()
        place = Slot(slot)
        state, attempt, _ = await self._end(place, "TERM", cancel=True)
        found = state in ("running", "orphaned")
        # Its runner ends it, and needs the grace twice when the job is stubborn.
        clock = asyncio.get_running_loop().time
        until = clock() + 3 * _GRACE
        while state == "running":
            if clock() > until:
                raise Locked(
                    f"attempt {attempt} of {slot} was asked to end and still runs", where=self._connection.host
                )
            await asyncio.sleep(0.3)
            state, now = await self._state_of(place)
            if now != attempt:
                return found
        if state == "orphaned":
            await self._clear(place, attempt)
        return found

    async def close(self) -> None:
        """Stop following. Jobs go on. Idempotent."""
        if self._follower:
            await self._follower.close()

    # --- talking to the host ----------------------------------------------------------------------

    async def _ready(self) -> Follower:
        """Know the state folder, with an exchange only when it is not given."""
        if self._follower is None:
            if not self._state.startswith("/"):
                place = f"gp_state={quote(self._state)}\n{script('state')}"
                said = await self._ask(
                    f"{place}\nprintf '%s' \"$gp_state\"", what="finding the state folder", prelude=""
                )
                self._state = said.stdout.decode(errors="surrogateescape")
            if self._follower is None:
                self._follower = Follower(self._connection, self._prelude(), patience=self._patience)
        return self._follower

    def _prelude(self) -> str:
        return f"gp_state={quote(self._state)}\n{script('job_process')}\n{script('job_state')}"

    def _start_text(self, place: Slot, job: Job, digest: str) -> str:
        values = {
            "gp_name": place.folder,
            "gp_digest": as_word(digest),
            # One per call: after a lost line it tells an attempt of this call from anybody else's.
            "gp_nonce": secrets.token_hex(8),
            "gp_id": as_word(place.id),
            "gp_owner": as_word(f"{self._owner.user}@{self._owner.host}, run {self._owner.run}"),
            "gp_limits": f"{_hundredths(job.deadline)} {_hundredths(job.silence)}",
            "gp_locks": " ".join(sorted(job.locks)),
            "gp_job": job.script,
            "gp_run": f"{script('job_process')}\n{script('job_runner')}",
        }
        return "\n".join((*(f"{name}={quote(value)}" for name, value in values.items()), script("job_start")))

    async def _ask(
        self, text: str, *, what: str, env: Mapping[str, str | Secret] | None = None, prelude: str | None = None
    ) -> SectionResult:
        """Run one section that may be run twice: a lost line is taken up again for as long as the patience lasts."""
        frame = Frame(
            sections=(Section(name="job", script=text, env=env or {}),),
            prelude=self._prelude() if prelude is None else prelude,
            deadline=30.0,
        )
        loop = asyncio.get_running_loop()
        began, pause = loop.time(), 0.2
        while True:
            try:
                answer = await self._connection.frame(frame)
                break
            except (HostKeyRefused, AuthenticationFailed):
                raise
            except (LineLost, Unreachable):
                if loop.time() - began > self._patience:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, 10.0)
        result, before = answer.sections.get("job"), answer.sections.get("before")
        if result is None and before is not None and before.status != 0:
            raise Locked(parse(before).reason, where=self._connection.host)
        if result is None or result.status != 0:
            status = result.status if result else None
            words = "did not answer in time" if status is None else f"ended with status {status}"
            raise StepFailed(
                f"{what} {words}" + (f"; {answer.stuck}" if answer.stuck else ""),
                status=status,
                where=self._connection.host,
                output=self._redact(result.stderr.decode(errors="replace")[-2000:]) if result else "",
            )
        return result

    def _refusal(self, word: str, rest: str, result: SectionResult) -> StepFailed:
        where, output = self._connection.host, self._redact(result.stderr.decode(errors="replace").strip()[-2000:])
        if word == "missing":
            command, _, package = rest.partition(" ")
            return StepFailed(
                f"this host has no {command} command, which long steps need",
                where=where,
                hint=f"install the package {package}",
            )
        if word == "unlockable":
            return StepFailed(f"the file system does not lock files: {rest}", where=where, output=output)
        if word == "unwritable":
            full, hint = full_disk(output)
            return StepFailed(
                f"the state folder cannot be written: {rest}" + (f": {full}" if full else ""),
                where=where,
                output=output,
                hint=hint,
            )
        return StepFailed("the host's answer to the start of a job cannot be read", where=where, output=output)

    async def _state_of(self, place: Slot) -> tuple[str, int]:
        result = await self._ask(f"gp_only={place.folder}\n{script('job_look')}", what=f"looking at {place.id}")
        for job in read_look(result.stdout.decode(errors="replace")):
            return job.state, job.attempt
        return "none", 0

    # --- ending -----------------------------------------------------------------------------------

    async def _end(self, place: Slot, signal: str, *, cancel: bool) -> tuple[str, int, str]:
        text = f"gp_name={place.folder} gp_sig={signal} gp_cancel={'1' if cancel else ''}\n{script('job_end')}"
        result = await self._ask(text, what=f"ending {place.id}")
        head, _, left = result.stdout.decode(errors="replace").strip("\n").partition("\t")
        state, _, attempt = head.partition(" ")
        return state, int(attempt) if attempt.isascii() and attempt.isdigit() else 0, left

    async def _clear(self, place: Slot, attempt: int) -> None:
        """End what an attempt without a runner has left, and see that the slot is free.

        Raises:
            Locked
        """
        clock = asyncio.get_running_loop().time
        began, left = clock(), ""
        while clock() - began < 3 * _GRACE:
            signal = "TERM" if clock() - began < _GRACE else "KILL"
            state, now, left = await self._end(place, signal, cancel=False)
            if state != "orphaned" or now != attempt:
                return
            await asyncio.sleep(0.3)
        raise Locked(
            f"what is left of attempt {attempt} of {place.id} outlives KILL: {left or 'no process that can be seen'}",
            where=self._connection.host,
            hint="a process in state D waits for the kernel, often for a driver; only a restart of the host ends it",
        )


def _hundredths(seconds: float) -> int:
    return max(1, round(min(seconds, 1e7) * 100))


def _check(job: Job) -> None:
    """Refuse what could not be sent exactly as it is.

    Raises:
        ValueError
    """
    if len(job.script.encode()) > LONGEST_SCRIPT:
        raise ValueError(f"the script of {job.title!r} is longer than {LONGEST_SCRIPT // 1024} KiB")
    if len(job.locks) > MOST_LOCKS:
        raise ValueError(f"{job.title!r} wants {len(job.locks)} locks; at most {MOST_LOCKS} can be held")
    for name in job.locks:
        if not _LOCK_NAME.fullmatch(name):
            raise ValueError(f"the name of a lock is made of letters, digits, - and _, unlike {name!r}")
    for name in job.env:
        if not _ENV_NAME.fullmatch(name) or name.startswith(_OURS):
            raise ValueError(f"{name!r} cannot be the name of an environment variable of a job")
