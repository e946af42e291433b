"""How jobs are ended and held up: cancel, deadline, silence, named locks; and what they must not give away."""

# ruff: noqa: ASYNC240  # what the tests look at from outside is local and quick

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuprov.errors import StepFailed
from gpuprov.jobs import Jobs
from gpuprov.jobs.lock import Owner
from gpuprov.model import Id
from gpuprov.onhost import script
from gpuprov.secret import Secret
from gpuprov.transport.local import LocalConnection
from tests.jobs.conftest import Controller
from tests.jobs.hosts import SHELLS, Lines, Place, job, path_for, session

SLOT = Id("toolkit:12.1")
Places = Callable[[str], Place]

STUBBORN = "trap '' TERM; (trap '' TERM; timeout 60 sleep 60) & echo up; while :; do sleep 1; done"


@pytest.mark.parametrize("sh", SHELLS)
async def test_cancel(controller: Controller, place: Places, tmp_path: Path, sh: str) -> None:
    path = path_for(tmp_path / "bin", sh)
    first, second = await controller(path=path), await controller(path=path)
    lines = Lines()
    text = "echo up; timeout 60 sleep 60 & sleep 60"
    task = asyncio.create_task(first.run(SLOT, job(text), digest="d", on_line=lines.append))
    await lines.until("up")
    assert await second.cancel(SLOT)
    result = await asyncio.wait_for(task, 10)
    assert (result.how, result.status, result.attempt) == ("cancelled", 143, 1)
    assert not session(place(SLOT).group())
    assert not await second.cancel(SLOT)
    (info,) = await second.look()
    assert (info.state, info.how) == ("ended", "cancelled")
    assert not await second.cancel(Id("never there"))


async def test_stubborn_ones_are_killed_after_the_grace(controller: Controller, place: Places) -> None:
    jobs, lines = await controller(), Lines()
    task = asyncio.create_task(jobs.run(SLOT, job(STUBBORN), digest="d", on_line=lines.append))
    other = asyncio.create_task(jobs.run(Id("b"), job(STUBBORN, deadline=0.5), digest="d", on_line=Lines().append))
    await lines.until("up")
    began = time.monotonic()
    assert await jobs.cancel(SLOT)
    assert 4 < time.monotonic() - began < 9
    cancelled, overdue = await asyncio.wait_for(task, 5), await asyncio.wait_for(other, 5)
    assert (cancelled.how, cancelled.status) == ("cancelled", 137)
    assert (overdue.how, overdue.status) == ("deadline", 137)
    assert not session(place(SLOT).group()) | session(place("b").group())


@pytest.mark.parametrize("sh", SHELLS)
async def test_deadline(controller: Controller, place: Places, tmp_path: Path, sh: str) -> None:
    jobs, lines = await controller(path=path_for(tmp_path / "bin", sh)), Lines()
    text = "while :; do echo tick; sleep 0.2; done"
    began = time.monotonic()
    result = await jobs.run(SLOT, job(text, deadline=1.0), digest="d", on_line=lines.append)
    assert (result.how, result.status) == ("deadline", 143)
    assert 0.9 < time.monotonic() - began < 4
    assert not session(place(SLOT).group())
    assert "gpuprov: it ran for 1 s, its deadline, so it is ended; it was at: " in result.tail


async def test_silence_says_what_it_waited_on(controller: Controller) -> None:
    jobs, lines = await controller(), Lines()
    text = "for i in 1 2 3 4; do echo $i; sleep 0.3; done; sleep 61 | cat"
    result = await jobs.run(SLOT, job(text, silence=1.0), digest="d", on_line=lines.append)
    assert (result.how, result.status) == ("silent", 143)
    assert lines[:4] == ["1", "2", "3", "4"]
    assert re.search(r"it was silent for 1 s, so it is ended; it was at: .*\d+ sleep \(S.*\).*\d+ cat \(S", lines[4])


