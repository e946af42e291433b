"""Small resources for tests of the model's rules: their state is a word, and nothing is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from gpuprov.engine.graph import Declaration, Origin
from gpuprov.errors import HostFailed
from gpuprov.model import Change, Claims, Id, Probe, Resource, Run


@dataclass(frozen=True, kw_only=True)
class Thing(Resource[str]):
    """Wants its state to be ``want``; ``refuse`` makes planning fail."""

    kind = "thing"
    inside = "home"

    name: str
    want: str = "there"
    needs_: tuple[Resource[Any], ...] = ()
    home: Resource[Any] | None = None
    at: str | None = None
    refuse: bool = False

    @property
    def id(self) -> Id:
        return Id(f"thing:{self.name}")

    @property
    def place(self) -> str | None:
        return self.at

    def probe(self) -> Probe[str]:
        return Probe(script=f"look {self.name}", parse=lambda raw: raw.decode() or None)

    def plan(self, now: str | None) -> Change | None:
        if self.refuse:
            raise HostFailed("cannot be judged")
        want = self.want if self.present else None
        if now == want:
            return None
        action = "create" if now is None else "remove" if want is None else "update"
        return Change(
            action=action,  # type: ignore[arg-type]  # one of the literal words, by the line above
            before=now or "absent",
            after=want or "absent",
            steps=(Run(title=f"make {self.name}", script=f"make {self.name} {want}"),),
        )


@dataclass(frozen=True, kw_only=True)
class Folder(Thing):
    """A thing that holds what lies under its path."""

    kind = "folder"
    holds = True

    @property
    def id(self) -> Id:
        return Id(f"folder:{self.at}")


@dataclass(frozen=True, kw_only=True)
class Package(Thing):
    """A thing whose declaration without a version agrees with one that has it."""

    version: str | None = None

    def merge(self, other: Self) -> Self | None:
        if self.version and other.version:
            return None
        return self if self.version else other


@dataclass(frozen=True, kw_only=True)
class Writer(Thing):
    """A thing that stands nowhere and writes somewhere."""

    writes: str

    def claims(self) -> Claims:
        return Claims(paths=frozenset({self.writes}))


def declare(*resources: Resource[Any], selected: bool = True, role: str = "r", play: int = 1) -> list[Declaration]:
    return [Declaration(resource=r, origin=Origin(play=play, role=role), selected=selected) for r in resources]
