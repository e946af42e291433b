"""What a play is judged on before contact: each of its hosts with its variables, or what is sure of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuprov.inventory import Host, Inventory
from gpuprov.playbook.plays import Play
from gpuprov.playbook.variables import Layers, sure_variables
from gpuprov.yaml_text import Node


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What a play is judged on: a host and its variables. ``host`` None: whichever they are, with the sure ones."""

    host: Host | None
    variables: Layers


def grounds_of(
    play: Play, inventory: Inventory, hosts: Iterable[Host] | None, extra: Mapping[str, Node], *, extra_known: bool
) -> list[Ground]:
    """Return one ground for each host that a play gets; only one, without a host, where mistakes hide who that is."""
    known = extra_known and inventory.vars_known and not play.unread & {"hosts", "vars"}
    if hosts is None or not known or inventory.pattern_problems(play.hosts):
        return [Ground(host=None, variables=sure_variables(None, play, extra, extra_known=extra_known))]
    wanted = {host.name for host in hosts}
    selected = [host for host in inventory.select(play.hosts) if host.name in wanted]
    return [Ground(host=host, variables=sure_variables(host, play, extra)) for host in selected]
