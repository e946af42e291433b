"""The NVIDIA driver works, and runs what is wanted. It is never installed or changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator

from gpuprov.errors import InputError
from gpuprov.facts import Facts
from gpuprov.model import Resource
from gpuprov.resources.driver import check_driver
from gpuprov.role import role


def _cuda(text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,2}\.[0-9]{1,2}(\.[0-9]{1,4})?", text):
        raise ValueError(f"a CUDA version is X.Y or a release X.Y.Z, such as 11.7 or 11.7.1, not {text!r}")
    return text


def _driver(text: str) -> str:
    if not re.fullmatch(r"[0-9]{3,4}(\.[0-9]{1,4}){0,2}", text):
        raise ValueError(f"a driver version is a number such as 525 or 525.60.13, not {text!r}")
    return text


@role
def driver(
    host: Facts,
    *,
    cuda: Annotated[str, AfterValidator(_cuda)] | None = None,
    minimum: Annotated[str, AfterValidator(_driver)] | None = None,
    gpus: int | None = None,
) -> Iterator[Resource[Any]]:
    """Check the NVIDIA driver: that it works, and that it runs what is wanted. Nothing is installed or changed.

    On an instance that was started without its card (`gpu:` in the inventory names the model that was rented) the check
    is pending, and the rest of the playbook goes on.

    Parameters:

    - `cuda`: a CUDA version whose programs must run, such as `11.7`. A driver older than that CUDA but of its major
      serves (minor-version compatibility), except for PTX.
    - `minimum`: the lowest driver version that will do, such as `525` or `525.60.13`.
    - `gpus`: how many GPUs must answer at least.
    """
    if gpus is not None and gpus < 0:
        raise InputError("role 'driver', parameter 'gpus': it must be a number of GPUs")
    yield check_driver(host, cuda=cuda, minimum=minimum, count=gpus)
