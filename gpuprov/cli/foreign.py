"""Options that are none here: what Ansible's and pyinfra's are called, which commands have them, where ``--`` goes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence

import click

from gpuprov.quote import command as quoted

_BECOME = (
    "it is not needed: where the user is not root, sudo without a password is used; 'become: auto' or 'become: never'"
    " stands in the inventory"
)
_ROOT = "it is always root; 'become: auto' or 'become: never' stands in the inventory"
_USER = "say 'user' in the inventory, or -i USER@HOST,"
_KEY = "say 'key' in the inventory"
_PASSWORD = "say 'password: {env: NAME}' in the inventory"
_SUDO_PASSWORD = "sudo without a password is the only way; 'become: never' in the inventory does without it"
_MODULES = "there are no modules; a command runs with: gpuprov exec PATTERN -- COMMAND"
_AGAIN = "run the whole again: what is as wanted is left alone; -t TAG changes only what carries it"
_CHECK = "give the command 'plan', or apply --check"

_HINTS: Mapping[str, str] = {
    "-b": _BECOME,
    "--become": _BECOME,
    "--sudo": _BECOME,
    "--become-method": _BECOME,
    "--become-user": _ROOT,
    "--sudo-user": _ROOT,
    "--su-user": _ROOT,
    "-u": _USER,
    "--user": _USER,
    "--remote-user": _USER,
    "--ssh-user": _USER,
    "--private-key": _KEY,
    "--key-file": _KEY,
    "--key": _KEY,
    "--ssh-key": _KEY,
    "-k": _PASSWORD,
    "--ask-pass": _PASSWORD,
    "--password": _PASSWORD,
    "--ssh-password": _PASSWORD,
    "--connection-password-file": "say 'password: {file: PATH}' in the inventory",
    "-K": _SUDO_PASSWORD,
    "--ask-become-pass": _SUDO_PASSWORD,
    "--become-password-file": _SUDO_PASSWORD,
    "--use-sudo-password": _SUDO_PASSWORD,
    "-a": _MODULES,
    "--args": _MODULES,
    "-m": _MODULES,
    "--module-name": _MODULES,
    "--module-path": _MODULES,
    "-p": "say 'port' in the inventory, or -i HOST:PORT,",
    "--port": "say 'port' in the inventory, or -i HOST:PORT,",
    "--ssh-port": "say 'port' in the inventory, or -i HOST:PORT,",
    "-c": "say 'connection: local' or 'connection: ssh' in the inventory",
    "--connection": "say 'connection: local' or 'connection: ssh' in the inventory",
    "--ssh-common-args": "say 'jump', 'key' or 'known_hosts' in the inventory",
    "--ssh-extra-args": "say 'jump', 'key' or 'known_hosts' in the inventory",
    "-T": "give --timeout S",
    "--parallel": "give -f N",
    "--data": "give -e NAME=VALUE",
    "--syntax-check": "words and files are checked before any host is contacted; plan --list-hosts does only that",
    "--start-at-task": _AGAIN,
    "--step": "plan shows every change; on a terminal apply shows them and asks once",
    "--list-tasks": "give plan --list-resources",
    "--dry": _CHECK,
    "--dry-run": _CHECK,
    "--force-handlers": "there are no handlers; a role says what depends on what",
    "--flush-cache": "leave it out: facts are read in every run",
    "--fail-percent": "leave it out: a host that fails ends no other host's work",
}


class Telling(click.Command):
    """A command that says of an option which it does not have what there is instead."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words."""
        typed = tuple(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = self._dashes(ctx, typed) or _hint(error.option_name, self)
            raise without(error, hint) from None
        except click.BadOptionUsage as error:
            if hint := self._dashes(ctx, typed):
                raise click.UsageError(f"{error.format_message().rstrip('.')} ({hint})", ctx) from None
            raise

    def _dashes(self, ctx: click.Context, typed: Sequence[str]) -> str:
        """Return where ``--`` goes, if an option of the host's command was taken for one of ours."""
        line = next((param.name or "" for param in self.params if param.nargs == -1), "")
        if "--" in typed or not line:
            return ""
        for end in range(len(typed)):
            try:
                found, _, _ = self.make_parser(ctx).parse_args(list(typed[: end + 1]))
            except click.UsageError:
                continue  # the value of an option is still to come, or an option before the command is none
            if isinstance(found.get(line), tuple) and found[line]:
                own = quoted("gpuprov", ctx.info_name or "", *typed[:end])
                return f"put '--' before the command: {own} -- {quoted(*typed[end:])}"
        return ""


def without(error: click.NoSuchOption, hint: str) -> click.UsageError:
    """Return the error with this hint in place of click's guess, which is as good as any word with an ``e``."""
    return click.UsageError(f"no such option {error.option_name!r}" + (f" ({hint})" if hint else ""), error.ctx)


def before_command(error: click.NoSuchOption) -> str:
    """Return a hint for an option that stands before the command's name, where there are next to none."""
    name = error.option_name
    if any(True for _ in _having(name)):
        return "options stand behind the command: gpuprov plan|apply|facts|exec … " + name
    return _HINTS.get(name, "")


def _hint(name: str, command: click.Command) -> str:
    from gpuprov.yaml_text import nearest

    if elsewhere := list(_having(name)):
        return f"that goes with {' and '.join(elsewhere)}"
    return _HINTS.get(name) or nearest(name, [opt for param in command.params for opt in param.opts if opt[:2] == "--"])


def _having(name: str) -> Iterator[str]:
    """Yield the commands that have an option."""
    from gpuprov.cli import COMMANDS

    for command, module in COMMANDS.items():
        params = importlib.import_module(module).command.params
        if any(isinstance(param, click.Option) and name in param.opts for param in params):
            yield command
