from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from gpuprov.errors import LineLost, StepFailed
from gpuprov.jobs import JobResult
from gpuprov.model import Id, Job, Obtain
from gpuprov.store import Cache, Ended, Limits, obtain, upload
from gpuprov.store.cache import prefix_sha256
from gpuprov.store.upload import TRIES
from gpuprov.transport.local import LocalConnection
from tests.store.hosts import md5, sha256, some_bytes, step_for
from tests.store.lines import Breaking, Runner
from tests.store.server import Server

CONTENT = some_bytes(1_000_000)
PIECE = 300_000
QUICK = Limits(connect=2, stall=2, pause=0, tries=2)


@pytest.fixture
async def line() -> AsyncIterator[Breaking]:
    made = Breaking()
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[Runner]:
    connection = LocalConnection("here", become=False, grace=1.0)
    await connection.open()
    made = Runner(connection, tmp_path / "state")
    yield made
    await made.jobs.close()
    await connection.close()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "of the controller"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "host's" / "new folder" / "a.run"


async def send(line: Breaking, step: Obtain, source: Path, runner: Runner, **more: Any) -> list[tuple[int, int]]:
    told: list[tuple[int, int]] = []

    async def run(job: Job, on_line: Callable[[str], None]) -> JobResult:
        return await runner(Id("download:a"), job, sha256(job.script.encode()), on_line)

    fields = {"piece": PIECE, "pause": 0.01} | more
    async with asyncio.timeout(60):
        await upload(line, step, source, lambda done, total: told.append((done, total)), run=run, **fields)
    return told


def content(path: Path) -> bytes:
    return path.read_bytes()


def write(path: Path, what: bytes) -> None:
    path.write_bytes(what)


def only(path: Path, what: bytes) -> None:
    """Make it the only thing in its folder."""
    make_folder(path.parent)
    for other in path.parent.iterdir():
        other.unlink()
    path.write_bytes(what)


def make_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def size_of(path: Path) -> int:
    return path.stat().st_size


def names(path: Path) -> list[str]:
    return sorted(it.name for it in path.parent.iterdir())


# --- sending ------------------------------------------------------------------------------------


async def test_a_file_arrives_whole_in_pieces(line: Breaking, runner: Runner, source: Path, path: Path) -> None:
    told = await send(line, step_for(path, CONTENT), source, runner)
    assert content(path) == CONTENT
    assert mode(path) == 0o644
    assert names(path) == ["a.run"]
    assert line.pieces == [300_000, 300_000, 300_000, 100_000]
    assert told == [(n, 1_000_000) for n in (0, 300_000, 600_000, 900_000, 1_000_000)]
    assert len(runner.ran) == 1


@pytest.mark.parametrize(
    "breaks", [["put"], ["", "before"], ["", "after"], ["put", "before", "after", "put", "after"], ["after"] * 9]
)
async def test_a_line_that_breaks_costs_at_most_the_piece_under_way(
    line: Breaking, runner: Runner, source: Path, path: Path, breaks: list[str]
) -> None:
    line.breaks = list(breaks)
    await send(line, step_for(path, CONTENT), source, runner)
    assert content(path) == CONTENT
    assert names(path) == ["a.run"]
    # A piece whose frame ran before the line was lost is not sent again.
    assert sum(line.pieces) == len(CONTENT) + PIECE * breaks.count("before")


async def test_a_line_that_never_holds_is_given_up(line: Breaking, runner: Runner, source: Path, path: Path) -> None:
    line.breaks = ["", *["put"] * 50]
    with pytest.raises(LineLost):
        await send(line, step_for(path, CONTENT), source, runner)
    assert len(line.breaks) == 50 - TRIES
    # What came stays for the next time.
    line.breaks, line.pieces = [], []
    await send(line, step_for(path, CONTENT), source, runner)
    assert content(path) == CONTENT
    assert sum(line.pieces) == 700_000


