"""``gpuprov apply``."""

from __future__ import annotations

from typing import Any

import click

from gpuprov.cli.foreign import Telling
from gpuprov.cli.words import connection_options, play_options, read


@click.command("apply", cls=Telling)
@click.argument("playbook", metavar="PLAYBOOK")
@connection_options
@play_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def command(context: click.Context, /, playbook: str, **parameters: Any) -> int:
    """Make the hosts what the playbook says they should be.

    On a terminal the plans of all hosts are shown first and you are asked once; -y, or a stdin or
    stdout that is no terminal, goes ahead. What is as wanted is left alone, so it may be run
    again at any time; after a failure it goes on where it stopped.
    """
    words = read(context, "apply", parameters)
    if words.exit_code and not words.only_looks:
        raise click.UsageError("--exit-code goes with plan, or with --check", context)
    from gpuprov.cli import calls
    from gpuprov.cli.working import work

    return work(calls.play(playbook, words), words)
