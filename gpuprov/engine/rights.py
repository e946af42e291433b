"""Whether a change can be made with the rights that a connection has: told in the plan, before any step. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuprov.errors import HostFailed
from gpuprov.facts import User
from gpuprov.model import Change, Put, Resource

_KEEPS_OWNER = ("file", "directory")
"""Kinds that leave what they update to its owner."""


@dataclass(frozen=True, kw_only=True)
class Rights:
    """What the connection may do on a host.

    Attributes:
        root: everything; also when it is not known who it is.
        user: who it is.
        never: sudo is not tried, as the inventory says ``become: never``.
        access: what may be written of the claimed paths, in the words of the ask ``write``; not asked for root.
    """

    root: bool = True
    user: User = field(default_factory=User)
    never: bool = False
    access: Mapping[str, str] = field(default_factory=dict)

    def check(self, resource: Resource[Any], change: Change) -> None:
        """Raise HostFailed for a change that only root could make."""
        if self.root or resource.raises_rights:
            return
        claims = resource.claims()
        owner = getattr(resource, "owner", "") if resource.present else ""
        closed = [path for path in sorted(claims.paths) if not self._may_write(path, resource, change)]
        if claims.apt:
            self._refuse("installing or removing packages")
        elif closed:
            self._refuse(f"writing {', '.join(closed)}")
        elif owner and owner not in (self.user.name, str(self.user.uid)):
            self._refuse(f"giving it to {owner}")

    def _may_write(self, path: str, resource: Resource[Any], change: Change) -> bool:
        answer = self.access.get(path, "above")
        if answer == "theirs" and change.action == "update" and resource.kind in _KEEPS_OWNER:
            # What replaces it would have to be given to its owner, and no mode of his can be changed
            return bool(getattr(resource, "owner", "")) and any(isinstance(step, Put) for step in change.steps)
        if answer == "file":
            # What is renamed or removed is written in the folder above; only mode and owner are the file's own
            return change.action == "update" and not any(isinstance(step, Put) for step in change.steps)
        return answer != "no"

    def _refuse(self, what: str) -> None:
        who = f"user {self.user.name}" if self.user.name else "this user"
        if self.never:
            raise HostFailed(
                f"{what} needs root, and {who} is not root; become: never in the inventory forbids sudo",
                hint="leave become: never out where the user has sudo without a password, or log in as root "
                "(user: root in the inventory)",
            )
        raise HostFailed(
            f"{what} needs root, and {who} is not root and has no sudo without a password",
            hint="log in as root (user: root in the inventory), or as a user with sudo without a password",
        )
