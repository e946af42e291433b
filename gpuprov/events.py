"""What the engine says while it works: the only source of output.

Live table, plain log, ``--json``, history and report read this one stream. Every event is a frozen
value; `as_json` gives the documented, versioned form (one JSON object a line). Text from hosts is
already decoded and redacted when it gets here, but it is still untrusted: a reader escapes it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from gpuprov.errors import ErrorRecord

VERSION = 1
"""Raised when a field is removed or changes its meaning; new fields do not raise it."""

Phase = Literal["waiting", "connect", "lock", "facts", "probe", "plan", "converge", "verify", "done"]
HostStatus = Literal["ok", "changed", "failed", "unreachable", "interrupted"]


@dataclass(frozen=True, kw_only=True)
class Event:
    """Base of all events. ``at``: seconds since the epoch on the controller."""

    name: ClassVar[str] = ""
    at: float = field(default_factory=time.time)


@dataclass(frozen=True, kw_only=True)
class RunStarted(Event):
    """The words and files are right; hosts will be contacted now."""

    name = "run-started"
    run: str
    """Run id, such as ``20261130-133250-4f1c``: sorts by time, safe as a file name."""
    command: Literal["plan", "apply", "facts", "exec"]
    playbook: str = ""
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HostPhase(Event):
    """A host moved on. ``note``: what it waits for or does, in a few words."""

    name = "host-phase"
    host: str
    phase: Phase
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class PlanLine(Event):
    """One node of a host's plan, in the order in which it would be done.

    ``verdict`` is ``same``, ``change``, ``recheck``, ``blocked`` or ``not-selected``. For ``recheck``, ``after`` names
    what is done first and the change is provisional.
    """

    name = "plan-line"
    host: str
    play: str
    role: str
    id: str
    verdict: Literal["same", "change", "recheck", "blocked", "not-selected"]
    action: str = ""
    before: str = ""
    after: str = ""
    why: str = ""
    diff: str = ""
    steps: tuple[str, ...] = ()
    rechecked_after: tuple[str, ...] = ()
    reports: bool = False
    """Shown also when it is as wanted: a check."""


@dataclass(frozen=True, kw_only=True)
class PlanReady(Event):
    """All `PlanLine` events of this host's play were sent. ``undeclared``: what we made and nobody declares now."""

    name = "plan-ready"
    host: str
    play: str
    counts: dict[str, int] = field(default_factory=dict)
    undeclared: tuple[str, ...] = ()
    note: str = ""
    """Such as ``may change after play 1``."""


@dataclass(frozen=True, kw_only=True)
class NodeStarted(Event):
    """The first step of a node begins."""

    name = "node-started"
    host: str
    role: str
    id: str
    title: str


@dataclass(frozen=True, kw_only=True)
class NodeOutput(Event):
    """One line that a step printed on the host, decoded and redacted, without its newline."""

    name = "node-output"
    host: str
    id: str
    line: str


@dataclass(frozen=True, kw_only=True)
class NodeProgress(Event):
    """How far a step is. ``total`` is 0 when not known; ``unit`` is ``bytes`` or ``items``."""

    name = "node-progress"
    host: str
    id: str
    done: int
    total: int
    unit: Literal["bytes", "items"] = "bytes"


@dataclass(frozen=True, kw_only=True)
class NodeEnded(Event):
    """A node is through. ``outcome`` is an `gpuprov.model.OutcomeKind`."""

    name = "node-ended"
    host: str
    role: str
    id: str
    outcome: Literal["same", "changed", "failed", "skipped", "not-selected", "unseen"]
    because: str = ""
    seconds: float = 0.0
    action: str = ""
    error: ErrorRecord | None = None


@dataclass(frozen=True, kw_only=True)
class Notice(Event):
    """Something worth a line: a warning, or what a reader at ``-v`` wants to know. ``host`` may be empty."""

    name = "notice"
    level: Literal["warning", "info", "debug"]
    text: str
    host: str = ""


@dataclass(frozen=True, kw_only=True)
class FactsRead(Event):
    """A host's facts as plain JSON-ready data; ``summary`` is what it is at a glance, as label and value."""

    name = "facts-read"
    host: str
    facts: dict[str, Any]
    summary: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class CommandEnded(Event):
    """What one command printed on one host (``gpuprov exec``)."""

    name = "command-ended"
    host: str
    status: int
    stdout: str
    stderr: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class HostEnded(Event):
    """A host is through. ``counts`` maps outcome (``same``, ``changed``, ``failed`` …) to number of nodes.

    For ``plan``, ``counts`` holds the verdicts instead. ``exchanges``: round trips that carried a frame.
    """

    name = "host-ended"
    host: str
    status: HostStatus
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    exchanges: int = 0
    error: ErrorRecord | None = None


@dataclass(frozen=True, kw_only=True)
class RunEnded(Event):
    """The last event. ``next``: a command worth typing now, or empty."""

    name = "run-ended"
    run: str
    exit_code: int
    seconds: float
    next: str = ""


Sink = Callable[[Event], None]
"""A reader of the stream. It must not block and must not raise."""


def as_json(event: Event) -> dict[str, Any]:
    """Return the event as JSON-ready data: ``{"v": 1, "event": NAME, …}``."""
    return {"v": VERSION, "event": event.name, **dataclasses.asdict(event)}
