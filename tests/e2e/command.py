"""Running the real command as a user does, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

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

    def until(self, seen: Callable[[dict[str, Any]], bool], *words: str, timeout: float = 60) -> subprocess.Popen[str]:
        """Start it and read events until one is as wanted; the process goes on, its further output unread."""
        process = self.start(*words)
        assert process.stdout is not None
        end = time.monotonic() + timeout
        told = []
        for line in process.stdout:
            told.append(line)
            if seen(json.loads(line)):
                return process
            if time.monotonic() > end:
                break
        process.kill()
        raise AssertionError("the event did not come:\n" + "".join(told[-20:]))


def write_inventory(path: Path, hosts: Mapping[str, Mapping[str, object]], **defaults: object) -> Path:
    """Write an inventory file. Values become text as YAML writes it."""
    plain = {name: {k: str(v) if isinstance(v, Path) else v for k, v in host.items()} for name, host in hosts.items()}
    shared = {k: str(v) if isinstance(v, Path) else v for k, v in defaults.items()}
    path.write_text(yaml.safe_dump({"defaults": shared, "hosts": plain}, sort_keys=False))
    return path


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
