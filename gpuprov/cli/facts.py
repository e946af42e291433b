"""``gpuprov facts``."""

from __future__ import annotations

from typing import Any

import click

from gpuprov.cli.foreign import Telling
from gpuprov.cli.words import connection_options, read


@click.command("facts", cls=Telling)
@click.argument("pattern", metavar="[PATTERN]", default="all")
@connection_options
@click.pass_context
def command(context: click.Context, /, pattern: str, **parameters: Any) -> int:
    """Show what hosts are and have: GPUs, driver, toolkits and more.

    PATTERN names hosts as --limit does; all of the inventory without it.
    """
    words = read(context, "facts", parameters)
    from gpuprov.cli import calls
    from gpuprov.cli.working import work

    return work(calls.facts(pattern, words), words)
