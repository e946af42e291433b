"""The command line: one module per command, imported when it is asked for.

Nothing heavy may be imported here or at the top of a command's module: ``gpuprov --help`` is to answer at once.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from gpuprov import __version__
from gpuprov.cli.words import Manner
from gpuprov.errors import ExitCode

COMMANDS = {
    "plan": "gpuprov.cli.plan",
    "apply": "gpuprov.cli.apply",
    "facts": "gpuprov.cli.facts",
    "exec": "gpuprov.cli.exec",
}
"""Each module holds its command as ``command``."""


class Commands(click.Group):
    """Finds commands by name without importing the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which they are explained."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name]).command
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words before a command's name."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            from gpuprov.cli.foreign import before_command, without

            raise without(error, before_command(error)) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the words; a name that is none is answered with the ones there are."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"no such command {args[0]!r}; there are {', '.join(COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="gpuprov", message="%(prog)s %(version)s")
def cli() -> None:
    """Provision, repair and rebuild rented GPU hosts over SSH.

    \b
    gpuprov plan site.yaml -i hosts.yaml       what would change, and why
    gpuprov apply site.yaml -i hosts.yaml      make it so
    gpuprov facts gpu1 -i hosts.yaml           what a host is and has
    gpuprov exec all -i hosts.yaml -- uptime   run a command everywhere

    Exit codes: 0 as asked, 1 a host failed, 2 the words or files are wrong, 3 a host could not be
    reached, 4 differences (plan --exit-code), 130 interrupted.
    """


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Never raises on account of words, files or hosts."""
    arguments = list(sys.argv[1:] if words is None else words)
    for stream in (sys.stdout, sys.stderr):
        # An ASCII terminal shows an escape instead of the arrow; it must not end the run.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    manner = Manner(json="--json" in _own(arguments))
    try:
        code = cli.main(arguments, prog_name="gpuprov", standalone_mode=False, obj=manner)
        result = code if isinstance(code, int) else ExitCode.OK
    except BaseException as error:
        from gpuprov.cli.complaints import complain

        result = complain(error, manner)
    return _flushed(result)


def _own(arguments: Sequence[str]) -> Sequence[str]:
    """The words before ``--``: those after it belong to somebody else."""
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _flushed(code: int) -> int:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            from gpuprov.report.layout import silence

            silence(stream)
        except (OSError, ValueError):
            continue
    return code