async def test_a_lock_is_waited_for_and_its_holder_named(controller: Controller, tmp_path: Path) -> None:
    jobs, one, two, three = await controller(), Lines(), Lines(), Lines()
    busy = job(f"echo one; sleep 1.2; echo one >>{tmp_path}/order", locks={"apt"})
    first = asyncio.create_task(jobs.run(Id("apt:a"), busy, digest="d", on_line=one.append))
    await one.until("one")
    waits = job(f"echo two; echo two >>{tmp_path}/order", locks={"conda", "apt"})
    second = asyncio.create_task(jobs.run(Id("apt:b"), waits, digest="d", on_line=two.append))
    await two.until("waiting for the lock apt, held by apt_a-")
    # Sorted: whoever waits for apt does not hold conda meanwhile.
    free = await jobs.run(Id("env:c"), job("echo three", locks={"conda"}), digest="d", on_line=three.append)
    assert free.status == 0 and not second.done() and three == ["three"]
    assert [(await first).status, (await second).status] == [0, 0]
    assert (tmp_path / "order").read_text() == "one\ntwo\n"
    assert two[1:] == ["two"]


@pytest.mark.parametrize("how", ["cancelled", "deadline"])
async def test_one_that_waits_for_a_lock_can_be_ended(controller: Controller, how: str) -> None:
    jobs, one, two = await controller(), Lines(), Lines()
    first = asyncio.create_task(
        jobs.run(Id("a"), job("echo up; sleep 60", locks={"apt"}), digest="d", on_line=one.append)
    )
    await one.until("up")
    waits = job("echo unreached", locks={"apt"}, deadline=60 if how == "cancelled" else 0.5)
    second = asyncio.create_task(jobs.run(Id("b"), waits, digest="d", on_line=two.append))
    await two.until("waiting for the lock")
    if how == "cancelled":
        assert await jobs.cancel(Id("b"))
    assert (await asyncio.wait_for(second, 10)).how == how
    assert "unreached" not in two
    await jobs.cancel(Id("a"))
    assert (await first).how == "cancelled"


async def test_a_secret_is_nowhere_but_in_the_environment(controller: Controller, state: Path) -> None:
    jobs, lines = await controller(), Lines()
    canary = "canary-9f\"'$x 7\n second line"
    text = "printf '%s' \"$TOKEN\" | wc -c; sh -c 'echo up; sleep 1'; printf '%s\\n' \"$PLAIN\""
    env: dict[str, str | Secret] = {"TOKEN": Secret(canary), "PLAIN": "it's"}
    task = asyncio.create_task(jobs.run(SLOT, job(text, env=env), digest="d", on_line=lines.append))
    await lines.until("up")
    seen = [p for p in Path("/proc").glob("[0-9]*/cmdline") if p.parent.name != str(os.getpid())]
    written = [p for p in state.rglob("*") if p.is_file()]
    assert len(written) > 5
    for path in seen + written:
        try:
            assert b"canary-9f" not in path.read_bytes(), path
        except OSError:
            continue
    result = await task
    assert result.status == 0
    assert lines == [str(len(canary)), "up", "it's"]


async def test_a_secret_that_a_job_prints_is_shown_nowhere(controller: Controller) -> None:
    jobs, lines = await controller(), Lines()
    asked = job("echo token=$TOKEN", env={"TOKEN": Secret("canary-9f")})
    result = await jobs.run(SLOT, asked, digest="d", on_line=lines.append)
    (info,) = await jobs.look()
    assert lines == [result.tail] == [info.last] == ["token=***"]


ODD = ["a/../../b", "..", " ", "it's", 'say "x"', "new\nline", "ünï", "$(touch x)`", "*", "-n", "x" * 300, "-"]


async def test_slots_with_odd_names(controller: Controller, state: Path) -> None:
    jobs = await controller()
    await asyncio.gather(*(jobs.run(Id(name), job("echo x"), digest=name, on_line=Lines().append) for name in ODD))
    found = {info.slot: (info.state, info.status, info.digest) for info in await jobs.look()}
    assert found == {name: ("ended", 0, name) for name in ODD}
    assert {p.name for p in state.parent.iterdir()} == {state.name}


