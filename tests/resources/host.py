"""A reference host for these tests: answers asks and runs steps on the machine itself, without the engine."""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from gpuprov.model import Change, Put, Resource, Run
from gpuprov.secret import Secret

S = TypeVar("S")
Done = subprocess.CompletedProcess[str]

SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}

_TYPES: dict[int, str] = {
    stat.S_IFREG: "regular file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symbolic link",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character special file",
    stat.S_IFBLK: "block special file",
}


def stat_line(path: str) -> str:
    """What GNU stat would print of a path, by another way than stat."""
    try:
        s = os.lstat(path)
    except OSError:
        return "-"
    kind = _TYPES[stat.S_IFMT(s.st_mode)]
    if kind == "regular file" and not s.st_size:
        kind = "regular empty file"
    user, group = pwd.getpwuid(s.st_uid).pw_name, grp.getgrgid(s.st_gid).gr_name
    mode = f"{stat.S_IMODE(s.st_mode):o}"
    numbers = f"{s.st_size}|{int(s.st_mtime)}|{int(s.st_ctime)}|{s.st_ino}"
    return f"{kind}|{mode}|{s.st_uid}|{s.st_gid}|{user}|{group}|{numbers}"


def sha256_line(path: str) -> str:
    if not os.path.isfile(path) or os.path.islink(path):
        return "-"
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def readlink_line(path: str) -> str:
    return os.readlink(path) if os.path.islink(path) else "-"


_ANSWERS: dict[str, Callable[[str], str]] = {
    "stat": stat_line,
    "sha256sum": sha256_line,
    "readlink": readlink_line,
    "have": lambda name: shutil.which(name) or "-",
}


@dataclass
class Host:
    """Looks and changes with one of the shells that hosts have."""

    shell: list[str]
    env: dict[str, str] = field(default_factory=dict)

    def run(
        self, script: str, env: dict[str, str] | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        given = {**os.environ, "LC_ALL": "C", **self.env, **(env or {})}
        done = subprocess.run(
            [*self.shell, "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=given, timeout=60
        )
        assert not check or done.returncode == 0, done
        return done

    def look(self, resource: Resource[S]) -> S | None:
        probe = resource.probe()
        answers = "".join(f"{_ANSWERS[command](argument)}\n" for command, argument in probe.asks)
        printed = self.run(probe.script).stdout
        assert printed == self.run(f"set -eu\n{probe.script}").stdout, "whatever options the probing shell has"
        return probe.parse((answers + printed).encode())

    def plan(self, resource: Resource[S]) -> Change | None:
        return resource.plan(self.look(resource))

    def do(self, change: Change) -> None:
        for step in change.steps:
            if isinstance(step, Put):
                self.put(step)
            else:
                assert isinstance(step, Run), step
                env = {k: v.reveal().decode() if isinstance(v, Secret) else v for k, v in step.env.items()}
                self.run(f"set -eu\n{step.script}", env)

    def put(self, step: Put) -> None:
        content = step.content.reveal() if isinstance(step.content, Secret) else step.content
        new = f"{step.path}.new"
        Path(new).write_bytes(content)
        if os.path.isfile(step.path) and not os.path.islink(step.path):
            was = os.stat(step.path)
            os.chown(new, was.st_uid, was.st_gid)
        os.chmod(new, step.mode)
        assert not (step.owner or step.group), "owners are tried in the lab, on hosts of its own"
        os.replace(new, step.path)

    def converge(self, resource: Resource[S]) -> Change | None:
        """Plan, do, look again: nothing may be left to do, and doing it again changes nothing."""
        change = self.plan(resource)
        if change is not None:
            self.do(change)
            assert self.plan(resource) is None, self.plan(resource)
            self.do(change)
            assert self.plan(resource) is None, "a second time"
        return change
