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
    if env.startswith("/"):
        return host.declared(CondaEnv, normal_path(env, what="env"))
    conda = [f"{conda.path}/envs" for conda in host.conda or ()]
    folders = filter(None, (host.paths.envs, *conda, f"{host.user.home or '/root'}/envs"))
    *others, last = [normal_path(f"{folder}/{env}", what="env") for folder in folders]
    for path in others:
        try:
            return host.declared(CondaEnv, path)
        except InputError:
            continue
    return host.declared(CondaEnv, last)
