"""Every row of the table of states, with real processes."""

# ruff: noqa: ASYNC220, ASYNC240  # what the tests look at from outside is local and quick

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import secrets
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuprov.errors import Locked
from gpuprov.jobs import JobInfo, Jobs, runner
from gpuprov.model import Id
from gpuprov.quote import quote
from tests.jobs.conftest import Controller
from tests.jobs.hosts import SHELLS, Faulty, Lines, Place, alive, job, kill, path_for, session, start_text, until

SLOT = Id("env:/opt/a b")
Places = Callable[[str], Place]


async def only(jobs: Jobs) -> JobInfo:
    (info,) = await jobs.look()
    return info


def is_free(lock: Path) -> bool:
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@pytest.mark.parametrize("sh", SHELLS)
async def test_nothing_there(controller: Controller, state: Path, place: Places, tmp_path: Path, sh: str) -> None:
    jobs = await controller(path=path_for(tmp_path / "bin", sh))
    lines = Lines()
    text = r"""
        [ "$PWD" = "$GPUPROV_WORK" ] && [ -z "$(ls -A)" ] && echo fresh
        cat; ls -l /proc/self/fd | grep -c lock
        printf 'no newline: %s' "$-"
        touch left; sh -c 'exit 7'
        echo unreached
    """
    result = await jobs.run(SLOT, job(text), digest="d1", on_line=lines.append)
    assert lines[:2] == ["fresh", "1"]
    assert re.fullmatch("no newline: .*e.*u.*|no newline: .*u.*e.*", lines[2])
    assert (result.status, result.attempt, result.how, result.followed) == (7, 1, "ended", False)
    assert result.tail == "\n".join(lines)
    info = await only(jobs)
    assert (info.slot, info.state, info.status, info.how, info.digest) == (SLOT, "ended", 7, "ended", "d1")
    assert info.owner == "ada@controller, run 20261130-133250-4f1c"
    assert "no newline" in info.last and info.age is not None and info.age < 30
    assert oct(state.stat().st_mode & 0o777) == "0o700"


async def test_running_same_digest_is_followed(controller: Controller, state: Path, tmp_path: Path) -> None:
    text = f"echo one; echo ran >>{tmp_path}/ran; sleep 1; echo two"
    first, second = await controller(), await controller()
    one, two, three = Lines(), Lines(), Lines()
    task = asyncio.create_task(first.run(SLOT, job(text), digest="d", on_line=one.append))
    await one.until("one")
    again = asyncio.create_task(first.run(SLOT, job(text), digest="d", on_line=three.append))
    followed = await second.run(SLOT, job(text), digest="d", on_line=two.append)
    started = await task
    assert one == two == three == ["one", "two"]
    assert (started.followed, followed.followed, (await again).followed) == (False, True, True)
    assert started.attempt == followed.attempt == 1
    assert (tmp_path / "ran").read_text() == "ran\n"


async def test_conflict_waits(controller: Controller) -> None:
    first, second = await controller(), await controller()
    one, two = Lines(), Lines()
    task = asyncio.create_task(first.run(SLOT, job("echo old; sleep 1.2; echo done"), digest="old", on_line=one.append))
    await one.until("old")
    gave_up = await first.run(SLOT, job("true", deadline=0.2), digest="other", on_line=Lines().append)
    assert (gave_up.how, gave_up.status, gave_up.attempt) == ("conflict", None, 1)
    assert (await only(second)).state == "running"
    result = await second.run(SLOT, job("echo new"), digest="new", on_line=two.append)
    assert (await task).status == 0
    assert (result.status, result.attempt, result.followed) == (0, 2, False)
    assert two[0].startswith("gpuprov: waiting for attempt 1 of another version of this job, started by ada@")
    assert two[1:] == ["new"]


async def test_orphaned_while_followed(controller: Controller, place: Places) -> None:
    jobs, lines = await controller(), Lines()
    task = asyncio.create_task(jobs.run(SLOT, job("echo a; sleep 60 & sleep 60"), digest="d", on_line=lines.append))
    await place(SLOT).begun()
    group = place(SLOT).group()
    await lines.until("a")
    kill(place(SLOT).runner())
    result = await asyncio.wait_for(task, 15)
    assert (result.how, result.status, result.attempt) == ("died", None, 1)
    assert not session(group)
    assert (await only(jobs)).state == "died"


