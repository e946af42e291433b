"""What is known of each host so far: the stream folded into one small state per host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuprov.errors import ErrorRecord
from gpuprov.events import (
    Event,
    HostEnded,
    HostPhase,
    NodeEnded,
    NodeOutput,
    NodeProgress,
    NodeStarted,
    Notice,
    PlanLine,
    PlanReady,
    RunEnded,
    RunStarted,
)

TROUBLE = ("failed", "unreachable", "interrupted")


@dataclass(kw_only=True)
class NodeView:
    """A node that is being changed. ``began``: seconds since the epoch."""

    id: str
    role: str
    title: str
    began: float
    done: int = 0
    total: int = 0
    unit: str = ""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Something that went wrong on a host; ``id`` is empty when it was the host itself."""

    host: str
    id: str
    error: ErrorRecord


@dataclass(kw_only=True)
class HostView:
    """One host. ``status`` is ``waiting``, ``running`` or how it ended; ``seconds`` counts once it ended.

    It ended as a `gpuprov.events.HostStatus`, or after a plan as ``differs``.
    """

    name: str
    status: str = "waiting"
    phase: str = "waiting"
    note: str = ""
    began: float | None = None
    phase_began: float | None = None
    seconds: float = 0.0
    exchanges: int = 0
    running: dict[str, NodeView] = field(default_factory=dict)
    line: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether the host is through."""
        return self.status not in ("waiting", "running")

    @property
    def trouble(self) -> bool:
        """Whether it needs a person's eye: it ended badly, or a node of it has failed already."""
        return self.status in TROUBLE or bool(self.failures)


class Board:
    """Folds the stream. ``hosts`` keeps the order in which the run names them; unknown ones come last.

    What is kept per host does not grow with the run, apart from its failures.
    """

    def __init__(self) -> None:
        self.command = ""
        self.playbook = ""
        self.run = ""
        self.hosts: dict[str, HostView] = {}
        self.warnings: list[tuple[str, str]] = []
        self.began: float | None = None
        self.ended: RunEnded | None = None
        self.undeclared: dict[str, tuple[str, ...]] = {}

    def host(self, name: str) -> HostView:
        """Return the host's state, made on first sight."""
        return self.hosts.setdefault(name, HostView(name=name))

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if self.began is None:
            self.began = event.at
        match event:
            case RunStarted():
                self.run, self.command, self.playbook = event.run, event.command, event.playbook
                for name in event.hosts:
                    self.host(name)
            case HostPhase():
                self._phase(event)
            case PlanLine():
                self._begin(event.host, event.at)
            case PlanReady() if event.undeclared:
                self.undeclared[event.host] = event.undeclared
            case NodeStarted():
                view = self._begin(event.host, event.at)
                view.running[event.id] = NodeView(id=event.id, role=event.role, title=event.title, began=event.at)
            case NodeOutput():
                self._begin(event.host, event.at).line = event.line[-4096:]
            case NodeProgress():
                node = self._begin(event.host, event.at).running.get(event.id)
                if node is not None:
                    node.done, node.total, node.unit = event.done, event.total, event.unit
            case NodeEnded():
                self._node_ended(event)
            case Notice(level="warning"):
                if (event.host, event.text) not in self.warnings:
                    self.warnings.append((event.host, event.text))
            case HostEnded():
                self._host_ended(event)
            case RunEnded():
                self.ended = event

    def _begin(self, name: str, at: float) -> HostView:
        view = self.host(name)
        if view.status == "waiting":
            view.status = "running"
        if view.began is None:
            view.began = view.phase_began = at
        return view

    def _phase(self, event: HostPhase) -> None:
        view = self.host(event.host)
        if event.phase not in ("waiting", "done"):
            self._begin(event.host, event.at)
        if view.phase != event.phase:
            view.phase_began = event.at
        view.phase, view.note = event.phase, event.note

    def _node_ended(self, event: NodeEnded) -> None:
        view = self._begin(event.host, event.at)
        view.running.pop(event.id, None)
        view.counts[event.outcome] += 1
        if not view.running:
            view.line = ""
        error = event.error
        if error is None and event.outcome in ("failed", "unseen"):
            error = ErrorRecord(code=event.outcome, message=event.because or "no reason was given")
        if error is not None and event.outcome not in ("skipped", "same"):
            view.failures.append(Failure(host=event.host, id=event.id, error=error))

    def _host_ended(self, event: HostEnded) -> None:
        view = self.host(event.host)
        # A plan changes nothing: what it found is a difference.
        view.status = "differs" if self.command == "plan" and event.status == "changed" else event.status
        view.phase, view.note, view.line = "done", "", ""
        view.seconds, view.exchanges = event.seconds, event.exchanges
        view.running.clear()
        if event.counts:
            view.counts = Counter(event.counts)
        if event.error is not None and all(failure.error != event.error for failure in view.failures):
            view.failures.append(Failure(host=event.host, id="", error=event.error))

    def statuses(self) -> Mapping[str, int]:
        """Return how many hosts are in each status."""
        return Counter(view.status for view in self.hosts.values())

    def names(self, *statuses: str) -> list[str]:
        """Return the hosts in one of these statuses, in the run's order."""
        return [name for name, view in self.hosts.items() if view.status in statuses]
