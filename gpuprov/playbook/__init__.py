"""Plays and role entries, as people write them, and the templates in them."""

from __future__ import annotations

from gpuprov.playbook.check import check_names
from gpuprov.playbook.grounds import Ground, grounds_of
from gpuprov.playbook.known import Known
from gpuprov.playbook.load import load_playbook, read_playbook
from gpuprov.playbook.plays import Play, Playbook, RoleEntry
from gpuprov.playbook.templating import Expression, Reference, all_names, names, needs_facts, render
from gpuprov.playbook.variables import Variables, parse_extra, read_extra, resolve_variables, variables_of

__all__ = [
    "Expression",
    "Ground",
    "Known",
    "Play",
    "Playbook",
    "Reference",
    "RoleEntry",
    "Variables",
    "all_names",
    "check_names",
    "grounds_of",
    "load_playbook",
    "names",
    "needs_facts",
    "parse_extra",
    "read_extra",
    "read_playbook",
    "render",
    "resolve_variables",
    "variables_of",
]
