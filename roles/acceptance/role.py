"""What renters check by hand on a GPU host, layer by layer. Nothing is changed."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator

from gpuprov.errors import InputError
from gpuprov.facts import Facts
from gpuprov.model import Resource
from gpuprov.resources.acceptance import (
    Check,
    ContainerCheck,
    NvccCheck,
    SmiCheck,
    TorchCheck,
    how_to_make,
    pending_words,
)
from gpuprov.resources.conda_env import CondaEnv
from gpuprov.resources.cuda_toolkit import CudaToolkit
from gpuprov.resources.declared_env import (
    EnvRef,
    declared_env,
    env_folder,
    missing_env_folder,
    new_env_folder,
)
from gpuprov.resources.driver import check_driver
from gpuprov.resources.pip_package import PipPackage
from gpuprov.resources.wheel import BuiltWheel
from gpuprov.role import role

R = TypeVar("R", bound=Resource[Any])

FLASH_ATTN = "flash_attn"


def _match(pattern: str, words: str) -> Any:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"must be {words}, not {text!r}")
        return text

    return AfterValidator(check)


CudaVersion = Annotated[str, _match(r"[0-9]{1,2}\.[0-9]{1,2}", "X.Y, such as 11.7")]
Release = Annotated[str, _match(r"[0-9][A-Za-z0-9.!+]*", "a release, such as 1.0.9")]
Module = Annotated[str, _match(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*", "the name of a Python module")]


@role
def acceptance(
    host: Facts,
    *,
    env: EnvRef | None = None,
    cuda: CudaVersion | None = None,
    flash_attn: Release | None = None,
    module: Module = FLASH_ATTN,
) -> Iterator[Resource[Any]]:
    """Check each layer, from the driver to the kernels. Nothing is installed or changed.

    It is looked at after what roles before it declared was made. On an instance that was started without its card
    (`gpu:` in the inventory names the model that was rented) what needs one is pending.

    Parameters:

    - `env`: the environment whose torch is tried, its name or its path. Left out: torch is not checked.
    - `cuda`: the toolkit whose nvcc is tried. Left out: nvcc is not checked.
    - `flash_attn`: the release of flash-attention that must be there. Left out: that which a role before declared.
    - `module`: what is imported of it, for another package that is built in the same way.
    """
    if env is None and (flash_attn is not None or module != FLASH_ATTN):
        raise InputError("role 'acceptance', parameter 'env': it is missing, and a package is to be tried in it")
    pending = pending_words(host.expected_gpu or "") if check_driver(host).pending else ""
    yield SmiCheck(pending=pending)
    if cuda is not None:
        yield _nvcc(host, cuda)
    yield ContainerCheck()
    if env is not None:
        yield _torch(host, env, cuda or "", flash_attn, module, pending)


def _nvcc(host: Facts, cuda: str) -> Check:
    toolkit = _declared(host, CudaToolkit, cuda)
    if toolkit is not None:
        return NvccCheck(cuda=cuda, folder=toolkit.place or "/", after=(toolkit,))
    there = [found for found in host.toolkits or () if found.version == cuda and found.compiler]
    return NvccCheck(cuda=cuda, folder=there[0].path if there else f"/usr/local/cuda-{cuda}")


def _torch(host: Facts, env: str, cuda: str, flash_attn: str | None, module: str, pending: str) -> Check:
    place: CondaEnv | None = None
    missing = ""
    try:
        place = declared_env(host, env)
    except InputError:
        # No role of this playbook makes it; then it must be there, and what is not is told by the check, as a
        # layer of its own: the others hold or fail by themselves
        folder = env_folder(host, env) or missing_env_folder(host, env)
        missing = _how_to_have(host, folder)
    else:
        folder = place.path
    torch = _declared(host, PipPackage, f"{folder}/torch")
    names = dict.fromkeys((module.partition(".")[0].replace("_", "-"), module.partition(".")[0]))
    wheels = [_declared(host, BuiltWheel, f"{folder}/{name}") for name in names]
    packages = [_declared(host, PipPackage, f"{folder}/{name}") for name in names]
    wheel = next(filter(None, wheels), None)
    package = next(filter(None, packages), None)
    tried = flash_attn is not None or module != FLASH_ATTN or wheel is not None or package is not None
    known = wheel or package
    return TorchCheck(
        folder=folder,
        version=torch.version if torch else "",
        cuda=cuda,
        # A card that is cut in slices is shown once, and each process is given one slice
        cards=sum(not gpu.mig for gpu in host.gpus or ()),
        pending=pending,
        module=module if tried else "",
        module_version=flash_attn or (known.version if known else ""),
        compare=(wheel.check if wheel else _compare(module)) if tried else "",
        missing=missing,
        after=tuple(resource for resource in (place, torch, wheel, package) if resource is not None),
    )


def _how_to_have(host: Facts, folder: str) -> str:
    """Return what to do when there is no environment at a folder: a shipped playbook where that makes it there."""
    name = posixpath.basename(folder)
    try:
        by_name = new_env_folder(host, name) == folder
    except InputError:
        by_name = True
    make = how_to_make(name) if by_name else f"make it with the role conda_env, prefix: {folder}"
    there = ", ".join(sorted(found.path for found in host.envs or () if found.path != folder))
    return make + (f", or name one that is there: {there}" if there else "")


def _compare(module: str) -> str:
    """Return the comparison that is made of flash-attention when it is built; of another package none is known."""
    if module != FLASH_ATTN:
        return ""
    path = Path(__file__).resolve().parent.parent / "flash_attention" / "files" / "check.py"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _declared(host: Facts, cls: type[R], name: str) -> R | None:
    try:
        return host.declared(cls, name)
    except InputError:
        return None
