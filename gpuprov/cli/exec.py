"""``gpuprov exec``."""

from __future__ import annotations

from typing import Any

import click

from gpuprov.cli.foreign import Telling
from gpuprov.cli.words import connection_options, read
from gpuprov.quote import command as quoted


@click.command("exec", cls=Telling)
@click.argument("pattern", metavar="PATTERN")
@click.argument("line", metavar="-- COMMAND…", nargs=-1, required=True)
@connection_options
@click.pass_context
def command(context: click.Context, /, pattern: str, line: tuple[str, ...], **parameters: Any) -> int:
    """Run a command on every host of PATTERN at the same time.

    \b
    gpuprov exec 'gpu*' -i hosts.yaml -- nvidia-smi -L
    gpuprov exec all -i hosts.yaml -- 'df -h / | tail -1'

    Several words are passed on as they are; a single one is a line for the host's shell. It runs as
    root, through sudo, where the user has that without a password; with 'become: never' in the
    inventory as the user who logs in. Exits with 1 when it failed anywhere.
    """
    words = read(context, "exec", parameters)
    from gpuprov.cli import calls
    from gpuprov.cli.working import work

    return work(calls.command(pattern, shell_line(line), words), words)


def shell_line(words: tuple[str, ...]) -> str:
    """Return what the host's shell gets: one word as it is, several each quoted."""
    return words[0] if len(words) == 1 else quoted(*words)