@pytest.mark.parametrize("tool", ["flock", "setsid"])
async def test_a_missing_tool_is_named_with_its_package(controller: Controller, tmp_path: Path, tool: str) -> None:
    jobs = await controller(path=path_for(tmp_path / "bin", without=tool))
    with pytest.raises(StepFailed, match=f"this host has no {tool} command") as caught:
        await jobs.run(SLOT, job("true"), digest="d", on_line=Lines().append)
    assert caught.value.hint == "install the package util-linux"
    assert await jobs.look() == []
    assert not await jobs.cancel(SLOT)


@pytest.mark.parametrize("sh", SHELLS)
def test_a_missing_flock_is_not_a_held_lock(tmp_path: Path, sh: str) -> None:
    path = path_for(tmp_path / "bin", sh, without="flock")
    (tmp_path / "lock").touch()
    text = f"{script('job_state')}\ngp_is_held {tmp_path}; echo $?"
    done = subprocess.run([f"{path}/sh", "-c", text], env={"PATH": path}, capture_output=True, text=True, timeout=10)
    assert done.stdout == "2\n"


async def test_a_state_folder_that_cannot_be_written(tmp_path: Path) -> None:
    connection = LocalConnection("here", become=False)
    (tmp_path / "file").touch()
    jobs = Jobs(connection, f"{tmp_path}/file/state", owner=Owner.here("r"))
    try:
        with pytest.raises(StepFailed, match=f"the state folder cannot be written: {tmp_path}/file/state"):
            await jobs.run(SLOT, job("true"), digest="d", on_line=Lines().append)
        assert await jobs.look() == []
    finally:
        await jobs.close()
        await connection.close()


async def test_a_state_folder_decided_on_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    connection = LocalConnection("here", become=False)
    jobs = Jobs(connection, "~/my state", owner=Owner.here("r"))
    try:
        # The job's own HOME must not move the folder.
        asked = job("echo $HOME", env={"HOME": "/nowhere"})
        assert (await jobs.run(SLOT, asked, digest="d", on_line=Lines().append)).tail == "/nowhere"
    finally:
        await jobs.close()
        await connection.close()
    assert (tmp_path / "my state/jobs").is_dir()


async def test_without_root(tmp_path: Path) -> None:
    shell = tmp_path / "shell"
    shell.write_text(
        "#!/bin/sh\n"
        '[ "$(id -u)" != 0 ] || exec setpriv --reuid=65534 --regid=65534 --clear-groups /bin/sh "$@"\n'
        'exec /bin/sh "$@"\n'
    )
    shell.chmod(0o755)
    connection = LocalConnection("here", become=False, shell=str(shell), reconnect_for=5.0)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o777)
    jobs, lines = Jobs(connection, str(home / "state"), owner=Owner.here("r")), Lines()
    try:
        assert (await jobs.run(SLOT, job("id -u", locks={"x"}), digest="d", on_line=lines.append)).status == 0
        asked = job("echo up; sleep 60")
        task = asyncio.create_task(jobs.run(SLOT, asked, digest="d", on_line=lines.append))
        await lines.until("up")
        assert await jobs.cancel(SLOT)
        assert (await task).how == "cancelled"
    finally:
        await jobs.close()
        await connection.close()
    assert lines[0] == str(65534 if os.geteuid() == 0 else os.getuid())


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (job("x" * 300_000), "longer than 200 KiB"),
        (job("true", locks={"a/b"}), "name of a lock"),
        (job("true", locks=set("abcdef")), "at most 5"),
        (job("true", env={"A-B": "x"}), "environment variable"),
        (job("true", env={"GPUPROV_JOB": "x"}), "environment variable"),
        (job("echo \0"), "NUL"),
    ],
)
async def test_what_cannot_be_sent_is_refused(controller: Controller, asked: object, words: str) -> None:
    jobs = await controller()
    with pytest.raises(ValueError, match=words):
        await jobs.run(SLOT, asked, digest="d", on_line=Lines().append)  # type: ignore[arg-type]
