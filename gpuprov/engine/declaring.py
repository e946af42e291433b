"""Plays and facts to declarations: ``when``, parameters, and the roles' own functions. Pure but for the roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuprov.engine.checking import CheckedEntry, CheckedPlay
from gpuprov.engine.graph import Declaration, Origin
from gpuprov.errors import GpuprovError, HostFailed, InputError, Position, Problem
from gpuprov.facts import Facts
from gpuprov.inventory import Host
from gpuprov.model import Id, Resource
from gpuprov.playbook import render, resolve_variables
from gpuprov.role import bind, call_problems, where_raised
from gpuprov.yaml_text import Mapping as TextMapping
from gpuprov.yaml_text import Node, in_order

MOST_RESOURCES = 100_000
"""What one role may yield: more is a loop without an end."""


def declare(
    checked: CheckedPlay,
    host: Host,
    facts: Facts,
    extra: Mapping[str, Node],
    declared: dict[Id, Resource[Any]],
    left_out: list[str],
) -> list[Declaration]:
    """Return what a play declares for a host. ``declared`` holds what earlier plays did, and is added to.

    What a ``when`` left out is added to ``left_out``, in words.

    Raises:
        InputError: a parameter that depends on facts is wrong, or a name in it is; all of this play's at once. Or a
            role uses its resources wrongly, or says with a ValueError that a parameter cannot be.
        HostFailed: a role's function refused or failed; the message names it, and the place in the playbook.
    """
    roles_see = facts.seen_as(name=host.name, groups=host.groups, expected_gpu=host.gpu, declared=declared)
    declarations: list[Declaration] = []
    # All of them before the first role runs: what that one refuses would hide what is wrong with the next
    for entry, values, given in _bound(checked, resolve_variables(host, checked.play, extra, facts), left_out):
        origin = Origin(play=checked.number, role=entry.role.name, position=entry.entry.position)
        for resource in _run(entry, roles_see, values, _set_elsewhere(entry, given)):
            declared.setdefault(resource.id, resource)
            declarations.append(Declaration(resource=resource, origin=origin, selected=entry.selected))
    return declarations


def check_values(plays: Sequence[CheckedPlay], host: Host, facts: Facts, extra: Mapping[str, Node]) -> None:
    """See that the values of all plays are right now that facts are known, before a role of any of them runs.

    Raises:
        InputError: with every mistake at once.
    """
    problems: list[Problem] = []
    for checked in plays:
        try:
            _bound(checked, resolve_variables(host, checked.play, extra, facts), [])
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(in_order(problems))


def _bound(
    checked: CheckedPlay, variables: Mapping[str, object], left_out: list[str]
) -> list[tuple[CheckedEntry, dict[str, object], TextMapping]]:
    """Return the entries whose conditions hold, with their parameters, converted and as text.

    The others go to ``left_out``, in words.
    """
    if checked.play.when is not None and not checked.play.when.evaluate(variables):
        left_out.append(f"all of play {checked.title!r} is left out by its when: {checked.play.when.text}")
        return []
    problems: list[Problem] = []
    bound: list[tuple[CheckedEntry, dict[str, object], TextMapping]] = []
    for entry in checked.entries:
        try:
            if entry.entry.when is not None and not entry.entry.when.evaluate(variables):
                left_out.append(f"role {entry.role.name} is left out by its when: {entry.entry.when.text}")
            else:
                given = _rendered(entry, variables)
                bound.append((entry, bind(entry.role, given, entry.entry.position), given))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return bound


def _rendered(entry: CheckedEntry, variables: Mapping[str, object]) -> TextMapping:
    rendered = render(entry.entry.params, variables)
    assert isinstance(rendered, TextMapping)  # keys are not templates, so a mapping stays one
    return rendered


def _set_elsewhere(entry: CheckedEntry, given: TextMapping) -> str:
    """Say where parameters were set that the playbook takes from -e or the inventory; empty if it takes none."""
    written = entry.entry.position.file
    places = {key.text: node.position for key, node in given.entries if node.position.file != written}
    return ", ".join(f"{name} is set at {place}" for name, place in places.items())


def _yielded_wrongly(resource: object, number: int) -> str:
    """Return why what a role yielded is no resource that can be declared, or nothing. A ValueError comes through."""
    if number >= MOST_RESOURCES:
        return f"it yields more than {MOST_RESOURCES} resources"
    if not isinstance(resource, Resource):
        return f"it yields {type(resource).__name__}, which is no resource"
    try:
        # Asked here, so that a resource which cannot answer is said to be this role's
        _ = resource.id, resource.claims()
        strange = [one for one in resource.after if not isinstance(one, Resource)]
    except (GpuprovError, ValueError):
        raise
    except Exception as error:
        return f"a field of {type(resource).__name__} is not what it must be: {type(error).__name__}: {error}"
    return f"after of {resource.id} holds {strange[0]!r}, which is no resource" if strange else ""


def _run(entry: CheckedEntry, facts: Facts, values: Mapping[str, object], elsewhere: str) -> Any:
    file = entry.role.folder / "role.py"
    place = entry.entry.position
    try:
        declaring = entry.role.declare(facts, values)
        for number, resource in enumerate(declaring):
            if wrong := _yielded_wrongly(resource, number):
                frame = getattr(declaring, "gi_frame", None)
                line = Position(str(file), frame.f_lineno if frame is not None else 1, 1)
                raise InputError(Problem(f"role {entry.role.name!r}: {wrong}", line))
            yield resource
    except GpuprovError as error:
        # The role's own words; all that is missing is where in the playbook it was asked
        error.where = error.where or "; ".join(filter(None, (f"{place}, role {entry.role.name}", elsewhere)))
        raise
    except ValueError as error:
        # Resources refuse impossible fields this way: mostly a parameter's value that only they understand
        hint = "; ".join(filter(None, (elsewhere, f"raised at {where_raised(error, file)}")))
        raise InputError(Problem(f"role {entry.role.name!r}: {error}", place, hint)) from error
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        if problems := call_problems(error, file, entry.role.name):
            mistake = InputError(problems)
            mistake.where = f"{place}, role {entry.role.name}"
            raise mistake from error
        # A role that calls sys.exit() must end neither this process nor another host's work
        raise HostFailed(
            f"role {entry.role.name!r} failed: {type(error).__name__}: {error}",
            where=str(where_raised(error, file)),
            hint=f"it was asked for at {place}",
        ) from error
