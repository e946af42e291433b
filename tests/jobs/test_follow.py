"""Output is exact to the byte through whatever happens to the line or the controller; and nothing is left behind."""

# ruff: noqa: ASYNC220, ASYNC240  # what the tests look at from outside is local and quick

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuprov.errors import Unreachable
from gpuprov.jobs import Jobs, follow
from gpuprov.jobs.records import Chunk, Fate, RecordReader
from gpuprov.model import Id
from gpuprov.onhost import script
from gpuprov.quote import quote
from gpuprov.transport.frame import Connection, Frame, FrameResult
from gpuprov.transport.local import LocalConnection
from tests.jobs.conftest import Controller
from tests.jobs.hosts import OWNER, SHELLS, Faulty, Lines, Place, alive, job, kill, until

SLOT = Id("build:x")
Places = Callable[[str], Place]


def count(lines: int, *, pause_every: int = 0, pause: str = "0.1") -> str:
    """A script that prints numbered lines of uneven length, and the lines it prints."""
    nap = f"[ $((i % {pause_every})) -ne 0 ] || sleep {pause};" if pause_every else ""
    return f'i=0; while [ $i -lt {lines} ]; do i=$((i+1)); printf "%d é %0$((i % 90 + 1))d\\n" $i 0; {nap} done'


def counted(lines: int) -> list[str]:
    return [f"{i} é " + "0" * (i % 90 + 1) for i in range(1, lines + 1)]


async def test_lines_come_promptly(controller: Controller) -> None:
    jobs, came = await controller(), dict[str, float]()
    text = 'for i in 1 2 3; do echo "$i $(cut -d " " -f 1 /proc/uptime)"; sleep 0.4; done'

    def on_line(line: str) -> None:
        came[line] = time.clock_gettime(time.CLOCK_BOOTTIME)

    await jobs.run(SLOT, job(text), digest="d", on_line=on_line)
    late = [at - float(line.split()[1]) for line, at in came.items()]
    assert len(late) == 3 and max(late) < 1.0


async def test_one_channel_follows_all(controller: Controller) -> None:
    streams = 0

    class Counting(Faulty):
        async def stream(self, script: str, *, deadline: float | None = None):  # type: ignore[no-untyped-def]
            nonlocal streams
            streams += 1
            return await self.inner.stream(script, deadline=deadline)

    jobs = await controller(Counting)
    first = Lines()
    task = asyncio.create_task(jobs.run(Id("0"), job(count(300, pause_every=50)), digest="d", on_line=first.append))
    await first.until("1 é")
    others = [Lines() for _ in range(5)]
    await asyncio.gather(
        *(jobs.run(Id(str(n + 1)), job(count(50 * n + 50)), digest="d", on_line=others[n].append) for n in range(5))
    )
    await task
    assert first == counted(300)
    assert others == [counted(50 * n + 50) for n in range(5)]
    assert streams == 1


