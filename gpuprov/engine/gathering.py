"""The exchange that reads facts. Pure."""

from __future__ import annotations

from gpuprov.errors import HostFailed
from gpuprov.facts import Facts, parse
from gpuprov.inventory import Host
from gpuprov.model import Paths
from gpuprov.onhost import script
from gpuprov.quote import quote
from gpuprov.transport.frame import Frame, FrameResult, Section

SECTION = "facts"


def facts_frame(paths: Paths, *, before: tuple[Section, ...] = (), prelude: str = "") -> Frame:
    """Return the frame that gathers facts, after other sections if there are any."""
    # Set in the section's own subshell: what facts.sh does to IFS and globbing must reach nobody else
    text = (
        f"gp_state={quote(paths.state)} gp_paths_toolkits={quote(paths.toolkits)} "
        f"gp_paths_envs={quote(paths.envs)} gp_paths_cache={quote(paths.cache)}\n{script('state')}{script('facts')}"
    )
    return Frame(sections=(*before, Section(name=SECTION, script=text)), prelude=prelude)


def facts_of(result: FrameResult, host: Host) -> Facts:
    """Return the facts of a host as its roles see them.

    Raises:
        HostFailed: the gathering did not come back at all.
    """
    section = result.sections.get(SECTION)
    if section is None or (section.status is None and not section.stdout):
        raise HostFailed(
            "gathering facts did not come back in time" + (f": {result.stuck}" if result.stuck else ""),
            where=host.name,
            hint="something on the host hangs; gpuprov exec HOST -- ps axo pid,stat,wchan,args shows what",
        )
    return parse(section.stdout).seen_as(name=host.name, groups=host.groups, expected_gpu=host.gpu)
