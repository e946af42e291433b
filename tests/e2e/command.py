"""Running the real command as a user does, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.lab.cuda.runfiles import Runfile

HERE = Path(__file__).parent
GROUND = HERE / "ground" / "ground.yaml"


@dataclass(frozen=True)
class Result:
    """How one command ended. ``events`` are those of ``--json``."""

    code: int
    out: str
    err: str
    events: tuple[dict[str, Any], ...] = ()

    def of(self, name: str, **fields: Any) -> list[dict[str, Any]]:
        return [
            e for e in self.events if e["event"] == name and all(e.get(key) == value for key, value in fields.items())
        ]

    def outcomes(self, host: str) -> dict[str, str]:
        """Each node's outcome on a host; the last one counts (what is undone later is told anew)."""
        return {e["id"]: e["outcome"] for e in self.of("node-ended", host=host)}

    def changed(self, host: str) -> set[str]:
        return {id_ for id_, outcome in self.outcomes(host).items() if outcome == "changed"}

    def ended(self, host: str) -> dict[str, Any]:
        (event,) = self.of("host-ended", host=host)
        return event


@dataclass
class Command:
    """gpuprov with an inventory. Every call is bounded."""

    inventory: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def start(self, *words: str, json_lines: bool = True) -> subprocess.Popen[str]:
        json_words = ["--json"] if json_lines else []
        return subprocess.Popen(
            [sys.executable, "-m", "gpuprov", words[0], "-i", str(self.inventory), *json_words, *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "120", **self.environment},
            start_new_session=True,
        )

    def __call__(self, *words: str, timeout: float = 180, json_lines: bool = True) -> Result:
        process = self.start(*words, json_lines=json_lines)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError(f"gpuprov {' '.join(words)} hung\n{out[-3000:]}\n{err[-3000:]}") from None
        assert "Traceback" not in err, err
        events = tuple(json.loads(line) for line in out.splitlines()) if json_lines else ()
        return Result(process.returncode, out, err, events)

    def until(self, seen: Callable[[dict[str, Any]], bool], *words: str, timeout: float = 60) -> Running:
        """Start it and wait for an event; the process goes on."""
        running = Running(self.start(*words))
        running.wait_for(seen, timeout)
        return running


class Running:
    """A command that was started, read by a thread of its own, so that not one line is lost."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self.err = ""
        self._more = threading.Condition()
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read_out, self._read_err)]
        for reader in self._readers:
            reader.start()

    def _read_out(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._more:
                self.lines.append(line)
                self._more.notify_all()

    def _read_err(self) -> None:
        assert self.process.stderr is not None
        self.err = self.process.stderr.read()

    def wait_for(self, seen: Callable[[dict[str, Any]], bool], timeout: float = 60) -> None:
        """Wait until an event, old or new, is as wanted."""
        end, read = time.monotonic() + timeout, 0
        with self._more:
            while True:
                for line in self.lines[read:]:
                    read += 1
                    if seen(json.loads(line)):
                        return
                if time.monotonic() > end or self.process.poll() is not None:
                    self.process.kill()
                    raise AssertionError("the event did not come:\n" + "".join(self.lines[-20:]) + self.err)
                self._more.wait(0.5)

    def kill(self) -> None:
        """As a dead laptop: SIGKILL to all of it."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def finish(self, timeout: float = 120) -> Result:
        """Wait for its end."""
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("gpuprov hung\n" + "".join(self.lines[-20:])) from None
        for reader in self._readers:
            reader.join(10)
        assert "Traceback" not in self.err, self.err
        out = "".join(self.lines)
        return Result(self.process.returncode, out, self.err, tuple(json.loads(line) for line in self.lines))


def write_inventory(path: Path, hosts: Mapping[str, Mapping[str, object]], **defaults: object) -> Path:
    """Write an inventory file. Paths become text."""
    plain = {name: {k: str(v) if isinstance(v, Path) else v for k, v in host.items()} for name, host in hosts.items()}
    shared = {k: str(v) if isinstance(v, Path) else v for k, v in defaults.items()}
    path.write_text(yaml.safe_dump({"defaults": shared, "hosts": plain}, sort_keys=False))
    return path


def from_runfile(runfile: Runfile) -> dict[str, str]:
    """The variables by which the shipped playbooks take an installer from the lab's download site."""
    return {"cuda_url": runfile.url, "cuda_sha256": runfile.sha256, "cuda_size": str(runfile.size)}


def playbook(folder: Path, *plays: Mapping[str, object], roles: Mapping[str, str] | None = None) -> Path:
    """Write a playbook beside roles of its own (name -> text of role.py)."""
    for name, text in (roles or {}).items():
        role = folder / "roles" / name
        role.mkdir(parents=True)
        (role / "role.py").write_text(text)
    path = folder / "play.yaml"
    path.write_text(yaml.safe_dump([*plays], sort_keys=False))
    return path


def hosts_of(*hosts: Any) -> dict[str, dict[str, object]]:
    """The inventory entries of lab hosts."""
    return {
        host.name: {
            "address": host.address,
            "port": str(host.port),
            "user": "root",
            "key": host.key,
            "known_hosts": host.known_hosts,
        }
        for host in hosts
    }


Hosts = Sequence[Any]
