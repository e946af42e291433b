"""Playbook text to a role's parameters: the signature converts, and every mistake has its place."""

from __future__ import annotations

import types
import typing
from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from gpuprov.errors import InputError, Position, Problem
from gpuprov.role.declaration import Parameter, Role
from gpuprov.yaml_text import Mapping, Node, Scalar, Sequence, closest, describe, is_null, nearest


def check_names(role: Role, params: Mapping, position: Position, *, whole: bool = True) -> list[Problem]:
    """Return what is wrong with the names alone: unknown parameters, and required ones that are missing.

    A misspelt parameter is not missing besides; and none is where ``params`` are not all that is given (``whole``).
    """
    given = params.entries
    problems = []
    names = {key.text for key, _ in given}
    for key, _ in given:
        if key.text not in role.parameters:
            known = ", ".join(role.parameters) or "none"
            hint = nearest(key.text, role.parameters) or f"it takes: {known}"
            problems.append(Problem(f"role {role.name!r} has no parameter {key.text!r}", key.position, hint))
            names.add(closest(key.text, role.parameters))
    if not whole:
        return problems
    for parameter in role.parameters.values():
        if parameter.required and parameter.name not in names:
            problems.append(Problem(f"role {role.name!r} needs the parameter {parameter.name!r}", position))
    return problems


def check_value(role: Role, name: str, node: Node) -> list[Problem]:
    """Return what is wrong with one rendered value."""
    parameter = role.parameters.get(name)
    if parameter is None:
        return []
    try:
        _convert(role, parameter, node)
    except InputError as error:
        return list(error.problems)
    return []


def bind(role: Role, params: Mapping, position: Position) -> dict[str, object]:
    """Return the keyword arguments for a role's function from rendered playbook text.

    Raises:
        InputError: with every problem at once; each at the place of the value it is about.
    """
    problems = check_names(role, params, position)
    values: dict[str, object] = {}
    for key, node in params.entries:
        parameter = role.parameters.get(key.text)
        if parameter is None:
            continue
        try:
            values[key.text] = _convert(role, parameter, node)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return values


def type_words(annotation: Any) -> str:
    """Return a type as a playbook's author would say it: ``whole number``, ``list of text``, ``text or nothing``."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return type_words(args[0])
    if origin is typing.Literal:
        return "one of " + ", ".join(map(str, args))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(type_words(arg) for arg in args)
    if origin in (list, tuple, set, frozenset):
        return f"list of {type_words(args[0])}" if args else "list"
    if origin is dict:
        return f"mapping of {type_words(args[1])}" if len(args) == 2 else "mapping"
    words = {str: "text", int: "whole number", float: "number", bool: "yes or no", type(None): "nothing"}
    supertype = getattr(annotation, "__supertype__", None)  # a NewType
    if supertype is not None:
        return type_words(supertype)
    return words.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _convert(role: Role, parameter: Parameter, node: Node) -> object:
    adapter = _adapter(parameter.annotation)
    try:
        return adapter.validate_python(_plain(node))
    except ValidationError as error:
        raise InputError(list(_problems(role, parameter, node, error))) from None


@cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    # Hidden input: a value may be a secret, and the message shows it in words of our own anyway.
    try:
        return TypeAdapter(annotation, config=ConfigDict(hide_input_in_errors=True, arbitrary_types_allowed=True))
    except Exception:
        # Types that bring a configuration of their own (models, dataclasses) take none from here.
        return TypeAdapter(annotation)


def _plain(node: Node) -> object:
    """Return text, lists and dictionaries; an unquoted null becomes None."""
    match node:
        case Scalar():
            return None if is_null(node) else node.text
        case Sequence(items=items):
            return [_plain(item) for item in items]
        case Mapping(entries=entries):
            return {key.text: _plain(value) for key, value in entries}


def _problems(role: Role, parameter: Parameter, node: Node, error: ValidationError) -> list[Problem]:
    problems: dict[Problem, None] = {}
    for detail in error.errors(include_url=False, include_input=False):
        place, path = _at(node, detail["loc"])
        name = f"parameter {parameter.name!r}" + "".join(f", {step}" for step in path)
        wanted = type_words(parameter.annotation)
        own = detail["type"] in ("value_error", "assertion_error")
        why = str(detail["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
        expected = why if own else f"expected {wanted}, found {describe(place)}"
        hint = "" if own or not path else why[:1].lower() + why[1:]
        if (
            isinstance(place, Scalar)
            and typing.get_origin(parameter.annotation) is typing.Literal
            and not is_null(place)
        ):
            hint = nearest(place.text, map(str, typing.get_args(parameter.annotation)))
        problems[Problem(f"role {role.name!r}, {name}: {expected}", place.position, hint)] = None
    return list(problems)


def _at(node: Node, loc: tuple[int | str, ...]) -> tuple[Node, tuple[str, ...]]:
    """Follow a validation location into the text as far as it leads; union tags and the like are passed over."""
    path: list[str] = []
    for step in loc:
        if isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
            path.append(f"item {step + 1}")
        elif isinstance(node, Mapping) and (found := node.get(str(step))) is not None:
            node = found
            path.append(f"key {str(step)!r}")
    return node, tuple(path)
