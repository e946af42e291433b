"""Files of every kind in a folder of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuprov.facts import Facts
from gpuprov.model import Resource
from gpuprov.resources import Directory, File, Symlink, Template, Templates
from gpuprov.role import role

templates = Templates.beside(__file__)


@role
def workspace(host: Facts, *, folder: str, greeting: str, cuda: str, files: int = 1) -> Iterator[Resource[Any]]:
    """A folder with a file, a template, a link and a folder below it."""
    yield Directory(path=folder, mode=0o750)
    yield Directory(path=f"{folder}/odd name's", mode=0o700)
    for number in range(files):
        yield File(path=f"{folder}/file{number}", content=f"{greeting}\nfile {number}\n", mode=0o640)
    yield File(path=f"{folder}/odd name's/$(touch pwned)", content=b"\x00\xff\n")
    yield Template(path=f"{folder}/stack.env", source=templates("stack.env.j2"), variables={"cuda": cuda, "host": host})
    yield Symlink(path=f"{folder}/current", target="stack.env")
