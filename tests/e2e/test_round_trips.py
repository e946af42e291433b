"""The budget: a run that changes nothing costs eleven round trips, with five resources as with fifty."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.e2e.command import GROUND, Command, hosts_of, playbook, write_inventory
from tests.lab.hosts import Host
from tests.transport.slowline import slow_line

ROUND_TRIP = 0.2
"""Seconds; far above what a busy machine adds by itself."""


@pytest.mark.alone  # what other tests take of the processor would be counted as the line's
@pytest.mark.parametrize("resources", [5, 50])
async def test_a_run_without_changes_costs_eleven_round_trips(fresh_b: Host, tmp_path: Path, resources: int) -> None:
    with_roles = {"workspace": (GROUND.parent / "roles" / "workspace" / "role.py").read_text()}
    files = resources - 5
    params = {"folder": "/srv/ground", "greeting": "hi", "cuda": "12.10", "files": str(files)}
    path = playbook(tmp_path, {"hosts": "all", "roles": [{"workspace": params}]}, roles=with_roles)
    templates = tmp_path / "roles" / "workspace" / "templates"
    templates.mkdir()
    (templates / "stack.env.j2").write_text((GROUND.parent / "roles/workspace/templates/stack.env.j2").read_text())

    near = Command(write_inventory(tmp_path / "near.yaml", hosts_of(fresh_b)))
    assert near("apply", str(path)).code == 0

    async def seconds(rtt: float) -> float:
        # The proxy itself answers the TCP handshake at once; the delay that it has on a real line is imitated
        async with slow_line(fresh_b.port, rtt=rtt, address=fresh_b.address) as line:
            there = fresh_b.at("127.0.0.1", line.port)
            # By whichever way it is reached, it is the same host to the playbook
            entries = {fresh_b.name: hosts_of(there)[there.name]}
            command = Command(write_inventory(tmp_path / "hosts.yaml", entries))
            result = await asyncio.to_thread(command, "apply", str(path))
        assert result.code == 0 and result.changed(fresh_b.name) == set()
        assert len(result.outcomes(fresh_b.name)) == resources
        return float(result.ended(fresh_b.name)["seconds"])

    at_once = far = float("inf")
    for _ in range(3):
        # Whatever else this machine does can only add to a time, so the least counts. The number of rounds is fixed:
        # stopping at the first that suits would be choosing the result.
        at_once, far = min(at_once, await seconds(0)), min(far, await seconds(ROUND_TRIP))
    trips = (far - at_once) / ROUND_TRIP
    assert 10 <= trips <= 12, f"{trips:.2f} round trips ({at_once:.2f} s at 0 ms, {far:.2f} s at 200 ms)"