@pytest.mark.parametrize("sh", SHELLS)
async def test_orphaned_before(controller: Controller, place: Places, tmp_path: Path, sh: str) -> None:
    path = path_for(tmp_path / "bin", sh)
    first, jobs = await controller(path=path), await controller(path=path)
    lines = Lines()
    text = "if [ -e ../second ]; then ls; echo again; else touch left; timeout 60 sleep 60 & sleep 60; fi"
    task = asyncio.create_task(first.run(SLOT, job(text), digest="d", on_line=lines.append))
    await place(SLOT).begun()
    task.cancel()
    await asyncio.wait([task])
    await first.close()
    group = place(SLOT).group()
    assert (await only(jobs)).state == "running"
    kill(place(SLOT).runner())
    await until(lambda: not alive(place(SLOT).runner()))
    assert (await only(jobs)).state == "orphaned"
    (place(SLOT).folder / "second").touch()
    result = await jobs.run(SLOT, job(text), digest="d", on_line=lines.append)
    assert (result.status, result.attempt, result.followed) == (0, 2, False)
    assert lines == ["gpuprov: attempt 1 lost its runner; what is left of it is ended first", "again"]
    assert not session(group)


async def test_an_orphan_that_hides_is_found_by_the_lock_it_holds(
    controller: Controller, place: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_GRACE", 1.0)
    jobs, lines = await controller(), Lines()
    text = f"env -i setsid sleep 61 & echo $! >{tmp_path}/hidden; sleep 0.2; echo up; sleep 60"
    task = asyncio.create_task(jobs.run(SLOT, job(text), digest="d", on_line=lines.append))
    await lines.until("up")
    hidden = int((tmp_path / "hidden").read_text())
    kill(place(SLOT).runner())
    assert (await asyncio.wait_for(task, 15)).how == "died"
    assert not alive(hidden)


async def test_ended_never_counts(controller: Controller) -> None:
    jobs, lines = await controller(), Lines()
    for attempt in (1, 2):
        result = await jobs.run(SLOT, job("echo x"), digest="d", on_line=lines.append)
        assert (result.status, result.attempt, result.followed) == (0, attempt, False)
    assert lines == ["x", "x"]


async def test_a_daemon_left_behind_is_harmless(controller: Controller, tmp_path: Path) -> None:
    jobs = await controller()
    text = f"setsid sleep 60 >/dev/null 2>&1 & echo $! >>{tmp_path}/daemons"
    for attempt in (1, 2):
        result = await asyncio.wait_for(jobs.run(SLOT, job(text, locks={"apt"}), digest="d", on_line=Lines().append), 5)
        assert (result.attempt, result.how) == (attempt, "ended")
    daemons = [int(line) for line in (tmp_path / "daemons").read_text().split()]
    assert all(map(alive, daemons))


@pytest.mark.parametrize("sh", SHELLS)
async def test_a_job_whose_shell_alone_is_killed_is_not_over_while_the_rest_writes(
    controller: Controller, place: Places, tmp_path: Path, sh: str
) -> None:
    jobs, lines = await controller(path=path_for(tmp_path / "bin", sh)), Lines()
    # Something that first tidies up for a second: until it has, nobody may have slot and lock
    writer = "trap 'sleep 1; echo tidy >>written; exit 0' TERM; while :; do echo x >>written; sleep 0.05; done"
    text = f"cd {tmp_path}; sh -c {quote(writer)} & timeout 60 sleep 60 & echo up; wait"
    task = asyncio.create_task(jobs.run(SLOT, job(text, locks={"apt"}), digest="d", on_line=lines.append))
    await lines.until("up")
    shell = place(SLOT).group()
    kill(shell)
    await until(lambda: not alive(shell))
    assert session(shell), "the test's own ground: something is left"
    assert (await only(jobs)).state == "running"
    locks = [place(SLOT).folder / "lock", place(SLOT).folder.parents[1] / "locks" / "apt"]
    assert not any(map(is_free, locks))
    result = await asyncio.wait_for(task, 15)
    assert (result.how, result.status, result.attempt) == ("ended", 137, 1)
    assert not session(shell)
    assert (tmp_path / "written").read_text().endswith("x\ntidy\n")
    assert "gpuprov: its shell ended with status 137, so what it left is ended: " in result.tail
    await place(SLOT).over()
    assert all(map(is_free, locks))


async def test_what_a_failed_job_left_is_ended_and_a_service_of_a_successful_one_is_not(
    controller: Controller, place: Places, tmp_path: Path
) -> None:
    jobs = await controller()
    left = f"trap '' TERM; while :; do echo x >>{tmp_path}/written; sleep 0.05; done"
    text = f"sh -c {quote(left)} & sleep 0.2; exit "
    good = await jobs.run(Id("good"), job(f"{text} 0"), digest="d", on_line=Lines().append)
    assert good.status == 0 and session(place("good").group())
    kill(*session(place("good").group()))
    bad = await jobs.run(Id("bad"), job(f"{text} 3"), digest="d", on_line=Lines().append)
    assert (bad.how, bad.status) == ("ended", 3) and not session(place("bad").group())


async def test_died_is_done_anew_with_fresh_work(controller: Controller, place: Places) -> None:
    jobs, lines = await controller(), Lines()
    text = "touch left; echo up; [ -e ../second ] || sleep 60; ls"
    task = asyncio.create_task(jobs.run(SLOT, job(text), digest="d", on_line=lines.append))
    await lines.until("up")
    kill(place(SLOT).runner())
    os.killpg(place(SLOT).group(), signal.SIGKILL)
    assert (await asyncio.wait_for(task, 10)).how == "died"
    info = await only(jobs)
    assert (info.state, info.last, info.status) == ("died", "up", None)
    (place(SLOT).folder / "work" / "more").touch()
    (place(SLOT).folder / "second").touch()
    result = await jobs.run(SLOT, job(text), digest="d", on_line=lines.append)
    assert (result.status, result.attempt) == (0, 2)
    assert lines == ["up", "up", "left"]


@pytest.mark.parametrize("wrong", ["boot", "start"])
async def test_a_recycled_pid_is_not_the_runner(controller: Controller, place: Places, wrong: str) -> None:
    """After a restart of the host, or of its container, the pid may be anybody's."""
    jobs = await controller()
    await jobs.run(SLOT, job("true"), digest="d", on_line=Lines().append)
    await place(SLOT).over()
    attempt = place(SLOT).attempt(1)
    (attempt / "rc").unlink()
    _, _, boot, *_ = (attempt / "pid").read_text().split()
    start = Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[19]
    kernel, pid1 = boot.split("+")
    if wrong == "boot":
        (attempt / "pid").write_text(f"{os.getpid()} {start} {kernel}+{int(pid1) + 1} - - .\n")
    else:
        (attempt / "pid").write_text(f"{os.getpid()} {int(start) + 1} {boot} - - .\n")
    assert (await only(jobs)).state == "died"


async def test_numbers_go_on_after_a_slot_was_moved_aside(controller: Controller, place: Places) -> None:
    jobs = await controller()
    assert (await jobs.run(SLOT, job("true"), digest="d", on_line=Lines().append)).attempt == 1
    place(SLOT).folder.rename(place(SLOT).folder.with_suffix(".aside"))
    assert (await jobs.run(SLOT, job("true"), digest="d", on_line=Lines().append)).attempt == 2


async def test_old_attempts_are_pruned(controller: Controller, place: Places) -> None:
    jobs = await controller()
    for _ in range(7):
        await jobs.run(SLOT, job("true"), digest="d", on_line=Lines().append)
    assert sorted(p.name for p in place(SLOT).folder.iterdir() if p.name.isdigit()) == ["3", "4", "5", "6", "7"]


@pytest.mark.parametrize("content", ["", "1 d", "garbage\0\xff\n"])
@pytest.mark.parametrize("name", ["now", "pid"])
async def test_a_damaged_record_of_a_running_job(
    controller: Controller, place: Places, name: str, content: str
) -> None:
    jobs, lines = await controller(), Lines()
    text = "echo up; until [ -e ../go ]; do sleep 0.05; done; echo done"
    task = asyncio.create_task(jobs.run(SLOT, job(text), digest="d", on_line=lines.append))
    await lines.until("up")
    folder = place(SLOT).folder
    runner_pid = place(SLOT).runner()
    if name == "pid":
        # Long ago, so that nobody takes it for being started.
        for record in (folder / "now", folder / "1/job"):
            words = record.read_text().split()
            record.write_text(" ".join([*words[:6], str(int(words[6]) - 6000), "."]) + "\n")
    (folder / {"now": "now", "pid": "1/pid"}[name]).write_text(content)
    info = await only(jobs)
    assert (info.state, info.attempt, info.digest) == ("running", 1, "d")
    await asyncio.sleep(0.5)
    (folder / "go").touch()
    assert (await asyncio.wait_for(task, 10)).status == 0
    assert lines == ["up", "done"]
    await until(lambda: not alive(runner_pid))


@pytest.mark.parametrize("content", ["", "0", "0 ended", "0 ended \n", "0 won .\n", "x ended .\n", "\0\n"])
async def test_a_damaged_status_is_none(controller: Controller, place: Places, content: str) -> None:
    jobs = await controller()
    await jobs.run(SLOT, job("true"), digest="d", on_line=Lines().append)
    await place(SLOT).over()
    rc = place(SLOT).attempt(1) / "rc"
    assert rc.read_text() == "0 ended .\n"
    rc.write_text(content)
    info = await only(jobs)
    assert (info.state, info.status) == ("died", None)


async def test_of_twenty_starts_one_runs(controller: Controller, state: Path, place: Places, tmp_path: Path) -> None:
    text = f"echo ran >>{tmp_path}/ran; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    shells = list(SHELLS.values()) * 7
    starts = [
        subprocess.Popen(
            [*shells[n], "-c", start_text(state, SLOT, text, nonce=secrets.token_hex(8))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(20)
    ]
    said = sorted(start.communicate(timeout=20)[0].strip() for start in starts)
    assert said == ["running 1"] * 19 + ["started 1"]
    jobs = await controller()
    (tmp_path / "go").touch()
    await until(lambda: (place(SLOT).attempt(1) / "rc").exists())
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert (await only(jobs)).state == "ended"


@pytest.mark.parametrize("hold", [0.0, 1.5], ids=["still running", "ended meanwhile"])
async def test_an_answer_that_is_lost_starts_nothing_twice(controller: Controller, tmp_path: Path, hold: float) -> None:
    jobs = await controller(lambda inner: Faulty(inner, lose=1, hold=hold))
    lines = Lines()
    text = f"echo ran >>{tmp_path}/ran; sleep 0.8; echo x"
    result = await jobs.run(SLOT, job(text), digest="d", on_line=lines.append)
    assert (result.status, result.attempt, result.followed) == (0, 1, False)
    assert lines == ["x"]
    assert (tmp_path / "ran").read_text() == "ran\n"


async def test_what_outlives_kill_is_named(
    controller: Controller, place: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that nobody lets go of stands in for a process in uninterruptible sleep."""
    monkeypatch.setattr(runner, "_GRACE", 0.2)
    jobs = await controller()
    await jobs.run(SLOT, job("true"), digest="d", on_line=Lines().append)
    await place(SLOT).over()
    (place(SLOT).attempt(1) / "rc").unlink()
    holder = os.open(place(SLOT).folder / "lock", os.O_RDWR)
    held = fcntl.fcntl(holder, fcntl.F_DUPFD_CLOEXEC, 100)  # on descriptor 9 it would be taken for the job
    os.close(holder)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        with pytest.raises(Locked, match="what is left of attempt 1 of env:/opt/a b outlives KILL"):
            await jobs.cancel(SLOT)
    finally:
        os.close(held)
