"""Lines that break, servers that stall: each told by its phase, none waited for for ever."""

from __future__ import annotations

import asyncio
import dataclasses
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gpuprov.errors import LineLost, Position, Unreachable
from gpuprov.transport.frame import CLIP, Frame, Section
from gpuprov.transport.ssh import SshConnection
from tests.transport.server import Behaviour, Guest, new_guest, serving
from tests.transport.slowline import slow_line
from tests.transport.sshd import until


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    return new_guest(tmp_path)


def frame(script: str, *, deadline: float = 20.0) -> Frame:
    return Frame(sections=(Section(name="a", script=script),), deadline=deadline)


Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[int]:
    async def quiet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(quiet, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def a_byte_at_a_time(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for byte in b"SSH-2.0-OpenSSH_9.2p1 very slow\r\n" * 100:
        writer.write(bytes([byte]))
        await asyncio.sleep(0.1)


async def version_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2p1\r\n")
    await asyncio.sleep(30)


async def web_page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    return


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (never, "no ssh server answered within 1 s"),
        (a_byte_at_a_time, "no ssh server answered within 1 s"),
        (version_only, "key exchange was not done within 1 s"),
        (web_page, "before an ssh server had answered"),
        (hang_up, "closed the connection before an ssh server had answered"),
    ],
)
async def test_servers_that_do_not_speak_ssh(guest: Guest, answer: Answer, words: str) -> None:
    async with answering(answer) as port:
        connection = SshConnection(guest.target(port, timeout=1.0))
        started = time.monotonic()
        with pytest.raises(Unreachable, match=words) as caught:
            await connection.open()
        assert caught.value.phase == "key-exchange"
        assert time.monotonic() - started < 10
        await connection.close()


@pytest.mark.parametrize(
    ("address", "phase"), [("no-such-host.invalid", "dns"), ("", "dns"), ("a" * 300, "dns"), ("127.0.0.1", "tcp")]
)
async def test_addresses_that_lead_nowhere(guest: Guest, address: str, phase: str) -> None:
    with pytest.raises(Unreachable) as caught:
        await SshConnection(guest.target(1, address=address, timeout=3.0)).open()
    assert caught.value.phase == phase
    assert caught.value.where == "gpu1"


async def test_a_wrong_port_reads_differently_from_a_dead_address(guest: Guest) -> None:
    written = {"port": Position("hosts.yaml", 4, 11), "address": Position("hosts.yaml", 3, 14)}
    with pytest.raises(Unreachable) as refused:
        await SshConnection(dataclasses.replace(guest.target(1), written=written)).open()
    assert "answers, and nothing listens on its port 1" in refused.value.message
    assert "(port at hosts.yaml:4:11)" in refused.value.hint
    # A broadcast address: the kernel itself says that there is no way
    dead = guest.target(22, address="255.255.255.255", timeout=3.0)
    with pytest.raises(Unreachable) as unanswered:
        await SshConnection(dataclasses.replace(dead, written=written)).open()
    assert "port 22 within" in unanswered.value.message or "there is no way to" in unanswered.value.message
    assert "(address at hosts.yaml:3:14)" in unanswered.value.hint


async def test_a_name_service_that_is_silent_is_named(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(*_: object, **__: object) -> None:
        await asyncio.sleep(30)

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", silent)
    with pytest.raises(Unreachable, match="not resolved within") as caught:
        await SshConnection(guest.target(22, timeout=0.5)).open()
    assert caught.value.phase == "dns"


async def test_a_slow_authentication_is_named(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,), auth_pause=20)) as place:
        guest.knows(place)
        with pytest.raises(Unreachable) as caught:
            await SshConnection(guest.target(place.port, timeout=1.0)).open()
        assert caught.value.phase == "authentication"


async def test_a_server_that_drops_the_first_connections_is_tried_again(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as place:
        seen = []

        async def sometimes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(1)
            if len(seen) > 2:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", place.port)
                await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))

        async with answering(sometimes) as port:
            connection = SshConnection(guest.target(port, accept_new=True))
            await connection.open()
            assert len(seen) == 3
            await connection.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


