"""The words of a command: options that several commands share, and how to spell them again."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click
from click.core import ParameterSource

from gpuprov.errors import InputError, Problem
from gpuprov.quote import command as quoted

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_INVENTORY = "hosts.yaml"
INVENTORY_VARIABLE = "GPUPROV_INVENTORY"
TRACEBACK_VARIABLE = "GPUPROV_TRACEBACK"


def wants_traceback(verbosity: int) -> bool:
    """Whether whoever asked wants to see where an error arose."""
    return verbosity >= 3 or os.environ.get(TRACEBACK_VARIABLE, "") not in ("", "0")


@dataclass(kw_only=True)
class Manner:
    """How the person wants to be spoken to: known as soon as the words were read."""

    json: bool = False
    verbosity: int = 0
    out: TextIO | None = None
    """Where JSON lines go, once everything else that is printed was sent elsewhere."""


@dataclass(frozen=True, kw_only=True)
class Words:
    """What was typed. Times are in seconds; ``forks`` None: all hosts at once."""

    command: str
    inventory: tuple[str, ...]
    limit: str | None = None
    check: bool = False
    diff: bool = False
    tags: frozenset[str] = frozenset()
    skip_tags: frozenset[str] = frozenset()
    extra_vars: tuple[str, ...] = ()
    forks: int | None = None
    verbosity: int = 0
    yes: bool = False
    list_hosts: bool = False
    list_resources: bool = False
    json: bool = False
    accept_new: bool = False
    timeout: float = 15.0
    reconnect_for: float = 600.0
    lock_wait: float = 600.0
    exit_code: bool = False
    typed: Typed

    @property
    def only_looks(self) -> bool:
        """Whether nothing is to be changed on any host."""
        return self.command != "apply" or self.check or self.list_resources


@dataclass(frozen=True, kw_only=True)
class Typed:
    """The arguments and options as they were given, to be spelled again with little changed."""

    arguments: tuple[str, ...]
    options: tuple[tuple[str, tuple[str, ...]], ...]
    """``(parameter, words)`` pairs."""

    @classmethod
    def of(cls, context: click.Context) -> Typed:
        """Read what stood on the command line; defaults and the environment are not repeated."""
        arguments: list[str] = []
        options: list[tuple[str, tuple[str, ...]]] = []
        for parameter in context.command.params:
            name = parameter.name or ""
            if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
                continue
            value = context.params[name]
            if isinstance(parameter, click.Option):
                options.append((name, _spelled(parameter, value)))
            else:
                arguments += map(str, value) if isinstance(value, tuple) else [str(value)]
        return cls(arguments=tuple(arguments), options=tuple(options))

    def __call__(self, command: str, *, hosts: Sequence[str] | None = None) -> str:
        """Return the command line for ``command``, limited to ``hosts`` if these are given."""
        left_out = {"check", "exit_code", "list_resources"} if command == "apply" else {"check", "yes"}
        if hosts is not None:
            left_out.add("limit")
        words = ["gpuprov", command, *self.arguments]
        for name, spelled in self.options:
            words += () if name in left_out else spelled
        if hosts is not None:
            words += ["-l", ",".join(hosts)]
        return quoted(*words)


def _spelled(option: click.Option, value: Any) -> tuple[str, ...]:
    flag = option.opts[0]
    if option.count:
        return ("-" + flag.lstrip("-") * int(value),)
    if option.is_flag:
        return (flag,) if value else ()
    if option.multiple:
        return tuple(word for item in value for word in (flag, str(item)))
    number = f"{value:g}" if isinstance(value, float) else str(value)
    return (flag, number)


def read(context: click.Context, command: str, parameters: dict[str, Any]) -> Words:
    """Return the words of a command from click's parameters; what it does not offer keeps its default."""
    manner = context.find_object(Manner)
    if manner is not None:
        manner.json, manner.verbosity = bool(parameters["json"]), int(parameters["verbosity"])
        if manner.json:
            context.with_resource(_stdout_alone(manner))
    for name in ("tags", "skip_tags"):
        if name in parameters:
            parts = (part.strip() for value in parameters[name] for part in value.split(","))
            tags = frozenset(filter(None, parts))
            if parameters[name] and not tags:
                # -t "$TAG" with a variable that is empty must not come to mean everything
                option = next(param for param in context.command.params if param.name == name)
                raise click.BadParameter("it names no tag", context, option)
            parameters[name] = tags
    parameters["inventory"] = tuple(parameters["inventory"]) or _default_inventory()
    words = Words(command=command, typed=Typed.of(context), **parameters)
    if not words.inventory:
        from gpuprov.cli import calls

        # With all else that is wrong: the next try is not to end at what could be told now
        raise InputError(calls.without_inventory(words, context.params.get("playbook"), _NO_INVENTORY))
    return words


