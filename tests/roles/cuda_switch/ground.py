"""A host for these tests: this machine with an /etc and a /usr/local of its own, in a mount namespace."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuprov.facts import Facts
from gpuprov.model import Put, Run
from gpuprov.role import SearchPath

DEADLINE = 30.0
"""Seconds that anything may take here."""

KEPT = {"profile", "bash.bashrc", "zsh", "passwd", "group", "nsswitch.conf", "ld.so.cache", "terminfo"}
"""What shells read in /etc; the rest of this machine's is none of these tests' affair."""

CALLERS = {"dash": ["dash"], "bash": ["bash"], "zsh": ["zsh", "-f"], "busybox": ["busybox", "sh"]}
"""The shells that scripts are written for."""

SHEBANGS = {"dash": b"#!/bin/dash\n", "bash": b"#!/bin/bash --posix\n", "busybox": b"#!/bin/busybox sh\n"}
"""What /bin/sh may be."""

CASES_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class Done:
    """How a script ended; ``dumps`` are the environments that it wrote down with ``DUMP NAME``."""

    status: int
    out: str
    err: str
    dumps: dict[str, dict[bytes, bytes]]


@dataclass(frozen=True)
class Ground:
    """The folders that stand for the host's /etc and /usr/local."""

    folder: Path

    @property
    def etc(self) -> Path:
        return self.folder / "etc"

    @property
    def local(self) -> Path:
        return self.folder / "local"

    def words(self, *words: str) -> list[str]:
        """The command line that runs words on this host."""
        mount = 'mount --bind "$1" /etc && mount --bind "$2" /usr/local && shift 2 && exec "$@"'
        return ["unshare", "-Urm", "sh", "-c", mount, "sh", str(self.etc), str(self.local), *words]

    def run(self, words: list[str], script: str, env: Mapping[str, str | bytes] | None = None) -> Done:
        """Run a script with a shell. Without ``env`` it has nothing but a PATH."""
        folder = self.folder / "dumps"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        # Given as code, not as a function, so that a look at the shell's functions sees the role's alone.
        script = script.replace("DUMP ", f"/usr/bin/env -0 >{folder}/")
        given = {**(env if env is not None else {"PATH": CASES_PATH}), "HOME": str(self.folder), "TERM": "dumb"}
        # unshare and mount must be found whatever PATH the script is to have.
        assignments = [os.fsencode(k) + b"=" + os.fsencode(v) for k, v in given.items()]
        command = [*map(os.fsencode, self.words("/usr/bin/env", "-i")), *assignments]
        shell = [shutil.which(words[0]) or words[0], *words[1:], "-c", script]
        done = subprocess.run(
            [*command, *shell], capture_output=True, stdin=subprocess.DEVNULL, timeout=DEADLINE, check=False
        )
        dumps = {file.name: environment(file.read_bytes()) for file in folder.iterdir()}
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace"), dumps)


def environment(data: bytes) -> dict[bytes, bytes]:
    """What ``env -0`` printed, without what every shell changes by itself."""
    pairs = (item.partition(b"=")[::2] for item in data.split(b"\0") if item)
    return {name: value for name, value in pairs if name not in (b"_", b"SHLVL", b"PWD", b"OLDPWD")}


def toolkit(folder: Path, *, cupti: bool = False) -> None:
    """What these tests need of a toolkit: a compiler that tells its folder."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib64").mkdir()
    if cupti:
        (folder / "extras/CUPTI/lib64").mkdir(parents=True)
    (folder / "bin/nvcc").write_text('#!/bin/sh\necho "nvcc of $CUDA_HOME"\n')
    (folder / "bin/nvcc").chmod(0o755)


def make(folder: Path, *, toolkits: str = "/usr/local", default: str | None = None, shebang: str = "") -> Ground:
    """Make a host and apply the role to it, step by step as its resources plan them."""
    ground = Ground(folder)
    for name in sorted(KEPT):
        source = Path("/etc", name)
        if source.is_dir():
            shutil.copytree(source, ground.etc / name, symlinks=True)
        elif source.exists():
            ground.etc.mkdir(exist_ok=True)
            shutil.copy(source, ground.etc / name)
    (ground.etc / "profile.d").mkdir()
    for name in ("bin", "lib"):
        (ground.local / name).mkdir(parents=True)
    below = ground.folder / "local" / Path(toolkits).relative_to("/usr/local")
    toolkit(below / "cuda-11.7", cupti=True)
    toolkit(below / "cuda-12.1")
    toolkit(below / "cuda-9.2")
    toolkit(below / "cuda-11.8.gpuprov-new")
    (below / "cuda").symlink_to("cuda-12.1")
    (below / "cuda-12").symlink_to("cuda-12.1")
    (below / "cuda-12.4").symlink_to("gone")
    (below / "cuda-10.0").mkdir()

    places = {"/etc/": ground.etc, "/usr/local/": ground.local}
    for resource in SearchPath().find("cuda_switch").declare(Facts(), {"toolkits": toolkits, "default": default}):
        change = resource.plan(None)
        assert change is not None
        for step in change.steps:
            if isinstance(step, Put):
                assert isinstance(step.content, bytes)
                place = next(
                    root / step.path[len(under) :] for under, root in places.items() if step.path.startswith(under)
                )
                content = step.content
                if shebang:
                    content = content.replace(b"#!/bin/sh\n", SHEBANGS[shebang])
                place.write_bytes(content)
                place.chmod(step.mode)
            else:
                assert isinstance(step, Run)
                subprocess.run(ground.words("dash", "-c", f"set -eu\n{step.script}"), check=True, timeout=DEADLINE)
    return ground


class Terminal:
    """A shell on a terminal, typed into and read from."""

    def __init__(self, master: int) -> None:
        self.master = master
        self.seen = ""

    def type(self, line: str) -> str:
        """Type a line, and return what it printed."""
        start = len(self.seen)
        # Quoted otherwise than printed, so that the echo of what was typed is not taken for the answer.
        os.write(self.master, f"{line}\necho do''ne\n".encode())
        self._await("done\r\n", start)
        return self.seen[start:].replace("\r", "")

    def _await(self, text: str, start: int) -> None:
        end = time.monotonic() + DEADLINE
        while text not in self.seen[start:]:
            ready, _, _ = select.select([self.master], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"nothing more after: {self.seen[start:]!r}"
            try:
                self.seen += os.read(self.master, 65536).decode(errors="replace")
            except OSError as e:  # the shell is gone
                raise AssertionError(f"ended after: {self.seen[start:]!r}") from e


@contextmanager
def terminal(ground: Ground, words: list[str], env: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """A shell on a terminal of its own, ended afterwards."""
    given = {"PATH": CASES_PATH, "HOME": str(ground.folder), "TERM": "dumb", "PS1": "$ ", **(env or {})}
    master, slave = pty.openpty()
    process = subprocess.Popen(
        ground.words(*words), stdin=slave, stdout=slave, stderr=slave, env=given, start_new_session=True, close_fds=True
    )
    os.close(slave)
    try:
        yield Terminal(master)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(DEADLINE)
        os.close(master)
