"""A conda environment as a kernel of the Jupyter that runs on the host already."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from gpuprov.errors import HostFailed, InputError
from gpuprov.facts import Facts
from gpuprov.model import Resource, normal_path
from gpuprov.resources import Directory, File
from gpuprov.resources.conda_env import CondaEnv
from gpuprov.resources.cuda_toolkit import CudaToolkit
from gpuprov.resources.declared_env import EnvRef, declared_env
from gpuprov.resources.pip_package import PipPackage
from gpuprov.role import role


@dataclass(frozen=True, kw_only=True)
class KernelSpec(File):
    """A ``kernel.json``. It appears after what it starts, as Jupyter offers whatever it finds."""

    kind: ClassVar[str] = "jupyter-kernel"

    env: CondaEnv
    ipykernel: PipPackage


def _kernel(name: str) -> str:
    # https://jupyter-client.readthedocs.io/en/stable/kernels.html#kernel-specs
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name) or not name.strip("."):
        raise ValueError(f"a kernel's name is letters, digits and ._-, not {name!r}")
    if re.fullmatch(r"python[0-9.]*", name, re.IGNORECASE):
        raise ValueError(f"{name} is the name of the server's own kernel, which stays as it is")
    return name


KernelName = Annotated[str, AfterValidator(_kernel)]


@role
def jupyter_kernel(
    host: Facts,
    *,
    env: EnvRef,
    name: KernelName | None = None,
    display_name: str | None = None,
    cuda: str | None = None,
    ipykernel: str = "6.29.5",
    user_home: str | None = None,
    data_dir: str | None = None,
) -> Iterator[Resource[Any]]:
    """Offer a conda environment as a kernel in the Jupyter that the provider runs.

    One file in the user's own Jupyter folder, and ipykernel in the environment. The running server, its packages and
    its kernels stay as they are, and it need not be restarted.

    Parameters:

    - `env`: the environment's name, or its path, as declared by `conda_env` before.
    - `name`: of the kernel's folder; left out: the environment's name.
    - `display_name`: what Jupyter shows; left out: `Python 3.10 (NAME)`.
    - `cuda`: the toolkit that the kernel sees first, such as `11.7`; left out: the one that was declared, if there is
      just one.
    - `ipykernel`: its version in the environment, unless `conda_env` pins one.
    - `user_home`: the home of the user that the server runs as; left out: that of the user we are.
    - `data_dir`: the server's data folder (`jupyter --data-dir`); left out: `.local/share/jupyter` in that home.
    """
    place = declared_env(host, env)
    folder_name = name or _named_after(place)
    try:
        kernel = host.declared(PipPackage, f"{place.path}/ipykernel")
    except InputError:
        kernel = PipPackage(env=place, name="ipykernel", version=ipykernel)
    yield kernel
    folder = posixpath.join(_data_dir(host, user_home, data_dir), "kernels", folder_name)
    # After the package: where that cannot be, no empty folder is left for Jupyter to find
    yield Directory(path=folder, parents=True, after=(kernel,))
    yield KernelSpec(
        path=posixpath.join(folder, "kernel.json"),
        content=_content(place, display_name or f"Python {place.minor} ({folder_name})", _toolkit(host, cuda)),
        env=place,
        ipykernel=kernel,
    )


def _named_after(env: CondaEnv) -> str:
    try:
        return _kernel(posixpath.basename(env.path))
    except ValueError as error:
        raise InputError(f"role 'jupyter_kernel', parameter 'name': {error}", hint="give the kernel a name") from error


def _data_dir(host: Facts, user_home: str | None, data_dir: str | None) -> str:
    if data_dir is not None:
        return normal_path(data_dir, what="data_dir")
    if user_home is not None:
        return posixpath.join(normal_path(user_home, what="user_home"), ".local/share/jupyter")
    # It then looks elsewhere (https://docs.jupyter.org/en/latest/use/jupyter-directories.html), and of another's
    # environment only the names are read.
    for variable in ("JUPYTER_DATA_DIR", "XDG_DATA_HOME"):
        if variable in (host.container.env or ()):
            raise HostFailed(
                f"this host sets {variable}, so that Jupyter's folder is not the usual one",
                hint="give data_dir: what `jupyter --data-dir` prints in the server's terminal",
            )
    if not host.user.home:
        raise HostFailed("this host did not tell the user's home", hint="give user_home")
    return posixpath.join(normal_path(host.user.home, what="home"), ".local/share/jupyter")


def _toolkit(host: Facts, cuda: str | None) -> CudaToolkit | None:
    if cuda is not None:
        return host.declared(CudaToolkit, cuda)
    try:
        return host.declared(CudaToolkit)
    except InputError:
        return None  # none was declared, or several, of which none is the one


def _content(env: CondaEnv, display_name: str, toolkit: CudaToolkit | None) -> str:
    first = [f"{env.path}/bin", *([f"{toolkit.path}/bin"] if toolkit else ())]
    # Jupyter puts the server's own variables in; a dollar of ours is doubled (string.Template).
    variables = {"PATH": ":".join(path.replace("$", "$$") for path in first) + ":${PATH}"}
    if toolkit:
        variables["CUDA_HOME"] = variables["CUDA_PATH"] = toolkit.path.replace("$", "$$")
    spec = {
        "argv": [f"{env.path}/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": display_name,
        "language": "python",
        "metadata": {"debugger": True},
        "env": variables,
    }
    return json.dumps(spec, indent=1, ensure_ascii=False) + "\n"
