"""The card that the inventory says was rented, against the tables and against the one that is there. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpuprov.facts import Facts
from gpuprov.inventory import Host
from gpuprov.knowledge import gpus


def card_warnings(host: Host, facts: Facts) -> Iterator[str]:
    """Yield what is doubtful about ``gpu`` of a host.

    It is no mistake: a card may be newer than the tables, and one that is there is judged by what it says itself.
    """
    if host.gpu is None:
        return
    said = f"the inventory says gpu: {host.gpu}" + (f" ({host.written['gpu']})" if "gpu" in host.written else "")
    others = Counter(card.name for card in facts.gpus or () if not gpus.is_card(card.name, host.gpu))
    if others:
        there = ", ".join(f"{count} x {name}" for name, count in others.items())
        yield f"{said}, and the host has {there}; what is there counts"
    elif not facts.gpus and not gpus.known(host.gpu):
        near = gpus.nearest_gpu(host.gpu)
        hint = f"; did you mean {near.name}?" if near else ""
        yield f"{said}, which is in no table; what depends on the card cannot be judged before it is there{hint}"
