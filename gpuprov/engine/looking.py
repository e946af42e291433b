"""Looking at a host: all probes of all plays in one exchange, and each play judged by what they saw."""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuprov import guard
from gpuprov.engine.checking import CheckedPlay
from gpuprov.engine.graph import Graph, Node
from gpuprov.engine.judging import Circumstances, changes, judge, plan_of
from gpuprov.engine.probing import batch
from gpuprov.engine.rights import Rights
from gpuprov.errors import HostFailed, Unseen
from gpuprov.model import Blocked, Change, Claims, Id, Probe, Verdict
from gpuprov.resources.apt import PROTECTED_APT
from gpuprov.transport.frame import Connection, Frame, FrameResult, Section

PROBE_TRIES = 5
"""How often probes behind a hung one are asked again."""

Probes = list[tuple[Id, Probe[Any]]]


@dataclass(kw_only=True)
class Planned:
    """A play on this host, judged: what it would change, and what of that the guard refuses."""

    checked: CheckedPlay
    graph: Graph
    states: Mapping[Id, Any]
    verdicts: Mapping[Id, Verdict]
    refusals: tuple[guard.Refusal, ...]


def probes_of(graphs: Sequence[Graph], *, root: bool) -> Probes:
    """Return what is to be looked at for all plays: each node, and the folder that a new one would need.

    Where we are not root, whether the claimed paths can be written is asked too.

    A later play's node may have the identity of an earlier one's and look for something else, so both are asked.
    """
    nodes = [(n, node) for n, graph in enumerate(graphs) for node in graph.values()]
    probes: Probes = [(_key(n, node.id), node.resource.probe()) for n, node in nodes]
    homes = [(n, node) for n, node in nodes if node.resource.needs_folder and node.container is None]
    probes += [(_home(n, node.id), _folder_probe(node)) for n, node in homes]
    claimed = sorted({path for _, node in nodes for path in node.resource.claims().paths})
    probes += [(_real(path), Probe(asks=(("real", path),), parse=_text)) for path in claimed]
    if not root:
        probes += [(_access(path), Probe(asks=(("write", path),), parse=_text)) for path in claimed]
    return probes


async def look(
    connection: Connection, probes: Probes, *, head: tuple[Section, ...] = (), prelude: str = ""
) -> tuple[dict[Id, Any], FrameResult]:
    """Return the state of every probe, and the first frame's result, which has the sections of ``head``.

    Probes behind one that hung are asked again.
    """
    states: dict[Id, Any] = {}
    first = FrameResult(sections={})
    for attempt in range(PROBE_TRIES):
        left = [(id_, probe) for id_, probe in probes if id_ not in states]
        sections = head if attempt == 0 else ()
        if not left and not sections:
            break
        looks = batch(left)
        result = await connection.frame(
            Frame(sections=(*sections, *looks.sections), prelude=(prelude if sections else "") + looks.prelude)
        )
        states.update(looks.read(result))
        first = result if attempt == 0 else first
    for id_, _ in probes:
        states.setdefault(id_, Unseen("it stood behind probes that hung, and was never asked"))
    return states, first


def _led_to(paths: Iterable[str], states: Mapping[Id, Any]) -> Claims:
    """Return where paths really lead, links of the folders above them resolved."""
    real = {states.get(_real(path)) for path in paths}
    return Claims(paths=frozenset(path for path in real if isinstance(path, str)))


def judged(
    plays: Sequence[CheckedPlay],
    graphs: Sequence[Graph],
    states: Mapping[Id, Any],
    *,
    rights: Rights,
    protected: Sequence[guard.Protected] = guard.PATHS,
) -> list[Planned]:
    """Judge each play by what `look` saw for `probes_of` the graphs.

    Args:
        rights: without what was asked of paths.
        protected: what no change may touch; what would is blocked, and so is what needs it.
    """
    planned = []
    for n, (play, graph) in enumerate(zip(plays, graphs, strict=True)):
        seen = {id_: states[_key(n, id_)] for id_ in graph}
        homeless = frozenset(id_ for id_ in graph if states.get(_home(n, id_), True) is None)
        paths = {path for node in graph.values() for path in node.resource.claims().paths}
        answers = {path: states.get(_access(path)) for path in paths}
        # What could not be asked is tried: the step itself says what it may not do
        access = {path: answer for path, answer in answers.items() if isinstance(answer, str)}
        allowed = dataclasses.replace(rights, access=access)
        circumstances = Circumstances(homeless=homeless, rights=allowed)
        verdicts = judge(graph, seen, circumstances)
        refusals = _refusals(graph, verdicts, states, protected)
        if refusals:
            verdicts = judge(graph, seen, dataclasses.replace(circumstances, refused=_refused(refusals)))
        planned.append(Planned(checked=play, graph=graph, states=seen, verdicts=verdicts, refusals=refusals))
    return planned


def _refusals(
    graph: Graph, verdicts: Mapping[Id, Verdict], states: Mapping[Id, Any], protected: Sequence[guard.Protected]
) -> tuple[guard.Refusal, ...]:
    changing = [node for node in graph.values() if node.selected and changes(verdicts[node.id])]
    claims = {node.id: node.resource.claims() for node in changing}
    refusals = guard.judge(claims, protected, PROTECTED_APT)
    # What is refused by its own name is not told again by the name that it leads to
    told = {(refusal.id, refusal.claim) for refusal in refusals}
    free = {id_: [path for path in claim.paths if (id_, path) not in told] for id_, claim in claims.items()}
    led_to = {id_: _led_to(paths, states) for id_, paths in free.items()}
    return refusals + guard.judge(led_to, protected, PROTECTED_APT)


def _refused(refusals: Sequence[guard.Refusal]) -> dict[Id, Blocked]:
    refused: dict[Id, list[guard.Refusal]] = {}
    for refusal in refusals:
        refused.setdefault(refusal.id, []).append(refusal)
    return {id_: Blocked("; ".join(one.words for one in found)) for id_, found in refused.items()}


def left_to_do(node: Node, states: Mapping[Id, Any]) -> Change | None:
    """Return what the final look still finds different; None also for what it could not see."""
    if node.id not in states or isinstance(states[node.id], Unseen):
        return None
    try:
        return plan_of(node, states[node.id])
    except HostFailed:
        return None


def _key(play: int, id_: Id) -> Id:
    return Id(f"{play}/{id_}")


def _home(play: int, id_: Id) -> Id:
    return Id(f"folder of {play}/{id_}")


def _real(path: str) -> Id:
    return Id(f"real path of {path}")


def _access(path: str) -> Id:
    return Id(f"access to {path}")


def _text(answer: bytes) -> str:
    return answer.decode("utf-8", "surrogateescape").rstrip("\n")


def _folder_probe(node: Node) -> Probe[bool]:
    """Say whether the folder above a node is there; None: it is not."""
    above = posixpath.dirname(node.resource.place or "/x")
    return Probe(asks=(("stat", above),), parse=lambda answer: None if answer.strip() == b"-" else True)
