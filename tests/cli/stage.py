"""``python -m tests.cli.stage KIND WORDS…``: gpuprov with a made-up engine, for tests with signals and terminals."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from gpuprov.cli import calls, main
from gpuprov.events import HostEnded, HostPhase, RunEnded, RunStarted, Sink
from tests.cli.fake import Body, asking, install

HOSTS = ("gpu1", "gpu2")


async def slow(sink: Sink, approve: calls.Approve | None) -> int:
    """Runs until it is cancelled, and tidies up for a moment then."""
    sink(RunStarted(run="r", command="apply", playbook="site.yaml", hosts=HOSTS))
    for host in HOSTS:
        sink(HostPhase(host=host, phase="converge"))
    print("running", file=sys.stderr, flush=True)
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        await asyncio.sleep(0.2)
        for host in HOSTS:
            sink(HostEnded(host=host, status="interrupted"))
        sink(RunEnded(run="r", exit_code=130, seconds=1))
        print("tidied up", file=sys.stderr, flush=True)
        raise
    return 0


async def stubborn(sink: Sink, approve: calls.Approve | None) -> int:
    """Tidies up for ever."""
    print("running", file=sys.stderr, flush=True)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            print("tidying", file=sys.stderr, flush=True)


async def hung(sink: Sink, approve: calls.Approve | None) -> int:
    """Holds up the loop itself."""
    print("running", file=sys.stderr, flush=True)
    time.sleep(60)  # noqa: ASYNC251
    return 0


async def loud(sink: Sink, approve: calls.Approve | None) -> int:
    """Says more than a pipe holds."""
    sink(RunStarted(run="r", command="apply", hosts=HOSTS))
    for number in range(5000):
        sink(HostEnded(host=f"gpu{number}", status="ok"))
    print("came to the end", file=sys.stderr, flush=True)
    return 0


answers: dict[str, bool] = {}
KINDS: dict[str, Body] = {
    "slow": slow, "stubborn": stubborn, "hung": hung, "loud": loud, "asking": asking(HOSTS, answers),
}  # fmt: skip

if __name__ == "__main__":
    install(pytest.MonkeyPatch(), KINDS[sys.argv[1]], HOSTS)
    code = main(sys.argv[2:])
    if answers:
        print(f"answers: {sorted(answers.items())}", flush=True)
    sys.exit(code)
