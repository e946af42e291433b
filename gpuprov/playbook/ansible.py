"""Keys of Ansible's plays and role entries that are none here, and what is there instead."""

from __future__ import annotations

from collections.abc import Mapping

_TASKS = "there are no tasks; what is to be done is a role"
_MODULES = "there are no modules; what is to be done is a role"
_BECOME = "say 'become: auto' or 'become: never' in the inventory"
_SUDO = "leave it out: where the user is not root, sudo without a password is used"
_EACH = "leave it out: hosts do not wait for each other"
_FAILED = "leave it out: a host that fails ends no other host's work"
_REST = "leave it out: what depends on a failure is skipped, and the rest goes on"
_FACTS = "leave it out: facts are always read, in one trip"
_LOOP = "write the role once for each, or give it a list as a parameter"

PLAY: Mapping[str, str] = {
    "tasks": _TASKS,
    "pre_tasks": _TASKS,
    "post_tasks": _TASKS,
    "handlers": "there are no handlers; a role says what depends on what",
    "force_handlers": "there are no handlers; a role says what depends on what",
    "module_defaults": _MODULES,
    "collections": _MODULES,
    "gather_facts": _FACTS,
    "gather_subset": _FACTS,
    "gather_timeout": _FACTS,
    "fact_path": _FACTS,
    "become": _BECOME,
    "become_user": "leave it out: it is always root; 'become: auto' or 'become: never' stands in the inventory",
    "become_method": _SUDO,
    "become_flags": _SUDO,
    "become_exe": _SUDO,
    "remote_user": "say 'user' in the inventory",
    "user": "say 'user' in the inventory",
    "port": "say 'port' in the inventory",
    "connection": "say 'connection' in the inventory",
    "vars_files": "give it on the command line: -e @FILE",
    "vars_prompt": "give it on the command line: -e NAME=VALUE",
    "serial": f"{_EACH}; -f N bounds how many are worked on at a time",
    "throttle": f"{_EACH}; -f N bounds how many are worked on at a time",
    "strategy": _EACH,
    "order": f"{_EACH}; their order is that of the inventory",
    "any_errors_fatal": _FAILED,
    "max_fail_percentage": _FAILED,
    "ignore_unreachable": _FAILED,
    "ignore_errors": _REST,
    "check_mode": "give it on the command line: plan, or --check",
    "diff": "give it on the command line: --diff",
    "timeout": "give it on the command line: --timeout S",
    "environment": "a resource of a role says what its script needs",
    "import_playbook": "put its plays into this file, or run one after the other",
}
PARAMETERS = frozenset({"vars", "params", "parameters"})
"""Words for what stands under ``with``."""
ENTRY: Mapping[str, str] = {
    **{key: hint for key, hint in PLAY.items() if key not in ("user", "port", "timeout", "environment", "order")},
    **dict.fromkeys(PARAMETERS, "the parameters go under 'with'"),
    "loop": _LOOP,
    "with_items": _LOOP,
    "import_role": "write 'role: NAME'",
    "include_role": "write 'role: NAME'",
    "delegate_to": "say in 'hosts' of the play whom it is for",
    "run_once": "say in 'hosts' of the play whom it is for",
}
"""Of a role in long form. What may as well be a role's parameter is not among them."""
STANDS_FOR: Mapping[str, tuple[str, ...]] = {
    "tasks": ("roles",),
    "pre_tasks": ("roles",),
    "post_tasks": ("roles",),
    "vars_files": ("vars",),
    "vars_prompt": ("vars",),
    "import_playbook": ("hosts", "roles"),
}
"""What of a play these keys give."""
