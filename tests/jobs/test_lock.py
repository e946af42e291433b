"""The host lock, between real shells."""

# ruff: noqa: ASYNC240  # what the tests look at from outside is local and quick

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.errors import LineLost, Locked
from gpuprov.jobs import Jobs, LockState, Owner, acquire, heartbeat, parse, release
from gpuprov.jobs.slot import as_word
from gpuprov.model import Id
from gpuprov.transport.frame import Frame, Section, SectionResult
from gpuprov.transport.local import LocalConnection
from tests.jobs.hosts import Lines, alive, job, kill, path_for, session, until

ADA = Owner(run="run a", host="one", user="ada", pid=1)
BEA = Owner(run="run-b", host="two's", user="bea $x", pid=2)


class Host:
    """One controller's line to this machine, and what it does with the lock."""

    def __init__(self, connection: LocalConnection, state: str) -> None:
        self.connection = connection
        self.state = state

    async def take(self, owner: Owner, *, silent_after: float = 120.0, protected: Sequence[str] = ()) -> LockState:
        frame = Frame(
            sections=(Section(name="ran", script="true"),),
            before=acquire(owner, self.state, silent_after=silent_after, protected=protected),
        )
        result = await asyncio.wait_for(self.connection.frame(frame), 20)
        state = parse(result.sections["before"])
        assert state.held == ("ran" in result.sections), "nothing runs without the lock"
        return state

    async def let_go(self, owner: Owner) -> None:
        frame = Frame(sections=(Section(name="ran", script="true"),), before=release(owner, self.state))
        assert "ran" in (await self.connection.frame(frame)).sections

    async def beat(self, owner: Owner) -> LockState:
        frame = Frame(sections=(Section(name="beat", script=heartbeat(owner, self.state)),))
        return parse((await self.connection.frame(frame)).sections["beat"])

    async def shell(self) -> int:
        """The pid of the persistent shell."""
        frame = Frame(sections=(Section(name="x", script="true"),), before="echo $$")
        return int((await self.connection.frame(frame)).sections["before"].stdout)


Hosts = Callable[..., Awaitable[Host]]


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Hosts]:
    made: list[LocalConnection] = []

    async def make(*, state: str = "", path: str = "") -> Host:
        before = os.environ["PATH"]
        os.environ["PATH"] = path or before
        try:
            shell = f"{path.split(':')[0]}/sh" if path else "/bin/sh"
            made.append(LocalConnection("here", become=False, shell=shell, grace=1.0))
            await made[-1].open()
        finally:
            os.environ["PATH"] = before
        return Host(made[-1], state or str(tmp_path / "st ate"))

    yield make
    for connection in made:
        await connection.close()


KINDS = [("dash", "flock"), ("busybox", "flock"), ("bash", "mkdir"), ("busybox", "mkdir")]


