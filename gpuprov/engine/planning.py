"""Verdicts to what a person reads: the plan's lines and counts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from gpuprov.engine.graph import Graph, Node
from gpuprov.engine.judging import may_change, provisional
from gpuprov.engine.looking import Planned
from gpuprov.errors import DidNotConverge, ErrorRecord
from gpuprov.events import HostStatus, NodeEnded, PlanLine
from gpuprov.model import Blocked, Change, Differs, Id, Recheck, Same, Verdict


def plan_lines(
    host: str, play: str, graph: Graph, verdicts: Mapping[Id, Verdict], states: Mapping[Id, Any]
) -> Iterator[PlanLine]:
    """Yield a line for each node, in the order in which they would be done."""
    for node in graph.values():
        verdict = verdicts[node.id]
        change = provisional(verdict)
        yield PlanLine(
            host=host,
            play=play,
            role=node.origin.role,
            id=node.id,
            verdict=_word(node, verdict),
            action=change.action if change else "",
            before=change.before if change else "",
            after=change.after if change else as_wanted(node, states.get(node.id)) if isinstance(verdict, Same) else "",
            why=_why(verdict) if isinstance(verdict, Blocked) else change.why if change else "",
            diff=change.diff if change else "",
            steps=tuple(step.title for step in change.steps) if change else (),
            rechecked_after=verdict.after if isinstance(verdict, Recheck) else (),
            reports=node.resource.reports,
        )


def idle_notes(planned: Iterable[Planned], left_out: Mapping[int, Sequence[str]]) -> dict[int, str]:
    """Return for each play, by its number, why nothing of it is done, where that is so for all of the host's plays.

    Args:
        planned: the plays.
        left_out: what conditions left out of each.
    """
    plans = tuple(planned)
    if any(node.selected for plan in plans for node in plan.graph.values()):
        return {}
    notes = {plan.checked.number: list(left_out.get(plan.checked.number, ())) for plan in plans}
    for plan in plans:
        if plan.graph:
            notes[plan.checked.number].append("the tags asked for leave out all that it declares")
    return {number: "; ".join(why) for number, why in notes.items() if why}


def status_of_plan(planned: Iterable[Planned]) -> HostStatus:
    """Return how a host's plan ends: failed where something is blocked, changed where it differs."""
    plans = tuple(planned)
    blocked = any(verdict_counts(plan.graph, plan.verdicts).get("blocked") for plan in plans)
    differs = any(may_change(plan.verdicts, plan.graph) for plan in plans)
    return "failed" if blocked else "changed" if differs else "ok"


def verdict_counts(graph: Graph, verdicts: Mapping[Id, Verdict]) -> dict[str, int]:
    """Return how many nodes have which verdict."""
    return dict(Counter(_word(node, verdicts[node.id]) for node in graph.values()))


def ended_undone(host: str, node: Node, left: Change) -> NodeEnded:
    """Return the event for a node that was as wanted, and in the final look is not."""
    error = DidNotConverge(
        f"it was as wanted, and something later in this run undid it: {left.before}, wanted {left.after}",
        where=f"{host}, {node.id}",
        hint="two resources of the playbook contradict each other",
    )
    return NodeEnded(
        host=host,
        role=node.origin.role,
        id=node.id,
        outcome="failed",
        because=error.message,
        error=ErrorRecord.of(error),
    )


def _why(verdict: Blocked) -> str:
    last = verdict.output.strip().splitlines()[-1:]
    return "; ".join(filter(None, (verdict.because, *last, verdict.hint)))


def as_wanted(node: Node, state: Any) -> str:
    """Return in words what a node that is as wanted has."""
    try:
        return node.resource.tell(state)
    except Exception:  # it only adds words to a line
        return ""


Word = Literal["same", "change", "recheck", "blocked", "not-selected"]


def _word(node: Node, verdict: Verdict) -> Word:
    if not node.selected:
        return "not-selected"
    match verdict:
        case Differs():
            return "change"
        case Recheck():
            return "recheck"
        case Blocked():
            return "blocked"
    return "same"
