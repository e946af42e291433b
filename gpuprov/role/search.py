"""Finding roles: the folders beside the playbook first, then those that come with gpuprov."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from gpuprov.errors import InputError, Position, Problem
from gpuprov.role.declaration import ATTRIBUTE, NoRole, Role, placed
from gpuprov.role.mistakes import MODULES, role_trace, where_raised
from gpuprov.shipped import shipped
from gpuprov.yaml_text import nearest


@dataclass(frozen=True, kw_only=True)
class SearchPath:
    """Where roles are looked for, in order. The built-in folder comes last and is searched always."""

    folders: tuple[Path, ...] = ()
    _loaded: dict[str, Role] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def beside(cls, playbook: Path) -> SearchPath:
        """Return the search path of a playbook: ``roles/`` beside it, and beside its folder, then the built-in ones."""
        folder = playbook.resolve().parent
        candidates = (folder / "roles", folder.parent / "roles")
        return cls(folders=tuple(dict.fromkeys(c for c in candidates if c != shipped("roles"))))

    def names(self) -> tuple[str, ...]:
        """Return the names of all roles that can be found."""
        found = {p.parent.name for folder in self._all() for p in folder.glob("*/role.py")}
        return tuple(sorted(found))

    def find(self, name: str, position: Position | None = None) -> Role:
        """Return a role by name.

        Raises:
            InputError: there is none (with the nearest name), or its file cannot be used.
        """
        if name not in self._loaded:
            self._loaded[name] = self._load(name, position)
        return self._loaded[name]

    def shadows_builtin(self, found: Role) -> bool:
        """Say whether a user's role stands before a built-in one of the same name."""
        return not found.builtin and (shipped("roles") / found.name / "role.py").is_file()

    def _all(self) -> tuple[Path, ...]:
        return (*self.folders, shipped("roles"))

    def _load(self, name: str, position: Position | None) -> Role:
        if name.isidentifier():
            for folder in self._all():
                file = folder / name / "role.py"
                if file.is_file():
                    return _import(name, file, builtin=folder == shipped("roles"))
        raise InputError(Problem(f"there is no role {name!r}", position, self._hint(name)))

    def _hint(self, name: str) -> str:
        """Say what stands where the role was looked for, or where else it is; else the nearest name."""
        searched = f"roles are looked for beside the playbook and beside its folder: {', '.join(map(str, self._all()))}"
        for folder in (found for each in self._all() if _is_folder(found := each / name)):
            if (folder / "role.py").is_file():
                return f"{folder} is there, but a role's name must be one that a Python function can have"
            if any(_is_folder(folder / part) for part in _ANSIBLE):
                return f"{folder} is an Ansible role, which is none here; docs/roles.md tells how to write its role.py"
            return f"{folder} is there and lacks role.py; docs/roles.md tells how to write it"
        above = [parent / "roles" for each in self.folders[:1] for parent in each.parents]
        for other in (Path("roles").absolute(), *above):
            if other not in self._all() and (other / name / "role.py").is_file():
                return f"there is one in {other}, but {searched}"
        return nearest(name, self.names()) or searched


_ANSIBLE = ("tasks", "handlers", "defaults", "meta")
"""Folders that an Ansible role has, one of them at least."""


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _import(name: str, file: Path, *, builtin: bool) -> Role:
    # The path is part of the module's name, so that two roles folders may hold roles of one name.
    module_name = f"{MODULES}{sha256(str(file).encode()).hexdigest()[:12]}.{name}"
    spec = importlib.util.spec_from_file_location(module_name, file)
    if spec is None or spec.loader is None:
        raise InputError(Problem(f"role {name!r} cannot be imported", Position(str(file), 1, 1)))
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and type hints look their module up by name.
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except NoRole as error:
        del sys.modules[module_name]
        place = where_raised(error, file)
        problems = [Problem(f"role {name!r} cannot be imported: {message}", place) for message in error.mistakes]
        if error.role != name and not re.search(rf"^def {name}\b", file.read_text(errors="replace"), re.MULTILINE):
            problems.append(_unnamed(name, [error.role], file))
        raise InputError(problems) from error
    except (Exception, SystemExit) as error:
        del sys.modules[module_name]
        message = f"role {name!r} cannot be imported: {type(error).__name__}: {error}"
        raise InputError(Problem(message, where_raised(error, file)), trace=role_trace(error)) from error
    roles = [getattr(value, ATTRIBUTE) for value in vars(module).values() if hasattr(value, ATTRIBUTE)]
    found = [role for role in roles if role.name == name]
    if not found:
        raise InputError(_unnamed(name, [role.name for role in roles], file))
    return placed(found[0], file.parent, builtin=builtin)


def _unnamed(name: str, defined: Sequence[str], file: Path) -> Problem:
    other = f"; it defines {', '.join(sorted(set(defined)))}" if defined else ""
    return Problem(f"this file must define a function {name!r} decorated with @role{other}", Position(str(file), 1, 1))