@pytest.mark.parametrize("sh", SHELLS)
def test_the_follower_in_each_shell(tmp_path: Path, sh: str) -> None:
    state = tmp_path / "st ate"
    attempts = {"a-1": b"x" * 70_000 + b"\n\0\xff\nlast", "b-2": b"", "c-3": b"12345678"}
    for name, log in attempts.items():
        (state / "jobs" / name / "1").mkdir(parents=True)
        (state / "jobs" / name / "1" / "log").write_bytes(log)
        (state / "jobs" / name / "now").write_text("1 d n i o - 1 .\n")
        (state / "jobs" / name / "1" / "rc").write_text("3 ended .\n")
    parts = [script("job_process"), script("job_state"), f"gp_state={quote(str(state))} gp_follow=f gp_word=W"]
    text = "\n".join([*parts, "gp_jobs='a-1 1 3\nb-2 1 0\nc-3 1 8'", script("job_follow")])
    with subprocess.Popen([*SHELLS[sh], "-c", text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as follower:
        assert follower.stdout
        reader, fates, got = RecordReader("W"), list[Fate](), b""
        while len(fates) < 3:
            for record in reader.feed(os.read(follower.stdout.fileno(), 4096)):
                if isinstance(record, Chunk):
                    assert record.folder == "a-1" and record.offset == 3 + len(got)
                    got += record.data
                else:
                    fates.append(record)
        follower.terminate()
        follower.wait(5)
    assert got == attempts["a-1"][3:]
    assert {(f.folder, f.status, f.how, f.size) for f in fates} == {
        (name, 3, "ended", len(log)) for name, log in attempts.items()
    }
    assert list((state / "follow").iterdir()) == []


async def test_every_line_that_drops(controller: Controller, state: Path, place: Places) -> None:
    """The follower's shell and the persistent shell are killed, again and again."""
    jobs, lines = await controller(), Lines()
    task = asyncio.create_task(jobs.run(SLOT, job(count(600, pause_every=20)), digest="d", on_line=lines.append))
    killed = 0
    while not task.done() and killed < 6:
        await asyncio.sleep(0.4)
        for record in list(state.glob("follow/*/.pid")):
            try:
                kill(int(record.read_text().split()[0]))
            except (OSError, IndexError):
                continue
            killed += 1
    assert killed >= 4
    assert (await asyncio.wait_for(task, 20)).status == 0
    assert lines == counted(600)


async def test_polling_where_no_channel_can_be_had(controller: Controller) -> None:
    jobs = await controller(lambda inner: Faulty(inner, streams=False))
    one, two = Lines(), Lines()
    results = await asyncio.gather(
        jobs.run(Id("a"), job(count(4000)), digest="d", on_line=one.append),
        jobs.run(Id("b"), job(count(40, pause_every=20) + "; exit 4"), digest="d", on_line=two.append),
    )
    assert [result.status for result in results] == [0, 4]
    assert one == counted(4000)
    assert two == counted(40)


async def test_polling_takes_up_again_after_lost_answers(controller: Controller) -> None:
    faulty: list[Faulty] = []

    def wrap(inner: Connection) -> Faulty:
        faulty.append(Faulty(inner, streams=False))
        return faulty[0]

    jobs, lines = await controller(wrap), Lines()
    task = asyncio.create_task(jobs.run(SLOT, job(count(3000, pause_every=1000)), digest="d", on_line=lines.append))
    await lines.until("1 é")
    faulty[0].lose = 2
    assert (await asyncio.wait_for(task, 20)).status == 0
    assert lines == counted(3000)


async def test_no_contact_for_too_long_ends_the_call_and_not_the_job(
    state: Path, place: Places, tmp_path: Path
) -> None:
    class Gone(Faulty):
        gone = False

        async def frame(self, frame: Frame) -> FrameResult:
            if self.gone:
                raise Unreachable("no route", phase="tcp")
            return await self.inner.frame(frame)

        async def stream(self, script: str, *, deadline: float | None = None):  # type: ignore[no-untyped-def]
            raise Unreachable("no route", phase="tcp")

    connection = Gone(LocalConnection("here", become=False))
    jobs = Jobs(connection, str(state), owner=OWNER, patience=0.5)
    try:
        with pytest.raises(Unreachable):
            await asyncio.wait_for(
                jobs.run(SLOT, job(f"sleep 1.2; touch {tmp_path}/done"), digest="d", on_line=Lines().append), 10
            )
        connection.gone = True
        with pytest.raises(Unreachable):
            await asyncio.wait_for(jobs.look(), 10)
        await until((tmp_path / "done").exists)
    finally:
        await jobs.close()
        await connection.close()


async def test_a_listener_that_fails_ends_its_own_call_only(controller: Controller) -> None:
    jobs, lines = await controller(), Lines()

    def broken(line: str) -> None:
        raise RuntimeError(line)

    task = asyncio.create_task(jobs.run(Id("b"), job(count(100, pause_every=50)), digest="d", on_line=lines.append))
    with pytest.raises(RuntimeError, match="x"):
        await jobs.run(Id("a"), job("echo x; sleep 0.2"), digest="d", on_line=broken)
    assert (await task).status == 0
    assert lines == counted(100)


CONTROLLER = """
    import asyncio, sys
    from gpuprov.jobs import Jobs, Owner
    from gpuprov.model import Id, Job
    from gpuprov.transport.local import LocalConnection

    async def main():
        connection = LocalConnection("here", become=False)
        jobs = Jobs(connection, sys.argv[1], owner=Owner.here("r"))
        job = Job(title="t", script=sys.argv[2])
        await jobs.run(Id("build:x"), job, digest="d", on_line=lambda line: print(line, flush=True))

    asyncio.run(main())
"""


async def test_a_killed_controller(controller: Controller, state: Path, place: Places) -> None:
    text = "echo started >>../started; " + count(400, pause_every=40, pause="0.2")
    first = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CONTROLLER), str(state), text],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert first.stdout and first.stdout.readline() == "1 é 00\n".encode()
    (follower,) = (int(p.read_text().split()[0]) for p in state.glob("follow/*/.pid"))
    first.kill()
    first.wait(5)
    await asyncio.sleep(0.3)
    jobs, lines = await controller(), Lines()
    (info,) = await jobs.look()
    assert info.state == "running"
    result = await jobs.run(SLOT, job(text), digest="d", on_line=lines.append)
    assert (result.status, result.attempt, result.followed) == (0, 1, True)
    assert lines == counted(400)
    assert (place(SLOT).folder / "started").read_text() == "started\n"
    # Nobody listens to the first one's follower any more.
    await until(lambda: not alive(follower), what="the follower to end")


