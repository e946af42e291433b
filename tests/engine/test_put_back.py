"""What an interrupted or failed command had half made is given back, seen by reading the files."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Command, Running, playbook, write_inventory
from tests.jobs.hosts import alive, kill, session

ROLE = '''
from gpuprov.facts import Facts
from gpuprov.resources import Command
from gpuprov.role import role

@role
def half(host: Facts, *, folder: str, long: bool, status: int, deadline: int = 50):
    """Replaces one file and makes another, waits in the middle, and ends as it was told."""
    yield Command(
        name="half",
        look=f"cat {folder}/was 2>/dev/null || true",
        want="new",
        script=f"""
            cd {folder}
            echo started >>starts
            printf hal >was; printf hal >made; ln -sfn half link
            read -r pid rest </proc/self/stat; echo $pid >.pid; mv .pid pid; echo half way
            until [ -e go ]; do sleep 0.05; done
            [ {status} -eq 0 ] || exit {status}
            printf new >was; printf new >made
        """,
        long=long,
        deadline=deadline,
        writes=(f"{folder}/was", f"{folder}/made", f"{folder}/link"),
    )
'''

KILLED = '''
from gpuprov.facts import Facts
from gpuprov.resources import Command
from gpuprov.role import role

@role
def killed(host: Facts, *, folder: str, above: int, then: str):
    """Kills its own shell, or one so many above it, and goes on."""
    yield Command(
        name="killed",
        look=f"cat {folder}/was",
        want="new",
        script=f"""
            cd {folder}
            up=$$ n={above}
            while [ $n -gt 0 ]; do n=$((n - 1)); read -r line <"/proc/$up/stat"; set -- ${{line##*)}}; up=$2; done
            printf hal >was; printf hal >made; ln -sfn half link
            (sleep 1.5; printf late >was; printf late >made; touch late) &
            {then}
            touch late
        """,
        writes=(f"{folder}/was", f"{folder}/made", f"{folder}/link"),
    )
'''


class Ground:
    """A folder of this machine, applied to through the real command; whatever runs in it is ended afterwards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = folder / "place"
        self.place.mkdir()
        (self.place / "was").write_text("old")
        (self.place / "was").chmod(0o640)
        (self.place / "link").symlink_to("former")
        entry = {"here": {"connection": "local", "become": "never", "paths": {"state": str(folder / "state")}}}
        self.command = Command(write_inventory(folder / "hosts.yaml", entry))
        self.plays = 0

    def play(self, *, long: bool, status: int = 0, deadline: int = 50) -> str:
        self.plays += 1
        folder = self.folder / f"play{self.plays}"
        folder.mkdir()
        params = {
            "folder": str(self.place),
            "long": "yes" if long else "no",
            "status": str(status),
            "deadline": str(deadline),
        }
        return str(playbook(folder, {"hosts": "all", "roles": [{"half": params}]}, roles={"half": ROLE}))

    def begun(self, play: str) -> Running:
        """Apply, and wait until the command stands in the middle."""
        running = Running(self.command.start("apply", play))
        self.until(lambda: (self.place / "pid").exists(), running)
        return running

    def until(self, true: Any, running: Running | None = None) -> None:
        end = time.monotonic() + 30
        while not true():
            assert time.monotonic() < end and (running is None or running.process.poll() is None), (
                running and running.lines
            )
            time.sleep(0.02)

    def restart(self) -> None:
        """End the command and all around it at once, as a restart of the host does."""
        around = {session_of(self.pid)}
        for record in self.folder.glob("state/jobs/*/[0-9]*/pid"):
            around.add(session_of(int(record.read_text().split()[0])))
        kill(*(member for number in around for member in session(number)))
        self.until(lambda: not any(map(session, around)))

    @property
    def pid(self) -> int:
        return int((self.place / "pid").read_text())

    def go(self) -> None:
        (self.place / "go").touch()

    @property
    def starts(self) -> int:
        return len((self.place / "starts").read_text().split())

    def assert_as_before(self) -> None:
        was, link = self.place / "was", self.place / "link"
        assert (was.read_text(), was.stat().st_mode & 0o777) == ("old", 0o640)
        assert not (self.place / "made").exists() and os.readlink(link) == "former"
        assert not list(self.folder.rglob(".gpuprov-*")), "a temporary file was left"

    def assert_made(self) -> None:
        assert [(self.place / name).read_text() for name in ("was", "made")] == ["new", "new"]
        assert os.readlink(self.place / "link") == "half"


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(tmp_path)
    yield ground
    ground.go()


def session_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3])