@contextlib.contextmanager
def _stdout_alone(manner: Manner) -> Iterator[None]:
    """Keep stdout for JSON lines. Roles are anybody's Python: what they or their programs print goes to stderr."""
    manner.out = sys.stdout
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        with contextlib.suppress(OSError, ValueError):
            if manner.out.fileno() == 1:
                manner.out.flush()
                kept = os.dup(1)
                manner.out = open(kept, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
                os.dup2(2, 1)
                stack.callback(_give_back, manner.out, kept)
        yield


def _give_back(stream: TextIO, kept: int) -> None:
    with contextlib.suppress(OSError):  # whoever read it may be gone
        stream.flush()
    os.dup2(kept, 1)
    os.close(kept)


def json_stream() -> TextIO:
    """Where JSON lines go: the stdout that the command was started with."""
    context = click.get_current_context(silent=True)
    manner = context.find_object(Manner) if context is not None else None
    return (manner.out if manner is not None else None) or sys.stdout


def _default_inventory() -> tuple[str, ...]:
    named = tuple(filter(None, os.environ.get(INVENTORY_VARIABLE, "").split(os.pathsep)))
    if named:
        return named
    if Path(DEFAULT_INVENTORY).exists():
        return (DEFAULT_INVENTORY,)
    return ()


_NO_INVENTORY = Problem(
    f"no inventory: there is no {DEFAULT_INVENTORY} here and {INVENTORY_VARIABLE} is not set",
    hint="name one with -i, such as -i hosts.yaml, or -i gpu1.example.org, with a comma for a single host",
)


def _decorated(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


class _Seconds(click.FloatRange):
    """A number of seconds. ``nan``, which no comparison refuses, is none."""

    name = "number of seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return seconds


class _Count(click.IntRange):
    """A whole number."""

    name = "whole number"


_SECONDS = _Seconds(min=0, min_open=True)

connection_options = _decorated(
    click.option(
        "-i",
        "--inventory",
        multiple=True,
        metavar="FILE|FOLDER|a,b,",
        help=f"Hosts. May be repeated.  [default: ${INVENTORY_VARIABLE}, else {DEFAULT_INVENTORY}]",
    ),
    click.option("-l", "--limit", metavar="PATTERN", help="Only these of the hosts: gpu*, a,b, group, all:!x."),
    click.option("-e", "--extra-vars", multiple=True, metavar="k=v|@FILE", help="Variables that win over all others."),
    click.option("-f", "--forks", type=_Count(min=1), metavar="N", help="Hosts at a time.  [default: all]"),
    click.option(
        "-v",
        "--verbose",
        "verbosity",
        count=True,
        help="Say more. -v: also what is as wanted, each phase, and every fact. -vv: in apply, also what long steps"
        " print. -vvv: also each planned line, progress, round trips,"
        " and where an unexpected error arose, in a role too.",
    ),
    click.option("--list-hosts", is_flag=True, help="Name the hosts that are meant, and contact none."),
    click.option("--json", is_flag=True, help="Events as JSON lines on stdout, and nothing else there."),
    click.option("--accept-new", is_flag=True, help="Trust the key of a host that is not known yet."),
    click.option("--timeout", type=_SECONDS, default=15.0, show_default=True, metavar="S", help="To connect."),
    click.option(
        "--reconnect-for",
        type=_Seconds(min=0),
        default=600.0,
        show_default=True,
        metavar="S",
        help="How long a lost host is tried again.",
    ),
)
"""What every command takes that talks to hosts."""

play_options = _decorated(
    click.option("-C", "--check", is_flag=True, help="Only look: the same as plan."),
    click.option("-D", "--diff", is_flag=True, help="Show what would differ inside files."),
    click.option("-t", "--tags", multiple=True, metavar="TAG,…", help="Change only what carries one of these tags."),
    click.option("--skip-tags", multiple=True, metavar="TAG,…", help="Change nothing that carries one of these."),
    click.option(
        "--list-resources",
        is_flag=True,
        help="Only look, as plan does, and list every resource of each host, also those that are as wanted.",
    ),
    click.option(
        "--lock-wait",
        type=_Seconds(min=0),
        default=600.0,
        show_default=True,
        metavar="S",
        help="How long to wait for another run on the same host.",
    ),
    click.option("--exit-code", is_flag=True, help="Exit with 4 when a host differs (plan, or with --check)."),
)
"""What plan and apply take besides."""