@pytest.mark.parametrize("in_frame", [64 * 1024 * 1024, 1000])
async def test_what_the_host_has_is_built_on_only_when_it_is_the_beginning(
    line: Breaking, runner: Runner, source: Path, path: Path, in_frame: int
) -> None:
    part = path.with_name("a.run.part")
    for there, sent in [(CONTENT[:450_001], 549_999), (b"z" * 450_001, 1_000_000), (CONTENT + b"more", 1_000_000)]:
        only(part, there)
        line.pieces, runner.ran = [], []
        await send(line, step_for(path, CONTENT), source, runner, in_frame=in_frame)
        assert content(path) == CONTENT
        assert sum(line.pieces) == sent
        assert len(runner.ran) == (2 if in_frame == 1000 and len(there) < len(CONTENT) else 1)


async def test_an_empty_file_arrives_too(line: Breaking, runner: Runner, source: Path, path: Path) -> None:
    write(source, b"")
    await send(line, step_for(path, b""), source, runner)
    assert content(path) == b""


async def test_a_file_that_is_not_it_is_deleted_on_the_host(
    line: Breaking, runner: Runner, source: Path, path: Path
) -> None:
    with pytest.raises(StepFailed) as caught:
        await send(line, step_for(path, CONTENT, sha256="0" * 64), source, runner)
    assert caught.value.status == Ended.WRONG_DIGEST
    assert "what the controller sent is not the file that is wanted" in caught.value.message
    assert f"sha256 {sha256(CONTENT)}" in caught.value.output
    assert names(path) == []


async def test_sizes_that_differ_are_told_before_anything_is_sent(
    line: Breaking, runner: Runner, source: Path, path: Path
) -> None:
    with pytest.raises(StepFailed, match="has 1000000 bytes, and 5 are wanted"):
        await send(line, step_for(path, CONTENT, size=5), source, runner)
    assert line.exchanges == 0
    with pytest.raises(StepFailed, match="cannot be read: No such file"):
        await send(line, step_for(path, CONTENT), source.with_name("missing"), runner)


async def test_a_source_that_shrinks_is_no_endless_loop(
    line: Breaking, runner: Runner, source: Path, path: Path
) -> None:
    line.on_put = lambda: write(source, b"")
    with pytest.raises(StepFailed, match="became shorter"):
        await send(line, step_for(path, CONTENT), source, runner)


async def test_the_deadline_of_the_step_holds(line: Breaking, runner: Runner, source: Path, path: Path) -> None:
    line.breaks = ["", "hang"]
    with pytest.raises(StepFailed, match="took longer than 2 s"):
        await send(line, step_for(path, CONTENT, deadline=2.0), source, runner)


async def test_no_room_is_told_before_anything_is_sent(
    line: Breaking, runner: Runner, tmp_path: Path, small: Path
) -> None:
    source = tmp_path / "large"
    write(source, CONTENT * 3)
    # Without a size in the step, too: the controller knows it.
    with pytest.raises(StepFailed) as caught:
        await send(line, step_for(small / "a", CONTENT, size=0), source, runner)
    assert caught.value.status == Ended.NO_SPACE
    assert f"{small} has 2097152 free" in caught.value.output
    assert line.pieces == []


