"""This machine as a host with exactly the commands that a test allows."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuprov.model import Job, Obtain
from gpuprov.store import Ended, Limits, download_job

QUICK = Limits(connect=2, stall=2, pause=0, tries=3)
SHELLS = {"dash": ("dash",), "bash": ("bash",), "busybox": ("busybox", "sh")}
TOOLS = ("curl", "wget", "busybox wget")
NEEDED = (
    "cat", "chmod", "cp", "cut", "date", "df", "flock", "grep", "head", "md5sum", "mkdir", "mv", "rm", "sed",
    "sha256sum", "sleep", "stat", "sync", "tail", "tr",
)  # fmt: skip
"""All that the scripts may use. The rest of the machine cannot be found by them."""


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def some_bytes(size: int, seed: int = 0) -> bytes:
    return hashlib.shake_128(str(seed).encode()).digest(size)


def step_for(path: Path | str, content: bytes, *sources: str, **more: Any) -> Obtain:
    fields: dict[str, Any] = {"sha256": sha256(content), "size": len(content)} | more
    return Obtain(title="fetch it", key="k", path=str(path), sources=sources, **fields)


@dataclass
class Ran:
    status: int
    lines: list[str]
    seconds: float

    @property
    def ended(self) -> Ended:
        return Ended(self.status)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@dataclass
class Host:
    """Runs jobs' scripts. Its folder is where files go; ``bin`` is all of its PATH."""

    folder: Path
    shell: str = "dash"
    env: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bin.mkdir(parents=True, exist_ok=True)
        self.files.mkdir(exist_ok=True)
        for name in NEEDED:
            self.link(name)
        self.has("curl")

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def files(self) -> Path:
        return self.folder / "fi les"

    def link(self, name: str, to: str = "") -> None:
        found = shutil.which(to or name)
        assert found, f"the tests need {to or name}"
        (self.bin / name).unlink(missing_ok=True)
        (self.bin / name).symlink_to(found)

    def lacks(self, *names: str) -> None:
        for name in names:
            (self.bin / name).unlink(missing_ok=True)

    def has(self, tool: str) -> None:
        """Have this one download tool."""
        self.lacks("curl", "wget", "busybox")
        if tool == "busybox wget":
            self.link("wget", "busybox")
        elif tool:
            self.link(tool)

    def stand_in(self, name: str, text: str) -> None:
        self.lacks(name)
        (self.bin / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.bin / name).chmod(0o755)

    def start(self, job: Job) -> subprocess.Popen[str]:
        work = self.folder / f"work{len(self.started)}"
        work.mkdir()
        found = shutil.which(SHELLS[self.shell][0])
        assert found
        process = subprocess.Popen(
            [found, *SHELLS[self.shell][1:], "-eu", "-c", job.script],
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            env={"PATH": str(self.bin), "HOME": str(self.folder), **self.env},
        )
        self.started.append(process)
        return process

    def end(self, process: subprocess.Popen[str], *, within: float = 40.0) -> Ran:
        began = time.monotonic()
        out, _ = process.communicate(timeout=within)
        return Ran(process.returncode, out.splitlines(), time.monotonic() - began)

    def fetch(self, step: Obtain, limits: Limits = QUICK) -> Ran:
        return self.end(self.start(download_job(step, limits=limits)))

    def close(self) -> None:
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(5)
            if process.stdout:
                process.stdout.close()


def until(true: Callable[[], bool], *, within: float = 10.0, what: str = "it") -> None:
    end = time.monotonic() + within
    while not true():
        assert time.monotonic() < end, f"waited {within} s for {what}"
        time.sleep(0.02)
