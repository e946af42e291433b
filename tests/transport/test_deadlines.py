"""Nothing hangs: deadlines on the host, without the host's help, and shells that say nothing."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gpuprov.errors import StepFailed, Unreachable
from gpuprov.transport import wire
from gpuprov.transport.duplex import Duplex
from gpuprov.transport.frame import Frame, Section
from gpuprov.transport.local import LocalConnection
from gpuprov.transport.marks import Mark
from gpuprov.transport.shell import Begun, Shell, ShellEnded, ready
from tests.transport.sshd import until

Opened = Callable[..., "asyncio.Future[LocalConnection]"]


@pytest.fixture
async def opened(sh: str) -> AsyncIterator[Callable[[], LocalConnection]]:
    made: list[LocalConnection] = []

    def make() -> LocalConnection:
        made.append(LocalConnection("here", shell=sh, become=False, grace=1.0, reconnect_for=5.0))
        return made[-1]

    yield make
    for connection in made:
        await connection.close()


def path_with(folder: Path, monkeypatch: pytest.MonkeyPatch, **commands: str) -> None:
    """A PATH whose first folder has these commands, each a shell script."""
    folder.mkdir(exist_ok=True)
    for name, script in commands.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def running(word: str) -> list[int]:
    """The pids of processes with this word in their argv."""
    found = []
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in cmdline.read_bytes().split(b"\0") and int(cmdline.parent.name) != os.getpid():
                found.append(int(cmdline.parent.name))
        except OSError:
            continue
    return found


def group_of(pid: int) -> int:
    """The process group; 0 when the process is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[2])
    except OSError:
        return 0


TIMEOUTS = {
    "gnu": "",
    "busybox": 'exec busybox timeout "$@"',
    "of another age": '[ "$1" != -k ] || exit 1; exec /usr/bin/timeout "$@"',
    "none": "exit 127",
}