async def test_a_large_file_is_never_in_memory_as_a_whole(
    line: Breaking, runner: Runner, tmp_path: Path, path: Path
) -> None:
    size = 400 * 1024 * 1024
    source = tmp_path / "sparse"
    with source.open("wb") as stream:
        stream.truncate(size)
    wanted = prefix_sha256(source, size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await send(line, step_for(path, b"", sha256=wanted, size=size), source, runner, piece=16 * 1024 * 1024)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert size_of(path) == size
    assert after - before < 150 * 1024  # KiB


# --- whichever way there is ---------------------------------------------------------------------


async def get(step: Obtain, line: Breaking, runner: Runner, cache: Cache) -> list[str]:
    said: list[str] = []
    async with asyncio.timeout(60):
        await obtain(step, run_job=runner, connection=line, emit_line=said.append, cache=cache, limits=QUICK)
    return said


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


async def test_the_host_fetches_it_when_it_can(
    line: Breaking, runner: Runner, server: Server, cache: Cache, path: Path
) -> None:
    await get(step_for(path, CONTENT, server.serve("x", CONTENT)), line, runner, cache)
    assert content(path) == CONTENT
    assert line.exchanges == 0
    assert [slot for slot, _ in runner.ran] == [f"download:{path}"]


@pytest.mark.parametrize("sources", [(), ("http://127.0.0.1:1/x",), ("file:///nowhere/x",)])
async def test_the_controller_sends_what_the_host_cannot_fetch(
    line: Breaking, runner: Runner, cache: Cache, source: Path, path: Path, sources: tuple[str, ...]
) -> None:
    cache.add(source)
    said = await get(step_for(path, CONTENT, *sources), line, runner, cache)
    assert content(path) == CONTENT
    assert any(line.endswith("; the controller has it, and sends it") for line in said)
    assert sum(line.startswith("uploading a.run 1000000/1000000 bytes (") for line in said) == 1
    assert {slot for slot, _ in runner.ran} == {f"download:{path}"}
    # And again: nothing is sent.
    line.pieces = []
    assert await get(step_for(path, CONTENT, *sources), line, runner, cache) == ["a.run is there already"]
    assert line.pieces == []


async def test_what_the_host_says_of_what_was_sent_is_heard(
    line: Breaking, runner: Runner, cache: Cache, source: Path, path: Path
) -> None:
    cache.add(source)
    said = await get(step_for(path, CONTENT, sha256="", md5=md5(CONTENT)), line, runner, cache)
    assert content(path) == CONTENT
    assert f"the sha256 of a.run is {sha256(CONTENT)}" in said
    assert content(path.with_name("a.run.sha256")).decode() == f"{sha256(CONTENT)}  a.run\n"


async def test_when_nobody_has_it_the_reason_is_told(
    line: Breaking, runner: Runner, server: Server, cache: Cache, path: Path
) -> None:
    cache.folder.mkdir()
    (cache.folder / "a.run").write_bytes(b"something else")
    said: list[str] = []
    step = step_for(path, CONTENT, f"{server.url}/missing")
    with pytest.raises(StepFailed) as caught:
        await obtain(step, run_job=runner, connection=line, emit_line=said.append, cache=cache, limits=QUICK)
    assert caught.value.status == Ended.NOT_FOUND
    assert caught.value.message == "fetch it: a.run cannot be fetched: 127.0.0.1 does not have it"
    assert "HTTP status 404" in caught.value.output
    assert caught.value.hint
    assert any("is not used: it has 14 bytes" in line for line in said)
    assert line.exchanges == 0


async def test_a_host_without_room_is_sent_nothing(
    line: Breaking, runner: Runner, cache: Cache, source: Path, path: Path
) -> None:
    cache.add(source)
    make_folder(path)
    with pytest.raises(StepFailed) as caught:
        await get(step_for(path, CONTENT, "file:///nowhere/x"), line, runner, cache)
    assert caught.value.status == Ended.UNWRITABLE
    assert line.pieces == []


async def test_a_download_past_its_deadline_is_told_as_such(
    line: Breaking, runner: Runner, server: Server, cache: Cache, path: Path
) -> None:
    step = step_for(path, CONTENT, server.serve("x", CONTENT, rate=20_000), deadline=2.0)
    with pytest.raises(StepFailed, match="did not end before its deadline") as caught:
        await get(step, line, runner, cache)
    assert "goes on from there" in caught.value.hint
    assert path.with_name("a.run.part").stat().st_size > 0


async def test_without_a_digest_nothing_is_obtained(line: Breaking, runner: Runner, cache: Cache, path: Path) -> None:
    with pytest.raises(ValueError, match="a digest is needed"):
        await get(Obtain(title="t", key="k", path=str(path)), line, runner, cache)
    assert runner.ran == []