def said(result: Any, level: str = "warning") -> str:
    return "\n".join(event["text"] for event in result.of("notice", level=level))


HALF = "command:half"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_run_gives_back_itself_what_a_frame_had_half_made(ground: Ground, number: int) -> None:
    play = ground.play(long=False)
    running = ground.begun(play)
    os.kill(running.process.pid, number)
    result = running.finish(timeout=30)
    assert result.code == 130
    ground.assert_as_before()
    assert not alive(ground.pid)
    assert "was cut off in the middle of command:half (update)" in said(result)
    for name in ("was", "made", "link"):
        word = "removed" if name == "made" else "put back"
        assert f"{word} {ground.place / name}" in said(result)
    ground.go()
    again = ground.command("apply", play)
    assert again.outcomes("here") == {HALF: "changed"} and not said(again)
    ground.assert_made()


def test_of_several_hosts_none_cuts_short_how_another_gives_back(tmp_path: Path) -> None:
    """Seven of them, whose work is ended at different moments."""
    names = [f"h{n}" for n in range(7)]
    grounds = []
    for name in names:
        (tmp_path / name).mkdir()
        grounds.append(Ground(tmp_path / name))
    entries = {
        name: {
            "connection": "local",
            "become": "never",
            "paths": {"state": str(ground.folder / "state")},
            "vars": {"folder": str(ground.place)},
        }
        for name, ground in zip(names, grounds, strict=True)
    }
    command = Command(write_inventory(tmp_path / "hosts.yaml", entries))
    params = {"folder": "{{ folder }}", "long": "no", "status": "0"}
    play = str(playbook(tmp_path, {"hosts": "all", "roles": [{"half": params}]}, roles={"half": ROLE}))
    running = Running(command.start("apply", play))
    for ground in grounds:
        ground.until(lambda ground=ground: (ground.place / "pid").exists(), running)
    os.kill(running.process.pid, signal.SIGTERM)
    result = running.finish(timeout=60)
    assert {name: result.ended(name)["status"] for name in names} == dict.fromkeys(names, "interrupted")
    for ground in grounds:
        ground.assert_as_before()


@pytest.mark.parametrize("how", ["SIGTERM", "kill -9"])
def test_a_job_that_goes_on_is_followed_and_what_it_fails_with_is_given_back(ground: Ground, how: str) -> None:
    """To what was there before the first run, not to what was half made when the second began."""
    play = ground.play(long=True, status=3)
    running = ground.begun(play)
    if how == "SIGTERM":
        os.kill(running.process.pid, signal.SIGTERM)
        interrupted = running.finish(timeout=30)
        assert interrupted.code == 130 and "its job still runs on the host" in said(interrupted, "info")
    else:
        running.kill()
    assert (ground.place / "was").read_text() == "hal", "the job goes on, so that nothing is given back yet"
    second = Running(ground.command.start("apply", play))
    second.wait_for(lambda event: event["event"] == "node-output" and event["line"] == "half way")
    ground.go()
    result = second.finish()
    assert result.outcomes("here") == {HALF: "failed"} and ground.starts == 1
    (ended,) = result.of("node-ended", id=HALF)
    assert f"put back {ground.place}/was" in ended["error"]["message"]
    ground.assert_as_before()


def test_a_job_that_failed_meanwhile_is_given_back_before_the_next_look(ground: Ground) -> None:
    running = ground.begun(ground.play(long=True, status=3))
    running.kill()
    ground.go()
    ground.until(lambda: list(ground.folder.glob("state/jobs/*/1/rc")))
    result = ground.command("apply", ground.play(long=True))
    assert f"put back {ground.place}/was" in said(result)
    assert result.of("plan-line", id=HALF)[0]["before"] == "old"
    assert result.outcomes("here") == {HALF: "changed"}
    ground.assert_made()


def test_a_job_that_ended_well_meanwhile_is_not_undone(ground: Ground) -> None:
    play = ground.play(long=True)
    running = ground.begun(play)
    running.kill()
    ground.go()
    ground.until(lambda: list(ground.folder.glob("state/jobs/*/1/rc")))
    result = ground.command("apply", play)
    assert result.outcomes("here") == {HALF: "same"} and ground.starts == 1 and not said(result)
    ground.assert_made()
    assert not list(ground.folder.glob("state/journal/*/open/*"))


