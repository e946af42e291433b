"""From a command that is ready to its exit code: readers, question, signals, all in one place."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence

from gpuprov.cli.asking import Approval, answer_line, can_ask, forget_typed, is_yes
from gpuprov.cli.calls import Ready
from gpuprov.cli.running import run
from gpuprov.cli.screen import Screen, question
from gpuprov.cli.words import Words, json_stream
from gpuprov.errors import ExitCode


def work(ready: Ready, words: Words) -> int:
    """Run it, show it, and return the exit code."""
    if words.list_hosts:
        return _list(ready.hosts, words)
    asks = words.command == "apply" and not (words.only_looks or words.yes or words.json) and can_ask()
    approval = Approval(lambda hosts: _ask(screen, hosts), slots=words.forks) if asks else None
    screen = Screen(words, also=[approval] if approval is not None else [])

    async def whole() -> int:
        screen.begin()
        return await ready.run(screen.sink, approval.approve if approval is not None else None)

    try:
        code = run(whole, note=screen.note)
    except BaseException:
        screen.pause()
        raise
    declined = approval is not None and bool(approval.declined) and not approval.approved
    return screen.finish(code, declined=declined and code != ExitCode.INTERRUPTED)


async def _ask(screen: Screen, hosts: Sequence[str]) -> bool:
    # A terminal that takes no output (Ctrl-S) must not stop the lines to the hosts from being kept up.
    await asyncio.to_thread(_show, screen, hosts)
    try:
        return is_yes(await answer_line())
    finally:
        screen.begin()


def _show(screen: Screen, hosts: Sequence[str]) -> None:
    screen.pause()
    screen.show_plans(hosts)
    screen.show_troubles()
    forget_typed()
    screen.prompt(question(hosts))


def _list(hosts: Sequence[str], words: Words) -> int:
    if words.json:
        from gpuprov.report.jsonlines import JsonLines, stamped

        JsonLines(json_stream()).write(stamped("hosts", time.time(), hosts=list(hosts)))
    else:
        from gpuprov.report.visible import visible

        sys.stdout.writelines(f"{visible(host)}\n" for host in hosts)
    return ExitCode.OK