NOISE = {
    "prints": "echo welcome; echo banner >&2; printf 'no newline'",
    "reads a line": "read line; echo got $line",
    "reads with a limit": "bash -c 'read -t 1 line'",
    "sets options": "set -u; set -f; IFS=:; PATH=/usr/bin:/bin; LC_ALL=C.UTF-8; export LC_ALL",
    "prints much": "head -c 3000000 /dev/zero; head -c 300000 /dev/zero >&2",
}


@pytest.mark.parametrize("kind", NOISE)
async def test_noisy_start_up_files_are_harmless(guest: Guest, kind: str) -> None:
    async with serving(Behaviour(keys=(guest.key,), before=NOISE[kind])) as place:
        guest.knows(place)
        connection = SshConnection(guest.target(place.port, timeout=10))
        result = await connection.frame(frame("echo clean; echo err >&2; echo $LC_ALL"))
        assert result.sections["a"].stdout == b"clean\nC\n"
        assert result.sections["a"].stderr == b"err\n"
        stream = await connection.stream("echo streamed; echo aside >&2")
        got = {1: b"", 2: b""}
        while (chunk := await stream.read())[0]:
            got[chunk[0]] += chunk[1]
        assert got == {1: b"streamed\n", 2: b"aside\n"}
        await connection.put(str(guest.folder / "put"), b"content")
        assert (guest.folder / "put").read_bytes() == b"content"
        await connection.close()


@pytest.mark.parametrize(
    ("rc", "words"), [("echo no sessions; exit 0", "no sessions"), ("exec sleep 30", ""), ("echo $((1/0))", "zero")]
)
async def test_start_up_files_that_replace_the_shell_are_told(guest: Guest, rc: str, words: str) -> None:
    async with serving(Behaviour(keys=(guest.key,), before=rc)) as place:
        guest.knows(place)
        with pytest.raises(Unreachable) as caught:
            await SshConnection(guest.target(place.port, timeout=1.5)).open()
        assert caught.value.phase == "session"
        assert words in caught.value.output and "bashrc" in caught.value.hint


