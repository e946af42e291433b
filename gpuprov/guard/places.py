"""The inventory's own paths against what must never be touched: locks, jobs and downloads are written there. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuprov.errors import Problem, Refused
from gpuprov.facts import Facts
from gpuprov.guard.claims import PATHS, Protected, on_host, reached
from gpuprov.inventory import Host

_NAMES = ("toolkits", "envs", "cache", "state")


def protected_paths(hosts: Iterable[Host]) -> list[Problem]:
    """Return which ``paths`` of the inventory lie in what is protected on every host; no host is asked."""
    found: dict[Problem, None] = {}
    for host in hosts:
        for name in _written(host):
            path = getattr(host.paths, name)
            # Whose home it is is not known yet; what is protected in one is so in each
            absolute = f"/root{path[1:]}" if path.startswith("~/") else path
            if protected := reached(absolute, PATHS):
                found[Problem(_words(name, path, protected), host.written.get(f"paths.{name}"), _hint(name))] = None
    return list(found)


def refuse_paths(host: Host, facts: Facts) -> None:
    """Refuse ``paths`` of the inventory that lie in what this host has of its own: a CUDA of the image, conda's base.

    Raises:
        Refused: with the place in the inventory.
    """
    protected = on_host(facts)
    for name in _written(host):
        path = getattr(facts.paths, name)
        if path and (touched := reached(path, protected)):
            where = host.written.get(f"paths.{name}", host.position)
            raise Refused(_words(name, path, touched), where=f"{host.name}, {where}", hint=_hint(name))


def _written(host: Host) -> Iterator[str]:
    """What the inventory says; what it leaves open is decided on the host, beside all that is protected."""
    return (name for name in _NAMES if f"paths.{name}" in host.written)


def _words(name: str, path: str, protected: Protected) -> str:
    return f"paths.{name} is {path}, where gpuprov would write: {protected.pattern} is {protected.what}"


def _hint(name: str) -> str:
    return f"give paths.{name} a folder of its own, or leave it out"
