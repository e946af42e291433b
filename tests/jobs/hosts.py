"""What the tests of jobs share: this machine as a host, seen from outside."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from gpuprov.errors import LineLost, Unreachable
from gpuprov.jobs import Owner, Slot
from gpuprov.jobs.slot import as_word
from gpuprov.model import Id, Job
from gpuprov.onhost import script
from gpuprov.quote import quote
from gpuprov.secret import Secret
from gpuprov.transport.frame import Connection, Frame, FrameResult, Stream

SHELLS = {"dash": ("dash",), "bash": ("bash",), "busybox": ("busybox", "sh")}
OWNER = Owner(run="20261130-133250-4f1c", host="controller", user="ada", pid=os.getpid())


# fmt: off
TOOLS = [
    "base64", "cat", "chmod", "cut", "dd", "env", "flock", "grep", "gzip", "head", "id", "ls", "mkdir", "mktemp", "mv",
    "rm", "rmdir", "sed", "setsid", "sleep", "stat", "sync", "tail", "timeout", "touch", "tr", "true", "wc",
]
# fmt: on


def path_for(folder: Path, sh: str = "dash", *, without: str = "") -> str:
    """A PATH on which ``sh`` is the given shell, and maybe one of the usual tools is missing."""
    folder.mkdir()
    for name in ("sh", *(TOOLS if without else ())):
        found = shutil.which(SHELLS[sh][0] if name == "sh" else name)
        if name != without and found:
            (folder / name).symlink_to(found)
    return str(folder) if without else f"{folder}:{os.environ['PATH']}"


class Lines(list[str]):
    """A listener that can be waited for."""

    async def until(self, text: str, *, within: float = 10.0) -> None:
        await until(lambda: any(text in line for line in self), within=within, what=f"{text!r} among {self[-5:]}")


async def until(true: Callable[[], bool], *, within: float = 10.0, what: str = "it") -> None:
    end = time.monotonic() + within
    while not true():
        assert time.monotonic() < end, f"waited {within} s for {what}"
        await asyncio.sleep(0.02)


def job(text: str, *, deadline: float = 60.0, silence: float = 60.0, locks: set[str] | None = None,
        env: dict[str, str | Secret] | None = None) -> Job:  # fmt: skip
    return Job(
        title="a test", script=text, deadline=deadline, silence=silence, locks=frozenset(locks or ()), env=env or {}
    )


class Place:
    """A slot's folder, read without the code under test."""

    def __init__(self, state: Path, slot: str) -> None:
        self.folder = state / "jobs" / Slot(Id(slot)).folder

    def attempt(self, number: int) -> Path:
        return self.folder / str(number)

    def runner(self, number: int = 1) -> int:
        return int((self.attempt(number) / "pid").read_text().split()[0])

    def group(self, number: int = 1) -> int:
        return int((self.attempt(number) / "pid").read_text().split()[3])

    async def begun(self, number: int = 1) -> None:
        """Wait until the script itself runs."""
        pid = self.attempt(number) / "pid"
        await until(lambda: pid.exists() and pid.read_text().split()[3].isdigit(), what="the job to begin")

    async def over(self, number: int = 1) -> None:
        """Wait until the runner, which tidies up after its last word, is gone."""
        await until(lambda: not alive(self.runner(number)), what="the runner to end")


def alive(pid: int) -> bool:
    """Whether a process lives; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def session(number: int) -> set[int]:
    """The living members of a session."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = int(stat.parent.name), stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(rest[3]) == number and rest[0] not in ("Z", "X"):
            found.add(pid)
    return found


def kill(*pids: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def start_text(state: Path, slot: str, text: str, *, digest: str = "d", nonce: str = "n") -> str:
    """The start frame as one script, for shells without a connection."""
    values = {
        "gp_state": str(state),
        "gp_name": Slot(Id(slot)).folder,
        "gp_digest": digest,
        "gp_nonce": nonce,
        "gp_id": as_word(slot),
        "gp_owner": "ada",
        "gp_limits": "6000 6000",
        "gp_locks": "",
        "gp_follow": "-",
        "gp_job": text,
        "gp_run": f"{script('job_process')}\n{script('job_runner')}",
    }
    parts = (*(f"{k}={quote(v)}" for k, v in values.items()), *map(script, ("job_process", "job_state", "job_start")))
    return "\n".join(parts)


class Faulty:
    """A connection with faults of its own choosing."""

    def __init__(self, inner: Connection, *, lose: int = 0, hold: float = 0.0, streams: bool = True) -> None:
        self.inner = inner
        self.host = inner.host
        self.lose = lose
        """So many answers of frames are lost after the frame ran."""
        self.hold = hold
        self.streams = streams
        self.exchanges = 0
        self.on_open = ""

    async def open(self) -> None:
        await self.inner.open()

    async def frame(self, frame: Frame) -> FrameResult:
        self.exchanges += 1
        result = await self.inner.frame(frame)
        if self.lose:
            self.lose -= 1
            await asyncio.sleep(self.hold)
            raise LineLost("cut", begun=True)
        return result

    async def put(self, path: str, content: bytes | Secret, *, deadline: float = 600.0) -> None:
        await self.inner.put(path, content, deadline=deadline)

    async def stream(self, script: str, *, deadline: float | None = None) -> Stream:
        if not self.streams:
            raise Unreachable("one session only", phase="session")
        return await self.inner.stream(script, deadline=deadline)

    async def kill(self, group: int, *, grace: float = 5.0) -> bool:
        return await self.inner.kill(group, grace=grace)

    async def close(self) -> None:
        await self.inner.close()
