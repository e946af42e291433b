"""Against OpenSSH itself: rc files, sudo, jump hosts, one session only, killed sessions, round trips."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuprov.errors import LineLost, StepFailed, Unreachable
from gpuprov.transport.frame import Frame, FrameResult, Section
from gpuprov.transport.ssh import SshConnection, SshTarget
from tests.transport.server import Guest, new_guest
from tests.transport.slowline import slow_line
from tests.transport.sshd import Sshd, running_sshd, until, user


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Guest:
    return new_guest(tmp_path_factory.mktemp("guest"))


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """A folder that other users may look into, as pytest's are not."""
    with tempfile.TemporaryDirectory(prefix="gpuprov-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def sshd(open_folder: Path, guest: Guest) -> Iterator[Sshd]:
    with running_sshd(open_folder / "sshd", guest) as running:
        guest.known_hosts.write_text(running.known_line())
        yield running


@pytest.fixture(scope="module")
def plain_user(open_folder: Path, sshd: Sshd) -> Iterator[str]:
    with user(open_folder / "plain") as name:
        yield name


def frame(script: str, *, deadline: float = 20.0) -> Frame:
    return Frame(sections=(Section(name="a", script=script),), deadline=deadline)


def out(result: FrameResult) -> str:
    return result.sections["a"].stdout.decode()


async def opened(target: SshTarget, *, reconnect_for: float = 30.0, grace: float = 5.0) -> SshConnection:
    connection = SshConnection(target, reconnect_for=reconnect_for, grace=grace)
    await connection.open()
    return connection


async def test_root_and_a_user_without_sudo(sshd: Sshd, guest: Guest, plain_user: str) -> None:
    connection = await opened(guest.target(sshd.port))
    assert (connection.privilege, connection.privilege_note) == ("root", "")
    await connection.close()
    connection = await opened(guest.target(sshd.port, user=plain_user))
    assert connection.privilege == "none"
    assert "password needed" in connection.privilege_note and "not in sudoers" in connection.privilege_note
    assert out(await connection.frame(frame("id -un"))) == f"{plain_user}\n"
    with pytest.raises(StepFailed):
        await connection.put("/etc/gpuprov-no", b"x")
    await connection.close()


async def test_sudo_without_a_password(sshd: Sshd, guest: Guest, open_folder: Path) -> None:
    with user(open_folder / "sudo", sudoers="ALL=(ALL) NOPASSWD: ALL") as name:
        connection = await opened(guest.target(sshd.port, user=name))
        assert connection.privilege == "sudo"
        said = out(await connection.frame(frame('id -un; echo "$LC_ALL"; echo "$HOME"; echo ":$PATH:"')))
        assert said.splitlines()[:3] == ["root", "C", "/root"]
        assert ":/usr/sbin:" in said
        path = open_folder / "root-only"
        await connection.put(str(path), b"content")
        assert (path.stat().st_uid, path.read_bytes()) == (0, b"content")
        result = await connection.frame(frame("sleep 321.1", deadline=1))
        assert result.timed_out and not result.stuck
        stream = await connection.stream("id -un; sleep 322.2")
        assert await stream.read() == (1, b"root\n")
        await stream.close()
        await until(lambda: not _running("322.2"))
        await connection.close()
        connection = await opened(guest.target(sshd.port, user=name, become=False))
        assert (connection.privilege, out(await connection.frame(frame("id -un")))) == ("none", f"{name}\n")
        assert "never" in connection.privilege_note
        await connection.close()


def _with_word(word: str) -> list[int]:
    found = []
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in cmdline.read_bytes().split(b"\0"):
                found.append(int(cmdline.parent.name))
        except OSError:
            continue
    return found


def _running(word: str) -> bool:
    return bool(_with_word(word))


async def test_processes_that_outlive_the_kill_are_told_and_the_shell_is_given_up(
    sshd: Sshd, guest: Guest, open_folder: Path
) -> None:
    """What root owns cannot be killed by a user: to that user it is like a process in state D."""
    rule = "ALL=(root) NOPASSWD: /usr/bin/setpriv"
    with user(open_folder / "stuck", sudoers=rule) as name:
        connection = await opened(guest.target(sshd.port, user=name), grace=1.0)
        assert connection.privilege == "none"
        first = out(await connection.frame(frame("echo $PPID")))
        hang = "sudo -n setpriv --reuid 0 sh -c 'trap \"\" TERM HUP; while :; do sleep 0.3; done'"
        result = await connection.frame(frame(hang, deadline=1))
        assert result.timed_out and result.sections["a"].status is None
        assert re.search(r"pid \d+ \((sudo|sh|sleep)\) in state [SRD].* outlived SIGKILL", result.stuck)
        again = out(await connection.frame(frame("echo $PPID; echo on")))
        assert again.splitlines()[1] == "on" and again.splitlines()[0] != first.strip()
        await connection.close()
        for pid in re.findall(r"pid (\d+)", result.stuck):
            try:
                os.kill(int(pid), 9)
            except ProcessLookupError:
                continue
        for pid in _with_word(hang.partition("sh -c '")[2].rstrip("'")):
            os.kill(pid, 9)


RC = {
    "noise": "echo welcome to this box; echo banner >&2; stty -a",
    "read": "read -r -t 1 line; echo read: $line",
    "read for ever": "read -r line; echo read: $line",
    "strict": "set -u; IFS=,; alias printf=false; PS4=x",
    "no stderr": "exec 2>/dev/null",
    "conda": "export PATH=/opt/conda/bin:/usr/bin:/bin; export PS1=x; cd /",
}


@pytest.mark.parametrize("kind", RC)
async def test_start_up_files(sshd: Sshd, guest: Guest, open_folder: Path, plain_user: str, kind: str) -> None:
    (open_folder / "plain" / ".bashrc").write_text(RC[kind] + "\n")
    try:
        connection = await opened(guest.target(sshd.port, user=plain_user))
        result = await connection.frame(frame("echo clean; echo err >&2"))
        assert result.sections["a"].stdout == b"clean\n"
        assert result.sections["a"].stderr == (b"" if kind == "no stderr" else b"err\n")
        await connection.close()
    finally:
        (open_folder / "plain" / ".bashrc").unlink()


async def test_a_start_up_file_that_starts_tmux_is_told(
    sshd: Sshd, guest: Guest, open_folder: Path, plain_user: str
) -> None:
    (open_folder / "plain" / ".bashrc").write_text("echo 'no sessions'; exit 0\n")
    try:
        with pytest.raises(Unreachable, match="printed instead") as caught:
            await opened(guest.target(sshd.port, user=plain_user))
        assert caught.value.phase == "session" and "no sessions" in caught.value.output
    finally:
        (open_folder / "plain" / ".bashrc").unlink()


async def test_one_session_only(guest: Guest, open_folder: Path) -> None:
    with running_sshd(open_folder / "one", guest, config="MaxSessions 1") as sshd:
        connection = await opened(replace(guest.target(sshd.port), accept_new=True))
        with pytest.raises(Unreachable) as caught:
            await connection.stream("echo")
        assert caught.value.phase == "session" and connection.one_session
        await connection.put(str(open_folder / "one" / "put"), b"x" * 1000)
        assert (open_folder / "one" / "put").stat().st_size == 1000
        assert out(await connection.frame(frame("echo on"))) == "on\n"
        running = asyncio.ensure_future(connection.frame(frame("trap '' TERM HUP; sleep 33.19")))
        await until(lambda: _running("33.19"))
        running.cancel()
        await asyncio.wait([running])
        assert out(await connection.frame(frame("echo again"))) == "again\n"
        assert not _running("33.19")
        await connection.close()


@pytest.mark.parametrize("by", ["target", "words", "config"])
async def test_jump_hosts(sshd: Sshd, guest: Guest, open_folder: Path, plain_user: str, by: str) -> None:
    """The far host is only reached through the near one, whose log shows it."""
    config = open_folder / f"config-{by}"
    config.write_text(
        f"Host far\n HostName 127.0.0.1\n Port {sshd.port}\n User root\n"
        + (" ProxyJump near\n" if by == "config" else "")
        + f"Host near\n HostName 127.0.0.1\nHost near 127.0.0.1\n Port {sshd.port}\n User {plain_user}\n"
        f"Host *\n IdentityFile {guest.folder}/id\n UserKnownHostsFile {guest.known_hosts}\n"
    )
    near = SshTarget(name="near", address="near", config=(config,))
    choices: dict[str, SshTarget | str | None] = {
        "target": near,
        "words": f"{plain_user}@127.0.0.1:{sshd.port}",
        "config": None,
    }
    connection = await opened(SshTarget(name="far", address="far", config=(config,), jump=choices[by]))
    assert out(await connection.frame(frame("id -un; echo $SSH_CONNECTION"))).startswith("root\n127.0.0.1")
    log = (sshd.folder / "log").read_text()
    assert f"Accepted publickey for {plain_user}" in log
    await connection.close()


async def test_a_jump_host_that_cannot_reach_the_host_says_so(sshd: Sshd, guest: Guest) -> None:
    with pytest.raises(Unreachable, match="jump host cannot reach") as caught:
        await opened(guest.target(1, jump=guest.target(sshd.port)))
    assert caught.value.phase == "tcp"


async def test_a_killed_session_is_a_lost_line(sshd: Sshd, guest: Guest, open_folder: Path) -> None:
    before = set(sshd.sessions())
    connection = await opened(guest.target(sshd.port), reconnect_for=10)

    def kill() -> None:
        for pid in set(sshd.sessions()) - before:
            os.kill(pid, 9)

    kill()
    await asyncio.sleep(0.1)
    assert out(await connection.frame(frame("echo idle"))) == "idle\n", "nothing had begun: the caller notices nothing"
    mark = open_folder / "begun"
    running = asyncio.ensure_future(connection.frame(frame(f"touch {mark}; sleep 32.17")))
    await until(mark.exists)
    kill()
    with pytest.raises(LineLost) as caught:
        await running
    assert caught.value.begun
    assert out(await connection.frame(frame("echo back"))) == "back\n"
    assert not _running("32.17")
    await connection.close()


async def test_a_lock_taken_before_is_held_between_frames_and_let_go_with_the_line(
    sshd: Sshd, guest: Guest, open_folder: Path
) -> None:
    lock = open_folder / "lock"
    held = frame(f"flock -n {lock} true && echo free || echo held")
    first, second = await opened(guest.target(sshd.port)), await opened(guest.target(sshd.port))
    taking = replace(frame("sleep 0.1"), before=f"exec 8>>{lock} && flock -n 8 && echo taken")
    assert (await first.frame(taking)).sections["before"].stdout == b"taken\n"
    assert out(await second.frame(held)) == "held\n"
    await first.close()
    for _ in range(60):
        if out(await second.frame(held)) == "free\n":
            break
        await asyncio.sleep(0.05)
    assert out(await second.frame(held)) == "free\n"
    await second.close()


@pytest.mark.parametrize("rtt", [0.0, 0.1])
async def test_connecting_takes_ten_round_trips_at_most_and_each_frame_one(
    sshd: Sshd, guest: Guest, plain_user: str, rtt: float
) -> None:
    async with slow_line(sshd.port, rtt=rtt) as line:
        target = replace(
            guest.target(line.port, user=plain_user), become="never", host_key=sshd.host_key.get_fingerprint()
        )
        connection = SshConnection(target)
        started = time.monotonic()
        await connection.open()
        took = time.monotonic() - started
        # The proxy answers the TCP handshake itself; it counts as one. What we send after READY needs no answer.
        trips = line.turns + 1 - 1
        if rtt:
            assert trips <= 9
            assert took < 10 * rtt + 1.0
        times, all_before = [], line.turns
        for _ in range(4):
            started = time.monotonic()
            assert out(await connection.frame(frame("echo hi"))) == "hi\n"
            times.append(time.monotonic() - started)
        assert line.turns - all_before <= 5
        assert min(times) < 1.5 * rtt + 0.1
        before_bytes = line.to_host
        await connection.frame(frame("echo hi"))
        assert line.to_host - before_bytes < 300
        assert connection.exchanges == 5
        await connection.close()
