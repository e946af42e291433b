"""What a role's author got wrong, told as other mistakes are: the class, the nearest valid name, the line in the role.

A role is a file that somebody wrote. Where it uses what gpuprov gives it in a way that cannot be right on any host,
that is an `InputError`; whatever else its own code raises fails the host that it was run for.
"""

from __future__ import annotations

import dataclasses
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from gpuprov.errors import Position, Problem
from gpuprov.model import Resource
from gpuprov.yaml_text import nearest

_CALL = re.compile(r"(?:\w+\.)*(?P<name>\w+)\.__init__\(\) (?P<what>.*)", re.DOTALL)
_FOREIGN = re.compile(r"got an unexpected keyword argument '(\w+)'")
_TWICE = re.compile(r"got multiple values for (?:keyword )?argument '(\w+)'")
MODULES = "gpuprov_roles_"
"""How the names of the modules begin that are made of roles' files."""
_MAKING = ("__init__", "__post_init__")


def call_problems(error: BaseException, file: Path, role: str) -> list[Problem]:
    """Return what is wrong with the call of a resource's class, or another with fields; none if it is not that.

    Args:
        error: what the role's function raised.
        file: the role's, to name the line.
        role: its name.
    """
    place = where_raised(error, file)
    if isinstance(error, TypeError) and (found := _CALL.match(str(error))):
        cls = _class_called(found["name"], error)
        if cls is not None:
            return [Problem(f"role {role!r}: {message}", place, hint) for message, hint in _of_call(cls, found["what"])]
    making = _being_made(error)
    if making is not None and not isinstance(error, ValueError):
        message = f"{making.__name__} cannot be made of these fields: {type(error).__name__}: {error}"
        return [Problem(f"role {role!r}: {message}", place, _fields_hint(making))]
    return []


def _of_call(cls: type[Any], what: str) -> Iterator[tuple[str, str]]:
    """Yield message and hint for each mistake that Python's sentence about a call names."""
    name = cls.__name__
    if found := _FOREIGN.match(what):
        fields = _field_names(cls)
        yield f"{name} has no field {found[1]!r}", nearest(found[1], fields) or _fields_hint(cls)
    elif found := _TWICE.match(what):
        yield f"the field {found[1]!r} of {name} is given twice", ""
    elif what.startswith("missing"):
        for field in re.findall(r"'(\w+)'", what):
            yield f"{name} needs the field {field!r}", ""
    else:
        yield f"the fields of {name} are given by name", f"such as {name}({_field_names(cls)[0]}=…)"


def _fields_hint(cls: type[Any]) -> str:
    return "its fields are " + ", ".join(_field_names(cls))


def _field_names(cls: type[Any]) -> list[str]:
    """Return the fields that can be given: a class's own, then those of every resource."""
    common = [field.name for field in dataclasses.fields(Resource)]
    names = [field.name for field in dataclasses.fields(cls) if field.init]
    return sorted(names, key=lambda name: name in common)


def _class_called(name: str, error: BaseException) -> type[Any] | None:
    """Return the class of that name which the raising line can have called, if its fields are known."""
    seen = list(_frames(error.__traceback__))
    near = [value for frame in seen[-1:] for value in (*frame.f_locals.values(), *frame.f_globals.values())]
    for found in (*near, *_below(Resource)):
        if isinstance(found, type) and found.__name__ == name and dataclasses.is_dataclass(found):
            return found
    return None


def _below(cls: type[Any]) -> Iterator[type[Any]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _below(sub)


def _being_made(error: BaseException) -> type[Any] | None:
    """Return the resource's class in whose making an error arose."""
    for frame in _frames(error.__traceback__):
        made = frame.f_locals.get("self") if frame.f_code.co_name in _MAKING else None
        if isinstance(made, Resource):
            return type(made)
    return None


def _frames(trace: TracebackType | None) -> Iterator[FrameType]:
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def role_trace(error: BaseException) -> str:
    """Return an error's traceback from where it came into a role's file; empty if it was in none."""
    trace = error.__traceback__
    while trace is not None and not str(trace.tb_frame.f_globals.get("__name__", "")).startswith(MODULES):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace)) if trace is not None else ""


def where_raised(error: BaseException, file: Path) -> Position:
    """Return the innermost line of ``file`` on an error's way; line 1 when it was never there."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return Position(str(file), error.lineno or 1, error.offset or 1)
    line, trace = 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return Position(str(file), line, 1)