def test_a_frame_that_ended_well_although_its_controller_was_killed_is_not_undone(ground: Ground) -> None:
    play = ground.play(long=False)
    running = ground.begun(play)
    running.kill()
    ground.go()
    ground.until(lambda: not list(ground.folder.glob("state/journal/*/open/*")))
    result = ground.command("apply", play)
    assert result.outcomes("here") == {HALF: "same"} and ground.starts == 1 and not said(result)
    ground.assert_made()


@pytest.mark.parametrize("long", [False, True], ids=["frame", "job"])
def test_a_host_that_was_started_anew_is_as_before_when_the_next_run_looks(ground: Ground, long: bool) -> None:
    running = ground.begun(ground.play(long=long))
    running.kill()
    ground.restart()
    assert (ground.place / "was").read_text() == "hal"
    (ground.place / "pid").unlink()
    second = ground.begun(ground.play(long=long, status=4))
    ground.go()
    result = second.finish()
    assert f"removed {ground.place}/made" in said(result)
    assert result.of("plan-line", id=HALF)[0]["before"] == "old"
    assert result.outcomes("here") == {HALF: "failed"}
    ground.assert_as_before()


@pytest.mark.parametrize("long", [False, True], ids=["frame", "job"])
def test_what_is_ended_at_its_deadline_is_given_back(ground: Ground, long: bool) -> None:
    result = ground.command("apply", ground.play(long=long, deadline=1))
    (ended,) = result.of("node-ended", id=HALF)
    assert ended["outcome"] == "failed" and f"put back {ground.place}/was" in ended["error"]["message"]
    ground.assert_as_before()
    assert not list(ground.folder.glob("state/journal/*/open/*"))


@pytest.mark.parametrize(
    ("above", "then", "told"),
    [
        (0, "kill -9 $up", "ended with status 137 (as by signal 9)"),
        (1, "kill -9 $up; sleep 1", "ended with status 137 (as by signal 9)"),
        (2, "kill -9 $up; sleep 1", "ended with status 137 (as by signal 9)"),
        (3, "kill -9 $up; sleep 1", "ended with status 137 (as by signal 9)"),
        (0, "exit 137", "ended with status 137 (as by signal 9)"),
        (0, "exit 3", "ended with status 3"),
    ],
    ids=["its shell", "the steps' shell", "the section's shell", "the frame's shell", "exit 137", "exit 3"],
)
def test_what_goes_on_without_its_shell_is_ended_before_anything_is_given_back(
    ground: Ground, above: int, then: str, told: str
) -> None:
    params = {"folder": str(ground.place), "above": str(above), "then": then}
    play = str(playbook(ground.folder, {"hosts": "all", "roles": [{"killed": params}]}, roles={"killed": KILLED}))
    result = ground.command("apply", play)
    began = time.monotonic()
    (ended,) = result.of("node-ended", id="command:killed")
    message = ended["error"]["message"]
    assert ended["outcome"] == "failed" and told in message
    assert all(f"{word} {ground.place}/{name}" in message for word, name in (("put back", "was"), ("removed", "made")))
    ground.assert_as_before()
    while time.monotonic() < began + 1.8:
        assert not (ground.place / "late").exists(), "it went on after it was told as failed"
        time.sleep(0.1)
    ground.assert_as_before()
    log = [path.read_text().split("\t")[0] for path in ground.folder.glob("state/journal/*/log")]
    assert log == ["undone"] and not list(ground.folder.glob("state/journal/*/open/*"))


def test_what_somebody_wrote_after_a_crash_is_kept_and_the_plan_says_what_will_be_put_back(ground: Ground) -> None:
    play = ground.play(long=False)
    running = ground.begun(play)
    running.kill()
    ground.restart()
    (ground.place / "was").write_text("by hand")
    seen = ground.command("plan", play)
    assert seen.ended("here")["exchanges"] == 2
    told = (
        f"was cut off in the middle of command:half (update); before it looks, an apply will put back {ground.place}/"
    )
    assert told in said(seen) and f"remove {ground.place}/made" in said(seen)
    assert (ground.place / "was").read_text() == "by hand"
    ground.go()
    result = ground.command("apply", play)
    (kept,) = (
        path
        for path in ground.folder.glob("state/journal/*/kept/*")
        if path.is_file() and path.read_text() == "by hand"
    )
    assert f"put back {ground.place}/was (what was there is kept as {kept})" in said(result)
    ground.assert_made()
    assert not said(ground.command("plan", play))
