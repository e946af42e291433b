"""The environment that a role's parameter names: a path, or a name among the folders that environments lie in."""

from __future__ import annotations

from gpuprov.errors import InputError
from gpuprov.facts import Facts
from gpuprov.model import normal_path
from gpuprov.resources.conda_env import CondaEnv


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


def _places(host: Facts, env: str) -> list[str]:
    if env.startswith("/"):
        return [normal_path(env, what="env")]
    conda = [f"{conda.path}/envs" for conda in host.conda or ()]
    folders = filter(None, (host.paths.envs, *conda, f"{host.user.home or '/root'}/envs"))
    return [normal_path(f"{folder}/{env}", what="env") for folder in folders]
