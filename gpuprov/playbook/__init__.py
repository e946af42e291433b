"""Plays and role entries, as people write them, and the templates in them."""

from __future__ import annotations

from gpuprov.playbook.check import check_names
from gpuprov.playbook.load import load_playbook
from gpuprov.playbook.plays import Play, Playbook, RoleEntry
from gpuprov.playbook.templating import Expression, Reference, names, needs_facts, render
from gpuprov.playbook.variables import Variables, parse_extra, resolve_variables, variables_of

__all__ = [
    "Expression",
    "Play",
    "Playbook",
    "Reference",
    "RoleEntry",
    "Variables",
    "check_names",
    "load_playbook",
    "names",
    "needs_facts",
    "parse_extra",
    "render",
    "resolve_variables",
    "variables_of",
]
