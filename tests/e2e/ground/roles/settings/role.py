"""States without a resource of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuprov.facts import Facts
from gpuprov.model import Resource
from gpuprov.resources import Command
from gpuprov.role import role


@role
def settings(host: Facts, *, folder: str) -> Iterator[Resource[Any]]:
    """A short command, and a long one that runs as a job."""
    yield Command(
        name="stamp",
        look=f"cat {folder}/stamp 2>/dev/null || true",
        want="stamped",
        script=f"echo stamped >{folder}/stamp.new && mv {folder}/stamp.new {folder}/stamp",
        writes=(f"{folder}/stamp",),
    )
    yield Command(
        name="slow",
        look=f"cat {folder}/slow 2>/dev/null || true",
        want="done",
        script=f"for i in 1 2 3; do echo step $i of 3; sleep 0.3; done; echo done >slow && mv slow {folder}/slow",
        long=True,
        writes=(f"{folder}/slow",),
    )