async def test_a_line_cut_in_mid_frame_says_begun_and_the_next_call_reconnects(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as place:
        guest.knows(place)
        connection = SshConnection(guest.target(place.port), reconnect_for=10)
        await connection.open()
        mark = guest.folder / "begun"
        running = asyncio.ensure_future(connection.frame(frame(f"echo x >>{mark}; sleep 31.17")))
        await until(mark.exists)
        place.cut()
        with pytest.raises(LineLost) as caught:
            await running
        assert caught.value.begun and caught.value.where == "gpu1"
        assert mark.read_text() == "x\n"
        started = time.monotonic()
        assert (await connection.frame(frame("pgrep -fx 'sleep 31.17' || echo ended"))).sections[
            "a"
        ].stdout == b"ended\n"
        assert time.monotonic() - started < 25
        await connection.close()


async def test_a_frame_that_had_not_begun_is_sent_again(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as place, slow_line(place.port) as line:
        connection = SshConnection(guest.target(line.port, accept_new=True), reconnect_for=20)
        await connection.open()
        count = guest.folder / "count"
        line.flowing.clear()
        running = asyncio.ensure_future(connection.frame(frame(f"echo x >>{count}; echo done")))
        await asyncio.sleep(0.3)
        line.cut()
        line.flowing.set()
        result = await running
        assert result.sections["a"].stdout == b"done\n"
        assert count.read_text() == "x\n"
        assert connection.exchanges >= 2
        await connection.close()


async def test_reconnecting_goes_on_with_growing_pauses_until_its_time_is_up(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as place, slow_line(place.port) as line:
        connection = SshConnection(guest.target(line.port, accept_new=True), reconnect_for=3)
        await connection.open()
        line.target = 1
        line.cut()
        started = time.monotonic()
        with pytest.raises(Unreachable):
            await connection.frame(frame("echo"))
        assert 1.0 < time.monotonic() - started < 12
        line.target = place.port
        assert (await connection.frame(frame("echo back"))).sections["a"].stdout == b"back\n"
        await connection.close()


async def test_a_silent_line_is_noticed_by_its_keepalive(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as place, slow_line(place.port) as line:
        connection = SshConnection(
            guest.target(line.port, accept_new=True), reconnect_for=0, keepalive=0.3, keepalive_count=2
        )
        await connection.open()
        mark = guest.folder / "begun"
        running = asyncio.ensure_future(connection.frame(frame(f"touch {mark}; sleep 20")))
        await until(mark.exists)
        await asyncio.sleep(0.2)
        line.flowing.clear()
        started = time.monotonic()
        with pytest.raises(LineLost) as caught:
            await running
        assert caught.value.begun and time.monotonic() - started < 8
        line.cut()
        await connection.close()


async def test_a_frame_that_is_overdue_on_a_silent_line_is_a_lost_line_and_not_a_stuck_process(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as place, slow_line(place.port) as line:
        connection = SshConnection(
            guest.target(line.port, accept_new=True, timeout=1.5), reconnect_for=0, keepalive=60, grace=0.5
        )
        await connection.open()
        mark = guest.folder / "begun"
        running = asyncio.ensure_future(connection.frame(frame(f"touch {mark}; sleep 20", deadline=1)))
        await until(mark.exists)
        await asyncio.sleep(0.2)
        line.flowing.clear()
        with pytest.raises(LineLost) as caught:
            await running
        assert caught.value.begun
        line.cut()
        await connection.close()


async def test_a_low_limit_on_sessions_is_not_taken_for_one(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,), sessions=2)) as place:
        guest.knows(place)
        connection = SshConnection(guest.target(place.port))
        await connection.open()
        stream = await connection.stream("echo a; sleep 30")
        with pytest.raises(Unreachable):
            await connection.stream("echo")
        assert not connection.one_session
        await connection.put(str(guest.folder / "put"), b"through a connection of its own")
        await stream.close()
        await asyncio.sleep(0.1)
        again = await connection.stream("echo b")
        assert await again.read() == (1, b"b\n")
        await again.close()
        await connection.close()


async def test_where_one_session_is_allowed_streams_are_refused_and_the_rest_works(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,), sessions=1)) as place:
        guest.knows(place)
        connection = SshConnection(guest.target(place.port))
        await connection.open()
        assert not connection.one_session
        for _ in range(2):
            with pytest.raises(Unreachable) as caught:
                await connection.stream("echo")
            assert caught.value.phase == "session"
            assert connection.one_session
        await connection.put(str(guest.folder / "put"), b"x" * 100_000)
        assert (guest.folder / "put").stat().st_size == 100_000
        result = await connection.frame(frame("setsid sleep 40 >/dev/null 2>&1 & echo $!"))
        await asyncio.sleep(0.2)
        assert await connection.kill(int(result.sections["a"].stdout), grace=1)
        await connection.close()


async def test_much_output_keeps_memory_flat(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as place:
        guest.knows(place)
        connection = SshConnection(guest.target(place.port))
        await connection.open()
        tracemalloc.start()
        result = await connection.frame(frame("head -c 50000000 /dev/zero", deadline=50))
        stream = await connection.stream("head -c 20000000 /dev/zero")
        # A reader that pauses holds up the sender, not the memory.
        await asyncio.sleep(0.5)
        total = 0
        while (chunk := await stream.read())[0]:
            total += len(chunk[1])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert total == 20_000_000
        assert result.sections["a"].clipped == 50_000_000 - 2 * CLIP
        # Server and client share this process.
        assert peak < 24_000_000
        await connection.close()


async def test_a_stream_whose_line_is_cut_says_so(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as place:
        guest.knows(place)
        connection = SshConnection(guest.target(place.port))
        stream = await connection.stream("echo a; sleep 30")
        assert await stream.read() == (1, b"a\n")
        place.cut()
        with pytest.raises(LineLost):
            await stream.read()
        await stream.close()
        await connection.close()


async def test_close_is_quick_on_a_dead_line_and_may_be_repeated(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as place, slow_line(place.port) as line:
        connection = SshConnection(guest.target(line.port, accept_new=True))
        await connection.open()
        line.flowing.clear()
        started = time.monotonic()
        await connection.close()
        await connection.close()
        assert time.monotonic() - started < 8


def test_asyncssh_is_not_loaded_before_it_is_needed() -> None:
    import subprocess
    import sys

    code = "import sys, gpuprov.transport.ssh, gpuprov.transport.connect; print('asyncssh' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert run.stdout == "False\n"
