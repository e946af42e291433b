"""``gpuprov plan``."""

from __future__ import annotations

from typing import Any

import click

from gpuprov.cli.foreign import Telling
from gpuprov.cli.words import connection_options, play_options, read


@click.command("plan", cls=Telling)
@click.argument("playbook", metavar="PLAYBOOK")
@connection_options
@play_options
@click.pass_context
def command(context: click.Context, /, playbook: str, **parameters: Any) -> int:
    """Show what would change on each host, and why. Changes nothing.

    PLAYBOOK is a YAML file with plays and roles. Signs: + create, ~ update, ! replace, - remove,
    ? checked again after something else, x blocked.
    """
    words = read(context, "plan", parameters)
    from gpuprov.cli import calls
    from gpuprov.cli.working import work

    return work(calls.play(playbook, words), words)
