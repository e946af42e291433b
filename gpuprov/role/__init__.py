"""Roles: generator functions that declare resources.

The signature is the schema: parameters are keyword-only and annotated, and a playbook's text is converted
to what they say. The docstring is the reference page.
"""

from __future__ import annotations

from gpuprov.role.binding import bind, check_names, check_value, type_words
from gpuprov.role.declaration import Parameter, Role, role
from gpuprov.role.mistakes import call_problems, role_trace, where_raised
from gpuprov.role.search import SearchPath

__all__ = [
    "Parameter",
    "Role",
    "SearchPath",
    "bind",
    "call_problems",
    "check_names",
    "check_value",
    "role",
    "role_trace",
    "type_words",
    "where_raised",
]
