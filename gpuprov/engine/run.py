"""A run over many hosts: each by itself, none waiting for another."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Literal

from gpuprov.engine.cards import card_warnings
from gpuprov.engine.checking import CheckedRun
from gpuprov.engine.gathering import facts_frame, facts_of
from gpuprov.engine.host import HostRun
from gpuprov.engine.options import Options
from gpuprov.errors import ErrorRecord, ExitCode, GpuprovError
from gpuprov.events import (
    CommandEnded,
    FactsRead,
    HostEnded,
    HostPhase,
    HostStatus,
    Notice,
    RunEnded,
    RunStarted,
    Sink,
)
from gpuprov.facts import summary, to_json
from gpuprov.inventory import Host, Inventory
from gpuprov.store import Cache
from gpuprov.transport.connect import connection_for
from gpuprov.transport.frame import Connection

Work = Callable[[Host, Connection], Awaitable[HostEnded]]


def new_run_id() -> str:
    """Return a run id: sorts by time (UTC), safe as a file name, and not met twice."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


async def run_playbook(checked: CheckedRun, inventory: Inventory, options: Options, sink: Sink) -> int:
    """Plan (``options.check``) or apply a checked playbook, and return the exit code."""
    run = new_run_id()
    cache = Cache()  # one for all: a file that many hosts want is read once

    async def work(host: Host, connection: Connection) -> HostEnded:
        one = HostRun(
            host=host, checked=checked, connection=connection, options=options, run=run, emit=sink, cache=cache
        )
        return await one.go()

    def notices() -> None:
        for name in checked.shadowing:
            sink(Notice(level="warning", text=f"role {name} beside the playbook is used, not the built-in one"))
        for problem in checked.unused:
            sink(Notice(level="warning", text=str(problem)))

    command: Literal["plan", "apply"] = "plan" if options.check else "apply"
    return await _over(
        checked.hosts, inventory, options, sink, work, run=run, command=command,
        playbook=str(checked.playbook.path), first=notices,
    )  # fmt: skip


async def read_facts(inventory: Inventory, hosts: Sequence[Host], options: Options, sink: Sink) -> int:
    """Read each host's facts, and return the exit code."""

    async def work(host: Host, connection: Connection) -> HostEnded:
        async def look() -> HostStatus:
            sink(HostPhase(host=host.name, phase="facts"))
            facts = facts_of(await connection.frame(facts_frame(host.paths)), host)
            for text in card_warnings(host, facts):
                sink(Notice(level="warning", host=host.name, text=text))
            sink(FactsRead(host=host.name, facts=to_json(facts), summary=tuple(summary(facts))))
            return "ok"

        return await _simple(host, connection, sink, look)

    return await _over(hosts, inventory, options, sink, work, run=new_run_id(), command="facts")


async def run_command(inventory: Inventory, hosts: Sequence[Host], command: str, options: Options, sink: Sink) -> int:
    """Run one shell line on each host (``gpuprov exec``), and return the exit code."""

    async def work(host: Host, connection: Connection) -> HostEnded:
        async def execute() -> HostStatus:
            sink(HostPhase(host=host.name, phase="converge", note=command))
            began = time.monotonic()
            stream = await connection.stream(command)
            try:
                kept: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
                while True:
                    which, chunk = await stream.read()
                    if which == 0:
                        break
                    kept[which] += chunk
                status = stream.status
            finally:
                await stream.close()
            sink(
                CommandEnded(
                    host=host.name,
                    status=-1 if status is None else status,
                    stdout=kept[1].decode(errors="replace"),
                    stderr=kept[2].decode(errors="replace"),
                    seconds=time.monotonic() - began,
                )
            )
            return "ok" if status == 0 else "failed"

        return await _simple(host, connection, sink, execute)

    return await _over(hosts, inventory, options, sink, work, run=new_run_id(), command="exec")


async def _simple(
    host: Host, connection: Connection, sink: Sink, work: Callable[[], Awaitable[HostStatus]]
) -> HostEnded:
    """Open, do one thing that needs no lock, close; an error becomes the host's last event."""
    began = time.monotonic()
    status: HostStatus = "ok"
    error = None
    try:
        sink(HostPhase(host=host.name, phase="connect"))
        await connection.open()
        status = await work()
    except asyncio.CancelledError:
        status = "interrupted"
        raise
    except Exception as caught:
        unreachable = isinstance(caught, GpuprovError) and caught.exit_code == ExitCode.UNREACHABLE
        status, error = "unreachable" if unreachable else "failed", ErrorRecord.of(caught)
    finally:
        await connection.close()
        ended = HostEnded(
            host=host.name,
            status=status,
            seconds=time.monotonic() - began,
            exchanges=connection.exchanges,
            error=error,
        )
        sink(ended)
    return ended


async def _over(
    hosts: Sequence[Host],
    inventory: Inventory,
    options: Options,
    sink: Sink,
    work: Work,
    *,
    run: str,
    command: Literal["plan", "apply", "facts", "exec"],
    playbook: str = "",
    first: Callable[[], None] = lambda: None,
) -> int:
    began = time.monotonic()
    # Before anything else: jump hosts that lead in a circle are a mistake in the files
    connections = [
        connection_for(
            host,
            inventory,
            accept_new=options.accept_new,
            timeout=options.timeout,
            reconnect_for=options.reconnect_for,
        )
        for host in hosts
    ]
    sink(RunStarted(run=run, command=command, playbook=playbook, hosts=tuple(h.name for h in hosts)))
    first()
    slots = asyncio.Semaphore(options.forks or max(1, len(hosts)))

    async def one(host: Host, connection: Connection) -> int:
        if slots.locked():
            sink(HostPhase(host=host.name, phase="waiting"))
        async with slots:
            return _code(await work(host, connection))

    tasks = [asyncio.create_task(one(*pair)) for pair in zip(hosts, connections, strict=True)]
    code = ExitCode.INTERRUPTED
    try:
        code = ExitCode.worst(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            # Once: a second time would cut short how the host is let go of
            if not task.cancelling():
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        sink(RunEnded(run=run, exit_code=code, seconds=time.monotonic() - began))
    return code


def _code(ended: HostEnded) -> int:
    if ended.error is not None:
        return ended.error.exit_code
    by_status = {"unreachable": ExitCode.UNREACHABLE, "failed": ExitCode.FAILED, "interrupted": ExitCode.INTERRUPTED}
    return by_status.get(ended.status, ExitCode.OK)
