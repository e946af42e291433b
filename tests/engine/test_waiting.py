"""Waiting for a host that somebody else holds, told by the real command."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path

from tests.e2e.command import Command, Running, playbook, write_inventory


def test_who_holds_the_host_is_said_once_and_again_when_it_is_another(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    owner = state / "owner"

    def hold(user: str) -> None:
        owner.with_suffix(".t").write_text(f"run laptop {user} 7 1 1 1 boot 1 .\n")
        owner.with_suffix(".t").rename(owner)

    hold("ada")
    entry = {"here": {"connection": "local", "become": "never", "paths": {"state": str(state)}}}
    command = Command(write_inventory(tmp_path / "hosts.yaml", entry))
    play = str(playbook(tmp_path, {"hosts": "all", "roles": []}))
    with (state / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        running = Running(command.start("apply", play, "--lock-wait", "60"))
        running.wait_for(lambda event: event["event"] == "host-phase" and "held by ada@laptop" in event["note"])
        time.sleep(1.3)  # it asks again after 1 s
        hold("bea")
        running.wait_for(lambda event: event["event"] == "host-phase" and "held by bea@laptop" in event["note"])
    result = running.finish()
    assert result.code == 0, result.out
    notes = [event["note"].partition(" (")[0] for event in result.of("host-phase", phase="lock")]
    assert notes == ["held by ada@laptop", "held by bea@laptop"]
