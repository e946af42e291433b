"""The ``@role`` decorator: a generator function whose signature is its schema and whose docstring its page."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gpuprov.facts import Facts
from gpuprov.model import Resource

RoleFunction = Callable[..., Iterator[Resource[Any]]]
F = TypeVar("F", bound=RoleFunction)

ATTRIBUTE = "__gpuprov_role__"


class NoRole(TypeError):
    """A function that is no role. ``mistakes``: all that is wrong with it; ``role``: what it is called."""

    def __init__(self, mistakes: Sequence[str], role: str) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = tuple(mistakes)
        self.role = role


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a role, as its signature gives it; ``required``: it has no default."""

    name: str
    annotation: Any
    required: bool
    default: Any = None


@dataclass(frozen=True, kw_only=True)
class Role:
    """A role: what it is called, what it takes, and the function that declares its resources.

    ``folder`` holds ``role.py``; ``builtin`` tells whether it came with gpuprov.
    """

    name: str
    function: RoleFunction
    parameters: Mapping[str, Parameter]
    doc: str
    folder: Path = Path()
    builtin: bool = False

    def declare(self, host: Facts, values: Mapping[str, object]) -> Iterator[Resource[Any]]:
        """Run the role's function. Whatever it raises comes through."""
        return self.function(host, **values)


def role(function: F) -> F:
    """Make a role of a generator function.

    The first parameter is the host's facts; all others are keyword-only, annotated, and are what a
    playbook may give. The function is returned unchanged, so that it can be called and tested as it is.

    Raises:
        NoRole: the function is not a role's; with all that is wrong with it.

    >>> @role
    ... def motd(host: Facts, *, text: str = "hello") -> Iterator[Resource[Any]]:
    ...     '''Say something at login.'''
    ...     yield from ()
    """
    setattr(function, ATTRIBUTE, _role_of(function))
    return function


def _role_of(function: RoleFunction) -> Role:
    name = function.__name__
    wrong = []
    if not inspect.isgeneratorfunction(function):
        wrong.append(f"role {name} must be a generator function: it yields the resources it declares")
    if not (function.__doc__ or "").strip():
        wrong.append(f"role {name} needs a docstring: it is the role's reference page")
    others = list(inspect.signature(function).parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if others and others[0].kind in positional:
        del others[0]
    else:
        wrong.append(f"role {name} takes the host's facts as its first parameter")
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        wrong.append(f"role {name} has an annotation that cannot be read: {error}")
        hints = {}
    parameters = {}
    for parameter in others:
        if parameter.kind is not parameter.KEYWORD_ONLY:
            wrong.append(f"role {name}: parameter {parameter.name!r} must be keyword-only (write * before it)")
        if parameter.annotation is parameter.empty:
            wrong.append(f"role {name}: parameter {parameter.name!r} needs a type annotation")
        required = parameter.default is parameter.empty
        parameters[parameter.name] = Parameter(
            name=parameter.name,
            annotation=hints.get(parameter.name),
            required=required,
            default=None if required else parameter.default,
        )
    if wrong:
        raise NoRole(wrong, name)
    return Role(name=name, function=function, parameters=parameters, doc=inspect.getdoc(function) or "")


def placed(found: Role, folder: Path, *, builtin: bool) -> Role:
    """Return the role with the place it was found in."""
    return dataclasses.replace(found, folder=folder, builtin=builtin)
