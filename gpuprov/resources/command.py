"""The way out: a state that a script tells and another script brings about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from gpuprov.model import Change, Claims, Id, Job, Probe, Resource, Run, Step, normal_path
from gpuprov.resources import content
from gpuprov.resources.answers import shown
from gpuprov.secret import Secret

RUN_LIMIT = 60.0
"""Seconds that a command which is not ``long`` may be given: it shares the host's one shell with all else."""

JOB_DEADLINE = 3600.0
_SHOWN = 72
_COMMENT = re.compile(r"(?<!\S)#.*")
_OTHER_RIGHTS = re.compile(r"(?<![\w./-])(?:[\w./-]+/)?(?:sudo|doas|su|runuser|pkexec)(?![\w.-])")


@dataclass(frozen=True, kw_only=True)
class Command(Resource[str]):
    """A state for which there is no resource of its own.

    Attributes:
        name: what it is called; its identity.
        look: read-only sh that prints the state, well under a second. It must end with status 0; absence
            is something that it prints.
        want: what ``look`` prints when nothing is to do (compared without blanks at both ends).
        script: sh that brings it about; idempotent.
        long: it may take over two seconds, and runs as a job that survives a lost connection.
        deadline: seconds; None: 60, or an hour when ``long``.
        env: environment of ``script`` (not of ``look``).
        writes, apt, services: what ``script`` may write, install and restart: shown to the guard. Files and links in
            ``writes`` are put back when it fails or is cut off; what is in a folder is not.

    Raises:
        ValueError: a field cannot be what it must be.
    """

    kind: ClassVar[str] = "command"

    name: str
    look: str
    want: str
    script: str
    long: bool = False
    deadline: float | None = None
    env: Mapping[str, str | Secret] = field(default_factory=dict, hash=False)
    writes: tuple[str, ...] = ()
    apt: tuple[str, ...] = ()
    services: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.strip() or self.name != self.name.strip() or not self.name.isprintable():
            raise ValueError(f"name must be one line of text without blanks around it, not {self.name!r}")
        if not self.present:
            raise ValueError(f"command {self.name!r} cannot be absent; declare one whose script undoes it")
        for what, text in (("look", self.look), ("script", self.script)):
            if not text.strip() or "\0" in text:
                raise ValueError(f"{what} of command {self.name!r} must be a shell script")
        if self.deadline is not None and not 0 < self.deadline < float("inf"):
            raise ValueError(f"deadline of command {self.name!r} must be a number of seconds above 0")
        if not self.long and (self.deadline or 0) > RUN_LIMIT:
            raise ValueError(f"command {self.name!r} may take over {RUN_LIMIT:.0f} seconds; declare it with long=True")
        for what, names in (("writes", self.writes), ("apt", self.apt), ("services", self.services)):
            if isinstance(names, str):
                raise ValueError(f"{what} of command {self.name!r} must be a tuple of names, not one text")
        for name in self.env:
            if not (name.isascii() and name.isidentifier()):
                raise ValueError(f"{name!r} in env of command {self.name!r} cannot be the name of a variable")
        object.__setattr__(self, "writes", tuple(normal_path(p, what="writes") for p in self.writes))

    @property
    def id(self) -> Id:
        """``command:name``."""
        return Id(f"{self.kind}:{self.name}")

    @property
    def raises_rights(self) -> bool:
        """Whether its script becomes somebody else by itself."""
        return _OTHER_RIGHTS.search(_COMMENT.sub("", self.script)) is not None

    def probe(self) -> Probe[str]:
        """What ``look`` prints."""
        return Probe(script=self.look, parse=_parse)

    def plan(self, now: str | None) -> Change | None:
        """Compare what ``look`` printed with ``want``."""
        seen, want = (now or "").strip(), self.want.strip()
        if seen == want:
            return None
        multiline = "\n" in seen or "\n" in want
        return Change(
            action="create" if now is None else "update",
            before=_short(seen),
            after=_short(want),
            diff=content.unified(self.name, seen + "\n", want + "\n") if multiline else "",
            steps=(self._step(),),
        )

    def claims(self) -> Claims:
        """What it says it writes."""
        return Claims(paths=frozenset(self.writes), apt=frozenset(self.apt), services=frozenset(self.services))

    def _step(self) -> Step:
        if not self.long:
            return Run(title=self.name, deadline=self.deadline or RUN_LIMIT, env=self.env, script=self.script)
        return Job(
            title=self.name,
            deadline=self.deadline or JOB_DEADLINE,
            env=self.env,
            script=self.script,
            locks=frozenset({"apt"} if self.apt else ()),
        )


def _parse(data: bytes) -> str:
    return shown(data).strip()


def _short(text: str) -> str:
    """One line, cut to what a row of the plan can show."""
    if not text:
        return "nothing"
    first, *more = text.split("\n")
    return first[:_SHOWN] + ("…" if more or len(first) > _SHOWN else "")