@pytest.fixture(params=KINDS, ids="-".join)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A PATH for each shell, with and without flock, and what holds the lock there."""
    sh, by = request.param
    return path_for(tmp_path / "bin", sh, without="" if by == "flock" else "flock"), by


@pytest.mark.parametrize("what", ["conda", "nvcc"])
async def test_no_state_is_kept_in_what_others_live_on(host: Hosts, tmp_path: Path, what: str) -> None:
    base = tmp_path / "base"
    (base / "bin").mkdir(parents=True)
    (base / "conda-meta").mkdir()
    (base / "version.json").touch()
    (base / "bin" / what).touch(mode=0o755)
    line = await host(state=f"{base}/x/state")
    state = await line.take(ADA)
    assert not state.held and f"{base}: give paths.state a folder of its own" in state.reason
    assert not (base / "x").exists()


async def test_no_state_is_kept_where_a_link_leads_into_what_is_protected(
    host: Hosts, kind: tuple[str, str], tmp_path: Path
) -> None:
    path, _ = kind
    keys = tmp_path / "home/someone/.ssh"
    keys.mkdir(parents=True)
    (tmp_path / "link").symlink_to(keys)
    (tmp_path / "open").symlink_to(tmp_path / "home/someone")
    protected = (f"{tmp_path}/other", f"{tmp_path}/home/*/.ssh")
    for place in ("link", "link/x/y", "open/.ssh", "home/someone/.ssh"):
        line = await host(path=path, state=f"{tmp_path}/{place}")
        state = await line.take(ADA, protected=protected)
        assert not state.held and f"{keys}, which is protected" in state.reason, place
    assert not list(keys.iterdir())
    line = await host(path=path, state=f"{tmp_path}/open/state")
    assert (await line.take(ADA, protected=protected)).held


async def test_one_holds_and_the_other_is_told(host: Hosts, kind: tuple[str, str]) -> None:
    path, by = kind
    one, two = await host(path=path), await host(path=path)
    mine = await one.take(ADA)
    assert (mine.held, mine.by, mine.owner, mine.state) == (True, by, None, one.state)
    assert oct(Path(one.state).stat().st_mode & 0o777) == "0o700"
    assert (await one.take(ADA)).held, "asking again lets nothing go"
    await asyncio.sleep(0.3)
    other = await two.take(BEA)
    assert (other.held, other.owner) == (False, ADA)
    assert other.silent is not None and 0.2 < other.silent < 10
    assert other.since is not None and other.since >= other.silent
    assert "held by ada@one (run run a, pid 1), last heard " in other.reason
    assert ("no flock command (package util-linux)" in mine.reason) == (by == "mkdir")
    assert not (await two.beat(BEA)).held
    assert (await one.beat(ADA)).held
    again = (await two.take(BEA)).silent
    assert again is not None and again < 5
    await two.let_go(BEA)
    assert not (await two.take(BEA)).held, "another's lock is left alone"
    await one.let_go(ADA)
    assert (await two.take(BEA)).held
    assert (await one.take(ADA)).owner == BEA
    assert not (await one.beat(ADA)).held


async def test_it_is_free_when_its_shell_is_gone(host: Hosts, kind: tuple[str, str]) -> None:
    path, _ = kind
    one, two = await host(path=path), await host(path=path)
    assert (await one.take(ADA)).held
    shell = await one.shell()
    kill(shell)
    await until(lambda: not alive(shell))
    assert (await two.take(BEA)).held


HANGING = Frame(sections=(Section(name="hangs", script="trap '' TERM; timeout 60 sleep 61 & sleep 62"),))


async def test_a_silent_owner_is_fenced_with_all_its_session(host: Hosts, kind: tuple[str, str]) -> None:
    path, _ = kind
    one, two = await host(path=path), await host(path=path)
    assert (await one.take(ADA)).held
    shell = await one.shell()
    task = asyncio.create_task(one.connection.frame(HANGING))
    await until(lambda: len(session(shell)) >= 4)
    await asyncio.sleep(0.5)
    assert not (await two.take(BEA, silent_after=60)).held
    assert alive(shell)
    assert (await two.take(BEA, silent_after=0.5)).held
    assert not session(shell)
    with pytest.raises(LineLost):
        await asyncio.wait_for(task, 10)
    assert (await two.beat(BEA)).held


async def test_what_a_dead_shell_left_does_not_write_beside_us(host: Hosts, kind: tuple[str, str]) -> None:
    path, _ = kind
    one, two = await host(path=path), await host(path=path)
    assert (await one.take(ADA)).held
    shell = await one.shell()
    task = asyncio.create_task(one.connection.frame(HANGING))
    await until(lambda: len(session(shell)) >= 4)
    kill(shell)
    assert (await two.take(BEA)).held
    assert not session(shell)
    with pytest.raises(LineLost):
        await asyncio.wait_for(task, 10)


async def test_a_run_that_comes_back_ends_its_predecessor_at_once(host: Hosts, kind: tuple[str, str]) -> None:
    path, _ = kind
    one, two = await host(path=path), await host(path=path)
    assert (await one.take(ADA)).held
    shell = await one.shell()
    assert (await two.take(ADA)).held
    assert not session(shell)


async def test_a_recycled_shell_pid_is_nobody(host: Hosts, tmp_path: Path) -> None:
    """The record names a pid that is another process by now: it must not be ended."""
    one, two = await host(), await host()
    assert (await one.take(ADA)).held
    bystander = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    record = Path(one.state) / "owner"
    words = record.read_text().split()
    words[4], words[6] = str(bystander.pid), str(bystander.pid)
    record.write_text(" ".join(words) + "\n")
    state = await two.take(ADA, silent_after=0.0)
    assert not state.held
    assert bystander.returncode is None and alive(bystander.pid)
    bystander.kill()
    await bystander.wait()


@pytest.mark.parametrize("damage", ["", "run a", "x y z\n", "\0\xff\n", "a b c d e f g h i .\n"])
async def test_a_damaged_record_hinders_nobody(host: Hosts, damage: str) -> None:
    one, two = await host(), await host()
    assert (await one.take(ADA)).held
    (Path(one.state) / "owner").write_text(damage)
    state = await two.take(BEA, silent_after=0.0)
    assert (state.held, state.reason[:29]) == (False, "the lock could not be taken; ")
    kill(await one.shell())
    assert (await two.take(BEA)).held


async def test_a_lock_without_flock_survives_a_crash_between_its_two_halves(host: Hosts, tmp_path: Path) -> None:
    two = await host(path=path_for(tmp_path / "bin", without="flock"))
    Path(two.state).mkdir(mode=0o700)
    (Path(two.state) / "lock.d").mkdir()
    assert (await two.take(BEA)).held


async def test_of_six_who_ask_one_holds(host: Hosts, kind: tuple[str, str]) -> None:
    path, _ = kind
    hosts = [await host(path=path) for _ in range(6)]
    owners = [dataclasses.replace(BEA, run=f"run-{n}") for n in range(6)]
    for _ in range(2):
        states = await asyncio.gather(*(h.take(o) for h, o in zip(hosts, owners, strict=True)))
        (winner,) = (n for n, state in enumerate(states) if state.held)
        await hosts[winner].let_go(owners[winner])


async def test_neither_frames_nor_jobs_keep_it(host: Hosts) -> None:
    one, two = await host(), await host()
    assert (await one.take(ADA)).held
    jobs, lines = Jobs(one.connection, one.state, owner=ADA), Lines()
    task = asyncio.create_task(jobs.run(Id("x"), job("echo up; sleep 60"), digest="d", on_line=lines.append))
    await lines.until("up")
    kill(await one.shell())
    await asyncio.sleep(0.2)
    assert (await two.take(BEA)).held
    others = Jobs(two.connection, two.state, owner=BEA)
    assert [info.state for info in await others.look()] == ["running"]
    assert await others.cancel(Id("x"))
    assert (await asyncio.wait_for(task, 10)).how == "cancelled"
    await jobs.close()
    await others.close()


async def test_a_job_is_not_started_when_another_has_the_host(host: Hosts) -> None:
    one, two = await host(), await host()
    assert (await one.take(ADA)).held
    two.connection.on_open = acquire(BEA, two.state)
    jobs = Jobs(two.connection, two.state, owner=BEA)
    with pytest.raises(Locked, match="held by ada@one"):
        await jobs.run(Id("x"), job("true"), digest="d", on_line=Lines().append)
    await one.let_go(ADA)
    assert (await jobs.run(Id("x"), job("true"), digest="d", on_line=Lines().append)).status == 0
    await jobs.close()


async def test_a_folder_that_cannot_be_made(host: Hosts, kind: tuple[str, str], tmp_path: Path) -> None:
    path, _ = kind
    (tmp_path / "file").touch()
    one = await host(path=path, state=f"{tmp_path}/file/state")
    state = await one.take(ADA)
    assert not state.held
    assert state.reason.startswith(f"the state folder {tmp_path}/file/state cannot be written: ")
    one.state = "/proc/nothing"
    state = await one.take(ADA)
    assert (state.held, state.state) == (False, "/proc/nothing")
    assert state.reason.startswith("the state folder /proc/nothing cannot be written")


async def test_the_folder_is_decided_on_the_host(host: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    one = await host(state="~/deep/er")
    state = await one.take(ADA)
    assert (state.held, state.state) == (True, f"{tmp_path}/deep/er")


@given(st.binary(), st.binary(), st.one_of(st.none(), st.integers(0, 255)))
def test_no_answer_breaks_the_reader(stdout: bytes, stderr: bytes, status: int | None) -> None:
    state = parse(SectionResult(name="before", status=status, stdout=stdout, stderr=stderr))
    assert state.held or state.reason


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_any_name_of_an_owner_comes_back(name: str) -> None:
    line = f"state /s\nowner r {as_word(name)} {as_word(name)} 7 150 900\n".encode()
    state = parse(SectionResult(name="before", status=1, stdout=line))
    assert state.owner == Owner(run="r", host=name, user=name, pid=7)
    assert (state.silent, state.since) == (1.5, 9.0)


def test_an_owner_of_this_controller() -> None:
    owner = Owner.here("r")
    assert (owner.run, owner.pid) == ("r", os.getpid())
    assert owner.host and owner.user
