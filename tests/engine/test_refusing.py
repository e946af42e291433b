"""What the guard refuses stands in the plan as blocked, one line a thing, and nothing that needs it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuprov.engine.graph import build
from gpuprov.engine.looking import Planned, judged, probes_of
from gpuprov.engine.planning import plan_lines, verdict_counts
from gpuprov.engine.rights import Rights
from gpuprov.facts import Conda, Facts, Service, Toolkit
from gpuprov.guard import PATHS, on_host
from gpuprov.model import Blocked, Differs
from gpuprov.resources import Command
from tests.engine.things import Thing, Writer, declare

CUDA = "/usr/local/cuda"
HOST = Facts(
    toolkits=(Toolkit(path=CUDA, real=f"{CUDA}-12.1", link=True), Toolkit(path=f"{CUDA}-12.1", real=f"{CUDA}-12.1")),
    conda=(Conda(path="/opt/conda"),),
    services=(Service(kind="jupyter", pid=7, argv=("/opt/conda/bin/python", "/opt/conda/bin/jupyter")),),
)


def plan(*declared: Any, real: Mapping[str, str] | None = None) -> Planned:
    """``real``: where paths lead."""
    graph = build(declared)
    asked = {id_: probe.asks for id_, probe in probes_of([graph], root=True)}
    states = {id_: (real or {}).get(asks[0][1]) if asks else None for id_, asks in asked.items()}
    play: Any = None
    (planned,) = judged([play], [graph], states, rights=Rights(), protected=(*PATHS, *on_host(HOST)))
    return planned


def test_what_is_refused_is_blocked_and_so_is_what_needs_it() -> None:
    evil = Writer(name="evil", writes=f"{CUDA}/x")
    planned = plan(*declare(evil, Thing(name="after", needs_=(evil,)), Thing(name="other")))
    verdicts = {id_.partition(":")[2]: verdict for id_, verdict in planned.verdicts.items()}
    assert verdicts["evil"] == Blocked(
        f"would touch {CUDA}/x: the image's default CUDA "
        "(install side by side under /usr/local/cuda-X.Y and switch with cuda-use)"
    )
    assert verdicts["after"] == Blocked("needs thing:evil, which is blocked")
    assert isinstance(verdicts["other"], Differs)
    assert verdict_counts(planned.graph, planned.verdicts) == {"blocked": 2, "change": 1}
    lines = {line.id: line for line in plan_lines("h", "p", planned.graph, planned.verdicts, planned.states)}
    assert (lines[evil.id].verdict, lines[evil.id].action) == ("blocked", "")
    assert lines[evil.id].why.startswith(f"would touch {CUDA}/x: the image's default CUDA (install side by side")


def test_each_thing_has_one_line_with_its_own_hint() -> None:
    """Though /opt/conda is protected as conda's base and as the running Jupyter's, and the CUDA link twice as well."""
    writes = ("/etc/ld.so.conf.d/x", "/opt/conda/bin/pip", f"{CUDA}")
    command = Command(name="c", look="true", want="x", script="true", writes=writes)
    assert list(map(str, plan(*declare(command)).refusals)) == [
        "command:c would touch /etc/ld.so.conf.d/x: the linker's search path of every program "
        "(set LD_LIBRARY_PATH for the program that needs it)",
        "command:c would touch /opt/conda/bin/pip: conda's base environment "
        "(make an environment of its own (role conda_env))",
        "command:c would touch /usr/local/cuda: the image's default CUDA "
        "(install side by side under /usr/local/cuda-X.Y and switch with cuda-use)",
    ]


def test_a_path_is_told_by_one_of_its_names() -> None:
    real = {f"{CUDA}/x": f"{CUDA}-12.1/x", "/srv/link/x": f"{CUDA}-12.1/x"}
    command = Command(name="c", look="true", want="x", script="true", writes=tuple(real))
    refusals = plan(*declare(command), real=real).refusals
    assert [refusal.claim for refusal in refusals] == [f"{CUDA}/x", f"{CUDA}-12.1/x"]
    assert [refusal.claim for refusal in plan(*declare(Writer(name="a", writes=f"{CUDA}/x")), real=real).refusals] == [
        f"{CUDA}/x"
    ]


def test_what_the_tags_leave_out_or_is_as_wanted_is_not_refused() -> None:
    evil = Writer(name="evil", writes=f"{CUDA}/x")
    assert not plan(*declare(evil, selected=False)).refusals
    assert not plan(*declare(Writer(name="evil", writes=f"{CUDA}/x", present=False))).refusals
