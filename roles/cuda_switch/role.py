"""Clean switching between CUDA toolkits that lie side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from gpuprov.facts import Facts
from gpuprov.model import Resource, normal_path
from gpuprov.quote import quote
from gpuprov.resources import Directory, File, ProfileScript, Template, Templates
from gpuprov.role import role


def _toolkit(name: str) -> str:
    if not re.fullmatch(r"[0-9]{1,2}\.[0-9]{1,2}", name):
        raise ValueError(f"a toolkit is named X.Y, such as 12.1, not {name!r}")
    return name


ToolkitName = Annotated[str, AfterValidator(_toolkit)]

LIBRARY = "/usr/local/lib/gpuprov/cuda-switch.sh"

COMMANDS = {
    "cuda-env": 'eval "$(cuda-env X.Y)", eval "$(cuda-env none)"',
    "cuda-list": "cuda-list",
    "cuda-run": "cuda-run X.Y -- COMMAND...",
    "cuda-use": "cuda-use where the shell has no function of that name",
}

templates = Templates.beside(__file__)
files = Path(__file__).resolve().parent / "files"


@role
def cuda_switch(
    host: Facts, *, toolkits: str | None = None, default: ToolkitName | None = None
) -> Iterator[Resource[Any]]:
    """Switch between the CUDA toolkits of a host, and back to exactly what was there before.

    In login and interactive shells: `cuda-use 11.7`, `cuda-use none`, `cuda-list`. In scripts, cron and CI:
    `eval "$(cuda-env 11.7)"` and `cuda-run 11.7 -- COMMAND`. Nothing else of the host changes.

    Parameters:

    - `toolkits`: the folder that holds `cuda-X.Y`; where gpuprov puts toolkits when it is left out
      (`/usr/local` unless the inventory says otherwise).
    - `default`: the toolkit that login shells start with, such as `12.1`, unless one was chosen already. Left
      out, a login changes nothing.
    """
    folder = normal_path(toolkits or host.paths.toolkits, what="toolkits")
    if ":" in folder:
        raise ValueError(f"toolkits must not hold a colon, which PATH cannot hold either: {folder!r}")
    yield Directory(path="/usr/local/lib/gpuprov", parents=True)
    library = File(path=LIBRARY, content=(files / "cuda-switch.sh").read_text(encoding="utf-8"))
    yield library
    for name, usage in COMMANDS.items():
        yield Template(
            path=f"/usr/local/bin/{name}",
            source=templates("command.j2"),
            variables={
                "usage": usage,
                "toolkits": quote(folder),
                "library": quote(library.path),
                "function": "gpuprov_" + name.replace("-", "_"),
            },
            mode=0o755,
        )
    yield ProfileScript(name="cuda-switch", content=(files / "shell.sh").read_text(encoding="utf-8"))
    yield Template(
        path="/etc/profile.d/zzz-cuda-switch.sh",
        source=templates("login.j2"),
        variables={"default": quote(default or "")},
    )