@pytest.mark.parametrize("kind", TIMEOUTS)
async def test_a_frame_that_lasts_too_long_is_ended_with_all_it_started(
    opened: Callable[[], LocalConnection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if TIMEOUTS[kind]:
        path_with(tmp_path / "bin", monkeypatch, timeout=TIMEOUTS[kind])
    line = opened()
    nap = f"{1000 + os.getpid() % 1000}.{len(kind)}"
    hang = f"echo begun; (trap '' TERM; sleep {nap}) & setsid sleep {nap}1 & timeout 900 sleep {nap} & sleep {nap}"
    if kind != "gnu":
        hang = hang.replace(f"timeout 900 sleep {nap} & ", "")
    sections = (
        Section(name="ok", script="echo ok"),
        Section(name="hang", script=hang),
        Section(name="never", script=":"),
    )
    started = time.monotonic()
    result = await line.frame(Frame(sections=sections, deadline=1))
    assert time.monotonic() - started < 20
    assert result.timed_out and not result.stuck
    assert list(result.sections) == ["ok", "hang"]
    assert result.sections["ok"].status == 0
    assert (result.sections["hang"].status, result.sections["hang"].stdout) == (None, b"begun\n")
    assert running(nap) == []
    # What made a session of its own is a job's way to live on.
    detached = running(f"{nap}1")
    assert len(detached) == 1
    os.kill(detached[0], 9)
    assert (await line.frame(Frame(sections=(Section(name="on", script="echo on"),)))).sections["on"].stdout == b"on\n"


async def test_a_status_that_looks_like_a_timeout_is_none(opened: Callable[[], LocalConnection]) -> None:
    scripts = ("exit 124", "exit 137", "kill -9 $$", "exit 143")
    sections = tuple(Section(name=f"s{number}", script=script) for number, script in enumerate(scripts))
    result = await opened().frame(Frame(sections=sections, deadline=20))
    assert not result.timed_out
    assert [section.status for section in result.sections.values()] == [124, 137, 137, 143]


async def test_a_hung_before_ends_with_a_new_shell(opened: Callable[[], LocalConnection]) -> None:
    line = opened()
    await line.open()
    result = await line.frame(Frame(sections=(Section(name="a", script=":"),), before="sleep 777.7", deadline=1))
    assert result.timed_out
    assert result.sections["before"].status is None
    assert running("777.7") == []
    assert (await line.frame(Frame(sections=(Section(name="a", script="echo on"),)))).sections["a"].stdout == b"on\n"


async def test_a_cancelled_frame_leaves_nothing_behind(opened: Callable[[], LocalConnection]) -> None:
    line = opened()
    await line.open()
    running_frame = asyncio.ensure_future(line.frame(Frame(sections=(Section(name="a", script="sleep 888.8"),))))
    await until(lambda: running("888.8"))
    running_frame.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running_frame
    result = await line.frame(Frame(sections=(Section(name="a", script="echo on"),)))
    assert result.sections["a"].stdout == b"on\n"
    assert running("888.8") == []


async def test_close_ends_what_a_cancelled_frame_left(opened: Callable[[], LocalConnection]) -> None:
    line = opened()
    await line.open()
    running_frame = asyncio.ensure_future(line.frame(Frame(sections=(Section(name="a", script="sleep 999.9"),))))
    await until(lambda: running("999.9"))
    running_frame.cancel()
    await asyncio.wait([running_frame])
    await line.close()
    assert running("999.9") == []


async def test_kill_ends_a_group_that_ignores_term(opened: Callable[[], LocalConnection]) -> None:
    line = opened()
    await line.open()
    script = "setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.1; done' >/dev/null 2>&1 & echo $!"
    result = await line.frame(Frame(sections=(Section(name="a", script=script),)))
    await asyncio.sleep(0.3)
    pid = int(result.sections["a"].stdout)
    group = group_of(pid)
    assert await line.kill(group, grace=0.3)
    assert group_of(pid) in (0, group) and not running('trap "" TERM; echo $$; while :; do sleep 0.1; done')
    assert await line.kill(group, grace=0.3)


@pytest.mark.parametrize("group", [-1, 0, 1])
async def test_kill_refuses_what_is_no_group(opened: Callable[[], LocalConnection], group: int) -> None:
    with pytest.raises(ValueError):
        await opened().kill(group)


async def test_put_and_its_failures(opened: Callable[[], LocalConnection], tmp_path: Path) -> None:
    line, content = opened(), os.urandom(3_000_000)
    name = "a 'b' \\n $x"
    await line.put(str(tmp_path / name), content)
    assert (tmp_path / name).read_bytes() == content
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    await line.put(str(tmp_path / name), b"")
    assert (tmp_path / name).read_bytes() == b""
    with pytest.raises(StepFailed, match="could not be written") as caught:
        await line.put(str(tmp_path / "no" / "folder"), content)
    assert "folder" in caught.value.output
    with pytest.raises(StepFailed):
        await line.put("/dev/full", content)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(StepFailed, match="within 1 s"):
        await line.put(str(fifo), content, deadline=1)


async def test_a_stream_is_read_as_it_comes_and_ended(opened: Callable[[], LocalConnection]) -> None:
    line = opened()
    stream = await line.stream("echo a; sleep 0.2; printf bcd >&2; cat; exit 4")
    assert await stream.read() == (1, b"a\n")
    assert stream.status is None
    assert [await stream.read(2), await stream.read(2)] == [(2, b"bc"), (2, b"d")]
    assert [await stream.read(), await stream.read()] == [(0, b""), (0, b"")]
    assert stream.status == 4
    await stream.close()
    stream = await line.stream("echo a; sleep 666.6 & sleep 666.6")
    assert await stream.read() == (1, b"a\n")
    await stream.close()
    await stream.close()
    assert running("666.6") == []
    stream = await line.stream("echo a; sleep 555.5", deadline=0.5)
    assert [await stream.read(), await stream.read()] == [(1, b"a\n"), (0, b"")]
    assert stream.timed_out and running("555.5") == []
    await stream.close()


class Silent(Duplex):
    """A process that says nothing, or what it is told to say."""

    def __init__(self, *chunks: tuple[int, bytes]) -> None:
        self.chunks = list(chunks)
        self.written = b""
        self.abandoned = False

    status = None
    lost = ""

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> None:
        return

    def write_eof(self) -> None:
        return

    async def read(self) -> tuple[int, bytes]:
        if self.chunks:
            return self.chunks.pop(0)
        await asyncio.sleep(3600)
        return 0, b""

    def abandon(self) -> None:
        self.abandoned = True


async def test_a_host_that_prints_something_else_is_told_with_what_it_printed() -> None:
    duplex = Silent((1, b"no sessions\n"), (2, b"\xff\x1b[31mwelcome"), (1, b"x" * 100_000))
    with pytest.raises(Unreachable, match="printed instead") as caught:
        await ready(duplex, Mark(), where="gpu1", deadline=0.3)
    assert caught.value.phase == "session"
    assert "no sessions" in caught.value.output and len(caught.value.output) < 6000
    assert duplex.written == b""


async def test_sudo_that_does_not_answer_is_named() -> None:
    mark = Mark()
    with pytest.raises(Unreachable) as caught:
        await ready(Silent((1, mark.needle + b"sudo-asked\n")), mark, where="gpu1", deadline=0.3)
    assert caught.value.phase == "sudo"


async def test_a_shell_that_takes_up_nothing_is_given_up() -> None:
    mark = Mark()
    duplex = Silent((1, mark.needle + b"ready root 7 7 \n"), (2, mark.needle + b"ready\n"))
    shell = Shell(duplex, await ready(duplex, mark, where="gpu1", deadline=1), begin_within=0.3)

    async def overdue(_: Begun) -> None:
        raise AssertionError("nothing had begun")

    with pytest.raises(ShellEnded, match="did not take up") as caught:
        await shell.run(Frame(sections=(Section(name="a", script=":"),)), overdue)
    assert caught.value.begun is None
    assert duplex.written.startswith(wire.definitions())


@pytest.mark.parametrize(
    ("said", "privilege", "note"),
    [
        (b"root 5 5 ", "root", ""),
        (b"sudo 5 5 ", "sudo", ""),
        (b"none 5 5 missing", "none", "no sudo"),
        (b"none 5 5 unasked", "none", "sudo was not tried"),
        (b"none 5 5 refused a sudo : sudo: a password is required", "none", "password needed"),
        (b"none 5 5 refused a : sudo: a password is required", "none", "not in sudoers"),
        (b"none 5 5 refused a : a is not in the sudoers file.", "none", "not in sudoers"),
        (b"none 5 5 refused a : sudo: sorry, you must have a tty to run sudo", "none", "terminal"),
        (b"none 5 5 refused a : sudo: /etc/sudoers is world writable", "none", "world writable"),
        (b"\xff x y", "none", ""),
        (b"", "none", ""),
    ],
)
async def test_what_ready_says(said: bytes, privilege: str, note: str) -> None:
    mark = Mark()
    duplex = Silent((1, b"motd" + mark.needle + b"ready " + said + b"\n"), (2, b"noise" + mark.needle + b"ready\n"))
    found = await ready(duplex, mark, where="gpu1", deadline=1)
    assert found.privilege == privilege
    assert note in found.note
