"""The environment that a role's parameter names: a path, or a name among the folders that environments lie in."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from gpuprov.errors import InputError
from gpuprov.facts import Facts
from gpuprov.model import normal_path
from gpuprov.resources.conda_env import CondaEnv


def _name_or_path(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty; give an environment's name or its absolute path, or leave the parameter out")
    if "/" in text and not text.startswith("/"):
        raise ValueError(f"give an environment's name or its absolute path, not {text!r}")
    return text


EnvRef = Annotated[str, AfterValidator(_name_or_path)]
"""A role's parameter that names an environment."""


def declared_env(host: Facts, env: str) -> CondaEnv:
    """Return the environment that a role before declared; ``env`` is its name or its absolute path.

    Raises:
        InputError: none was declared there.
    """
    *others, last = _places(host, env)
    for path in others:
        try:
            return host.declared(CondaEnv, path)
        except InputError:
            continue
    return host.declared(CondaEnv, last)


def env_folder(host: Facts, env: str) -> str | None:
    """Return the folder of an environment that is there already, whoever made it; None when there is none.

    ``env`` is its name, looked for where `declared_env` does and among all that were found, or its absolute path.
    """
    there = {found.path for found in host.envs or ()}
    named = sorted(path for path in there if path.rpartition("/")[2] == env)
    return next((path for path in (*_places(host, env), *named) if path in there), None)


def new_env_folder(host: Facts, name: str) -> str:
    """Return where an environment of that name is made, when nothing else is said.

    Raises:
        InputError: it could not be seen which conda the host has, on which that depends.
    """
    folder = host.paths.envs
    if not folder and host.conda is None:
        raise InputError(
            f"it could not be seen which conda this host has, and so not where {name} belongs",
            hint="give a prefix, or paths.envs in the inventory",
        )
    if not folder:
        folder = f"{host.conda[0].path}/envs" if host.conda else f"{host.user.home or '/root'}/envs"
    return normal_path(f"{folder}/{name}", what="paths.envs")


def missing_env_folder(host: Facts, env: str) -> str:
    """Return where an environment that is not there is looked for: its path, or where one of that name is made."""
    if env.startswith("/"):
        return normal_path(env, what="env")
    try:
        return new_env_folder(host, env)
    except InputError:
        return _places(host, env)[0]


def _places(host: Facts, env: str) -> list[str]:
    if env.startswith("/"):
        return [normal_path(env, what="env")]
    conda = [f"{conda.path}/envs" for conda in host.conda or ()]
    folders = filter(None, (host.paths.envs, *conda, f"{host.user.home or '/root'}/envs"))
    return [normal_path(f"{folder}/{env}", what="env") for folder in folders]
