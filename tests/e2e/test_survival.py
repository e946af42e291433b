"""Lines that are cut, controllers that die, two at once: each once. The whole of it is a suite of its own."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Command, hosts_of, playbook, write_inventory
from tests.lab import faults
from tests.lab.fixtures import StartHost
from tests.lab.hosts import Host

SLOW = '''
from gpuprov.resources import Command, Directory, File
from gpuprov.role import role
from gpuprov.facts import Facts

@role
def slow(host: Facts, *, seconds: int):
    """A long job that counts how often it was started, and what comes after it."""
    yield Directory(path="/srv/slow")
    done = Command(
        name="slow",
        look="cat /srv/slow/done 2>/dev/null || true",
        want="done",
        script=f"echo started >>/srv/slow/starts; i=0; "
        f"while [ $i -lt {seconds * 10} ]; do i=$((i+1)); echo line $i; sleep 0.1; done; "
        "echo done >done && mv done /srv/slow/done",
        long=True,
        writes=("/srv/slow/done",),
    )
    yield done
    for n in range(3):
        yield File(path=f"/srv/slow/after{n}", content="after")
'''


@pytest.fixture
def host(fresh_host: StartHost) -> Host:
    return fresh_host("b", services=False)


@pytest.fixture
def command(host: Host, tmp_path: Path) -> Command:
    return Command(write_inventory(tmp_path / "hosts.yaml", hosts_of(host)))


@pytest.fixture
def play(tmp_path: Path) -> str:
    return str(playbook(tmp_path, {"hosts": "all", "roles": [{"slow": {"seconds": "4"}}]}, roles={"slow": SLOW}))


def starts(host: Host) -> int:
    return len(host.exec("cat /srv/slow/starts").stdout.split())


def at_line(number: int) -> Any:
    return lambda event: event["event"] == "node-output" and event["line"] == f"line {number}"


def assert_as_wanted(host: Host) -> None:
    there = host.testinfra()
    assert there.file("/srv/slow/done").content_string == "done\n"
    assert [there.file(f"/srv/slow/after{n}").content_string for n in range(3)] == ["after"] * 3
    assert host.exec("find / -xdev -name '.gpuprov-*' -not -path '/proc/*'").stdout == ""


def test_a_line_cut_in_a_running_job_is_taken_up_and_read_on(host: Host, command: Command, play: str) -> None:
    running = command.until(at_line(10), "apply", play)
    assert faults.kill_newest_session(host)
    result = running.finish()
    assert result.code == 0, result.out + result.err
    told = [e["line"] for e in result.of("node-output", id="command:slow")]
    assert told == [f"line {n}" for n in range(1, 41)], "a line is missing, or was told twice"
    assert starts(host) == 1
    assert_as_wanted(host)


def test_the_controller_killed_in_a_job_the_next_apply_follows_it(host: Host, command: Command, play: str) -> None:
    command.until(at_line(10), "apply", play).kill()
    result = command("apply", play)
    assert result.code == 0, result.out
    assert starts(host) == 1, "the job was started again although it was running"
    assert_as_wanted(host)
    assert command("apply", play).changed(host.name) == set()


def test_the_controller_killed_and_its_job_ended_meanwhile(host: Host, command: Command, play: str) -> None:
    command.until(at_line(10), "apply", play).kill()
    time.sleep(4)
    result = command("apply", play)
    assert result.code == 0 and starts(host) == 1
    assert "command:slow" not in result.changed(host.name), "its result was not taken up"
    assert_as_wanted(host)


def test_two_controllers_at_once_do_the_work_once(host: Host, command: Command, play: str) -> None:
    first = command.until(at_line(5), "apply", play)
    second = command("apply", play)
    assert first.finish().code == 0
    assert second.code == 0, second.out
    assert [e["phase"] for e in second.of("host-phase")].count("lock") >= 1
    assert "held by" in second.of("host-phase", phase="lock")[0]["note"]
    assert second.changed(host.name) == set() and starts(host) == 1
    assert_as_wanted(host)


def test_the_second_controller_does_not_wait_longer_than_it_was_told(host: Host, command: Command, play: str) -> None:
    first = command.until(at_line(5), "apply", play)
    second = command("apply", play, "--lock-wait", "0")
    first.finish()
    error = second.ended(host.name)["error"]
    assert second.code == 1 and error["code"] == "locked" and "held by" in error["message"]


def test_interrupted_once_it_says_what_goes_on_and_the_next_apply_takes_it_up(
    host: Host, command: Command, play: str
) -> None:
    running = command.until(at_line(10), "apply", play)
    os.kill(running.process.pid, signal.SIGINT)
    interrupted = running.finish(timeout=30)
    assert interrupted.code == 130 and interrupted.ended(host.name)["status"] == "interrupted"
    assert command("apply", play).code == 0 and starts(host) == 1
    assert_as_wanted(host)


def test_the_host_is_killed_in_a_job_and_comes_back(host: Host, command: Command, play: str) -> None:
    running = command.until(at_line(10), "apply", play)
    host.kill()
    host.start()
    running.finish()
    result = command("apply", play)
    assert result.code == 0, result.out
    assert_as_wanted(host)


HALF = '''
from gpuprov.resources import Command
from gpuprov.role import role
from gpuprov.facts import Facts

@role
def half(host: Facts):
    """Stands in the middle of a frame until it is told to go on."""
    yield Command(
        name="half",
        look="cat /srv/conf 2>/dev/null || true",
        want="new",
        script="printf hal >/srv/conf; printf hal >/srv/made; until [ -e /srv/go ]; do sleep 0.1; done; "
        "printf new >/srv/conf",
        writes=("/srv/conf", "/srv/made"),
    )
'''


@pytest.mark.parametrize("how", ["interrupted", "the line is cut"])
def test_cut_off_in_a_frame_nothing_half_made_is_left(host: Host, command: Command, tmp_path: Path, how: str) -> None:
    """Over a real line. What the journal does in every other case is proved without one."""
    play = str(playbook(tmp_path, {"hosts": "all", "roles": [{"half": {}}]}, roles={"half": HALF}))
    host.exec("printf old >/srv/conf")
    running = command.until(lambda event: event["event"] == "node-started", "apply", play)
    there = host.testinfra()
    end = time.monotonic() + 20
    while there.file("/srv/conf").content_string != "hal":
        assert time.monotonic() < end
    if how == "interrupted":
        os.kill(running.process.pid, signal.SIGTERM)
        result = running.finish(timeout=30)
        assert result.code == 130
        assert there.file("/srv/conf").content_string == "old" and not there.file("/srv/made").exists
    else:
        assert faults.kill_newest_session(host)
        running.wait_for(lambda event: event["event"] == "notice" and "put back /srv/conf" in event["text"])
        host.exec("touch /srv/go")
        result = running.finish()
        assert result.outcomes(host.name) == {"command:half": "changed"}
        assert there.file("/srv/conf").content_string == "new"
    assert [e for e in result.of("notice", level="warning") if "removed /srv/made" in e["text"]]