async def test_a_silent_line_is_taken_for_lost(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut that nobody tells of: the channel stays open, and nothing comes."""
    monkeypatch.setattr(follow, "SILENT_LINE", 0.7)

    class Mute(Faulty):
        mute = 1

        async def stream(self, script: str, *, deadline: float | None = None):  # type: ignore[no-untyped-def]
            if self.mute:
                self.mute = 0
                return await self.inner.stream("exec sleep 30")
            return await self.inner.stream(script, deadline=deadline)

    jobs, lines = await controller(Mute), Lines()
    text = count(50, pause_every=10, pause="0.4")
    assert (await asyncio.wait_for(jobs.run(SLOT, job(text), digest="d", on_line=lines.append), 20)).status == 0
    assert lines == counted(50)


async def test_garbage_in_the_stream_is_read_again(controller: Controller) -> None:
    class Garbling(Faulty):
        times = 2

        async def stream(self, script: str, *, deadline: float | None = None):  # type: ignore[no-untyped-def]
            if self.times:
                self.times -= 1
                whole, script = script, script.replace("\n    gp_round\n", "\n    gp_round; echo oops\n")
                assert script != whole
            return await self.inner.stream(script, deadline=deadline)

    jobs, lines = await controller(Garbling), Lines()
    assert (await jobs.run(SLOT, job(count(200, pause_every=50)), digest="d", on_line=lines.append)).status == 0
    assert lines == counted(200)


LARGE = """
    import asyncio, resource, sys
    from gpuprov.jobs import Jobs, Owner
    from gpuprov.model import Id, Job
    from gpuprov.transport.local import LocalConnection

    async def main():
        connection = LocalConnection("here", become=False)
        jobs = Jobs(connection, sys.argv[1], owner=Owner.here("r"))
        total = 0
        def on_line(line):
            nonlocal total
            total += len(line) + 1
        await jobs.run(Id("small"), Job(title="t", script="echo x"), digest="d", on_line=on_line)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        total = 0
        text = "yes $(printf '%01000d' 7) | head -c 200200000"
        result = await jobs.run(Id("large"), Job(title="t", script=text), digest="d", on_line=on_line)
        print(result.status, total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        await jobs.close()
        await connection.close()

    asyncio.run(main())
"""


def test_a_large_log_needs_no_memory(state: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LARGE), str(state)],
        capture_output=True,
        text=True,
        timeout=40,
        cwd=Path(__file__).parents[2],
    )
    status, total, grown = map(int, done.stdout.split())
    assert (status, total) == (0, 200_200_000)
    assert grown < 40_000, f"{grown} KiB"
